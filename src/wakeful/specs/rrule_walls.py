"""Layer 1, pure. Which local times does a recurrence rule name, found without walking from its start?"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import replace
from datetime import MAXYEAR, date, datetime, timedelta
from math import gcd

from wakeful.specs.rrule_parts import DAILY, HOURLY, MINUTELY, MONTHLY, SECONDLY, WEEKLY, YEARLY, Parts
from wakeful.specs.spec import spend
from wakeful.specs.zones import DAY_S, Walls

# Which days of a year does a recurrence rule name?
#
# A year's days are one integer: bit 0 is 1 January. What the BY parts name depends only on the weekday that a year begins
# with and on which years around it are leap years, so a few dozen integers serve all years; INTERVAL is a second integer,
# of the periods that are its turn.

EPOCH_DAY = date(1970, 1, 1).toordinal()
CYCLE_YEARS = 400  # after which the calendar repeats: weekdays, leap years and all
LAST_DAY = date.max.toordinal() - EPOCH_DAY
YEARS_MAX = 64  # kept at once

_STARTS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_SEVENTHS = sum(1 << day for day in range(0, 378, 7))


class RuleDays:
    """The days of a rule, counted from 1 January 1970; `start` is the day of DTSTART."""

    __slots__ = ("_parts", "_shapes", "_start", "_years", "every")

    def __init__(self, parts: Parts, start: int) -> None:
        self._parts = parts
        self._start = start
        self._shapes: dict[tuple[int, bool, bool, bool], int] = {}
        self._years: dict[int, int] = {}
        self.every = not (parts.bymonth or parts.byweekno or parts.byyearday or parts.bymonthday or parts.byday) and (
            parts.freq > DAILY or (parts.freq == DAILY and parts.interval == 1)
        )
        """Whether each day is one."""

    def next(self, day: int) -> int | None:
        """The first of them at or after that day; None when 400 years have none."""
        if day > LAST_DAY:
            return None
        if self.every:
            return day
        year = year_of(day)
        first = first_day(year)
        ahead = self.of(year) >> (day - first)
        if ahead:
            return day + _lowest(ahead)
        for later in range(year + 1, min(year + CYCLE_YEARS, MAXYEAR) + 1):
            days = self.of(later)
            if days:
                return first_day(later) + _lowest(days)
        return None

    def previous(self, day: int) -> int | None:
        """The last of them at or before that day; None when 400 years have none."""
        if self.every:
            return day
        year = year_of(day)
        first = first_day(year)
        behind = self.of(year) & ((2 << (day - first)) - 1)
        if behind:
            return first + behind.bit_length() - 1
        for earlier in range(year - 1, max(year - CYCLE_YEARS, 1) - 1, -1):
            days = self.of(earlier)
            if days:
                return first_day(earlier) + days.bit_length() - 1
        return None

    def of(self, year: int) -> int:
        """The days of a year that the BY parts name in a period whose turn it is."""
        days = self._years.get(year)
        if days is None:
            days = self.mask_of_year(year)
            if days and self._parts.freq <= DAILY and self._parts.interval > 1:
                days &= self._turns(year)
            if len(self._years) >= YEARS_MAX:
                self._years.clear()
            self._years[year] = days
        return days

    def mask_of_year(self, year: int) -> int:
        """The days of a year that the BY parts name."""
        leap = is_leap(year)
        key = (weekday_of(first_day(year)), leap, is_leap(year - 1), is_leap(year + 1))
        days = self._shapes.get(key)
        if days is None:
            days = self._shapes[key] = self._shape(year, key[0], leap)
        return days

    def _shape(self, year: int, weekday: int, leap: bool) -> int:
        parts = self._parts
        size = 366 if leap else 365
        days = (1 << size) - 1
        if parts.bymonth:
            days &= _union(month_days(month, leap) for month in parts.bymonth)
        if parts.byyearday:
            days &= _union(_bit(day - 1 if day > 0 else size + day) for day in parts.byyearday)
        if parts.bymonthday:
            days &= _union(_month_day(month, day, leap) for month in range(1, 13) for day in parts.bymonthday)
        if parts.byweekno:
            days &= self._weeks(year)
        if parts.byday:
            days &= _union(self._weekdays(which, day, weekday, leap) for which, day in parts.byday)
        return days & ((1 << size) - 1)

    def _weekdays(self, which: int, day: int, weekday: int, leap: bool) -> int:
        """All Mondays of the year; or the nth of each month, or of the year, as the rule has months or not."""
        all_of_them = _SEVENTHS << (day - weekday) % 7
        if which == 0:
            return all_of_them
        whole = [(1 << (366 if leap else 365)) - 1]
        if self._parts.freq == MONTHLY or self._parts.bymonth:
            whole = [month_days(month, leap) for month in range(1, 13)]
        found = 0
        for days in whole:
            bits = bits_of(all_of_them & days)
            if len(bits) >= abs(which):
                found |= 1 << bits[which - 1 if which > 0 else which]
        return found

    def _weeks(self, year: int) -> int:
        """The days of the numbered weeks; those at the ends of a year may be numbered with its neighbour."""
        first = first_day(year)
        mask = 0
        for owner in (year - 1, year, year + 1):
            start = self._first_week(owner)
            weeks = (self._first_week(owner + 1) - start) // 7
            for number in self._parts.byweekno:
                week = number - 1 if number > 0 else weeks + number
                if 0 <= week < weeks:
                    shift = start + 7 * week - first
                    mask |= 127 << shift if shift >= 0 else 127 >> -shift
        return mask

    def _first_week(self, year: int) -> int:
        """The day on which the first week with four days or more in the year begins."""
        first = first_day(year)
        into = (weekday_of(first) - self._parts.wkst) % 7
        return first - into if into <= 3 else first + 7 - into

    def _turns(self, year: int) -> int:
        """The days of a year in the periods that INTERVAL counts."""
        interval, freq = self._parts.interval, self._parts.freq
        first = first_day(year)
        if freq == YEARLY:
            return -1 if (year - year_of(self._start)) % interval == 0 else 0
        if freq == MONTHLY:
            began = date.fromordinal(self._start + EPOCH_DAY)
            months = (year - began.year) * 12 - began.month + 1
            return _union(month_days(m, is_leap(year)) for m in range(1, 13) if (months + m - 1) % interval == 0)
        width, begin = (1, self._start) if freq == DAILY else (7, week_of(self._start, self._parts.wkst))
        step = width * interval
        shift = -((first - begin) % step)
        found = 0
        while shift < 366:
            week = (1 << width) - 1
            found |= week << shift if shift >= 0 else week >> -shift
            shift += step
        return found


def turns_in(parts: Parts, start: int, year: int) -> list[tuple[int, int]]:
    """The periods of a MONTHLY, WEEKLY or YEARLY rule that begin in the year, as (first day, length), its turns only."""
    first, leap = first_day(year), is_leap(year)
    if parts.freq == YEARLY:
        return [(first, 366 if leap else 365)] if (year - year_of(start)) % parts.interval == 0 else []
    if parts.freq == MONTHLY:
        began = date.fromordinal(start + EPOCH_DAY)
        return [
            (first + _start(month, leap), _start(month + 1, leap) - _start(month, leap))
            for month in range(1, 13)
            if ((year - began.year) * 12 + month - began.month) % parts.interval == 0
        ]
    begin = week_of(start, parts.wkst)
    step = 7 * parts.interval
    return [(week, 7) for week in range(first + (begin - first) % step, first_day(year + 1), step)]


def week_of(day: int, wkst: int) -> int:
    """The day on which the week of that day begins."""
    return day - (weekday_of(day) - wkst) % 7


def weekday_of(day: int) -> int:
    """0 for Monday; 1 January 1970 was a Thursday."""
    return (day + 3) % 7


def year_of(day: int) -> int:
    """The year of a day."""
    return date.fromordinal(day + EPOCH_DAY).year


def first_day(year: int) -> int:
    """1 January of a year, of the year 10,000 too, which `date` can't hold."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + 1 - EPOCH_DAY


