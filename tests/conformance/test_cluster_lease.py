"""The lease fits the deployment: one for all nodes, chosen once, and everything else follows from it."""

import asyncio
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, key_of, keys_of
from wakeful import App
from wakeful.policy.lease import Lease
from wakeful.runtime.membership import Membership
from wakeful.runtime.status import status_of
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.errors import BadOption, StoreDown, WrongLease
from wakeful.values.ids import SHARDS

LENGTHS = ["2s", "5s", "20s"]


def counts(world: World) -> list[int]:
    return [len(member.node.epochs) for member in world.members if member.node is not None]


def said(member: Member) -> dict[str, Any]:
    assert member.node is not None
    found: dict[str, Any] = status_of(member.node)["lease"]
    return found


@pytest.mark.parametrize("lease", LENGTHS)
async def test_a_node_that_froze_is_taken_over_when_its_lease_is_over_and_not_before(
    cluster: Cluster, lease: str
) -> None:
    troupe, world = cluster(lease=lease)
    async with world:
        length_ms = world.lease.ms
        frozen = world.members[1]
        key = key_of(frozen)
        frozen.freeze()
        # It was renewed just before, or nearly `renew_ms` ago.
        await world.advance(milliseconds=length_ms - world.lease.renew_ms - 400)
        owners = {row.owner for row in await world.store.owners()}
        assert frozen.name in owners
        await world.advance(milliseconds=world.lease.renew_ms + 2_400)
        owners = {row.owner for row in await world.store.owners()}
        assert frozen.name not in owners
        assert await troupe.at(world.members[0], key).add() == 1
        frozen.thaw()


@pytest.mark.parametrize("lease", LENGTHS)
async def test_a_store_that_stalls_for_most_of_a_lease_costs_nobody_its_shards(cluster: Cluster, lease: str) -> None:
    _, world = cluster(lease=lease)
    async with world:
        before = [dict(member.node.epochs) for member in world.members if member.node is not None]
        slow = world.members[2]
        await world.advance(milliseconds=world.lease.ms * 3)
        slow.stall()
        await world.advance(milliseconds=world.lease.ms * 6 // 10)
        slow.go_on()
        await world.advance(milliseconds=world.lease.ms)
        assert [dict(member.node.epochs) for member in world.members if member.node is not None] == before
        assert slow.node is not None
        assert slow.node.membership.lapses == 0
        assert 0 < said(slow)["slack_ms"] <= world.lease.ms * 4 // 10, "it came close, and says so"
        assert said(world.members[0])["slack_ms"] >= world.lease.ms // 2


async def test_a_node_with_another_lease_is_refused_with_both_values_and_the_remedy(cluster: Cluster) -> None:
    _, world = cluster(lease="10s")
    async with world:
        await world.balance()
        before = counts(world)
        world.lease = Lease(4_000)
        other = Member(world, 9)
        with pytest.raises(
            WrongLease, match=r"a lease of 4000 ms, but node-\d\.1 .* one of 10000 ms; .*--lease 10000ms.*stop all"
        ):
            await other.start()
        assert other.name not in {row.node for row in await world.store.nodes()}
        await world.advance(seconds=2)
        assert counts(world) == before
        world.lease = Lease(10_000)
        await other.start()
        await other.stop()


async def test_two_that_start_at_once_with_two_leases_are_not_both_let_in(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sees the other before it has joined itself."""
    _, world = cluster(lease="10s")
    async with world:
        await world._stop_members()
        looked, renew = asyncio.Barrier(2), Membership.renew

        async def after_both_looked(self: Membership) -> None:
            if not self.lease_until:
                await looked.wait()
            await renew(self)

        monkeypatch.setattr(Membership, "renew", after_both_looked)
        both = [Member(world, 8), Member(world, 9)]
        starting = []
        for member, length_ms in zip(both, (10_000, 4_000), strict=True):
            world.lease = Lease(length_ms)  # of the node that is made in the first step of its start
            starting.append(asyncio.get_running_loop().create_task(member.start()))
            await asyncio.sleep(0)
        world.members += both
        answers = await asyncio.gather(*starting, return_exceptions=True)
        assert any(isinstance(one, WrongLease) for one in answers), answers
        if not all(isinstance(one, WrongLease) for one in answers):  # who joins last sees the other, or each sees each
            assert len({row.lease_ms for row in await world.store.nodes()}) <= 1


async def test_when_nobody_lives_any_more_the_lease_may_be_another(cluster: Cluster) -> None:
    _, world = cluster(lease="10s")
    async with world:
        await world._stop_members()
        world.lease = Lease(3_000)
        await world.nodes(3)
        await world.balance()
        assert sum(counts(world)) == SHARDS
        assert {row.lease_ms for row in await world.store.nodes()} == {3_000}


async def test_one_that_comes_back_among_others_with_another_lease_says_so_and_writes_nothing(cluster: Cluster) -> None:
    """Cut off for so long that nobody waited for it; then the others were started anew, with another lease."""
    troupe, world = cluster(lease="4s")
    async with world:
        old, *others = world.members
        key = keys_of(old, 1)[0]
        old.cut_off()
        assert old.node is not None
        old.node.store_failed(StoreDown("cut off"))
        for member in others:
            await member.stop()
        row = next(row for row in await world.store.nodes() if row.node == old.name)
        await world.advance(milliseconds=max(0, row.lease_until - world.warp.now()) + 1_000)
        await world.store.leave(old.name)  # as the others would have, in time
        world.lease = Lease(9_000)
        for member in others:
            await member.start()
        old.reconnect()
        await world.advance(seconds=20)
        assert old.node.state == "down"
        assert "one of 9000 ms" in str(status_of(old.node)["down_because"])
        assert await troupe.at(others[0], key).add() == 1
        assert {row.lease_ms for row in await world.store.nodes()} == {9_000}


@pytest.mark.parametrize("length", ["1s", "1999ms", "61s", "1h", 0, 1.5])
async def test_a_lease_out_of_bounds_is_refused_with_the_bounds(length: Any) -> None:
    with pytest.raises(BadOption, match=r"from 2s to 60s \(usually 5s\)") as raised:
        App().world(lease=length)
    assert raised.value.code == "lease.option"
    with pytest.raises(BadOption, match="from 2s to 60s"):
        async with App().run("postgresql://nowhere.invalid/x", lease=length):
            pass


@pytest.mark.parametrize("url", ["memory:", "sqlite:alone.db"])
async def test_a_store_of_one_process_has_no_lease_to_choose(
    url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadOption, match=r"belongs to one process.*leave lease out") as raised:
        async with App().run(url, lease="9s"):
            pass
    assert raised.value.code == "lease.store"
