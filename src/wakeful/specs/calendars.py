"""Layer 1, pure. When is it open: which hours of the week, and which days are holidays?

A calendar is a set of stretches of time, whole seconds on the clocks of its zone. What the clocks jump over never is,
and what they show twice is open both times: hours follow the clock on the wall.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import date

from wakeful.specs.calendar_days import DaySet, days_from_text, recurring
from wakeful.specs.calendar_hours import Group, Week, groups_of
from wakeful.specs.walls import Walls, next_instant, previous_instant
from wakeful.specs.zones import DAY_S, Spans, spans_of, zone_of
from wakeful.values.errors import BadSpec

_CYCLE_S = 146_097 * DAY_S  # 400 years: what has no opening in them has none

__all__ = ["Calendar", "Holidays", "Hours", "business_hours", "calendar_from_text", "holidays"]


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
    return Holidays(recurring(dates), name, zone)


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
    def bound(self, zone: str) -> "Calendar":
        """The calendar with its zone, or with that one when it has none."""

    @abstractmethod
    def is_open(self, wall: int) -> bool:
        """Whether it is open at a local second."""

    @abstractmethod
    def change(self, wall: int) -> int | None:
        """The first local second after that one with the other state, open or closed; None when it never changes."""

    @abstractmethod
    def changed(self, wall: int) -> int | None:
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
        return wall if self._calendar.is_open(wall) == self._is_open else self._calendar.changed(wall)


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

    def bound(self, zone: str) -> "Holidays":
        return self if self.zone is not None else Holidays(self.days, self.name, zone)

    def is_open(self, wall: int) -> bool:
        return self.days.has(wall // DAY_S)

    def change(self, wall: int) -> int | None:
        day = self.days.next(wall // DAY_S, not self.is_open(wall))
        return None if day is None else day * DAY_S

    def changed(self, wall: int) -> int | None:
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

    def bound(self, zone: str) -> "Hours":
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

    def changed(self, wall: int) -> int | None:
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
