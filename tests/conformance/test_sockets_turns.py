"""Sockets of one node: what an object is told, what its clients get, and when."""

from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.hall import Hall, rows
from wakeful import Socket
from wakeful.sockets.socket import SocketRequest
from wakeful.testing.sockets import SocketClosed
from wakeful.values.errors import BadOption, Denied, TurnOver, UnknownClass, UnknownMethod


async def test_a_client_connects_and_is_answered() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        await client.send("hi")
        assert await client.receive() == "got 'hi'"
        await client.send(b"\x00\xff")
        assert await client.receive() == "got b'\\x00\\xff'"
        assert hall.heard == [("ann", "hi"), ("ann", b"\x00\xff")]


async def test_on_connect_sees_the_request_and_may_choose_the_protocol() -> None:
    hall = Hall()
    seen: list[SocketRequest] = []

    async def connect(room: Any, socket: Socket, request: SocketRequest) -> str:
        seen.append(request)
        await socket.send("welcome")
        return "v2"

    hall.connect = connect
    async with hall.app.world() as world:
        request: dict[str, Any] = {
            "query": {"name": "ann"},
            "headers": {"x-a": "1"},
            "protocols": ("v1", "v2"),
            "caller": "token:t",
        }
        client = await world.connect(hall.Room, "r", **request)
        assert client.protocol == "v2"
        assert await client.receive() == "welcome"
        assert seen == [SocketRequest({"name": "ann"}, {"x-a": "1"}, ("v1", "v2"), "", "token:t")]
        with pytest.raises(Denied, match="does not offer"):
            await world.connect(hall.Room, "r", protocols=("v1",))


async def test_a_raise_in_on_connect_refuses_and_nothing_is_kept() -> None:
    hall = Hall()

    async def connect(room: Any, socket: Socket, request: SocketRequest) -> None:
        await socket.send("never")
        raise PermissionError("members only")

    hall.connect = connect
    async with hall.app.world() as world:
        with pytest.raises(Denied, match="members only") as refused:
            await world.connect(hall.Room, "r")
        assert refused.value.code == "socket.refused"
        assert await rows(world, hall) == {}
        assert await hall.sockets() == []
        await world.crash()
        await world.restart()
        assert hall.closed == []


async def test_a_class_without_on_message_has_no_sockets() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        with pytest.raises(UnknownMethod) as refused:
            await world.connect(hall.Deaf, "d")
        assert refused.value.code == "socket.unknown"
        with pytest.raises(UnknownClass):
            await world.connect(int, "d")


async def test_hooks_are_not_for_callers() -> None:
    hall = Hall()
    async with hall.app.world():
        for hook in ("on_connect", "on_message", "on_close"):
            with pytest.raises(UnknownMethod):
                getattr(hall.app.get(hall.Room, "r"), hook)


async def test_a_message_is_a_turn_and_a_raise_undoes_it_sends_nothing_and_closes_with_1011() -> None:
    hall = Hall()

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        await room.storage.put("wrote", message)
        await socket.send("wrote")
        await room.ctx.broadcast("wrote")
        if message == "bad":
            raise ValueError("bad")

    hall.message = message
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        await client.send("good")
        await world.settle()
        assert client.got == ["wrote", "wrote"]
        await client.send("bad")
        await world.settle()
        assert client.got == ["wrote", "wrote"]
        assert client.closed == (1011, "the object failed")
        assert (await rows(world, hall))["wrote"] == "good"
        assert hall.closed == [("ann", 1011, "the object failed", True)]


async def test_what_a_turn_sends_waits_until_it_is_on_disk() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        world.faults.fail_commit(0, when="before")
        await client.send("one")
        await world.advance(seconds=5)
        # The first try was not kept, so what it sent did not leave; the message was brought again.
        assert client.got == ["got 'one'"]
        assert [what for _, what in hall.heard] == ["one", "one"]
        assert (await rows(world, hall))["messages"] == 1


async def test_a_message_whose_commit_had_an_unknown_outcome_happens_once() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        world.faults.fail_commit(0, when="after")
        await client.send("one")
        await world.advance(seconds=5)
        assert (await rows(world, hall))["messages"] == 1
        assert len(hall.heard) == 1
        await client.send("two")
        await world.settle()
        assert (await rows(world, hall))["messages"] == 2


async def test_sends_keep_their_order_whether_their_turns_wrote_or_not() -> None:
    hall = Hall()

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        if int(message) % 3 == 0:
            await room.storage.put("n", message)
        await room.ctx.broadcast(message)

    hall.message = message
    async with hall.app.world() as world:
        one, two = await world.connect(hall.Room, "r"), await world.connect(hall.Room, "r")
        for number in range(30):
            await (one if number % 2 else two).send(str(number))
        await world.settle()
        assert one.got == two.got
        assert sorted(map(int, one.got)) == list(range(30))
        for parity in (0, 1):
            mine = [n for n in map(int, one.got) if n % 2 == parity]
            assert mine == sorted(mine)


