"""What frames cost beside messages: each is counted, those that carry nothing are few, and the loop goes on between them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from tests.http.served_stage import BINARY, CLOSE, PING, PONG, TEXT, WAIT_S, Place, connect, frame
from wakeful import App
from wakeful.http.protocol import (
    BARE_MAX,
    FRAGMENTS_MAX,
    FRAGMENTS_PER_S,
    PASS_FRAMES,
    PIECE_BYTES,
    SLICE,
    TRY_AGAIN_LATER,
    HeldBytes,
    Quota,
    SocketProtocol,
)
from wakeful.policy.shares import Shares

CONT = 0
REQUEST = (
    b"GET /v1/objects/Room/r/socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
AT_ONCE = SLICE // 6  # frames of one slice


class Line(asyncio.Transport):
    """A connection of which this test is the other end."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.is_paused = self.is_over = False

    def write(self, data: Any) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0


class Counted(SocketProtocol):
    """One that says how many frames it took, and how many at once."""

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(
            app,
            ws_per_message_deflate=False,
            log_config=None,
            ws_ping_interval=None,
            lifespan="off",
            proxy_headers=False,
            interface="asgi3",
        )
        config.load()
        super().__init__(config, uvicorn.server.ServerState(), {}, asyncio.get_running_loop())
        self.taken = self.most = self._pass = 0

    def __getattribute__(self, name: str) -> Any:
        if name in ("handle_cont", "handle_ping", "handle_pong", "handle_text", "handle_bytes"):
            self._note()
        return super().__getattribute__(name)

    def _note(self) -> None:
        if not self._pass:
            asyncio.get_running_loop().call_soon(self._passed)
        self.taken += 1
        self._pass += 1
        self.most = max(self.most, self._pass)

    def _passed(self) -> None:
        self._pass = 0


class End:
    """The other end of a socket, and what the application behind it was told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.takes = asyncio.Event()  # what is sent
        self.takes.set()
        self.line = Line()
        self.protocol = Counted(self._answer)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            await self.takes.wait()
            event = await receive()
            self.heard.append(event)
            if event["type"] == "websocket.disconnect":
                return
            if event.get("text") == "close":
                await send({"type": "websocket.close", "code": 4000, "reason": ""})

    def say(self, data: bytes) -> None:
        """As a server reads it: in pieces, and none while reading is paused."""
        self._left = data
        self._on()

    def _on(self) -> None:
        if self.line.is_over or not self._left:
            return
        if not self.line.is_paused:
            piece, self._left = self._left[:65_536], self._left[65_536:]
            self.protocol.data_received(piece)
        asyncio.get_running_loop().call_later(0.001, self._on)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[End, Any]]:
    async with App().world() as world, another(world) as end:
        yield end, world


@asynccontextmanager
async def another(world: Any) -> AsyncIterator[End]:
    end = End()
    end.protocol.connection_made(end.line)
    end.protocol.data_received(REQUEST)
    await world.settle()
    assert end.line.sent.startswith(b"HTTP/1.1 101")
    end.line.sent = b""
    yield end
    if not end.protocol.disconnected:
        end.protocol.connection_lost(None)
    await world.settle()


@pytest.mark.parametrize(
    ("first", "many"),
    [(b"", frame(PING, b"")), (b"", frame(PONG, b"x")), (frame(TEXT, b"a", fin=False), frame(CONT, b"", fin=False))],
    ids=["pings", "pongs", "empty continuations"],
)
async def test_100_000_frames_that_carry_nothing_end_their_socket_after_some(first: bytes, many: bytes) -> None:
    async with opened() as (end, world):
        end.say(first + many * 100_000)
        await world.advance(seconds=60)
        assert end.protocol.taken <= BARE_MAX + AT_ONCE + 2
        assert end.protocol.most <= PASS_FRAMES + AT_ONCE
        assert end.line.is_over
        (event,) = end.heard
        assert event["code"] == 1008
        assert "frames" in event["reason"]
        assert (1008).to_bytes(2, "big") in end.line.sent[-130:]


async def test_fragments_of_a_byte_are_taken_at_a_pace_and_come_whole() -> None:
    async with opened() as (end, world):
        count = 3 * FRAGMENTS_MAX
        end.say(frame(TEXT, b"<", fin=False) + frame(CONT, b"x", fin=False) * count + frame(CONT, b">"))
        await world.advance(milliseconds=100)
        assert end.protocol.taken <= FRAGMENTS_MAX + FRAGMENTS_PER_S // 10 + AT_ONCE + 1
        assert end.heard == []
        assert end.line.is_paused  # and no more is read of it meanwhile
        await world.advance(seconds=count / FRAGMENTS_PER_S + 1)
        assert [event["text"] for event in end.heard] == [f"<{'x' * count}>"]
        assert end.protocol.most <= PASS_FRAMES + AT_ONCE
        end.say(frame(TEXT, b"next"))
        await world.advance(seconds=1)
        assert end.heard[-1]["text"] == "next"


async def test_a_long_message_in_large_pieces_is_not_held_up() -> None:
    async with opened() as (end, world):
        pieces = [bytes([65 + number % 26]) * 8_192 for number in range(128)]
        last = len(pieces) - 1
        end.say(b"".join(frame(CONT if n else BINARY, one, fin=n == last) for n, one in enumerate(pieces)))
        await world.advance(milliseconds=200)
        assert [event["bytes"] for event in end.heard] == [b"".join(pieces)]


async def test_pings_now_and_then_are_answered_for_ever() -> None:
    async with opened() as (end, world):
        for _ in range(100):
            end.say(frame(PING, b"hi") * 50)
            await world.advance(seconds=1)
        assert not end.line.is_over
        assert end.line.sent.count(b"\x8a\x02hi") == 5_000


async def test_what_comes_behind_the_end_is_taken_at_a_pace_as_well() -> None:
    async with opened() as (end, world):
        end.say(frame(TEXT, b"close") + frame(TEXT, b"x") * 100_000)
        await world.advance(milliseconds=100)
        assert end.protocol.taken <= FRAGMENTS_MAX + FRAGMENTS_PER_S // 10 + 2 * AT_ONCE
        assert end.protocol.most <= PASS_FRAMES + AT_ONCE
        await world.advance(seconds=30)
        assert end.line.is_over
        assert end.protocol.taken <= 12 * FRAGMENTS_PER_S + FRAGMENTS_MAX


async def test_what_is_held_back_of_all_sockets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have a quarter of a mebibyte that is not parsed, because its object takes nothing; all together had gibibytes."""
    monkeypatch.setattr(HeldBytes, "shares", Shares(50_000, few=50_000))
    async with opened() as (first, world), another(world) as second:
        for end in (first, second):
            end.takes.clear()
            end.say(frame(TEXT, b"x" * 50) * 700)
            await world.settle()
        assert not first.line.is_over
        assert second.line.is_over
        assert 0 < HeldBytes.shares.taken <= 50_000
        first.takes.set()
        second.takes.set()
        await world.advance(seconds=1)
        assert second.heard[-1]["code"] == TRY_AGAIN_LATER
        assert [event["type"] for event in first.heard] == ["websocket.receive"] * 700
        assert HeldBytes.shares.taken == 0


