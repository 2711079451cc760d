"""Layer 1, pure. When does a recurrence rule of RFC 5545 happen, in its zone?

Python-dateutil's answers, for the rules that RFC 5545 allows, without walking from DTSTART (docs/decisions/0010-rrule.md).
A rule that names its hour obeys `gap` and `fold`; one that repeats by the hour, minute or second, and names no hour,
follows elapsed time as cron's wildcards do. `gap="skip"` is RFC 5545's own rule.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from wakeful.specs.rrule_parts import (
    DAILY,
    HOURLY,
    MONTHLY,
    WEEKLY,
    Lines,
    Moment,
    Parts,
    is_run,
    parse_lines,
    parse_moment,
    parse_parts,
    wrong,
)
from wakeful.specs.rrule_walls import CYCLE_YEARS, STEPS_MAX, walls_of
from wakeful.specs.spec import Spec, spend, steps_taken
from wakeful.specs.words import MONTHS, WEEKDAYS, clock_words, date_words, join_words, ordinal_words
from wakeful.specs.zones import (
    DAY_S,
    Fold,
    Gap,
    check_fold,
    check_gap,
    instants_of,
    jumps,
    next_instant,
    previous_instant,
    spans_of,
    zone_of,
)
from wakeful.values.errors import BadSpec, BadTime
from wakeful.values.times import from_datetime

_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
COUNT_STEPS_MAX = 16_000  # of INTERVAL, while a COUNT is counted out once
COUNT_PIECE = 1_000  # of these at once: about five milliseconds
_CYCLE_END = (datetime(9_999 - CYCLE_YEARS, 1, 1) - _EPOCH) // _SECOND  # from later on fewer years are looked through
_START_MIN = (datetime(1600, 1, 1) - _EPOCH) // _SECOND  # no calendar of today reaches further back


def rrule(
    text: str, zone: str | None = None, start: datetime | None = None, *, gap: Gap = "shift", fold: Fold = "first"
) -> "Rule":
    """An RFC 5545 rule: `FREQ=…`, with or without `RRULE:`, and optional DTSTART, RDATE and EXDATE lines.

    Without DTSTART and `start`, it starts when the schedule is added: the first second after that. Asked before, it
    answers as if it started at the beginning of 1970. Without a zone it is the schedule's, and UTC before that is known.

    >>> from datetime import UTC, datetime
    >>> from wakeful import rrule
    >>> spec = rrule("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0")
    >>> print(spec.next_after(datetime(2026, 3, 28, tzinfo=UTC)))
    2026-04-24 17:00:00+00:00
    """
    lines = parse_lines(text, zone)
    if start is not None:
        lines = _start_at(lines, start)
    rule = Rule(lines, check_gap(gap), check_fold(fold))
    if not _happens(rule):
        raise BadSpec(f"rrule {lines.parts.text!r} {_why_never(rule)}", code="spec.impossible")
    return rule


def _happens(rule: "Rule") -> bool:
    start = rule._lines.start
    return start is None or rule.next_ms((start - 2 * DAY_S) * 1000) is not None


def _why_never(rule: "Rule") -> str:
    """Of a rule that names times, and has none: what takes them all."""
    lines = rule._lines
    whole = replace(lines, exdates=())
    if not _happens(Rule(replace(whole, parts=replace(lines.parts, until=None)), rule.gap, rule.fold)):
        return _past_all_time(lines.start or 0)
    if lines.exdates and _happens(Rule(whole, rule.gap, rule.fold)):
        return "happens only when its EXDATE leaves out; leave out less"
    return "ends before it first happens; look at UNTIL"


def _past_all_time(start: int) -> str:
    return f"has from DTSTART={Moment(start).text} on no time before the year 9999, where time ends here; start earlier"


def rule_from_text(text: str) -> "Rule":
    """The rule whose `text` that is, such as `rrule FREQ=DAILY from 2026-01-01T09:00:00 in Europe/Paris gap=skip`."""
    words = text.split()
    if len(words) < 2 or words[0] != "rrule":
        raise BadSpec(f"{text!r} does not begin with 'rrule' and a rule", code="spec.rrule")
    given: dict[str, str] = {}
    rest = iter(words[2:])
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals:
            value = next(rest, "")
        if name in given or name not in ("from", "in", "gap", "fold", "rdate", "exdate") or not value:
            raise BadSpec(f"{text!r}: {word!r} is not understood, or given twice", code="spec.rrule")
        given[name] = value
    start = None
    if "from" in given:
        start = parse_moment(given["from"].replace("-", "").replace(":", ""), "from").seconds
    lines = Lines(
        parse_parts(words[1]),
        start,
        given.get("in"),
        *(tuple(parse_moment(one, name) for one in given[name].split(",")) if name in given else () for name in _DATES),
    )
    return Rule(lines, check_gap(given.get("gap", "shift")), check_fold(given.get("fold", "first")))


_DATES = ("rdate", "exdate")


class Rule(Spec):
    """A recurrence rule with its start, zone, extra and excluded dates. Make it with `rrule(…)`."""

    __slots__ = (
        *("_end", "_exact", "_ex", "_exdays", "_lines", "_more", "_spans", "_text", "_walls", "fold", "gap"),
        "_policy",
    )

    def __init__(self, lines: Lines, gap: Gap, fold: Fold) -> None:
        self._lines = lines
        self.gap = gap
        self.fold = fold
        parts, zone = lines.parts, zone_of(lines.zone or "UTC")
        if lines.start is not None and lines.start < _START_MIN:
            raise wrong("DTSTART", "start in 1600 or later")
        self._spans = spans_of(zone)
        self._walls = walls_of(parts, lines.start or 0)
        if self._walls.next(lines.start or 0) is None:
            start, never = lines.start or 0, f"names no time in 400 years, or none in {STEPS_MAX} steps of its INTERVAL"
            why = never if start < _CYCLE_END else _past_all_time(start)
            raise BadSpec(f"rrule {parts.text!r} {why}", code="spec.impossible")
        self._exact = parts.freq > DAILY and not parts.byhour
        self._policy: tuple[Gap, Fold] = ("skip", "both") if self._exact else (gap, fold)
        self._more = sorted({at for one in lines.rdates for at in self._instants(one)})
        self._ex = {at for one in lines.exdates if not one.date for at in self._instants(one)}
        self._exdays = {one.seconds // DAY_S for one in lines.exdates if one.date}
        self._end: int | None = None
        self._text = _text(lines, gap, fold)

    @property
    def text(self) -> str:
        return self._text

    @property
    def counted_rules(self) -> tuple[Spec, ...]:
        return () if self._lines.parts.count is None else (self,)

    @property
    def zone(self) -> str | None:
        """Its zone by name; None until it is bound, when none was given."""
        return self._lines.zone

    def describe(self) -> str:
        return in_words(
            self._lines, self.gap if not self._exact else "shift", self.fold if not self._exact else "first"
        )

    def bind(self, *, added_at: int, seed: str, zone: str) -> Spec:
        lines = self._lines
        if lines.start is not None and lines.zone is not None:
            return self
        known = lines.zone or zone
        second = added_at // 1000 + 1
        start = lines.start if lines.start is not None else second + spans_of(zone_of(known)).at(second)[2]
        return Rule(Lines(lines.parts, start, known, lines.rdates, lines.exdates), self.gap, self.fold)

    def next_ms(self, after: int) -> int | None:
        found = self._from(after // 1000 + 1)
        if self._ex or self._exdays:
            while found is not None and self._is_out(found):
                found = self._from(self._past_out(found))
        return None if found is None else found * 1000

    def previous_ms(self, before: int) -> int | None:
        found = self._to((before - 1) // 1000)
        if self._ex or self._exdays:
            while found is not None and self._is_out(found):
                found = self._to(self._past_out(found, -1))
        return None if found is None else found * 1000

    def gaps_ms(self, first: int, last: int) -> list[int]:
        if self._policy[0] == "shift":
            return []
        if self._exact:
            return []  # nothing is owed for time that did not pass
        end = self._last_second()
        found = jumps(self._walls, self._spans, -(-first // 1000), -(-last // 1000))
        out = {at for one in self._lines.exdates for at in self._instants(one, "shift")}
        return [at * 1000 for at in found if (end is None or at <= end) and at not in out and not self._is_out(at)]

    def _from(self, second: int) -> int | None:
        instant = next_instant(self._walls, self._spans, second, *self._policy)
        if instant is not None and (end := self._last_second()) is not None and instant > end:
            instant = None
        if self._more:
            at = bisect_left(self._more, second)
            if at < len(self._more) and (instant is None or self._more[at] < instant):
                return self._more[at]
        return instant

    def _to(self, second: int) -> int | None:
        end = self._last_second()
        last = second if end is None else min(second, end)
        found = previous_instant(self._walls, self._spans, last, *self._policy)
        if self._more:
            at = bisect_right(self._more, second)
            if at and (found is None or self._more[at - 1] > found):
                return self._more[at - 1]
        return found

    def _is_out(self, second: int) -> bool:
        return second in self._ex or (
            bool(self._exdays) and (second + self._spans.at(second)[2]) // DAY_S in self._exdays
        )

    def _past_out(self, second: int, step: int = 1) -> int:
        """The next second to look at after one that is left out: when it is by its day, past all of those days."""
        start, end, offset, _, _ = self._spans.at(second)
        day = (second + offset) // DAY_S
        if second in self._ex or day not in self._exdays:
            return second + step
        while day in self._exdays:
            day += step
        return min((day * DAY_S) - offset, end) if step > 0 else max((day + 1) * DAY_S - 1 - offset, start - 1)

    def _last_second(self) -> int | None:
        """The second after which the rule itself is over; COUNT is counted out once."""
        if self._end is None:
            parts = self._lines.parts
            if parts.until is not None:
                until = parts.until if not parts.until.date else Moment(parts.until.seconds + DAY_S - 1)
                self._end = self._instants(until, "shift")[-1]
            elif parts.count is not None:
                for _ in self.count_out():
                    pass
        return self._end

    def count_out(self) -> Iterator[None]:
        count = self._lines.parts.count
        if count is None or self._end is not None:
            return
        tally = _Tally((self._lines.start or 0) - 2 * DAY_S, count)
        steps, piece = 0, COUNT_PIECE
        while tally.left:
            left, most = tally.left, min(piece, COUNT_STEPS_MAX - steps)
            taken = steps_taken(most, partial(self._count, tally))
            if tally.left < left:
                steps += taken
                is_over = steps >= COUNT_STEPS_MAX
            else:
                is_over = most < piece
                piece *= 2  # to the next time it is further than that
            if is_over and tally.left:
                raise BadSpec(
                    f"rrule {self._lines.parts.text!r}: COUNT={count} takes more than {COUNT_STEPS_MAX} steps; use UNTIL",
                    code="spec.work",
                )
            yield
        self._end = tally.end

    def _count(self, tally: "_Tally") -> None:
        while tally.left:
            second = tally.second
            instant = next_instant(self._walls, self._spans, second, *self._policy)
            if instant is None:
                tally.left = 0
                return
            # Each seven weeks of a zone are looked up, at the price of many steps; charged whether they are known or not.
            spend(1 if instant >> 22 == second >> 22 else 25)
            tally.second, tally.end = instant + 1, instant
            tally.left -= 1

    def _instants(self, moment: Moment, gap: Gap | None = None) -> list[int]:
        if moment.utc:
            return [moment.seconds]
        local = _EPOCH + timedelta(seconds=moment.seconds)
        zone = zone_of(self._lines.zone or "UTC")
        return [at // 1000 for at in instants_of(local, zone, gap or self._policy[0], self._policy[1])]


class _Tally:
    """How far a COUNT has been counted: from where on, which was the last, and how many are left."""

    __slots__ = ("end", "left", "second")

    def __init__(self, second: int, left: int) -> None:
        self.second = self.end = second
        self.left = left


def _start_at(lines: Lines, start: datetime) -> Lines:
    if lines.start is not None:
        raise BadSpec("rrule: start is given twice, as DTSTART and as start=; leave one out", code="spec.rrule")
    if not isinstance(start, datetime):
        raise BadTime(f"start {start!r}: give an aware datetime", code="time.type")
    second = from_datetime(start) // 1000
    zone = lines.zone
    if zone is None:
        zone = start.tzinfo.key if isinstance(start.tzinfo, ZoneInfo) else None
        if zone is None and start.tzinfo is not UTC:
            raise BadTime(f"start {start.isoformat()} has an offset but no zone; give zone='…' too", code="time.zone")
    zone = zone or "UTC"
    return Lines(lines.parts, second + spans_of(zone_of(zone)).at(second)[2], zone, lines.rdates, lines.exdates)


def _text(lines: Lines, gap: Gap, fold: Fold) -> str:
    words = [f"rrule {lines.parts.text}"]
    if lines.start is not None:
        words.append(f"from {(_EPOCH + timedelta(seconds=lines.start)).isoformat()}")
    if lines.zone is not None:
        words.append(f"in {lines.zone}")
    words += [f"gap={gap}"] * (gap != "shift") + [f"fold={fold}"] * (fold != "first")
    for name, dates in zip(_DATES, (lines.rdates, lines.exdates), strict=True):
        if dates:
            words.append(f"{name}={','.join(one.text for one in dates)}")
    return " ".join(words)


# How does a recurrence rule read in plain English?

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_TIMES_MAX = 6  # more of them are told as hours and minutes


def in_words(lines: Lines, gap: Gap, fold: Fold) -> str:
    """The whole rule: how often, on which days, at which times, in which zone, from when until when."""
    parts = lines.parts
    start = None if lines.start is None else _EPOCH + timedelta(seconds=lines.start)
    said = _head(parts) + _days(parts, start) + _times(parts, start)
    if parts.bysetpos:
        said += f", only the {join_words([ordinal_words(at) for at in parts.bysetpos])} of them in each {_UNITS[parts.freq]}"
    if lines.zone is not None:
        said += ", UTC" if lines.zone == "UTC" else f", {lines.zone} time"
    if start is not None:
        said += f", from {date_words(start)}"
    if parts.count is not None:
        said += f", {parts.count} times" if parts.count > 1 else ", once"
    if parts.until is not None:
        said += f", until {_moment(parts.until)}"
    if lines.rdates:
        said += f", and also on {_dates(lines.rdates)}"
    if lines.exdates:
        said += f", but not on {_dates(lines.exdates)}"
    if gap == "skip":
        said += "; skipped when the clocks jump over it"
    if fold != "first":
        said += "; both times" if fold == "both" else "; the second time"
        said += " when the clocks show it twice"
    return said


def _head(parts: Parts) -> str:
    days = [day for which, day in parts.byday if which == 0]
    if parts.freq in (WEEKLY, DAILY) and parts.interval == 1 and parts.byday:
        return f"every {_weekdays(days)}"
    unit = _UNITS[parts.freq]
    return f"every {unit}" if parts.interval == 1 else f"every {parts.interval} {unit}s"


def _days(parts: Parts, start: datetime | None) -> str:
    said = ""
    if parts.byyearday:
        said += f" on the {join_words([ordinal_words(day) for day in parts.byyearday])} day of the year"
    if parts.bymonthday:
        said += f" on the {join_words([ordinal_words(day) for day in parts.bymonthday])}"
        said += " day" * (parts.bymonthday[0] < 0) + " of the month" * (not parts.bymonth)
        if parts.byday:
            said += f" when it is a {join_words([_nth(*pair) for pair in parts.byday], 'or')}"
    elif parts.byday and not (parts.freq in (WEEKLY, DAILY) and parts.interval == 1):
        plain = [day for which, day in parts.byday if which == 0]
        names = ([_weekdays(plain)] if plain else []) + [f"the {_nth(*pair)}" for pair in parts.byday if pair[0]]
        said += f" on {join_words(names)}"
        if any(which for which, _ in parts.byday):
            said += " of the month" if parts.freq == MONTHLY or parts.bymonth else " of the year"
    if parts.byweekno:
        said += f" in week {join_words([ordinal_words(week) if week < 0 else str(week) for week in parts.byweekno])}"
        said += " of the year"
    if start is not None and not (parts.byyearday or parts.bymonthday or parts.byday):
        if parts.freq == WEEKLY or parts.byweekno:
            said = f" on {WEEKDAYS[start.weekday()]}" + said
        elif parts.freq == MONTHLY:
            said += f" on the {ordinal_words(start.day)}"
        elif parts.freq < MONTHLY:
            said += f" on {start.day}" + ("" if parts.bymonth else f" {MONTHS[start.month - 1]}")
    if parts.bymonth:
        said += f" in {join_words([MONTHS[month - 1] for month in parts.bymonth])}"
    return said


def _times(parts: Parts, start: datetime | None) -> str:
    given = parts.byhour, parts.byminute, parts.bysecond
    if parts.freq > DAILY:
        said = ""
        if parts.bysecond:
            said += f" at second {_numbers(parts.bysecond)}"
        if parts.byminute:
            said += f" at minute {_numbers(parts.byminute)}"
        elif start is not None and parts.freq == HOURLY and start.minute:
            said += f" at minute {start.minute}"
        return said + (f" in hour {_numbers(parts.byhour)}" if parts.byhour else "")
    if start is None and not any(given):
        return ""
    if start is None and not parts.byhour:
        names = zip(("minute", "second"), given[1:], strict=True)
        return " at " + join_words([f"{name} {_numbers(numbers)}" for name, numbers in names if numbers])
    began = start or _EPOCH
    hours, minutes = parts.byhour or (began.hour,), parts.byminute or (began.minute,)
    seconds = parts.bysecond or (began.second,)
    if len(hours) * len(minutes) * len(seconds) <= _TIMES_MAX:
        times = [_EPOCH.replace(hour=h, minute=m, second=s) for h in hours for m in minutes for s in seconds]
        return f" at {join_words([clock_words(time) for time in times])}"
    said = f" at minute {_numbers(minutes)} of hour {_numbers(hours)}"
    return f"{said}, second {_numbers(seconds)}" if seconds != (0,) else said


def _nth(which: int, day: int) -> str:
    return f"{ordinal_words(which)} {WEEKDAYS[day]}" if which else WEEKDAYS[day]


def _weekdays(days: list[int]) -> str:
    if days == [0, 1, 2, 3, 4]:
        return "weekday"
    if len(days) == 7:
        return "day"
    return join_words([WEEKDAYS[day] for day in days])


def _numbers(numbers: tuple[int, ...]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if is_run(numbers) else join_words([str(number) for number in numbers])


def _moment(moment: Moment) -> str:
    when = _EPOCH + timedelta(seconds=moment.seconds)
    if moment.date:
        return date_words(when)
    return f"{date_words(when)} at {clock_words(when)}" + " UTC" * moment.utc


def _dates(moments: tuple[Moment, ...]) -> str:
    return join_words([_moment(one) for one in moments]) if len(moments) <= 3 else f"{len(moments)} dates"
