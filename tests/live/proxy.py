"""A TCP proxy in front of a server that can swallow every packet: connections stay open, and nothing passes."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

CHUNK = 65_536


class Proxy:
    """Listens on a port of its own, and passes bytes both ways while it is open.

    While it is cut nothing is read from either side, so nothing is acknowledged, refused or closed; new connections
    are taken and left without an answer, as by a network that drops packets.
    """

    def __init__(self, place: str | int) -> None:
        """The server's Unix socket, or its port on this machine; 0: one that is free now, which is `there`."""
        self._place = place
        self.there = 0
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.connections = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        if isinstance(self._place, int):
            self.there = self._place or _free_port()

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        await self._open.wait()
        try:
            if isinstance(self._place, str):
                there, back = await asyncio.open_unix_connection(self._place)
            else:
                there, back = await asyncio.open_connection("127.0.0.1", self.there)
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, back))
                both.create_task(self._pass(there, writer))
        finally:
            for end in (writer, back):
                end.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(CHUNK):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        await self._open.wait()
        with suppress(ConnectionError, OSError):
            sink.write_eof()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@asynccontextmanager
async def proxy(path: str) -> AsyncIterator[Proxy]:
    """A proxy to the server at that Unix socket, gone at the end."""
    made = Proxy(path)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
