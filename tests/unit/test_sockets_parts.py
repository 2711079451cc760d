"""The parts of sockets that can be looked at alone: lines, paces, batches, and whose word counts."""

import asyncio
from typing import Any

import pytest

from wakeful import App, DurableObject, Limits, Socket
from wakeful.sockets import outbox as outboxes
from wakeful.sockets.gateway import Gateway
from wakeful.sockets.held import Held, Here
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.outbox import CLOSE, SEND, Effect, Outbox
from wakeful.sockets.socket import SocketRequest
from wakeful.sockets.turns import GONE, MESSAGE
from wakeful.store import NodeRow
from wakeful.values.errors import LimitExceeded, LinkLost
from wakeful.values.ids import ObjectId

ROOM = ObjectId("Room", "r")


class Wire:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def send(self, message: Any) -> None:
        await self.gate.wait()
        if self.fails:
            raise OSError("gone")
        self.sent.append(message)

    async def close(self, code: int, reason: str) -> None:
        self.sent.append((code, reason))

    def abort(self) -> None:
        self.sent.append("aborted")


def held(wire: Wire) -> Held:
    return Held("s", ROOM, Here(), wire)


async def passes() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_waits_for_the_handshake_goes_behind_it_in_order() -> None:
    wire = Wire()
    one = held(wire)
    one.push("a", 100)
    one.close(4000, "b")
    one.push("never", 100)
    await passes()
    assert wire.sent == []
    one.open()
    await passes()
    assert wire.sent == ["a", (4000, "b")]
    assert one.writer is None


async def test_a_line_may_be_full_and_no_fuller() -> None:
    wire = Wire()
    wire.gate.clear()
    one = held(wire)
    one.open()
    for _ in range(10):
        one.push("x" * 10, 100)
    assert wire.sent == []
    one.push("x", 100)
    assert one.closing == (1013, "the client reads too slowly")
    assert (one.is_aborted, wire.sent) == (True, ["aborted"])
    wire.gate.set()
    await passes()
    assert wire.sent == ["aborted"]


async def test_a_line_that_is_read_has_room_again() -> None:
    wire = Wire()
    one = held(wire)
    one.open()
    for number in range(50):
        one.push(f"{number:010}", 100)
        await passes()
    assert len(wire.sent) == 50
    assert one.closing is None


async def test_a_connection_that_can_not_be_written_to_is_left_to_its_server() -> None:
    wire = Wire()
    wire.fails = True
    one = held(wire)
    one.open()
    one.push("x", 100)
    await passes()
    assert one.writer is None
    assert one.closing is None


@pytest.mark.parametrize("per_s", [1, 7, 1_000])
async def test_a_pace_is_kept_and_a_pause_is_worth_a_second_of_it(per_s: int) -> None:
    one, now, taken = held(Wire()), 1_000_000, 0
    while now < 1_010_000:
        wait_ms = one.pace(now, per_s)
        now += wait_ms
        taken += 1
    assert 10 * per_s <= taken <= 11 * per_s + 1
    now += 60_000
    assert [one.pace(now, per_s) for _ in range(per_s)] == [0] * per_s
    assert one.pace(now, per_s) > 0


async def test_a_clock_that_is_set_back_silences_nobody() -> None:
    one = held(Wire())
    one.pace(1_000_000, 10)
    for _ in range(9):
        assert one.pace(500_000, 10) == 0
    assert one.pace(500_000, 10) == 100


# a gateway alone


def room() -> tuple[App, Any]:
    app = App()

    @app.object
    class Room(DurableObject):
        async def on_message(self, socket: Socket, message: str | bytes) -> None:
            if message == "close":
                await socket.close(4000, "enough")
            await self.storage.put("heard", message)

        async def heard(self) -> str:
            return str(await self.storage.get("heard"))

    return app, Room


def effect(epoch: int, message: str, id: str, kind: str = SEND) -> Effect:
    return Effect(kind, "Room", "r", epoch, [id], message, 4000 if kind == CLOSE else 0)


async def opened(gateway: Gateway, wire: Wire) -> Held:
    one, _ = await gateway.connect(ROOM, SocketRequest(), wire)
    one.open()
    return one


async def test_an_earlier_owner_that_comes_late_is_not_believed_and_the_client_connects_anew() -> None:
    app, _ = room()
    async with app.world() as world:
        gateway, wire = feature_of(world.node).gateway, Wire()
        one = await opened(gateway, wire)
        gateway.apply(effect(5, "a", one.id))
        gateway.apply(effect(6, "b", one.id))
        gateway.apply(effect(5, "late", one.id))
        gateway.apply(effect(6, "c", one.id))
        await world.settle()
        assert wire.sent == ["a", "b", (1012, "the object has moved; connect again")]


async def test_a_batch_counts_once_and_only_for_the_gateway_that_was_meant() -> None:
    app, _ = room()
    async with app.world() as world:
        gateway, wire = feature_of(world.node).gateway, Wire()
        one = await opened(gateway, wire)

        def batch(message: str) -> list[list[Any]]:
            found = effect(1, message, one.id)
            return [[getattr(found, name) for name in found.__struct_fields__]]

        assert gateway.take(gateway.id, "n1", 1, batch("a"))
        assert gateway.take(gateway.id, "n1", 1, batch("a"))
        assert gateway.take(gateway.id, "n2", 1, batch("b"))
        assert gateway.take(gateway.id, "n1", 3, batch("c"))
        assert gateway.take(gateway.id, "n1", 2, batch("old"))
        assert not gateway.take("another", "n1", 4, batch("d"))
        await world.settle()
        assert wire.sent == ["a", "b", "c"]


