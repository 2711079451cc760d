"""Layer 1, pure. Which days are in a set of dates, some of which recur each year?"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import MAXYEAR, date, datetime

from wakeful.specs.words import MONTHS, joined
from wakeful.values.errors import BadSpec

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
        return joined(said + [f"{one.day} {MONTHS[one.month - 1]} {one.year}" for one in self.dates])

    def _outside(self, day: int, step: int) -> int | None:
        # The longest run of days is a year of recurring ones and as many again as there are dates.
        for count in range(1, 367 + len(self._sorted) + 1):
            if not self.has(day + step * count):
                found = day + step * count
                return found if _FIRST <= found <= _LAST else None
        return None

    def _next_inside(self, day: int) -> int | None:
        at = bisect_left(self._sorted, day + 1)
        found = self._sorted[at : at + 1]
        year = date.fromordinal(min(max(day, _FIRST), _LAST) + _EPOCH_DAY).year
        for later in range(year, min(year + _YEARS, MAXYEAR + 1)):
            days = [one for one in self._in_year(later) if one > day]
            if days:
                found.append(min(days))
                break
        return min(found, default=None)

    def _previous_inside(self, day: int) -> int | None:
        at = bisect_left(self._sorted, day)
        found = self._sorted[max(at - 1, 0) : at]
        year = date.fromordinal(min(max(day, _FIRST), _LAST) + _EPOCH_DAY).year
        for earlier in range(year, max(year - _YEARS, 0), -1):
            days = [one for one in self._in_year(earlier) if one < day]
            if days:
                found.append(max(days))
                break
        return max(found, default=None)

    def _in_year(self, year: int) -> list[int]:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return [date(year, *one).toordinal() - _EPOCH_DAY for one in self.yearly if leap or one != (2, 29)]


def recurring(given: Sequence[object]) -> DaySet:
    """The set of dates, (month, day) pairs and their texts."""
    dates: set[date] = set()
    yearly: set[tuple[int, int]] = set()
    for one in given:
        found = _read(one) if isinstance(one, str) else one
        if isinstance(found, date) and not isinstance(found, datetime):
            dates.add(found)
        elif isinstance(found, tuple) and len(found) == 2:
            yearly.add(_pair(*found))
        else:
            raise BadSpec(f"holiday {one!r}: give a date, or (month, day) for every year", code="spec.calendar")
    return DaySet(frozenset(dates), frozenset(yearly))


def days_from_text(text: str) -> DaySet:
    """The set whose `words` those are."""
    return recurring(text.split())


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
