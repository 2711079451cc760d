"""Sockets in a cluster: one node holds the connection, another runs the object, and either may go."""

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.conformance.hall import Hall, key_at, rows
from wakeful import Socket
from wakeful.sockets.gateways import ALL
from wakeful.sockets.node_sockets import feature_of
from wakeful.store import Range
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.commits import SYSTEM, USER
from wakeful.values.errors import Denied, NotRunning
from wakeful.values.ids import ObjectId, shard_of


async def _broadcast(message: str, room: Any) -> None:
    await room.ctx.broadcast(message)


def owner(world: World, id: ObjectId) -> Member:
    return next(one for one in world.members if one.node is not None and shard_of(id) in one.node.epochs)


def other_than(world: World, *members: Member) -> Member:
    return next(one for one in world.members if one not in members and one.node is not None)


def apart(world: World) -> tuple[Member, Member, str]:
    """A node that holds connections, another that owns an object, and its key. Neither has the list of gateways."""
    lists = owner(world, ALL)
    gateway = other_than(world, lists)
    owning = other_than(world, lists, gateway)
    return gateway, owning, key_at(owning)


async def test_messages_and_sends_travel_between_gateway_and_owner() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        near = await world.connect(hall.Room, key, member=owning, query={"name": "near"})
        far = await world.connect(hall.Room, key, member=gateway, query={"name": "far"})
        for number in range(50):
            await far.send(str(number))
        await world.advance(seconds=1)
        assert far.got == [f"got '{number}'" for number in range(50)]
        assert await hall.do(lambda room: room.ctx.broadcast(b"\x00all"), key) == 2
        await world.advance(seconds=1)
        assert near.got == [b"\x00all"]
        assert far.got[-1] == b"\x00all"
        await far.close(4000, "home")
        assert hall.closed == [("far", 4000, "home", True)]
        assert await hall.sockets(key) == ["near"]


async def test_a_refusal_and_a_failure_travel_too() -> None:
    hall = Hall()

    async def connect(room: Any, socket: Socket, request: Any) -> None:
        if request.query["name"] == "eve":
            raise PermissionError("not you")

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        raise ValueError("no")

    hall.connect, hall.message = connect, message
    async with hall.app.world(nodes=3) as world:
        gateway, _, key = apart(world)
        with pytest.raises(Denied, match="not you"):
            await world.connect(hall.Room, key, member=gateway, query={"name": "eve"})
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        await client.send("x")
        await world.advance(seconds=1)
        assert client.closed == (1011, "the object failed")
        assert hall.closed == [("ann", 1011, "the object failed", True)]


async def test_an_automatic_response_reaches_gateways_elsewhere() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, _, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway)
        await hall.do(lambda room: room.ctx.auto_response("ping", "pong"), key)
        await world.advance(seconds=1)
        await client.send("ping")
        await world.settle()
        assert client.got == ["pong"]
        assert hall.heard == []


async def test_a_socket_goes_on_while_its_object_moves_and_moves_back() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        said = 0
        for is_draining in (True, False):
            assert owning.node is not None
            await world.store.drain(owning.node.name, is_draining)
            for _ in range(40):
                await client.send(str(said))
                said += 1
                await world.advance(milliseconds=50)
        await world.advance(seconds=10)
        assert client.got == [f"got '{number}'" for number in range(said)]
        assert client.closed is None
        assert (await rows(world, hall, key))["messages"] == said
        assert await hall.sockets(key) == ["ann"]


async def test_when_the_owner_dies_its_sockets_elsewhere_stay_and_no_message_is_lost_or_doubled() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        for number in range(20):
            await client.send(str(number))
            if number == 10:
                owning.kill()
            await world.advance(milliseconds=1)
        await world.advance(seconds=30)
        assert client.closed is None
        assert (await rows(world, hall, key))["messages"] == 20
        assert [what for _, what in dict.fromkeys(hall.heard)] == [str(number) for number in range(20)]
        assert await hall.sockets(key) == ["ann"]
        await client.send("last")
        await world.advance(seconds=1)
        assert client.got[-1] == "got 'last'"


async def test_a_message_whose_turn_was_kept_by_an_owner_that_died_is_not_run_again() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        await world.advance(seconds=1)

        def probe(name: str, number: int) -> None:
            if name == "commit.after":
                owning.kill()

        owning.faults.on_probe = probe
        await client.send("one")
        await world.advance(seconds=30)
        assert owning.node is None
        assert (await rows(world, hall, key))["messages"] == 1
        assert len(hall.heard) == 1
        await client.send("two")
        await world.advance(seconds=1)
        assert (await rows(world, hall, key))["messages"] == 2


