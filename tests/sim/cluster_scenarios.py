"""Moments in the life of a cluster that chance seldom makes, set up by hand. Each raises `AssertionError` when a promise breaks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.conformance.cluster_stage import Troupe, key_of, keys_of
from tests.sim.cluster_clients import Door
from wakeful import JobSpec, Limits
from wakeful.jobs.jobs import Jobs
from wakeful.policy.lease import LEASE_MS, Lease
from wakeful.policy.limits import shards_allowed
from wakeful.runtime.membership import RAMP_DOUBLE_MS, RAMP_FIRST
from wakeful.runtime.node import Node
from wakeful.store.protocol import Hint, Outcome
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.commits import Commit
from wakeful.values.errors import Fenced, Unavailable, WrongLease
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Timer


def stage(nodes: int = 3, **options: Any) -> tuple[Troupe, World]:
    troupe = Troupe()
    troupe.world = troupe.app.world(nodes=nodes, **options)
    return troupe, troupe.world


async def a_hint_that_comes_late() -> None:
    """By then the owner has found the job itself and has run it."""
    troupe, world = stage()
    async with world:
        asker, owner = world.members[:2]
        assert asker.node is not None
        store = asker.node.store
        tell, held = store.tell, list[Sequence[Hint]]()

        async def keep(hints: Sequence[Hint]) -> None:
            held.append(hints)

        store.tell = keep  # type: ignore[method-assign]
        key = key_of(owner)
        await Jobs(Door(asker)).schedule(troupe.at(asker, key).work, "once")
        await world.advance(seconds=6)
        assert len(troupe.runs("once")) == 1, "the scan did not find it"
        for hints in held:
            await tell(hints)
        await world.advance(seconds=6)
        assert len(troupe.runs("once")) == 1, "a late hint made a job run twice"


async def an_insert_that_is_heard_of_late() -> None:
    """Its target's shard has come to the inserting node meanwhile, from an owner that has run it already."""
    troupe, world = stage(2)
    async with world:
        asker, owner = world.members
        assert asker.node is not None
        key, store, gate = key_of(owner), asker.node.store, asyncio.Event()
        insert = store.insert

        async def slow(timers: Sequence[Timer], **options: Any) -> Any:
            met = await insert(timers, **options)
            await gate.wait()
            return met

        store.insert = slow  # type: ignore[method-assign]
        call = asyncio.ensure_future(Jobs(Door(asker)).schedule(troupe.at(asker, key).work, "once"))
        await world.advance(seconds=6)
        assert [node for node, _ in troupe.runs("once")] == [owner.name], "the scan did not find it"
        await owner.stop()
        await world.advance(seconds=1)
        assert len(asker.node.epochs) == SHARDS
        gate.set()
        await call
        await world.advance(seconds=6)
        assert len(troupe.runs("once")) == 1, "an insert that was heard of late ran twice"


async def a_crash_between_a_turn_and_what_it_sends() -> None:
    """At every trip to the store: the turn and its job are both there, or neither is."""
    for probe in range(1, 16):
        troupe, world = stage(2)
        async with world:
            sender, other = world.members
            key, target = key_of(sender), key_of(other)
            left = [probe]

            def probed(name: str, number: int, left: list[int] = left, sender: Any = sender) -> None:
                left[0] -= 1
                if left[0] == 0:
                    sender.kill()

            sender.faults.on_probe = probed
            with suppress(Unavailable):
                await troupe.at(sender, key).send(target, "sent", 50)
            sender.faults.on_probe = None
            sender.kill()
            await world.advance(seconds=8)
            has_sent = (await world.rows(troupe.Cell, key)).get("sent") is not None
            has_run = len(troupe.runs("sent")) == 1
            assert has_sent == has_run, f"crash at probe {probe}: the turn {has_sent}, its job {has_run}"


async def many_jobs_of_one_object_while_the_disk_is_slow() -> None:
    """Their starts are noted in several trips; none of them overtakes another."""
    troupe, world = stage(2, limits=Limits(concurrent_turns=4, group_commits=2))
    async with world:
        asker, owner = world.members
        assert owner.node is not None
        store = owner.node.store
        commit = store.commit

        async def slow(node: str, commits: Sequence[Commit]) -> list[Outcome]:
            await asyncio.sleep(0.001)
            return await commit(node, commits)

        store.commit = slow  # type: ignore[method-assign]
        first, busy, *others = keys_of(owner, 15)
        keys = [first, busy, *others, *[busy] * 10]
        jobs = Jobs(Door(asker))
        tokens = [f"{n:02} {key == busy}" for n, key in enumerate(keys)]
        specs = [
            JobSpec(troupe.at(asker, key).work, (token, 0.5 if n == 1 else 0.0), after="5s")
            for n, (key, token) in enumerate(zip(keys, tokens, strict=True))
        ]
        await jobs.schedule_many(specs)
        await world.advance(seconds=10)
        ran = [token for token, _, _ in troupe.ran if token.endswith("True")]
        assert ran == [token for token in tokens if token.endswith("True")], f"jobs of one object ran as {ran}"


