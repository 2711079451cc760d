"""Connections that cost the server much for little: endless trailers, tiny chunks, thousands of requests at once, other protocols."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.http.served_stage import WAIT_S, Place, connect
from wakeful.http.protocol import HeldBytes, Quota
from wakeful.policy.shares import Shares
from wakeful.server import guard
from wakeful.server.guard import Guarded
from wakeful.server.site import Site

HOST = b"host: localhost\r\n"
CHUNKED = b"transfer-encoding: chunked\r\ncontent-type: application/json\r\n"
ECHO = b"POST /v1/objects/Deaf/a/echo HTTP/1.1\r\n"
H2C = b"connection: upgrade\r\nupgrade: h2c\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def connections_of(place: Place) -> list[Guarded]:
    assert place.server is not None
    return [cast("Guarded", one) for one in place.server.server_state.connections]


async def until(place: Place, is_so: Callable[[Guarded], bool]) -> Guarded:
    """The connection of which this is true, once it is."""
    while True:
        for one in connections_of(place):
            if is_so(one):
                return one
        await asyncio.sleep(0.01)


async def poured(place: Place, head: bytes, part: bytes, most: int) -> int:
    """How many bytes behind the head the server takes before it hangs up; at most so many are sent."""
    sent = 0
    async with connected(place) as (_, writer):
        writer.write(head)
        try:
            while sent < most:
                writer.write(part)
                sent += len(part)
                await asyncio.wait_for(writer.drain(), WAIT_S)
        except ConnectionError:
            return sent
    return sent


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return head, await asyncio.wait_for(reader.readexactly(size), WAIT_S)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise AssertionError(f"no answer came: {error!r}") from error


@pytest.mark.parametrize("path", [b"/healthz", b"/v1/objects/Deaf/a/echo"])
async def test_trailers_without_end_are_cut_off(path: bytes) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n0\r\n"
    async with Place().served() as place:
        assert await poured(place, head, b"a: b\r\n" * 5_000, 100 << 20) < 20 << 20


async def test_some_trailers_are_taken_and_nobody_gets_them() -> None:
    async with Place().served() as place, connected(place) as (reader, writer):
        for _ in range(2):
            writer.write(ECHO + HOST + CHUNKED + b"\r\n3\r\n[5]\r\n0\r\na: b\r\n\r\n")
            head, body = await answer(reader)
            assert head.startswith(b"HTTP/1.1 200")
            assert body == b'{"result":5}'
        assert b"a" not in dict(connections_of(place)[0].headers)


async def test_what_still_comes_of_a_body_that_is_answered_is_not_parsed_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[int] = []
    feed = Guarded._feed
    monkeypatch.setattr(Guarded, "_feed", lambda self, data: (parsed.append(len(data)), feed(self, data))[1])
    monkeypatch.setattr(guard, "LINGER_S", WAIT_S)
    head = b"POST /healthz HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n"
    async with Place().served() as place:
        taken = await poured(place, head, b"1\r\n \r\n" * 5_000, 12 << 20)
        assert sum(parsed) < 1 << 20
        assert guard.LINGER_BYTES < taken < 12 << 20


@pytest.mark.parametrize("wish", [b"", b"connection: close\r\n"])
async def test_who_is_answered_before_the_body_was_read_has_the_answer_and_an_end(
    wish: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LINGER_S", WAIT_S)
    head = b"POST /healthz HTTP/1.1\r\n" + HOST + wish + b"content-length: 100000\r\n\r\n"
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(head + b"x" * 50_000)
        said, _ = await answer(reader)
        assert said.startswith(b"HTTP/1.1 405")
        assert said.count(b"\r\nconnection: close\r\n") == 1
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
        assert connections_of(place)  # what still comes is taken: else the answer could be lost on its way


async def test_tiny_chunks_are_parsed_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    feed_on = Guarded._feed_on

    def counted(self: Guarded) -> None:
        nonlocal most
        feed_on(self)
        most = max(most, self._chunks)

    monkeypatch.setattr(Guarded, "_feed_on", counted)
    body = b"[" + b" " * 60_000 + b"7]"
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(ECHO + HOST + CHUNKED + b"\r\n" + b"".join(b"1\r\n%c\r\n" % one for one in body) + b"0\r\n\r\n")
        assert (await answer(reader))[1] == b'{"result":7}'
        assert guard.CHUNKS_FEW < most <= guard.CHUNKED_SLICE // 6 + 1
        large = b"%x\r\n%s\r\n" % (len(body), body)
        writer.write(ECHO + HOST + CHUNKED + b"\r\n" + large + b"0\r\n\r\n")
        assert (await answer(reader))[1] == b'{"result":7}'


async def test_of_thousands_of_requests_at_once_few_are_read_and_all_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting, rest = 0, 0
    feed_on = Guarded._feed_on

    def counted(self: Guarded) -> None:
        nonlocal waiting, rest
        feed_on(self)
        waiting, rest = max(waiting, len(self.pipeline)), max(rest, len(self._rest))

    monkeypatch.setattr(Guarded, "_feed_on", counted)
    monkeypatch.setattr(guard, "PIPELINED_BURST", 10**6)
    count = 20_000
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(HEALTH * count)
        found = 0
        while found < count:
            data = await asyncio.wait_for(reader.read(1 << 20), WAIT_S)
            assert data
            found += data.count(b"HTTP/1.1 200")
        assert found == count
    assert guard.PIPELINED_MAX <= waiting <= guard.PIPELINED_MAX + guard.SLICE // len(HEALTH) + 1
    assert rest <= 1 << 19


async def test_what_is_held_back_of_all_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have a quarter of a mebibyte that is not read yet; twelve thousand of them had three gibibytes."""
    monkeypatch.setattr(HeldBytes, "shares", Shares(150_000, few=150_000))
    slow = b"POST /v1/objects/Deaf/a/wait HTTP/1.1\r\n" + HOST + b"content-length: 2\r\n\r\n[]"
    async with (
        Place().served() as place,
        connected(place) as (first, one),
        connected(place) as (second, two),
        connected(place) as (third, few),
    ):
        one.write(slow + HEALTH * 2_500)
        await until(place, lambda found: len(found._rest) > 50_000)
        few.write(slow + HEALTH * 100)  # so little everybody may have
        two.write(slow + HEALTH * 2_500)
        await until(place, lambda found: bool(found._refusal))
        assert HeldBytes.shares.taken <= 150_000  # nothing is kept of what is refused
        place.gate.set()
        found = await asyncio.wait_for(second.read(), WAIT_S)
        assert found.startswith(b"HTTP/1.1 200")  # what has begun is answered
        assert b'"code":"server.bodies"' in found
        for reader, count in ((first, 2_501), (third, 101)):
            found = 0
            while found < count:
                data = await asyncio.wait_for(reader.read(1 << 20), WAIT_S)
                assert data
                found += data.count(b"HTTP/1.1 200")
        assert HeldBytes.shares.taken == 0


