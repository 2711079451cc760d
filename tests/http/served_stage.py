"""A real server on a real port, and a client that may send whatever bytes it likes."""

import asyncio
import json
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, NamedTuple

import uvicorn
from msgspec import to_builtins

from wakeful import App, DurableObject, Limits, Socket
from wakeful.http.protocol import SocketProtocol
from wakeful.security.tokens import ALL, PREFIX, Token, new_secret
from wakeful.server.guard import Guarded
from wakeful.server.site import Site
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import SocketRequest

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
WAIT_S = 180.0  # far more than anything takes: a test that needs it fails


class Place:
    """An app behind a server."""

    def __init__(self, **limits: Any) -> None:
        self.app = App(idle="100ms", limits=Limits(**limits))
        self.closed: asyncio.Queue[tuple[str, int, str, bool]] = asyncio.Queue()
        self.heard: list[str | bytes] = []
        self.requests: list[SocketRequest] = []
        self.port = 0
        self.server: uvicorn.Server | None = None
        self.gate = asyncio.Event()  # for which "wait" waits
        self.waits = asyncio.Event()  # it does
        place = self

        @self.app.object
        class Room(DurableObject):
            async def on_connect(self, socket: Socket, request: SocketRequest) -> str | None:
                place.requests.append(request)
                if "refuse" in request.query:
                    raise PermissionError("not here")
                await socket.send("welcome")
                return request.query.get("protocol")

            async def on_message(self, socket: Socket, message: str | bytes) -> None:
                place.heard.append(message)
                if message == "fail":
                    raise ValueError("asked to")
                if message == "close":
                    await socket.close(4002, "as asked")
                elif message == "wait":
                    await place.gate.wait()
                    await socket.send("waited")
                elif message == "flood":
                    await self.ctx.broadcast(b"x" * 65_536)
                else:
                    await socket.send(message)

            async def on_close(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
                place.closed.put_nowait((self.ctx.key, code, reason, was_clean))

        @self.app.object
        class Deaf(DurableObject):
            async def hello(self) -> str:
                return "hello"

            async def echo(self, value: Any = None) -> Any:
                place.heard.append(repr(value))
                return value

            async def wait(self) -> None:
                place.waits.set()
                await place.gate.wait()

        self.Room = Room

    @property
    def held(self) -> int:
        return len(feature_of(self.app.deployment.node).gateway.sockets)

    @asynccontextmanager
    async def served(self, *, ws: Any = SocketProtocol, **options: Any) -> AsyncIterator["Place"]:
        config = uvicorn.Config(
            Site(self.app, dashboard=False),
            port=0,
            http=Guarded,
            log_config=None,
            ws=ws,
            ws_per_message_deflate=False,
            ws_max_size=self.app.deployment.limits.socket_message_bytes,
            lifespan="off",
            timeout_graceful_shutdown=5,
            **options,
        )
        async with self.app.run("memory:"):
            server = self.server = _Server(config)
            serving = asyncio.ensure_future(server.serve())
            while not server.started:
                await asyncio.wait({serving}, timeout=0.01)
            self.port = server.servers[0].sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                server.should_exit = True
                await asyncio.wait_for(serving, WAIT_S)

    async def token(self, name: str) -> str:
        """A new token with which objects may be called."""
        node = self.app.deployment.node
        assert node is not None
        text, id, hashed = new_secret(PREFIX, os.urandom)
        now = node.clock.now()
        token = Token(id=id, name=name, hash=hashed, scopes=("call",), created_at=now, created_by="test")
        await node.send(ALL, "create", (to_builtins(token),), {})
        return text

    async def over(self) -> tuple[str, int, str, bool]:
        return await asyncio.wait_for(self.closed.get(), WAIT_S)


class _Server(uvicorn.Server):
    def capture_signals(self) -> Any:
        """Signals are pytest's."""
        return nullcontext()


class Refused(Exception):
    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


class Frame(NamedTuple):
    opcode: int
    data: bytes

    @property
    def code(self) -> int:
        return int.from_bytes(self.data[:2], "big")


class Client:
    """A WebSocket client by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self.reader, self.writer, self.head = reader, writer, head

    async def send(self, data: str | bytes, *, opcode: int | None = None, fin: bool = True) -> None:
        body = data.encode() if isinstance(data, str) else data
        kind = opcode if opcode is not None else TEXT if isinstance(data, str) else BINARY
        self.writer.write(frame(kind, body, fin=fin))
        await self.writer.drain()

    async def receive(self) -> Frame:
        return await asyncio.wait_for(self._frame(), WAIT_S)

    async def text(self) -> str:
        found = await self.receive()
        assert found.opcode == TEXT, found
        return found.data.decode()

    async def end(self) -> Frame | None:
        """What the server closes with; None when it just hangs up."""
        try:
            while (found := await self.receive()).opcode != CLOSE:
                pass
            return found
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def idle(self) -> None:
        """Do nothing but answer pings, until the server hangs up."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while (found := await self._frame()).opcode != CLOSE:
                if found.opcode == PING:
                    await self.send(found.data, opcode=PONG)

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def _frame(self) -> Frame:
        first, second = await self.reader.readexactly(2)
        size = second & 127
        if size > 125:
            size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
        return Frame(first & 15, await self.reader.readexactly(size))


def frame(opcode: int, data: bytes, *, fin: bool = True, masked: bool = True, rsv: int = 0) -> bytes:
    size, mask = len(data), 0x80 if masked else 0
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    if size < 126:
        head += bytes([mask | size])
    else:
        head += bytes([mask | (126 if size < 65_536 else 127)]) + struct.pack(">H" if size < 65_536 else ">Q", size)
    return head + (b"\0\0\0\0" if masked else b"") + data


async def connect(place: Place, path: str = "/v1/objects/Room/r/socket", **headers: str) -> Client:
    """A socket, or `Refused` with what the server says instead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port, limit=1 << 20)
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{place.port}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)).decode()
    status = int(head.split()[1])
    client = Client(reader, writer, head)
    if status == 101:
        return client
    body = await asyncio.wait_for(reader.read(), WAIT_S)
    await client.close()
    raise Refused(status, json.loads(body) if body.startswith(b"{") else {})
