"""Layer 1, pure. How do lengths, instants and lists read, for people and as canonical text?"""

from collections.abc import Sequence
from datetime import datetime

from wakeful.values.errors import BadTime
from wakeful.values.times import EARLIEST_MS, LATEST_MS, from_datetime, to_datetime

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_UNITS = (
    ("w", "week", 604_800_000),
    ("d", "day", 86_400_000),
    ("h", "hour", 3_600_000),
    ("m", "minute", 60_000),
    ("s", "second", 1_000),
    ("ms", "millisecond", 1),
)


def length_text(ms: int) -> str:
    """A length as `duration_ms` reads it back exactly: 1h30m, 250ms."""
    return "".join(f"{count}{short}" for count, short, _ in _counts(ms)) or "0ms"


def length_words(ms: int) -> str:
    """A length in words: 1 hour and 30 minutes."""
    return join_words([f"{count} {name}{'' if count == 1 else 's'}" for count, _, name in _counts(ms)]) or "no time"


def every_words(ms: int) -> str:
    """How often, in words: every minute, every 5 minutes."""
    counts = _counts(ms)
    return f"every {counts[0][2] if len(counts) == 1 and counts[0][0] == 1 else length_words(ms)}"


def instant_text(ms: int) -> str:
    """An instant as ISO 8601 in UTC, with milliseconds only where there are some."""
    return to_datetime(ms).isoformat(timespec="milliseconds" if ms % 1000 else "seconds")


def instant_of(text: str, what: str) -> int:
    """The milliseconds of an ISO 8601 instant with an offset."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(f"{what} {text!r}: write it like 2026-03-28T12:00:00+00:00", code="time.text") from None
    return check_ms(from_datetime(when), what)


def check_ms(ms: int, what: str) -> int:
    """The instant, when it is one that a spec can answer with."""
    if ms <= EARLIEST_MS:  # a schedule of it begins before it
        raise BadTime(f"{what} is not after the beginning of the year 1", code="time.early")
    if ms > LATEST_MS:
        raise BadTime(f"{what} is past the latest time, {to_datetime(LATEST_MS):%Y-%m-%d}", code="time.late")
    return ms


def instant_words(ms: int) -> str:
    """An instant in words: 28 March 2026 at 12:00 UTC."""
    when = to_datetime(ms)
    return f"{date_words(when)} at {clock_words(when)} UTC"


def date_words(when: datetime) -> str:
    """A date in words: 28 March 2026."""
    return f"{when.day} {MONTHS[when.month - 1]} {when.year}"


def clock_words(when: datetime) -> str:
    """A time of day with no more digits than it needs: 09:00, 09:00:30, 09:00:30.250."""
    if when.microsecond:
        return when.strftime("%H:%M:%S.") + f"{when.microsecond // 1000:03}"
    return when.strftime("%H:%M:%S" if when.second else "%H:%M")


def ordinal_words(number: int) -> str:
    """1st, 2nd, 3rd, 21st; -1 is last, -2 the 2nd to last."""
    if number < 0:
        return "last" if number == -1 else f"{ordinal_words(-number)} to last"
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def join_words(parts: Sequence[str], last: str = "and") -> str:
    """a, b and c."""
    return f" {last} ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _counts(ms: int) -> list[tuple[int, str, str]]:
    found = []
    for short, name, size in _UNITS:
        count, ms = divmod(ms, size)
        if count:
            found.append((count, short, name))
    return found
