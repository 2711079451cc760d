"""A Worker on two real nodes: what it put before something left is on disk, though its node is killed in the middle of the event."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import balanced, fleet
from tests.live.test_workers import CODE, WRANGLER
from tests.yardstick import PATIENCE_S
from wakeful import ObjectId
from wakeful.compat.workers import Request, load
from wakeful.runtime.node import Node
from wakeful.values.errors import Unavailable
from wakeful.values.ids import shard_of


def owner(node: Node, cls: str, key: str) -> str | None:
    return node.membership.owners[shard_of(ObjectId(cls, key))].owner


async def look(payer: Any) -> Any:
    """What it says once another node has it; who asks while it moves may be told that the connection broke."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Unavailable):
                return await (await payer.fetch(Request("http://localhost/look"))).json()
            await asyncio.sleep(0.1)


async def test_an_object_is_found_paid_by_another_node_after_a_kill_between_effect_and_end(
    postgres_schema_url: str, tmp_path: Path
) -> None:
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(CODE.replace("STEP", "1"))
    worker = load(tmp_path)
    with fleet(postgres_schema_url, 2, program="hosted.py", env={"WAKEFUL_HOSTED": str(tmp_path)}) as members:
        async with worker.app.connect(postgres_schema_url) as node:
            await balanced(node, members)
            # Its effect is a row of the other node, which lives on.
            charged = owner(node, "Counter", "one")
            key = next(key for n in range(100) if owner(node, "Payer", key := f"p{n}") != charged)
            payer, counter = worker.env.PAYERS.getByName(key), worker.env.COUNTERS.getByName("one")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(payer.fetch(Request("http://localhost/pay")), 2)  # its event goes on
            assert (await (await counter.fetch(Request("http://localhost/"))).json())[0] == 2, "it was charged"
            victim = next(member for member in members if member.name == owner(node, "Payer", key))
            victim.kill()
            assert await look(payer) == [1], "charged, and not marked as paid"
            assert (await (await counter.fetch(Request("http://localhost/"))).json())[0] == 3, "charged once"
    worker.unload()
