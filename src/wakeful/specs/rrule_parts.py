"""Layer 1, pure. What does the text of an RFC 5545 recurrence rule say, line by line and part by part?"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from wakeful.specs.zones import instants_of, spans_of, zone_of
from wakeful.values.errors import BadSpec

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
COUNT_MAX = 10_000  # the end of a counted rule is found by counting it out once: below a tenth of a second
INTERVAL_MAX = 1_000_000_000  # 31 years of seconds; more names nothing more

_EPOCH = datetime(1970, 1, 1)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_ORDER = (
    *("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"),
    *("BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS"),
)
# name: lowest, highest, whether counting from the end (-1) is meant too
_RANGES = {
    "BYMONTH": (1, 12, False),
    "BYWEEKNO": (1, 53, True),
    "BYYEARDAY": (1, 366, True),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A DATE or DATE-TIME of RFC 5545: local seconds, or UTC ones when it ended in Z."""

    seconds: int
    utc: bool = False
    date: bool = False

    @property
    def text(self) -> str:
        when = _EPOCH + timedelta(seconds=self.seconds)
        return f"{when.year:04}{when:%m%d}" if self.date else f"{when.year:04}{when:%m%dT%H%M%S}{'Z' * self.utc}"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one RRULE, each list sorted and without repeats; an empty one was not given."""

    freq: int
    interval: int = 1
    count: int | None = None
    until: Moment | None = None
    wkst: int = 0
    bymonth: tuple[int, ...] = ()
    byweekno: tuple[int, ...] = ()
    byyearday: tuple[int, ...] = ()
    bymonthday: tuple[int, ...] = ()
    byday: tuple[tuple[int, int], ...] = ()
    """(which of them, weekday); which is 0 for all of them."""
    byhour: tuple[int, ...] = ()
    byminute: tuple[int, ...] = ()
    bysecond: tuple[int, ...] = ()
    bysetpos: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The rule in one spelling: parts in RFC order, defaults left out."""
        values = {
            "FREQ": FREQUENCIES[self.freq],
            "INTERVAL": str(self.interval) if self.interval != 1 else "",
            "COUNT": str(self.count or ""),
            "UNTIL": self.until.text if self.until else "",
            "WKST": DAYS[self.wkst] if self.wkst else "",
            "BYDAY": ",".join(f"{which or ''}{DAYS[day]}" for which, day in self.byday),
        }
        for name in _RANGES:
            values[name] = ",".join(map(str, getattr(self, name.lower())))
        return ";".join(f"{name}={values[name]}" for name in _ORDER if values[name])


def parse_parts(text: str) -> Parts:
    """The parts of `FREQ=…;…`; what can't be one is an error that names the part."""
    given: dict[str, str] = {}
    for piece in filter(None, text.strip().rstrip(";").split(";")):
        name, equals, value = piece.strip().upper().partition("=")
        if not equals or not value:
            raise wrong(piece, "write each part as NAME=value")
        if name not in _ORDER:
            raise wrong(piece, f"{name} is not a part of a rule; those are {', '.join(_ORDER)}")
        if name in given:
            raise wrong(piece, f"{name} is given twice")
        given[name] = value
    if given.get("FREQ") not in FREQUENCIES:
        said = f"FREQ={given['FREQ']}" if "FREQ" in given else text
        raise wrong(said, f"FREQ is one of {', '.join(FREQUENCIES)} and can't be left out")
    parts = Parts(
        freq=FREQUENCIES.index(given["FREQ"]),
        interval=_number(given, "INTERVAL", 1, INTERVAL_MAX) or 1,
        count=_number(given, "COUNT", 1, COUNT_MAX),
        until=parse_moment(given["UNTIL"], "UNTIL") if "UNTIL" in given else None,
        wkst=_weekday(given["WKST"]) if "WKST" in given else 0,
        byday=_days(given["BYDAY"]) if "BYDAY" in given else (),
        **{name.lower(): _numbers(given[name], name) for name in _RANGES if name in given},
    )
    _check(parts, given)
    return parts