async def test_whose_body_in_tiny_chunks_finds_no_room_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldBytes, "shares", Shares(0))
    body = b"1\r\n \r\n" * 20_000
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(ECHO + HOST + CHUNKED + b"\r\n" + body)
        check_problem(*await answer(reader), 503, "server.bodies", "try again")


async def test_behind_a_chunked_body_few_requests_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at once of a body in large chunks may end in hundreds of tiny requests."""
    waiting = 0
    feed = Guarded._feed

    def counted(self: Guarded, data: bytes) -> None:
        nonlocal waiting
        feed(self, data)
        waiting = max(waiting, len(self.pipeline))

    monkeypatch.setattr(Guarded, "_feed", counted)
    tiny = b"GET / HTTP/1.1\r\nhost:\r\n\r\n"
    body = b"[" + b" " * 49_000 + b"7]"
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(ECHO + HOST + CHUNKED + b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) + tiny * 1_000)
        assert (await answer(reader))[1] == b'{"result":7}'
        for _ in range(1_000):
            await answer(reader)
    assert waiting <= guard.PIPELINED_MAX + 4_096 // len(tiny) + 1


async def test_one_connection_alone_does_not_fill_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the first so many, requests that come before the answers of others are read at a pace."""
    waits: list[float] = []
    wait_s = Quota.wait_s

    def noted(self: Quota, now_s: float) -> float:
        waits.append(wait_s(self, now_s))
        return 0.0

    monkeypatch.setattr(Quota, "wait_s", noted)
    monkeypatch.setattr(guard, "PIPELINED_PER_S", 1)  # which a slow machine, too, is faster than
    count = 3 * guard.PIPELINED_BURST
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(HEALTH * count)
        found = 0
        while found < count:
            found += (await asyncio.wait_for(reader.read(1 << 20), WAIT_S)).count(b"HTTP/1.1 200")
    assert waits[0] == 0
    assert max(waits) > 0


