"""A network that is cut between two nodes: each says whom it can't reach, since when, and which calls ran out of time."""

import logging
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, key_of
from wakeful.runtime import contacts
from wakeful.runtime.status import status_of
from wakeful.telemetry.catalogue import CATALOGUE
from wakeful.testing.members import Member
from wakeful.values.errors import DeadlineExceeded


def status(member: Member) -> dict[str, Any]:
    assert member.node is not None
    return status_of(member.node)


def metric(member: Member, name: str) -> int:
    assert member.node is not None
    [found] = [one for one in CATALOGUE if one.prometheus == name]
    [(_, value)] = found.read(member.node)
    assert isinstance(value, int)
    return value


async def test_who_can_t_be_reached_is_said_until_it_is_reached_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "wakeful")
    troupe, world = cluster()
    async with world:
        first, second, third = world.members
        key = key_of(second)
        world.network.cut(first.name, second.name)
        with pytest.raises(DeadlineExceeded) as caught:
            await troupe.at(first, key, deadline="8s").add()
        assert caught.value.code == "call.unrouted"
        [one] = status(first)["unreached"]
        assert one["node"] == second.name
        assert 4_000 <= one["for_ms"] <= 8_000
        assert "nobody answers" in one["because"]
        assert one["calls"] >= 1
        assert metric(first, "wakeful_links_unreached") == 1
        assert status(third)["unreached"] == []
        assert metric(third, "wakeful_links_unreached") == 0
        codes = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "link.cut"]
        assert len(codes) == 1
        assert second.name in codes[0]
        # Nobody calls any more: it is asked all the same, and forgotten when it answers.
        await world.advance(seconds=20)
        assert status(first)["unreached"][0]["for_ms"] >= 20_000
        world.network.heal()
        await world.advance(seconds=8)
        assert status(first)["unreached"] == []
        assert any(getattr(record, "code", "") == "link.back" for record in caplog.records)


async def test_a_cut_that_no_call_has_met_shows_as_well(cluster: Cluster) -> None:
    """Of nodes in earnest, which ask each other now and then; the worlds of tests have better things to do."""
    _, world = cluster()
    async with world:
        first, second, third = world.members
        for member in world.members:
            assert member.node is not None
            member.node.membership.asks_back = True
            member.node.routes.contacts.start()
        world.network.cut(first.name, second.name)
        await world.advance(seconds=30)
        assert [one["node"] for one in status(first)["unreached"]] == [second.name]
        assert [one["node"] for one in status(second)["unreached"]] == [first.name]
        assert status(third)["unreached"] == []


async def test_one_that_died_or_is_frozen_is_not_said_to_be_cut_off(cluster: Cluster) -> None:
    """The store says that much: its lease is over."""
    troupe, world = cluster()
    async with world:
        first, second, _ = world.members
        key = key_of(second)
        second.freeze()
        assert await troupe.at(first, key, deadline="30s").add() == 1
        await world.advance(seconds=10)
        assert status(first)["unreached"] == []
        second.thaw()


def said(caplog: pytest.LogCaptureFixture, code: str, member: Member) -> int:
    """How often the log has it of that node."""
    return sum(getattr(one, "code", "") == code and member.name in one.getMessage() for one in caplog.records)


async def test_one_that_was_frozen_and_said_to_be_cut_off_is_said_to_be_back(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease was over meanwhile, so it was forgotten, and nobody said that it was reached again."""
    caplog.set_level(logging.WARNING, "wakeful")
    troupe, world = cluster(lease="10s")
    async with world:
        first, second, _ = world.members
        second.freeze()
        with pytest.raises(DeadlineExceeded):
            await troupe.at(first, key_of(second), deadline="7s").add()
        assert said(caplog, "link.cut", second) == 1
        await world.advance(seconds=15)
        assert status(first)["unreached"] == []  # it is silent: the store says that much
        assert said(caplog, "link.back", second) == 0
        second.thaw()
        await world.advance(seconds=10)
        assert said(caplog, "link.back", second) == 1


async def test_one_that_died_after_it_was_said_to_be_cut_off_is_forgotten(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "wakeful")
    troupe, world = cluster(lease="10s")
    async with world:
        first, second, _ = world.members
        assert first.node is not None
        second.freeze()
        with pytest.raises(DeadlineExceeded):
            await troupe.at(first, key_of(second), deadline="7s").add()
        second.kill()
        await world.advance(seconds=200)
        assert first.node.routes.contacts._cuts == {}
        assert said(caplog, "link.back", second) == 0


async def test_calls_that_ran_out_of_time_are_counted_and_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contacts, "LATE_KEPT_MS", 5_000)
    troupe, world = cluster()
    async with world:
        first, second, _ = world.members
        key = key_of(second)
        before = metric(first, "wakeful_calls_expired_total")
        assert status(first)["late"] == []
        world.network.cut(first.name, second.name)
        with pytest.raises(DeadlineExceeded):
            await troupe.at(first, key, deadline="4s").add()
        world.network.heal()
        with pytest.raises(DeadlineExceeded):
            await troupe.at(first, key, deadline="2s").add(60.0)
        assert metric(first, "wakeful_calls_expired_total") == before + 2
        [late] = status(first)["late"]
        assert (late["class"], late["method"], late["on"], late["calls"]) == ("Cell", "add", second.name, 2)
        assert late["ago_ms"] < 1_000
        await world.advance(seconds=6)
        assert status(first)["late"] == []
