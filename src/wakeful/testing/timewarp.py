"""Layer 5. How does an event loop jump over waiting instead of waiting?

While a warp is in force on the running loop, its clock stands still and moves only by jumping to
the next thing that waits, when nothing else is left to do. Everything on the loop obeys: alarms,
leases, deadlines, `asyncio.sleep` and timeouts in user code. Real work outside the loop (a socket
to PostgreSQL) is announced with `outside()`, work in a thread by itself, and time stands still until it is back.
"""

import asyncio
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wakeful.testing.patience import Patience
from wakeful.values.errors import BadOption
from wakeful.values.times import Handle

RESOLUTION_S = 1e-5  # far below our millisecond, and above a float's step for thousands of years


class ClockWatch:
    """Somebody who wants to hear of steps of a clock."""

    def __init__(self, watchers: list[Callable[[int], object]], stepped: Callable[[int], object]) -> None:
        self._watchers = watchers
        self._stepped = stepped

    def cancel(self) -> None:
        if self._stepped in self._watchers:
            self._watchers.remove(self._stepped)


class Timewarp:
    """Virtual time on the running asyncio loop, from `install` to `remove`."""

    def __init__(self, start_ms: int, patience: Patience | None = None) -> None:
        self._start_ms = start_ms
        self.patience = patience or Patience(None)
        self._loop: Any = None
        self._time = 0.0
        self._now_ms = start_ms  # the same instant, for those who ask in milliseconds: ten times a turn
        self.outside_count = 0  # of things that are under way for real
        self._resolution = 0.0
        self._idlers: list[asyncio.Future[None]] = []
        self._watchers: list[Callable[[int], object]] = []
        self._selector: Any = None

    def install(self) -> None:
        loop: Any = asyncio.get_running_loop()
        selector = getattr(loop, "_selector", None)
        if isinstance(selector, _JumpingSelector):
            raise BadOption("there is a world on this event loop already; leave it first", code="world.nested")
        if not isinstance(selector, selectors.BaseSelector):
            raise BadOption(
                f"a world needs asyncio's own event loop, not {type(loop).__module__}; run the test without uvloop",
                code="world.loop",
            )
        self._loop, self._selector = loop, selector
        # Always from zero: floats of another size round otherwise, and what is due at one instant would change places.
        self._shift(-loop.time())
        self._time, self._now_ms = 0.0, self._start_ms
        loop.time = lambda: self._time
        # The loop runs what is due before "now plus its resolution". A nanosecond is less than a float's step past
        # 2^24 seconds, so after 194 days nothing due exactly now would ever run.
        self._resolution, loop._clock_resolution = loop._clock_resolution, RESOLUTION_S
        loop._selector = _JumpingSelector(selector, self)
        loop.run_in_executor = self._beside
        self.patience.begin(asyncio.current_task())

    def remove(self) -> None:
        del self._loop.run_in_executor
        self._loop._selector = self._selector
        self._loop._clock_resolution = self._resolution
        del self._loop.time
        self._shift(self._loop.time() - self._time)

    def _beside(self, executor: Any, work: Callable[..., Any], *args: Any) -> Any:
        """The loop's own, but work in a thread (`asyncio.to_thread`) is real: time stands still until it is back."""
        future = type(self._loop).run_in_executor(self._loop, executor, work, *args)
        self.outside_count += 1
        future.add_done_callback(self._is_back)
        return future

    def _is_back(self, future: Any) -> None:
        self.outside_count -= 1

    def _shift(self, seconds: float) -> None:
        """What waits on the loop already waits as long as before on its other clock."""
        for handle in self._loop._scheduled:
            handle._when += seconds

    def jump(self, seconds: float) -> None:
        self.patience.step(self._time)
        self._time += seconds
        self._now_ms = self._start_ms + round(self._time * 1000)

    async def idle(self) -> None:
        """Wait until nothing is left to do but to let time pass."""
        future = self._loop.create_future()
        self._idlers.append(future)
        await future

    def tell_idle(self) -> bool:
        """Nothing is left to do: wake those who waited for that. True when there were any."""
        if not self._idlers:
            return False
        idlers, self._idlers = self._idlers, []
        for future in idlers:
            if not future.done():
                future.set_result(None)
        return True

    @contextmanager
    def on_purpose(self) -> Iterator[None]:
        """Time passes because the test says so, however much of it."""
        self.patience.moving += 1
        try:
            yield
        finally:
            self.patience.moving -= 1
            self.patience.note_move()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Something real is under way: don't jump meanwhile."""
        self.outside_count += 1
        try:
            yield
        finally:
            self.outside_count -= 1

    # the clock that nodes get

    def now(self) -> int:
        return self._now_ms

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        when = (at_ms - self._start_ms) / 1000
        handle: Handle = self._loop.call_at(when if when > self._time else self._time, callback)
        return handle

    async def sleep(self, length_ms: int) -> None:
        await asyncio.sleep(length_ms / 1000)

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        self._watchers.append(stepped)
        return ClockWatch(self._watchers, stepped)

    def step(self, by_ms: int) -> None:
        """Set the clock ahead or back: no time passes, it is only called something else."""
        self._start_ms += by_ms
        self._now_ms += by_ms
        for stepped in list(self._watchers):
            stepped(by_ms)


class _JumpingSelector:
    """The loop's selector, but waiting for time to pass makes it pass."""

    def __init__(self, real: selectors.BaseSelector, warp: Timewarp) -> None:
        self._real = real
        self._files = real.get_map()
        self._warp = warp
        self._passes = 0

    def select(self, timeout: float | None = None) -> Any:
        warp = self._warp
        is_busy = timeout is not None and timeout <= 0
        if warp.outside_count:
            return self._real.select(0 if is_busy else None)
        # Looking outside is a system call and would double the cost of a pass. So not each time while the loop has
        # work of its own, nor while it watches nothing but its own pipe, which only says that there is such work.
        self._passes += 1
        if self._passes & 15 == 0 or (not is_busy and len(self._files) > 1):
            ready = self._real.select(0)
            if ready:
                return ready
        if is_busy or warp.tell_idle():
            return ()
        if timeout is None:  # nothing waits for time: only the world outside can go on
            if len(self._files) > 1:
                return self._real.select(None)
            ready = self._real.select(warp.patience.alone_s)  # a thread that nobody knows of
            if not ready:
                warp.patience.alone()
            return ready
        warp.jump(timeout)
        return ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
