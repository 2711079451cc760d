"""Layer 5. What did another scheduler have, in terms of schedules here?"""

from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from wakeful.values.errors import BadValue

# Where the other one sets no end to how late something may still run.
EVER = "365d"


class Wish(Struct):
    """One schedule that is to be."""

    name: str
    task: str  # what the other scheduler called, by its full name
    spec: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    is_paused: bool = False
    note: str = ""  # of its times
    changes: list[str] = field(default_factory=list)  # what is not as it was


class ImportPlan(Struct):
    """Everything of the file: what can be, and what can't with the reason."""

    wishes: list[Wish] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    note: str = ""  # what is not as it was in any of them


class NoSchedule(Exception):
    """It can't be a schedule here, for that reason."""


def zone_name(zone: Any) -> str:
    """The name of a zone; `Unfit` for one that has none."""
    if isinstance(zone, ZoneInfo) and zone.key:
        return zone.key
    offset = zone.utcoffset(None) if zone is not None else None
    if offset is not None and not offset:
        return "UTC"
    raise NoSchedule(f"its time zone is {zone}, which has no name; give it one like Europe/Berlin first")


def cron_text(
    minute: str, hour: str, day: str, month: str, weekday: str, *, second: str = "0", zone: str
) -> tuple[str, str]:
    """A spec of those fields, and its words. Both days must fit there, and one is enough in cron: then it is none."""
    from wakeful.specs.cron import cron

    if day[:1] not in "*?" and weekday[:1] not in "*?":
        raise NoSchedule(
            f"it asks for day {day} of the month that is also {weekday}; in cron one of the two is enough. "
            "Schedule the day and return on others"
        )
    fields = [minute, hour, day, month, weekday]
    try:
        made = cron(" ".join(fields if second == "0" else [second, *fields]), zone)
    except ValueError as error:
        raise NoSchedule(str(getattr(error, "message", error))) from None
    return made.text, made.describe()


def plain(value: Any) -> Any:
    """Arguments that can be kept; `Unfit` names what can't."""
    from wakeful.values.codec import encode

    try:
        encode(value)
    except BadValue as error:
        raise NoSchedule(f"its arguments: {error.message}") from None
    return value
