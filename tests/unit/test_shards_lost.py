"""Shards that others took are counted, whichever way the node finds out; and the log says where to look."""

import logging

import pytest

from tests.unit.counting_cells import cells
from wakeful.policy.lease import LEASE_MS
from wakeful.runtime.status import status_of
from wakeful.telemetry.catalogue import CATALOGUE
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.ids import SHARDS


def counted(member: Member) -> int:
    """`wakeful_shards_lost_total` of that node."""
    assert member.node is not None
    [metric] = [metric for metric in CATALOGUE if metric.name == "wakeful.shards.lost"]
    [(_, value)] = metric.read(member.node)
    return int(value)


def said(caplog: pytest.LogCaptureFixture, code: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "code", "") == code]


async def lose_all(world: World, member: Member, away_ms: int = LEASE_MS + 2_000) -> None:
    await world.advance(milliseconds=away_ms)
    assert len(await world.store.nodes()) == 2
    assert sum(row.owner == member.name for row in await world.store.owners()) == 0


async def test_a_node_that_lost_its_store_counts_what_others_took_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "wakeful")
    async with cells().world(nodes=2) as world:
        member = world.members[0]
        assert member.node is not None
        had = len(member.node.epochs)
        assert 0 < had < SHARDS
        member.cut_off()
        await lose_all(world, member)
        member.reconnect()
        await world.advance(seconds=8)
        assert member.node.state == "up"
        assert counted(member) == had == status_of(member.node)["shards_lost"]
        [line] = said(caplog, "shard.fenced")
        assert line.startswith(f"{had} shards are no longer owned by this node")
        assert "this process stood still" not in line  # it did not: the store was away
        assert "its lease was over" in line


async def test_an_outage_in_which_nobody_took_anything_loses_nothing() -> None:
    async with cells().world(nodes=2) as world:
        member = world.members[0]
        member.cut_off()
        await world.advance(milliseconds=500)
        member.reconnect()
        await world.advance(seconds=8)
        assert member.node is not None
        assert member.node.state == "up"
        assert counted(member) == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_a_node_that_was_frozen_counts_them_and_blames_itself(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when its first question to the store fails as it wakes, because that ran out of time in its sleep."""
    caplog.set_level(logging.WARNING, "wakeful")
    async with cells().world(nodes=2) as world:
        member = world.members[0]
        assert member.node is not None
        had = len(member.node.epochs)
        member.freeze()
        await lose_all(world, member)
        if fails:
            member.faults.is_down = True
        member.thaw()
        await world.advance(milliseconds=20)
        member.faults.is_down = False
        await world.advance(seconds=8)
        assert member.node.state == "up"
        assert member.node.outage.count == int(fails)
        assert counted(member) == had
        [line] = said(caplog, "shard.fenced")
        assert "this process stood still for" in line
        assert "not at the database" in line
        for line in said(caplog, "store.down"):
            assert "this process stood still for" in line
        [paused] = said(caplog, "node.paused")
        assert "frozen" in paused
        assert (status_of(member.node)["stood_still"] or {})["for_ms"] >= LEASE_MS
