"""Who owns a shard, and what becomes of its jobs and timers when that changes."""

import asyncio
from datetime import timedelta

import pytest

from tests.conformance.cluster_stage import Cluster, Troupe, key_of, keys_of
from tests.sim.cluster_clients import Door
from wakeful import App, Unavailable
from wakeful.jobs.jobs import Jobs
from wakeful.policy.limits import shards_allowed
from wakeful.testing import World
from wakeful.values.ids import SHARDS, ObjectId, shard_of


async def test_of_two_claimants_of_one_free_shard_exactly_one_wins(cluster: Cluster) -> None:
    _, world = cluster()
    async with world:
        first, second = (member.node.store for member in world.members[:2] if member.node is not None)
        (row,) = [row for row in await first.owners() if row.shard == 7]
        assert row.owner is not None
        await first.release(row.owner, {7: row.epoch})
        won = await asyncio.gather(
            *(store.claim(name, [7], now=0, seen={7: row.epoch}) for name, store in (("a", first), ("b", second)))
        )
        assert sorted(len(one) for one in won) == [0, 1]
        (epoch,) = [one[7] for one in won if one]
        assert epoch > row.epoch


async def test_shards_are_shared_evenly_and_owned_once(cluster: Cluster) -> None:
    _, world = cluster()
    async with world:
        owned = [set(member.node.epochs) for member in world.members if member.node is not None]
        assert sorted(map(len, owned)) == [85, 85, 86]
        assert set().union(*owned) == set(range(SHARDS))
        rows = await world.store.owners()
        assert {row.owner for row in rows} == {member.name for member in world.members}


