"""Layer 1, pure. When does a cron expression run, in its zone, on the nights that the clocks change too?

Whose rules: Debian cron's. A job that names its time (neither minute nor hour begins with `*`) is neither lost nor
doubled when the clocks change: it runs at the first instant after a gap, and once in a fold. Any other follows elapsed
time. Days: day-of-month and day-of-week must both match when either begins with `*` or is `?`, else one is enough.
Beyond Debian: changes of three hours and more follow the same rules, local times that fall together are one occurrence,
and seconds, wrapped ranges, `L`, `W` and `#` are understood.
"""

from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from wakeful.specs.cron_parse import Field, Fields, Part, parse
from wakeful.specs.cron_words import days_in_words, in_words
from wakeful.specs.spec import Spec
from wakeful.specs.zones import DAY_S, EARLIEST_S, Fold, Gap, check_fold, check_gap, spans_of, zone_of
from wakeful.values.errors import BadSpec
from wakeful.values.times import LATEST_MS

# Which local days and times of the day does a cron expression name, and which one is next?

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


_LATEST_S = LATEST_MS // 1000
_CYCLE_S = CYCLE_DAYS * DAY_S
_RULES_S = 4_102_444_800  # 2100: by then every zone follows a yearly rule, so 400 years more show all there is

Marks = tuple[frozenset[int], frozenset[int], frozenset[int]]


def cron(text: str, zone: str | None = None, gap: Gap = "shift", fold: Fold = "first") -> "Cron":
    """A cron expression of 5 fields, or 6 with seconds first, or a macro such as `@daily`; without a zone it is UTC.

    `gap` and `fold` say what becomes of a time that the clocks jump over, or show twice, for jobs that name their time.
    A method is decorated with `@every(cron(…))`.

    >>> from datetime import UTC, datetime
    >>> from wakeful import cron
    >>> spec = cron("0 9 * * 1", "Europe/Paris")
    >>> print(spec.describe(), "/", spec.next_after(datetime(2026, 3, 28, tzinfo=UTC)))
    at 09:00 on Monday, Europe/Paris time / 2026-03-30 07:00:00+00:00
    """
    if not isinstance(text, str):
        raise BadSpec(f"cron {text!r}: give text such as '0 9 * * mon'", code="spec.cron")
    return Cron(parse(text), zone, check_gap(gap), check_fold(fold))


def cron_from_text(text: str) -> "Cron":
    """The cron whose `text` that is, such as `cron 0 9 * * 1 in Europe/Paris gap=skip fold=both`."""
    words = text.split()
    if not words or words[0] != "cron":
        raise BadSpec(f"{text!r} does not begin with 'cron'", code="spec.cron")
    del words[0]
    options: dict[str, str] = {}
    while words and "=" in words[-1]:
        name, _, value = words.pop().partition("=")
        if name not in ("gap", "fold") or name in options:
            raise BadSpec(f"{text!r}: {name}={value} is not an option of cron, or is given twice", code="spec.cron")
        options[name] = value
    zone = None
    if len(words) > 2 and words[-2] == "in":
        zone = words[-1]
        del words[-2:]
    gap, fold = check_gap(options.get("gap", "shift")), check_fold(options.get("fold", "first"))
    return cron(" ".join(words), zone, gap, fold)


