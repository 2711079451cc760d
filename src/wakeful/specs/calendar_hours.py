"""Layer 1, pure. Which seconds of a week are open?"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.specs.words import WEEKDAYS, joined
from wakeful.specs.zones import DAY_S
from wakeful.values.errors import BadSpec

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
        days = joined([" to ".join(WEEKDAYS[day] for day in run) for run in _runs(self.days)])
        days = "every day" if len(self.days) == 7 else days
        if self.hours == ((0, DAY_S),):
            return f"{days} all day"
        return f"{days} {joined([f'{_clock(start)} to {_clock(end)}' for start, end in self.hours])}"


def groups_of(pairs: Sequence[tuple[str, str]]) -> tuple[Group, ...]:
    """Groups of texts of days and hours."""
    if not pairs:
        raise BadSpec("business hours: give at least one group of days", code="spec.calendar")
    return tuple(Group(_days(days), _hours(hours)) for days, hours in pairs)


class Week:
    """The open stretches of a week, which recur; local seconds in, local seconds out."""

    __slots__ = ("_ends", "_starts", "is_always")

    def __init__(self, groups: tuple[Group, ...]) -> None:
        found = []
        for group in groups:
            for day in group.days:
                for start, end in group.hours:
                    begin = day * DAY_S + start
                    length = end - start if end > start else end + DAY_S - start
                    # Last week's and next week's too, so that a stretch over Sunday night needs no care.
                    found += [(begin + week, begin + length + week) for week in (-WEEK_S, 0, WEEK_S)]
        self._starts: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted(found):
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
    found: set[int] = set()
    for piece in _WORDS.get(plain, plain).split(","):
        ends = [_day(name.strip(), text) for name in piece.split("-")]
        if len(ends) > 2:
            raise BadSpec(f"days {text!r}: {piece.strip()!r} is no range of two days", code="spec.calendar")
        found.update((ends[0] + more) % 7 for more in range((ends[-1] - ends[0]) % 7 + 1))
    return tuple(sorted(found))


def _day(name: str, text: str) -> int:
    for number, full in enumerate(WEEKDAYS):
        if len(name) >= 3 and full.lower().startswith(name):
            return number
    raise BadSpec(f"days {text!r}: {name!r} is no day; write them like 'mon-fri' or 'sat,sun'", code="spec.calendar")


def _hours(text: str) -> tuple[tuple[int, int], ...]:
    if not isinstance(text, str):
        raise BadSpec(f"hours {text!r}: write them like '09:00-12:00,13:00-17:00'", code="spec.calendar")
    found = set()
    for piece in text.split(","):
        start, dash, end = piece.strip().partition("-")
        begin, finish = _second(start, text), _second(end, text) if dash else 0
        if not dash or begin == DAY_S:
            raise BadSpec(f"hours {text!r}: {piece.strip()!r} is no range such as 09:00-17:00", code="spec.calendar")
        if begin == finish:
            raise BadSpec(
                f"hours {text!r}: {piece.strip()!r} is empty; a whole day is 00:00-24:00", code="spec.calendar"
            )
        found.add((begin, finish or DAY_S))
    return tuple(sorted(found))


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