def parse_moment(text: str, what: str) -> Moment:
    """A `19970902T090000`, with Z for UTC, or a date alone."""
    match = _TIME.fullmatch(text.strip().upper())
    try:
        if match is None:
            raise ValueError
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        when = datetime(year, month, day, hour, minute, second)
    except ValueError:
        raise wrong(f"{what}={text}", "write the time like 19970902T090000, 19970902T090000Z or 19970902") from None
    return Moment((when - _EPOCH) // timedelta(seconds=1), match[7] == "Z", match[4] is None)


def wrong(where: str, why: str) -> BadSpec:
    """The error for a part of a rule."""
    return BadSpec(f"rrule {where!r}: {why}", code="spec.rrule")


def _check(parts: Parts, given: dict[str, str]) -> None:
    """Refuse what RFC 5545 forbids, as no two programs agree on what it would mean."""
    freq = FREQUENCIES[parts.freq]
    if parts.count is not None and parts.until is not None:
        raise wrong("COUNT, UNTIL", "give one of them")
    if parts.byweekno and parts.freq != YEARLY:
        raise wrong(f"BYWEEKNO={given['BYWEEKNO']}", f"only FREQ=YEARLY has weeks of the year, not {freq}")
    if parts.byyearday and parts.freq in (MONTHLY, WEEKLY, DAILY):
        raise wrong(f"BYYEARDAY={given['BYYEARDAY']}", f"FREQ={freq} has no days of the year; use FREQ=YEARLY")
    if parts.bymonthday and parts.freq == WEEKLY:
        raise wrong(f"BYMONTHDAY={given['BYMONTHDAY']}", "FREQ=WEEKLY has no days of the month; use FREQ=MONTHLY")
    if any(which for which, _ in parts.byday) and (parts.freq not in (YEARLY, MONTHLY) or parts.byweekno):
        raise wrong(f"BYDAY={given['BYDAY']}", "a number before the day needs FREQ=MONTHLY, or YEARLY without BYWEEKNO")
    if parts.bysetpos and not any(name.startswith("BY") and name != "BYSETPOS" for name in given):
        raise wrong(f"BYSETPOS={given['BYSETPOS']}", "it picks from what another BY part names; add one")


def _number(given: dict[str, str], name: str, low: int, high: int) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not (text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high):
        raise wrong(f"{name}={text}", f"give a whole number from {low} to {high}")
    return int(text)


def _numbers(text: str, name: str) -> tuple[int, ...]:
    low, high, negative = _RANGES[name]
    numbers = set()
    for piece in text.split(","):
        match = re.fullmatch(r"([+-]?)(\d{1,3})", piece.strip(), re.ASCII)
        number = int(piece) if match else -high - 1
        if not low <= (abs(number) if negative else number) <= high:
            also = f", or -{high} to -{low} from the end" if negative else ""
            leap = "; 60 is a leap second, which no clock here shows" if name == "BYSECOND" else ""
            raise wrong(f"{name}={piece}", f"give whole numbers from {low} to {high}{also}{leap}")
        numbers.add(number)
    return tuple(sorted(numbers))


def _days(text: str) -> tuple[tuple[int, int], ...]:
    days = set()
    for piece in text.split(","):
        match = _DAY.fullmatch(piece.strip())
        which = int(match[1] or 0) if match else 99
        if match is None or abs(which) > 53 or (match[1] and which == 0):
            raise wrong(f"BYDAY={piece}", f"give days of {', '.join(DAYS)}, with -53 to 53 before one if it is the nth")
        days.add((which, DAYS.index(match[2])))
    every = {day for which, day in days if which == 0}
    return tuple(sorted(pair for pair in days if pair[0] == 0 or pair[1] not in every))


def _weekday(text: str) -> int:
    if text not in DAYS:
        raise wrong(f"WKST={text}", f"give one of {', '.join(DAYS)}")
    return DAYS.index(text)


def is_run(numbers: tuple[int, ...]) -> bool:
    """Whether the numbers follow one another without a hole, three of them or more."""
    return len(numbers) > 2 and all(two - one == 1 for one, two in pairwise(numbers))


# What do the DTSTART, RRULE, RDATE and EXDATE lines of a calendar say together?

DATES_MAX = 10_000  # extra and excluded dates of one rule; they travel in its text

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
        start, zone = starts[0][0], _agree_on_zone(starts[0], zone)
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


def _agree_on_zone(start: tuple[Moment, str | None], zone: str | None) -> str | None:
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
