"""A timeline names what each version named while it was in force, within its bounds, forwards and backwards alike."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.policy.plan import PausedSpan, Timeline, Version, spec_of
from wakeful.specs.cron import cron
from wakeful.specs.interval import Interval
from wakeful.values.times import from_datetime, to_datetime

T0 = 1_772_409_600_000  # 2026-03-02T00:00:00Z
HOUR = 3_600_000
DAY = 24 * HOUR


def every(length_ms: int, since: int = T0, until: int | None = None, number: int = 1) -> Version:
    return Version(number, "", Interval(length_ms, since, "after").text, since, until)


def walk(timeline: Timeline, after: int, to: int) -> list[int]:
    found = []
    at = timeline.next_ms(after)
    while at is not None and at <= to:
        found.append(at)
        at = timeline.next_ms(at)
    return found


def walk_back(timeline: Timeline, before: int, down_to: int) -> list[int]:
    found = []
    at = timeline.previous_ms(before)
    while at is not None and at >= down_to:
        found.append(at)
        at = timeline.previous_ms(at)
    return found[::-1]


# versions


def test_each_version_counts_while_it_is_in_force() -> None:
    change = T0 + 150 * 60_000
    timeline = Timeline([every(HOUR, until=change), every(30 * 60_000, since=change, number=2)])
    assert walk(timeline, T0, T0 + 4 * HOUR) == [
        T0 + HOUR,
        T0 + 2 * HOUR,
        change + 30 * 60_000,
        change + 60 * 60_000,
        change + 90 * 60_000,
    ]


def test_the_instant_of_the_change_belongs_to_the_version_before() -> None:
    change = T0 + 2 * HOUR
    timeline = Timeline([every(HOUR, until=change), Version(2, "", "cron 0 * * * * in UTC", change)])
    assert walk(timeline, T0, T0 + 4 * HOUR) == [T0 + n * HOUR for n in (1, 2, 3, 4)]  # the third hour once


def test_between_two_versions_nothing_happens() -> None:
    timeline = Timeline([every(HOUR, until=T0 + HOUR), every(HOUR, since=T0 + 10 * HOUR, number=2)])
    assert walk(timeline, T0, T0 + 12 * HOUR) == [T0 + HOUR, T0 + 11 * HOUR, T0 + 12 * HOUR]
    assert timeline.previous_ms(T0 + 11 * HOUR) == T0 + HOUR


def test_a_retired_schedule_has_no_next() -> None:
    timeline = Timeline([every(HOUR, until=T0 + 90 * 60_000)])
    assert timeline.next_ms(T0 + HOUR) is None
    assert timeline.next_event(T0 + HOUR) is None
    assert timeline.previous_ms(T0 + 99 * HOUR) == T0 + HOUR


def test_a_version_that_names_nothing_is_passed_over() -> None:
    versions = [
        every(HOUR, until=T0 + 60_000),
        every(HOUR, T0 + 60_000, T0 + 120_000, 2),
        every(HOUR, T0 + 120_000, None, 3),
    ]
    timeline = Timeline(versions)
    assert timeline.next_ms(T0) == T0 + 120_000 + HOUR
    assert timeline.previous_ms(T0 + HOUR) is None


# bounds, and what the handler asked for


def test_the_start_is_inclusive_and_the_end_is_not() -> None:
    timeline = Timeline([every(HOUR)], start_at=T0 + 2 * HOUR, end_at=T0 + 4 * HOUR)
    assert walk(timeline, T0, T0 + DAY) == [T0 + 2 * HOUR, T0 + 3 * HOUR]
    assert walk_back(timeline, T0 + DAY, T0) == [T0 + 2 * HOUR, T0 + 3 * HOUR]


def test_an_extra_occurrence_is_one_more_and_never_doubles_one_that_is_there() -> None:
    extra = T0 + 90 * 60_000
    assert walk(Timeline([every(HOUR)], extra=extra), T0, T0 + 2 * HOUR) == [T0 + HOUR, extra, T0 + 2 * HOUR]
    assert walk_back(Timeline([every(HOUR)], extra=extra), T0 + 2 * HOUR + 1, T0) == [T0 + HOUR, extra, T0 + 2 * HOUR]
    assert walk(Timeline([every(HOUR)], extra=T0 + HOUR), T0, T0 + 2 * HOUR) == [T0 + HOUR, T0 + 2 * HOUR]


def test_an_extra_occurrence_counts_when_the_spec_has_no_more() -> None:
    timeline = Timeline([every(HOUR, until=T0)], extra=T0 + HOUR)
    assert walk(timeline, T0, T0 + DAY) == [T0 + HOUR]


# pauses


def test_a_pause_holds_what_lies_inside_it() -> None:
    pause, open_end = PausedSpan(T0, T0 + HOUR), PausedSpan(T0 + 2 * HOUR, None)
    timeline = Timeline([every(HOUR)], pauses=[pause, open_end])
    assert [timeline.is_paused(T0 + at) for at in (0, 1, HOUR - 1, HOUR, 2 * HOUR, 2 * HOUR + 1, 99 * DAY)] == [
        False, True, True, False, False, True, True,
    ]  # fmt: skip
    assert timeline.pause_of(T0 + 1) is pause
    assert timeline.pause_of(T0 + 9 * DAY) is open_end
    assert timeline.pause_of(T0 + HOUR) is None


# gaps: 29 March 2026, 02:00 → 03:00 in Berlin, is 01:00 UTC

JUMP = T0 + 27 * DAY + HOUR
BERLIN = "cron 30 2 * * * in Europe/Berlin gap=skip"


def test_a_time_that_the_clocks_jump_over_is_an_event_and_no_occurrence() -> None:
    assert to_datetime(JUMP).isoformat() == "2026-03-29T01:00:00+00:00"
    timeline = Timeline([Version(1, "", BERLIN, T0)])
    before = timeline.previous_ms(JUMP)
    assert before is not None
    assert timeline.next_ms(before) == JUMP + 23 * HOUR + 30 * 60_000
    assert timeline.next_event(before) == JUMP
    assert timeline.next_event(JUMP) == timeline.next_ms(before)
    assert timeline.gaps(before, JUMP) == [JUMP]
    assert timeline.gaps(JUMP, JUMP + DAY) == []
    assert timeline.gaps(T0, JUMP - 1) == []


@pytest.mark.parametrize(
    ("since", "until", "start", "end", "expected"),
    [
        (T0, None, None, None, [JUMP]),
        (JUMP - 1, JUMP, None, None, [JUMP]),
        (JUMP, None, None, None, []),
        (T0, JUMP - 1, None, None, []),
        (T0, None, JUMP, JUMP + 1, [JUMP]),
        (T0, None, JUMP + 1, None, []),
        (T0, None, None, JUMP, []),
    ],
)
def test_a_gap_counts_while_its_version_is_in_force_and_within_the_bounds(
    since: int, until: int | None, start: int | None, end: int | None, expected: list[int]
) -> None:
    timeline = Timeline([Version(1, "", BERLIN, since, until)], start_at=start, end_at=end)
    assert timeline.gaps(T0, JUMP + DAY) == expected


def test_a_gap_gets_its_verdict_in_a_pause_too() -> None:
    """`gap` and not `paused`: that time would not have come either way. It once got no verdict at all."""
    timeline = Timeline([Version(1, "", BERLIN, T0)], pauses=[PausedSpan(T0, None)])
    assert timeline.gaps(T0, JUMP + DAY) == [JUMP]
    assert timeline.next_event(JUMP - 1) == JUMP


def test_only_the_policy_skip_has_gaps() -> None:
    timeline = Timeline([Version(1, "", "cron 30 2 * * * in Europe/Berlin", T0)])
    assert timeline.gaps(T0, JUMP + DAY) == []
    assert JUMP in walk(timeline, T0, JUMP + DAY)  # shifted there


def test_the_gap_of_a_yearly_schedule_is_an_event_before_its_next_occurrence() -> None:
    text = cron("30 2 29 3 *", "Europe/Berlin", "skip").text
    timeline = Timeline([Version(1, "", text, T0)])
    assert timeline.next_event(T0) == JUMP
    following = timeline.next_event(JUMP)
    assert following is not None
    assert to_datetime(following).year == 2027


def test_a_jump_to_a_time_that_is_named_as_well_is_that_occurrence_alone() -> None:
    timeline = Timeline([Version(1, "", "cron 0 2,3 * * * in Europe/Berlin gap=skip", T0)])
    assert timeline.gaps(T0, JUMP + DAY) == []
    assert timeline.next_event(JUMP - 1) == timeline.next_ms(JUMP - 1) == JUMP


# properties against all occurrences written out

_SPECS = (
    "cron 0 * * * * in UTC",
    "cron 30 2 * * * in Europe/Berlin gap=skip",
    "cron 30 2 * * * in Europe/Berlin fold=both",
    "cron 15,45 1-3 * * * in America/New_York fold=second",
    "cron */7 0-5 * * * in Australia/Lord_Howe gap=skip",
    Interval(5 * HOUR, T0, "from").text,
    "rrule FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0 from 2026-01-01T00:00:00 in Europe/Berlin gap=skip",
    "(cron 0 9 * * * in UTC) or (every 7h from 2026-03-01T00:00:00+00:00)",
)
_SPAN = 40 * DAY


@st.composite
def _timelines(draw: Callable[..., Any]) -> tuple[Timeline, list[int], list[int]]:
    """A timeline, and all that it names in its span as the definitions have it, one version after the other."""
    steps = st.integers(0, _SPAN // 900_000).map(lambda n: T0 + n * 900_000)
    ends = sorted(draw(st.lists(steps, min_size=1, max_size=4, unique=True)))
    versions = []
    for number, since in enumerate(ends):
        later = ends[number + 1] if number + 1 < len(ends) else None
        until = later if later is None or draw(st.booleans()) else draw(st.sampled_from([since, (since + later) // 2]))
        versions.append(Version(number + 1, "", draw(st.sampled_from(_SPECS)), since, until))
    start = draw(st.none() | steps)
    end = draw(st.none() | steps)
    extra = draw(st.none() | steps)
    named, gaps = set[int](), list[int]()
    for version in versions:
        last = T0 + _SPAN if version.until is None else version.until
        spec = spec_of(version.spec)
        named |= {at for at in spec.between_ms(version.since, last + 1, 10**6) if version.since < at}
        gaps += [
            at for at in spec.gaps_ms(version.since, last + 1) if version.since < at and spec.next_ms(at - 1) != at
        ]
    bounded = [at for at in named if (start is None or start <= at) and (end is None or at < end)]
    gaps = [at for at in gaps if (start is None or start <= at) and (end is None or at < end)]
    times = sorted({*bounded, *([extra] if extra is not None else [])})
    return Timeline(versions, start_at=start, end_at=end, extra=extra), times, sorted(gaps)


@settings(max_examples=150)
@given(_timelines(), st.lists(st.integers(T0 - HOUR, T0 + _SPAN), min_size=1, max_size=8))
def test_next_and_previous_are_those_of_the_whole_list(
    drawn: tuple[Timeline, list[int], list[int]], moments: list[int]
) -> None:
    timeline, times, gaps = drawn
    assert walk(timeline, T0 - HOUR, T0 + _SPAN) == times
    assert walk_back(timeline, T0 + _SPAN + 1, T0 - HOUR) == times
    for moment in [*moments, *times[:3], *(at - 1 for at in times[:3])]:
        following = next((at for at in times if at > moment), None)
        preceding = next((at for at in reversed(times) if at < moment), None)
        if following is not None:
            assert timeline.next_ms(moment) == following
            assert timeline.previous_ms(following + 1) == following
        assert timeline.previous_ms(moment) == preceding
        if preceding is not None:
            assert timeline.next_ms(preceding - 1) == preceding
        event = min((at for at in (*times, *gaps) if at > moment), default=None)
        if event is not None:
            assert timeline.next_event(moment) == event


@settings(max_examples=60)
@given(_timelines(), st.integers(T0, T0 + _SPAN), st.integers(T0, T0 + _SPAN))
def test_gaps_are_those_of_the_whole_list(drawn: tuple[Timeline, list[int], list[int]], one: int, two: int) -> None:
    timeline, _, gaps = drawn
    after, to = min(one, two), max(one, two)
    assert sorted(timeline.gaps(after, to)) == [at for at in gaps if after < at <= to]


def test_the_span_of_the_properties_has_a_change_of_the_clocks() -> None:
    assert T0 < JUMP < T0 + _SPAN
    assert from_datetime(to_datetime(JUMP)) == JUMP