@pytest.mark.parametrize("wish", [b"h2c", b"TLS/1.0", b"websocket"])
@pytest.mark.parametrize("is_split", [False, True])
async def test_a_wish_for_another_protocol_takes_nothing_from_the_request(wish: bytes, is_split: bool) -> None:
    inner = b"POST /v1/objects/Deaf/b/echo HTTP/1.1\r\n" + HOST + b"content-length: 4\r\n\r\n[77]"
    text = b'["' + inner.replace(b"\r\n", b"  ") + b'"]'
    wishes = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: " + wish + b"\r\nhttp2-settings: AAMAAABkAAQ\r\n"
    head = ECHO + HOST + wishes + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text)
    async with Place().served() as place, connected(place) as (reader, writer):
        for _ in range(2):  # the connection goes on as it was
            if is_split:
                writer.write(head)
                await writer.drain()
                await asyncio.sleep(0.05)
                writer.write(text)
            else:
                writer.write(head + text)
            said, body = await answer(reader)
            assert said.startswith(b"HTTP/1.1 200"), said
            assert body == b'{"result":' + text[1:-1] + b"}"
        assert len(place.heard) == 2


async def test_a_get_that_wishes_for_another_protocol_is_answered_in_this_one() -> None:
    request = b"GET /healthz HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(request + request)
        for _ in range(2):
            assert (await answer(reader))[0].startswith(b"HTTP/1.1 200")


async def test_one_trailer_without_end_is_cut_off() -> None:
    head = ECHO + HOST + CHUNKED + b"\r\n0\r\na: "
    async with Place().served() as place:
        assert await poured(place, head, b"b" * 65_536, 12 << 20) < 12 << 20


async def test_a_socket_may_begin_with_a_long_head() -> None:
    """As a browser's is: what is parsed in several slices."""
    async with Place().served() as place:
        for length in (400, 2_000, 7_000):
            client = await connect(place, Cookie="c" * length)
            assert await client.text() == "welcome"
            await client.send("hello")
            assert await client.text() == "hello"
            await client.close()


