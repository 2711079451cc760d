"""Layer 0. How do the times that people write become milliseconds, and back?"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from wakeful.values.errors import BadTime

# 9999-01-01: past it `datetime` can't hold the answer. (workerd stops in 2189.)
LATEST_MS = 253_370_764_800_000
EARLIEST_MS = -62_135_596_800_000  # 0001-01-01 UTC, for the same reason
_LAST_MS = 253_402_300_799_999  # of the year 9999
LONGEST_MS = timedelta.max // timedelta(milliseconds=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Until 2106: so far the seconds, as a float, are within half a microsecond of the milliseconds that they stand for.
_FLOAT_MS = (1 << 32) * 1000
TEXT_MAX = 1_000  # characters of a length; all six units with dozens of digits each are fewer
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

_LENGTHS = (timedelta, int, float, str)  # not as a union, which would be made anew at each look
Duration = timedelta | float | int | str
"""A length of time at the edge: a timedelta, a number of seconds, or text like "5m", "1h30m", "250ms"."""


def to_datetime(ms: int) -> datetime:
    """Milliseconds UTC as an aware datetime, exactly."""
    if 0 <= ms < _FLOAT_MS:
        return datetime.fromtimestamp(ms / 1000, UTC)  # half the cost
    return _EPOCH + timedelta(milliseconds=ms)


def from_datetime(when: datetime) -> int:
    """An aware datetime as whole milliseconds UTC; a naive one is an error that says how to fix it."""
    if when.tzinfo is None or when.utcoffset() is None:
        raise BadTime(
            f"{when.isoformat()} has no time zone; use datetime.now(UTC), .astimezone() or tzinfo=ZoneInfo('…'); "
            "as text, let it end with Z or an offset like +01:00",
            code="time.naive",
        )
    return within_years((when - _EPOCH) // timedelta(milliseconds=1), when.isoformat())  # its offset may lead out


def within_years(ms: int, text: str) -> int:
    """The instant, if `datetime` can hold it; `text` is how somebody wrote it."""
    if ms < EARLIEST_MS:
        raise BadTime(f"{text} is before the year 1 in UTC", code="time.early")
    if ms > _LAST_MS:
        raise BadTime(f"{text} is past the year 9999 in UTC", code="time.late")
    return ms


def instant_ms(when: object, now: int) -> int:
    """An instant given as epoch milliseconds, aware datetime or timedelta from now; the past means now."""
    if type(when) is int and 0 < when <= LATEST_MS:
        return when if when > now else now
    if isinstance(when, bool) or not isinstance(when, (int, float, datetime, timedelta)):
        raise BadTime(
            f"{when!r} is not a time; give epoch milliseconds, an aware datetime or a timedelta from now",
            code="time.type",
        )
    if isinstance(when, datetime):
        at = from_datetime(when)
    elif isinstance(when, timedelta):
        at = now + when // timedelta(milliseconds=1)
        return _check_bounds(max(at, now), when)
    else:
        if not math.isfinite(when):
            raise BadTime(f"{when!r} is not a time", code="time.finite")
        at = int(when)
    if at <= 0:
        raise BadTime(f"{when!r} is not after 1970-01-01; an alarm time must be positive", code="time.positive")
    return _check_bounds(max(at, now), when)


def duration_ms(length: Duration, *, what: str = "duration") -> int:
    """A length of time as whole milliseconds; never negative."""
    if isinstance(length, bool) or not isinstance(length, _LENGTHS):
        raise BadTime(f"{what} {length!r}: give a timedelta, seconds, or text like '5m'", code="time.type")
    if isinstance(length, str):
        ms = _parse(length, what)
    elif isinstance(length, timedelta):
        ms = length // timedelta(milliseconds=1)
    else:
        if isinstance(length, float) and not math.isfinite(length):
            raise BadTime(f"{what} {length!r} is not a length of time", code="time.finite")
        ms = int(min(length, LONGEST_MS) * 1000)
    if ms < 0:
        raise BadTime(f"{what} {length!r} is negative", code="time.negative")
    if ms > LONGEST_MS:  # nor could a row hold it
        raise BadTime(
            f"{what} {length!r:.60} is longer than a timedelta can be, 999999999 days; give a shorter one",
            code="time.late",
        )
    return ms


def _check_bounds(at: int, when: object) -> int:
    if at > LATEST_MS:
        raise BadTime(f"{when!r} is past the latest time, {to_datetime(LATEST_MS):%Y-%m-%d}", code="time.late")
    return at


def _parse(text: str, what: str) -> int:
    if len(text) > TEXT_MAX:  # before it is looked at, kept or quoted
        raise BadTime(
            f"{what} {text[:20]!r}… has {len(text)} characters, {TEXT_MAX} at most; "
            "write it like '250ms', '90s', '5m', '1h30m', '2d'",
            code="time.text",
        )
    found = _length(text)
    if found is None:
        raise BadTime(f"{what} {text!r}: write it like '250ms', '90s', '5m', '1h30m', '2d'", code="time.text")
    return found


@lru_cache(maxsize=1_024)  # programs write the same few lengths again and again
def _length(text: str) -> int | None:
    rest = text.strip()
    total = 0.0
    while rest:
        match = _PART.match(rest)
        if match is None:
            break
        total += float(match[1]) * _UNIT_MS[match[2]]
        rest = rest[match.end() :].lstrip()
    return None if rest or not text.strip() else int(min(total, 2.0 * LONGEST_MS))


# Where do time and chance come from? Always from these, passed in.


class Handle(Protocol):
    """Something that was asked for and can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The deployment's time in milliseconds UTC."""

    def now(self) -> int: ...

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        """Run `callback` on the event loop at that instant or just after, never before."""
        ...

    async def sleep(self, length_ms: int) -> None: ...

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        """Call `stepped(by_ms)` whenever the time was set: moved by that much, ahead or back, without passing."""
        ...


class Dice(Protocol):
    """Randomness with a seed behind it."""

    def random(self) -> float: ...


# How does someone who keeps changing their mind wait for an instant?


class Wakeup:
    """One place on the clock. Asking again for the same instant costs nothing; a handle for each asking would."""

    __slots__ = ("_callback", "_clock", "_handle", "at")

    def __init__(self, clock: Clock, callback: Callable[[], object]) -> None:
        self._clock = clock
        self._callback = callback
        self._handle: Handle | None = None
        self.at: int | None = None

    def set(self, at: int | None) -> None:
        """Call back then, instead of whenever it was set for before; None: not at all."""
        if at == self.at:
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.at = at
        if at is not None:
            self._handle = self._clock.call_at(at, self._ring)

    def _ring(self) -> None:
        self._handle = self.at = None
        self._callback()
