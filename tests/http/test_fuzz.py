"""Ten thousand requests that nobody would send: none is a 500, none hangs, none says anything of what is inside."""

import asyncio
import random
import re
import string
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.http.http_stage import Stage, opened
from wakeful.http.asks import MSGPACK
from wakeful.http.rows import ROWS
from wakeful.values.codec import encode

COUNT = 10_000
PARTS = 10  # each with a seed of its own
LEAKS = re.compile(
    rb"Traceback|File \\?\"|site-packages|/work/|\.py\b|line \d+, in|SELECT |INSERT |sqlite3|asyncpg|0x[0-9a-f]{8,}|<class|object at"
)
WORDS = [
    "Shop",
    "Lamp",
    "add",
    "echo",
    "total",
    "wakeful.Tokens",
    "wakeful.Audit",
    "all",
    "nightly",
    "a",
    "eu/1",
    "..",
    ".",
]
WORDS += [
    "__class__",
    "_private",
    "inside",
    "alarm",
    "schedules.pause",
    "%",
    "%2F",
    "%00",
    "\0",
    "\ud7ff",
    "🦆",
    "a" * 600,
    "",
]
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "get", "\x01"]
MEDIA = ["application/json", MSGPACK.decode(), "text/plain", "", "application/json; charset=latin-1", "application/xml"]


class Chaos:
    """Requests by one seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def request(self) -> tuple[str, bytes, bytes, list[tuple[bytes, bytes]], bytes]:
        dice = self._dice
        method = dice.choice(METHODS) if dice.random() < 0.3 else "POST"
        if dice.random() < 0.75:
            route = dice.choice(ROWS)
            method = route.method if dice.random() < 0.9 else method
            raw = "/".join(self.segment() if part.startswith("{") else part for part in route.path.split("/"))
        else:
            raw = "/" + "/".join(self.segment() for _ in range(dice.randrange(8)))
        query = "&".join(f"{self.word()}={quote(self.word())}" for _ in range(dice.choice([0, 0, 0, 1, 2, 30])))
        if dice.random() < 0.5 and query:
            query = f"limit={dice.choice([0, 1, 5, 10**30, -1, 'x'])}&cursor={quote(self.word())}"
        headers = [(b"host", b"localhost"), (b"content-type", dice.choice(MEDIA).encode())]
        for name in (b"idempotency-key", b"wakeful-deadline", b"traceparent", b"last-event-id", b"content-length"):
            if dice.random() < 0.1:
                headers.append((name, self.word().encode(errors="replace")))
        return method, raw.encode("latin-1", "replace"), query.encode("ascii", "replace"), headers, self.body()

    def segment(self) -> str:
        word = self.word()
        return word if self._dice.random() < 0.1 else quote(word.encode(errors="surrogateescape"), safe="")

    def word(self) -> str:
        dice = self._dice
        if dice.random() < 0.6:
            return dice.choice(WORDS)
        return "".join(dice.choice(string.printable + "üß€𝄞\x00\x7f") for _ in range(dice.randrange(12)))

    def value(self, depth: int = 0) -> Any:
        dice = self._dice
        kind = dice.randrange(9 if depth < 4 else 6)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(dice.randrange(4))]
        if kind == 7:
            return {self.word(): self.value(depth + 1) for _ in range(dice.randrange(4))}
        if kind == 8:
            names = [
                "spec",
                "handler",
                "at",
                "after",
                "args",
                "class",
                "key",
                "method",
                "jobs",
                "numbers",
                "note",
                "until",
            ]
            return {dice.choice(names): self.value(depth + 1) for _ in range(dice.randrange(1, 6))}
        return [
            None,
            True,
            dice.randrange(-(10 ** dice.randrange(1, 40)), 10**30),
            dice.random() * 1e308,
            self.word(),
            -0.0,
        ][kind]

    def body(self) -> bytes:
        dice = self._dice
        kind = dice.randrange(6)
        if kind == 0:
            return b""
        if kind == 1:
            return dice.randbytes(dice.randrange(200))
        if kind == 2:
            return b"[" * dice.randrange(2_000)
        value = self.value()
        if kind == 3:
            return encode([[value], {}]) if dice.random() < 0.7 else encode(value)[: dice.randrange(1, 50)]
        text = msgspec.json.encode(value)
        return text if kind == 4 else text[: dice.randrange(len(text) + 1)]


async def send(stage: Stage, request: tuple[str, bytes, bytes, list[tuple[bytes, bytes]], bytes]) -> tuple[int, bytes]:
    """The status and the body; by hand, because no client would send most of it."""
    method, raw, query, headers, body = request
    scope = {
        "type": "http",
        "method": method,
        "path": raw.decode("latin-1"),
        "raw_path": raw,
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
    }
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    outgoing: list[Any] = []

    async def receive() -> Any:
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def keep(message: Any) -> None:
        outgoing.append(message)

    await stage.site(scope, receive, keep)
    return outgoing[0]["status"], b"".join(message.get("body", b"") for message in outgoing[1:])


@pytest.mark.parametrize("seed", range(PARTS))
async def test_nothing_that_is_sent_breaks_or_tells(seed: int) -> None:
    async with opened() as stage:
        await stage.result("a", "plan")
        is_operator = seed % 2 == 1  # to whom tracebacks are shown
        token = (await stage.token("fuzz", "read", "call", *["operate"] * is_operator)).encode()
        chaos = Chaos(seed)
        statuses: dict[int, int] = {}
        for _ in range(COUNT // PARTS):
            request = chaos.request()
            request[3].append((b"authorization", b"Bearer " + token))
            status, body = await asyncio.wait_for(send(stage, request), 3_600)  # of virtual time: else it hangs
            statuses[status] = statuses.get(status, 0) + 1
            assert status < 500 or status in (503, 504), (request, body)
            assert is_operator or not LEAKS.search(body), (request, body)
            if status >= 400 and request[0] != "HEAD":
                assert {"type", "status", "code", "detail"} <= msgspec.json.decode(body).keys()
        assert len(statuses) >= 6, statuses  # it got somewhere
        assert await stage.result("z", "add", token=token.decode()) == 1
        assert stage.site.api.requests == stage.site.api.looks == 0
