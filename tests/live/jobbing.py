"""Jobs at a steady rate, and what must be true of them at the end whatever was done to nodes and database meanwhile."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from tests.live.cluster import LEASE_S, Cells, fetch, percentile
from tests.live.programs.fleet import Cell, app
from tests.yardstick import PATIENCE_S, Yardstick
from wakeful import Unavailable

OBJECTS = 4_000
AHEAD_MS = 2_000  # jobs are due within this
KEYED = 50  # one in so many has a key, and is asked for until it is acknowledged
WAITING_MAX = 2_000  # schedules that are not acknowledged yet
# Jobs that wait since a second or more. What the nodes can't do is no promise of theirs: a load that they can't carry is
# lowered until they can, so that a job which is late has another reason.
BEHIND_MAX = 1_000
LOWER = 0.8
RATE_MIN = 100
LATE_MS = 5_000
# How long after an event it may still be the reason: the lease, a second to act on it, and the backlog of that time.
REACH_MS = int((LEASE_S + 1) * 1000) + 4_000


class Event(NamedTuple):
    """What was done, when, and how long nobody could do anything about it."""

    kind: str
    at_ms: int
    end_ms: int
    lasts_ms: int = 0


class Load:
    """Schedules jobs at a steady rate, and remembers which were acknowledged."""

    def __init__(self, rate: int, url: str | None = None) -> None:
        """With the URL of the store the rate is lowered while the nodes can't keep up."""
        self._rate = float(rate)
        self._url = url
        self._is_behind = False
        self.tried: set[str] = set()
        self.acked: set[str] = set()
        self.refused: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._dice = random.Random(4)

    async def run(self, seconds: float, is_over: asyncio.Event | None = None) -> float:
        """So many a second for so long, or until it is over; what rate it was in the end."""
        watching = asyncio.create_task(self._watch())
        start = last = time.monotonic()
        number, wanted = 0, 0.0
        while (now := time.monotonic()) - start < seconds and not (is_over and is_over.is_set()):
            wanted += 0 if self._is_behind else (now - last) * self._rate
            last = now
            # Behind a machine that can't keep up nothing piles up: the rate is then what it is, and is told.
            while number < wanted and len(self._tasks) < WAITING_MAX:
                number += 1
                task = asyncio.create_task(self._one(f"j{number}", number))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(0.01)
        rate = number / (time.monotonic() - start)
        watching.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE_S)
        assert not self._tasks, "schedules that never ended"
        return rate

    async def _watch(self) -> None:
        """Look how many jobs wait, and lower the rate each time that they are too many."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM {s}.timers WHERE due_at <= $1 LIMIT $2) AS t"
        while self._url is not None:
            [(waiting,)] = await fetch(self._url, sql, now_ms() - 1_000, BEHIND_MAX)
            if waiting >= BEHIND_MAX and not self._is_behind:
                self._rate = max(RATE_MIN, self._rate * LOWER)
            self._is_behind = waiting >= BEHIND_MAX
            await asyncio.sleep(0.2)

    async def _one(self, id: str, number: int) -> None:
        stub = app.get(Cell, f"c{number * 7 % OBJECTS}")
        key = id if number % KEYED == 0 else None
        self.tried.add(id)
        after = f"{self._dice.randrange(1, AHEAD_MS)}ms"
        for _ in range(200):
            try:
                await app.jobs.schedule(stub.mark, id, after=after if key is None else "1s", key=key)
                self.acked.add(id)
                return
            except Unavailable as error:
                self.refused[error.code] += 1
                if key is None:
                    return
                await asyncio.sleep(0.1)
            except Exception as error:
                if key is not None and type(error).__name__ == "KeyTaken":
                    # The first try arrived after all, with a due time of its own: it is scheduled.
                    self.acked.add(id)
                    return
                self.wrong.append(f"{id}: {type(error).__name__}: {error}")
                return
        self.wrong.append(f"{id}: refused 200 times")


def explained(due_at: int, fired_at: int, events: Sequence[Event], reach_ms: float = REACH_MS) -> str | None:
    """What made it late: an event that was not over when it was due or came before it was late, or two in a row.

    One that only happened to be shortly before it fired at last is no excuse for the time before.
    """
    for first in events:
        if not due_at - first.lasts_ms - reach_ms <= first.at_ms <= due_at + LATE_MS:
            continue
        if fired_at <= _over_ms(first, reach_ms):
            return first.kind
        for second in events:
            if first.at_ms < second.at_ms <= _over_ms(first, reach_ms) and fired_at <= _over_ms(second, reach_ms):
                return f"{first.kind} and {second.kind}"
    return None


def _over_ms(event: Event, reach_ms: float) -> float:
    return event.at_ms + event.lasts_ms + reach_ms


async def check(
    url: str, load: Load, events: Sequence[Event], machine: Yardstick, *, calls: Set[str] = frozenset(), allow: str = ""
) -> str:
    """Every acknowledged job ran, each once; late ones have a reason. `allow`: what failures that are ours begin with."""
    assert not load.wrong, load.wrong[:5]
    assert load.acked
    cells = await Cells.read(url)
    assert not cells.wrong, cells.wrong[:5]
    lost = (load.acked | calls) - cells.ids.keys()
    assert not lost, f"{len(lost)} acknowledged jobs or calls never ran: {sorted(lost)[:5]}"
    assert cells.ids.keys() <= load.tried | calls, "something ran that nobody asked for"
    parked: list[Any] = await fetch(url, "SELECT key, name, reason, error FROM {s}.parked LIMIT 5")
    assert not parked, parked
    rows = await fetch(url, "SELECT nominal_at, fired_at, node, verdict, error, run_id FROM {s}.ledger")
    # A database that goes away in mid-turn is not the job's fault, and is not counted against it.
    bad = [row for row in rows if row["verdict"] != "run" and not (allow and (row["error"] or "").startswith(allow))]
    rows = [row for row in rows if row["verdict"] == "run"]
    assert not bad, bad[:5]
    assert len(rows) == len({row["run_id"] for row in rows}) == len(cells.ids.keys() - calls)
    assert all(row["fired_at"] >= row["nominal_at"] for row in rows), "a job was early"
    reasons: Counter[str] = Counter()
    for row in rows:
        if row["fired_at"] - row["nominal_at"] > machine.allows(LATE_MS / 1000) * 1000:
            kind = explained(row["nominal_at"], row["fired_at"], events, machine.allows(REACH_MS / 1000) * 1000)
            late_ms = row["fired_at"] - row["nominal_at"]
            assert kind, f"due {row['nominal_at']}, {late_ms} ms late; events {events}; {machine}"
            reasons[kind] += 1
    late = [row["fired_at"] - row["nominal_at"] for row in rows]
    return (
        f"{len(load.acked)} of {len(load.tried)} acknowledged, {len(rows)} ran once; late p50 {percentile(late, 0.5)} ms, "
        f"p99 {percentile(late, 0.99)} ms, max {max(late)} ms, over 5 s by {dict(reasons)}; {machine}"
    )


def now_ms() -> int:
    return int(time.time() * 1000)
