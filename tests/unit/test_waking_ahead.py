"""A due timer of a sleeping object waits for one trip to a server, not for two; and many that are due leave room for others."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wakeful import JobSpec, Limits
from wakeful.jobs.jobs import Jobs
from wakeful.runtime.dispatcher import Dispatcher
from wakeful.runtime.node import Node
from wakeful.store.protocol import Outcome
from wakeful.testing import World
from wakeful.testing.cluster_clients import Door
from wakeful.values.commits import Commit, Loaded
from wakeful.values.errors import Fenced
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

sys.path.append(str(Path(__file__).parent.parent / "conformance"))
from cluster_stage import Troupe, key_of, keys_of

TRIP_S = 0.010


def stage(**options: Any) -> tuple[Troupe, World]:
    troupe = Troupe()
    troupe.world = troupe.app.world(nodes=2, **options)
    return troupe, troupe.world


def slowed(node: Node, *, refuses: bool = False) -> list[ObjectId]:
    """From now on each trip takes its time; what is read by them."""
    store, seen = node.store, list[ObjectId]()
    commit, load = store.commit, store.load

    async def slow_commit(name: str, commits: Sequence[Commit]) -> list[Outcome]:
        await asyncio.sleep(TRIP_S)
        return [Fenced(one.shard, one.epoch) for one in commits] if refuses else await commit(name, commits)

    async def slow_load(ids: Sequence[ObjectId]) -> list[Loaded]:
        seen.extend(ids)
        await asyncio.sleep(TRIP_S)
        return await load(ids)

    store.commit, store.load = slow_commit, slow_load  # type: ignore[method-assign]
    return seen


async def test_a_sleeping_object_is_read_while_the_start_of_its_timer_is_noted() -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members
        assert owner.node is not None
        key = key_of(owner)
        await troupe.cell(key).add()
        due_at = world.warp.now() + 5_000
        await Jobs(Door(asker)).schedule(troupe.cell(key).work, "once", after="5s")
        owner.node.hibernation.sleep_all()
        seen = slowed(owner.node)
        await world.advance(seconds=6)
        [(_, at)] = troupe.runs("once")
        assert at - due_at == 10, "one trip"
        assert seen == [ObjectId("Cell", key)]
        assert await troupe.cell(key).add() == 2


async def test_one_that_is_awake_is_not_read_again() -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members
        assert owner.node is not None
        key = key_of(owner)
        await Jobs(Door(asker)).schedule(troupe.cell(key).work, "once", after="1s")
        await troupe.cell(key).add()
        seen = slowed(owner.node)
        await world.advance(seconds=2)
        assert len(troupe.runs("once")) == 1
        assert seen == []


async def test_a_call_that_comes_meanwhile_shares_the_read() -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members
        assert owner.node is not None
        key = key_of(owner)
        await Jobs(Door(asker)).schedule(troupe.cell(key).work, "once", after="1s")
        seen = slowed(owner.node)
        await world.advance(seconds=1, milliseconds=4)
        assert seen == [ObjectId("Cell", key)]
        assert await troupe.cell(key).add() == 1
        await world.advance(seconds=1)
        assert len(troupe.runs("once")) == 1
        assert seen == [ObjectId("Cell", key)]


async def test_what_was_read_for_nothing_is_forgotten() -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members
        assert owner.node is not None
        key = key_of(owner)
        await Jobs(Door(asker)).schedule(troupe.cell(key).work, "once", after="1s")
        seen = slowed(owner.node, refuses=True)
        await world.advance(seconds=1, milliseconds=4)
        assert seen == [ObjectId("Cell", key)]
        assert len(owner.node.loader._ahead) == 1
        await world.advance(milliseconds=10)
        assert owner.node.loader._ahead == {}
        assert troupe.runs("once") == []


async def test_the_first_of_many_are_on_their_way_to_disk_before_the_last_is_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    troupe, world = stage(limits=Limits(concurrent_turns=500))
    hand_out, sending = Dispatcher.hand_out, list[bool]()

    def watched(self: Dispatcher, timer: Timer) -> bool:
        sending.append(self._node.committer.is_sending)
        return hand_out(self, timer)

    async with world:
        asker, owner = world.members
        assert owner.node is not None
        slowed(owner.node)
        specs = [JobSpec(troupe.at(asker, key).work, (key,), after="5s") for key in keys_of(owner, 600)]
        await Jobs(Door(asker)).schedule_many(specs)
        await world.advance(seconds=4)
        monkeypatch.setattr(Dispatcher, "hand_out", watched)
        await world.advance(seconds=5)
        assert len(troupe.ran) == len(sending) == 600
        assert sending == [False] * 250 + [True] * 350
