"""A timer that another node added reaches its owner: at once by a hint, by a scan where there are none, and no later when one is lost."""

from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, Troupe, key_of
from tests.sim.cluster_clients import Door
from wakeful import JobSpec
from wakeful.jobs.jobs import Jobs
from wakeful.store.protocol import Hint
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer


async def schedule(troupe: Troupe, asker: Member, key: str, token: str, after: str) -> None:
    await Jobs(Door(asker)).schedule(troupe.at(asker, key).work, token, after=after)


def stage(**options: Any) -> tuple[Troupe, World]:
    troupe = Troupe()
    troupe.world = troupe.app.world(nodes=3, **options)
    return troupe, troupe.world


async def test_a_job_added_by_another_node_runs_at_its_time_by_a_hint() -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        for token, after in (("now", "0s"), ("soon", "120ms"), ("later", "3s")):
            began = world.warp.now()
            await schedule(troupe, asker, key, token, after)
            await world.advance(seconds=4)
            ((node, at),) = troupe.runs(token)
            assert node == owner.name
            assert at - began == {"now": 0, "soon": 120, "later": 3_000}[token]


async def test_without_hints_it_runs_within_a_second_of_its_time() -> None:
    troupe, world = stage(listens=False)
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        for number in range(8):
            due_at = world.warp.now() + number * 130
            await schedule(troupe, asker, key, f"t{number}", f"{number * 130}ms")
            await world.advance(seconds=2.7)
            ((_, at),) = troupe.runs(f"t{number}")
            assert 0 <= at - due_at <= 1_000, "within a second, as promised"


async def test_a_lost_hint_costs_at_most_the_time_of_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members[:2]
        assert asker.node is not None
        monkeypatch.setattr(asker.node.store, "tell", _deaf)
        key = key_of(owner)
        for number in range(4):
            due_at = world.warp.now()
            await schedule(troupe, asker, key, f"t{number}", "0s")
            await world.advance(seconds=6.3)
            ((_, at),) = troupe.runs(f"t{number}")
            assert 0 <= at - due_at <= 5_000, "within five seconds, as promised"


async def _deaf(hints: Any) -> None:
    """A process that dies between its insert and its hint."""


async def test_a_job_that_one_object_sends_to_another_on_another_node_runs_at_once(cluster: Cluster) -> None:
    """It comes to disk with the turn's own commit, whoever owns its target."""
    troupe, world = cluster()
    async with world:
        sender, target = key_of(world.members[0]), key_of(world.members[1])
        due_at = world.warp.now() + 10
        await troupe.cell(sender).send(target, "sent", 10)
        await world.advance(seconds=2)
        ((node, at),) = troupe.runs("sent")
        assert node == world.members[1].name
        told = world.members[0].node is not None and world.members[0].node.store.listens
        assert at - due_at <= (100 if told else 1_000)


async def test_a_hint_is_a_place_to_look_and_never_believed() -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        assert asker.node is not None
        now = world.warp.now()
        shard = shard_of(ObjectId("Cell", key))
        await asker.node.store.tell([Hint(shard, now, now + 10_000), Hint(shard, now, now)])
        await world.advance(seconds=12)
        assert troupe.ran == []
        assert await world.due() == []


async def test_a_hint_for_a_shard_of_another_node_is_nothing_to_me() -> None:
    _, world = stage()
    async with world:
        first, second, third = world.members
        assert second.node is not None
        assert third.node is not None
        shard = next(iter(second.node.epochs))
        now = world.warp.now()
        await world.store.insert(
            [Timer(ObjectId("Cell", _key_in(shard)), "alarm", now + 60_000, now + 60_000, 1)], now=now
        )
        assert first.node is not None
        await first.node.store.tell([Hint(shard, now + 60_000, now + 60_000)])
        await world.settle()
        assert len(second.node.queue) == 1
        assert len(third.node.queue) == 0


def _key_in(shard: int) -> str:
    return next(f"h{number}" for number in range(10**6) if shard_of(ObjectId("Cell", f"h{number}")) == shard)


async def test_many_at_once_are_told_as_few_ranges_and_all_run() -> None:
    troupe, world = stage()
    async with world:
        asker = world.members[0]
        specs = [JobSpec(troupe.at(asker, f"m{number}").work, (f"m{number}",), after="500ms") for number in range(700)]
        due_at = world.warp.now() + 500
        await Jobs(Door(asker)).schedule_many(specs)
        await world.advance(seconds=2)
        assert sorted(what for what, *_ in troupe.ran) == sorted(f"m{number}" for number in range(700))
        assert max(at for *_, at in troupe.ran) - due_at <= 100


async def test_a_waiting_node_wakes_for_an_earlier_job_of_another_node() -> None:
    troupe, world = stage()
    async with world:
        asker, owner = world.members[:2]
        key = key_of(owner)
        await troupe.at(owner, key).arm(120_000)
        await world.advance(seconds=1)
        began = world.warp.now()
        await schedule(troupe, asker, key, "first", "5s")
        await world.advance(seconds=6)
        assert troupe.runs("first") == [(owner.name, began + 5_000)]


async def test_a_job_that_is_added_while_its_shard_moves_runs_once(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        tokens = []
        for number in range(40):
            asker = world.members[number % 2]
            await schedule(troupe, asker, f"v{number}", f"v{number}", f"{number * 20}ms")
            tokens.append(f"v{number}")
            if number == 10:
                await world.members[2].stop()
            elif number == 25:
                await world.members[2].start()
            await world.advance(milliseconds=7)
        await world.advance(seconds=8)
        assert sorted(what for what, *_ in troupe.ran) == sorted(tokens)
