"""Layer 3. How does a node follow the deployment's clock, and when does it stop trusting its own?

The store's clock is everyone's. Each node measures how far ahead of its own that is and adds it, so timers and
leases mean the same instant on every node. A difference that jumps, or that can't be measured, holds up firing.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from wakeful.values.errors import Unavailable
from wakeful.values.times import Clock, Handle

if TYPE_CHECKING:
    from wakeful.store.protocol import MembershipTable, Store


# How far is the deployment's clock from this node's own, and is the answer to be trusted?
#
# A measurement is one question to the store, with the node's own time before and after it: the store's answer
# belongs to some instant in between, so it is known to half the round trip. The shortest round trip knows best.

# A clock that goes wrong by more than this is broken, and firing by it would do harm: real ones stay a hundred times
# below. And whatever the time between two measurements, a difference of more than the second is one that was set.
DRIFT_ALLOWED = 0.05
JUMP_MS = 250
# Milliseconds are cut off on both sides.
GRAIN_MS = 2


class Offset(NamedTuple):
    """The store's clock is so much ahead of the node's own, give or take `error_ms`."""

    ms: int
    error_ms: int


def best_offset(samples: Iterable[tuple[int, int, int]]) -> Offset:
    """The best of some measurements, each (own time before, the store's time, own time after)."""
    before, there, after = min(samples, key=lambda sample: sample[2] - sample[0])
    return Offset(there - (before + after) // 2, (after - before + 1) // 2 + GRAIN_MS)


def is_jump(before: Offset, found: Offset, elapsed_ms: int) -> bool:
    """Between two measurements, so far apart by the node's own clock, that clock was set, or goes wrong."""
    drift_ms = min(JUMP_MS, int(DRIFT_ALLOWED * max(0, elapsed_ms)))
    return abs(found.ms - before.ms) > drift_ms + found.error_ms + before.error_ms


def follow(believed_ms: int, found: Offset) -> int:
    """What to believe from now on: as before, when the measurement can't tell the difference."""
    return believed_ms if abs(found.ms - believed_ms) <= found.error_ms else found.ms


log = logging.getLogger("wakeful.clock")

SAMPLES_AT_START = 5
SAMPLES = 2
TELL_MS = 1_000  # an offset that people should hear of


class FollowedClock:
    """The deployment's clock as one node knows it: its own, moved by how far the store's is ahead."""

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._watchers: list[Callable[[int], object]] = []
        self._own_watch: Handle | None = None
        self.offset_ms = 0
        self.error_ms = 0
        self.doubt: str | None = None  # why firing waits; None while the clock is trusted
        self._last = Offset(0, 0)  # the newest measurement, believed or not
        self._last_at = 0  # when that was, by the own clock
        self._gap_ms = 0  # between that and the one before
        self._stepped_ms = 0  # by how much the own clock was set since the start

    def now(self) -> int:
        return self._own.now() + self.offset_ms

    @property
    def unmeasured_ms(self) -> int:
        """For how long it went by an old measurement: until now, or until the newest. A store that is slow makes it long."""
        return max(self._own.now() - self._last_at, self._gap_ms)

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        return self._own.call_at(at_ms - self.offset_ms, callback)

    async def sleep(self, length_ms: int) -> None:
        await self._own.sleep(length_ms)

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        """Hears of steps of the deployment's clock. The node's own may be set as one likes: it is measured again."""
        if self._own_watch is None:
            self._own_watch = self._own.watch(self._own_stepped)
        self._watchers.append(stepped)
        return _Watch(self, stepped)

    async def start(self, store: "Store") -> None:
        """The first measurement, believed whatever it says."""
        looked = await self._measure(store, SAMPLES_AT_START)
        if looked is None:
            return
        _, offset, _ = looked
        self.offset_ms, self.error_ms, self.doubt = offset.ms, offset.error_ms, None
        if abs(offset.ms) > TELL_MS:
            log.warning(
                "this machine's clock is %d ms %s the database's, which all nodes follow; set it right (NTP)",
                abs(offset.ms),
                "behind" if offset.ms > 0 else "ahead of",
                extra={"code": "clock.offset"},
            )

    async def follow(self, store: "Store") -> None:
        """Measure again. A jump raises `doubt` until a second measurement agrees with the one before it."""
        try:
            looked = await self._measure(store, SAMPLES)
        except Unavailable as error:
            self._doubt(f"the database's clock can't be read ({error.message})")
            raise
        if looked is None:
            return
        before, offset, elapsed_ms = looked
        self.error_ms = offset.error_ms
        if is_jump(before, offset, elapsed_ms):
            self._doubt(f"it moved by {offset.ms - before.ms} ms against the database's since it was last measured")
            return
        by_ms, was_doubted = offset.ms - self.offset_ms, self.doubt is not None
        self.offset_ms = offset.ms if was_doubted else follow(self.offset_ms, offset)
        self._trust()
        if was_doubted and abs(by_ms) > JUMP_MS:
            for stepped in list(self._watchers):
                stepped(by_ms)

    async def _measure(self, store: "MembershipTable", samples: int) -> tuple[Offset, Offset, int] | None:
        """The measurement before, this one, and the time between; by the own clock as it is at the end of it."""
        readings = []
        for _ in range(samples):
            before = self._unset()
            there = await store.time()
            if there is None:
                return None
            readings.append((before, there, self._unset()))
        last, last_at = self._last, self._last_at
        best = best_offset(readings)
        self._last, self._last_at = Offset(best.ms - self._stepped_ms, best.error_ms), self._own.now()
        self._gap_ms = self._last_at - last_at if last_at else 0
        return last, self._last, self._last_at - last_at

    def _unset(self) -> int:
        """The own clock as if nobody had set it: somebody may, while the store is asked."""
        return self._own.now() - self._stepped_ms

    def _own_stepped(self, by_ms: int) -> None:
        # The deployment's time did not move.
        self.offset_ms -= by_ms
        self._stepped_ms += by_ms
        self._last, self._last_at = Offset(self._last.ms - by_ms, self._last.error_ms), self._last_at + by_ms

    def _doubt(self, why: str) -> None:
        if self.doubt is None:
            log.warning(
                "firing waits, because this node's clock can't be trusted: %s", why, extra={"code": "clock.doubt"}
            )
        self.doubt = why

    def _trust(self) -> None:
        if self.doubt is not None:
            log.warning(
                "the clock is trusted again, %d ms from the database's", self.offset_ms, extra={"code": "clock.trust"}
            )
        self.doubt = None


class _Watch:
    def __init__(self, clock: FollowedClock, stepped: Callable[[int], object]) -> None:
        self._clock = clock
        self._stepped = stepped

    def cancel(self) -> None:
        clock = self._clock
        if self._stepped in clock._watchers:
            clock._watchers.remove(self._stepped)
        if not clock._watchers and clock._own_watch is not None:
            clock._own_watch.cancel()
            clock._own_watch = None
