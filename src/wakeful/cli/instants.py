"""Layer 5. Which instant does a person mean by TIME?"""

from datetime import datetime

from wakeful.specs.zones import instants_of, zone_of
from wakeful.values.errors import BadTime
from wakeful.values.times import duration_ms, from_datetime, within_years

TIME = "TIME"
TIME_HELP = "like 2026-03-29T02:30, 2026-03-29 or 2026-03-29T00:30Z; without an offset in the schedule's zone"


def instants(text: str, zone: str | None, *, what: str) -> tuple[int, ...]:
    """The instants (milliseconds UTC) that a TIME can be: two where the clocks show it twice, in order.

    One without an offset is local in the zone; the first instant after a gap stands for a time in it.
    """
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadTime(
            f"{what} {text!r}: write it like 2026-03-29T02:30, 2026-03-29 or 2026-03-29T00:30Z", code="time.text"
        ) from None
    if when.tzinfo is not None:
        return (from_datetime(when),)
    if zone is None:
        raise BadTime(
            f"{what} {text!r}: there is no one zone that it could be in; add an offset, like {when.isoformat()}Z",
            code="time.naive",
        )
    return tuple(within_years(at, text) for at in instants_of(when, zone_of(zone), "shift", "both"))


def instant(text: str, zone: str | None, *, what: str) -> int:
    """The first instant that a TIME can be."""
    return instants(text, zone, what=what)[0]


def is_length(text: str) -> bool:
    """Whether it is a length of time such as 90s, 2h or 1d12h."""
    try:
        duration_ms(text)
    except BadTime as error:
        return error.code != "time.text"  # one that is too long is one, and is refused as such
    return True
