"""Layer 1, pure. Which time of day do people mean by "9am", "18:30", "noon" or a bare 9?"""

import re
from dataclasses import dataclass
from datetime import time

from wakeful.specs.phrase_words import NAMED_TIMES
from wakeful.values.errors import BadSpec

_TIME = re.compile(r"(\d+)(?:[:.](\d+))?(?:[:.](\d+))?\s?(?:([ap])\.?\s?m\.?)?", re.ASCII)
_LIKE = 'write it like "9am", "18:30" or "noon"'


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day in seconds, and how it was written: a bare 9 beside "6pm" could be either nine."""

    seconds: int
    is_bare: bool = False
    is_half: bool = False  # am or pm was said

    @property
    def is_either(self) -> bool:
        return self.is_bare and 1 <= self.seconds // 3600 <= 12


def read_clock(said: str) -> ClockTime:
    """The time of day of a text such as "9am", "9:30 pm", "18:30", "18:30:15", "0900", "9" or "noon"."""
    low = said.strip().lower()
    if low in NAMED_TIMES:
        return ClockTime(NAMED_TIMES[low])
    match = _TIME.fullmatch(low)
    if match is None:
        raise BadSpec(f'"{said}" is not a time of day; {_LIKE}', code="spec.time")
    hour, minute, second, half = match.groups()
    if minute is None and half is None and len(hour) == 4:
        hour, minute = hour[:2], hour[2:]
    if len(hour) > 2 or any(part is not None and len(part) != 2 for part in (minute, second)):
        raise BadSpec(f'"{said}" is not a time of day; {_LIKE}', code="spec.time")
    hours, minutes, seconds = int(hour), int(minute or 0), int(second or 0)
    if minutes > 59 or seconds > 59:
        raise BadSpec(f'"{said}" is not a time of day: minutes and seconds go from 00 to 59', code="spec.time")
    if half is not None:
        if not 1 <= hours <= 12:
            raise BadSpec(f'"{said}" is not a time of day: with am and pm, hours go from 1 to 12', code="spec.time")
        hours = hours % 12 + (12 if half == "p" else 0)
    elif hours > 23:
        hint = '; the end of the day is "midnight"' if hours == 24 else ""
        raise BadSpec(f'"{said}" is not a time of day: hours go from 0 to 23{hint}', code="spec.time")
    return ClockTime(hours * 3600 + minutes * 60 + seconds, minute is None and half is None, half is not None)


def clock_of(when: object) -> ClockTime:
    """The time of day given as text, as a whole hour or as a `datetime.time`."""
    if isinstance(when, str):
        return read_clock(when)
    if isinstance(when, time):
        if when.tzinfo is not None or when.microsecond:
            raise BadSpec(
                f"{when!r}: give a time without zone (zone=… takes it) and in whole seconds", code="spec.time"
            )
        return ClockTime(when.hour * 3600 + when.minute * 60 + when.second)
    if isinstance(when, int) and not isinstance(when, bool):
        if not 0 <= when <= 23:
            raise BadSpec(f"{when!r} is not an hour of the day: hours go from 0 to 23", code="spec.time")
        return ClockTime(when * 3600, is_bare=True)
    raise BadSpec(f"{when!r} is not a time of day; {_LIKE}", code="spec.time")
