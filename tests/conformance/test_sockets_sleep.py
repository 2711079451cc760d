"""Sockets outlive the sleep of their object, and its node; of those that don't it is told."""

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.hall import Hall, rows
from wakeful import Socket
from wakeful.sockets.gateways import ALL
from wakeful.sockets.node_sockets import feature_of
from wakeful.store import Query, Range
from wakeful.testing import World
from wakeful.values.commits import SYSTEM, USER
from wakeful.values.ids import ObjectId


def is_awake(world: World, hall: Hall, key: str = "r") -> bool:
    return ObjectId("Room", key) in world.node.awake


async def test_a_socket_outlives_the_sleep_of_its_object_and_a_message_wakes_it(store_url: str) -> None:
    hall = Hall()

    async def connect(room: Any, socket: Socket, request: Any) -> None:
        socket.tags = ["t"]

    hall.connect = connect
    async with hall.app.world(store=store_url) as world:
        clients = [await world.connect(hall.Room, "r", query={"name": name}) for name in ("ann", "bob")]
        await world.advance(minutes=1)
        assert not is_awake(world, hall)
        await clients[0].send("hi")
        await world.settle()
        assert clients[0].got == ["got 'hi'"]
        assert hall.wakes == 2
        assert hall.heard == [("ann", "hi")]
        await world.advance(minutes=1)
        assert await hall.do(lambda room: room.ctx.broadcast("all", tag="t")) == 2
        await world.settle()
        assert [client.got for client in clients] == [["got 'hi'", "all"], ["all"]]


async def test_after_a_crash_every_lost_socket_is_told_once(store_url: str) -> None:
    hall = Hall()
    async with hall.app.world(store=store_url) as world:
        for name in ("ann", "bob"):
            await world.connect(hall.Room, "r", query={"name": name})
        await world.connect(hall.Room, "other", query={"name": "cid"})
        await world.crash()
        await world.restart(after="1h")
        await world.advance(seconds=1)
        lost = [("ann", 1006, "", False), ("bob", 1006, "", False), ("cid", 1006, "", False)]
        assert sorted(hall.closed) == lost
        assert (await rows(world, hall))["closes"] == 2
        assert await hall.sockets() == []
        await world.crash()
        await world.restart()
        await world.advance(minutes=10)
        assert sorted(hall.closed) == lost
        assert await world.store.find_timers(Query(limit=10)) == []
        assert await world.store.scan(ObjectId("Room", "r"), SYSTEM, Range()) == []


async def test_a_crash_at_any_point_of_being_told_changes_nothing() -> None:
    for number in range(1, 40):
        hall = Hall()
        async with hall.app.world() as world:
            await world.connect(hall.Room, "r", query={"name": "ann"})
            await world.crash()
            count = 0

            def probe(name: str, at: int, number: int = number, world: World = world) -> None:
                nonlocal count
                count += 1
                if count == number:
                    world.kill()

            world.faults.on_probe = probe
            try:
                await world.restart()
                await world.settle()
                await world.advance(seconds=30)
            except Exception:  # the process died while it started
                pass
            world.faults.on_probe = None
            is_over = count < number
            await world.crash()
            await world.restart()
            await world.advance(minutes=5)
            assert (await rows(world, hall))["closes"] == 1
            assert await hall.sockets() == []
        if is_over:
            return
    raise AssertionError("there were more points than were tried")


async def test_a_clean_stop_closes_with_1012_and_leaves_nothing_behind() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        await world.restart()
        assert client.closed == (1012, "the server is restarting")
        assert hall.closed == [("ann", 1012, "the server is restarting", True)]
        assert await world.store.scan(ALL, USER, Range()) == []
        await world.advance(minutes=1)
        assert len(hall.closed) == 1


async def test_a_message_during_an_outage_of_the_store_is_brought_when_it_is_back() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        world.faults.is_down = True
        await client.send("one")
        await client.send("two")
        await world.advance(seconds=10)
        assert client.got == []
        assert client.closed is None
        world.faults.is_down = False
        await world.advance(seconds=10)
        assert client.got == ["got 'one'", "got 'two'"]
        assert (await rows(world, hall))["messages"] == 2


