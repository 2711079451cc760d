"""Layer 5. How does a stream that an object answers with, or is asked with, reach the other side of the call?

A call carries data, and with it the number of a stream, which stays where it is made. On the same node whoever gets the
number gets the stream; on another one it asks for one chunk after the other. So nobody is ever ahead of who reads, and
the object stays awake until its stream has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.sources import END, Source, bytes_of, start_in
from wakeful.compat.workers.streams import ReadableStream
from wakeful.values.errors import NotRunning, Unavailable
from wakeful.values.ids import shard_of

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.runtime.object_runtime import ObjectRuntime

FEATURE = "workers.streams"
REQUEST = "workers.stream"  # what another node is asked for a chunk by
UNCLAIMED_MS = 60_000  # a stream that nobody asks for: its answer never arrived
IDLE_MS = 300_000  # one of which another node has taken a part, and asks for no more
WAIT_S = 10.0  # how long such a request waits for a chunk before it is to be made again
ASK_MS = 30_000
PIECE_BYTES = 1_048_576  # of a chunk that are sent at once

PULL, KEEP, CANCEL, SAY = "pull", "keep", "cancel", "say"
Hear = Callable[[list[Any]], Awaitable[None]]


class Conduit(Source):
    """A stream on its way."""

    def __init__(self, stream: ReadableStream, activation: "ObjectRuntime | None") -> None:
        stream._lock("a body")
        self.activation = activation
        self._stream = stream
        self._error: Exception | None = None
        self._pending: asyncio.Task[Any] | None = None
        self._rest = b""
        self._turn = None if activation is None else activation.beside.turn  # of the copy that made it
        if activation is not None:
            activation.hold_awake()
            stream._on_end(activation.let_sleep)

    async def pull(self) -> Any:
        chunk = await self._stream._next()
        if self._turn is not None:
            await self._turn.leave()  # what its object wrote before it is on disk
        if self._error is not None:
            raise self._error
        return END if chunk is END else bytes_of(chunk)

    async def cancel(self, reason: Any) -> None:
        await self._stream._cancel(reason)

    def keep(self) -> None:
        self._stream._source.keep()

    def cut(self, error: Exception) -> None:
        """Whoever reads it gets this instead of the rest."""
        self._error = self._error or error
        start_in(copy_context(), self._stream._cancel(error))

    async def give(self) -> list[Any]:
        """For another node: whether it is over, and the next piece, if there is one by now."""
        if not self._rest:
            if self._pending is None:
                self._pending = asyncio.ensure_future(self.pull())
            done, _ = await asyncio.wait([self._pending], timeout=WAIT_S)
            if not done:
                return [False, b""]
            pending, self._pending = self._pending, None
            chunk = pending.result()
            if chunk is END:
                return [True, b""]
            self._rest = chunk
        piece, self._rest = self._rest[:PIECE_BYTES], self._rest[PIECE_BYTES:]
        return [False, piece]


class Conduits:
    """The streams that this node has given away."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._offered: dict[int, Conduit] = {}  # until they are claimed here, or over
        self._expiries: dict[int, Any] = {}
        self._live: dict[Conduit, None] = {}
        self._ears: dict[int, Hear] = {}

    @property
    def clock(self) -> Any:
        return self._node.clock

    def offer(
        self, stream: ReadableStream, activation: "ObjectRuntime | None" = None, hear: Hear | None = None
    ) -> list[Any]:
        """What to send in its place. `hear` is told what who takes it says back."""
        number = int(self._node.dice.random() * (1 << 53))
        conduit = self._offered[number] = Conduit(stream, activation)
        self._live[conduit] = None
        stream._on_end(lambda: self._live.pop(conduit, None))
        if hear is not None:
            self._ears[number] = hear
        self._expire_in(number, UNCLAIMED_MS)
        return [self._node.name, number]

    def claim(self, sent: list[Any]) -> ReadableStream:
        """The stream that was offered by that."""
        name, number = sent
        if name != self._node.name:
            made = ReadableStream(Remote(self._node, name, number))
        else:
            conduit = self._offered.get(number)
            if conduit is None:
                raise JsException("the stream was not asked for in time, or was taken already")
            self._forget(number)
            made = ReadableStream(conduit)
        made._hold()
        return made

    async def say(self, sent: list[Any], frame: list[Any]) -> None:
        """Tell whoever offered that; returns when there is room for more."""
        name, number = sent
        if name != self._node.name:
            await Remote(self._node, name, number).ask(SAY, frame)
        elif number in self._ears:
            await self._ears[number](frame)

    def stop_hearing(self, sent: list[Any]) -> None:
        self._ears.pop(sent[1], None)

    async def answer(self, number: int, asked: str, frame: Any = None) -> Any:
        """What another node asks for."""
        if asked == SAY:
            if number in self._ears:
                await self._ears[number](frame)
            return None
        conduit = self._offered.get(number)
        if conduit is None:
            raise Unavailable("the stream is over, or its node has started anew", code="workers.stream")
        if asked == KEEP:
            conduit.keep()
            return None
        if asked == CANCEL:
            self._forget(number)
            await conduit.cancel("its reader on another node wants no more")
            return None
        self._expire_in(number, IDLE_MS)
        try:
            is_over, piece = await conduit.give()
        except Exception:
            self._forget(number)
            raise
        if is_over:
            self._forget(number)
        return [is_over, piece]

    def send_away(self, shards: Collection[int]) -> None:
        """Streams must not keep their objects here."""
        for conduit in list(self._live):
            if conduit.activation is not None and shard_of(conduit.activation.id) in shards:
                conduit.cut(Unavailable(f"{conduit.activation.id} has moved; ask again", code="object.moved"))

    def _expire_in(self, number: int, ms: int) -> None:
        if number in self._expiries:
            self._expiries[number].cancel()
        clock = self._node.clock
        self._expiries[number] = clock.call_at(clock.now() + ms, lambda: self._expire(number))

    def _expire(self, number: int) -> None:
        conduit = self._forget(number)
        if conduit is not None:
            conduit.cut(Unavailable("the stream was not asked for in time", code="workers.stream"))

    def _forget(self, number: int) -> Conduit | None:
        expiry = self._expiries.pop(number, None)
        if expiry is not None:
            expiry.cancel()
        return self._offered.pop(number, None)