SOCKET = b"GET /v1/objects/Room/a/socket HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: websocket\r\n"
KEY = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
TWO_CODINGS = b"transfer-encoding: gzip\r\n" + CHUNKED + b"\r\n0\r\n\r\n"
# What the parser takes, and nobody should: each is also sent behind a request that is being answered.
ODD_HEADS = {
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "request.http", "no Host header"),
    "two hosts": (b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, "request.http", "2 Host headers"),
    "http 2 in words": (b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n", 505, "request.version", "HTTP/2.0"),
    "no version at all": (b"GET /healthz\r\n\r\n", 400, "request.http", "no version"),
    "gzip and chunks": (ECHO + HOST + TWO_CODINGS, 501, "request.coding", "gzip, chunked"),
    "gzip alone": (ECHO + HOST + b"transfer-encoding: gzip\r\n\r\n", 501, "request.coding", "gzip"),
    "gzip and another protocol": (ECHO + HOST + H2C + TWO_CODINGS, 501, "request.coding", "gzip, chunked"),
}
REFUSED = {
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "request.http", "send HTTP/1.1"),
    "no http": (b"hello\r\n\r\n", 400, "request.http", "send HTTP/1.1"),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "request.http", "send HTTP/1.1"),
    "a space": (b"GET /v1/objects/Room/a b HTTP/1.1\r\n" + HOST + b"\r\n", 400, "request.http", "percent-encode"),
    "two lengths": (
        *(ECHO + HOST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n", 400, "request.http", "Content-Length"),
    ),
    "a proxy": (b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "request.http", "this is no proxy"),
    "a long head": (
        *(b"GET /healthz HTTP/1.1\r\n" + b"a: " + b"b" * guard.HEAD_BYTES_MAX, 431, "header.long", "32768 bytes"),
    ),
    "no key": (SOCKET + b"sec-websocket-version: 13\r\n\r\n", 400, "socket.handshake", "Sec-WebSocket-Key"),
    "no version": (SOCKET + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 400, "socket.handshake", "Version"),
    "a socket with a body": (SOCKET + KEY[:-2] + b"content-length: 5\r\n\r\nhello", 400, "socket.handshake", "no body"),
    "a socket with chunks": (SOCKET + KEY[:-2] + CHUNKED + b"\r\n0\r\n\r\n", 400, "socket.handshake", "no body"),
    **ODD_HEADS,
}


@pytest.mark.parametrize("name", REFUSED)
async def test_who_is_refused_before_there_is_a_request_gets_a_problem_too(name: str) -> None:
    sent, status, code, words = REFUSED[name]
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(sent)
        check_problem(*await answer(reader), status, code, words)
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""


async def test_who_finds_no_place_for_a_connection_gets_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "connections_max", 1)
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(HEALTH)
        await answer(reader)
        async with connected(place) as (other, _):
            head, body = await answer(other)
            check_problem(head, body, 503, "server.connections", "try again")
            assert b"\r\nretry-after: 1\r\n" in head


async def test_what_is_dropped_is_no_longer_counted_among_what_is_held_back() -> None:
    """Though the connection is not lost yet: it still sends what it was told, to a client that may not take it."""
    async with Place().served() as place, connected(place) as (_, writer):
        writer.write(b"POST /v1/objects/Deaf/a/wait HTTP/1.1\r\n" + HOST + b"content-length: 2\r\n\r\n[]")
        await until(place, lambda one: one.cycle is not None)
        writer.write(HEALTH * 1_000)
        one = await until(place, lambda one: HeldBytes.shares.taken > 0)
        one.pipeline.clear()  # so that it is read on
        one.transport.close()
        one._feed_on()
        assert HeldBytes.shares.taken == 0
        place.gate.set()


def check_problem(head: bytes, body: bytes, status: int, code: str, words: str) -> None:
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"\r\ncontent-type: application/problem+json\r\n" in head.lower()
    assert b"\r\nconnection: close\r\n" in head.lower()
    found = json.loads(body)
    assert (found["status"], found["code"], found["type"]) == (status, code, f"urn:wakeful:problem:{code}")
    assert found["title"]
    assert words in found["detail"]


async def test_behind_a_body_of_known_length_few_requests_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = 0
    feed = Guarded._feed

    def counted(self: Guarded, data: bytes) -> None:
        nonlocal waiting
        feed(self, data)
        waiting = max(waiting, len(self.pipeline))

    monkeypatch.setattr(Guarded, "_feed", counted)
    text = b'["' + b"x" * 2_000 + b'"]'
    head = ECHO + HOST + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text)
    count = 500
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(head)
        await writer.drain()
        await until(place, lambda one: one.cycle is not None)
        writer.write(text + HEALTH * count)
        found = 0
        while found < count + 1:
            data = await asyncio.wait_for(reader.read(1 << 20), WAIT_S)
            assert data
            found += data.count(b"HTTP/1.1 200")
    assert waiting <= guard.PIPELINED_MAX + guard.SLICE // len(HEALTH) + 1


