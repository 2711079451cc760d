"""Layer 3. How many turns run at once?"""

import asyncio
from collections import deque


class Slots:
    """A bound on concurrent turns. Calls made by a turn pass freely: waiting for a slot, they would hold the one that must end first."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.taken = 0

    def take(self, *, nested: bool) -> asyncio.Future[None] | None:
        """Take a slot: None when it is yours at once, else a future to await first."""
        if nested or self.taken < self._bound:
            self.taken += 1
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def hurry(self, slot: asyncio.Future[None]) -> None:
        """Let this one pass at once: a turn that holds a slot waits behind it."""
        if not slot.done():
            self.taken += 1
            slot.set_result(None)

    def give_back(self, slot: asyncio.Future[None] | None) -> None:
        """Give it back, whether it was waited for to the end or not."""
        if slot is not None and (not slot.done() or slot.cancelled()):
            slot.cancel()
            return
        self.taken -= 1
        while self._waiting and self.taken < self._bound:
            future = self._waiting.popleft()
            if not future.done():
                self.taken += 1
                future.set_result(None)
