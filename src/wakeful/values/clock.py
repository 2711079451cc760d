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
