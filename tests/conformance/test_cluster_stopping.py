"""A node of several that is asked to stop: what it has begun it ends, and nothing of it holds the others up."""

import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from cluster_stage import Cluster, key_of


async def test_a_timer_whose_start_note_is_on_its_way_when_the_node_stops_runs_and_holds_nothing_up(
    cluster: Cluster,
) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[0]
        key = key_of(owner)
        await troupe.cell(key).arm(1_000)
        await world.advance(milliseconds=990)
        owner.faults.gate = gate = asyncio.Event()  # nothing gets to the store any more
        await world.advance(milliseconds=20)
        stopping = asyncio.ensure_future(owner.stop())
        await world.advance(milliseconds=1)
        began = world.warp.now()
        owner.faults.gate = None
        gate.set()
        await stopping
        assert world.warp.now() - began < 500, "it waited for a timer that nobody ran"
        assert [(what, node) for what, node, _ in troupe.ran] == [(f"alarm {key}", owner.name)]
        await world.advance(seconds=10)
        assert len(troupe.ran) == 1


async def test_a_node_that_stops_keeps_its_lease_while_its_last_turns_run(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner, other = world.members[:2]
        key = key_of(owner)
        call = asyncio.ensure_future(
            troupe.at(other, key).add(8.0)
        )  # longer than a lease, shorter than the stop may take
        await world.advance(milliseconds=50)
        await owner.stop()
        assert await call == 1
        assert await troupe.at(other, key).add() == 2