class Remote(Source):
    """A stream of another node."""

    def __init__(self, node: "Node", name: str, number: int) -> None:
        self._node = node
        self._name = name
        self._number = number
        self._asking: asyncio.Task[Any] | None = None
        self._is_over = False

    async def pull(self) -> Any:
        while not self._is_over:
            if self._asking is None:  # not in the task of who asks, who may go: what was sent would be lost
                self._asking = start_in(copy_context(), self.ask(PULL))
            asking = self._asking
            await asyncio.wait([asking])
            self._asking = None
            try:
                self._is_over, piece = asking.result()
            except BaseException:
                self._is_over = True
                raise
            if piece:
                return piece
        return END

    async def cancel(self, reason: Any) -> None:
        self._is_over = True
        if self._asking is not None:
            self._asking.cancel()
        await self.ask(CANCEL)

    def keep(self) -> None:
        start_in(copy_context(), self.ask(KEEP)).add_done_callback(lambda done: done.cancelled() or done.exception())

    async def ask(self, what: str, *given: Any) -> Any:
        """What that node says."""
        node = self._node
        row = next((row for home in node.all_homes if (row := home.membership.nodes.get(self._name))), None)
        if row is None:
            raise Unavailable(f"node {self._name}, which makes the stream, is gone", code="workers.stream")
        return await node.routes.ask(row, REQUEST, self._number, what, *given, timeout_ms=ASK_MS)


def conduits_of(node: "Node | Any") -> Conduits:
    """Those of the process that this node belongs to."""
    if node is None:
        raise NotRunning("the Worker is not running")
    homes = node.homes
    found: Conduits = (node if homes is None else homes.main).features[FEATURE]
    return found
