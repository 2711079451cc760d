"""Layer 1, pure. Which local days and times of the day does a cron expression name, and which one is next?"""

from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from wakeful.specs.cron_parse import Field, Part

CYCLE_YEARS = 400
CYCLE_DAYS = 146_097  # whole weeks: after 400 years everything repeats, weekdays included
_ORDINAL_1970 = date(1970, 1, 1).toordinal()
_LENGTHS = ((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))
_WEEKS = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28


def _cycle() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each year modulo 400: its first day since the cycle's first, and its layout: leap × 7 + weekday of 1 January."""
    starts, layouts, day = [], [], 0
    for year in range(CYCLE_YEARS):
        leap = year % 4 == 0 and (year % 100 != 0 or year == 0)
        starts.append(day)
        layouts.append(leap * 7 + (day + 6) % 7)  # 1 January 2000 was a Saturday
        day += 365 + leap
    return tuple(starts), tuple(layouts)


_STARTS, _LAYOUTS = _cycle()
_DAY_0 = date(2000, 1, 1).toordinal() - _ORDINAL_1970 - 5 * CYCLE_DAYS  # 1 January of the year 0, in days since 1970


class CronDays:
    """The days of a rule, as one bit mask for each of the 14 ways in which a year can be laid out."""

    __slots__ = ("_day", "_masks", "_month", "_weekday", "every")

    def __init__(self, day: Field, month: Field, weekday: Field) -> None:
        self._day, self._month, self._weekday = day, month, weekday
        self._masks: list[int | None] = [None] * 14
        self.every = day.full and month.full and weekday.full

    def possible(self) -> bool:
        """There is such a day in some year."""
        return any(self._mask(layout) for layout in range(14))

    def next(self, day: int) -> int | None:
        """The first of the rule's days at or after that one (days since 1970); None when 400 years hold none."""
        year = date.fromordinal(day + _ORDINAL_1970).year
        era, turn = divmod(year, CYCLE_YEARS)
        start = _DAY_0 + era * CYCLE_DAYS + _STARTS[turn]
        layout = _LAYOUTS[turn]
        mask = self._masks[layout]
        if mask is None:
            mask = self._mask(layout)
        mask >>= day - start
        if mask:
            return day + (mask & -mask).bit_length() - 1
        for later in range(year + 1, year + CYCLE_YEARS + 1):
            layout = _LAYOUTS[later % CYCLE_YEARS]
            mask = self._masks[layout]
            if mask is None:
                mask = self._mask(layout)
            if mask:
                return _first_day(later) + (mask & -mask).bit_length() - 1
        return None

    def previous(self, day: int) -> int | None:
        """The last of the rule's days at or before that one; None when 400 years hold none."""
        year = date.fromordinal(day + _ORDINAL_1970).year
        era, turn = divmod(year, CYCLE_YEARS)
        start = _DAY_0 + era * CYCLE_DAYS + _STARTS[turn]
        mask = self._mask(_LAYOUTS[turn]) & ((2 << (day - start)) - 1)
        if mask:
            return start + mask.bit_length() - 1
        for earlier in range(year - 1, year - CYCLE_YEARS - 1, -1):
            mask = self._mask(_LAYOUTS[earlier % CYCLE_YEARS])
            if mask:
                return _first_day(earlier) + mask.bit_length() - 1
        return None

    def _mask(self, layout: int) -> int:
        mask = self._masks[layout]
        if mask is None:
            mask = self._masks[layout] = self._make_mask(layout)
        return mask

    def _make_mask(self, layout: int) -> int:
        leap, weekday = divmod(layout, 7)
        # Debian's rule: both fields must agree when either begins with a star, else one of them is enough.
        both = self._day.star or self._weekday.star
        months = set(self._month.values)
        mask = start = 0
        for month, length in enumerate(_LENGTHS[leap], 1):
            if month in months:
                first = (weekday + start) % 7
                days = _month_days(self._day, length, first)
                weekdays = _month_weekdays(self._weekday, length, first)
                mask |= (days & weekdays if both else days | weekdays) << start
            start += length
        return mask


def days_of(day: Field, month: Field, weekday: Field) -> CronDays:
    """The one `CronDays` of these three fields: thousands of schedules share a few."""
    is_kept = day.is_kept and month.is_kept and weekday.is_kept
    return _kept_days(day, month, weekday) if is_kept else CronDays(day, month, weekday)


_kept_days = lru_cache(maxsize=4096)(CronDays)


def _first_day(year: int) -> int:
    era, turn = divmod(year, CYCLE_YEARS)
    return _DAY_0 + era * CYCLE_DAYS + _STARTS[turn]


