"""A store that answers seconds late, in virtual time: nobody sees an error, and what nothing proves waits."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, key_of, keys_of
from wakeful import Unavailable
from wakeful.http.health import MUTE_MS, why_not
from wakeful.policy.lease import LEASE_MS
from wakeful.policy.limits import Limits
from wakeful.values.errors import StoreDown


async def test_a_node_whose_lease_lapsed_goes_on_when_the_store_does(cluster: Cluster) -> None:
    """Of all nodes at once, as a database stalls: none of them takes the others for dead when it is back."""
    troupe, world = cluster()
    async with world:
        member = world.members[1]
        key, node = key_of(member), member.node
        assert node is not None
        assert await troupe.at(member, key).add() == 1
        epochs = dict(node.epochs)
        for each in world.members:
            each.stall()
        write = asyncio.ensure_future(troupe.at(member, key).add())
        await world.advance(milliseconds=LEASE_MS + 2_000)
        read = asyncio.ensure_future(troupe.at(member, key).value())
        late = asyncio.ensure_future(troupe.at(member, key).add())
        await world.advance(seconds=1)
        assert [call.done() for call in (write, read, late)] == [False] * 3
        for each in world.members:
            each.go_on()
            await world.advance(milliseconds=40)
        assert (await write, await read in (2, 3), await late) == (2, True, 3)
        assert (node.outage.count, node.membership.lapses, node.epochs) == (0, 1, epochs)


async def test_a_lapsed_node_answers_no_read_that_nothing_proves(cluster: Cluster) -> None:
    """Somebody has taken over and written since: what memory holds is old."""
    troupe, world = cluster()
    async with world:
        slow, other = world.members[1], world.members[0]
        key = key_of(slow)
        assert await troupe.at(slow, key).add() == 1
        read = asyncio.ensure_future(troupe.at(slow, key).value(LEASE_MS / 1_000 + 3))
        await world.advance(milliseconds=10)
        slow.stall()
        await world.advance(milliseconds=LEASE_MS + 1_000)
        assert await troupe.at(other, key, deadline="20s", request_key="r").add() == 2
        await world.advance(seconds=4)
        assert not read.done()
        slow.go_on()
        [told] = await asyncio.gather(read, return_exceptions=True)
        assert told == 2 or isinstance(told, Unavailable), told


async def test_a_node_says_that_it_is_not_ready_before_its_store_is_given_up(cluster: Cluster) -> None:
    """A hiccup is not said: load balancers would send everyone elsewhere and back."""
    troupe, world = cluster()
    async with world:
        member = world.members[1]
        node = member.node
        assert node is not None
        ask: Any = SimpleNamespace(deployment=SimpleNamespace(node=node), is_full=False)
        assert why_not(ask) is None
        for each in world.members:
            each.stall()
        for _ in range(MUTE_MS // 100 - 1):
            assert why_not(ask) is None
            await world.advance(milliseconds=100)
        await world.advance(milliseconds=500)  # a round begins every 300 ms
        assert (why_not(ask), node.is_doubted) == ("the store does not answer", False)
        await world.advance(milliseconds=LEASE_MS)
        assert (why_not(ask), node.is_doubted) == ("the store does not answer", True)
        for each in world.members:
            each.go_on()
        await world.advance(milliseconds=500)
        assert why_not(ask) is None
        assert await troupe.at(member, key_of(member)).add() == 1


async def test_no_more_than_a_bound_wait_for_a_store_that_is_away(cluster: Cluster) -> None:
    troupe, world = cluster(nodes=2, limits=Limits(store_waiting=2, store_wait_ms=5_000))
    async with world:
        member, other = world.members
        for each in world.members:
            each.cut_off()
        with pytest.raises(Unavailable):
            await troupe.at(member, "a").add()
        waiting = [asyncio.ensure_future(troupe.at(member, "a").add()) for _ in range(3)]
        await world.advance(milliseconds=10)
        assert [call.done() for call in waiting] == [False, False, True]
        with pytest.raises(Unavailable) as caught:
            await waiting[2]
        assert caught.value.code == "store.waiting"
        began = world.now()
        for call in waiting[:2]:
            with pytest.raises(Unavailable, match="nothing was written"):
                await call
        assert (world.now() - began).total_seconds() <= 5.1
        member.reconnect()
        other.reconnect()
        await world.advance(seconds=8)
        assert await troupe.at(member, "a").add() == 1


async def test_a_lease_that_lapsed_while_the_node_recovered_is_doubted(cluster: Cluster) -> None:
    """The claim was answered after the lease: by then the shards were taken, and nothing of what it reads stays true."""
    troupe, world = cluster()
    async with world:
        slow, other = world.members[1], world.members[0]
        key, node = key_of(slow), slow.node
        assert node is not None
        assert await troupe.at(slow, key).add() == 1
        slow.faults.lag_once("claim", "late", LEASE_MS + 1_500)
        node.store_failed(StoreDown("away"))
        while node.state != "up":
            await world.advance(milliseconds=1)
        first = asyncio.ensure_future(troupe.at(slow, key).value())
        await world.advance(milliseconds=1)
        slow.stall()
        assert await troupe.at(other, key, deadline="20s", request_key="r").add() == 2
        second = asyncio.ensure_future(troupe.at(slow, key).value())
        await world.advance(seconds=2)
        slow.go_on()
        [_, told] = await asyncio.gather(first, second, return_exceptions=True)
        assert told == 2 or isinstance(told, Unavailable), told


async def test_a_lease_that_lapses_while_the_node_stops_is_doubted(cluster: Cluster) -> None:
    """Its last turns ask each other what another node has changed since."""
    troupe, world = cluster()
    async with world:
        slow, other = world.members[1], world.members[0]
        asking, asked = keys_of(slow, 2)
        assert await troupe.at(slow, asked).add() == 1
        last = asyncio.ensure_future(troupe.at(slow, asking).look(asked, LEASE_MS / 1_000 + 3))
        busy = asyncio.ensure_future(troupe.at(slow, asked).value(LEASE_MS / 1_000 + 5))  # so it is not handed over
        await world.advance(milliseconds=10)
        stopping = asyncio.ensure_future(slow.stop())
        await world.advance(milliseconds=10)
        slow.stall()
        await world.advance(milliseconds=LEASE_MS + 1_500)
        assert await troupe.at(other, asked, deadline="20s", request_key="r").add() == 2
        await world.advance(seconds=2)
        slow.go_on()
        [told, _, _] = await asyncio.gather(last, busy, stopping, return_exceptions=True)
        assert told == 2 or isinstance(told, Unavailable), told


async def test_the_last_turns_of_a_node_whose_lease_lapsed_are_answered_when_nobody_took_over(cluster: Cluster) -> None:
    troupe, world = cluster()
    async with world:
        slow = world.members[1]
        key = key_of(slow)
        last = asyncio.ensure_future(troupe.at(slow, key).value(LEASE_MS / 1_000 + 3))
        await world.advance(milliseconds=10)
        stopping = asyncio.ensure_future(slow.stop())
        await world.advance(milliseconds=10)
        for each in world.members:
            each.stall()
        await world.advance(milliseconds=LEASE_MS + 4_000)
        assert not last.done()
        for each in (slow, *world.members):
            each.go_on()
            await world.advance(milliseconds=40)
        assert last.done()
        assert await last == 0
        await stopping


async def test_a_timer_whose_note_was_heard_of_after_the_lease_begins_only_where_it_is_now(cluster: Cluster) -> None:
    """It froze between writing that it begins and hearing so: by then another node has taken it over."""
    troupe, world = cluster()
    async with world:
        slow = world.members[1]
        key = key_of(slow)
        await troupe.at(slow, key).arm(1_000)
        await world.advance(milliseconds=990)
        slow.faults.lag_once("commit", "late", 500)
        await world.advance(milliseconds=30)
        slow.stall()
        await world.advance(milliseconds=LEASE_MS + 3_000)
        slow.go_on()
        await world.advance(seconds=10)
        assert [node for node, _ in troupe.runs(f"alarm {key}") if node == slow.name] == []
        assert len(troupe.runs(f"alarm {key}")) == 1