async def test_an_outage_that_is_too_long_closes_with_1013_and_is_told_later() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        world.faults.is_down = True
        await client.send("one")
        await world.advance(seconds=90)
        assert client.closed == (1013, "try again later")
        world.faults.is_down = False
        await world.advance(minutes=2)
        assert hall.closed == [("ann", 1013, "try again later", True)]
        assert "messages" not in await rows(world, hall)


async def test_an_automatic_response_wakes_nothing_and_outlives_everything() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        early = await world.connect(hall.Room, "r", query={"name": "ann"})
        await hall.do(lambda room: room.ctx.auto_response("ping", "pong"))
        await world.advance(minutes=1)
        late = await world.connect(hall.Room, "r", query={"name": "bob"})
        await world.advance(minutes=1)
        wakes = hall.wakes
        for client in (early, late):
            await client.send("ping")
            assert await client.receive() == "pong"
        assert hall.wakes == wakes
        assert not is_awake(world, hall)
        assert hall.heard == []
        await late.send("ping?")
        assert await late.receive() == "got 'ping?'"
        await world.crash()
        await world.restart()
        again = await world.connect(hall.Room, "r", query={"name": "ann"})
        await again.send("ping")
        assert await again.receive() == "pong"
        await hall.do(lambda room: room.ctx.auto_response(None, None))
        await again.send("ping")
        assert await again.receive() == "got 'ping'"


async def test_a_class_without_on_close_is_not_woken_when_clients_go() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Terse, "t")
        gone = await world.connect(hall.Terse, "t")
        assert await hall.app.get(hall.Terse, "t").count() == 2
        await world.advance(minutes=1)
        await gone.close()
        assert not world.node.awake.keys() & {ObjectId("Terse", "t")}
        assert await hall.app.get(hall.Terse, "t").count() == 1
        await client.send("hi")
        assert await client.receive() == "hi"
        await world.crash()
        await world.restart()
        await world.advance(minutes=1)
        assert await hall.app.get(hall.Terse, "t").count() == 0


async def test_an_idle_socket_costs_its_gateway_no_task_and_its_node_no_object() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        for number in range(20):
            await world.connect(hall.Room, f"r{number}")
        await world.advance(minutes=1)
        gateway = feature_of(world.node).gateway
        assert len(gateway.sockets) == 20
        assert not world.node.awake
        assert [held for held in gateway.sockets.values() if held.writer is not None] == []
        assert await world.due() == []


async def test_the_list_of_gateways_forgets_objects_whose_clients_have_gone() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        stays = await world.connect(hall.Room, "s")
        assert len(await world.store.scan(ALL, USER, Range("at/", "at0"))) == 2
        await client.close()
        await world.advance(seconds=3)
        again = await world.connect(hall.Room, "r")
        await world.advance(seconds=10)
        assert len(await world.store.scan(ALL, USER, Range("at/", "at0"))) == 2
        await again.close()
        await world.advance(seconds=10)
        assert [key.rpartition("/")[2] for key, _ in await world.store.scan(ALL, USER, Range("at/", "at0"))] == ["s"]
        await stays.close()


async def test_sockets_of_objects_in_another_store() -> None:
    hall = Hall(stores={"eu/": "memory:"})
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "eu/r", query={"name": "ann"})
        await client.send("hi")
        assert await client.receive() == "got 'hi'"
        await world.advance(minutes=1)
        await hall.do(lambda room: room.ctx.broadcast("all"), "eu/r")
        assert await client.receive() == "all"
        await world.crash()
        await world.restart(after=timedelta(seconds=5))
        await world.advance(seconds=5)
        assert hall.closed == [("ann", 1006, "", False)]


@pytest.mark.parametrize("paranoid", [False, True])
async def test_attachment_and_tags_are_saved_with_the_turn(paranoid: bool) -> None:
    hall = Hall()
    seen: list[Any] = []

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        seen.append((socket.attachment, socket.tags))
        socket.attachment = {"count": len(seen)}
        socket.tags = f"t{len(seen)}"
        if message == "bad":
            raise ValueError

    hall.message = message
    async with hall.app.world(sleep_after_turn=paranoid) as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        for word in ("good", "bad"):
            await client.send(word)
            await world.settle()
        assert seen == [("ann", ()), ({"count": 1}, ("t1",))]
        assert hall.closed[0][0] == {"count": 1}
