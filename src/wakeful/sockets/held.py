"""Layer 4. One connection: what waits for its client, and what if that does not read?"""

import asyncio
import logging
from collections import deque
from contextvars import Context
from typing import Protocol

from wakeful.sockets.socket import Message
from wakeful.values.ids import ObjectId

log = logging.getLogger("wakeful.sockets")


class ConnectionWire(Protocol):
    """What carries one connection; the server's, or a test's."""

    async def send(self, message: Message) -> None:
        """Returns when there is room for more."""
        ...

    async def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None:
        """Hang up without a word: the client does not read."""
        ...


class Here:
    """What this gateway knows of an object that has sockets here."""

    __slots__ = ("_number", "auto", "held")

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.auto: tuple[str, str] | None = None
        self._number = 0

    def answer(self, auto: tuple[str, str] | None, number: int) -> None:
        """Answer that text like that from now on, unless something newer is known: connecting and changing may overtake each other."""
        if number >= self._number:
            self.auto, self._number = auto, number


class Paced:
    """A client that says no more than so many messages a second."""

    __slots__ = ("_quota", "_quota_at")

    def __init__(self) -> None:
        self._quota = -1.0  # messages that it may send now; below zero: not asked yet
        self._quota_at = 0

    def pace(self, now: int, per_s: int) -> int:
        """How long its next message has to wait, so that the client says no more than so many a second."""
        if self._quota < 0:
            self._quota, self._quota_at = float(per_s), now
        self._quota = min(per_s, self._quota + max(0, now - self._quota_at) * per_s / 1000) - 1
        self._quota_at = now
        if self._quota >= 0:
            return 0
        wait_ms = max(1, int(-self._quota * 1000 / per_s))
        self._quota, self._quota_at = 0.0, now + wait_ms
        return wait_ms


class Held(Paced):
    """A socket as its gateway holds it. No task, and no line, while there is nothing to say."""

    __slots__ = (
        "_bytes",
        "_line",
        "alone",
        "answered_at",
        "brought",
        "closing",
        "epoch",
        "here",
        "id",
        "is_aborted",
        "is_open",
        "number",
        "taking",
        "target",
        "unheard",
        "wire",
        "writer",
    )

    def __init__(self, id: str, target: ObjectId, here: Here, wire: ConnectionWire) -> None:
        super().__init__()
        self.id = id
        self.target = target
        self.here = here
        self.wire = wire
        self.is_open = False  # the handshake is over
        self.is_aborted = False
        self.closing: tuple[int, str] | None = None  # this side has closed it, or will behind what waits
        self.writer: asyncio.Task[None] | None = None
        self.number = 0  # of its messages so far
        self.answered_at: int | None = None  # when a message of it had the automatic answer last
        self.epoch = 0  # of the owner that sent last
        # Where the object's events are no turns: what came while it is at a message before, and who brings it there.
        self.unheard: deque[tuple[int, Message]] | None = None
        self.taking: asyncio.Task[None] | None = None
        self.brought: set[asyncio.Task[None]] = set()  # and those that it is at
        self.alone: tuple[asyncio.Task[None], float] | None = None  # the last that came when none waited, and when
        self._line: deque[Message] | None = None
        self._bytes = 0

    def open(self) -> None:
        """The handshake is over: what waits may go."""
        self.is_open = True
        self._write()

    def push(self, message: Message, most: int) -> None:
        """Send it behind what waits; a client that leaves more than so many bytes waiting is cut off.

        One message alone may be longer: it waits for nobody.
        """
        if self.closing is not None:
            return
        if self._line is None:
            self._line = deque()
        self._line.append(message)
        self._bytes += len(message)
        if self._bytes > most and len(self._line) > 1:
            self.abort(1013, "the client reads too slowly")
        elif self.writer is None:
            self._write()

    def close(self, code: int, reason: str) -> None:
        """Close it from this side, behind what waits."""
        if self.closing is None:
            self.closing = (code, reason)
            self._write()

    def abort(self, code: int, reason: str) -> None:
        """Close it from this side without regard for what waits, or for the client."""
        self._line, self._bytes = None, 0
        self.closing, self.is_aborted = (code, reason), True
        self.let_go()
        self.wire.abort()

    def let_go(self) -> None:
        """Nothing more is to be written."""
        if self.writer is not None:
            self.writer.cancel()

    def _write(self) -> None:
        if self.is_open and self.writer is None and (self._line or self.closing is not None):
            self.writer = asyncio.get_running_loop().create_task(self._drain(), context=Context())

    async def _drain(self) -> None:
        try:
            while self._line:
                message = self._line[0]
                await self.wire.send(message)
                if self._line:
                    self._line.popleft()
                    self._bytes -= len(message)
            self._line = None
            if self.closing is not None and not self.is_aborted:
                await self.wire.close(*self.closing)
        except Exception as error:  # whatever the server raises: the connection is over, and it will say so
            log.debug("a socket of %s can't be written to: %s", self.target, error)
            self._line = None
        finally:
            self.writer = None