def _month_days(field: Field, length: int, first: int) -> int:
    """The days of a month that the day-of-month field names, as bits from bit 0 for the 1st, which is a `first`."""
    return _bits((value for value in field.values), length) | _bits(
        (_special_day(part, length, first) for part in field.special), length
    )


def _special_day(part: Part, length: int, first: int) -> int:
    """The day that L, L-n, LW or nW is in such a month; 0 when it has none."""
    if part.kind == "last":
        return max(length - part.step, 0)
    day = length if part.kind == "last_weekday" else part.low
    if day > length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == 6:  # Saturday: Friday, or Monday when that would be last month
        return day - 1 if day > 1 else day + 2
    if weekday == 0:  # Sunday: Monday, or Friday when that would be next month
        return day + 1 if day < length else day - 2
    return day


def _month_weekdays(field: Field, length: int, first: int) -> int:
    mask = 0
    for value in field.values:
        mask |= _WEEKS << (value - first) % 7
    specials = []
    for part in field.special:
        day = (part.low - first) % 7 + 1
        if part.kind == "nth":
            specials.append(day + 7 * (part.step - 1))
        else:
            specials.append(day + (length - day) // 7 * 7)
    return mask & ((1 << length) - 1) | _bits(specials, length)


def _bits(days: Iterable[int], length: int) -> int:
    mask = 0
    for day in days:
        if 1 <= day <= length:
            mask |= 1 << (day - 1)
    return mask


# Which times of the day does a cron expression name, and which one is next?


class DayTimes:
    """The times of the day of a rule, in seconds from midnight."""

    __slots__ = ("_ahead", "_back", "_first", "_last", "first", "last")

    def __init__(self, second: Field, minute: Field, hour: Field) -> None:
        self._ahead = (_ahead(hour.values, 24), _ahead(minute.values, 60), _ahead(second.values, 60))
        self._back = (_back(hour.values, 24), _back(minute.values, 60), _back(second.values, 60))
        self._first = (minute.values[0] * 60 + second.values[0], second.values[0])
        self._last = (minute.values[-1] * 60 + second.values[-1], second.values[-1])
        self.first = hour.values[0] * 3600 + self._first[0]
        self.last = hour.values[-1] * 3600 + self._last[0]

    def next(self, time: int) -> int:
        """The first of the times at or after that one; -1 when the day has no more."""
        hours, minutes, seconds = self._ahead
        hour, rest = divmod(time, 3600)
        nearest = hours[hour]
        if nearest != hour:
            return nearest * 3600 + self._first[0] if nearest >= 0 else -1
        minute, second = divmod(rest, 60)
        nearest = minutes[minute]
        if nearest == minute:
            if (ahead := seconds[second]) >= 0:
                return hour * 3600 + minute * 60 + ahead
            nearest = minutes[minute + 1]
        if nearest >= 0:
            return hour * 3600 + nearest * 60 + self._first[1]
        nearest = hours[hour + 1]
        return nearest * 3600 + self._first[0] if nearest >= 0 else -1

    def previous(self, time: int) -> int:
        """The last of the times at or before that one; -1 when the day has none."""
        hours, minutes, seconds = self._back
        hour, rest = divmod(time, 3600)
        nearest = hours[hour]
        if nearest != hour:
            return nearest * 3600 + self._last[0] if nearest >= 0 else -1
        minute, second = divmod(rest, 60)
        nearest = minutes[minute]
        if nearest == minute:
            if (back := seconds[second]) >= 0:
                return hour * 3600 + minute * 60 + back
            nearest = minutes[minute - 1]
        if nearest >= 0:
            return hour * 3600 + nearest * 60 + self._last[1]
        nearest = hours[hour - 1]
        return nearest * 3600 + self._last[0] if nearest >= 0 else -1


def times_of(second: Field, minute: Field, hour: Field) -> DayTimes:
    """The one `DayTimes` of these three fields."""
    is_kept = second.is_kept and minute.is_kept and hour.is_kept
    return _kept_times(second, minute, hour) if is_kept else DayTimes(second, minute, hour)


_kept_times = lru_cache(maxsize=4096)(DayTimes)


@lru_cache(maxsize=1024)
def _ahead(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """For 0 to `size`: the first of the values at or after it, or -1."""
    found = [-1] * (size + 1)
    for at in range(values[-1], -1, -1):
        found[at] = at if at in values else found[at + 1]
    return tuple(found)


@lru_cache(maxsize=1024)
def _back(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """For 0 up to `size`, and for -1 from the other end: the last of the values at or before it, or -1."""
    found = [-1] * (size + 1)
    for at in range(values[0], size):
        found[at] = at if at in values else found[at - 1]
    return tuple(found)
