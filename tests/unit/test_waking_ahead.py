"""A due timer of a sleeping object waits for one trip to a server, not for two; and many that are due leave room for others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.conformance.cluster_stage import Troupe, key_of, keys_of
from tests.sim.cluster_clients import Door
from wakeful import JobSpec, Limits
from wakeful.jobs.jobs import Jobs
from wakeful.runtime.dispatcher import Dispatcher
from wakeful.runtime.node import Node
from wakeful.store.protocol import Outcome
from wakeful.testing import World
from wakeful.values.commits import Commit, Loaded
from wakeful.values.errors import Fenced
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

TRIP_S = 0.010


class Play(NamedTuple):
    """Two nodes, and a cell that lives on the second of them."""

    troupe: Troupe
    world: World
    owner: Node
    key: str

    def ask(self, *specs: JobSpec) -> Awaitable[object]:
        """Schedule jobs from the other node."""
        return Jobs(Door(self.world.members[0])).schedule_many(specs)

    def job(self, key: str, after: str, *, pause_s: float = 0.0) -> JobSpec:
        return JobSpec(self.troupe.at(self.world.members[0], key).work, (key, pause_s), after=after)


@asynccontextmanager
async def played(**options: Any) -> AsyncIterator[Play]:
    troupe = Troupe()
    troupe.world = world = troupe.app.world(nodes=2, **options)
    async with world:
        member = world.members[1]
        assert member.node is not None
        yield Play(troupe, world, member.node, key_of(member))


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
    async with played() as play:
        cell = play.troupe.cell(play.key)
        await cell.add()
        due_at = play.world.warp.now() + 5_000
        await play.ask(play.job(play.key, "5s"))
        play.owner.hibernation.sleep_all()
        seen = slowed(play.owner)
        await play.world.advance(seconds=6)
        [(_, at)] = play.troupe.runs(play.key)
        assert at - due_at == 10, "one trip"
        assert seen == [ObjectId("Cell", play.key)]
        assert await cell.add() == 2


async def test_one_that_is_awake_is_not_read_again() -> None:
    async with played() as play:
        await play.ask(play.job(play.key, "1s"))
        await play.troupe.cell(play.key).add()
        seen = slowed(play.owner)
        await play.world.advance(seconds=2)
        assert len(play.troupe.runs(play.key)) == 1
        assert seen == []


async def test_a_call_that_comes_meanwhile_shares_the_read() -> None:
    async with played() as play:
        await play.ask(play.job(play.key, "1s"))
        seen = slowed(play.owner)
        await play.world.advance(seconds=1, milliseconds=4)
        assert seen == [ObjectId("Cell", play.key)]
        assert await play.troupe.cell(play.key).add() == 1
        await play.world.advance(seconds=1)
        assert len(play.troupe.runs(play.key)) == 1
        assert seen == [ObjectId("Cell", play.key)]


async def test_what_was_read_for_nothing_is_forgotten() -> None:
    async with played() as play:
        await play.ask(play.job(play.key, "1s"))
        seen = slowed(play.owner, refuses=True)
        await play.world.advance(seconds=1, milliseconds=4)
        assert seen == [ObjectId("Cell", play.key)]
        assert len(play.owner.loader._ahead) == 1
        await play.world.advance(milliseconds=10)
        assert play.owner.loader._ahead == {}
        assert play.troupe.runs(play.key) == []


@pytest.mark.sources_only("it swaps Dispatcher.hand_out, which is called directly by what was compiled with it")
async def test_the_first_of_many_are_on_their_way_to_disk_before_the_last_is_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand_out, sending = Dispatcher.hand_out, list[bool]()

    def watched(self: Dispatcher, timer: Timer) -> bool:
        sending.append(self._node.committer.is_sending)
        return hand_out(self, timer)

    async with played(limits=Limits(concurrent_turns=500)) as play:
        slowed(play.owner)
        await play.ask(*(play.job(key, "5s") for key in keys_of(play.world.members[1], 600)))
        await play.world.advance(seconds=4)
        monkeypatch.setattr(Dispatcher, "hand_out", watched)
        await play.world.advance(seconds=5)
        assert len(play.troupe.ran) == len(sending) == 600
        assert sending == [False] * 250 + [True] * 350


async def test_who_waits_for_a_slot_holds_nothing_that_was_read() -> None:
    """Else thousands of objects would be in memory for the sake of the three that may run."""
    async with played(limits=Limits(turns_of={"Cell": 3}, concurrent_turns=500)) as play:
        seen = slowed(play.owner)
        keys = keys_of(play.world.members[1], 1_200)
        await play.ask(*(play.job(key, "5s", pause_s=2.0) for key in keys))
        await play.world.advance(seconds=6)
        assert len(play.troupe.ran) == 3
        held = [found for found in play.owner.awake.values() if found.rows._begun is not None]
        assert held == []
        assert len(seen) <= 1_000, "what two trips take, before the first had to wait"
        await play.world.advance(minutes=15)
        assert len(play.troupe.ran) == 1_200


async def test_a_tenant_in_line_leaves_nobody_waiting_beside_free_slots() -> None:
    """The pause after so many is not the end of what may be handed out."""
    async with played() as play:
        keys = keys_of(play.world.members[1], 601)
        crowd = [play.job(keys[0], "5s", pause_s=300.0)] * 1_100
        await play.ask(*crowd, *(play.job(key, "5s", pause_s=300.0) for key in keys[1:]))
        await play.world.advance(seconds=6)
        assert len({what for what, _, _ in play.troupe.ran}) == 601


async def test_notes_that_were_too_many_at_once_are_followed_by_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would look again while the turns that they are for take long."""
    monkeypatch.setattr("wakeful.runtime.dispatcher.BACKLOG_MAX", 300)
    async with played() as play:
        await play.world.advance(minutes=2)  # after that no slow start looks for it
        slowed(play.owner)
        keys = keys_of(play.world.members[1], 800)
        await play.ask(*(play.job(key, "5s", pause_s=300.0) for key in keys))
        await play.world.advance(seconds=6)
        assert len(play.troupe.ran) == 800
