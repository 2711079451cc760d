"""Calendars: open hours of the week in a zone, and holidays, against every second one by one."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.specs.calendars import Calendar, Hours, business_hours, calendar_from_text, holidays
from wakeful.values.errors import BadInput
from wakeful.values.times import from_datetime, to_datetime


def ms(*parts: int, zone: str = "UTC") -> int:
    return from_datetime(datetime(*parts, tzinfo=ZoneInfo(zone)))  # type: ignore[misc, arg-type]


def test_office_hours_open_and_close() -> None:
    office = business_hours(zone="Europe/Paris")
    assert office.text == "hours mon-fri 09:00-17:00 in Europe/Paris"
    assert office.describe() == "Monday to Friday 09:00 to 17:00, Europe/Paris time"
    friday = ms(2026, 3, 27, 17, zone="Europe/Paris")
    monday = ms(2026, 3, 30, 9, zone="Europe/Paris")
    assert office.contains(friday - 1)
    assert not office.contains(friday)
    assert office.next_open(friday) == monday
    assert office.next_open(monday + 5) == monday + 5
    assert office.next_close(monday) == ms(2026, 3, 30, 17, zone="Europe/Paris")
    assert office.next_close(friday) == friday
    assert office.previous_open(monday - 1) == friday - 1
    assert office.previous_close(monday + 5) == monday - 1


def test_nights_several_groups_and_all_day() -> None:
    club = business_hours({"fri,sat": "22:00-06:00", "sun": "12:00-14:00,16-18"})
    assert club.text == "hours fri,sat 22:00-06:00; sun 12:00-14:00,16:00-18:00"
    assert club.contains(ms(2026, 3, 29, 5, 59))  # Sunday morning, from Saturday
    assert not club.contains(ms(2026, 3, 30, 5))  # not from Sunday
    always = business_hours("daily", "00:00-24:00", "UTC")
    assert (always.next_close(0), always.next_open(5)) == (None, 5)
    assert business_hours("sat-mon", "0-24").text == "hours mon,sat,sun 00:00-24:00"


def test_holidays_recur_or_do_not() -> None:
    off = holidays(date(2026, 4, 3), (12, 25), (2, 29), name="UK holidays", zone="Europe/London")
    assert off.text == 'holidays "UK holidays" 02-29 12-25 2026-04-03 in Europe/London'
    assert off.contains(ms(2026, 4, 3, 0, zone="Europe/London"))
    assert not off.contains(ms(2027, 4, 3, 12, zone="Europe/London"))
    assert off.contains(ms(2031, 12, 25, 23, zone="Europe/London"))
    assert off.next_open(ms(2027, 12, 26, 12)) == ms(2028, 2, 29)
    assert holidays((2, 29)).next_open(ms(2096, 3, 1)) == ms(2104, 2, 29)
    assert off.describe() == "UK holidays"
    assert holidays((12, 25), date(2026, 4, 3)).describe() == "25 December and 3 April 2026"
    assert holidays("2026-04-03", "12-25", "01-01", "01-02").describe() == "4 holidays"


def test_a_day_that_the_clocks_come_back_to_is_open_again() -> None:
    """In St John's, a minute after midnight of 7 November 2010 the clocks went back to 23:01 of the day before."""
    eve = holidays(date(2010, 11, 6), zone="America/St_Johns")
    midnight = ms(2010, 11, 7, 2, 30)
    assert not eve.contains(midnight)
    assert eve.next_open(midnight) == midnight + 60_000
    assert eve.next_close(midnight + 60_000) == midnight + 60_000 + 59 * 60_000
    assert eve.next_open(midnight + 3_600_000) is None
    morning = holidays(date(2010, 11, 7), zone="America/St_Johns")
    assert morning.previous_open(midnight + 120_000) == midnight + 59_999
    assert morning.previous_open(midnight - 1) is None


