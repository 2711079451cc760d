"""The shop behind a real server on a real port, and a thing between it and its clients that breaks connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.http.http_stage import make_app
from wakeful import App, Client
from wakeful.server import serving


class Shaky:
    """Stands between: passes on, unless the plan has something else for the next request."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.plan: list[str | bytes] = []  # "cut": hang up when the answer is there; "drop": before; bytes: answer so
        self.requests: list[bytes] = []  # heads
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Shaky"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        self._writers.discard(writer)
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; False: hang up."""
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_length(head))
        self.requests.append(head)
        todo = self.plan.pop(0) if self.plan else "pass"
        if todo == "drop":
            return False
        if isinstance(todo, bytes):
            writer.write(todo)
            await writer.drain()
            return True
        far, other = await asyncio.open_connection("127.0.0.1", self._to)
        other.write(head + body)
        answer = await far.readuntil(b"\r\n\r\n")
        answer += await far.readexactly(_length(answer))
        other.close()
        if todo == "cut":
            return False
        writer.write(answer)
        await writer.drain()
        return True

    def keys(self) -> list[str]:
        """The request keys that came."""
        lines = [line.decode() for head in self.requests for line in head.split(b"\r\n")]
        return [line.partition(":")[2].strip() for line in lines if line.lower().startswith("idempotency-key:")]


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)


def busy(status: int, error: str, code: str, *, wait: int = 0) -> bytes:
    """A refusal of a server, by hand."""
    named = f'"error":"{error}",' if error else ""
    body = f'{{"status":{status},{named}"code":"{code}","detail":"not now","type":"t","title":"t","instance":"/"}}'
    head = f"HTTP/1.1 {status} No\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}retry-after: {wait}\r\n\r\n{body}".encode()


class Shop:
    """A program that is served."""

    def __init__(self, app: App, url: str, shaky: Shaky) -> None:
        self.app, self.url, self.shaky = app, url, shaky

    @property
    def cls(self) -> Any:
        return self.app.deployment.registry.by_name("Shop").cls


@asynccontextmanager
async def served(app: App | None = None, **options: Any) -> AsyncIterator[Shop]:
    """The program behind a server."""
    app = app or make_app()
    async with (
        app.run("memory:") as node,
        serving(app, node, "127.0.0.1:0", dashboard=False, **options) as place,
        Shaky(place.port).open() as shaky,
    ):
        yield Shop(app, place.url, shaky)


@asynccontextmanager
async def client_of(shop: Shop, *, is_shaky: bool = False, **options: Any) -> AsyncIterator[Client]:
    async with Client(shop.shaky.url if is_shaky else shop.url, **options) as client:
        yield client


async def in_thread(work: Callable[[], Any]) -> Any:
    """Blocking work beside the server's loop."""
    return await asyncio.to_thread(work)
