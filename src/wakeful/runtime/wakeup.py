"""Layer 3. How does someone who keeps changing their mind wait for an instant?"""

from collections.abc import Callable

from wakeful.values.clock import Clock, Handle


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
