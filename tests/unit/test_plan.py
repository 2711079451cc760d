"""`plan` and `overlapped`: each row of the tables in the design, and properties against the oracle that walks."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.schedule_oracle import LOST, Rules, decide, ms, swallow
from wakeful.policy import plan as planning
from wakeful.policy.plan import (
    JUDGED_MAX,
    RUNS_MAX,
    SINGLE_MAX,
    Due,
    Left,
    OccurrenceTimes,
    PausedSpan,
    Plan,
    Policy,
    Timeline,
    Version,
    plan,
    plan_overlap,
)
from wakeful.specs.interval import Interval

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
T0 = ms("2026-03-02T00:00:00")
Judged = list[tuple[int, str]]


class Listed:
    """Occurrences from a list, counting how often they are asked for."""

    def __init__(self, times: list[int], pauses: list[PausedSpan] | None = None, gaps: list[int] | None = None) -> None:
        self._times = sorted(times)
        self._pauses = pauses or []
        self._gaps = sorted(gaps or [])
        self.asked = 0

    def next_ms(self, after: int) -> int | None:
        self.asked += 1
        return next((at for at in self._times if at > after), None)

    def resume_ms(self, after: int) -> int | None:
        return None

    def previous_ms(self, before: int) -> int | None:
        self.asked += 1
        return next((at for at in reversed(self._times) if at < before), None)

    def gaps(self, after: int, to: int) -> list[int]:
        return [at for at in self._gaps if after < at <= to]

    def pause_of(self, at: int) -> PausedSpan | None:
        return next((pause for pause in self._pauses if pause.holds(at)), None)


class Counted:
    """A timeline that counts how often it is asked."""

    def __init__(self, inner: Timeline) -> None:
        self.inner = inner
        self.asked = 0

    def next_ms(self, after: int) -> int | None:
        self.asked += 1
        return self.inner.next_ms(after)

    def resume_ms(self, after: int) -> int | None:
        return self.inner.resume_ms(after)

    def previous_ms(self, before: int) -> int | None:
        self.asked += 1
        return self.inner.previous_ms(before)

    def gaps(self, after: int, to: int) -> list[int]:
        return self.inner.gaps(after, to)

    def pause_of(self, at: int) -> PausedSpan | None:
        return self.inner.pause_of(at)


def minutely(length_ms: int = MINUTE) -> Timeline:
    return Timeline([Version(1, "", Interval(length_ms, T0, "after").text, T0)])


def fates(found: Plan) -> dict[str, list[int]]:
    """Minutes after T0, by what becomes of them."""
    by: dict[str, list[int]] = {}
    for due in found.runs:
        by.setdefault("run", []).append((due.nominal_at - T0) // MINUTE)
    for left in found.left:
        assert left.count == 1
        by.setdefault(left.verdict, []).append((left.first_at - T0) // MINUTE)
    return by


# the tables, row by row: minutely, down from minute 0 to five minutes and a half past


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("skip", {"run": [5], "skipped": [1, 2, 3, 4]}),
        ("latest", {"run": [5], "skipped": [1, 2, 3, 4]}),
        ("all", {"run": [1, 2, 3, 4, 5]}),
        ("coalesce", {"run": [5], "coalesced": [1, 2, 3, 4]}),
        ("backfill", {"run": [1, 2, 3, 4, 5]}),
    ],
)
def test_each_policy_after_an_outage(catch_up: str, expected: dict[str, list[int]]) -> None:
    now = T0 + 5 * MINUTE + 30_000
    assert fates(plan(minutely(), T0, now, Policy(catch_up=catch_up))) == expected


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("skip", {"skipped": [60, 120]}),
        ("latest", {"run": [120], "skipped": [60]}),
        ("all", {"run": [60, 120]}),
        ("coalesce", {"run": [120], "coalesced": [60]}),
        ("backfill", {"run": [60, 120]}),
    ],
)
def test_each_policy_when_even_the_last_one_was_missed(catch_up: str, expected: dict[str, list[int]]) -> None:
    assert fates(plan(minutely(HOUR), T0, T0 + 150 * MINUTE, Policy(catch_up=catch_up))) == expected


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all", "coalesce", "backfill"])
def test_within_its_grace_it_is_merely_late_and_runs(catch_up: str) -> None:
    policy = Policy(catch_up=catch_up, grace_ms=3 * MINUTE)
    found = plan(minutely(), T0, T0 + 4 * MINUTE, policy)
    assert fates(found) == {"run": [1, 2, 3, 4]}
    assert all((due.missed, due.first_at, due.is_backfill) == (0, 0, False) for due in found.runs)


def test_the_very_end_of_the_grace_is_still_within_it() -> None:
    policy = Policy(catch_up="skip")
    assert fates(plan(minutely(HOUR), T0, T0 + HOUR + 60_000, policy)) == {"run": [60]}
    assert fates(plan(minutely(HOUR), T0, T0 + HOUR + 60_001, policy)) == {"skipped": [60]}


def test_latest_runs_every_late_one_when_none_was_missed_and_only_one_when_one_was() -> None:
    policy = Policy(catch_up="latest", grace_ms=2 * MINUTE)
    assert fates(plan(minutely(), T0, T0 + 3 * MINUTE, policy)) == {"run": [1, 2, 3]}
    assert fates(plan(minutely(), T0, T0 + 3 * MINUTE + 1, policy)) == {"run": [3], "skipped": [1, 2]}


@pytest.mark.parametrize("catch_up", ["all", "backfill"])
def test_the_limit_takes_the_most_recent_and_the_late_ones_come_on_top(catch_up: str) -> None:
    policy = Policy(catch_up=catch_up, runs_max=2)
    found = plan(minutely(), T0, T0 + 6 * MINUTE, policy)
    assert fates(found) == {"run": [3, 4, 5, 6], "skipped": [1, 2]}
    assert [due.missed for due in found.runs] == [3, 1, 0, 0]


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all", "coalesce", "backfill"])
def test_what_is_older_than_the_window_is_too_late(catch_up: str) -> None:
    policy = Policy(catch_up=catch_up, window_ms=3 * MINUTE)
    found = plan(minutely(), T0, T0 + 6 * MINUTE, policy)
    assert fates(found)["too_late"] == [1, 2]
    assert 6 in fates(found)["run"]


def test_a_window_shorter_than_the_grace_takes_nothing_that_is_merely_late() -> None:
    policy = Policy(catch_up="all", window_ms=MINUTE, grace_ms=3 * MINUTE)
    assert fates(plan(minutely(), T0, T0 + 4 * MINUTE, policy)) == {"run": [1, 2, 3, 4]}


def test_the_run_is_told_how_many_it_answers_for_and_the_first_of_them() -> None:
    now = T0 + 5 * HOUR + 30 * MINUTE
    for catch_up in ("latest", "coalesce"):
        assert plan(minutely(HOUR), T0, now, Policy(catch_up=catch_up)).runs == (Due(T0 + 5 * HOUR, 5, T0 + HOUR),)
    # The last one is merely late: it answers for the four that were missed, and not for itself.
    late = plan(minutely(HOUR), T0, T0 + 5 * HOUR + 1_000, Policy())
    assert late.runs == (Due(T0 + 5 * HOUR, 4, T0 + HOUR),)
    # Those beyond the window were missed as well.
    windowed = plan(minutely(HOUR), T0, now, Policy(window_ms=2 * HOUR))
    assert windowed.runs == (Due(T0 + 5 * HOUR, 5, T0 + HOUR),)
    assert windowed.missed == 4


def test_backfill_marks_the_missed_ones_and_not_the_late_one() -> None:
    found = plan(minutely(), T0, T0 + 3 * MINUTE + 30_000, Policy(catch_up="backfill"))
    assert [(due.missed, due.is_backfill) for due in found.runs] == [(1, True), (1, True), (0, False)]


def test_all_and_backfill_tell_each_missed_one_of_itself() -> None:
    found = plan(minutely(HOUR), T0, T0 + 3 * HOUR + 30 * MINUTE, Policy(catch_up="all"))
    assert found.runs == tuple(Due(at, 1, at) for at in (T0 + HOUR, T0 + 2 * HOUR, T0 + 3 * HOUR))


def test_nothing_due_is_an_empty_plan_up_to_now() -> None:
    assert plan(minutely(HOUR), T0, T0 + 5, Policy()) == Plan((), (), T0 + 5)


def test_a_clock_that_stepped_back_has_nothing_due() -> None:
    found = plan(minutely(), T0 + 10 * MINUTE, T0 + 2 * MINUTE, Policy(catch_up="all"))
    assert (found.runs, found.left) == ((), ())


def test_pauses_hold_what_lies_inside_and_not_their_ends() -> None:
    times = Listed([T0 + n * MINUTE for n in range(1, 7)], [PausedSpan(T0 + 2 * MINUTE, T0 + 5 * MINUTE)])
    found = plan(times, T0, T0 + 6 * MINUTE, Policy(catch_up="all"))
    assert fates(found) == {"run": [1, 2, 5, 6], "paused": [3, 4]}


def test_a_pause_is_no_miss() -> None:
    times = Listed([T0 + n * HOUR for n in range(1, 4)], [PausedSpan(T0, None)])
    found = plan(times, T0, T0 + 3 * HOUR + 30 * MINUTE, Policy())
    assert fates(found) == {"paused": [60, 120, 180]}
    assert found.missed == 0


def test_times_that_the_clocks_jump_over_get_their_own_verdict() -> None:
    times = Listed([T0 + HOUR, T0 + 3 * HOUR], gaps=[T0 + 2 * HOUR])
    assert fates(plan(times, T0, T0 + 3 * HOUR, Policy())) == {"run": [180], "gap": [120], "skipped": [60]}
    assert fates(plan_overlap(times, T0, T0 + 3 * HOUR, "skip")) == {"gap": [120], "overlap": [60, 180]}


def test_more_late_ones_than_may_be_owed_at_once_count_as_missed() -> None:
    policy = Policy(catch_up="skip", grace_ms=HOUR)
    found = plan(minutely(1_000), T0, T0 + 1_500_000, policy)
    assert len(found.runs) == RUNS_MAX
    assert found.runs[-1].nominal_at == T0 + 1_500_000
    assert found.missed == 1_500 - RUNS_MAX


# overlap


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("skip", {"overlap": [1, 2, 3]}),
        ("queue_one", {"run": [1], "overlap": [2, 3]}),
        ("queue_all", {"run": [1, 2, 3]}),
    ],
)
def test_each_overlap_policy(overlap: str, expected: dict[str, list[int]]) -> None:
    found = plan_overlap(minutely(), T0, T0 + 3 * MINUTE, overlap)
    assert fates(found) == expected
    assert found.judged_to == T0 + 3 * MINUTE
    assert all(due.missed == 0 for due in found.runs)


def test_overlap_leaves_what_was_paused_to_the_pause() -> None:
    times = Listed([T0 + n * MINUTE for n in range(1, 5)], [PausedSpan(T0 + MINUTE, T0 + 3 * MINUTE)])
    assert fates(plan_overlap(times, T0, T0 + 4 * MINUTE, "queue_one")) == {
        "run": [1],
        "paused": [2],
        "overlap": [3, 4],
    }


# many


def expand(found: Plan, all_times: list[int]) -> Judged:
    """Every verdict singly; a stretch stands for as many of the undecided times in it as it says."""
    runs = {due.nominal_at for due in found.runs}
    verdicts: Judged = [(left.first_at, left.verdict) for left in found.left if left.count == 1]
    taken = {at for at, _ in verdicts} | runs
    for left in found.left:
        if left.count > 1:
            held = [at for at in all_times if left.first_at <= at <= left.last_at and at not in taken][: left.count]
            assert len(held) == left.count
            assert held[0] == left.first_at
            verdicts += [(at, left.verdict) for at in held]
    return sorted(verdicts)


def test_the_latest_hundred_have_a_row_each_and_the_older_ones_share() -> None:
    found = plan(minutely(HOUR), T0, T0 + 500 * HOUR, Policy(catch_up="skip", window_ms=300 * HOUR))
    assert len([left for left in found.left if left.count == 1]) == SINGLE_MAX
    assert [(left.verdict, left.count) for left in found.left if left.count > 1] == [
        ("too_late", 199),
        ("skipped", 200),
    ]
    assert [left.last_at for left in found.left] == sorted(left.last_at for left in found.left)


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all", "coalesce", "backfill"])
def test_a_ten_year_outage_is_cheap(catch_up: str) -> None:
    times = Counted(minutely())
    now = T0 + 3_652 * DAY
    found = plan(times, T0, now, Policy(catch_up=catch_up))
    assert times.asked <= JUDGED_MAX + 2 * RUNS_MAX
    assert not found.is_whole
    assert sum(left.count for left in found.left) == JUDGED_MAX
    assert found.judged_to == T0 + (JUDGED_MAX + 1) * MINUTE - 1
    assert len(found.left) == SINGLE_MAX + 1


def test_a_sparse_schedule_costs_what_it_names() -> None:
    times = Counted(minutely(DAY))
    found = plan(times, T0, T0 + 3_652 * DAY, Policy(catch_up="latest", window_ms=5_000 * DAY))
    assert times.asked <= 3_652 + 4
    assert found.is_whole
    assert found.runs == (Due(T0 + 3_652 * DAY, 3_651, T0 + DAY),)


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all", "coalesce", "backfill"])
@pytest.mark.parametrize("bound", [1, 7, 50, 149, 150, 151])
def test_what_is_judged_in_parts_comes_to_the_same(catch_up: str, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    times = Listed(
        [T0 + n * MINUTE for n in range(1, 161)],
        [PausedSpan(T0 + 90 * MINUTE, T0 + 97 * MINUTE)],
        [T0 + 20 * MINUTE + 1],
    )
    policy = Policy(catch_up=catch_up, window_ms=120 * MINUTE, runs_max=9)
    now = T0 + 160 * MINUTE + 30_000
    whole = plan(times, T0, now, policy)
    monkeypatch.setattr(planning, "JUDGED_MAX", bound)
    runs: list[Due] = []
    left: list[Left] = []
    since, is_whole, parts, lost = T0, False, 0, 0
    while not is_whole:
        found = plan(times, since, now, policy)
        assert since < found.judged_to <= now
        runs += found.runs
        left += found.left
        lost += 0 if found.runs else found.missed
        since, is_whole, parts = found.judged_to, found.is_whole, parts + 1
    parted = Plan(tuple(runs), tuple(left), since)
    assert [due.nominal_at for due in runs] == [due.nominal_at for due in whole.runs]
    assert expand(parted, times._times) == expand(whole, times._times)
    assert sum(due.missed for due in runs) + lost == sum(due.missed for due in whole.runs) + (
        0 if whole.runs else whole.missed
    )
    assert parts > 1 or bound >= 151


# properties

_LENGTH = 4_000
_gaps = st.lists(st.integers(1, _LENGTH), max_size=3, unique=True)
_times = st.lists(st.integers(1, _LENGTH), max_size=300, unique=True).map(sorted)


@st.composite
def _pauses(draw: Callable[..., object]) -> list[PausedSpan]:
    ends = sorted(draw(st.lists(st.integers(0, _LENGTH), max_size=6, unique=True)))  # type: ignore[call-overload]
    pauses = [PausedSpan(a, b) for a, b in zip(ends[::2], ends[1::2], strict=False)]
    return [*pauses, PausedSpan(ends[-1], None)] if len(ends) % 2 else pauses


_policies = st.builds(
    Policy,
    catch_up=st.sampled_from(["skip", "latest", "all", "coalesce", "backfill"]),
    window_ms=st.sampled_from([0, 50, 1_000, 10_000]),
    runs_max=st.sampled_from([1, 2, 10, 100]),
    grace_ms=st.sampled_from([0, 60, 500]),
    overlap=st.sampled_from(["skip", "queue_one", "queue_all"]),
)


def rules_of(policy: Policy) -> Rules:
    return Rules(policy.catch_up, policy.window_ms, policy.runs_max, policy.grace_ms, policy.overlap)


def check_fates(found: Plan, times: Listed, since: int, to: int) -> None:
    """What holds whatever the policy: one fate each, in order, nothing from outside."""
    due = [at for at in times._times if since < at <= to]
    runs = [one.nominal_at for one in found.runs]
    assert runs == sorted(set(runs))
    gaps = Counter(times.gaps(since, to))
    judged = expand(found, sorted([*due, *gaps.elements()]))
    assert Counter(at for at, verdict in judged if verdict == "gap") == gaps
    assert Counter([*runs, *(at for at, verdict in judged if verdict != "gap")]) == Counter(due)
    assert sum(left.count for left in found.left) + len(runs) == len(due) + gaps.total()
    assert [left.last_at for left in found.left] == sorted(left.last_at for left in found.left)


@settings(max_examples=400, report_multiple_bugs=False)
@given(_times, _pauses(), _gaps, _policies, st.integers(0, _LENGTH), st.integers(0, _LENGTH + 500))
def test_plan_does_what_the_words_say(
    times: list[int], pauses: list[PausedSpan], gaps: list[int], policy: Policy, since: int, now: int
) -> None:
    listed = Listed(times, pauses, [at for at in gaps if at not in times])
    found = plan(listed, since, now, policy)
    check_fates(found, listed, since, now)
    assert (found.judged_to, found.is_whole) == (now, True)
    due = [at for at in times if since < at <= now]
    runs, verdicts = decide(due, now, rules_of(policy), lambda at: listed.pause_of(at) is not None)
    assert [(d.nominal_at, d.missed, d.first_at, d.is_backfill) for d in found.runs] == [
        (owed.nominal, owed.missed, owed.first_at, owed.is_backfill) for owed in runs
    ]
    every = sorted([*due, *listed.gaps(since, now)])
    assert [one for one in expand(found, every) if one[1] != "gap"] == verdicts
    # Every missed one is answered for exactly once, unless nothing runs that could.
    is_missed = [at for at in due if now - at > policy.grace_ms and listed.pause_of(at) is None]
    dropped_late = [at for at, verdict in verdicts if verdict in LOST and now - at <= policy.grace_ms]
    if found.runs:
        assert sum(run.missed for run in found.runs) == len(is_missed) + len(dropped_late)
    assert found.missed == sum(verdict in LOST for _, verdict in verdicts)


@settings(max_examples=200, report_multiple_bugs=False)
@given(_times, _pauses(), _gaps, _policies, st.integers(0, _LENGTH), st.integers(0, _LENGTH + 500))
def test_overlapped_does_what_the_words_say(
    times: list[int], pauses: list[PausedSpan], gaps: list[int], policy: Policy, since: int, end: int
) -> None:
    listed = Listed(times, pauses, [at for at in gaps if at not in times])
    found = plan_overlap(listed, since, end, policy.overlap)
    check_fates(found, listed, since, end)
    due = [at for at in times if since < at <= end]
    runs, verdicts = swallow(due, rules_of(policy), lambda at: listed.pause_of(at) is not None)
    assert [d.nominal_at for d in found.runs] == [owed.nominal for owed in runs]
    every = sorted([*due, *listed.gaps(since, end)])
    assert [one for one in expand(found, every) if one[1] != "gap"] == verdicts


@settings(max_examples=150, report_multiple_bugs=False)
@given(_times, _pauses(), _gaps, _policies, st.integers(1, 40), st.integers(0, _LENGTH + 500))
@example(
    [1, 2, 3], [], [], Policy(window_ms=1_000, grace_ms=500), 1, 502
)  # the cut is where the merely late ones begin
def test_any_bound_comes_to_the_same(
    times: list[int], pauses: list[PausedSpan], gaps: list[int], policy: Policy, bound: int, now: int
) -> None:
    listed = Listed(times, pauses, [at for at in gaps if at not in times])
    whole = plan(listed, 0, now, policy)
    every = sorted([*(at for at in times if 0 < at <= now), *listed.gaps(0, now)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "JUDGED_MAX", bound)
        since, parts = 0, list[Plan]()
        while not parts or not parts[-1].is_whole:
            found = plan(listed, since, now, policy, has_missed=bool(parts) and parts[-1].has_missed)
            assert found.judged_to >= since
            assert sum(left.count for left in found.left if left.verdict != "gap") <= bound
            parts.append(found)
            since = found.judged_to
            assert len(parts) <= len(times) + 2
    judged = sorted(one for part in parts for one in expand(part, every))
    assert [due.nominal_at for part in parts for due in part.runs] == [due.nominal_at for due in whole.runs]
    assert judged == expand(whole, every)


def _is_times(times: OccurrenceTimes) -> OccurrenceTimes:
    return times


def test_the_stand_ins_are_what_plan_takes() -> None:
    assert _is_times(Listed([])) is not None
    assert _is_times(Counted(minutely())) is not None
