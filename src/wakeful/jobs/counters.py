"""Layer 4. How have the jobs of this node been doing?"""

from typing import Any

_BUCKETS = 31


class Histogram:
    """Lengths of time in buckets that double: 0, 1, 2–3, 4–7 … ms; the last takes everything from 12 days up."""

    __slots__ = ("buckets", "count", "sum_ms")

    def __init__(self) -> None:
        self.buckets = [0] * (_BUCKETS + 1)
        self.count = 0
        self.sum_ms = 0

    def add(self, ms: int) -> None:
        if ms < 0:
            ms = 0
        bits = ms.bit_length()
        self.buckets[bits if bits < _BUCKETS else _BUCKETS] += 1
        self.count += 1
        self.sum_ms += ms

    def percentile_ms(self, percent: float) -> int | None:
        """At most this long were so many of a hundred, to within a factor of two; None when there were none."""
        seen = 0
        for bits, count in enumerate(self.buckets):
            seen += count
            if seen and seen * 100 >= self.count * percent:
                return (1 << bits) - 1
        return None

    def plain(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "sum_ms": self.sum_ms,
            "p50_ms": self.percentile_ms(50),
            "p99_ms": self.percentile_ms(99),
            "buckets": list(self.buckets),
        }


class Counters:
    """Since the process began; what a crash or a lost commit undid may have been counted."""

    __slots__ = (
        "cancelled",
        "duplicates",
        "duration",
        "lateness",
        "parked",
        "rescheduled",
        "retried",
        "run",
        "scheduled",
    )

    def __init__(self) -> None:
        self.scheduled = 0
        self.run = 0  # ended well
        self.retried = 0  # attempts that failed and will be tried again
        self.rescheduled = 0  # returned `Again`
        self.parked = 0
        self.cancelled = 0  # by somebody, by `Stop`, or with a job that they waited for
        self.duplicates = 0  # keys that came twice at once
        self.lateness = Histogram()
        self.duration = Histogram()

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            found[name] = value.plain() if isinstance(value, Histogram) else value
        return found
