"""Layer 5, pure. Who asks more often than they may, and when may they ask again?"""

from collections import OrderedDict

# Addresses and tokens that are remembered; the one not seen for longest is forgotten, and starts afresh.
KNOWN_MAX = 10_000
FREE_FAILURES = 5  # wrong tokens at the login page before an address has to wait
FIRST_WAIT_MS = 1_000
LONGEST_WAIT_MS = 300_000
FORGET_MS = 3_600_000  # an address that has not failed for that long has not failed


class Buckets:
    """Token buckets by name: each holds `burst`, fills by `rate` a second, and every request takes one."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()  # how much was left, and when

    def take(self, who: str, now: int, *, rate: float | None = None) -> float:
        """0 when this request may pass; else how many seconds until the next one may."""
        rate = self.rate if rate is None else rate
        burst = self.burst if rate == self.rate else max(1.0, rate)
        left, since = self._left.get(who, (burst, now))
        left = min(burst, left + max(0, now - since) * rate / 1000)
        passes = left >= 1
        self._left[who] = (left - 1 if passes else left, now)
        self._left.move_to_end(who)
        if len(self._left) > KNOWN_MAX:
            self._left.popitem(last=False)
        return 0.0 if passes else (1 - left) / rate


class Failures:
    """Failed logins by address: after a few of them each one makes the next wait twice as long."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[int, int]] = OrderedDict()  # how often, and when last

    def wait_s(self, who: str, now: int) -> float:
        """How long this address has to wait before it may try again; 0: not at all."""
        count, last = self._failed.get(who, (0, 0))
        if count < FREE_FAILURES or not 0 <= now - last < FORGET_MS:  # or the clock was set back
            return 0.0
        wait = min(LONGEST_WAIT_MS, FIRST_WAIT_MS << min(20, count - FREE_FAILURES))
        return max(0, last + wait - now) / 1000

    def failed(self, who: str, now: int) -> None:
        count, last = self._failed.get(who, (0, now))
        self._failed[who] = (1 if now - last >= FORGET_MS else count + 1, now)
        self._failed.move_to_end(who)
        if len(self._failed) > KNOWN_MAX:
            self._failed.popitem(last=False)
