"""Layer 5. A node's own clock in a world: wrong, fast, slow, set by hand, or standing still with its process."""

from collections.abc import Callable

from wakeful.testing.timewarp import ClockWatch, Timewarp
from wakeful.values.clock import Handle


class DriftingClock:
    """The world's clock as one machine has it."""

    def __init__(self, warp: Timewarp, *, ahead_ms: int = 0, rate: float = 1.0) -> None:
        self._warp = warp
        self._rate = rate
        self._true_base = warp.now()
        self._own_base = warp.now() + ahead_ms
        self._watchers: list[Callable[[int], object]] = []
        self._frozen: list[_Call] | None = None  # what fell due while the process stood still

    def now(self) -> int:
        return self._own_base + int((self._warp.now() - self._true_base) * self._rate)

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        wait_ms = max(0.0, (at_ms - self.now()) / self._rate)
        call = _Call(self, callback)
        call.handle = self._warp.call_at(self._warp.now() + -int(-wait_ms // 1), call.run)
        return call

    async def sleep(self, length_ms: int) -> None:
        await self._warp.sleep(-int(-length_ms / self._rate // 1))

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        self._watchers.append(stepped)
        return ClockWatch(self._watchers, stepped)

    # what a test does to it

    def drift(self, rate: float) -> None:
        """From now on it goes at that rate: 1.01 gains ten milliseconds a second."""
        self._own_base, self._true_base, self._rate = self.now(), self._warp.now(), rate

    def step(self, by_ms: int) -> None:
        """Somebody sets it."""
        self._own_base += by_ms
        for stepped in list(self._watchers):
            stepped(by_ms)

    def freeze(self) -> None:
        """The process stands still: nothing that waits for time runs until `thaw`. Time goes on."""
        self._frozen = []

    def thaw(self) -> None:
        due, self._frozen = self._frozen or [], None
        for call in due:
            call.run()

    def hold(self, call: "_Call") -> bool:
        if self._frozen is not None:
            self._frozen.append(call)
        return self._frozen is not None


class _Call:
    def __init__(self, clock: DriftingClock, callback: Callable[[], object]) -> None:
        self._clock = clock
        self._callback = callback
        self._is_off = False
        self.handle: Handle | None = None

    def cancel(self) -> None:
        self._is_off = True
        if self.handle is not None:
            self.handle.cancel()

    def run(self) -> None:
        if not self._is_off and not self._clock.hold(self):
            self._callback()
