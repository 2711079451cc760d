"""Layer 1, pure. Which times of the day does a cron expression name, and which one is next?"""

from functools import lru_cache

from wakeful.specs.cron_parse import Field


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
        found = hours[hour]
        if found != hour:
            return found * 3600 + self._first[0] if found >= 0 else -1
        minute, second = divmod(rest, 60)
        found = minutes[minute]
        if found == minute:
            if (ahead := seconds[second]) >= 0:
                return hour * 3600 + minute * 60 + ahead
            found = minutes[minute + 1]
        if found >= 0:
            return hour * 3600 + found * 60 + self._first[1]
        found = hours[hour + 1]
        return found * 3600 + self._first[0] if found >= 0 else -1

    def previous(self, time: int) -> int:
        """The last of the times at or before that one; -1 when the day has none."""
        hours, minutes, seconds = self._back
        hour, rest = divmod(time, 3600)
        found = hours[hour]
        if found != hour:
            return found * 3600 + self._last[0] if found >= 0 else -1
        minute, second = divmod(rest, 60)
        found = minutes[minute]
        if found == minute:
            if (back := seconds[second]) >= 0:
                return hour * 3600 + minute * 60 + back
            found = minutes[minute - 1]
        if found >= 0:
            return hour * 3600 + found * 60 + self._last[1]
        found = hours[hour - 1]
        return found * 3600 + self._last[0] if found >= 0 else -1


def times_of(second: Field, minute: Field, hour: Field) -> DayTimes:
    """The one `Times` of these three fields."""
    is_kept = second.is_kept and minute.is_kept and hour.is_kept
    return _kept(second, minute, hour) if is_kept else DayTimes(second, minute, hour)


_kept = lru_cache(maxsize=4096)(DayTimes)


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
