"""Layer 4, pure. What is unusual about the times of a spec where the clocks change?"""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from wakeful.specs.combine import AnyOf, Sieve, Spread
from wakeful.specs.cron import Cron
from wakeful.specs.rrule import Rule
from wakeful.specs.spec import Spec
from wakeful.specs.text import parse_spec
from wakeful.specs.zones import spans_of, zone_of
from wakeful.values.times import to_datetime

# Of the local times that one jump swallows, so many are told; a rule by the second names thousands.
_TOLD_MAX = 3


def zones_in(spec: Spec) -> list[str]:
    """The zones that the spec's times of day are in, each once."""
    return list(dict.fromkeys(leaf.zone for leaf, _ in _leaves(spec, 0) if leaf.zone is not None))


def zone_name(spec: Spec) -> str:
    """The zone to tell the spec's times in: its own, the first of them if there are several, else UTC."""
    return next(iter(zones_in(spec)), "UTC")


def local_time(at: int, zone: str) -> datetime:
    """The instant as clocks in the zone show it."""
    return to_datetime(at).astimezone(zone_of(zone))


def jumped_over(spec: Spec, at: int) -> list[datetime]:
    """The local times (naive) that the spec names and the clocks jumped over at that very instant; some of them, if many."""
    return [wall for leaf, when in _leaves(spec, at) for wall in _skipped_walls(leaf, when)]


def night_note(spec: Spec, at: int) -> str:
    """What is unusual about an occurrence: moved out of a gap, or in an hour that comes twice. Empty when nothing is."""
    for leaf, when in _leaves(spec, at):
        if leaf.next_ms(when - 1) == when and (note := _moved_note(leaf, when) or _twice(leaf, when)):
            return note
    return ""


def gap_note(spec: Spec, at: int) -> str:
    """Why an instant of `gaps_ms` has no occurrence: which local time is not there."""
    return f"left out: {_missing(jumped_over(spec, at), at, zone_name(spec))}"


def missing_words(walls: list[datetime], zone: str) -> str:
    """`02:30 does not exist on 2026-03-29 in Europe/Berlin`."""
    return f"{_clocks(walls)} does not exist on {walls[0]:%Y-%m-%d} in {zone}"


def _leaves(spec: Spec, at: int) -> Iterator[tuple["Cron | Rule", int]]:
    """The parts of a spec that name times of day, each with the instant as it sees it: before it is spread."""
    if isinstance(spec, Cron | Rule):
        yield spec, at
    elif isinstance(spec, AnyOf):
        for part in spec.parts:
            yield from _leaves(part, at)
    elif isinstance(spec, Sieve):
        yield from _leaves(spec.spec, at)
    elif isinstance(spec, Spread):
        yield from _leaves(spec.spec, at - spec.offset_ms)


def _skipped_walls(leaf: "Cron | Rule", at: int) -> list[datetime]:
    start, _, offset, before, _ = spans_of(_zone(leaf)).at(at // 1000)
    if start * 1000 != at or before >= offset:
        return []
    walls = _walls(leaf).between_ms((start + before) * 1000, (start + offset) * 1000, _TOLD_MAX + 1)
    return [to_datetime(wall).replace(tzinfo=None) for wall in walls]


def _moved_note(leaf: "Cron | Rule", at: int) -> str:
    walls = _skipped_walls(leaf, at)
    shown = at + spans_of(_zone(leaf)).at(at // 1000)[2] * 1000
    if not walls or _walls(leaf).next_ms(shown - 1) == shown:  # what the clocks show after the jump is named as well
        return ""
    return f"moved: {_missing(walls, at, leaf.zone or 'UTC')}"


def _twice(leaf: "Cron | Rule", at: int) -> str:
    second = at // 1000
    start, end, offset, before, later = spans_of(_zone(leaf)).at(second)
    shown = second + offset
    if before > offset and shown < start + before:
        other, is_second = shown - before, True
    elif later < offset and shown >= end + later:
        other, is_second = shown - later, False
    else:
        return ""
    clock = to_datetime(shown * 1000)
    both = leaf.next_ms(other * 1000 - 1) == other * 1000
    which = "second" if is_second else "first"
    return f"{clock:%H:%M} for the {which} time" if both else f"{clock:%H:%M} comes twice: the {which} time only"


def _missing(walls: list[datetime], at: int, zone: str) -> str:
    if not walls:
        return "the clocks jump over it"
    shown = local_time(at, zone)
    day = "that day" if walls[0].date() == shown.date() else f"on {walls[0]:%Y-%m-%d}"
    return f"{_clocks(walls)} does not exist {day}"


def _clocks(walls: list[datetime]) -> str:
    told = ", ".join(f"{wall:%H:%M:%S}".removesuffix(":00") for wall in walls[:_TOLD_MAX])
    return f"{told}, …" if len(walls) > _TOLD_MAX else told


def _walls(leaf: "Cron | Rule") -> Spec:
    """The same rule where no clock ever changes, so that its instants are its local times."""
    return leaf if leaf.zone is None else parse_spec(leaf.text.replace(f" in {leaf.zone}", " in UTC"))


def _zone(leaf: "Cron | Rule") -> ZoneInfo:
    return zone_of(leaf.zone or "UTC")
