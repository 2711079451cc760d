"""Nodes that freeze, lose their store, lose each other, die, stop, are drained, or come late."""

import asyncio
from datetime import timedelta

import pytest

from tests.conformance.cluster_stage import Cluster, Troupe, key_of, keys_of
from wakeful import Unavailable
from wakeful.policy.lease import LEASE_MS
from wakeful.policy.limits import Limits
from wakeful.testing.members import Member
from wakeful.values.errors import DeadlineExceeded
from wakeful.values.ids import SHARDS, ObjectId, shard_of


def epochs(member: Member) -> int:
    assert member.node is not None
    return len(member.node.epochs)


async def test_a_frozen_owner_that_wakes_commits_nothing_fires_nothing_and_rejoins(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        frozen, other = world.members[1], world.members[0]
        key = key_of(frozen)
        assert await troupe.at(frozen, key).add() == 1
        await troupe.at(frozen, key).arm(3_000)
        node = frozen.node
        assert node is not None
        turn = asyncio.ensure_future(troupe.at(frozen, key).add(0.5))
        await world.advance(milliseconds=10)
        frozen.freeze()
        assert await troupe.at(other, key, deadline="20s").add() == 2
        await world.advance(seconds=10)
        assert troupe.runs(f"alarm {key}")[0][0] != frozen.name
        frozen.thaw()
        with pytest.raises(Unavailable):
            await turn
        await world.advance(seconds=1)
        assert await troupe.at(frozen, key).add() == 3  # it has learnt where the object lives
        await world.advance(seconds=5)
        assert len(troupe.runs(f"alarm {key}")) == 1
        rows = await world.rows(troupe.Cell, key)
        assert (rows["n"], rows["rang"]) == (3, 1)
        assert node.state == "up"
        assert [epochs(member) for member in world.members] in ([86, 85, 85], [85, 86, 85], [85, 85, 86])


async def test_calls_for_a_frozen_owner_go_on_as_soon_as_another_has_its_objects(cluster: Cluster) -> None:
    """Also those that wait for a connection to it: its machine takes that, and it never says who it is."""
    troupe, world = cluster()
    async with world:
        frozen, other = world.members[1], world.members[0]
        one, two = keys_of(frozen, 2)
        assert await troupe.at(other, one).add() == 1
        assert frozen.node is not None
        while frozen.node.membership.lease_until - frozen.node.clock.now() < LEASE_MS - 100:
            await world.advance(milliseconds=50)  # the lease outlives the connection
        frozen.freeze()
        since = world.now()
        calls = [asyncio.ensure_future(troupe.at(other, one, request_key="again", deadline="20s").add())]
        await world.advance(milliseconds=LEASE_MS - 500)  # the connection that was there is given up
        calls.append(asyncio.ensure_future(troupe.at(other, two, deadline="20s").add()))
        assert await asyncio.gather(*calls) == [2, 1]
        assert world.now() - since <= timedelta(milliseconds=LEASE_MS + 2 * world.lease.round_ms)


async def test_a_node_cut_off_from_the_store_answers_unavailable_and_rejoins_by_itself(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        lonely, other = world.members[2], world.members[0]
        key = key_of(lonely)
        assert await troupe.at(lonely, key).add() == 1
        lonely.cut_off()
        with pytest.raises(Unavailable):
            await troupe.at(lonely, key).add()
        await world.advance(milliseconds=LEASE_MS + 2 * world.lease.round_ms)
        with pytest.raises(Unavailable):
            await troupe.at(lonely, key).add()
        assert lonely.node is not None
        assert lonely.node.state == "down"
        assert not lonely.node.awake
        assert await troupe.at(other, key).add() == 2
        lonely.reconnect()
        await world.advance(seconds=8)
        assert lonely.node.state == "up"
        assert await troupe.at(lonely, key).add() == 3
        assert [epochs(member) for member in world.members] in ([86, 85, 85], [85, 86, 85], [85, 85, 86])


async def test_what_a_cut_off_node_had_under_way_is_not_written_after_the_takeover(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        lonely, other = world.members[2], world.members[0]
        key = key_of(lonely)
        turn = asyncio.ensure_future(troupe.at(lonely, key, deadline="60s").add(20.0))
        await world.advance(milliseconds=50)
        lonely.cut_off()
        assert await troupe.at(other, key).add() == 1
        lonely.reconnect()
        with pytest.raises(Unavailable):
            await turn
        assert (await world.rows(troupe.Cell, key))["n"] == 1


async def test_nodes_that_can_t_reach_each_other_keep_what_they_own(cluster: Cluster) -> None:
    """The store decides who owns what; a network that is down between nodes moves nothing."""
    troupe, world = cluster()
    async with world:
        first, second, third = world.members
        key = key_of(second)
        before = [dict(member.node.epochs) for member in world.members if member.node is not None]
        world.network.cut(first.name, second.name)
        assert await troupe.at(third, key).add() == 1
        call = asyncio.ensure_future(troupe.at(first, key, deadline="20s").add())
        await world.advance(seconds=10)
        assert [dict(member.node.epochs) for member in world.members if member.node is not None] == before
        assert not call.done()
        world.network.heal()
        assert await call == 2


async def test_a_call_that_may_have_run_behind_a_cut_says_so_and_one_with_a_key_is_repeated(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        first, second, _ = world.members
        key, other = keys_of(second, 2)
        await troupe.at(first, key).value()  # the link is there
        plain = asyncio.ensure_future(troupe.at(first, key, deadline="60s").add(2.0))
        keyed = asyncio.ensure_future(troupe.at(first, other, deadline="60s", request_key="once").add(2.0))
        await world.advance(milliseconds=100)
        world.network.cut(first.name, second.name)
        with pytest.raises(Unavailable, match="request key") as caught:
            await plain
        assert caught.value.code == "call.unknown"
        world.network.heal()
        assert await keyed == 1
        assert (await world.rows(troupe.Cell, other))["n"] == 1


async def test_a_crash_is_noticed_at_once_where_the_store_can_tell() -> None:
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=3)
    async with world:
        dead = world.members[1]
        key = key_of(dead)
        await troupe.cell(key).add()
        began = world.warp.now()
        await dead.crash()
        assert await troupe.cell(key).add() == 2
        assert world.warp.now() - began <= 600


async def test_a_crash_is_noticed_by_the_lease_where_the_store_can_t_tell() -> None:
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=3, sees=False)
    async with world:
        dead = world.members[1]
        key = key_of(dead)
        await troupe.cell(key).add()
        began = world.warp.now()
        await dead.crash()
        with pytest.raises(DeadlineExceeded):
            await troupe.cell(key, deadline="1s").add()
        assert await troupe.cell(key).add() == 2
        assert world.warp.now() - began <= 5_000 + 900


@pytest.mark.parametrize("sees", [True, False])
async def test_the_row_of_a_dead_node_goes_by_and_by(sees: bool) -> None:
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=3, sees=sees)
    async with world:
        world.members[1].kill()
        await world.advance(seconds=80)
        assert {row.node for row in await world.store.nodes()} == {world.members[0].name, world.members[2].name}


async def test_no_call_fails_and_no_timer_is_late_when_a_node_stops(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        stopping = world.members[0]
        keys = keys_of(stopping, 8)
        for index, key in enumerate(keys):
            await troupe.app.jobs.schedule(troupe.cell(key).work, key, after=f"{index * 100}ms")
        due = {key: world.warp.now() + index * 100 for index, key in enumerate(keys)}
        asker = world.members[1]
        calls = [asyncio.ensure_future(_keep_adding(troupe, asker, key)) for key in keys]
        await world.advance(milliseconds=250)
        await stopping.stop()
        await world.advance(seconds=3)
        assert [await call for call in calls] == [20] * len(keys)
        for key in keys:
            ((_, at),) = troupe.runs(key)
            assert 0 <= at - due[key] <= 1_000


async def _keep_adding(troupe: Troupe, asker: Member, key: str) -> int:
    for _ in range(20):
        answer: int = await troupe.at(asker, key).add(0.05)
        await asyncio.sleep(0.02)
    return answer


async def test_a_rolling_restart_of_all_nodes_fails_no_call_and_no_job(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        keys = [f"r{number}" for number in range(12)]
        calls = [asyncio.ensure_future(_add_anywhere(troupe, key)) for key in keys]
        jobs = [
            await troupe.app.jobs.schedule(troupe.cell(key).work, f"{key}-{second}", after=f"{second}s")
            for key in keys
            for second in range(1, 8)
        ]
        for member in world.members:
            await member.restart(after="500ms")
            await world.advance(milliseconds=1_200)
        await world.advance(seconds=8)
        assert [await call for call in calls] == [40] * len(keys)
        assert sorted(what for what, *_ in troupe.ran) == sorted(
            f"{job.target.key}-{i % 7 + 1}" for i, job in enumerate(jobs)
        )
        assert not await world.parked()


async def _add_anywhere(troupe: Troupe, key: str) -> int:
    for _ in range(40):
        answer: int = await troupe.cell(key).add(0.05)
        await asyncio.sleep(0.08)
    return answer


async def test_a_drained_node_owns_nothing_and_an_undrained_one_owns_again(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        drained = world.members[1]
        keys = keys_of(drained, 4)
        calls = [asyncio.ensure_future(_keep_adding(troupe, world.members[0], key)) for key in keys]
        assert await world.store.drain(drained.name, True)
        await world.advance(seconds=3)
        assert epochs(drained) == 0
        assert epochs(world.members[0]) + epochs(world.members[2]) == SHARDS
        assert [await call for call in calls] == [20] * len(keys)
        assert await troupe.at(drained, keys[0]).add() == 21  # it still takes calls for others
        await world.store.drain(drained.name, False)
        await world.advance(seconds=3)
        assert epochs(drained) >= 85
        assert drained.node is not None
        assert not drained.node.membership.is_draining


async def test_when_all_nodes_are_drained_nothing_is_left_unowned(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        for member in world.members:
            await world.store.drain(member.name, True)
        await world.advance(seconds=3)
        assert sum(epochs(member) for member in world.members) == SHARDS
        assert await troupe.cell("a").add() == 1


async def test_when_all_nodes_are_drained_everything_fires_also_what_a_dead_one_owned(cluster: Cluster) -> None:
    """A runbook had it the other way round."""
    troupe, world = cluster()
    async with world:
        keys = [key for member in world.members for key in keys_of(member, 2)]
        for member in world.members:
            await world.store.drain(member.name, True)
        await world.advance(seconds=3)
        for key in keys:
            await troupe.cell(key).arm(20_000)
        world.members[1].kill()
        await world.advance(seconds=30)
        assert {key: len(troupe.runs(f"alarm {key}")) for key in keys} == dict.fromkeys(keys, 1)


async def test_one_that_joins_late_takes_its_share_without_a_call_failing(cluster: Cluster) -> None:
    troupe, world = cluster(nodes=2)
    async with world:
        keys = [f"s{number}" for number in range(10)]
        calls = [asyncio.ensure_future(_add_anywhere(troupe, key)) for key in keys]
        await world.nodes(3)
        assert min(epochs(member) for member in world.members) == 85
        assert [await call for call in calls] == [40] * len(keys)


async def test_shards_that_are_ours_only_on_disk_are_given_up_when_they_fall_to_others() -> None:
    """Found by the simulation: after an outage in the middle of a move nobody owned them for good."""
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=2)
    async with world:
        owner, other = world.members
        node = owner.node
        assert node is not None
        owner.cut_off()
        await world.advance(milliseconds=400)
        world.members.append(Member(world, 3))
        await world.members[2].start()
        owner.reconnect()
        await world.advance(seconds=5)
        assert sorted(epochs(member) for member in world.members) == [85, 85, 86]
        assert other.node is not None


async def test_the_only_node_left_owns_everything_at_once(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        await world.members[1].stop()
        await world.members[2].stop()
        await world.settle()
        await world.advance(milliseconds=2 * world.lease.round_ms)
        assert epochs(world.members[0]) == SHARDS
        assert await troupe.cell("x").add() == 1


async def test_an_object_that_moved_is_awake_in_one_place_only(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        keys = [f"w{number}" for number in range(30)]
        for key in keys:
            await troupe.cell(key).add()
        for member in world.members[:2]:
            await member.restart()
            await world.balance()
            for key in keys:
                await troupe.cell(key).add()
            await world.settle()
            for key in keys:
                id = ObjectId("Cell", key)
                holders = [one for one in world.members if one.node is not None and id in one.node.awake]
                assert len(holders) <= 1
                for one in holders:
                    assert one.node is not None
                    assert shard_of(id) in one.node.epochs


async def test_a_call_that_comes_when_the_turns_of_a_stopping_node_were_cut_off_goes_elsewhere() -> None:
    """Found by the simulation: it was put into a mailbox that nobody looks into, and the process span for ever."""
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=3, limits=Limits(stop_deadline_ms=300))
    async with world:
        owner, asker, _ = world.members
        key = key_of(owner)
        stuck = asyncio.ensure_future(troupe.at(asker, key, deadline="60s").add(50.0))
        await world.advance(milliseconds=50)
        others = [asyncio.ensure_future(_add_after(troupe, asker, key, wait_ms)) for wait_ms in range(280, 320)]
        await owner.stop()
        with pytest.raises(Unavailable):
            await stuck
        assert sorted(await asyncio.gather(*others)) == list(range(1, 41))


async def _add_after(troupe: Troupe, asker: Member, key: str, wait_ms: int) -> int:
    await asyncio.sleep(wait_ms / 1000)
    answer: int = await troupe.at(asker, key).add()
    return answer


async def test_a_stop_that_can_t_reach_the_store_is_not_laid_at_the_turn_s_door() -> None:
    """Found by the simulation: callers elsewhere were told that the object's own code had cancelled the turn."""
    troupe = Troupe()
    world = troupe.world = troupe.app.world(nodes=3)
    async with world:
        owner, asker, _ = world.members
        call = asyncio.ensure_future(troupe.at(asker, key_of(owner), deadline="60s").add(30.0))
        await world.advance(milliseconds=50)
        owner.cut_off()
        await owner.stop()
        with pytest.raises(Unavailable):
            await call