def is_leap(year: int) -> bool:
    """Whether it has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_days(month: int, leap: bool) -> int:
    """The bits of a month."""
    return (1 << _start(month + 1, leap)) - (1 << _start(month, leap))


def bits_of(number: int) -> list[int]:
    """The positions of its ones, ascending."""
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found


def _start(month: int, leap: bool) -> int:
    return _STARTS[month - 1] + (leap and month > 2)


def _month_day(month: int, day: int, leap: bool) -> int:
    start, end = _start(month, leap), _start(month + 1, leap)
    at = start + day - 1 if day > 0 else end + day
    return 1 << at if start <= at < end else 0


def _bit(at: int) -> int:
    return 1 << at if at >= 0 else 0


def _lowest(number: int) -> int:
    return (number & -number).bit_length() - 1


def _union(numbers: Iterable[int]) -> int:
    found = 0
    for number in numbers:
        found |= number
    return found


_UNIT_S = {HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}
_CYCLE_DAYS = 146_097  # in 400 years
_BUCKETS_MAX = 16
STEPS_MAX = (
    10_000  # from one candidate to the next: some tens of milliseconds; what meets its BY parts so rarely never does
)


def walls_of(parts: Parts, start: int) -> Walls:
    """The local times of a rule that starts at a local second; COUNT and UNTIL are not its business."""
    parts = _complete(parts, start)
    if parts.freq > DAILY:
        return UnitWalls(parts, start)
    if parts.bysetpos and parts.freq != DAILY:
        return SetWalls(parts, start)
    return DayWalls(parts, start)


class DayWalls:
    """The same times on each of its days."""

    __slots__ = ("_days", "_start", "_times")

    def __init__(self, parts: Parts, start: int) -> None:
        self._days = RuleDays(parts, start // DAY_S)
        self._times = _times(parts, DAY_S)
        self._start = start

    def next(self, wall: int) -> int | None:
        day, second = divmod(max(wall, self._start), DAY_S)
        nearest = self._days.next(day)
        if nearest == day:
            at = bisect_left(self._times, second)
            if at < len(self._times):
                return day * DAY_S + self._times[at]
            nearest = self._days.next(day + 1)
        return None if nearest is None or not self._times else nearest * DAY_S + self._times[0]

    def previous(self, wall: int) -> int | None:
        if wall < self._start or not self._times:
            return None
        day, second = divmod(wall, DAY_S)
        nearest = self._days.previous(day)
        if nearest == day:
            at = bisect_right(self._times, second)
            if at:
                return self._from_start(day * DAY_S + self._times[at - 1])
            nearest = self._days.previous(day - 1)
        return None if nearest is None else self._from_start(nearest * DAY_S + self._times[-1])

    def _from_start(self, wall: int) -> int | None:
        return wall if wall >= self._start else None


class SetWalls:
    """BYSETPOS: the nth of the times that each year, month or week names, listed a year at a time."""

    __slots__ = ("_buckets", "_days", "_parts", "_start", "_times")

    def __init__(self, parts: Parts, start: int) -> None:
        self._parts = parts
        self._start = start
        self._days = RuleDays(replace(parts, interval=1), start // DAY_S)
        self._times = _times(replace(parts, bysetpos=()), DAY_S)
        self._buckets: dict[int, list[int]] = {}

    def next(self, wall: int) -> int | None:
        wall = max(wall, self._start)
        year = self._year(wall)
        for later in range(year, min(year + CYCLE_YEARS, MAXYEAR) + 1):
            bucket = self._bucket(later)
            at = bisect_left(bucket, wall)
            if at < len(bucket):
                return bucket[at]
        return None

    def previous(self, wall: int) -> int | None:
        if wall < self._start:
            return None
        for earlier in range(self._year(wall), self._year(self._start) - 1, -1):
            bucket = self._bucket(earlier)
            at = bisect_right(bucket, wall)
            if at:
                return bucket[at - 1] if bucket[at - 1] >= self._start else None
        return None

    def _year(self, wall: int) -> int:
        """The year in which the period of that time begins."""
        day = wall // DAY_S
        return year_of(week_of(day, self._parts.wkst) if self._parts.freq == WEEKLY else day)

    def _bucket(self, year: int) -> list[int]:
        """What the periods that begin in the year name, in order."""
        bucket = self._buckets.get(year)
        if bucket is None:
            walls: set[int] = set()
            first = first_day(year)
            named = self._days.mask_of_year(year)
            if self._parts.freq == WEEKLY:  # the last week may end in the next year
                named |= self._days.mask_of_year(year + 1) << (first_day(year + 1) - first)
            for begin, length in turns_in(self._parts, self._start // DAY_S, year):
                walls.update(self._pick(begin, (named >> (begin - first)) & ((1 << length) - 1)))
            if len(self._buckets) >= _BUCKETS_MAX:
                self._buckets.clear()
            bucket = self._buckets[year] = sorted(walls)
        return bucket

    def _pick(self, begin: int, days: int) -> list[int]:
        bits, times = bits_of(days), self._times
        return [
            (begin + bits[at // len(times)]) * DAY_S + times[at % len(times)]
            for at in _positions(self._parts.bysetpos, len(bits) * len(times))
        ]


class UnitWalls:
    """Every nth hour, minute or second: by arithmetic, through the days and times of day that the BY parts leave."""

    __slots__ = ("_allowed", "_days", "_every", "_inner", "_interval", "_per_day", "_start", "_unit", "_unit_s")

    def __init__(self, parts: Parts, start: int) -> None:
        self._unit_s = _UNIT_S[parts.freq]
        self._per_day = DAY_S // self._unit_s
        self._start = start
        self._unit = start // self._unit_s
        self._interval = parts.interval
        self._days = RuleDays(parts, start // DAY_S)
        self._inner = _times(parts, self._unit_s)
        self._every = (1 << self._per_day) - 1
        self._allowed = self._limit_units(parts)

    def next(self, wall: int) -> int | None:
        unit, rest = divmod(max(wall, self._start), self._unit_s)
        nearest = self._unit_from(unit)
        if nearest == unit:
            at = bisect_left(self._inner, rest)
            if at < len(self._inner):
                return unit * self._unit_s + self._inner[at]
            nearest = self._unit_from(unit + 1)
        return None if nearest is None or not self._inner else nearest * self._unit_s + self._inner[0]

    def previous(self, wall: int) -> int | None:
        if wall < self._start or not self._inner:
            return None
        unit, rest = divmod(wall, self._unit_s)
        nearest = self._unit_to(unit)
        if nearest == unit:
            at = bisect_right(self._inner, rest)
            if at:
                wall = unit * self._unit_s + self._inner[at - 1]
                return wall if wall >= self._start else None
            nearest = self._unit_to(unit - 1)
        if nearest is None:
            return None
        wall = nearest * self._unit_s + self._inner[-1]
        return wall if wall >= self._start else None

    def _limit_units(self, parts: Parts) -> int:
        """The units of a day that BYHOUR, BYMINUTE and BYSECOND leave, as bits; only those that INTERVAL can ever meet."""
        every = self._every
        given = (parts.byhour, parts.byminute if parts.freq > HOURLY else (), parts.bysecond * (parts.freq == SECONDLY))
        if not any(given):
            return every
        allowed = 0
        for hour in parts.byhour or range(24):
            for minute in (parts.byminute or range(60)) if parts.freq > HOURLY else (0,):
                first = (hour * 3600 + minute * 60) // self._unit_s
                if parts.freq < SECONDLY:
                    allowed |= 1 << first
                else:
                    allowed |= sum(1 << second for second in parts.bysecond or range(60)) << first
        common = gcd(self._interval, self._per_day)
        met = every // ((1 << common) - 1) << (self._unit % common)  # every `common`th bit
        return allowed & met & every

    def _unit_from(self, unit: int) -> int | None:
        per_day, allowed = self._per_day, self._allowed
        if not allowed:
            return None
        last = unit // per_day + _CYCLE_DAYS
        for step in range(STEPS_MAX):
            if step:
                spend(1)
            unit += (self._unit - unit) % self._interval
            day, at = divmod(unit, per_day)
            if day > last:
                return None
            found = self._days.next(day)
            if found is None:
                return None
            if found != day:
                unit = found * per_day
                continue
            if allowed == self._every:
                return unit
            ahead = allowed >> at
            if ahead & 1:
                return unit
            unit = unit + (ahead & -ahead).bit_length() - 1 if ahead else (day + 1) * per_day
        return None

    def _unit_to(self, unit: int) -> int | None:
        per_day, allowed = self._per_day, self._allowed
        for step in range(STEPS_MAX):
            if not allowed or unit < self._unit:
                return None
            if step:
                spend(1)
            unit -= (unit - self._unit) % self._interval
            day, at = divmod(unit, per_day)
            found = self._days.previous(day)
            if found is None:
                return None
            if found != day:
                unit = found * per_day + per_day - 1
                continue
            if allowed == self._every:
                return unit
            behind = allowed & ((2 << at) - 1)
            if behind >> at:
                return unit
            unit = day * per_day + behind.bit_length() - 1
        return None


def _complete(parts: Parts, start: int) -> Parts:
    """The rule with what it leaves open taken from its start, as RFC 5545 says."""
    began = datetime(1970, 1, 1) + timedelta(seconds=start)
    if not (parts.byyearday or parts.bymonthday or parts.byday):
        weekday = ((0, began.weekday()),)
        if parts.byweekno or parts.freq == WEEKLY:
            parts = replace(parts, byday=weekday)
        elif parts.freq == YEARLY:
            parts = replace(parts, bymonth=parts.bymonth or (began.month,), bymonthday=(began.day,))
        elif parts.freq == MONTHLY:
            parts = replace(parts, bymonthday=(began.day,))
    if parts.freq < HOURLY and not parts.byhour:
        parts = replace(parts, byhour=(began.hour,))
    if parts.freq < MINUTELY and not parts.byminute:
        parts = replace(parts, byminute=(began.minute,))
    if parts.freq < SECONDLY and not parts.bysecond:
        parts = replace(parts, bysecond=(began.second,))
    return parts


def _times(parts: Parts, within: int) -> list[int]:
    """The seconds that each day (or hour, or minute) of the rule names, after BYSETPOS when such a period is its set."""
    hours = parts.byhour if within == DAY_S else (0,)
    minutes = parts.byminute if within >= 3600 else (0,)
    seconds = parts.bysecond if within >= 60 else (0,)
    times = [hour * 3600 + minute * 60 + second for hour in hours for minute in minutes for second in seconds]
    if not parts.bysetpos:
        return times
    return sorted({times[at] for at in _positions(parts.bysetpos, len(times))})


def _positions(bysetpos: tuple[int, ...], size: int) -> list[int]:
    found = (position - 1 if position > 0 else size + position for position in bysetpos)
    return [at for at in found if 0 <= at < size]
