"""All rows of an object in memory at once, for code that can't wait, whatever happens while they are read."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from wakeful.policy.limits import Limits
from wakeful.runtime.env import Env
from wakeful.runtime.registry import Registry
from wakeful.runtime.rows import GATHER_ROWS, ObjectRows
from wakeful.store.protocol import Range
from wakeful.values.commits import SYSTEM, USER
from wakeful.values.ids import ObjectId
from wakeful.values.metrics import Meter

ID = ObjectId("Sample", "x")
PLENTY = 1_000_000


class Disk:
    """Rows on disk, and something that happens while they are read."""

    shared = False

    def __init__(self, *keys: str, meanwhile: Callable[[], None] | None = None) -> None:
        self.rows = {key: key.encode() for key in keys}
        self.meanwhile = meanwhile
        self.reads = 0

    async def scan(self, id: ObjectId, space: int, range: Range) -> Sequence[tuple[str, bytes]]:
        found = [(key, self.rows[key]) for key in sorted(self.rows) if key >= range.first] if space == USER else []
        self.reads += 1
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            happens()
        return found[: range.limit]


def rows_on(disk: Disk) -> ObjectRows:
    none: Any = None
    env = Env(
        name="n", registry=Registry(), store=cast("Any", disk), clock=none, dice=none, limits=Limits(),
        meter=Meter(lambda: 0), on_down=lambda _: None,
    )  # fmt: skip
    return ObjectRows(env, ID, None)


async def test_all_rows_are_there_after_one_gathering() -> None:
    disk = Disk(*(f"k{n:04}" for n in range(2 * GATHER_ROWS + 1)))
    rows = rows_on(disk)
    assert rows.whole(USER) is None
    assert rows.lacks((USER, "k0001"))
    await rows.gather(USER, PLENTY)
    assert rows.whole(USER) == disk.rows
    assert rows.look((USER, "k0001")) == b"k0001"
    assert not rows.lacks((USER, "none"))
    assert rows.lacks((SYSTEM, "k0001"))
    reads = disk.reads
    await rows.gather(USER, PLENTY)
    assert disk.reads == reads


async def test_more_than_the_bound_is_left_where_it_is() -> None:
    rows = rows_on(Disk("a", "b"))
    await rows.gather(USER, 3)
    assert rows.whole(USER) is None
    assert rows.bytes == 0
    await rows.gather(USER, 4)
    assert rows.whole(USER) == {"a": b"a", "b": b"b"}


@pytest.mark.parametrize("is_trimmed", [False, True])
async def test_what_is_on_its_way_to_the_disk_counts(is_trimmed: bool) -> None:
    disk = Disk("a", "b", "c")
    rows = rows_on(disk)
    rows.adopt({(USER, "b"): None, (USER, "c"): b"new", (USER, "d"): b"d"}, wiped=False, number=1)
    if is_trimmed:  # the commit is on disk after that was read, and the cache lets go of all
        disk.meanwhile = lambda: rows.on_saved(1, 0)
    await rows.gather(USER, PLENTY)
    assert rows.whole(USER) == {"a": b"a", "c": b"new", "d": b"d"}


async def test_a_turn_that_ends_meanwhile_counts() -> None:
    disk = Disk("a", "b")
    rows = rows_on(disk)

    def end_turn() -> None:
        rows.adopt({(USER, "b"): None, (USER, "c"): b"c"}, wiped=False, number=1)
        del disk.rows["b"]
        disk.rows["c"] = b"c"
        rows.on_saved(1, 0)

    disk.meanwhile = end_turn
    await rows.gather(USER, PLENTY)
    assert rows.whole(USER) == {"a": b"a", "c": b"c"}
