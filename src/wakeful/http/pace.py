"""Layer 6. How do requests share an event loop with timers, however many come?

Each pass of the loop must be short, because a due timer waits for a few of them. So requests begin a few to a pass, and
no more of them are young at once than one commit may answer in a pass: when a group of turns is on disk, all who waited
for it go on together. A request that has been under way for longer waits for something else, and does not count.
"""

import asyncio
from collections import deque

from wakeful.http.problems import Problem

STARTS_MAX = 16  # that begin in one pass: some milliseconds
YOUNG_MAX = 96  # that may go on together: about ten milliseconds
YOUNG_S = 0.1
WAITING_MAX = 4_096


class Pace:
    """Lets requests begin in the order in which they come."""

    def __init__(
        self, starts_max: int = STARTS_MAX, *, young_max: int = YOUNG_MAX, waiting_max: int = WAITING_MAX
    ) -> None:
        self._starts_max = starts_max
        self._young_max = young_max
        self._waiting_max = waiting_max
        self._left = starts_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._young: dict[int, int] = {}  # requests under way, by the tenth of a second in which they began
        self._is_counting = False
        self._look: asyncio.TimerHandle | None = None

    def take(self) -> asyncio.Future[None] | None:
        """None: begin at once; else a future to await first. `Problem` when too many wait already."""
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_pass)
        if self._left > 0 and not self._waiting and self._room() > 0:
            self._left -= 1
            return None
        if len(self._waiting) >= self._waiting_max:
            raise Problem(503, "server.busy", "more requests wait than this server takes; try again")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def began(self) -> int:
        """One begins now; a mark for `ended`."""
        mark = int(asyncio.get_running_loop().time() / YOUNG_S)
        self._young[mark] = self._young.get(mark, 0) + 1
        return mark

    def ended(self, mark: int) -> None:
        """It is answered."""
        if mark in self._young:
            self._young[mark] -= 1
        if self._waiting and not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    @property
    def is_at_rest(self) -> bool:
        """Nothing of it is left in the loop."""
        return not self._is_counting and self._look is None

    def _room(self) -> int:
        """How many more may be young now."""
        now = int(asyncio.get_running_loop().time() / YOUNG_S)
        if len(self._young) > 2:
            self._young = {mark: count for mark, count in self._young.items() if mark >= now - 1}
        return self._young_max - self._young.get(now, 0) - self._young.get(now - 1, 0)

    def _next_pass(self) -> None:
        loop = asyncio.get_running_loop()
        self._left, had_left = self._starts_max, self._left
        room = min(self._left, self._room())
        while self._waiting and room > 0:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                self._left -= 1
                room -= 1
        if self._waiting and room <= 0 and self._left == self._starts_max:
            # Until one ends, or those that are under way are young no more.
            self._is_counting = False
            if self._look is None:
                self._look = loop.call_later(YOUNG_S, self._grown)
            return
        self._is_counting = bool(self._waiting) or self._left < self._starts_max or had_left < self._starts_max
        if self._is_counting:
            loop.call_soon(self._next_pass)

    def _grown(self) -> None:
        self._look = None
        if self._waiting and not self._is_counting:
            self._is_counting = True
            self._next_pass()
