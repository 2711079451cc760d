"""How much is too much for a socket, and what happens then."""

from typing import Any

import pytest

from tests.conformance.hall import Hall, rows
from wakeful import Limits, Socket
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import ATTACHMENT_BYTES_MAX, TAG_CHARS_MAX, TAGS_MAX
from wakeful.values.errors import BadOption, BadValue, LimitExceeded, ReadOnly


async def refused(hall: Hall, use: Any, *, key: str = "r") -> BaseException:
    """What a use of the first socket raises in a turn that goes on."""
    raised: list[BaseException] = []

    async def body(room: Any) -> None:
        socket = (await room.ctx.sockets())[0]
        try:
            found = use(room, socket)
            if found is not None:
                await found
        except Exception as error:
            raised.append(error)

    await hall.do(body, key)
    assert raised, "it was taken"
    return raised[0]


def _set(name: str, value: Any) -> Any:
    return lambda room, socket: setattr(socket, name, value)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (_set("tags", [f"t{n}" for n in range(TAGS_MAX + 1)]), LimitExceeded),
        (_set("tags", ["x" * (TAG_CHARS_MAX + 1)]), LimitExceeded),
        (_set("tags", [""]), BadOption),
        (_set("tags", [1]), BadOption),
        (_set("tags", ["\ud800"]), BadOption),
        (_set("attachment", "x" * ATTACHMENT_BYTES_MAX), LimitExceeded),
        (_set("attachment", object()), BadValue),
        (lambda room, socket: socket.send({"a": 1}), BadValue),
        (lambda room, socket: socket.send("\ud800"), BadValue),
        (lambda room, socket: socket.send("x" * 101), LimitExceeded),
        (lambda room, socket: socket.send("ü" * 51), LimitExceeded),
        (lambda room, socket: room.ctx.broadcast(b"x" * 101), LimitExceeded),
        (lambda room, socket: room.ctx.broadcast(None), BadValue),
        (lambda room, socket: socket.close(1006), BadOption),
        (lambda room, socket: socket.close(1005), BadOption),
        (lambda room, socket: socket.close(5000), BadOption),
        (lambda room, socket: socket.close("1000"), BadOption),
        (lambda room, socket: socket.close(1000, "ü" * 62), BadOption),
        (lambda room, socket: room.ctx.auto_response("ping", None), BadOption),
        (lambda room, socket: room.ctx.auto_response("ping", b"pong"), BadOption),
    ],
)
async def test_what_can_not_be_is_refused_and_changes_nothing(use: Any, kind: type[Exception]) -> None:
    hall = Hall(limits=Limits(socket_message_bytes=100))
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        assert isinstance(await refused(hall, use), kind)
        await world.settle()
        assert client.got == []
        assert client.closed is None
        assert await hall.sockets() == ["ann"]


async def test_the_largest_that_may_be_is_taken() -> None:
    hall = Hall(limits=Limits(socket_message_bytes=100))

    async def use(room: Any) -> None:
        socket = (await room.ctx.sockets())[0]
        socket.tags = [f"{n}".rjust(TAG_CHARS_MAX, "x") for n in range(TAGS_MAX)]
        socket.attachment = "x" * (ATTACHMENT_BYTES_MAX - 10)
        await socket.send("ü" * 50)
        await socket.close(4999, "x" * 123)

    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        await hall.do(use)
        await world.settle()
        assert client.got == ["ü" * 50]
        assert client.closed == (4999, "x" * 123)


async def test_a_refused_send_that_nobody_awaits_fails_the_turn() -> None:
    hall = Hall()

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        await room.storage.put("wrote", 1)
        socket.send(object())  # type: ignore[arg-type]

    hall.message = message
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        await client.send("go")
        await world.settle()
        assert client.closed is not None
        assert client.closed[0] == 1011
        assert "wrote" not in await rows(world, hall)


async def test_an_object_has_so_many_sockets_and_no_more() -> None:
    hall = Hall(limits=Limits(sockets_per_object=2))
    async with hall.app.world() as world:
        first = await world.connect(hall.Room, "r", query={"name": "ann"})
        await world.connect(hall.Room, "r", query={"name": "bob"})
        with pytest.raises(LimitExceeded) as error:
            await world.connect(hall.Room, "r")
        assert error.value.code == "limit.sockets"
        await first.close()
        await world.connect(hall.Room, "r", query={"name": "cid"})
        assert await hall.sockets() == ["bob", "cid"]


