"""A timer that another node added reaches its owner: at once by a hint, by a scan where there are none, and no later when one is lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, Troupe, key_of
from tests.sim.cluster_clients import Door
from wakeful import JobSpec
from wakeful.jobs.jobs import Jobs
from wakeful.policy.lease import lease_of
from wakeful.runtime.contacts import HERE
from wakeful.store.bucket import BucketStore
from wakeful.store.protocol import Hint, NodeRow
from wakeful.testing import World
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.members import Member
from wakeful.values.ids import SHARDS, ObjectId, shard_of
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


def is_owned(member: Member, key: str) -> bool:
    return member.node is not None and shard_of(ObjectId("Cell", key)) in member.node.epochs


async def _deaf(hints: Any) -> None:
    """A process that dies between its insert and its hint."""


# A bucket tells nobody: who wrote asks over the links to have it read.


def bucket_stage(folder: Path, bucket: EmulatedBucket | None = None) -> tuple[Troupe, World]:
    troupe, world = stage(store=(bucket or EmulatedBucket()).url(cache=folder))
    world.lease = lease_of(None, BucketStore.rhythm)  # as nodes have it there; a world has the usual one
    return troupe, world


async def link(world: World) -> None:
    """As nodes of real machines do every ten seconds, to see whether they reach each other."""
    for member in world.members:
        assert member.node is not None
        for row in member.node.membership.reachable():
            await member.node.routes.ask(row, HERE, timeout_ms=1_000)


async def _adding(troupe: Troupe, world: World, token: str, asker: int = 0) -> int:
    """How late a job begins that is due at once and was added by another node than its object's."""
    began = world.warp.now()
    await schedule(troupe, world.members[asker], key_of(world.members[1]), token, "0s")
    await world.advance(seconds=3)
    ((node, at),) = troupe.runs(token)
    assert node == world.members[1].name
    return at - began


async def test_on_a_bucket_a_job_added_by_another_node_begins_at_once_where_links_are_up(tmp_path: Path) -> None:
    troupe, world = bucket_stage(tmp_path)
    async with world:
        await link(world)
        for number in range(6):
            await world.advance(milliseconds=370)  # at any place between two looks
            assert await _adding(troupe, world, f"t{number}", asker=2 * (number % 2)) <= 100


async def test_on_a_bucket_a_job_begins_within_a_round_where_no_link_is_up(tmp_path: Path) -> None:
    troupe, world = bucket_stage(tmp_path)
    async with world:
        round_ms = BucketStore.rhythm.round_ms
        world.network.cut(world.members[1].name)
        late = [await _adding(troupe, world, f"t{number}") for number in range(4)]
        assert max(late) <= round_ms
        assert max(late) > 100, "else nothing is tried here"


def looks_of(world: World, patch: pytest.MonkeyPatch) -> list[str]:
    """Whom the nodes ask to look, from now on."""
    asked: list[str] = []
    for member in world.members:
        assert member.node is not None

        async def count(row: NodeRow, *what: Any, ask: Any = member.node.routes.ask, **options: Any) -> Any:
            asked.append(row.node)
            return await ask(row, *what, **options)

        patch.setattr(member.node.routes, "ask", count)
    return asked


async def test_on_a_bucket_many_jobs_for_one_node_are_said_by_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is under way to a node at a time, and none goes to a node that it does not concern."""
    troupe, world = bucket_stage(tmp_path)
    async with world:
        await link(world)
        asker, owner, _ = world.members
        await world.advance(seconds=3)
        asked = looks_of(world, monkeypatch)
        world.network.slow(lambda node, other: 200)
        keys = [f"m{number}" for number in range(300) if is_owned(owner, f"m{number}")][:60]
        await asyncio.gather(*(schedule(troupe, asker, key, key, "0s") for key in keys))
        for key in keys[:9]:
            await schedule(troupe, asker, key, f"{key} more", "0s")
        await world.advance(seconds=4)
        assert len(troupe.ran) == len(keys) + 9
        assert set(asked) == {owner.name}
        assert 1 <= len(asked) <= 3


async def test_on_a_bucket_nodes_that_have_nothing_to_do_ask_each_other_nothing_and_the_bucket_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request is paid for: what three idle nodes need is in docs/buckets.md."""
    bucket = EmulatedBucket()
    _, world = bucket_stage(tmp_path, bucket)
    async with world:
        await link(world)
        await world.advance(seconds=20)
        asked, before = looks_of(world, monkeypatch), bucket.counts.copy()
        await world.advance(minutes=5)
        assert asked == []
        made = bucket.counts - before
        assert made["create"] + made["put"] < 400, "a renewal each few seconds; with the usual lease it was 1,200"
        assert made["get"] < 2_500, "a look each two seconds"


async def test_on_a_bucket_what_a_node_hands_over_when_it_stops_is_taken_at_once(tmp_path: Path) -> None:
    _, world = bucket_stage(tmp_path)
    async with world:
        await link(world)
        leaving, *others = world.members
        await world.advance(milliseconds=3_700)
        await leaving.stop()
        await world.advance(milliseconds=100)
        assert sum(len(member.node.epochs) for member in others if member.node is not None) == SHARDS


async def test_a_job_that_one_object_sends_to_another_on_another_node_runs_at_once(cluster: Cluster) -> None:
    """It comes to disk with the turn's own commit, whoever owns its target."""
    troupe, world = cluster()
    async with world:
        await link(world)  # over which a bucket's nodes tell each other
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
