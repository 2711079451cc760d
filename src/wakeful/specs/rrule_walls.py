"""Layer 1, pure. Which local times does a recurrence rule name, found without walking from its start?"""

from bisect import bisect_left, bisect_right
from dataclasses import replace
from datetime import MAXYEAR, datetime, timedelta
from math import gcd

from wakeful.specs.rrule_days import CYCLE_YEARS, RuleDays, bits_of, first_day, turns_in, week_of, year_of
from wakeful.specs.rrule_parts import DAILY, HOURLY, MINUTELY, MONTHLY, SECONDLY, WEEKLY, YEARLY, Parts
from wakeful.specs.walls import Walls
from wakeful.specs.work import spend
from wakeful.specs.zones import DAY_S

_UNIT_S = {HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}
_CYCLE_DAYS = 146_097  # in 400 years
_BUCKETS_MAX = 16
STEPS_MAX = (
    10_000  # from one candidate to the next: some tens of milliseconds; what meets its BY parts so rarely never does
)


def walls_of(parts: Parts, start: int) -> Walls:
    """The local times of a rule that starts at a local second; COUNT and UNTIL are not its business."""
    parts = _completed(parts, start)
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
        found = self._days.next(day)
        if found == day:
            at = bisect_left(self._times, second)
            if at < len(self._times):
                return day * DAY_S + self._times[at]
            found = self._days.next(day + 1)
        return None if found is None or not self._times else found * DAY_S + self._times[0]

    def previous(self, wall: int) -> int | None:
        if wall < self._start or not self._times:
            return None
        day, second = divmod(wall, DAY_S)
        found = self._days.previous(day)
        if found == day:
            at = bisect_right(self._times, second)
            if at:
                return self._from_start(day * DAY_S + self._times[at - 1])
            found = self._days.previous(day - 1)
        return None if found is None else self._from_start(found * DAY_S + self._times[-1])

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
            found: set[int] = set()
            first = first_day(year)
            named = self._days.named(year)
            if self._parts.freq == WEEKLY:  # the last week may end in the next year
                named |= self._days.named(year + 1) << (first_day(year + 1) - first)
            for begin, length in turns_in(self._parts, self._start // DAY_S, year):
                found.update(self._picked(begin, (named >> (begin - first)) & ((1 << length) - 1)))
            if len(self._buckets) >= _BUCKETS_MAX:
                self._buckets.clear()
            bucket = self._buckets[year] = sorted(found)
        return bucket

    def _picked(self, begin: int, days: int) -> list[int]:
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
        self._allowed = self._limited(parts)

    def next(self, wall: int) -> int | None:
        unit, rest = divmod(max(wall, self._start), self._unit_s)
        found = self._unit_from(unit)
        if found == unit:
            at = bisect_left(self._inner, rest)
            if at < len(self._inner):
                return unit * self._unit_s + self._inner[at]
            found = self._unit_from(unit + 1)
        return None if found is None or not self._inner else found * self._unit_s + self._inner[0]

    def previous(self, wall: int) -> int | None:
        if wall < self._start or not self._inner:
            return None
        unit, rest = divmod(wall, self._unit_s)
        found = self._unit_to(unit)
        if found == unit:
            at = bisect_right(self._inner, rest)
            if at:
                wall = unit * self._unit_s + self._inner[at - 1]
                return wall if wall >= self._start else None
            found = self._unit_to(unit - 1)
        if found is None:
            return None
        wall = found * self._unit_s + self._inner[-1]
        return wall if wall >= self._start else None

    def _limited(self, parts: Parts) -> int:
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


def _completed(parts: Parts, start: int) -> Parts:
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
