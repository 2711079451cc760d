"""Layer 2. Is the other side still there?

A process that died is reported by its kernel at once. One whose packets are dropped is not: only
its silence tells. Silence is counted in beats and not by a clock, so that a clock that is set, or
a process that was frozen and wakes, accuses nobody.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from wakeful.policy.lease import BEAT_MS, Lease


class Pace(NamedTuple):
    """How soon silence is death: after `beats_max` beats of `beat_ms` with not one byte from the other side."""

    beat_ms: int = BEAT_MS
    # Just below a lease: code that blocks its process for a second or three is late, and not dead.
    beats_max: int = Lease().beats
    when_idle: bool = True  # False: only while a call is under way, so that idle links cost nothing


class LinkPulse:
    """Beats while it is wanted; `beat()` at each, `dead()` when the other side was silent for too many."""

    __slots__ = ("_beat", "_dead", "_handle", "_is_wanted", "_loop", "_pace", "_silent", "is_heard")

    def __init__(
        self, pace: Pace, *, is_wanted: Callable[[], bool], beat: Callable[[], object], dead: Callable[[], object]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pace = pace
        self._is_wanted = is_wanted
        self._beat = beat
        self._dead = dead
        self._handle: asyncio.TimerHandle | None = None
        self._silent = 0
        self.is_heard = False  # set by whoever hears something
        if pace.when_idle:
            self.start()

    def start(self) -> None:
        """Begin to beat, if it does not yet."""
        if self._handle is None:
            self._silent = 0
            self.is_heard = True  # nothing was expected before now
            self._handle = self._loop.call_later(self._pace.beat_ms / 1000, self._tick)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        self._handle = None
        if not self._pace.when_idle and not self._is_wanted():
            return
        self._silent = 0 if self.is_heard else self._silent + 1
        self.is_heard = False
        if self._silent >= self._pace.beats_max:
            self._dead()
            return
        self._handle = self._loop.call_later(self._pace.beat_ms / 1000, self._tick)
        self._beat()