async def test_each_of_several_requests_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though what is read at once ends in the middle of the next each time."""
    timers: list[asyncio.TimerHandle | None] = []
    feed = Guarded._feed
    monkeypatch.setattr(Guarded, "_feed", lambda self, data: (feed(self, data), timers.append(self._timer))[0])
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(HEALTH[:9])
        for _ in range(3):
            writer.write(HEALTH[9:] + HEALTH[:9])
            await answer(reader)
    assert None not in timers
    assert len({id(one) for one in timers}) >= 3


async def test_whom_the_server_does_not_read_is_not_too_slow() -> None:
    """A client that has sent all that it has, while it is held back behind an answer that takes long."""
    count = 100
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(
            b"POST /v1/objects/Deaf/a/wait HTTP/1.1\r\n" + HOST + b"content-length: 2\r\n\r\n[]" + HEALTH * count
        )
        held = await until(place, lambda one: bool(one._rest))
        held._too_slow()  # as after half a minute
        place.gate.set()
        found = 0
        while found < count + 1:
            data = await asyncio.wait_for(reader.read(1 << 20), WAIT_S)
            assert data
            found += data.count(b"HTTP/1.1 200")


async def test_an_answer_that_says_it_is_the_last_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the body comes, and another request, while it is being sent."""
    begun, rest = asyncio.Event(), asyncio.Event()

    async def site(self: Site, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        begun.set()
        await rest.wait()
        await send({"type": "http.response.body", "body": b"b"})

    monkeypatch.setattr(Site, "__call__", site)
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(ECHO + HOST + b"content-length: 2\r\n\r\n")
        await asyncio.wait_for(begun.wait(), WAIT_S)
        assert b"\r\nconnection: close\r\n" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        writer.write(b"[]" + HEALTH)
        await until(place, lambda one: bool(one.pipeline))
        rest.set()
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"


async def test_a_connection_that_ends_does_not_wait_for_a_client_that_does_not_read() -> None:
    """Though what is left to be sent is less than would make the server wait: it would keep its place for ever."""
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(HEALTH)
        await answer(reader)
        [one] = connections_of(place)
        one.transport.set_write_buffer_limits(high=1 << 30)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        one.transport.write(b"x" * (32 << 20))
        one.transport.close()
        timer = one._stall_timer
        assert timer is not None, "nothing ends it"
        one.resume_writing()  # a little was read, and not the rest
        assert one._stall_timer is timer
        one._cut()  # as a minute later
        for _ in range(1_000):
            if not connections_of(place):
                break
            await asyncio.sleep(0.01)
        assert (connections_of(place), one._stall_timer) == ([], None)


HEADS = {
    "one coding": ECHO + HOST + b"Transfer-Encoding: , Chunked\r\n\r\n3\r\n[1]\r\n0\r\n\r\n",
    "an old version with a coding": ECHO.replace(b"1.1", b"1.0") + HOST + CHUNKED + b"\r\n3\r\n[1]\r\n0\r\n\r\n",
    "an old version, which knows no host": b"GET /healthz HTTP/1.0\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADS)
async def test_a_head_as_it_may_be_is_taken(name: str) -> None:
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(HEADS[name])
        head, _ = await answer(reader)
        assert head.startswith(b"HTTP/1.1 200"), head


async def test_what_the_server_as_a_whole_can_do_may_be_asked() -> None:
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        assert head.startswith(b"HTTP/1.1 204")
        assert b"\r\nallow: DELETE, GET, HEAD, OPTIONS, POST, PUT\r\n" in head
