"""What is refused behind a request is told so in its own turn, takes no answer from anybody, and is heard by who still sends."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.http.served_stage import WAIT_S, Place
from tests.http.test_odd_connections import (
    CHUNKED,
    ECHO,
    HEALTH,
    HOST,
    KEY,
    ODD_HEADS,
    SOCKET,
    answer,
    check_problem,
    connected,
    until,
)
from wakeful.http.protocol import HeldBytes
from wakeful.policy.shares import Shares
from wakeful.server import guard
from wakeful.server.guard import Guarded, RefusalLog, RefusedRequest
from wakeful.server.site import Site

SLOW = b"POST /v1/objects/Deaf/a/wait HTTP/1.1\r\n" + HOST + b"content-length: 2\r\n\r\n[]"
LONG_HEAD = b"GET /healthz HTTP/1.1\r\n" + HOST + b"x: " + b"a" * (guard.HEAD_BYTES_MAX + guard.SLICE)
TRAILERS = ECHO + HOST + CHUNKED + b"\r\n0\r\n" + b"a: b\r\n" * 5_000
BEHIND = {
    "no request": (b"garbage\r\n\r\n" * 3, 400, "request.http"),
    "much of it": (b"garbage\r\n\r\n" * 200, 400, "request.http"),
    "a path that is none": (b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", 400, "request.http"),
    "a long head": (LONG_HEAD, 431, "header.long"),
    "a body that is none": (ECHO + HOST + CHUNKED + b"\r\nzz\r\n", 400, "request.http"),
    "endless trailers": (TRAILERS, 431, "trailer.long"),
    "a socket": (SOCKET + KEY, 400, "request.http"),
    **{name: refused[:3] for name, refused in ODD_HEADS.items()},
}


@pytest.mark.parametrize("name", BEHIND)
async def test_what_is_refused_behind_a_request_takes_its_answer_from_nobody(name: str) -> None:
    """The refusal was sent at once, in the place of the answer to the request before it; or that one was cut."""
    refused, status, code = BEHIND[name]
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(SLOW)
        await until(place, lambda one: one.cycle is not None)
        writer.write(refused)
        one = await until(
            place, lambda one: bool(one._refusal) or one._lingers is not None or one.transport.is_closing()
        )
        assert not one._joined_transport.is_reading()
        assert one._timer is None  # it is not too slow, however long the answer takes
        place.gate.set()
        await check_answers(reader, status, code)


async def check_answers(reader: asyncio.StreamReader, status: int, code: str, count: int = 1) -> None:
    """What was asked for, then the refusal, then the end."""
    for number in range(count):
        head, body = await answer(reader)
        assert head.startswith(b"HTTP/1.1 200")
        assert b"\r\nconnection: close\r\n" not in head
        assert number or body == b'{"result":null}'
    check_problem(*await answer(reader), status, code, "")
    assert await asyncio.wait_for(reader.read(), WAIT_S) == b""


@pytest.mark.parametrize("count", [0, 2])
async def test_half_a_head_behind_a_long_call_cuts_nothing(count: int) -> None:
    """After half a minute it took the answer of the call with it."""
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(SLOW + HEALTH * count + HEALTH[:9])
        one = await until(place, lambda one: one.cycle is not None and one._timer is not None)
        one._joined_transport.resume_reading()  # as if all of it had been looked at
        one._too_slow()  # as after half a minute
        place.gate.set()
        await check_answers(reader, 408, "header.slow", count + 1)


async def test_half_a_body_behind_a_long_call_cuts_nothing() -> None:
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(SLOW + ECHO + HOST + b"content-length: 9\r\n\r\n[")
        one = await until(place, lambda one: bool(one.pipeline))
        one._joined_transport.resume_reading()
        one._too_slow()
        place.gate.set()
        await check_answers(reader, 408, "body.slow")
        assert not place.heard


REFUSED: dict[str, tuple[bytes, bytes, int, str]] = {
    "garbage": (b"garbage\r\n\r\n", b"garbage\r\n\r\n", 400, "request.http"),
    "a long head": (b"GET /healthz HTTP/1.1\r\n" + HOST, b"x: " + b"a" * 1_000 + b"\r\n", 431, "header.long"),
    "trailers": (ECHO + HOST + CHUNKED + b"\r\n0\r\n", b"a: b\r\n" * 100, 431, "trailer.long"),
    "tiny chunks": (ECHO + HOST + CHUNKED + b"\r\n", b"1\r\n \r\n" * 20_000, 503, "server.bodies"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_who_still_sends_hears_the_refusal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To close at once could take it away from a client that does not read before it has sent all."""
    head, part, status, code = REFUSED[name]
    monkeypatch.setattr(HeldBytes, "shares", Shares(0))
    monkeypatch.setattr(guard, "LINGER_S", WAIT_S)
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(head)
        with suppress(ConnectionError):
            for _ in range((2 << 20) // len(part)):
                writer.write(part)
                await writer.drain()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        check_problem(*await answer(reader), status, code, "")
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
        assert not place.heard


async def test_an_answer_that_is_long_in_going_out_is_not_cut_by_a_refusal_behind_it() -> None:
    """The time in which a client may still send what is thrown away is none in which it must have read."""
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(HEALTH)
        await answer(reader)
        one = await until(place, lambda one: True)
        one.transport.set_write_buffer_limits(high=1 << 30)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        size = 32 << 20
        one.transport.write(b"x" * size)
        writer.write(b"garbage\r\n\r\n")
        await until(place, lambda one: one._lingers is not None)
        one._end()  # as two seconds later
        assert one._stall_timer is not None
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        found = 0
        while data := await asyncio.wait_for(reader.read(1 << 20), WAIT_S):
            found += data.count(b"x")
        assert found >= size


async def test_a_body_that_is_none_puts_nothing_into_the_answer_that_is_being_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = asyncio.Event()

    async def site(self: Site, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    monkeypatch.setattr(Site, "__call__", site)
    async with Place().served() as place, connected(place) as (reader, writer):
        writer.write(ECHO + HOST + CHUNKED + b"\r\n")
        await asyncio.wait_for(begun.wait(), WAIT_S)
        await asyncio.wait_for(reader.readuntil(b"1\r\na\r\n"), WAIT_S)
        writer.write(b"zz\r\n")
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""


@contextmanager
def logged() -> Iterator[list[logging.LogRecord]]:
    lines: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = lines.append  # type: ignore[method-assign]
    guard.log.addHandler(handler)
    try:
        yield lines
    finally:
        guard.log.removeHandler(handler)


def test_of_much_that_is_refused_operators_are_told_once_a_minute() -> None:
    """Nothing was said of it at all; and a stranger must not be able to fill the disk."""
    refused, refusal = RefusalLog(), RefusedRequest(400, "request.http", "it is none")
    with logged() as lines:
        for number in range(1_000):
            refused.add(number * guard.LOG_EVERY_S / 1_000, ("192.0.2.7", 5), refusal)
        assert len(lines) == 1
        refused.add(guard.LOG_EVERY_S, None, refusal)
    words = "a connection from %s was refused (request.http): it is none; %d others since the last such line"
    assert [line.getMessage() for line in lines] == [words % ("192.0.2.7", 0), words % ("an unknown address", 999)]
    assert {(line.levelname, line.code) for line in lines} == {("WARNING", "request.refused")}  # type: ignore[attr-defined]


async def test_who_is_refused_is_in_the_log_and_among_the_requests_that_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Guarded, "refused", RefusalLog())
    with logged() as lines:
        async with Place().served(proxy_headers=False) as place, connected(place) as (reader, writer):
            writer.write(b"garbage\r\n\r\n")
            check_problem(*await answer(reader), 400, "request.http", "")
            assert place.app.deployment.node is not None
            assert place.app.deployment.node.meter.http.of("other", "other", "400").value == 1
    assert "from 127.0.0.1 was refused (request.http)" in lines[0].getMessage()
