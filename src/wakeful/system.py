"""Layer 5. The real clock and real chance, for nodes that are not in a test."""

import asyncio
import time
from collections.abc import Callable

from wakeful.values.clock import Handle

# How often the wall clock is held against the steady one, and how far apart they must have moved to have been set.
# Slewing (adjtime, chrony) moves them by less than a millisecond in that time.
WATCH_S = 1.0
STEP_MS = 500


class SystemClock:
    """The machine's wall clock, with waits on the running event loop."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        loop = asyncio.get_running_loop()
        # Half a millisecond more: the loop may wake a hair early, and a timer must not.
        return loop.call_at(loop.time() + max(0.0, at_ms / 1000 - time.time()) + 0.0005, callback)

    async def sleep(self, length_ms: int) -> None:
        await asyncio.sleep(length_ms / 1000)

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        return _Watch(stepped)


class SteadyClock:
    """The machine's steady clock, which begins at the wall clock's time and can't be set.

    For nodes that follow another clock: what happens to the machine's own is nothing to them.
    """

    def __init__(self) -> None:
        self._apart = time.time() - time.monotonic()

    def now(self) -> int:
        return int((time.monotonic() + self._apart) * 1000)

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        # The loop's clock is the same one; half a millisecond more, because it may wake a hair early.
        return asyncio.get_running_loop().call_at(at_ms / 1000 - self._apart + 0.0005, callback)

    async def sleep(self, length_ms: int) -> None:
        await asyncio.sleep(length_ms / 1000)

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        return _Nothing()


class _Nothing:
    """There is nothing to hear."""

    def cancel(self) -> None:
        pass


class _Watch:
    """Holds the wall clock against the loop's steady one."""

    def __init__(self, stepped: Callable[[int], object]) -> None:
        self._stepped = stepped
        self._loop = asyncio.get_running_loop()
        self._apart = self._distance()
        self._handle = self._loop.call_later(WATCH_S, self._look)

    def cancel(self) -> None:
        self._handle.cancel()

    def _distance(self) -> int:
        return time.time_ns() // 1_000_000 - int(self._loop.time() * 1000)

    def _look(self) -> None:
        by_ms = self._distance() - self._apart
        self._handle = self._loop.call_later(WATCH_S, self._look)
        if abs(by_ms) >= STEP_MS:
            self._apart += by_ms
            self._stepped(by_ms)