async def test_while_the_owner_lives_no_one_else_sees_its_jobs(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner, *others = world.members
        keys = keys_of(owner, 5)
        for index, key in enumerate(keys):
            await troupe.app.jobs.schedule(troupe.cell(key).work, key, after=f"{index + 1}s")
        await world.settle()
        for other in others:
            assert other.node is not None
            assert not any(id.key in keys for id in other.node.queue.objects())
        await world.advance(seconds=8)
        assert [(what, node) for what, node, _ in troupe.ran] == [(key, owner.name) for key in keys]


async def test_when_the_owner_dies_all_its_jobs_move_in_due_order_once(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[2]
        key, other_key = keys_of(owner, 2)
        order = [3, 1, 4, 2, 5]
        for number in order:
            await troupe.app.jobs.schedule(troupe.cell(key).work, f"j{number}", after=timedelta(milliseconds=number))
        far = await troupe.app.jobs.schedule(troupe.cell(other_key).work, "far", after="30s", metadata={"ä /": "x"})
        owner.kill()
        await world.advance(seconds=12)
        assert [what for what, *_ in troupe.ran] == [f"j{number}" for number in sorted(order)]
        assert owner.name not in {node for _, node, _ in troupe.ran}
        await world.advance(seconds=25)
        assert [what for what, *_ in troupe.ran][5:] == ["far"]
        assert (await troupe.app.jobs.get(far)).metadata == {"ä /": "x"}
        rows = await world.rows(troupe.Cell, key)
        assert all(rows[f"did:j{number}"] == 1 for number in order)


async def test_a_takeover_fences_the_old_owners_very_next_commit(cluster: Cluster) -> None:
    """Not just its next claim: the old owner knows nothing yet, and still can't write."""
    troupe, world = cluster()
    async with world:
        owner, taker = world.members[:2]
        key = key_of(owner)
        shard = shard_of(ObjectId("Cell", key))
        assert await troupe.at(owner, key).add() == 1
        assert owner.node is not None
        assert taker.node is not None
        seen = owner.node.epochs[shard]
        await world.store.claim("somebody", [shard], now=world.warp.now(), seen={shard: seen})
        assert owner.node.epochs[shard] == seen  # it believes that it owns it
        with pytest.raises(Unavailable):
            await troupe.at(owner, key, deadline="5ms").add()
        assert (await world.rows(troupe.Cell, key))["n"] == 1


async def test_a_running_turn_commits_nothing_once_its_shard_is_another_s(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[0]
        key = key_of(owner)
        shard = shard_of(ObjectId("Cell", key))
        call = asyncio.ensure_future(troupe.at(owner, key).add(0.2))
        await world.advance(milliseconds=50)
        assert owner.node is not None
        await world.store.claim("thief", [shard], now=world.warp.now(), seen={shard: owner.node.epochs[shard]})
        with pytest.raises(Unavailable):
            await call
        assert "n" not in await world.rows(troupe.Cell, key)


async def test_a_graceful_stop_waits_for_running_turns_then_others_take_its_shards_at_once(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[0]
        busy, idle = keys_of(owner, 2)
        call = asyncio.ensure_future(troupe.at(world.members[1], busy).add(0.4))
        await world.advance(milliseconds=50)
        began = world.warp.now()
        stop = asyncio.ensure_future(owner.stop())
        assert await troupe.at(world.members[1], idle).add() == 1
        assert world.warp.now() - began <= 400  # it did not wait for the busy one
        assert await call == 1
        await stop
        assert world.warp.now() - began <= 1_000
        assert await troupe.at(world.members[2], busy).add() == 2
        assert world.warp.now() - began <= 1_500


async def test_a_turn_that_never_ends_is_cut_off_at_the_stop_deadline(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        owner = world.members[0]
        key = key_of(owner)
        call = asyncio.ensure_future(troupe.at(world.members[1], key, deadline="10m").add(500.0))
        await world.advance(milliseconds=50)
        began = world.warp.now()
        await owner.stop()
        limit = world.app.deployment.limits.stop_deadline_ms
        assert limit <= world.warp.now() - began <= limit + 1_000
        with pytest.raises(Unavailable):
            await call
        assert await troupe.at(world.members[1], key).add() == 1


async def test_a_signal_that_comes_while_a_round_is_under_way_is_not_lost(cluster: Cluster) -> None:
    _, world = cluster()
    async with world:
        node = world.members[0].node
        assert node is not None
        await world.settle()
        rounds, began = node.membership.rounds, world.warp.now()
        world.members[0].faults.gate = gate = asyncio.Event()  # nothing gets to the store, so a round takes a while
        node.membership.look()
        while node.membership.rounds == rounds:  # noqa: ASYNC110  (nobody tells us)
            await asyncio.sleep(0)
        node.membership.look()  # that one runs already
        world.members[0].faults.gate = None
        gate.set()
        await world.settle()
        assert node.membership.rounds == rounds + 2
        assert world.warp.now() == began


async def test_a_shard_that_is_freed_during_a_round_is_taken_without_waiting_for_the_next() -> None:
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=2)
    async with world:
        first, second = world.members
        began = world.warp.now()
        await second.stop()
        await world.settle()
        assert first.node is not None
        assert len(first.node.epochs) == SHARDS
        assert world.warp.now() - began < 300  # by the signal, not by the clock


async def test_a_node_that_just_started_claims_gradually_and_its_budget_never_falls(cluster: Cluster) -> None:
    _, world = cluster(nodes=2)
    async with world:
        world.members.append(type(world.members[0])(world, 3))
        newcomer = world.members[-1]
        await newcomer.start()
        assert newcomer.node is not None
        joined_at = newcomer.node.membership.joined_at
        before = 0
        # A second; where its neighbours hear of it by requests that other threads make, no moment of the world is theirs.
        for _ in range(20 if newcomer.node.store.keeps_time else 100):
            owned, age = len(newcomer.node.epochs), world.warp.now() - joined_at
            allowed = shards_allowed(age, first=16, double_every_ms=200, total=SHARDS)
            assert before <= owned <= allowed
            before = owned
            await world.advance(milliseconds=50)
        assert 85 <= before <= 86


async def test_what_a_node_owns_already_is_never_counted_against_its_ramp() -> None:
    """After an outage of its store the node is young again, and takes back all that it had at once."""
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=2)
    async with world:
        node = world.members[0].node
        assert node is not None
        had = set(node.epochs)
        world.members[0].cut_off()
        await world.advance(milliseconds=700)
        assert node.state == "down"
        world.members[0].reconnect()
        await world.advance(seconds=2)
        assert set(node.epochs) == had


async def test_a_timer_of_a_class_unknown_to_the_owner_waits_and_runs_where_it_is_known(
    cluster: Cluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    troupe, world = cluster(nodes=1 + 1)
    async with world:
        await _replace_program(world, 1)
        node = world.members[1].node
        assert node is not None
        key = key_of(world.members[1])
        await troupe.app.jobs.schedule(troupe.cell(key).work, "later", after="1s")
        await world.advance(seconds=8)
        assert troupe.ran == []
        assert "Cell" in node.dispatcher.unknown
        assert "knows no class 'Cell'" in caplog.text
        await world.members[1].stop()
        await world.advance(seconds=2)
        assert [(what, name) for what, name, _ in troupe.ran] == [("later", world.members[0].name)]


async def _replace_program(world: World, index: int) -> None:
    """That node runs a program which knows none of the classes."""
    member = world.members[index]
    await member.stop()
    known, world.app = world.app, App()
    try:
        await member.start()
    finally:
        world.app = known
    world.choose_door()
    await world.balance()


async def test_jobs_scheduled_at_any_node_are_acknowledged_and_run_once_when_that_node_dies_at_once(
    cluster: Cluster,
) -> None:
    troupe, world = cluster()
    async with world:
        asker, owner = world.members[0], world.members[1]
        keys = keys_of(owner, 10)
        for key in keys:
            await Jobs(Door(asker)).schedule(troupe.at(asker, key).work, key, after="2s")
        asker.kill()
        owner.kill()
        await world.advance(seconds=15)
        assert sorted(what for what, *_ in troupe.ran) == sorted(keys)
