"""Layer 4. How has a schedule been doing?"""

from msgspec import Struct

from wakeful.policy.plan import MISSED

# Lateness is kept in buckets that double: 0, 1, 2–3, 4–7 … ms; the last takes everything from 12 days up.
_BUCKETS = 31


class Counters(Struct, kw_only=True, array_like=True):
    """Sums over all occurrences, kept for ever; the ledger has the latest ones singly."""

    runs: int = 0  # ran well
    failures: int = 0  # given up after their retries
    retries: int = 0  # failed attempts that were tried again
    skipped: int = 0
    too_late: int = 0
    coalesced: int = 0
    overlap: int = 0
    paused: int = 0
    gap: int = 0
    last_run_at: int | None = None
    last_duration_ms: int | None = None
    last_missed_at: int | None = None
    lateness_ms: int = 0  # sum
    buckets: list[int] = []

    @property
    def missed(self) -> int:
        """Occurrences that fell due, should have run and did not."""
        return self.skipped + self.too_late + self.coalesced

    @property
    def occurrences(self) -> int:
        """All that have a verdict."""
        return self.runs + self.failures + self.missed + self.overlap + self.paused + self.gap

    @property
    def average_lateness_ms(self) -> float | None:
        return self.lateness_ms / self.runs if self.runs else None

    @property
    def p99_lateness_ms(self) -> int | None:
        """At most this late were 99 of 100 runs, to within a factor of two."""
        return self.percentile_ms(99)

    def percentile_ms(self, percent: int) -> int | None:
        total = sum(self.buckets)
        seen = 0
        for bits, count in enumerate(self.buckets):
            seen += count
            if seen * 100 >= total * percent:
                return (1 << bits) - 1
        return None

    def ran(self, fired_at: int, finished_at: int, lateness_ms: int) -> None:
        lateness_ms = max(0, lateness_ms)
        self.runs += 1
        self.last_run_at = fired_at
        self.last_duration_ms = finished_at - fired_at
        self.lateness_ms += lateness_ms
        bucket = min(lateness_ms.bit_length(), _BUCKETS)
        buckets = self.buckets + [0] * (bucket + 1 - len(self.buckets))
        buckets[bucket] += 1
        self.buckets = buckets

    def left(self, verdict: str, count: int, last_at: int) -> None:
        """So many did not run, with that verdict."""
        setattr(self, verdict, getattr(self, verdict) + count)
        if verdict in MISSED:
            self.last_missed_at = max(self.last_missed_at or 0, last_at)

    def add(self, other: "Counters") -> None:
        """Sum up over several schedules."""
        for name in ("runs", "failures", "retries", "skipped", "too_late", "coalesced", "overlap", "paused", "gap"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lateness_ms += other.lateness_ms
        if (other.last_run_at or 0) > (self.last_run_at or 0):
            self.last_run_at, self.last_duration_ms = other.last_run_at, other.last_duration_ms
        if (other.last_missed_at or 0) > (self.last_missed_at or 0):
            self.last_missed_at = other.last_missed_at
        longer, shorter = sorted((self.buckets, other.buckets), key=len, reverse=True)
        self.buckets = [n + (shorter[i] if i < len(shorter) else 0) for i, n in enumerate(longer)]
