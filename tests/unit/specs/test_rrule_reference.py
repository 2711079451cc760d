"""Recurrence rules against python-dateutil and, in zones, against every local time one by one."""

import warnings
from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from wakeful.specs.rrule import rrule, rule_from_text
from wakeful.specs.zones import instants_of
from wakeful.values.errors import BadInput
from wakeful.values.times import from_datetime, to_datetime

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dateutil.rrule
    from dateutil.rrule import rrulestr

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
SPANS = {
    "YEARLY": timedelta(days=366 * 12),
    "MONTHLY": timedelta(days=366 * 5),
    "WEEKLY": timedelta(days=366 * 3),
    "DAILY": timedelta(days=500),
    "HOURLY": timedelta(days=40),
    "MINUTELY": timedelta(days=2),
    "SECONDLY": timedelta(hours=2),
}


def listed(numbers: st.SearchStrategy[int], most: int = 4) -> st.SearchStrategy[str]:
    return st.lists(numbers, min_size=1, max_size=most, unique=True).map(lambda found: ",".join(map(str, found)))


def signed(most: int) -> st.SearchStrategy[int]:
    return st.integers(1, most).flatmap(lambda number: st.sampled_from((number, -number)))


@st.composite
def rules(draw: st.DrawFn, frequencies: tuple[str, ...] = tuple(SPANS)) -> tuple[str, datetime, str]:
    """A frequency, a start and a rule, of those whose meaning RFC 5545 and dateutil agree on."""
    freq = draw(st.sampled_from(frequencies))
    interval = draw(st.sampled_from((1, 1, 1, 2, 3, 5, 7, 12, 25, 90)))
    start = datetime(2015, 1, 1) + timedelta(seconds=draw(st.integers(0, 86400 * 4000)))
    start = start.replace(minute=draw(st.sampled_from((0, 30, start.minute))), second=draw(st.sampled_from((0, 15))))
    parts = [f"FREQ={freq}", f"INTERVAL={interval}"]
    wkst = draw(st.integers(0, 6))
    parts.append(f"WKST={DAYS[wkst]}")

    def maybe(name: str, values: st.SearchStrategy[str], odds: int = 3) -> None:
        if draw(st.integers(1, odds)) == 1:
            parts.append(f"{name}={draw(values)}")

    maybe("BYMONTH", listed(st.integers(1, 12)))
    days = st.lists(st.sampled_from(DAYS), min_size=1, max_size=5, unique=True).map(",".join)
    if freq == "YEARLY" and draw(st.integers(1, 4)) == 1:
        # dateutil miscounts the last week of the year before (1 January 2015 is in week 52 when weeks begin on Saturday,
        # it says 53), has no -52 and -53 across a year's end, and takes all seven days where RFC 5545 takes DTSTART's:
        # those are below, against a count of our own.
        parts.append(f"BYWEEKNO={draw(listed(st.integers(-51, 51).filter(bool)))}")
        parts.append(f"BYDAY={draw(days)}")
    else:
        if freq in ("YEARLY", "HOURLY", "MINUTELY", "SECONDLY"):
            maybe("BYYEARDAY", listed(signed(366), 8), 5)
        if freq != "WEEKLY":
            maybe("BYMONTHDAY", listed(signed(31), 8))
        nth = st.tuples(signed(5), st.sampled_from(DAYS)).map(lambda pair: f"{pair[0]}{pair[1]}")
        some = st.lists(nth, min_size=1, max_size=3, unique=True).map(",".join)
        maybe("BYDAY", st.one_of(days, some) if freq in ("YEARLY", "MONTHLY") else days)
    maybe("BYHOUR", listed(st.integers(0, 23)))
    maybe("BYMINUTE", listed(st.integers(0, 59)))
    maybe("BYSECOND", listed(st.integers(0, 59)))
    if any(part.startswith("BY") for part in parts):
        maybe("BYSETPOS", listed(signed(6), 2))
        if freq == "WEEKLY" and "BYSETPOS" in parts[-1]:  # dateutil picks from the rest of the first week only
            start -= timedelta(days=(start.weekday() - wkst) % 7)
    return freq, start, ";".join(parts)