async def test_when_a_gateway_dies_each_of_its_sockets_is_told_once_and_others_stay() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        mine = key_at(gateway)
        for where in (key, mine):
            for name in ("ann", "bob"):
                await world.connect(hall.Room, where, member=gateway, query={"name": f"{name} {where}"})
        stays = await world.connect(hall.Room, key, member=owning, query={"name": "stays"})
        gateway.kill()
        await world.advance(seconds=90)
        assert sorted(hall.closed) == sorted(
            (f"{name} {at}", 1006, "", False) for name in ("ann", "bob") for at in (key, mine)
        )
        assert await hall.sockets(key) == ["stays"]
        await stays.send("hi")
        await world.advance(seconds=1)
        assert stays.got == ["got 'hi'"]
        await gateway.start()
        await world.advance(seconds=90)
        assert len(hall.closed) == 4
        assert await world.store.scan(ObjectId("Room", mine), SYSTEM, Range()) == []


@pytest.mark.parametrize("sees", [True, False])
async def test_when_the_whole_cluster_dies_the_next_one_tells(sees: bool) -> None:
    hall = Hall()
    async with hall.app.world(nodes=2, sees=sees) as world:
        for number, member in enumerate(world.members):
            await world.connect(hall.Room, "r", member=member, query={"name": f"c{number}"})
        world.kill()
        await world.restart(after="10m")
        await world.advance(minutes=3)
        assert sorted(hall.closed) == [("c0", 1006, "", False), ("c1", 1006, "", False)]
        assert await world.store.scan(ALL, USER, Range()) == []


async def test_a_gateway_that_was_thought_dead_closes_its_sockets_when_it_is_back() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, _, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        gateway.freeze()
        await world.advance(minutes=3)
        assert hall.closed == [("ann", 1006, "", False)]
        gateway.thaw()
        await world.advance(minutes=1)
        assert client.closed is not None
        assert client.closed[0] == 1012
        assert len(hall.closed) == 1
        again = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        await again.send("hi")
        await world.advance(seconds=1)
        assert again.got == ["got 'hi'"]
        await again.close()
        assert hall.closed[1:] == [("ann", 1000, "", True)]


async def test_a_gateway_that_was_away_for_a_moment_keeps_its_sockets() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, _, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        gateway.freeze()
        await world.advance(seconds=20)
        gateway.thaw()
        await world.advance(seconds=20)
        assert client.closed is None
        await client.send("hi")
        await world.advance(seconds=5)
        assert client.got == ["got 'hi'"]
        assert hall.closed == []


async def test_when_the_link_is_cut_sends_arrive_later_in_order_and_once() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway)
        await client.send("hi")
        await world.advance(seconds=1)
        world.network.cut(gateway.name, owning.name)
        for number in range(30):
            await hall.do(partial(_broadcast, str(number)), key, at=owning)
            await world.advance(milliseconds=100)
        assert client.got == ["got 'hi'"]
        world.network.heal(gateway.name, owning.name)
        await world.advance(seconds=30)
        assert client.got == ["got 'hi'", *map(str, range(30))]


async def test_a_message_in_flight_when_the_link_breaks_happens_once() -> None:
    hall = Hall()

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        await asyncio.sleep(0.2)
        await room.storage.put("n", await room.storage.get("n", 0) + 1)

    hall.message = message
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway)
        await client.send("one")
        await world.advance(milliseconds=100)
        world.network.cut(gateway.name, owning.name)
        await world.advance(seconds=2)
        world.network.heal(gateway.name, owning.name)
        await world.advance(seconds=30)
        await client.send("two")
        await world.advance(seconds=5)
        assert (await rows(world, hall, key))["n"] == 2
        assert client.closed is None


async def test_a_node_that_stops_cleanly_sends_its_clients_away() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, _, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        await gateway.stop()
        assert client.closed == (1012, "the server is restarting")
        assert hall.closed == [("ann", 1012, "the server is restarting", True)]
        await world.advance(minutes=2)
        assert len(hall.closed) == 1


async def test_a_node_that_has_just_joined_is_not_taken_for_dead() -> None:
    hall = Hall()
    async with hall.app.world(nodes=2) as world:
        for number in range(2, 5):
            await world.nodes(number + 1)
            client = await world.connect(hall.Room, "r", member=world.members[-1], query={"name": str(number)})
            feature_of(owner(world, ALL).node).sweep.look()
            await world.advance(seconds=1)
            assert client.closed is None
        assert await hall.sockets("r") == ["2", "3", "4"]


async def test_a_process_that_owns_nothing_holds_no_sockets() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        world.node.is_client = True
        try:
            with pytest.raises(NotRunning):
                await world.connect(hall.Room, "r")
        finally:
            world.node.is_client = False
