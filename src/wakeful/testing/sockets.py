"""Layer 5. A client at the other end of a socket, in a world: what it says and gets obeys the world's time."""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextvars import Context
from typing import Any

from wakeful.runtime.node import Node
from wakeful.sockets.held import Held
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import Message, request_of
from wakeful.values.errors import WakefulError
from wakeful.values.ids import ObjectId


class SocketClosed(WakefulError):
    """There is nothing more to come; `code` says why the socket was closed."""

    def __init__(self, close_code: int, reason: str) -> None:
        super().__init__(f"the socket was closed with {close_code} {reason!r}", code="socket.closed")
        self.close_code = close_code
        self.reason = reason


class SocketClient:
    """`await world.connect(Room, "lobby")`: says something, waits for answers, closes, or just vanishes."""

    def __init__(self, node: Node, target: ObjectId, request: Mapping[str, Any]) -> None:
        self._node = node
        self._gateway = feature_of(node).gateway
        self._target = target
        self._request = request_of(request)
        self._held: Held | None = None
        self._wire = _Wire()
        self._said: deque[Message] = deque()
        self._saying: asyncio.Task[None] | None = None
        self.protocol = ""

    @property
    def id(self) -> str:
        """Of the socket, as the object sees it."""
        assert self._held is not None
        return self._held.id

    @property
    def closed(self) -> tuple[int, str] | None:
        """The code and reason with which it was closed; None while it is open, or its node has died."""
        return self._wire.closed

    @property
    def got(self) -> list[Message]:
        """What came and was not received yet."""
        return list(self._wire.got)

    async def connect(self) -> None:
        self._held, self.protocol = await self._gateway.connect(self._target, self._request, self._wire)
        self._wire.on_close = self._end
        self._held.open()

    async def send(self, message: Message) -> None:
        """Say something. The object has it later: `receive` what it answers, or `world.settle()`."""
        if self.closed is not None:
            raise SocketClosed(*self.closed)
        self._said.append(message)
        if self._saying is None:
            self._saying = asyncio.get_running_loop().create_task(self._say(), context=Context())

    async def receive(self) -> Message:
        """The next message; `SocketClosed` when there is none before the end."""
        wire = self._wire
        while not wire.got:
            if wire.closed is not None:
                raise SocketClosed(*wire.closed)
            wire.news = asyncio.Event()
            await wire.news.wait()
        return wire.got.popleft()

    def pause(self) -> None:
        """Read nothing more for now: what the object sends piles up at its gateway."""
        self._wire.room.clear()

    def resume(self) -> None:
        """Read again."""
        self._wire.room.set()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it; returns when the object knows."""
        await self._leave(code, reason, was_clean=True)

    async def vanish(self) -> None:
        """The client's machine is gone, without a word."""
        await self._leave(1006, "", was_clean=False)

    async def _leave(self, code: int, reason: str, *, was_clean: bool) -> None:
        assert self._held is not None
        if self._wire.closed is None:
            self._wire.end(code, reason)
            if self._saying is not None:
                await asyncio.wait({self._saying})
            await self._gateway.on_disconnect(self._held, code, reason, was_clean=was_clean)

    async def _say(self) -> None:
        assert self._held is not None
        try:
            while self._said and not self._node.is_dead:
                await self._gateway.receive(self._held, self._said.popleft())
        finally:
            self._saying = None

    def _end(self, code: int, reason: str) -> None:
        """The gateway closed it."""
        assert self._held is not None
        part = self._gateway.on_disconnect(self._held, code, reason, was_clean=True)
        self._node.keep(asyncio.get_running_loop().create_task(part, context=Context()))


class _Wire:
    """The gateway's end, as the server's would be."""

    def __init__(self) -> None:
        self.got: deque[Message] = deque()
        self.closed: tuple[int, str] | None = None
        self.news = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()
        self.on_close: Any = None

    async def send(self, message: Message) -> None:
        await self.room.wait()
        if self.closed is not None:
            raise SocketClosed(*self.closed)
        self.got.append(message)
        self.news.set()

    async def close(self, code: int, reason: str) -> None:
        await self.room.wait()
        if self.closed is None:
            self.end(code, reason)
            self.on_close(code, reason)

    def abort(self) -> None:
        if self.closed is None:
            self.end(1006, "")
            self.on_close(1006, "")

    def end(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self.news.set()
