"""Layer 0. What is counted, and how does counting cost nearly nothing?

Plain integers, added to where something happens and read by whoever asks; nothing is sent anywhere from here. A
counter costs less than a tenth of a microsecond and a histogram a quarter, so they are always on.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from wakeful.values.commits import Commit

OTHER = "other"  # the label of everything past what a family may hold
# In the scope of a request, for whoever counts it: which route of which table it took (else its path says the part),
ROUTE = "wakeful.route"
# and that it is answered when something happens, so that how long this takes says nothing.
LASTING = "wakeful.lasting"
HTTP_MAX = 1_000  # each of some fifty routes has several statuses
LABELS_MAX = 200  # of one family: what is scraped every few seconds must stay small, whatever a program names

# Upper bounds, inclusive. Three to a decade: fine enough for "99 of 100 within 50 ms", and small to scrape.
LATENESS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
DURATION_US = (
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 60_000_000,
)  # fmt: skip
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


class Counter:
    """Only ever rises."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, count: int = 1) -> None:
        self.value += count


class Gauge:
    """How it stands now."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, count: int = 1) -> None:
        self.value += count

    def set(self, value: int) -> None:
        self.value = value


class Histogram:
    """How many were at most so much: `counts[i]` up to `bounds[i]`, the last of them more than all bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def add(self, value: int) -> None:
        """Count one; below nothing is nothing (a clock that was set back)."""
        if value < 0:
            value = 0
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def percentile(self, percent: float) -> int | None:
        """The bound that so many of a hundred did not pass, at most the last; None when there were none."""
        total, seen = self.count, 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen and seen * 100 >= total * percent:
                return bound
        return self.bounds[-1] if total else None


T = TypeVar("T")


class Family(Generic[T]):
    """The same thing for each of several labels, of which there are never more than so many."""

    __slots__ = ("_found", "_make", "_most", "labels")

    def __init__(self, make: Callable[[], T], *labels: str, most: int = LABELS_MAX) -> None:
        self.labels = labels
        self._make = make
        self._most = most
        self._found: dict[tuple[str, ...], T] = {}

    def of(self, *values: str) -> T:
        """The one of these labels; past the most, the one that all others share."""
        found = self._found.get(values)
        return found if found is not None else self._new(values)

    def _new(self, values: tuple[str, ...]) -> T:
        if len(values) != len(self.labels):
            raise ValueError(f"labels {values} for {self.labels}")
        if len(self._found) >= self._most:
            values = (OTHER,) * len(self.labels)
            found = self._found.get(values)
            if found is not None:
                return found
        made = self._found[values] = self._make()
        return made

    def items(self) -> list[tuple[tuple[str, ...], T]]:
        """All of them, with their labels: a copy, for a reader in another thread."""
        return list(self._found.items())


def counters(*labels: str) -> Family[Counter]:
    return Family(Counter, *labels)


def durations(*labels: str) -> Family[Histogram]:
    """Histograms of microseconds."""
    return Family(lambda: Histogram(DURATION_US), *labels)


class ClassMeter:
    """The turns of one class: how long they took, and how many raised."""

    __slots__ = ("calls", "failed_calls", "failed_timers", "readers", "timers")

    def __init__(self) -> None:
        self.calls = Histogram(DURATION_US)
        self.readers = Histogram(DURATION_US)
        self.timers = Histogram(DURATION_US)
        self.failed_calls = 0
        self.failed_timers = 0


class Meter:
    """What one node counts, beside what its parts count themselves. Names are those of the catalogue.

    `ticks` is a stopwatch in nanoseconds. Given by the edge: below it nobody has a clock of their own.
    """

    def __init__(self, ticks: Callable[[], int]) -> None:
        self.ticks = ticks
        # timers and turns
        self.lateness: Family[Histogram] = Family(lambda: Histogram(LATENESS_MS), "kind")
        self.classes: Family[ClassMeter] = Family(ClassMeter, "class")
        self.runs = counters("kind", "verdict")
        self.retries = Counter()
        self.parked = Counter()
        self.redriven = Counter()
        self.wakes = Counter()
        self.slot_waits = Histogram(DURATION_US)
        self.full = Counter()  # calls that a full mailbox turned away
        self.expired = Counter()  # calls that were not answered by their deadline
        # the store
        self.commit_sizes = Histogram(SIZES)
        self.commits = Histogram(DURATION_US)
        self.commit_failures = Counter()
        self.inserts = Histogram(DURATION_US)
        # other nodes
        self.link_calls = Histogram(DURATION_US)
        self.link_failures = counters("code")
        self.shards_taken = Counter()
        self.shards_released = Counter()
        # the edges
        self.http = Family(Counter, "method", "route", "status", most=HTTP_MAX)
        self.http_durations = durations("route")
        self.http_open = Gauge()
        self.denied = counters("code")
        self.socket_messages = counters("direction")
        self.socket_drops = counters("reason")
        # looked at now and then
        self.lag = Histogram(LATENESS_MS)
        self.stored: Family[Gauge] = Family(Gauge, "what")
        self.queues: Family[Gauge] = Family(Gauge, "queue", "what")

    def add_wait(self, since: int) -> int:
        """A turn has waited for its slot since then; the time by the stopwatch."""
        now = self.ticks()
        self.slot_waits.add((now - since) // 1_000)
        return now

    def wrote(self, commit: Commit) -> None:
        """A commit with ledger rows is on disk."""
        for entry in commit.entries:
            verdict = entry.verdict
            self.runs.of(entry.name.partition(":")[0], verdict).value += entry.covers
            if verdict == "failed":
                self.retries.value += 1
        parked = len(commit.parks)
        if parked:
            self.parked.value += parked
            self.retries.value -= parked  # their last attempt is not tried again
