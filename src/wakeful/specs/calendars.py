"""Layer 1, pure. When is it open: which hours of the week, and which days are holidays?

A calendar is a set of stretches of time, whole seconds on the clocks of its zone. What the clocks jump over never is,
and what they show twice is open both times: hours follow the clock on the wall.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime

from wakeful.specs.words import MONTHS, WEEKDAYS, join_words
from wakeful.specs.zones import DAY_S, Spans, Walls, next_instant, previous_instant, spans_of, zone_of
from wakeful.values.errors import BadSpec

# Which days are in a set of dates, some of which recur each year?

DATES_MAX = 10_000  # they travel in the spec's text
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST, _LAST = date(1, 1, 1).toordinal() - _EPOCH_DAY, date(9999, 12, 31).toordinal() - _EPOCH_DAY
_YEARS = 9  # a 29 February can be 8 years away, across a year such as 1900


class DaySet:
    """Days counted from 1 January 1970: some dates, and some (month, day) pairs of every year."""

    __slots__ = ("_dates", "_sorted", "_yearly", "dates", "yearly")

    def __init__(self, dates: frozenset[date], yearly: frozenset[tuple[int, int]]) -> None:
        if not dates and not yearly:
            raise BadSpec("holidays: give at least one date", code="spec.calendar")
        if len(dates) + len(yearly) > DATES_MAX:
            raise BadSpec(f"holidays: {len(dates) + len(yearly)} dates; the most is {DATES_MAX}", code="spec.calendar")
        self.dates = sorted(dates)
        self.yearly = sorted(yearly)
        self._sorted = [one.toordinal() - _EPOCH_DAY for one in self.dates]
        self._dates = frozenset(self._sorted)
        self._yearly = yearly

    def has(self, day: int) -> bool:
        """Whether the day is in the set."""
        if day in self._dates:
            return True
        if not self._yearly or not _FIRST <= day <= _LAST:
            return False
        when = date.fromordinal(day + _EPOCH_DAY)
        return (when.month, when.day) in self._yearly

    def next(self, day: int, inside: bool) -> int | None:
        """The first day after that one which is in the set, or out of it."""
        return self._next_inside(day) if inside else self._outside(day, 1)

    def previous(self, day: int, inside: bool) -> int | None:
        """The last day before that one which is in the set, or out of it."""
        return self._previous_inside(day) if inside else self._outside(day, -1)

    def words(self) -> list[str]:
        """The dates as text: 12-25 each year, 2026-04-03 once."""
        return [f"{month:02}-{day:02}" for month, day in self.yearly] + [one.isoformat() for one in self.dates]

    def describe(self) -> str:
        """The dates in words, or how many they are."""
        if len(self.dates) + len(self.yearly) > 3:
            return f"{len(self.dates) + len(self.yearly)} holidays"
        said = [f"{day} {MONTHS[month - 1]}" for month, day in self.yearly]
        return join_words(said + [f"{one.day} {MONTHS[one.month - 1]} {one.year}" for one in self.dates])

    def _outside(self, day: int, step: int) -> int | None:
        # The longest run of days is a year of recurring ones and as many again as there are dates.
        for count in range(1, 367 + len(self._sorted) + 1):
            if not self.has(day + step * count):
                found = day + step * count
                return found if _FIRST <= found <= _LAST else None
        return None

    def _next_inside(self, day: int) -> int | None:
        at = bisect_left(self._sorted, day + 1)
        candidates = self._sorted[at : at + 1]
        year = date.fromordinal(min(max(day, _FIRST), _LAST) + _EPOCH_DAY).year
        for later in range(year, min(year + _YEARS, MAXYEAR + 1)):
            days = [one for one in self._in_year(later) if one > day]
            if days:
                candidates.append(min(days))
                break
        return min(candidates, default=None)

    def _previous_inside(self, day: int) -> int | None:
        at = bisect_left(self._sorted, day)
        candidates = self._sorted[max(at - 1, 0) : at]
        year = date.fromordinal(min(max(day, _FIRST), _LAST) + _EPOCH_DAY).year
        for earlier in range(year, max(year - _YEARS, 0), -1):
            days = [one for one in self._in_year(earlier) if one < day]
            if days:
                candidates.append(max(days))
                break
        return max(candidates, default=None)

    def _in_year(self, year: int) -> list[int]:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return [date(year, *one).toordinal() - _EPOCH_DAY for one in self.yearly if leap or one != (2, 29)]


def day_set_of(given: Sequence[object]) -> DaySet:
    """The set of dates, (month, day) pairs and their texts."""
    dates: set[date] = set()
    yearly: set[tuple[int, int]] = set()
    for item in given:
        day = _read(item) if isinstance(item, str) else item
        if isinstance(day, date) and not isinstance(day, datetime):
            dates.add(day)
        elif isinstance(day, tuple) and len(day) == 2:
            yearly.add(_pair(*day))
        else:
            raise BadSpec(f"holiday {item!r}: give a date, or (month, day) for every year", code="spec.calendar")
    return DaySet(frozenset(dates), frozenset(yearly))


def days_from_text(text: str) -> DaySet:
    """The set whose `words` those are."""
    return day_set_of(text.split())


def _read(text: str) -> date | tuple[int, int]:
    parts = text.split("-")
    try:
        if len(parts) == 2:
            return int(parts[0]), int(parts[1])
        return date.fromisoformat(text)
    except ValueError:
        raise BadSpec(f"holiday {text!r}: write 2026-04-03, or 12-25 for every year", code="spec.calendar") from None


def _pair(month: object, day: object) -> tuple[int, int]:
    if isinstance(month, int) and isinstance(day, int):
        try:
            date(2000, month, day)  # a leap year, so that 29 February is one
        except ValueError:
            pass
        else:
            return month, day
    raise BadSpec(f"holiday ({month!r}, {day!r}) is no (month, day) of any year", code="spec.calendar")


# Which seconds of a week are open?

WEEK_S = 7 * DAY_S
_THURSDAY_S = 3 * DAY_S  # 1 January 1970 was one, and weeks begin on Monday
_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WORDS = {"weekdays": "mon-fri", "weekday": "mon-fri", "weekends": "sat,sun", "weekend": "sat,sun", "daily": "mon-sun"}
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d)(?::(\d\d))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Group:
    """Some days of the week with the hours that begin on them."""

    days: tuple[int, ...]
    hours: tuple[tuple[int, int], ...]
    """Seconds of the day; an end before its beginning is on the next day."""

    @property
    def text(self) -> str:
        days = ",".join("-".join(_NAMES[day] for day in run) for run in _runs(self.days))
        return f"{days} {','.join(f'{_clock(start)}-{_clock(end)}' for start, end in self.hours)}"

    def describe(self) -> str:
        """The group in words: Monday to Friday 09:00 to 17:00."""
        days = join_words([" to ".join(WEEKDAYS[day] for day in run) for run in _runs(self.days)])
        days = "every day" if len(self.days) == 7 else days
        if self.hours == ((0, DAY_S),):
            return f"{days} all day"
        return f"{days} {join_words([f'{_clock(start)} to {_clock(end)}' for start, end in self.hours])}"


def groups_of(pairs: Sequence[tuple[str, str]]) -> tuple[Group, ...]:
    """Groups of texts of days and hours."""
    if not pairs:
        raise BadSpec("business hours: give at least one group of days", code="spec.calendar")
    return tuple(Group(_days(days), _hours(hours)) for days, hours in pairs)


class Week:
    """The open stretches of a week, which recur; local seconds in, local seconds out."""

    __slots__ = ("_ends", "_starts", "is_always")

    def __init__(self, groups: tuple[Group, ...]) -> None:
        stretches = []
        for group in groups:
            for day in group.days:
                for start, end in group.hours:
                    begin = day * DAY_S + start
                    length = end - start if end > start else end + DAY_S - start
                    # Last week's and next week's too, so that a stretch over Sunday night needs no care.
                    stretches += [(begin + week, begin + length + week) for week in (-WEEK_S, 0, WEEK_S)]
        self._starts: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted(stretches):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(begin)
                self._ends.append(end)
        self.is_always = any(begin <= 0 and end >= WEEK_S for begin, end in zip(self._starts, self._ends, strict=True))

    def is_open(self, wall: int) -> bool:
        """Whether it is open at that second."""
        at = (wall + _THURSDAY_S) % WEEK_S
        return self.is_always or self._starts[bisect_right(self._ends, at)] <= at

    def opening(self, wall: int) -> int:
        """The first open second at or after that one."""
        at = (wall + _THURSDAY_S) % WEEK_S
        return wall if self.is_always else wall - at + max(self._starts[bisect_right(self._ends, at)], at)

    def closing(self, wall: int) -> int | None:
        """The first closed second after an open one."""
        at = (wall + _THURSDAY_S) % WEEK_S
        return None if self.is_always else wall - at + self._ends[bisect_right(self._ends, at)]

    def open_before(self, wall: int) -> int:
        """The last open second at or before that one."""
        at = (wall + _THURSDAY_S) % WEEK_S
        return wall if self.is_always else wall - at + min(self._ends[bisect_right(self._starts, at) - 1] - 1, at)

    def closed_before(self, wall: int) -> int | None:
        """The last closed second before an open one."""
        at = (wall + _THURSDAY_S) % WEEK_S
        return None if self.is_always else wall - at + self._starts[bisect_right(self._starts, at) - 1] - 1


def _days(text: str) -> tuple[int, ...]:
    if not isinstance(text, str):
        raise BadSpec(f"days {text!r}: write them like 'mon-fri' or 'sat,sun'", code="spec.calendar")
    plain = text.strip().lower()
    numbers: set[int] = set()
    for piece in _WORDS.get(plain, plain).split(","):
        ends = [_day(name.strip(), text) for name in piece.split("-")]
        if len(ends) > 2:
            raise BadSpec(f"days {text!r}: {piece.strip()!r} is no range of two days", code="spec.calendar")
        numbers.update((ends[0] + more) % 7 for more in range((ends[-1] - ends[0]) % 7 + 1))
    return tuple(sorted(numbers))


def _day(name: str, text: str) -> int:
    for number, full in enumerate(WEEKDAYS):
        if len(name) >= 3 and full.lower().startswith(name):
            return number
    raise BadSpec(f"days {text!r}: {name!r} is no day; write them like 'mon-fri' or 'sat,sun'", code="spec.calendar")


def _hours(text: str) -> tuple[tuple[int, int], ...]:
    if not isinstance(text, str):
        raise BadSpec(f"hours {text!r}: write them like '09:00-12:00,13:00-17:00'", code="spec.calendar")
    ranges = set()
    for piece in text.split(","):
        start, dash, end = piece.strip().partition("-")
        begin, finish = _second(start, text), _second(end, text) if dash else 0
        if not dash or begin == DAY_S:
            raise BadSpec(f"hours {text!r}: {piece.strip()!r} is no range such as 09:00-17:00", code="spec.calendar")
        if begin == finish:
            raise BadSpec(
                f"hours {text!r}: {piece.strip()!r} is empty; a whole day is 00:00-24:00", code="spec.calendar"
            )
        ranges.add((begin, finish or DAY_S))
    return tuple(sorted(ranges))


def _second(text: str, whole: str) -> int:
    match = _CLOCK.fullmatch(text.strip())
    hour, minute, second = (int(part or 0) for part in match.groups()) if match else (99, 0, 0)
    found = hour * 3600 + minute * 60 + second
    if minute > 59 or second > 59 or found > DAY_S:
        raise BadSpec(f"hours {whole!r}: {text.strip()!r} is no time from 00:00 to 24:00", code="spec.calendar")
    return found


def _clock(second: int) -> str:
    text = f"{second // 3600:02}:{second // 60 % 60:02}"
    return f"{text}:{second % 60:02}" if second % 60 else text


def _runs(days: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Days as (first, last) of each run of three or more, and alone else."""
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    found: list[tuple[int, ...]] = []
    for run in runs:
        found += [(run[0], run[-1])] if len(run) > 2 else [(day,) for day in run]
    return found


