"""Layer 2. Which connection may be used now?"""

from asyncio import Semaphore, gather
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wakeful.store.postgres.url import Target
from wakeful.store.postgres.wire import Wire
from wakeful.values.errors import StoreDown


class Pool:
    """A few connections, made when first needed and again when they were lost; the last used is used next."""

    def __init__(self, target: Target, size: int, *, packed: bool = False, readonly: bool = False) -> None:
        self._target = target
        self._packed = packed
        self._readonly = readonly
        self._free = Semaphore(size)
        self._idle: list[Wire] = []
        self._closed = False

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Wire]:
        """A connection of one's own for a while."""
        async with self._free:
            wire = await self._ready()
            try:
                yield wire
            finally:
                if self._closed:
                    wire.drop()
                elif not wire.is_closed:
                    self._idle.append(wire)

    async def warm(self) -> None:
        """Have one connection at least, or raise why there is none."""
        async with self.take():
            pass

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        await gather(*(wire.close() for wire in idle))

    async def _ready(self) -> Wire:
        if self._closed:
            raise StoreDown(f"{self._target.shown} is closed")
        while self._idle:
            wire = self._idle.pop()
            if not wire.is_closed:
                return wire
        return await Wire.connect(self._target, packed=self._packed, readonly=self._readonly)
