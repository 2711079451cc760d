"""Layer 1, pure. What do the DTSTART, RRULE, RDATE and EXDATE lines of a calendar say together?"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from wakeful.specs.rrule_parts import Moment, Parts, parse_moment, parse_parts, wrong
from wakeful.specs.zones import instants_of, spans_of, zone_of
from wakeful.values.errors import BadSpec

DATES_MAX = 10_000  # extra and excluded dates of one rule; they travel in its text

_EPOCH = datetime(1970, 1, 1)
# A line that begins with a space continues the one before, unless it was merely indented. Of the line alone: a look
# ahead over lines that are empty would be as long for each of them.
_FOLDED = re.compile(r"\r?\n[ \t](?![ \t]*(?:RRULE|DTSTART|RDATE|EXDATE|EXRULE|FREQ)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lines:
    """A rule with its local start in seconds, its zone, and the extra and excluded dates."""

    parts: Parts
    start: int | None = None
    zone: str | None = None
    rdates: tuple[Moment, ...] = ()
    exdates: tuple[Moment, ...] = ()


def parse_lines(text: str, zone: str | None) -> Lines:
    """The lines of a rule; the zone is the argument's or DTSTART's, and they must not disagree."""
    if not isinstance(text, str) or not text.strip():
        raise BadSpec(f"rrule {text!r}: give text such as 'FREQ=WEEKLY;BYDAY=MO'", code="spec.rrule")
    if zone is not None:
        zone_of(zone)
    rules: list[str] = []
    starts: list[tuple[Moment, str | None]] = []
    dates: dict[str, list[tuple[Moment, str | None]]] = {"RDATE": [], "EXDATE": []}
    for line in _FOLDED.sub("", text.strip()).split():
        name, options, value = _split(line)
        if name == "RRULE":
            rules.append(value)
        elif name == "DTSTART":
            starts.append(_moment(value, options, name))
        elif name in dates:
            dates[name] += [_moment(one, options, name) for one in value.split(",")]
        else:
            instead = (
                "use except_for(…)" if name == "EXRULE" else "only RRULE, DTSTART, RDATE and EXDATE lines are read"
            )
            raise wrong(line, f"{name} can't be used; {instead}")
    if len(rules) != 1:
        raise wrong(text, f"{len(rules)} RRULE lines; give one, and join several with any_of(…)")
    if len(starts) > 1:
        raise wrong(text, "DTSTART is given twice")
    start = None
    if starts:
        start, zone = starts[0][0], _agreed(starts[0], zone)
    moments = {name: _in_zone(found, zone) for name, found in dates.items()}
    for name, found in moments.items():
        if len(found) > DATES_MAX:
            raise wrong(name, f"{len(found)} dates; the most is {DATES_MAX}")
    seconds = None if start is None else start.seconds
    if start is not None and start.utc and zone not in (None, "UTC"):  # DTSTART in UTC, rule in a zone
        seconds = start.seconds + spans_of(zone_of(zone or "UTC")).at(start.seconds)[2]
    return Lines(parse_parts(rules[0]), seconds, zone, moments["RDATE"], moments["EXDATE"])


def _split(line: str) -> tuple[str, dict[str, str], str]:
    """NAME;OPTION=…:value; a bare rule is an RRULE."""
    head, colon, value = line.partition(":")
    if not colon:
        if "=" not in line:
            raise wrong(line, "write it like FREQ=DAILY;INTERVAL=2")
        return "RRULE", {}, line
    name, *options = head.split(";")
    pairs = {key.upper(): given for key, _, given in (option.partition("=") for option in options)}
    unknown = [key for key in pairs if key not in ("TZID", "VALUE")]
    if unknown or pairs.get("VALUE", "DATE-TIME").upper() not in ("DATE", "DATE-TIME"):
        raise wrong(head, "only TZID=… and VALUE=DATE or VALUE=DATE-TIME can be given there")
    return name.upper(), pairs, value


def _moment(text: str, options: dict[str, str], name: str) -> tuple[Moment, str | None]:
    moment = parse_moment(text, name)
    zone = options.get("TZID")
    if zone is not None:
        zone_of(zone)
        if moment.utc:
            raise wrong(f"{name}={text}", f"a time that ends in Z is UTC, so TZID={zone} can't be too")
    return moment, zone


def _agreed(start: tuple[Moment, str | None], zone: str | None) -> str | None:
    moment, named = start
    if named is not None and zone is not None and named != zone:
        raise wrong("DTSTART", f"TZID={named} and zone={zone!r} disagree; leave one out")
    return named or zone or ("UTC" if moment.utc else None)


def _in_zone(found: list[tuple[Moment, str | None]], zone: str | None) -> tuple[Moment, ...]:
    """Each as a local time of the rule's zone, or as UTC when it was written for another; sorted, no repeats."""
    moments = set()
    for moment, named in found:
        if named is None or named == zone or moment.date:
            moments.add(moment)
        else:
            local = _EPOCH + timedelta(seconds=moment.seconds)
            moments.add(Moment(instants_of(local, zone_of(named), "shift", "first")[0] // 1000, utc=True))
    return tuple(sorted(moments, key=lambda one: (one.seconds, one.utc, one.date)))