class Cron(Spec):
    """A cron expression in a zone. Make it with `cron(…)`."""

    __slots__ = ("_days", "_fields", "_policy", "_spans", "_text", "_times", "fold", "gap", "zone")

    def __init__(self, fields: Fields, zone: str | None, gap: Gap, fold: Fold) -> None:
        self.zone = zone
        self.gap = gap
        self.fold = fold
        self._fields = fields
        fixed = not fields.is_elapsed
        # What changes of the clocks mean to it: run what a gap jumped over; only the first, only the second of two passes.
        self._policy = fixed and gap == "shift", fixed and fold == "first", fixed and fold == "second"
        self._spans = spans_of(zone_of("UTC" if zone is None else zone))
        self._times = times_of(fields.second, fields.minute, fields.hour)
        self._days = days_of(fields.day, fields.month, fields.weekday)
        if not self._days.possible():
            raise BadSpec(
                f"cron {fields.text!r} never happens: no year has {days_in_words(fields)}", code="spec.impossible"
            )
        self._text = " ".join(
            [
                f"cron {fields.text}",
                *([f"in {zone}"] if zone is not None else []),
                *([f"gap={gap}"] if gap != "shift" else []),
                *([f"fold={fold}"] if fold != "first" else []),
            ]
        )

    @property
    def text(self) -> str:
        return self._text

    @property
    def expression(self) -> str:
        """The bare expression, as typed but for spaces and case."""
        return self._fields.text

    def describe(self) -> str:
        return in_words(self._fields, self.zone, self.gap, self.fold)

    def bind(self, *, added_at: int, seed: str, zone: str) -> "Cron":
        return self if self.zone is not None else Cron(self._fields, zone, self.gap, self.fold)

    def __reduce__(self) -> tuple[object, ...]:
        return cron, (self.expression, self.zone, self.gap, self.fold)  # the caches of a zone don't travel

    def next_ms(self, after: int) -> int | None:
        second = after // 1000 + 1
        if second < EARLIEST_S:
            second = EARLIEST_S
        at = self._spans.at
        shift, first, last = self._policy
        limit = (second if second > _RULES_S else _RULES_S) + _CYCLE_S
        if limit > _LATEST_S:
            limit = _LATEST_S
        while second <= limit:
            start, end, offset, before, later = at(second)
            low = second + offset
            if shift and before < offset and second == start:
                low = start + before  # what the clocks jumped over comes first
            elif first and before > offset and low < start + before:
                low = start + before  # what they show again was there already
            wall = self._wall_from(low)
            if wall is None:
                return None
            if wall < (end + later if last and later < offset else end + offset):
                found = wall - offset
                if found < second:  # in the gap just before it
                    found = second
                return found * 1000 if found <= limit else None
            # Nothing more in this span. No local time from `low` up to `wall` matches, so nothing does before a day ahead
            # of `wall`, offsets being less than a day; unless the clocks soon go back and show times before `low` again.
            far = wall - DAY_S > end and (later >= offset or end - second >= 2 * DAY_S)
            second = wall - DAY_S if far else end
        return None

    def previous_ms(self, before: int) -> int | None:
        second = min((before - 1) // 1000, _LATEST_S)
        at = self._spans.at
        shift, first, last = self._policy
        while second >= EARLIEST_S:
            start, end, offset, earlier, later = at(second)
            high = second + offset
            if last and later < offset and high >= end + later:
                high = end + later - 1  # what the clocks will show again counts then
            wall = self._wall_to(high)
            if wall is None:
                return None
            if shift and earlier < offset and start + earlier <= wall < start + offset:
                return start * 1000
            if wall >= (start + earlier if first and earlier > offset else start + offset):
                return (wall - offset) * 1000
            far = wall + DAY_S < start and (earlier <= offset or second - start >= 2 * DAY_S)
            second = wall + DAY_S if far else start - 1
        return None

    def gaps_ms(self, first: int, last: int) -> list[int]:
        if self._fields.is_elapsed or self.gap == "shift":
            return []
        gaps = []
        second = max(-(-first // 1000), EARLIEST_S)
        stop = min(-(-last // 1000), _LATEST_S)
        while second < stop:
            start, end, offset, before, _ = self._spans.at(second)
            if second == start and before < offset:
                wall = self._wall_from(start + before)
                if wall is not None and wall < start + offset:
                    gaps.append(start * 1000)
            second = end
        return gaps

    @property
    def marks(self) -> Marks:
        """The seconds of a minute, the minutes of an hour and the hours of a day that it names."""
        fields = self._fields
        return frozenset(fields.second.values), frozenset(fields.minute.values), frozenset(fields.hour.values)

    def stretch_around(self, at: int, marks: Marks) -> tuple[int, int]:
        """The last instant before `at`, which it names, and the first after it, at which it may not name all of those
        seconds, minutes and hours."""
        fields, second = self._fields, at // 1000
        start, end, offset, _, _ = self._spans.at(second)
        seconds, minutes, hours = (one <= mine for one, mine in zip(marks, self.marks, strict=True))
        if not fields.is_elapsed or not seconds:
            return at - 1, at + 1
        local = second + offset
        unit = 60 if not minutes else DAY_S if hours else 3600
        low = local // unit * unit
        high = low + unit
        if unit == DAY_S:
            while high - offset < end and (self._days.every or self._days.next(high // DAY_S) == high // DAY_S):
                high += DAY_S
        return max(low - offset, start) * 1000 - 1, min(high - offset, end) * 1000

    def _wall_from(self, local: int) -> int | None:
        """The first local second at or after that one which the fields name."""
        day, time = divmod(local, DAY_S)
        days = self._days
        if not days.every:
            found = days.next(day)
            if found is None:
                return None
            if found != day:
                return found * DAY_S + self._times.first
        rest = self._times.next(time)
        if rest >= 0:
            return day * DAY_S + rest
        following = day + 1 if days.every else days.next(day + 1)
        return None if following is None else following * DAY_S + self._times.first

    def _wall_to(self, local: int) -> int | None:
        """The last local second at or before that one which the fields name."""
        day, time = divmod(local, DAY_S)
        days = self._days
        if not days.every:
            found = days.previous(day)
            if found is None:
                return None
            if found != day:
                return found * DAY_S + self._times.last
        rest = self._times.previous(time)
        if rest >= 0:
            return day * DAY_S + rest
        preceding = day - 1 if days.every else days.previous(day - 1)
        return None if preceding is None else preceding * DAY_S + self._times.last