def reference(start: datetime, rule: str, until: datetime, most: int | None = None) -> list[datetime]:
    """What dateutil lists up to a time, or the first of it: left alone it looks for more up to the year 9999."""
    bounded = SimpleNamespace(**{name: getattr(dateutil.rrule.datetime, name) for name in ("datetime", "date", "time")})
    bounded.timedelta, bounded.MAXYEAR = timedelta, until.year
    with mock.patch.object(dateutil.rrule, "datetime", bounded):
        try:
            return list(islice(rrulestr(f"{rule};UNTIL={until:%Y%m%dT%H%M%S}", dtstart=start), most))
        except ValueError as error:
            if "Invalid combination" not in str(error) and "invalid range" not in str(error).lower():
                raise
            return []


def ours(start: datetime, rule: str, **options: Any) -> Any:
    return rrule(f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{rule}", **options)


def made(start: datetime, rule: str) -> Any:
    """The rule, or None when it is refused as impossible."""
    try:
        return ours(start, rule)
    except BadInput as error:
        if error.code != "spec.impossible":
            raise
        return None


@settings(max_examples=200)
@given(rules(("YEARLY", "MONTHLY", "WEEKLY", "DAILY")), st.data())
def test_agrees_with_dateutil(case: tuple[str, datetime, str], data: st.DataObject) -> None:
    freq, start, text = case
    until = start + SPANS[freq]
    expected = [from_datetime(at.replace(tzinfo=UTC)) for at in reference(start, text, until)]
    first, last = (from_datetime(at.replace(tzinfo=UTC)) for at in (start, until))
    rule = made(start, text)
    if rule is None:
        assert expected == []
        return
    assert rule.between_ms(first, last + 1, 10**6) == expected
    assert rule_from_text(rule.text).text == rule.text
    check_around(rule, expected, first, last, data)


# Few rules of seconds come in a short time, so most that are made are left out.
@settings(max_examples=80, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(rules(("HOURLY", "MINUTELY", "SECONDLY")), st.data())
def test_hours_minutes_and_seconds_agree_with_dateutil(case: tuple[str, datetime, str], data: st.DataObject) -> None:
    freq, start, text = case
    first, last = (from_datetime(at.replace(tzinfo=UTC)) for at in (start, start + SPANS[freq]))
    rule = made(start, text)
    assume(rule is not None)
    found = rule.between_ms(first, last + 1, 2000)
    assume(found)  # dateutil would walk all seconds of centuries to say that there are none
    expected = reference(start, text, to_datetime(found[-1]).replace(tzinfo=None) + timedelta(days=1), len(found))
    assert found == [from_datetime(at.replace(tzinfo=UTC)) for at in expected]
    check_around(rule, found, first, found[-1], data)


def check_around(rule: Any, expected: list[int], first: int, last: int, data: st.DataObject) -> None:
    """The next and the previous one of any instant are those of the list."""
    for _ in range(4):
        at = data.draw(st.one_of(st.integers(first - 5000, last), st.sampled_from(expected or [first])))
        after = [one for one in expected if one > at]
        found = rule.next_ms(at)
        assert found == after[0] if after else found is None or found > last
        before = [one for one in expected if one < at]
        assert rule.previous_ms(at) == (before[-1] if before else None)


@settings(max_examples=60)
@given(rules(("YEARLY", "MONTHLY", "WEEKLY", "DAILY")), st.integers(1, 40))
def test_count_agrees_with_dateutil(case: tuple[str, datetime, str], count: int) -> None:
    freq, start, text = case
    expected = reference(start, text, start + SPANS[freq])[:count]
    assume(len(expected) == count)
    rule = ours(start, f"{text};COUNT={count}")
    everything = [from_datetime(at.replace(tzinfo=UTC)) for at in expected]
    assert rule.between_ms(everything[0] - 1, 10**14, 10**6) == everything
    assert rule.previous_ms(10**14) == everything[-1]


def week_of(day: date, wkst: int) -> tuple[int, int]:
    """The year that a day's week belongs to, and its number: both are those of the week's fourth day."""
    middle = day - timedelta(days=(day.weekday() - wkst) % 7) + timedelta(days=3)
    return middle.year, (middle.timetuple().tm_yday - 1) // 7 + 1


def test_the_count_of_weeks_is_that_of_iso_when_they_begin_on_monday() -> None:
    days = [date(1995, 1, 1) + timedelta(days=number) for number in range(15_000)]
    assert [week_of(day, 0) for day in days] == [day.isocalendar()[:2] for day in days]


@settings(max_examples=30)
@given(st.integers(0, 6), st.sets(st.sampled_from((1, 2, 26, 51, 52, 53, -1, -2, -26, -51, -52, -53)), min_size=1))
def test_numbered_weeks_agree_with_every_day_one_by_one(wkst: int, numbers: set[int]) -> None:
    days = [date(1999, 1, 1) + timedelta(days=number) for number in range(366 * 32)]
    owned = [week_of(day, wkst) for day in days]
    weeks = {year: max(number for owner, number in owned if owner == year) for year in range(1999, 2031)}
    expected = [
        day
        for day, (year, number) in zip(days, owned, strict=True)
        if 2000 <= day.year < 2030 and (number in numbers or number - weeks[year] - 1 in numbers)
    ]
    text = f"FREQ=YEARLY;WKST={DAYS[wkst]};BYWEEKNO={','.join(map(str, numbers))};BYDAY={','.join(DAYS)}"
    first, last = (from_datetime(datetime(year, 1, 1, tzinfo=UTC)) for year in (2000, 2030))
    found = ours(datetime(2000, 1, 1), text).between_ms(first, last, 10**6)
    assert [to_datetime(at).date() for at in found] == expected


# zone, a day before a change of its clocks
NIGHTS = [
    ("Europe/Berlin", datetime(2026, 3, 28)),
    ("Europe/Berlin", datetime(2026, 10, 24)),
    ("America/New_York", datetime(2026, 3, 7)),
    ("America/New_York", datetime(2026, 10, 31)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3)),
    ("Pacific/Apia", datetime(2011, 12, 29)),
    ("Pacific/Kwajalein", datetime(1993, 8, 19)),
    ("Africa/Casablanca", datetime(2026, 2, 14)),
    ("Africa/Casablanca", datetime(2026, 3, 21)),
    ("Europe/Dublin", datetime(2026, 10, 24)),
    ("America/Santiago", datetime(2026, 4, 3)),
    ("Asia/Beirut", datetime(2026, 3, 28)),
    ("America/St_Johns", datetime(2010, 11, 6)),
]


RULES = (
    "FREQ=DAILY;BYHOUR=0,1,2,3,4;BYMINUTE=0,15,30,45",
    "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
    "FREQ=DAILY;BYHOUR=23,0,1;BYMINUTE=59;BYSECOND=59",
    "FREQ=MINUTELY;INTERVAL=7;BYHOUR=1,2,3",
    "FREQ=DAILY;INTERVAL=2;BYHOUR=1,2;BYMINUTE=0,1,59",
    # Nothing else for a month or a year: what comes next, or came before, is far away, or is not at all.
    "FREQ=MONTHLY;BYMONTHDAY={night};BYHOUR=0,1,2,3,23;BYMINUTE=0,30",
    "FREQ=MONTHLY;BYMONTHDAY={eve};BYHOUR=23;BYMINUTE=30",
    "FREQ=YEARLY;BYMONTH={month};BYMONTHDAY={night};BYHOUR=1,2;BYMINUTE=30",
    "FREQ=HOURLY",
    "FREQ=HOURLY;INTERVAL=2;BYMINUTE=0,20",
    "FREQ=MINUTELY;INTERVAL=11",
)


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize("night", NIGHTS, ids=lambda night: f"{night[0]}-{night[1]:%Y-%m-%d}")
def test_zones_agree_with_every_local_time_one_by_one(night: tuple[str, datetime], text: str) -> None:
    """All policies, all occurrences, and every half hour around the change: what is rare must not be left to chance."""
    name, start = night
    zone, change, until = ZoneInfo(name), start + timedelta(days=1), start + timedelta(days=4)
    text = text.format(eve=start.day, night=change.day, month=change.month)
    walls = reference(start, text, until)
    first, last = (from_datetime(when.replace(tzinfo=zone)) for when in (start, until))
    gone = [wall for wall in walls if not instants_of(wall, zone, "skip", "first")]
    jumps = sorted({instants_of(wall, zone, "shift", "first")[0] for wall in gone})
    elapsed = "BYHOUR" not in text
    policies: list[tuple[Any, Any]] = [(gap, fold) for gap in ("shift", "skip") for fold in ("first", "second", "both")]
    for gap, fold in policies:
        rule = ours(start, text, zone=name, gap=gap, fold=fold)
        policy: tuple[Any, Any] = ("skip", "both") if elapsed else (gap, fold)
        expected = sorted({at for wall in walls for at in instants_of(wall, zone, *policy)})
        expected = [at for at in expected if at < last]
        assert rule.between_ms(first, last, 10**6) == expected
        assert rule.gaps_ms(first, last) == (jumps if gap == "skip" and not elapsed else [])
        for at in {*range(first, last, 1_800_000), *(at + more for at in expected for more in (-1, 0, 1))}:
            place = bisect_right(expected, at)
            found = rule.next_ms(at)
            assert found == expected[place] if place < len(expected) else found is None or found >= last
            place = bisect_left(expected, at)
            assert rule.previous_ms(at) == (expected[place - 1] if place else None)


def test_a_week_across_new_year_is_one_set() -> None:
    """Monday 29 December 2025 to Sunday 4 January 2026: its last weekday is 2 January, its first 29 December."""
    start, until = datetime(2025, 12, 1, 9), datetime(2026, 1, 10)
    for position, dates in ((-1, [5, 12, 19, 26, 2, 9]), (1, [1, 8, 15, 22, 29, 5])):
        text = f"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS={position}"
        first, last = (from_datetime(when.replace(tzinfo=UTC)) for when in (start, until))
        found = ours(start, text).between_ms(first, last, 99)
        assert [to_datetime(at).day for at in found] == dates
        assert [from_datetime(at.replace(tzinfo=UTC)) for at in reference(start, text, until)] == found


def test_a_skipped_time_is_not_counted_and_a_shifted_one_is() -> None:
    text = "DTSTART;TZID=Europe/Berlin:20260328T023000\nRRULE:FREQ=DAILY;COUNT=3"
    skipped = [to_datetime(at).day for at in rrule(text, gap="skip").between_ms(0, 10**14, 9)]
    shifted = [to_datetime(at).day for at in rrule(text).between_ms(0, 10**14, 9)]
    assert (skipped, shifted) == ([28, 30, 31], [28, 29, 30])


def test_looking_back_from_a_fold_does_not_jump_over_its_first_pass() -> None:
    """01:30 in New York on 1 November 2026 is 05:30 and 06:30 UTC; at 06:10 UTC the clocks show 01:10 again."""
    lines = "DTSTART;TZID=America/New_York:20201101T013000\nRRULE:FREQ=YEARLY"
    first = from_datetime(datetime(2026, 11, 1, 5, 30, tzinfo=UTC))
    for fold in ("first", "both"):
        assert rrule(lines, fold=fold).previous_ms(first + 40 * 60_000) == first  # type: ignore[arg-type]
