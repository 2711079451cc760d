"""Rounds of membership: who is let in, who is believed to live, and what a quiet round costs."""

import logging
from typing import Any

import pytest

from tests.unit.counting_cells import cells
from wakeful.policy.lease import LEASE_MS, Lease
from wakeful.runtime import membership
from wakeful.runtime.node import Node
from wakeful.store.protocol import NodeRow
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.errors import WrongCluster, WrongVersion
from wakeful.values.ids import SHARDS


def world_of(nodes: int = 2, **options: Any) -> World:
    return cells().world(nodes=nodes, **options)


def nodes_of(world: World) -> list[Node]:
    return [member.node for member in world.members if member.node is not None]


async def test_a_node_of_another_cluster_is_refused_with_both_names() -> None:
    async with world_of() as world:
        now = world.warp.now()
        await world.store.join(NodeRow("stranger", "x:1", now, now + 60_000, "elsewhere", cluster="green"))
        with pytest.raises(WrongCluster, match=r"cluster ''.*stranger \(elsewhere\).*'green'"):
            await Member(world, 9).start()


async def test_a_node_that_speaks_an_older_version_than_understood_is_named() -> None:
    async with world_of() as world:
        now = world.warp.now()
        await world.store.join(NodeRow("oldie", "x:1", now, now + 60_000, "elsewhere", version=0))
        with pytest.raises(WrongVersion, match="oldie"):
            await Member(world, 9).start()


async def test_the_row_of_one_that_is_long_gone_refuses_nobody() -> None:
    async with world_of() as world:
        now = world.warp.now()
        await world.store.join(NodeRow("ghost", "x:1", now - 60_000, now - 1, "elsewhere", cluster="green"))
        third = Member(world, 9)
        await third.start()
        await third.stop()


async def test_a_quiet_round_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world_of(3) as world:
        await world.advance(seconds=2)
        planned: list[int] = []
        place = membership.place
        monkeypatch.setattr(membership, "place", lambda *args, **more: planned.append(1) or place(*args, **more))
        rounds = sum(node.membership.rounds for node in nodes_of(world))
        await world.advance(seconds=10)
        assert sum(node.membership.rounds for node in nodes_of(world)) > rounds + 60
        assert planned == []
        world.members[2].kill()
        await world.advance(seconds=2)
        assert planned
        assert sum(len(node.epochs) for node in nodes_of(world)) == SHARDS


async def test_leases_are_renewed_in_time_also_when_the_clock_was_set_back() -> None:
    async with world_of(2, sees=False) as world:
        member = world.members[0]
        for _ in range(4):
            member.clock._own_base -= 3_600_000  # nobody is told
            await world.advance(milliseconds=3 * Lease().renew_ms)
            rows = {row.node: row for row in await world.store.nodes()}
            assert rows[member.name].lease_until > world.warp.now()
            assert [len(node.epochs) for node in nodes_of(world)] == [128, 128]


async def test_a_clock_that_was_set_takes_nobody_for_dead() -> None:
    """By it every lease but its own is over; it is measured before anybody's shards are taken."""
    async with world_of(3, sees=False) as world:
        before = [dict(node.epochs) for node in nodes_of(world)]
        world.members[1].clock._own_base += 3_600_000
        await world.advance(seconds=4)
        assert [dict(node.epochs) for node in nodes_of(world)] == before


async def test_a_node_whose_row_vanished_enters_itself_again() -> None:
    async with world_of() as world:
        await world.store.leave(world.members[0].name)
        await world.advance(seconds=2)
        assert len(await world.store.nodes()) == 2
        assert [len(node.epochs) for node in nodes_of(world)] == [128, 128]


async def test_rows_of_the_gone_go_at_once_where_the_store_can_tell_and_later_else() -> None:
    for sees, after_ms in ((True, 2_000), (False, LEASE_MS + Lease().forget_ms + 5_000)):
        async with world_of(3, sees=sees) as world:
            world.members[2].kill()
            await world.advance(milliseconds=1_000 if sees else Lease().forget_ms - 5_000)
            if not sees:
                assert len(await world.store.nodes()) == 3
            await world.advance(milliseconds=after_ms)
            assert len(await world.store.nodes()) == 2


async def test_who_can_t_renew_goes_on_and_finds_out_what_others_took(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "wakeful")
    async with world_of(2) as world:
        member = world.members[0]
        node = member.node
        assert node is not None
        member.freeze()
        await world.advance(milliseconds=LEASE_MS + 1_000)
        assert len(nodes_of(world)[1].epochs) == SHARDS
        member.thaw()
        await world.advance(milliseconds=1)
        assert (node.state, len(node.epochs)) == ("up", 0)
        assert "the lease was not renewed in time, because this process stood still for 5.8 s" in caplog.text


async def test_a_drained_node_knows_it_and_forgets_it_again() -> None:
    async with world_of(2) as world:
        node = nodes_of(world)[0]
        await world.store.drain(node.name, True)
        await world.advance(seconds=2)
        assert node.membership.is_draining
        assert not node.epochs
        await world.store.drain(node.name, False)
        await world.advance(seconds=2)
        assert not node.membership.is_draining
        assert len(node.epochs) == 128


async def test_one_that_is_alone_says_so() -> None:
    async with world_of(2) as world:
        first, second = nodes_of(world)
        assert not first.membership.is_alone()
        await world.members[1].stop()
        await world.advance(seconds=1)
        assert first.membership.is_alone()
        assert second.is_dead


@pytest.mark.parametrize("count", [1, 2])
async def test_who_takes_nothing_of_what_is_handed_over_to_it_is_handed_no_more(count: int) -> None:
    """Its store answers it nothing any more; its lease runs, and what is nobody's answers nobody."""
    async with world_of(count) as world:
        await world.advance(seconds=2)
        stuck = Member(world, 9)
        await stuck.start()
        stuck.stall()
        await world.advance(seconds=3)
        free = [row.shard for row in await world.store.owners() if row.owner is None]
        assert 0 < len(free) <= membership.HAND_OVER_MAX
        stuck.go_on()
        await world.advance(seconds=3)
        assert stuck.node is not None
        assert len(stuck.node.epochs) == SHARDS // (count + 1)
        await stuck.stop()
