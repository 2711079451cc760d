"""Layer 5. How do requests share an event loop with timers, however many come?

Each pass of the loop must be short, because a due timer waits for a few of them. So requests begin a few to a pass, and
no more of them are young at once than one commit may answer in a pass: when a group of turns is on disk, all who waited
for it go on together. A request that has been under way for longer waits for something else, and does not count. How
many that is, is measured: when passes get long there are fewer, when they are short more again.
"""

import asyncio
import time
from collections import deque

from wakeful.http.problems import Problem

PASS_S = 0.003  # of work in one pass: a due timer waits for seven of them and more, and should start within 50 ms
STARTS_MAX = 16  # requests that begin in one pass
YOUNG_MAX = 96  # that may go on together
SHARE_MIN = 0.125  # of both, however long passes are: something goes on
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
        self._share = 1.0  # how much of these bounds is in force
        self._used_s = 0.0  # what the loop's thread had worked when the last pass began
        self._left = starts_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._young: dict[int, int] = {}  # requests under way, by the tenth of a second in which they began
        self._is_counting = False
        self._look: asyncio.TimerHandle | None = None

    def take(self) -> asyncio.Future[None] | None:
        """None: begin at once; else a future to await first. `Problem` when too many wait already."""
        if not self._is_counting:
            self._count()
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
            self._count()

    @property
    def is_at_rest(self) -> bool:
        """Nothing of it is left in the loop."""
        return not self._is_counting and self._look is None

    def _count(self) -> None:
        """Look at every pass from the next one on."""
        self._is_counting = True
        self._used_s = time.thread_time()
        asyncio.get_running_loop().call_soon(self._next_pass)

    def _room(self) -> int:
        """How many more may be young now."""
        now = int(asyncio.get_running_loop().time() / YOUNG_S)
        if len(self._young) > 2:
            self._young = {mark: count for mark, count in self._young.items() if mark >= now - 1}
        return int(self._young_max * self._share) - self._young.get(now, 0) - self._young.get(now - 1, 0)

    def _next_pass(self) -> None:
        loop = asyncio.get_running_loop()
        self._measure()
        starts = max(1, int(self._starts_max * self._share))
        was_used, self._left = self._left < starts, starts
        room = min(starts, self._room())
        while self._waiting and room > 0:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                self._left -= 1
                room -= 1
        if self._waiting and room <= 0 and self._left == starts:
            # Until one ends, or those that are under way are young no more.
            self._is_counting = False
            if self._look is None:
                self._look = loop.call_later(YOUNG_S, self._grown)
            return
        self._is_counting = bool(self._waiting) or self._left < starts or was_used
        if self._is_counting:
            loop.call_soon(self._next_pass)

    def _measure(self) -> None:
        """Fewer after a long pass, by and by more after short ones. By the thread's own time: others' is not ours to save."""
        used_s = time.thread_time()
        length_s, self._used_s = used_s - self._used_s, used_s
        if length_s > PASS_S:
            self._share = max(SHARE_MIN, self._share * (0.7 if length_s < 2 * PASS_S else 0.5))
        else:
            self._share = min(1.0, self._share + 0.03)

    def _grown(self) -> None:
        self._look = None
        if self._waiting and not self._is_counting:
            self._count()