@asynccontextmanager
async def a_start_that_is_being_noted(world: World, node: Node) -> AsyncIterator[None]:
    """Within the block a commit of that node is under way, and none comes to an end before the block does."""
    gate, commit = asyncio.Event(), node.store.commit

    async def slow(name: str, commits: Sequence[Commit]) -> list[Outcome]:
        await gate.wait()
        return await commit(name, commits)

    await world.advance(seconds=4.9)
    node.hibernation.sleep_all()
    node.store.commit = slow  # type: ignore[method-assign, assignment]
    try:
        await world.advance(seconds=0.2)
        assert node.committer.is_sending, "the start of the job is not being noted"
        yield
    finally:
        gate.set()


async def a_redrive_while_another_start_is_noted() -> None:
    """What was read for the object to wake, while that note was on its way, is not what the disk has any more."""
    troupe, world = stage(2)
    async with world:
        asker, owner = world.members
        assert asker.node is not None
        assert owner.node is not None
        node, key = owner.node, key_of(owner)
        cell = troupe.at(asker, key)
        troupe.failing.add(key)
        await cell.arm(1_000)
        await world.advance(minutes=10)
        [parked] = await world.parked()
        troupe.failing.clear()
        await Jobs(Door(asker)).schedule(cell.work, "beside", after="5s")
        async with a_start_that_is_being_noted(world, node):
            redriven = asyncio.ensure_future(asker.node.redrive(parked))
            await world.advance(seconds=0.1)
        await redriven
        await world.advance(seconds=1)
        assert len(troupe.runs("beside")) == 1, "the job whose start was noted did not run once"
        assert (await world.rows(troupe.Cell, key)).get("rang") == 1, "an alarm that was redriven did not run"


async def a_shard_that_goes_and_comes_while_a_start_is_noted() -> None:
    """What was read for the object to wake, when the shard was ours before, is not what another owner has made of it."""
    troupe, world = stage(2)
    async with world:
        other, owner = world.members
        assert owner.node is not None
        assert other.node is not None
        node, key = owner.node, key_of(owner)
        shard = shard_of(ObjectId("Cell", key))
        await Jobs(Door(other)).schedule(troupe.at(other, key).work, "noted", after="5s")
        async with a_start_that_is_being_noted(world, node):
            for loser, winner in ((node, other.node), (other.node, node)):
                epoch = loser.epochs[shard]
                assert await winner.ownership.claim([shard], {shard: epoch}) == 1
                loser.ownership.lose(shard, Fenced(shard, epoch))
                if winner is other.node:
                    assert await troupe.at(other, key).add() == 1
            assert await troupe.at(owner, key).value() == 1, "what another owner wrote was not seen"
        await world.advance(seconds=20)
        assert len(troupe.runs("noted")) == 1, "the job whose start was noted did not run once"


async def calls_while_a_node_stops() -> None:
    """None of them fails, and the turn that runs ends where it began."""
    troupe, world = stage()
    async with world:
        stopping, asker, _ = world.members
        keys = keys_of(stopping, 4)
        calls = [asyncio.ensure_future(troupe.at(asker, key).add(0.4)) for key in keys]
        await world.advance(milliseconds=50)
        await stopping.stop()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert done == [1] * len(keys), f"calls failed because a node stopped: {done}"


async def a_new_node_among_many_free_shards() -> None:
    """It takes them no faster than its ramp allows, though nobody else has them."""
    _, world = stage(3, listens=False, sees=False)
    async with world:
        dead = {member.name for member in world.members[1:]}
        for member in world.members[1:]:
            member.kill()
        free_at = min(row.lease_until for row in await world.store.nodes() if row.node in dead)
        await world.advance(milliseconds=free_at - world.warp.now() - 100)
        newcomer = world.members[1]
        await newcomer.start()
        node = newcomer.node
        assert node is not None
        for _ in range(60):
            age_ms = world.warp.now() - node.membership.joined_at
            allowed = shards_allowed(age_ms, first=RAMP_FIRST, double_every_ms=RAMP_DOUBLE_MS, total=SHARDS)
            assert len(node.epochs) <= allowed, f"{len(node.epochs)} shards at an age of {age_ms} ms"
            await world.advance(milliseconds=20)


