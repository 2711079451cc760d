"""Layer 0. Where do time and chance come from? Always from these, passed in."""

from collections.abc import Callable
from typing import Protocol


class Handle(Protocol):
    """Something that was asked for and can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The deployment's time in milliseconds UTC."""

    def now(self) -> int: ...

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        """Run `callback` on the event loop at that instant or just after, never before."""
        ...

    async def sleep(self, length_ms: int) -> None: ...

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        """Call `stepped(by_ms)` whenever the time was set: moved by that much, ahead or back, without passing."""
        ...


class Dice(Protocol):
    """Randomness with a seed behind it."""

    def random(self) -> float: ...


# How does someone who keeps changing their mind wait for an instant?


class Wakeup:
    """One place on the clock. Asking again for the same instant costs nothing; a handle for each asking would."""

    __slots__ = ("_callback", "_clock", "_handle", "at")

    def __init__(self, clock: Clock, callback: Callable[[], object]) -> None:
        self._clock = clock
        self._callback = callback
        self._handle: Handle | None = None
        self.at: int | None = None

    def set(self, at: int | None) -> None:
        """Call back then, instead of whenever it was set for before; None: not at all."""
        if at == self.at:
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.at = at
        if at is not None:
            self._handle = self._clock.call_at(at, self._ring)

    def _ring(self) -> None:
        self._handle = self.at = None
        self._callback()
