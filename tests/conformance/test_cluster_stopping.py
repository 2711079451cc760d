"""A node of several that is asked to stop: what it has begun it ends, and nothing of it holds the others up."""

import asyncio

import pytest

from tests.conformance.cluster_stage import Cluster, key_of
from wakeful.runtime import ended_epochs
from wakeful.store.protocol import Query


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


async def test_what_a_stop_cut_off_while_the_store_was_away_is_told_to_the_other_nodes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take its shards when the store is back, and nobody had died."""
    monkeypatch.setattr(ended_epochs, "known", lambda node: {})  # on another machine
    troupe, world = cluster(nodes=2)
    async with world:
        owner, other = world.members[:2]
        key = key_of(owner)
        await troupe.app.jobs.schedule(troupe.cell(key).work, "w", 600.0, after="1s")
        await world.advance(seconds=2)
        for member in world.members:
            member.faults.is_down = True
        stopping = asyncio.ensure_future(owner.stop())
        await world.advance(seconds=60)
        assert stopping.done()
        for member in world.members:
            member.faults.is_down = False
        await world.advance(seconds=60)
        assert [node for node, _ in troupe.runs("w")][:2] == [owner.name, other.name]
        assert other.node is not None
        [timer] = await other.node.store.find_timers(Query(cls="Cell", key=key))
        assert (timer.started > 0, timer.crashes) == (True, 0)


async def test_a_stop_while_the_store_is_away_does_not_wait_for_nodes_that_stand_still(cluster: Cluster) -> None:
    troupe, world = cluster(nodes=2)
    async with world:
        owner, other = world.members[:2]
        await troupe.at(owner, key_of(other)).add()  # so there is a link
        for member in world.members:
            member.faults.is_down = True
        other.stall()
        stopping = asyncio.ensure_future(owner.stop())
        await world.advance(seconds=30)
        assert stopping.done()
        await stopping
        other.go_on()
        for member in world.members:
            member.faults.is_down = False
