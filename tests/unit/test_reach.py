"""How long others are given to find a node by its name, before it stays out: in virtual time."""

from types import SimpleNamespace
from typing import Any

import pytest

from wakeful.runtime.contacts import check_back
from wakeful.store.protocol import NodeRow
from wakeful.testing.timewarp import Timewarp
from wakeful.values.errors import Unreachable

OTHER = NodeRow("other", "tcp:10.0.0.6:7400", 0, 0, "a test")


async def joins(address: str, *, dialled_after_ms: int) -> int:
    """How long it took until the other reached a node of that address, which it can't before; `Unreachable` as it says."""
    warp = Timewarp(0)
    warp.install()

    async def ask(row: NodeRow, *_: Any, **options: Any) -> str | None:
        return None if warp.now() >= dialled_after_ms else "nobody answers; try again"

    node: Any = SimpleNamespace(name="new", address=address, clock=warp)
    try:
        await check_back(node, [OTHER], ask)
        return warp.now()
    finally:
        warp.remove()


async def test_others_are_given_time_to_learn_a_name() -> None:
    """The first pod of a name was there a moment ago: for a while the others are still led to where it was."""
    assert 30_000 <= await joins("tcp:wakeful-0.wakeful-nodes:7400", dialled_after_ms=30_000) <= 35_000


async def test_a_name_that_they_don_t_learn_within_a_minute_stays_out() -> None:
    with pytest.raises(Unreachable, match=r"can't reach this one at tcp:wakeful-0.*--advertise"):
        await joins("tcp:wakeful-0.wakeful-nodes:7400", dialled_after_ms=90_000)


async def test_an_address_in_numbers_is_right_or_wrong_at_once() -> None:
    assert await joins("tcp:10.0.0.5:7400", dialled_after_ms=1_000) == 1_000
    with pytest.raises(Unreachable):
        await joins("tcp:10.0.0.5:7400", dialled_after_ms=5_000)
