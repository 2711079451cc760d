"""A year of one-minute schedules with random outages: every occurrence has one verdict, and the sum of the verdicts is
the number of the occurrences. The short form of `make year`, which lives whole years in a world."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.model.schedule_life import hold, make_case, run_case
from tests.unit.schedule_oracle import LOST, Rules, decide, ms, walk
from wakeful.policy.plan import Policy, Version
from wakeful.schedules.records import Options, Record
from wakeful.schedules.steps import due_of, judge, settle
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

MINUTE = 60_000
T0 = ms("2026-01-01T00:00:00")
SEEDS = 32
PARTS = 4  # so that several workers can share them


@pytest.mark.parametrize("part", range(PARTS))
def test_lives_in_a_world_are_as_the_oracle_says(part: int) -> None:
    """Specs, zones, nights of changing clocks, policies, outages, slow and failing handlers, pauses; row by row."""
    seen: Counter[str] = Counter()
    for seed in range(part, SEEDS, PARTS):
        case = make_case(seed, 1)
        is_dense = "* * * * *" in case.spec or case.spec in ("every 7s", "every 30s")
        seen += run_case(seed, 0.2 if is_dense else 2)
    assert seen["run"] > 50


@pytest.mark.parametrize(
    ("seed", "days"),
    [
        (223, 1.5),  # a time in a gap, in a pause, had no verdict
        (135, 1.5),  # a jump to a time that is an occurrence as well
        (199, 0.1),  # retries that outlast the interval, which the first seeds have none of
    ],
)
def test_lives_worth_remembering(seed: int, days: float) -> None:
    run_case(seed, days)


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all"])
def test_a_backlog_that_stands_still_now_and_then(overlap: str) -> None:
    """Away for less than the grace, again and again, with runs that outlast the interval: what falls due meanwhile is late."""
    case = make_case(0, 1)  # every five minutes, catch_up="all", a window of two hours
    assert (case.spec, case.policy.catch_up, case.policy.overlap) == ("every 300s", "all", "queue_all")
    dice = random.Random(overlap)
    # Each time something falls due while it is away; once for longer than the window.
    aways = [(300 * n - dice.randint(2, 9), dice.randint(12, 55)) for n in range(3, 80, 3)] + [(26_000, 9_000)]
    outages = [(case.start + at * 1000 + 750, case.start + (at + length) * 1000 + 500) for at, length in aways]
    seen = hold(replace(
        case,
        end=case.start + 50_000_750,
        policy=replace(case.policy, overlap=overlap),
        options={**case.options, "overlap": overlap},
        outages=outages,
        outcome=lambda nominal, _: (random.Random(nominal).randint(0, 800) * 1000, True),
    ))  # fmt: skip
    assert seen["run"] > 50
    assert seen["too_late"] > 5


def test_the_lives_meet_everything() -> None:
    """Seeds that never meet a verdict or a policy would prove nothing about it."""
    cases = [make_case(seed, 3) for seed in range(SEEDS)]
    assert {case.policy.catch_up for case in cases} == {"skip", "latest", "all", "coalesce", "backfill"}
    assert {case.policy.overlap for case in cases} == {"skip", "queue_one", "queue_all"}
    assert len({case.spec.partition(" ")[0] for case in cases}) == 4
    assert sum(len(case.outages) for case in cases) > 100
    assert sum(bool(case.asked) for case in cases) > 8
    skips = [case for case in cases if "gap=skip" in case.spec]
    assert any(walk(case.rules, case.start // 1000, case.end // 1000)[1] for case in skips)


# the whole year, without a world


def outages_of(dice: random.Random, share: float, end: int) -> list[tuple[int, int]]:
    """When nobody was there, in order: from seconds to weeks, that share of the time."""
    found = []
    at = T0
    while True:
        length = round(dice.choice((20, 70, 600, 7_200, 86_400, 10 * 86_400)) * dice.uniform(0.5, 1.5))
        rest = round(length * (1 - share) / share * dice.uniform(0.5, 1.5)) + 1_200
        at += rest * 1000
        if at + length * 1000 > end:
            return found
        found.append((at + 250, at + length * 1000 + 500))
        at += length * 1000


def naive(due: list[int], outages: list[tuple[int, int]], rules: Rules, lengths: dict[int, int]) -> Counter[str]:
    """One occurrence after the other: was anybody there, and free?"""
    total: Counter[str] = Counter()
    ahead = [*outages, (1 << 60, 1 << 60)]
    owed: list[int] = []
    free_at = 0
    for at in due:
        while at > ahead[0][1]:
            runs, verdicts = decide(owed, ahead.pop(0)[1], rules, lambda _: False)
            total.update(word for _, word in verdicts)
            total["run"] += len(runs)
            owed = []
        if at > ahead[0][0]:
            owed.append(at)
        elif at <= free_at:
            total["overlap"] += 1
        else:
            total["run"] += 1
            free_at = at + lengths.get(at, 0)
    return total


def driven(
    record: Record, end: int, outages: list[tuple[int, int]], lengths: dict[int, int]
) -> tuple[Counter[str], int]:
    """The record from occurrence to occurrence, as the timer's owner drives it; and how many missed ones runs were told of."""
    total: Counter[str] = Counter()
    ahead = [*outages, (1 << 60, 1 << 60)]
    now, answered = T0, 0
    while True:
        at = record.pending[0].nominal_at if record.pending else record.timeline.next_event(record.judged_to)
        assert at is not None
        due_at = max(at, now)
        if due_at > end:
            return total, answered
        while due_at > ahead[0][1]:
            ahead.pop(0)
        now = ahead[0][1] if due_at > ahead[0][0] else due_at
        timer = Timer(ObjectId("Year", "a"), "schedule:s", due_at, at, 1)
        for left in judge(record, timer, now):
            total[left.verdict] += left.count
        if record.pending:
            due = due_of(record)
            answered += due.missed
            record.pending = record.pending[1:]
            record.counters.ran(now, now, now - due.nominal_at)
            total["run"] += 1
            now += lengths.get(due.nominal_at, 0) if now == due.nominal_at else 0
            for left in settle(record, now):
                total[left.verdict] += left.count


