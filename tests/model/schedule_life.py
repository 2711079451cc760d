"""Random lives of schedules in a world, each held against the oracle that walks second by second.

python -m tests.model.schedule_life --seeds 10 --from 0          a year each
python -m tests.model.schedule_life --seeds 1 --from 7 --days 3  the short form of seed 7
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.sim.many import verdict
from tests.unit.schedule_oracle import Every, Life, Row, Rule, Rules, Wall, walk
from wakeful import App, DurableObject
from wakeful.policy import retry
from wakeful.policy.limits import Limits
from wakeful.policy.retry import RetryPolicy
from wakeful.runtime import slots
from wakeful.schedules.queries import record_of
from wakeful.store.protocol import Query
from wakeful.testing.world import World
from wakeful.values.errors import BadOption, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Run
from wakeful.values.times import from_datetime, to_datetime

SUM = 1 << 60  # ids are added up instead of kept, so that a year of effects is one small row
# Everything is kept, and who asks for a pause waits behind the longest run.
ROOMY = Limits(ledger_keep=10**9, ledger_keep_ms=10**14, call_deadline_ms=10**9)
# Starts a few days before the clocks change there; the last one is a plain week.
NIGHTS = (
    ("Europe/Berlin", "2026-03-27T12:00:00"),
    ("Europe/Berlin", "2026-10-24T01:00:00"),
    ("America/New_York", "2026-03-07T12:00:00"),
    ("America/New_York", "2026-10-31T20:00:00"),
    ("Australia/Lord_Howe", "2026-04-04T00:00:00"),
    ("Australia/Lord_Howe", "2026-10-03T00:00:00"),
    ("Africa/Casablanca", "2026-02-14T12:00:00"),
    ("Asia/Kolkata", "2026-06-01T00:00:00"),
    ("UTC", "2026-12-30T00:00:00"),
)


class Bang(Exception):
    """The handler fails, as it was told to."""


@dataclass(frozen=True)
class Case:
    """Everything that one seed decides."""

    seed: int
    start: int  # milliseconds, a whole second
    end: int
    spec: str
    rules: tuple[Rule, ...]
    options: dict[str, Any]
    policy: Rules
    outages: list[tuple[int, int]]
    asked: dict[int, tuple[int | None] | None]
    outcome: Callable[[int, int], tuple[int, bool]] = field(repr=False)


def make_case(seed: int, days: float) -> Case:
    """A spec, a policy, outages, pauses and a handler, all from one seed."""
    dice = random.Random(seed)
    zone, local = dice.choice(NIGHTS)
    start = from_datetime(datetime.fromisoformat(local).replace(tzinfo=UTC))
    end = start + round(days * 86_400) * 1000 + 750
    spec, rules, step = make_spec(dice, zone, start // 1000)
    policy = Rules(
        catch_up=dice.choice(("skip", "latest", "all", "coalesce", "backfill")),
        window=dice.choice((86_400, 86_400, 600, 7_200, 90)) * 1000,
        most=dice.choice((1, 2, 5, 100)),
        grace=dice.choice((60_000, 60_000, 5_000, 600_000)),
        overlap=dice.choice(("skip", "queue_one", "queue_all")),
        attempts=dice.choice((1, 2, 5)),
    )
    options = {
        "catch_up": policy.catch_up,
        "catch_up_window": f"{policy.window}ms",
        "max_catch_up": policy.most,
        "grace": f"{policy.grace}ms",
        "overlap": policy.overlap,
        "retry": RetryPolicy(max_attempts=policy.attempts),
    }
    outages = make_outages(dice, start, end, step)
    asked: dict[int, tuple[int | None] | None] = {}
    for _ in range(dice.choice((0, 0, 1, 4))):
        at = start + dice.randrange(1, (end - start) // 1000) * 1000 + 250
        length = dice.choice((None, step * 2, step * 10, 86_400))
        asked[at] = None if dice.random() < 0.5 else (None if length is None else at + length * 1000,)
    return Case(seed, start, end, spec, rules, options, policy, outages, asked, make_outcome(dice, seed, step))


def make_spec(dice: random.Random, zone: str, start: int) -> tuple[str, tuple[Rule, ...], int]:
    """A spec as a person would give it, the same for the oracle, and about how many seconds lie between occurrences."""
    kind = dice.choice(("minutely", "sevens", "hourly", "daily", "twice", "weekly", "interval", "rrule", "union"))
    gap, fold = dice.choice(("shift", "skip")), dice.choice(("first", "second", "both"))
    tail = f" in {zone}" + (f" gap={gap}" if gap != "shift" else "") + (f" fold={fold}" if fold != "first" else "")
    hour, minute = dice.choice((0, 1, 2, 2, 3, 9)), dice.choice((0, 15, 30, 45))
    at = hour * 3600 + minute * 60

    def fixed(*times: int, weekdays: frozenset[int] = frozenset(range(7))) -> Wall:
        return Wall(frozenset(times), zone, weekdays, True, gap, fold)

    def elapsed(*minutes: int) -> Wall:
        return Wall(frozenset(h * 3600 + m * 60 for h in range(24) for m in minutes), zone, is_fixed=False)

    if kind == "minutely":
        return f"cron * * * * * in {zone}", (elapsed(*range(60)),), 60
    if kind == "sevens":
        return f"cron */7 * * * * in {zone}", (elapsed(*range(0, 60, 7)),), 420
    if kind == "hourly":
        return f"cron {minute} * * * * in {zone}", (elapsed(minute),), 3600
    if kind == "daily":
        return f"cron {minute} {hour} * * *{tail}", (fixed(at),), 86_400
    if kind == "twice":  # all of a night's half hours, so that a gap and a fold are met in the middle
        times = [h * 3600 + m * 60 for h in (1, 2, 3) for m in (0, 30)]
        return f"cron 0,30 1-3 * * *{tail}", (fixed(*times),), 1800
    if kind == "weekly":
        return f"cron {minute} {hour} * * 0,1{tail}", (fixed(at, weekdays=frozenset((6, 0))),), 86_400
    if kind == "rrule":
        rule = f"rrule FREQ=DAILY;BYHOUR={hour};BYMINUTE={minute};BYSECOND=0 from 2026-01-01T00:00:00{tail}"
        return rule, (fixed(at),), 86_400
    length = dice.choice((7, 30, 60, 300, 5400))
    if kind == "interval":
        return f"every {length}s", (Every(length, start),), length
    first, second = f"cron {minute} {hour} * * *{tail}", f"cron */20 * * * * in {zone}"
    return f"({first}) or ({second})", (fixed(at), elapsed(0, 20, 40)), 1200


def make_outages(dice: random.Random, start: int, end: int, step: int) -> list[tuple[int, int]]:
    """Times at which the process is dead, in order and apart; from a moment to days. No run begins or ends on a 750th millisecond."""
    found = []
    at = start // 1000
    share = dice.choice((0.0, 0.1, 0.5, 0.9))
    if (end - start) // 1000 > 50_000 * step:
        share = 0.97  # a year of minutes: nobody was there for most of it, or it would take that many runs
    while True:
        length = dice.choice((1, 20, 70, step // 2, step * 3, step * 30, 7_200, 2 * 86_400))
        length = max(1, round(length * dice.uniform(0.5, 1.5)))
        rest = round(length * (1 - share) / share * dice.uniform(0.2, 2)) if share else 10**9
        at += max(dice.choice((1, 2, step, 3 * step)), rest)
        if at + length >= end // 1000:
            return found
        found.append((at * 1000 + 750, (at + length) * 1000 + 500))
        at += length


def make_outcome(dice: random.Random, seed: int, step: int) -> Callable[[int, int], tuple[int, bool]]:
    """How long each attempt takes and how it ends: the same whoever asks, and whenever."""
    longest = dice.choice((0, 0, 1, step // 3, step * 4))
    longest = min(longest, 800)  # the deadline of a run is 900 s
    failing = dice.choice((0.0, 0.0, 0.1, 0.5))

    def outcome(nominal: int, attempt: int) -> tuple[int, bool]:
        own = random.Random(f"{seed} {nominal} {attempt}")
        return own.randint(0, longest) * 1000, own.random() >= failing

    return outcome


@dataclass
class Seen:
    """What a world left behind."""

    entries: list[Entry]
    counters: Counter[str]
    effects: tuple[int, int]  # how many runs, and the sum of their ids
    pending: list[int]
    judged_to: int


async def live(case: Case) -> Seen:
    """The case in a world: the ledger, the counters and what the handler wrote."""
    app = App()

    @app.object
    class Ticker(DurableObject):
        async def tick(self, run: Run) -> None:
            length, is_well = case.outcome(from_datetime(run.nominal_at), run.attempt)
            count, total = await self.storage.get("ran", (0, 0))
            await self.storage.put("ran", (count + 1, (total + int(run.id, 16)) % SUM))
            if length:
                await asyncio.sleep(length / 1000)
            if not is_well:
                raise Bang(run.nominal_at)

    async with app.world(start=to_datetime(case.start), seed=case.seed, limits=ROOMY) as world:
        await app.schedules(Ticker, "a").add(case.spec, "tick", name="s", **case.options)
        asking: set[asyncio.Task[None]] = set()
        for at, event in events(case):
            await sleep_until(world, at)
            if event == "down":
                world.kill()
            elif event == "up":
                await world.restart()
            else:
                task = asyncio.create_task(ask(app, Ticker, event))
                asking.add(task)
                task.add_done_callback(asking.discard)
        await sleep_until(world, case.end)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        id = ObjectId("Ticker", "a")
        record = await record_of(world.store, id, "s")
        found = await world.store.find_entries(Query(cls="Ticker", key="a", name="schedule:s", limit=10**9))
        words = ("skipped", "too_late", "coalesced", "overlap", "paused", "gap")
        counters = Counter({word: getattr(record.counters, word) for word in words})
        counters += Counter(run=record.counters.runs, failed=record.counters.failures)
        return Seen(
            entries=[entry for _, entry in reversed(found)],
            counters=counters,
            effects=tuple((await world.rows(Ticker, "a")).get("ran", (0, 0))),
            pending=[due.nominal_at for due in record.pending],
            judged_to=record.judged_to,
        )


def events(case: Case) -> Iterator[tuple[int, Any]]:
    """Deaths, returns, and pauses asked for while it lives, in order."""
    found: list[tuple[int, Any]] = [(a, "down") for a, _ in case.outages] + [(b, "up") for _, b in case.outages]
    found += [(at, asked) for at, asked in case.asked.items() if not any(a <= at <= b for a, b in case.outages)]
    return iter(sorted(found, key=lambda one: one[0]))


async def sleep_until(world: World, at: int) -> None:
    await asyncio.sleep((at - from_datetime(world.now())) / 1000)
    await world.settle()


async def ask(app: App, cls: type, asked: tuple[int | None] | None) -> None:
    schedules = app.schedules(cls, "a")
    try:
        if asked is None:
            await schedules.resume("s")
        else:
            await schedules.pause("s", until=None if asked[0] is None else to_datetime(asked[0]))
    except (Unavailable, BadOption):
        pass  # it died first, or came so late that its end was past: it never was


# holding it against the oracle


def expected(case: Case, due: list[int], gaps: list[int]) -> list[Row]:
    life = Life(
        added_at=case.start,
        due=due,
        gaps=gaps,
        rules=case.policy,
        outages=case.outages,
        outcome=case.outcome,
        asked=case.asked,
    )
    return life.live(case.end)


def compare(case: Case, seen: Seen) -> Counter[str]:
    """How many of each verdict there are; AssertionError says what is not as it should be."""
    due, gaps = ([at * 1000 for at in some] for some in walk(case.rules, case.start // 1000 + 1, case.end // 1000))
    rows = expected(case, due, gaps)
    about = f"seed {case.seed}, {case.spec}, {case.policy}"
    wanted = Counter(rows)
    final: Counter[str] = Counter()
    for entry in seen.entries:
        row = Row(
            entry.nominal_at, entry.verdict, entry.attempt, entry.fired_at,
            entry.missed, entry.first_at, entry.is_backfill,
        )  # fmt: skip
        if entry.covers == 1:
            assert wanted[row], f"{about}: the ledger has {row}; near it should be {near(rows, row)}"
            wanted[row] -= 1
        else:
            shared = [
                one for one in rows
                if (one.verdict, one.fired_at) == (entry.verdict, entry.fired_at)
                and entry.first_at <= one.nominal <= entry.nominal_at
            ]  # fmt: skip
            assert len(shared) == entry.covers, f"{about}: {entry} stands for {len(shared)}"
            wanted.subtract(shared)
    missing = sorted(+wanted, key=lambda row: row.nominal)
    assert not missing, f"{about}: {len(missing)} rows are missing, first {missing[0]}"
    finals = {(row.nominal, row.verdict == "gap"): row.verdict for row in rows}
    final.update(finals.values())
    open_ones = {nominal for nominal in seen.pending if finals.get((nominal, False)) == "failed"}
    final["failed"] -= len(open_ones)  # to be tried again
    assert +seen.counters == +final, f"{about}: counters {seen.counters}, ledger {final}"
    # The sum of the verdicts is the number of the occurrences, up to where it has got.
    occurrences = sum(at <= seen.judged_to for at in (*due, *gaps)) - len(seen.pending)
    assert final.total() == occurrences, f"{about}: {final.total()} verdicts of {occurrences} occurrences"
    runs = [int(entry.run_id, 16) for entry in seen.entries if entry.verdict == "run"]
    assert len(set(runs)) == len(runs), f"{about}: an occurrence ran twice"
    assert (len(runs), sum(runs) % SUM) == seen.effects, f"{about}: runs and effects differ"
    return final


def near(rows: list[Row], row: Row) -> list[Row]:
    return [one for one in rows if one.nominal == row.nominal] or [
        min(rows, key=lambda one: abs(one.nominal - row.nominal), default=row)
    ]


@contextmanager
def plain() -> Iterator[None]:
    """Retries come to the millisecond, the node's warnings, expected by the thousand, are not printed, and its looks at
    its own load while something runs, which are nine tenths of all that happens in such a life, come once a minute."""
    logger = logging.getLogger("wakeful")
    level, jitter, look_ms = logger.level, retry.JITTER, slots.LOOK_MS
    logger.setLevel(logging.CRITICAL + 1)
    retry.JITTER, slots.LOOK_MS = 0.0, 60_000
    try:
        yield
    finally:
        retry.JITTER, slots.LOOK_MS = jitter, look_ms
        logger.setLevel(level)


def run_case(seed: int, days: float) -> Counter[str]:
    """One seed, held against the oracle."""
    return hold(make_case(seed, days))


def hold(case: Case) -> Counter[str]:
    """Live the case and hold it against the oracle."""
    with plain():
        return compare(case, asyncio.run(live(case)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--days", type=float, default=365.0, help="how long each lives")
    given = parser.parse_args()
    began, failed = time.monotonic(), []
    total: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.seeds):
        try:
            total += run_case(seed, given.days)
        except AssertionError as error:
            failed.append(f"seed {seed}")
            print(f"{error}\n  replay: make year SEEDS=1 FROM={seed}")
    print(f"{timedelta(days=given.days)} each: {dict(total)}")
    return verdict(given.seeds, given.first, failed, began)


if __name__ == "__main__":
    sys.exit(main())
