"""Layer 5. The real clock and real chance, for nodes that are not in a test."""

import asyncio
import time
from collections.abc import Callable

from wakeful.values.clock import Handle


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