async def test_a_transaction_that_is_rolled_back_takes_its_sends_with_it() -> None:
    hall = Hall()

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        await socket.send("before")
        async with room.storage.transaction():
            await socket.send("kept")
        for word in ("gone", "gone too"):
            with suppress(KeyError):
                async with room.storage.transaction():
                    await socket.send(word)
                    raise KeyError
        await socket.send("after")

    hall.message = message
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        await client.send("go")
        await world.settle()
        assert client.got == ["before", "kept", "after"]


async def test_what_was_sent_before_a_commit_in_the_turn_stays_when_it_raises_later() -> None:
    hall = Hall()

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        await socket.send("one")
        await room.storage.put("at", 1)
        await room.ctx.commit()
        await socket.send("two")
        raise ValueError

    hall.message = message
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r")
        await client.send("go")
        await world.settle()
        assert client.got == ["one"]
        assert (await rows(world, hall))["at"] == 1


async def test_any_turn_may_send_and_broadcast_goes_by_tag_and_spares_some() -> None:
    hall = Hall()

    async def connect(room: Any, socket: Socket, request: SocketRequest) -> None:
        socket.tags = ["all", request.query["name"][0]]

    async def speak(room: Any) -> tuple[int, int, list[str]]:
        ann = (await room.ctx.sockets("a"))[0]
        await ann.send("you")
        to_b = await room.ctx.broadcast("b only", tag="b")
        to_rest = await room.ctx.broadcast("not ann", except_for=[ann])
        return to_b, to_rest, [socket.attachment for socket in await room.ctx.sockets("all")]

    hall.connect = connect
    async with hall.app.world() as world:
        names = ("ann", "bob", "bea")
        clients = [await world.connect(hall.Room, "r", query={"name": name}) for name in names]
        told = await hall.do(speak)
        assert told == (2, 2, ["ann", "bob", "bea"])
        await world.settle()
        assert [client.got for client in clients] == [["you"], ["b only", "not ann"], ["b only", "not ann"]]
        await hall.do(lambda room: room.storage.set_alarm(1))
        await world.settle()
        assert [client.got[-1] for client in clients] == ["ring"] * 3


async def test_the_object_closes_a_socket_behind_what_it_sent() -> None:
    hall = Hall()
    states: list[str] = []

    async def message(room: Any, socket: Socket, message: str | bytes) -> None:
        states.append(socket.state)
        await socket.send("bye")
        await socket.close(4001, "enough")
        await socket.send("nothing comes behind it")
        states.append(socket.state)
        assert await room.ctx.broadcast("nor this") == 0

    async def close(room: Any, socket: Socket) -> None:
        states.append(socket.state)
        assert socket.tags == ()
        with pytest.raises(TurnOver):
            socket.attachment = "too late"

    hall.message, hall.close = message, close
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        await client.send("one")
        await client.send("two")
        await world.settle()
        assert states == ["open", "closing", "closed"]
        assert client.got == ["bye"]
        assert client.closed == (4001, "enough")
        assert hall.closed == [("ann", 4001, "enough", True)]
        assert [what for _, what in hall.heard] == ["one"]
        assert await client.receive() == "bye"
        with pytest.raises(SocketClosed) as over:
            await client.receive()
        assert (over.value.close_code, over.value.reason) == (4001, "enough")


async def test_the_object_hears_once_of_a_client_that_goes() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        polite = await world.connect(hall.Room, "r", query={"name": "polite"})
        rude = await world.connect(hall.Room, "r", query={"name": "rude"})
        await polite.close(1001, "home")
        await polite.close(1001, "home")
        await rude.vanish()
        await world.settle()
        assert hall.closed == [("polite", 1001, "home", True), ("rude", 1006, "", False)]
        assert await hall.sockets() == []
        assert (await rows(world, hall))["closes"] == 2


async def test_on_close_that_fails_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    hall = Hall()

    async def close(room: Any, socket: Socket) -> None:
        raise ValueError("no")

    hall.close = close
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        await client.close()
        await world.advance(minutes=5)
        assert len(hall.closed) == 1
        assert "closes" not in await rows(world, hall)
        assert await hall.sockets() == []
        await world.crash()
        await world.restart()
        assert len(hall.closed) == 1
    assert "on_close failed" in caplog.text


async def test_delete_all_leaves_sockets_as_they_are() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        client = await world.connect(hall.Room, "r", query={"name": "ann"})
        await hall.do(lambda room: room.storage.delete_all())
        await client.send("hi")
        assert await client.receive() == "got 'hi'"
        assert await hall.sockets() == ["ann"]


async def test_a_socket_is_for_turns_of_its_own_object() -> None:
    hall = Hall()
    found: list[Socket] = []

    async def keep(room: Any) -> None:
        found.extend(await room.ctx.sockets())

    async def use(room: Any) -> None:
        await found[0].send("from another object")

    async with hall.app.world() as world:
        await world.connect(hall.Room, "r")
        await hall.do(keep)
        with pytest.raises(TurnOver):
            await found[0].send("from nowhere")
        with pytest.raises(TurnOver):
            await hall.do(use, "other")


async def test_a_request_has_only_parts_that_there_are() -> None:
    hall = Hall()
    async with hall.app.world() as world:
        with pytest.raises(BadOption, match="cookies"):
            await world.connect(hall.Room, "r", cookies={})