FRAME = frame(BINARY, b"x" * 40_000)
PIECES = frame(BINARY, b"x" * 15_000, fin=False) + frame(CONT, b"x" * 15_000, fin=False)
TINY = frame(BINARY, b"x", fin=False) + frame(CONT, b"x", fin=False) * 399
LAST = frame(CONT, b"", fin=True)


@pytest.mark.parametrize(
    ("sent", "rest", "size"),
    [
        pytest.param(FRAME[:30_000], FRAME[30_000:], 30_000, id="a frame"),
        pytest.param(PIECES, LAST, 30_000, id="a message in pieces"),
        pytest.param(TINY, LAST, 400 * PIECE_BYTES, id="a message in tiny pieces"),
    ],
)
async def test_what_the_parser_has_of_what_is_unfinished_is_held_back_too(
    sent: bytes, rest: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mebibyte of each socket was counted nowhere."""
    monkeypatch.setattr(HeldBytes, "shares", Shares(50_000, few=50_000))
    async with opened() as (first, world), another(world) as second:
        for end in (first, second):
            end.say(sent)
            await world.advance(seconds=1)
        assert (first.line.is_over, second.line.is_over) == (False, True)
        assert second.heard[-1]["code"] == TRY_AGAIN_LATER
        assert HeldBytes.shares.taken == pytest.approx(size, rel=0.02)
        first.say(rest)
        await world.advance(seconds=1)
        assert first.heard[-1]["type"] == "websocket.receive"
        assert HeldBytes.shares.taken == 0


async def test_one_token_does_not_use_up_what_may_be_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It did, and others were closed."""
    monkeypatch.setattr(HeldBytes, "shares", Shares(4_000_000, few=20_000))
    whole = frame(BINARY, b"y" * 500_000)  # no server reads so much at once
    place = Place(socket_message_bytes=1 << 20)
    async with asyncio.timeout(WAIT_S), place.served():
        greedy, modest = [{"Authorization": f"Bearer {await place.token(name)}"} for name in ("greedy", "modest")]
        many = [await connect(place, **greedy) for _ in range(12)]
        for client in many:
            assert await client.text() == "welcome"
            client.writer.write(whole[:-1])
        ends = [asyncio.ensure_future(client.end()) for client in many]
        [end, *_], _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        other = await connect(place, **modest)
        welcome = await other.text()
        other.writer.write(whole)
        said = await other.receive()
        for client in (*many, other):
            await client.close()
        await asyncio.gather(*ends)
    found = await end
    assert (welcome, said.opcode) == ("welcome", BINARY)
    assert found is None or found.code == TRY_AGAIN_LATER  # none, where the client was still sending


async def test_on_a_real_server_the_object_is_told_and_others_are_served() -> None:
    place = Place()
    async with place.served():
        bad, good = await connect(place), await connect(place, "/v1/objects/Room/other/socket")
        assert await bad.text() == await good.text() == "welcome"
        bad.writer.write(frame(PING, b"") * 20_000)
        end = await bad.end()
        assert end is None or (end.opcode, end.code) == (
            CLOSE,
            1008,
        )  # the kernel may throw it away with what is unread
        key, code, reason, _ = await place.over()
        assert (key, code) == ("r", 1008)
        assert "frames" in reason
        await good.send("hello")
        assert await good.text() == "hello"
        await bad.close()
        await good.close()


def test_a_wait_too_short_for_a_timer_is_none() -> None:
    """A loop whose clock does not move by so little would wait for it again and again, and for nothing else."""
    quota = Quota(2, 3)
    now_s = 1_790_000_000.1
    for _ in range(3):
        quota.take(now_s)
    waits = 0
    while wait_s := quota.wait_s(now_s):
        waits, now_s = waits + 1, now_s + wait_s
        assert waits < 10