async def a_hint_and_a_scan_at_once() -> None:
    """The same job from two sides is one run, however long it takes."""
    troupe, world = stage()
    async with world:
        asker, owner = world.members[:2]
        assert asker.node is not None
        assert owner.node is not None
        key = key_of(owner)
        shard, now = shard_of(ObjectId("Cell", key)), world.warp.now()
        await Jobs(Door(asker)).schedule(troupe.at(asker, key).work, "slow", 3.0)
        for _ in range(30):
            await asker.node.store.tell([Hint(shard, now, now + 1)])
            owner.node.dispatcher.read_again()
            await world.advance(milliseconds=150)
        assert len(troupe.runs("slow")) == 1, "a running job was started again"
        assert (await world.rows(troupe.Cell, key))["did:slow"] == 1


async def two_claimants_of_one_shard() -> None:
    """Both saw it free at the same epoch; one of them has it."""
    _, world = stage()
    async with world:
        first, second = (member.node for member in world.members[:2])
        assert first is not None
        assert second is not None
        shard, epoch = next(iter(first.epochs.items()))
        won = [await node.store.claim(node.name, [shard], now=0, seen={shard: epoch}) for node in (first, second)]
        assert [len(one) for one in won] == [1, 0], f"both claimed shard {shard}: {won}"


Scenario = Callable[[], Coroutine[Any, Any, None]]
SCENARIOS: tuple[Scenario, ...] = (
    a_hint_that_comes_late,
    an_insert_that_is_heard_of_late,
    a_crash_between_a_turn_and_what_it_sends,
    calls_while_a_node_stops,
    a_new_node_among_many_free_shards,
    many_jobs_of_one_object_while_the_disk_is_slow,
    a_redrive_while_another_start_is_noted,
    a_shard_that_goes_and_comes_while_a_start_is_noted,
    a_hint_and_a_scan_at_once,
    two_claimants_of_one_shard,
)


async def a_short_lease_that_is_kept() -> None:
    """What is renewed as often as a longer one would be is over now and then, though nothing is wrong."""
    _, world = stage(lease="2s", sees=False)
    async with world:
        await world.advance(seconds=40)
        for member in world.members:
            assert member.node is not None
            assert member.node.membership.lapses == 0, "nothing held it up"
        frozen = world.members[2]
        frozen.freeze()
        await world.advance(seconds=4)
        assert frozen.name not in {row.owner for row in await world.store.owners()}, "it has long been silent"
        frozen.thaw()


async def a_long_lease_that_forgives() -> None:
    """A store that stalls for longer than the usual lease costs nobody a shard."""
    _, world = stage(lease="30s", sees=False)
    async with world:
        await world.advance(seconds=40)
        before = [dict(member.node.epochs) for member in world.members if member.node is not None]
        world.members[1].stall()
        await world.advance(seconds=15)
        world.members[1].go_on()
        await world.advance(seconds=5)
        assert [dict(member.node.epochs) for member in world.members if member.node is not None] == before


async def a_node_with_another_lease() -> None:
    """It does not get in, and so nobody is judged by two measures."""
    _, world = stage(lease="10s")
    async with world:
        world.lease = Lease(3_000)
        stranger = Member(world, 9)
        [refused] = await asyncio.gather(stranger.start(), return_exceptions=True)
        if refused is None:
            await stranger.stop()
        assert isinstance(refused, WrongLease), "it was let in"


LEASES = (a_short_lease_that_is_kept, a_long_lease_that_forgives, a_node_with_another_lease)


async def a_read_of_a_node_whose_lease_has_lapsed() -> None:
    """Another has taken over and written since: the old copy answers when that is known, or not at all."""
    troupe, world = stage()
    async with world:
        slow, other = world.members[1], world.members[0]
        key = key_of(slow)
        assert await troupe.at(slow, key).add() == 1
        read: asyncio.Future[object] = asyncio.ensure_future(troupe.at(slow, key).value(LEASE_MS / 1_000 + 3))
        await world.advance(milliseconds=10)
        slow.stall()
        await world.advance(milliseconds=LEASE_MS + 1_000)
        assert await troupe.at(other, key, deadline="20s").add() == 2
        await world.advance(seconds=4)
        slow.go_on()
        [told] = await asyncio.gather(read, return_exceptions=True)
        assert told == 2 or isinstance(told, Unavailable), f"it was told {told!r}, and 2 was written before that"
