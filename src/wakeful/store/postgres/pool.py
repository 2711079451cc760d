"""Layer 2. Which connection may be used now?"""

import logging
from asyncio import Semaphore, gather

from wakeful.store.postgres.url import Target
from wakeful.store.postgres.wire import ServerWire
from wakeful.values.errors import StoreDown

log = logging.getLogger("wakeful.store")

# So often a pool that the server had no room for is used before it tries to be as large as it may be again.
REGROW_TAKES = 1_000


def not_open(target: Target) -> StoreDown:
    return StoreDown(f"{target.shown} is not open: it was closed, or was lost and is being looked for")


class Pool:
    """A few connections, made when first needed and again when they were lost; the last used is used next.

    Where the server has no room for another, those that there are do: it would be worse to give the store up for it.
    """

    def __init__(self, target: Target, size: int, *, packed: bool = False, readonly: bool = False) -> None:
        self._target = target
        self._packed = packed
        self._readonly = readonly
        self._free = Semaphore(size)
        self._idle: list[ServerWire] = []
        self._used = 0
        self._making = 0
        self._takes = 0
        self._missing = 0  # so many of its size it does without
        self._has_said = False
        self._closed = False
        self.timeout_s = target.timeout_ms / 1000

    @property
    def is_closed(self) -> bool:
        return self._closed

    def take(self) -> "_Taken":
        """A connection of one's own for a while."""
        return _Taken(self)

    async def warm(self) -> None:
        """Have one connection at least, or raise why there is none."""
        async with self.take():
            pass

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        await gather(*(wire.close() for wire in idle))

    async def claim(self) -> ServerWire:
        """A place among those that may use one at once, and the connection."""
        self._takes += 1
        if self._missing and self._takes % REGROW_TAKES == 0:
            self._missing -= 1
            self._free.release()
        while True:
            await self._free.acquire()
            self._making += 1
            try:
                wire = await self._ready()
                self._making -= 1
                self._used += 1
                return wire
            except BaseException as error:
                self._making -= 1
                has_others = self._used or self._idle or self._making
                if isinstance(error, StoreDown) and error.code == "store.connections" and has_others:
                    self._missing += 1  # its place is not given back: it waits for one that is in use
                    self._say_once(error.message)
                    continue
                self._free.release()
                raise

    def give_back(self, wire: ServerWire) -> None:
        self._used -= 1
        if self._closed:
            wire.drop()
        elif not wire.is_closed:
            self._idle.append(wire)
        self._free.release()

    def _say_once(self, message: str) -> None:
        if not self._has_said:
            self._has_said = True
            log.warning("%s; those that there are must do", message, extra={"code": "store.connections"})

    async def _ready(self) -> ServerWire:
        if self._closed:
            raise not_open(self._target)
        while self._idle:
            wire = self._idle.pop()
            if not wire.is_closed:
                return wire
        return await ServerWire.connect(self._target, packed=self._packed, readonly=self._readonly)


class _Taken:
    """`async with` it. A class, because the generator of `contextlib` costs five times as much, and a trip has one."""

    __slots__ = ("_pool", "_wire")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> ServerWire:
        self._wire = await self._pool.claim()
        return self._wire

    async def __aexit__(self, *_: object) -> None:
        self._pool.give_back(self._wire)
