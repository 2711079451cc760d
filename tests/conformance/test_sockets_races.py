"""Sockets where two things meet: a close or a stop and a long turn, a connection and a verdict of death or an answer."""

import asyncio
from contextvars import Context
from typing import Any

from tests.conformance.hall import Hall
from tests.conformance.test_sockets_cluster import apart
from wakeful import App, DurableObject, Limits, Socket
from wakeful.sockets.node_sockets import feature_of
from wakeful.testing import World

DEADLINE_MS = 1_000  # of a call


class Long:
    """An object whose alarm takes many times as long as a call may."""

    def __init__(self) -> None:
        self.app = App(limits=Limits(call_deadline_ms=DEADLINE_MS))
        self.closed: list[tuple[str, int, str, bool]] = []
        self.hangs = False
        long = self

        @self.app.object
        class Room(DurableObject):
            async def on_connect(self, socket: Socket, request: Any) -> None:
                socket.attachment = request.query["name"]

            async def on_message(self, socket: Socket, message: str | bytes) -> None:
                await self.ctx.set_alarm(self.ctx.now())

            async def alarm(self) -> None:
                await asyncio.sleep(20)

            async def on_close(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
                long.closed.append((socket.attachment, code, reason, was_clean))
                if long.hangs:
                    await asyncio.sleep(1_000_000)

            async def names(self) -> list[str]:
                return [socket.attachment for socket in await self.ctx.sockets()]

        self.Room = Room

    async def begin(self, world: World) -> Any:
        """Two clients, of whom one made the object do something long; the other."""
        ann = await world.connect(self.Room, "r", query={"name": "ann"})
        bob = await world.connect(self.Room, "r", query={"name": "bob"})
        await bob.send("begin")
        await world.settle()
        return ann


async def test_on_close_that_has_to_wait_for_a_long_turn_comes_behind_it() -> None:
    long = Long()
    async with long.app.world() as world:
        ann = await long.begin(world)
        leaving = asyncio.ensure_future(ann.close(4000, "home"))
        await world.advance(seconds=10)
        assert long.closed == []
        await world.advance(seconds=30)
        await leaving
        assert long.closed == [("ann", 4000, "home", True)]
        assert await world.get(long.Room, "r").names() == ["bob"]


async def test_on_close_that_never_ends_is_stopped_and_its_socket_forgotten() -> None:
    long = Long()
    long.hangs = True
    async with long.app.world() as world:
        ann = await world.connect(long.Room, "r", query={"name": "ann"})
        leaving = asyncio.ensure_future(ann.close(4000, "home"))
        await world.advance(hours=2)
        await leaving
        assert await world.get(long.Room, "r").names() == []
        assert long.closed == [("ann", 4000, "home", True)] * 2  # as a call, and with more time as a timer


async def test_a_stop_does_not_wait_for_a_long_turn_to_tell_of_its_sockets_and_they_are_told_later() -> None:
    long = Long()
    async with long.app.world() as world:
        await long.begin(world)
        began = world.now()
        await world.restart()
        assert (world.now() - began).total_seconds() < 120
        await world.advance(minutes=2)
        assert sorted(name for name, *_ in long.closed) == ["ann", "bob"]
        assert await world.get(long.Room, "r").names() == []


async def test_a_client_that_connects_before_its_gateway_knows_that_it_was_given_up_is_closed_and_told_of() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, _, key = apart(world)
        first = await world.connect(hall.Room, key, member=gateway, query={"name": "first"})
        gateway.freeze()
        await world.advance(seconds=90)
        assert hall.closed == [("first", 1006, "", False)]
        assert gateway.node is not None
        held = feature_of(gateway.node).gateway
        is_known = held._register._verify
        gate = asyncio.Event()

        async def verify() -> None:
            await gate.wait()
            await is_known()

        held._register._verify = verify  # type: ignore[method-assign]
        gateway.thaw()
        second = None
        for _ in range(50):
            await world.advance(milliseconds=100)
            try:
                second = await asyncio.wait_for(
                    world.connect(hall.Room, key, member=gateway, query={"name": "second"}), 5
                )
                break
            except Exception:  # the gateway is not up again yet
                continue
        assert second is not None
        gate.set()
        await world.advance(seconds=10)
        assert first.closed is not None
        assert second.closed is not None
        assert second.closed[0] == 1012
        await world.advance(seconds=10)
        assert sorted(one[0] for one in hall.closed) == ["first", "second"]
        assert await hall.sockets(key) == []


async def test_an_automatic_response_that_changes_while_a_client_connects_is_the_new_one() -> None:
    hall = Hall()
    changing: list[asyncio.Task[Any]] = []

    async def connect(room: Any, socket: Socket, request: Any) -> None:
        await room.ctx.auto_response("ping", "old")
        # Behind this turn, and on disk with it: the gateway may hear of it before it hears that the client connected.
        change = hall.do(lambda room: room.ctx.auto_response("ping", "new"))
        changing.append(asyncio.get_running_loop().create_task(change, context=Context()))

    hall.connect = connect
    async with hall.app.world() as world:
        await world.connect(hall.Terse, "x")  # the gateway is on the list from here on
        first = await world.connect(hall.Room, "r")
        await changing.pop()
        busy = asyncio.ensure_future(hall.do(lambda _: asyncio.sleep(1)))
        await world.settle()
        connecting = asyncio.ensure_future(world.connect(hall.Room, "r"))  # behind it
        await world.advance(seconds=2)
        client = await connecting
        await asyncio.gather(busy, *changing)
        for one in (client, first):
            await one.send("ping")
            await world.settle()
            assert one.got == ["new"]


async def test_what_is_sent_to_a_gateway_that_the_owner_has_not_seen_yet_arrives() -> None:
    hall = Hall()
    async with hall.app.world(nodes=3) as world:
        gateway, owning, key = apart(world)
        client = await world.connect(hall.Room, key, member=gateway, query={"name": "ann"})
        assert owning.node is not None
        membership = owning.node.membership
        membership.nodes = {name: row for name, row in membership.nodes.items() if name != gateway.node.name}  # type: ignore[union-attr]
        await hall.do(lambda room: room.ctx.broadcast("hello"), key, at=owning)
        await world.advance(seconds=5)
        assert client.got == ["hello"]