# When is a calendar open, on the clocks of its zone?

_CYCLE_S = 146_097 * DAY_S  # 400 years: what has no opening in them has none


def business_hours(
    days: str | Mapping[str, str] = "mon-fri",
    hours: str | None = None,
    zone: str | None = None,
    *,
    holidays: "Holidays | None" = None,
) -> "Hours":
    """Hours of the week: days such as `mon-fri` or `sat,sun`, hours such as `09:00-12:00,13:00-17:00` (the default is
    09:00-17:00), or several groups as a mapping of days to hours. `22:00-06:00` ends the next day. Without a zone it is
    the schedule's. Holidays are closed all day long, the end of a night that began the day before included.

    >>> from wakeful import business_hours, cron, within
    >>> within(cron("*/30 * * * *"), business_hours("mon-fri", "08:00-18:00", "Europe/Paris")).describe()
    'every 30 minutes, within Monday to Friday 08:00 to 18:00, Europe/Paris time'
    """
    if isinstance(days, Mapping):
        if hours is not None:
            raise BadSpec("business hours: give the hours in the mapping or as hours=, not both", code="spec.calendar")
        groups = groups_of(list(days.items()))
    else:
        groups = groups_of([(days, "09:00-17:00" if hours is None else hours)])
    if holidays is not None and not isinstance(holidays, Holidays):
        raise BadSpec(f"holidays={holidays!r}: make them with holidays(…)", code="spec.calendar")
    return Hours(groups, zone, holidays)