def test_holidays_close_the_hours() -> None:
    office = business_hours(zone="Europe/London", holidays=holidays((12, 25), (12, 28), name="bank holidays"))
    assert office.text == 'hours mon-fri 09:00-17:00 in Europe/London except (holidays "bank holidays" 12-25 12-28)'
    assert office.describe() == "Monday to Friday 09:00 to 17:00, Europe/London time, except on bank holidays"
    assert office.next_open(ms(2026, 12, 24, 17)) == ms(2026, 12, 29, 9)  # Friday 25, a weekend, Monday 28
    assert office.previous_open(ms(2026, 12, 29, 8)) == ms(2026, 12, 24, 17) - 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("funday",), "funday"),
        (("mon-tue-wed",), "range of two"),
        (("mon", "9"), "'9'"),
        (("mon", "09:00-25:00"), "25:00"),
        (("mon", "09:60-10:00"), "09:60"),
        (("mon", "09:00-09:00"), "empty"),
        (("mon", "24:00-10:00"), "24:00-10:00"),
        ((5,), "5"),
        (("mon", 5), "5"),
        (({},), "at least one"),
        (({"mon": "9-10"}, "9-10"), "not both"),
        (("mon", "9-10", "Europe/Pariss"), "Europe/Paris"),
    ],
)
def test_hours_that_are_none_say_what_is_wrong(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises(BadInput) as caught:
        business_hours(*arguments)
    assert named in str(caught.value)


@pytest.mark.parametrize("dates", [(), ((2, 30),), (datetime(2026, 1, 1),), ("christmas",), (5,), ((True, "x"),)])
def test_dates_that_are_none_are_refused(dates: tuple[Any, ...]) -> None:
    with pytest.raises(BadInput, match=r"\[spec.calendar\]"):
        holidays(*dates)


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(BadInput, match="leave out the zone"):
        business_hours(zone="Europe/Paris", holidays=holidays((1, 1), zone="Europe/London"))
    with pytest.raises(BadInput, match="name is printable"):
        holidays((1, 1), name='a "b"')
    everyday = [date(2000, 1, 1) + timedelta(days=day) for day in range(366)]
    with pytest.raises(BadInput, match=r"\[spec.impossible\]"):
        business_hours(holidays=holidays(*((day.month, day.day) for day in everyday)))


def test_a_calendar_without_a_zone_takes_that_of_the_schedule() -> None:
    office = business_hours(holidays=holidays((12, 25)))
    assert office.bind("Asia/Tokyo").text == "hours mon-fri 09:00-17:00 in Asia/Tokyo except (holidays 12-25)"
    assert office.bind("Asia/Tokyo").bind("UTC") == office.bind("Asia/Tokyo")
    assert holidays((12, 25)).bind("Asia/Tokyo").contains(ms(2026, 12, 24, 15))


ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/New_York")
clocks = st.tuples(st.integers(0, 47), st.integers(0, 48)).filter(lambda pair: pair[0] != pair[1])


def clock(half: int) -> str:
    return f"{half // 2:02}:{half % 2 * 30:02}"


@st.composite
def calendars(draw: st.DrawFn, zones: tuple[str | None, ...] = ZONES) -> Calendar:
    """Hours, with holidays or without, or holidays."""
    zone = draw(st.sampled_from(zones))
    near = st.dates(date(2011, 12, 20), date(2012, 1, 10)) | st.dates(date(2026, 3, 1), date(2026, 11, 5))
    pairs = near.map(lambda day: (day.month, day.day))
    off = draw(st.lists(near | pairs, min_size=1, max_size=5))
    name = draw(st.sampled_from(("", "bank (or not) holidays", "in the sun")))
    if draw(st.integers(0, 2)) == 0:
        return holidays(*off, name=name, zone=zone)
    groups = draw(
        st.lists(
            st.tuples(
                st.sets(st.sampled_from(("mon", "tue", "wed", "thu", "fri", "sat", "sun")), min_size=1, max_size=7),
                st.lists(clocks, min_size=1, max_size=3),
            ),
            min_size=1,
            max_size=3,
        )
    )
    text = {
        ",".join(sorted(days)): ",".join(f"{clock(one)}-{clock(two)}" for one, two in hours if (one, two) != (0, 0))
        for days, hours in groups
        if not any(two == 0 and one == 0 for one, two in hours)
    }
    return business_hours(text, zone=zone, holidays=holidays(*off, name=name) if draw(st.booleans()) else None)


def test_hours_that_leave_nothing_out_together_never_close() -> None:
    """Nothing is known before the first stretch of last week, so a night that reaches into it looked like a closing."""
    calendar = business_hours({"mon": "00:00-00:30", "mon-sun": "01:00-24:00,01:30-01:00"}, zone="UTC")
    now = from_datetime(datetime(2026, 3, 26, tzinfo=UTC))
    assert (calendar.next_close(now), calendar.previous_close(now), calendar.next_open(now)) == (None, None, now)


STARTS = (datetime(2011, 12, 27, tzinfo=UTC), datetime(2026, 3, 26, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))


@settings(max_examples=120)
@given(calendars(), st.sampled_from(STARTS), st.integers(0, 9 * 96), st.integers(-1, 1))
def test_agrees_with_every_quarter_of_an_hour(calendar: Calendar, start: datetime, quarter: int, more: int) -> None:
    first = from_datetime(start)
    when = first + quarter * 900_000 + more
    days = 12
    edges = range(first, first + days * 86_400_000, 900_000)  # all changes are on quarters of an hour
    states = [calendar.contains(at) for at in edges]

    def nearest(wanted: bool) -> int | None:
        if calendar.contains(when) == wanted:
            return when
        return next((at for at, is_open in zip(edges, states, strict=True) if at > when and is_open == wanted), None)

    def latest(wanted: bool) -> int | None:
        if calendar.contains(when) == wanted:
            return when
        found = [at for at, is_open in zip(edges, states, strict=True) if at <= when and is_open == wanted]
        return found[-1] + 899_999 if found else None

    end, begin = edges[-1], edges[0]
    for found, expected in (
        (calendar.next_open(when), nearest(True)),
        (calendar.next_close(when), nearest(False)),
    ):
        assert found == expected or (expected is None and (found is None or found > end))
    for found, expected in (
        (calendar.previous_open(when), latest(True)),
        (calendar.previous_close(when), latest(False)),
    ):
        assert found == expected or (expected is None and (found is None or found < begin))


@settings(max_examples=100)
@given(calendars(), st.datetimes(datetime(2011, 12, 27), datetime(2012, 1, 5)))
def test_contains_is_what_the_clock_on_the_wall_says(calendar: Calendar, when: datetime) -> None:
    at = from_datetime(when.replace(tzinfo=UTC))
    wall = to_datetime(at).astimezone(ZoneInfo(calendar.zone or "UTC"))

    def is_off(found: Any) -> bool:
        return wall.date() in found.days.dates or (wall.month, wall.day) in found.days.yearly

    if not isinstance(calendar, Hours):
        assert calendar.contains(at) == is_off(calendar)
        return
    second = wall.hour * 3600 + wall.minute * 60 + wall.second
    day = wall.weekday()
    is_open = False
    for group in calendar.groups:
        for start, end in group.hours:
            if end > start:
                is_open |= day in group.days and start <= second < end
            else:
                is_open |= (day in group.days and second >= start) or ((day - 1) % 7 in group.days and second < end)
    assert calendar.contains(at) == (is_open and not (calendar.holidays and is_off(calendar.holidays)))


@settings(max_examples=150)
@given(calendars((*ZONES, None)))
def test_text_comes_back_exactly(calendar: Calendar) -> None:
    again = calendar_from_text(calendar.text)
    assert again == calendar
    assert again.text == calendar.text
    assert type(again) is type(calendar)
    assert again.next_open(0) == calendar.next_open(0)