@pytest.mark.parametrize(
    ("catch_up", "days"), [("latest", 365), ("skip", 60), ("all", 60), ("coalesce", 60), ("backfill", 60)]
)
def test_every_minute_of_a_year_has_one_verdict(catch_up: str, days: int) -> None:
    dice = random.Random(catch_up)
    due = [T0 + n * MINUTE for n in range(1, days * 1440 + 1)]
    outages = outages_of(dice, 0.6, due[-1])
    # Long runs, but none that an outage could cut short.
    lengths = {at: dice.choice((30_000, 90_000, 200_000)) for at in dice.sample(due, len(due) // 50)}
    starts = iter([*(start for start, _ in outages), 1 << 60])
    start = next(starts)
    for at in due:
        while start <= at:
            start = next(starts)
        if at + 300_000 > start:
            lengths.pop(at, None)
    policy = Policy(catch_up=catch_up, runs_max=50)  # type: ignore[arg-type]
    record = Record(
        options=Options(handler="tick", policy=policy),
        versions=[Version(1, "", "cron * * * * * in UTC", T0)],
        judged_to=T0,
    )
    total, answered = driven(record, due[-1], outages, lengths)
    expected = naive(due, outages, Rules(catch_up, most=50), lengths)
    assert +total == +expected
    assert total.total() == days * 1440
    assert record.counters.occurrences == days * 1440
    assert record.counters.missed == sum(total[word] for word in LOST)
    assert answered + record.lost >= record.counters.missed
    assert total["overlap"] > 100
    assert min(total.values()) > 0