def holidays(*dates: date | tuple[int, int] | str, name: str = "", zone: str | None = None) -> "Holidays":
    """Whole days: one-off dates, and (month, day) pairs that recur each year; as text 2026-04-03 and 12-25.

    >>> from wakeful import every, except_for, holidays
    >>> closed = holidays("2026-04-03", "12-25", (1, 1), name="closed")
    >>> except_for(every.weekday.at("09:00"), closed).describe()
    'at 09:00 from Monday to Friday, except on closed'
    """
    return Holidays(day_set_of(dates), name, zone)


class Calendar(ABC):
    """A set of stretches of time in a zone; two with the same `text` are the same."""

    __slots__ = ("_closed", "_open", "_spans", "zone")

    def __init__(self, zone: str | None) -> None:
        self.zone = zone
        self._spans: Spans = spans_of(zone_of("UTC" if zone is None else zone))
        self._open: Walls = Side(self, True)
        self._closed: Walls = Side(self, False)

    @property
    @abstractmethod
    def text(self) -> str:
        """What a person would type for it, zone included."""

    @abstractmethod
    def describe(self) -> str:
        """The calendar in plain English."""

    @abstractmethod
    def bind(self, zone: str) -> "Calendar":
        """The calendar with its zone, or with that one when it has none."""

    @abstractmethod
    def is_open(self, wall: int) -> bool:
        """Whether it is open at a local second."""

    @abstractmethod
    def change(self, wall: int) -> int | None:
        """The first local second after that one with the other state, open or closed; None when it never changes."""

    @abstractmethod
    def last_change(self, wall: int) -> int | None:
        """The last local second before that one with the other state."""

    def contains(self, ms: int) -> bool:
        """Whether it is open at that instant."""
        second = ms // 1000
        return self.is_open(second + self._spans.at(second)[2])

    def next_open(self, ms: int) -> int | None:
        """The first instant at or after that one at which it is open."""
        return self._next(ms, self._open, True)

    def next_close(self, ms: int) -> int | None:
        """The first instant at or after that one at which it is closed."""
        return self._next(ms, self._closed, False)

    def previous_open(self, ms: int) -> int | None:
        """The last millisecond at or before that one at which it is open."""
        return self._previous(ms, self._open, True)

    def previous_close(self, ms: int) -> int | None:
        """The last millisecond at or before that one at which it is closed."""
        return self._previous(ms, self._closed, False)

    def _next(self, ms: int, side: Walls, is_open: bool) -> int | None:
        if self.contains(ms) == is_open:
            return ms
        found = next_instant(side, self._spans, ms // 1000, "skip", "both")
        return None if found is None else found * 1000

    def _previous(self, ms: int, side: Walls, is_open: bool) -> int | None:
        if self.contains(ms) == is_open:
            return ms
        found = previous_instant(side, self._spans, ms // 1000, "skip", "both")
        return None if found is None else found * 1000 + 999

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calendar) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class Side:
    """The open or the closed seconds of a calendar, on the wall."""

    __slots__ = ("_calendar", "_is_open")

    def __init__(self, calendar: Calendar, is_open: bool) -> None:
        self._calendar = calendar
        self._is_open = is_open

    def next(self, wall: int) -> int | None:
        return wall if self._calendar.is_open(wall) == self._is_open else self._calendar.change(wall)

    def previous(self, wall: int) -> int | None:
        return wall if self._calendar.is_open(wall) == self._is_open else self._calendar.last_change(wall)


class Holidays(Calendar):
    """Whole days. Make it with `holidays(…)`."""

    __slots__ = ("days", "name")

    def __init__(self, days: DaySet, name: str, zone: str | None) -> None:
        if not isinstance(name, str) or len(name) > 100 or not name.isprintable() or '"' in name or "\\" in name:
            raise BadSpec(
                f'holidays {name!r}: a name is printable, up to 100 long, without " and \\', code="spec.calendar"
            )
        super().__init__(zone)
        self.days = days
        self.name = name.strip()

    @property
    def text(self) -> str:
        name = [f'"{self.name}"'] if self.name else []
        zone = [f"in {self.zone}"] if self.zone is not None else []
        return " ".join(["holidays", *name, *self.days.words(), *zone])

    def describe(self) -> str:
        return self.name or self.days.describe()

    def bind(self, zone: str) -> "Holidays":
        return self if self.zone is not None else Holidays(self.days, self.name, zone)

    def is_open(self, wall: int) -> bool:
        return self.days.has(wall // DAY_S)

    def change(self, wall: int) -> int | None:
        day = self.days.next(wall // DAY_S, not self.is_open(wall))
        return None if day is None else day * DAY_S

    def last_change(self, wall: int) -> int | None:
        day = self.days.previous(wall // DAY_S, not self.is_open(wall))
        return None if day is None else day * DAY_S + DAY_S - 1


class Hours(Calendar):
    """Hours of the week, less the holidays. Make it with `business_hours(…)`."""

    __slots__ = ("_week", "groups", "holidays")

    def __init__(self, groups: tuple[Group, ...], zone: str | None, holidays: Holidays | None) -> None:
        super().__init__(zone)
        if holidays is not None and holidays.zone is not None and holidays.zone != zone:
            raise BadSpec(
                f"holidays in {holidays.zone} for hours in {zone}: leave out the zone of the holidays, or use except_for",
                code="spec.calendar",
            )
        self.groups = groups
        self.holidays = None if holidays is None else Holidays(holidays.days, holidays.name, None)
        self._week = Week(groups)
        if self.change(0) is None and not self.is_open(0):
            raise BadSpec(f"{self.text}: the holidays leave no hour of it", code="spec.impossible")

    @property
    def text(self) -> str:
        zone = f" in {self.zone}" if self.zone is not None else ""
        off = f" except ({self.holidays.text})" if self.holidays is not None else ""
        return f"hours {'; '.join(group.text for group in self.groups)}{zone}{off}"

    def describe(self) -> str:
        said = " and ".join(group.describe() for group in self.groups)
        if self.zone is not None:
            said += ", UTC" if self.zone == "UTC" else f", {self.zone} time"
        return said if self.holidays is None else f"{said}, except on {self.holidays.describe()}"

    def bind(self, zone: str) -> "Hours":
        return self if self.zone is not None else Hours(self.groups, zone, self.holidays)

    def is_open(self, wall: int) -> bool:
        return self._week.is_open(wall) and (self.holidays is None or not self.holidays.days.has(wall // DAY_S))

    def change(self, wall: int) -> int | None:
        if self.is_open(wall):
            closing = self._week.closing(wall)
            if self.holidays is None:
                return closing
            day = self.holidays.days.next(wall // DAY_S, True)
            return closing if day is None or (closing is not None and closing < day * DAY_S) else day * DAY_S
        limit = wall + _CYCLE_S
        while wall <= limit:
            wall = self._week.opening(wall)
            if self.holidays is None or not self.holidays.days.has(wall // DAY_S):
                return wall
            day = self.holidays.days.next(wall // DAY_S, False)
            if day is None:
                return None
            wall = day * DAY_S
        return None

    def last_change(self, wall: int) -> int | None:
        if self.is_open(wall):
            closed = self._week.closed_before(wall)
            if self.holidays is None:
                return closed
            day = self.holidays.days.previous(wall // DAY_S, True)
            last = None if day is None else day * DAY_S + DAY_S - 1
            return closed if last is None or (closed is not None and closed > last) else last
        limit = wall - _CYCLE_S
        while wall >= limit:
            wall = self._week.open_before(wall)
            if self.holidays is None or not self.holidays.days.has(wall // DAY_S):
                return wall
            day = self.holidays.days.previous(wall // DAY_S, False)
            if day is None:
                return None
            wall = day * DAY_S + DAY_S - 1
        return None


def calendar_from_text(text: str) -> Calendar:
    """The calendar whose `text` that is."""
    kind, _, rest = text.strip().partition(" ")
    if kind == "holidays":
        return _holidays_from_text(rest, text)
    if kind != "hours":
        raise BadSpec(f"{text!r} is no calendar: it begins with neither 'hours' nor 'holidays'", code="spec.calendar")
    off = None
    main, marker, inner = rest.partition(" except (")
    if marker:
        if not inner.endswith(")"):
            raise BadSpec(f"{text!r}: a closing ) is missing at the end", code="spec.text")
        found = calendar_from_text(inner[:-1])
        if not isinstance(found, Holidays):
            raise BadSpec(f"{text!r}: only holidays can stand after 'except' there", code="spec.calendar")
        off = found
    main, zone = _zone_off(main)
    pairs = [tuple(group.split(None, 1)) for group in main.split(";")]
    if any(len(pair) != 2 for pair in pairs):
        raise BadSpec(f"{text!r}: write hours like 'mon-fri 09:00-17:00; sat 10:00-14:00'", code="spec.calendar")
    return Hours(groups_of([(pair[0], pair[1]) for pair in pairs]), zone, off)


def _holidays_from_text(rest: str, text: str) -> Holidays:
    name = ""
    if rest.startswith('"'):
        name, quote, rest = rest[1:].partition('"')
        if not quote:
            raise BadSpec(f'{text!r}: a closing " is missing after the name', code="spec.text")
    dates, zone = _zone_off(rest)
    return Holidays(days_from_text(dates), name, zone)


def _zone_off(text: str) -> tuple[str, str | None]:
    main, marker, zone = text.rpartition(" in ")
    return (main, zone.strip()) if marker else (text, None)