async def test_an_object_that_closed_a_socket_or_does_not_know_it_hears_nothing_more_of_it() -> None:
    app, room_class = room()
    async with app.world() as world:
        one, _ = await feature_of(world.node).gateway.connect(
            ROOM, SocketRequest(), Wire()
        )  # not open: it stays closing
        for number, (message, answer) in enumerate([("close", None), ("later", (4000, "enough"))], 1):
            assert await world.node.send(ROOM, MESSAGE, (one.id, number, message), {}) == answer
        assert await world.get(room_class, "r").heard() == "close"
        assert await world.node.send(ROOM, MESSAGE, ("nobody", 1, "x"), {}) == GONE


async def test_what_is_for_sockets_that_have_gone_is_dropped() -> None:
    app, _ = room()
    async with app.world() as world:
        gateway, wire = feature_of(world.node).gateway, Wire()
        one = await opened(gateway, wire)
        await gateway.on_disconnect(one, 1000, "", was_clean=True)
        gateway.apply(effect(1, "a", one.id))
        gateway.apply(effect(1, "", one.id, CLOSE))
        await world.settle()
        assert wire.sent == []
        assert gateway.sockets == {}


# the way to other gateways


class Routes:
    """The other node: fails for a while, then takes batches."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or LinkLost("gone")
        self.batches: list[tuple[int, list[list[Any]]]] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.contacts: Any = None

    async def ask(self, row: NodeRow, request: str, *args: Any, timeout_ms: int) -> bool:
        await self.is_open.wait()
        if self.failures:
            self.failures -= 1
            raise self.error
        self.batches.append((args[2], args[3]))
        return True

    @property
    def messages(self) -> list[Any]:
        return [one[5] if one[0] == SEND else (one[0], one[6], one[4]) for _, batch in self.batches for one in batch]


def outbox(world: Any, routes: Routes) -> Outbox:
    routes.contacts = world.node.routes.contacts
    world.node.routes = routes
    row = NodeRow("there", "addr", 0, 0, "")
    return Outbox(world.node, lambda: "me~1.1", lambda name: row if name == "there" else None)


async def test_batches_are_numbered_and_sent_until_they_are_taken() -> None:
    async with App().world() as world:
        routes = Routes(failures=3)
        box = outbox(world, routes)
        for number in range(5):
            box.push("there~1.1", effect(1, str(number), "s"))
        await world.advance(seconds=30)
        box.push("there~1.1", effect(1, "last", "s"))
        await world.advance(seconds=1)
        assert routes.messages == ["0", "1", "2", "3", "4", "last"]
        assert [number for number, _ in routes.batches] == [1, 2]


async def test_a_gateway_that_is_no_more_is_not_waited_for() -> None:
    async with App().world() as world:
        routes = Routes()
        box = outbox(world, routes)
        box.push("elsewhere~1.1", effect(1, "x", "s"))
        await world.advance(seconds=1)
        assert (routes.batches, box.dropped) == ([], 1)


async def test_a_line_that_is_too_long_is_dropped_and_its_sockets_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outboxes, "LINE_BYTES_MAX", 1_000)
    async with App(limits=Limits(socket_queue_bytes=1_000)).world() as world:
        routes = Routes()
        routes.is_open.clear()
        box = outbox(world, routes)
        box.push("there~1.1", effect(1, "first", "a"))
        await world.settle()
        for number in range(20):
            box.push("there~1.1", effect(1, "x" * 100, "ab"[number % 2]))
        routes.is_open.set()
        await world.settle()
        closes = [one for one in routes.messages if one[0] == CLOSE]
        assert routes.messages[0] == "first"
        assert {id for _, code, ids in closes for id in ids if code == 1013} == {"a", "b"}
        assert box.dropped > 0


@pytest.mark.parametrize("queue_bytes", [1_000, 100_000])
async def test_a_message_longer_than_a_line_is_sent_when_nothing_waits_there(
    queue_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "LINE_BYTES_MAX", 1_000)
    async with App(limits=Limits(socket_queue_bytes=queue_bytes)).world() as world:
        routes = Routes()
        routes.is_open.clear()
        box = outbox(world, routes)
        box.push("there~1.1", effect(1, "first", "a"))
        await world.settle()
        box.push("there~1.1", effect(1, "x" * 5_000, "a"))
        routes.is_open.set()
        await world.settle()
        assert routes.messages == ["first", "x" * 5_000]
        routes.is_open.clear()
        for _ in range(4):
            box.push("there~1.1", effect(1, "y" * 5_000, "a"))
        routes.is_open.set()
        await world.settle()
        assert (box.dropped == 0) == (queue_bytes == 100_000)


async def test_a_message_that_no_link_can_carry_closes_its_socket() -> None:
    async with App().world() as world:
        routes = Routes(failures=1, error=LimitExceeded("too long"))
        box = outbox(world, routes)
        box.push("there~1.1", effect(1, "huge", "s"))
        await world.settle()
        assert routes.messages == [(CLOSE, 1009, ["s"])]
