"""The judge of cron: it walks second by second (or minute by minute) with zoneinfo and knows nothing of our code."""

import calendar
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MACROS = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@yearly": "0 0 1 1 *"}
MONTHS = ["", *["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)


class Oracle:
    """One expression in a zone under gap and fold, judged over windows of UTC seconds."""

    def __init__(self, expression: str, zone: str, gap: str = "shift", fold: str = "first") -> None:
        words = MACROS.get(expression, expression).lower().split()
        self.second, self.minute, self.hour, self.day, self.month, self.weekday = ["0"] * (6 - len(words)) + words
        self.zone, self.gap, self.fold = ZoneInfo(zone), gap, fold
        self.wild = self.minute.startswith("*") or self.hour.startswith("*")
        self.step = 1 if self.second != "0" else 60

    def occurrences(self, first: int, last: int, margin: int = 90_000) -> list[int]:
        """The seconds of `first <= t < last` at which it runs."""
        if self.wild:
            whole = all(self.shown(t).second == t % 60 for t in (first, last))  # else local minutes begin between ours
            start, step = (first + -first % 60, 60) if whole and self.step == 60 else (first, 1)
            return [t for t in range(start, last, step) if self.names(self.shown(t))]
        found: set[int] = set()
        for wall in self._walls(first, last, margin):
            found.update(self._instants(wall))
        return sorted(t for t in found if first <= t < last)

    def gaps(self, first: int, last: int, margin: int = 90_000) -> list[int]:
        """The seconds of `first <= t < last` at which the clocks jump over a time that it names and then leaves out."""
        if self.wild or self.gap == "shift":
            return []
        found = {self._jump(wall) for wall in self._walls(first, last, margin) if not self._passes(wall)}
        return sorted(t for t in found if first <= t < last)

    def shown(self, t: int) -> datetime:
        """What the clock on the wall shows at that second."""
        return datetime.fromtimestamp(t, self.zone).replace(tzinfo=None)

    def names(self, wall: datetime) -> bool:
        return self.names_time(wall) and self.names_day(wall.date())

    def names_time(self, wall: datetime) -> bool:
        return (
            wall.hour in members(self.hour, 0, 23)
            and wall.minute in members(self.minute, 0, 59)
            and wall.second in members(self.second, 0, 59)
        )

    def names_day(self, day: date) -> bool:
        if day.month not in members(self.month, 1, 12):
            return False
        by_day = any(_day_is(part, day) for part in self.day.split(","))
        by_weekday = any(_weekday_is(part, day) for part in self.weekday.split(","))
        if self.day[0] in "*?" or self.weekday[0] in "*?":
            return by_day and by_weekday
        return by_day or by_weekday

    def _walls(self, first: int, last: int, margin: int) -> Iterator[datetime]:
        """Every local time that it names around the window, whether clocks show it or not."""
        wall = (min(self.shown(first), EPOCH + first * SECOND) - timedelta(seconds=margin)).replace(second=0)
        stop = max(self.shown(last), EPOCH + last * SECOND) + timedelta(seconds=margin)
        while wall < stop:
            if self.names_time(wall) and self.names_day(wall.date()):
                yield wall
            wall += self.step * SECOND

    def _passes(self, wall: datetime) -> list[int]:
        """The seconds at which clocks show that: one, two in a fold, none in a gap."""
        found = []
        for fold in (0, 1):
            t = int((wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC)).timestamp())
            if self.shown(t) == wall and t not in found:
                found.append(t)
        return sorted(found)

    def _instants(self, wall: datetime) -> list[int]:
        passes = self._passes(wall)
        if not passes:
            return [self._jump(wall)] if self.gap == "shift" else []
        return {"first": passes[:1], "second": passes[-1:], "both": passes}[self.fold]

    def _jump(self, wall: datetime) -> int:
        """The first second after the gap that the local time is in."""
        before, after = sorted(int(wall.replace(tzinfo=self.zone, fold=fold).timestamp()) for fold in (0, 1))
        return jump(self.zone, before, after)


@cache
def jump(zone: ZoneInfo, before: int, after: int) -> int:
    """Where between two seconds the offset changes."""
    offset = datetime.fromtimestamp(before, zone).utcoffset()
    for step in (3_600, 60, 1):
        while datetime.fromtimestamp(min(before + step, after), zone).utcoffset() == offset and before < after:
            before += step
    return before + 1


@cache
def members(field: str, low: int, high: int) -> frozenset[int]:
    """The values of a field of numbers and names."""
    found: set[int] = set()
    for part in field.split(","):
        body, _, step = part.partition("/")
        if body in ("*", "?"):
            start, stop = low, high
        else:
            start, stop = _bounds(body, low, high, bool(step))
        value, count = start, int(step or 1)
        while value <= (stop if stop >= start else stop + high - low + 1):
            found.add(value if value <= high else value - (high - low + 1))
            value += count
    return frozenset(found)


def _bounds(body: str, low: int, high: int, stepped: bool) -> tuple[int, int]:
    start, dash, stop = body.partition("-")
    if dash:
        return _number(start, low), _number(stop, low)
    return _number(start, low), high if stepped else _number(start, low)


def _number(word: str, low: int) -> int:
    if word.isdigit():
        return int(word)
    return MONTHS.index(word) if low else WEEKDAYS.index(word)


def _day_is(part: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if part == "lw":
        weekdays = [d for d in range(1, length + 1) if date(day.year, day.month, d).isoweekday() <= 5]
        return day.day == weekdays[-1]
    if part.startswith("l"):
        return day.day == length - int(part[2:] or 0)
    if part.endswith("w"):
        wanted = int(part[:-1])
        if wanted > length:
            return False
        weekdays = [d for d in range(1, length + 1) if date(day.year, day.month, d).isoweekday() <= 5]
        return day.day == min(weekdays, key=lambda d: abs(d - wanted))
    return day.day in members(part, 1, 31)


def _weekday_is(part: str, day: date) -> bool:
    name = WEEKDAYS[day.isoweekday() % 7]
    if found := re.fullmatch(r"(\w+)#(\d)", part):
        return WEEKDAYS[_number(found[1], 0) % 7] == name and (day.day - 1) // 7 + 1 == int(found[2])
    if part.endswith("l"):
        length = calendar.monthrange(day.year, day.month)[1]
        return WEEKDAYS[_number(part[:-1], 0) % 7] == name and day.day + 7 > length
    if "-" in part:
        body, _, step = part.partition("/")
        start, stop = (_number(word, 0) for word in body.split("-"))
        if stop < start:  # wraps in a week of seven, though the field goes to 7
            stop += 7
        return any(value % 7 == day.isoweekday() % 7 for value in range(start, stop + 1, int(step or 1)))
    return any(value % 7 == day.isoweekday() % 7 for value in members(part, 0, 7))
