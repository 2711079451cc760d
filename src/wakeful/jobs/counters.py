"""Layer 4. How have the jobs of this node been doing?"""

from typing import Any

from wakeful.values.metrics import Histogram

# 0, 1, 2–3, 4–7 … ms; past the last, everything from 12 days up.
DOUBLING_MS = tuple((1 << bits) - 1 for bits in range(31))


class JobCounters:
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
        self.lateness = Histogram(DOUBLING_MS)
        self.duration = Histogram(DOUBLING_MS)

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            found[name] = _lengths(value) if isinstance(value, Histogram) else value
        return found


def _lengths(found: Histogram) -> dict[str, Any]:
    return {
        "count": found.count,
        "sum_ms": found.sum,
        "p50_ms": found.percentile(50),
        "p99_ms": found.percentile(99),
        "buckets": list(found.counts),
    }