async def test_a_process_holds_so_many_sockets_and_no_more() -> None:
    hall = Hall(limits=Limits(sockets_per_node=2))
    async with hall.app.world() as world:
        await world.connect(hall.Room, "a")
        client = await world.connect(hall.Room, "b")
        with pytest.raises(LimitExceeded) as error:
            await world.connect(hall.Room, "c")
        assert error.value.code == "limit.node_sockets"
        await client.close()
        await world.connect(hall.Room, "c")


async def test_a_message_that_is_too_long_closes_with_1009_and_nobody_hears_it() -> None:
    hall = Hall(limits=Limits(socket_message_bytes=100))
    async with hall.app.world() as world:
        for message in ("ü" * 51, b"x" * 101):
            client = await world.connect(hall.Room, "r")
            await client.send(message)
            await world.settle()
            assert client.closed == (1009, "a message may have 100 bytes")
        assert hall.heard == []
        assert [closed[1] for closed in hall.closed] == [1009, 1009]


async def test_a_client_that_does_not_read_is_cut_off_and_others_are_served() -> None:
    hall = Hall(limits=Limits(socket_queue_bytes=1_000))

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        await room.ctx.broadcast("x" * 100)

    hall.message = message
    async with hall.app.world() as world:
        slow = await world.connect(hall.Room, "r", query={"name": "slow"})
        fast = await world.connect(hall.Room, "r", query={"name": "fast"})
        slow.pause()
        for _ in range(30):
            await fast.send("go")
        await world.settle()
        assert len(fast.got) == 30
        assert slow.closed is not None
        assert hall.closed == [("slow", 1013, "the client reads too slowly", False)]
        assert await hall.sockets() == ["fast"]
        assert len(feature_of(world.node).gateway.sockets) == 1


async def test_a_client_that_reads_late_gets_everything_in_order() -> None:
    hall = Hall(limits=Limits(socket_queue_bytes=1_000))
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        client.pause()
        for number in range(20):
            await client.send(str(number))
        await world.settle()
        assert client.got == []
        client.resume()
        await world.settle()
        assert client.got == [f"got '{number}'" for number in range(20)]


async def test_a_client_is_read_no_faster_than_it_may_speak() -> None:
    hall = Hall(limits=Limits(socket_messages_per_s=10))
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        for number in range(40):
            await client.send(str(number))
        await world.settle()
        assert len(hall.heard) == 10
        await world.advance(seconds=1)
        assert len(hall.heard) == 20
        await world.advance(seconds=2)
        assert len(hall.heard) == 40
        await world.advance(minutes=1)
        await client.send("quick again")
        await world.settle()
        assert len(hall.heard) == 41


async def test_automatic_responses_count_like_messages() -> None:
    hall = Hall(limits=Limits(socket_messages_per_s=5))
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        await hall.do(lambda room: room.ctx.auto_response("ping", "pong"))
        for _ in range(20):
            await client.send("ping")
        await world.settle()
        assert len(client.got) == 5
        await world.advance(seconds=3)
        assert len(client.got) == 20


async def test_a_message_takes_as_long_as_a_call_may_and_no_longer() -> None:
    hall = Hall(limits=Limits(call_deadline_ms=2_000))

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        await room.storage.put("wrote", 1)
        await room.ctx._activation.node.clock.sleep(5_000)

    hall.message = message
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        await client.send("go")
        await world.advance(seconds=10)
        assert client.closed == (1011, "it took too long")
        assert "wrote" not in await rows(world, hall)


async def test_a_reader_may_look_at_sockets_and_not_use_them() -> None:
    hall = Hall()
    from wakeful import DurableObject, reader

    @hall.app.object
    class Desk(DurableObject):
        async def on_message(self, socket: Socket, message: str | bytes) -> None: ...

        @reader
        async def look(self) -> int:
            return len(await self.ctx.sockets())

        @reader
        async def use(self) -> None:
            await self.ctx.broadcast("x")

    async with hall.app.world() as world:
        await world.connect(Desk, "d")
        assert await hall.app.get(Desk, "d").look() == 1
        with pytest.raises(ReadOnly):
            await hall.app.get(Desk, "d").use()
