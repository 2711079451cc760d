"""Layer 3. How close do renewals come to the end of the lease, and how long does the store take for one?

A lease that is nearly over at every other renewal is too short for its store or its machine, and nobody sees that
before it lapses. So the worst of each minute is kept, for an hour.
"""

from collections import deque
from typing import Any, NamedTuple

from wakeful.policy.lease import Lease

KEPT_MS = 3_600_000
PART_MS = 60_000  # of which the worst is kept: an hour is sixty-one small rows


class _Part(NamedTuple):
    """The worst of a minute."""

    began_at: int
    slack_ms: int | None  # None: nothing was renewed in it, only entered
    trip_us: int


class Renewals:
    """What was left of the lease each time it was renewed; below zero: for how long it had been over."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._parts: deque[_Part] = deque(maxlen=KEPT_MS // PART_MS + 1)
        self.count = 0

    def add(self, lease_until: int, now: int, *, trip_us: int) -> None:
        """It was renewed by now, which took the store so long; `lease_until` is when it would have been over, 0 at first."""
        slack_ms = lease_until - now if lease_until else None
        self.count += 1
        last = self._parts[-1] if self._parts else None
        if last is not None and 0 <= now - last.began_at < PART_MS:
            slacks = [one for one in (last.slack_ms, slack_ms) if one is not None]
            self._parts[-1] = _Part(last.began_at, min(slacks, default=None), max(last.trip_us, trip_us))
        else:
            self._parts.append(_Part(now, slack_ms, trip_us))

    def failed(self, now: int, *, trip_us: int) -> None:
        """It was tried for so long, in vain: the store was slow, and not this process."""
        self.add(0, now, trip_us=trip_us)
        self.count -= 1

    def slack_ms(self, lease_until: int, now: int, within_ms: int = KEPT_MS) -> int:
        """The least that was left of it within that time; one that is waited for now counts, once it is late."""
        slacks = [part.slack_ms for part in self._within(now, within_ms) if part.slack_ms is not None]
        if lease_until and lease_until - now < self._lease.ms - self._lease.renew_ms:
            slacks.append(lease_until - now)
        return min(slacks, default=self._lease.ms)

    def said(self, lease_until: int, now: int) -> dict[str, Any]:
        """For people, of the last hour."""
        trips = [part.trip_us for part in self._within(now, KEPT_MS)]
        return {
            "lease_ms": self._lease.ms,
            "slack_ms": self.slack_ms(lease_until, now),
            "near_ms": self._lease.near_ms,
            "trip_us": max(trips, default=0),
            "renewals": self.count,
        }

    def _within(self, now: int, within_ms: int) -> list[_Part]:
        # A minute that began before may reach into it. A clock that was set back leaves minutes of the future.
        return [part for part in self._parts if now - part.began_at < within_ms + PART_MS]
