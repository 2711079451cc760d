"""Layer 1, pure. When does a cron expression run, in its zone, on the nights that the clocks change too?

Whose rules: Debian cron's. A job that names its time (neither minute nor hour begins with `*`) is neither lost nor
doubled when the clocks change: it runs at the first instant after a gap, and once in a fold. Any other follows elapsed
time. Days: day-of-month and day-of-week must both match when either begins with `*` or is `?`, else one is enough.
Beyond Debian: changes of three hours and more follow the same rules, local times that fall together are one occurrence,
and seconds, wrapped ranges, `L`, `W` and `#` are understood.
"""

from wakeful.specs.cron_parse import Fields, parse
from wakeful.specs.cron_walls import CYCLE_DAYS, days_of, times_of
from wakeful.specs.cron_words import days_in_words, in_words
from wakeful.specs.spec import Spec
from wakeful.specs.zones import DAY_S, EARLIEST_S, Fold, Gap, check_fold, check_gap, spans_of, zone_of
from wakeful.values.errors import BadSpec
from wakeful.values.times import LATEST_MS

_LATEST_S = LATEST_MS // 1000
_CYCLE_S = CYCLE_DAYS * DAY_S
_RULES_S = 4_102_444_800  # 2100: by then every zone follows a yearly rule, so 400 years more show all there is

Marks = tuple[frozenset[int], frozenset[int], frozenset[int]]


def cron(text: str, zone: str | None = None, gap: Gap = "shift", fold: Fold = "first") -> "Cron":
    """A cron expression of 5 fields, or 6 with seconds first, or a macro such as `@daily`; without a zone it is UTC.

    `gap` and `fold` say what becomes of a time that the clocks jump over, or show twice, for jobs that name their time.
    A method is decorated with `@every(cron(…))`.

    >>> from datetime import UTC, datetime
    >>> from wakeful import cron
    >>> spec = cron("0 9 * * 1", "Europe/Paris")
    >>> print(spec.describe(), "/", spec.next_after(datetime(2026, 3, 28, tzinfo=UTC)))
    at 09:00 on Monday, Europe/Paris time / 2026-03-30 07:00:00+00:00
    """
    if not isinstance(text, str):
        raise BadSpec(f"cron {text!r}: give text such as '0 9 * * mon'", code="spec.cron")
    return Cron(parse(text), zone, check_gap(gap), check_fold(fold))


def cron_from_text(text: str) -> "Cron":
    """The cron whose `text` that is, such as `cron 0 9 * * 1 in Europe/Paris gap=skip fold=both`."""
    words = text.split()
    if not words or words[0] != "cron":
        raise BadSpec(f"{text!r} does not begin with 'cron'", code="spec.cron")
    del words[0]
    options: dict[str, str] = {}
    while words and "=" in words[-1]:
        name, _, value = words.pop().partition("=")
        if name not in ("gap", "fold") or name in options:
            raise BadSpec(f"{text!r}: {name}={value} is not an option of cron, or is given twice", code="spec.cron")
        options[name] = value
    zone = None
    if len(words) > 2 and words[-2] == "in":
        zone = words[-1]
        del words[-2:]
    gap, fold = check_gap(options.get("gap", "shift")), check_fold(options.get("fold", "first"))
    return cron(" ".join(words), zone, gap, fold)


class Cron(Spec):
    """A cron expression in a zone. Make it with `cron(…)`."""

    __slots__ = ("_days", "_fields", "_policy", "_spans", "_text", "_times", "fold", "gap", "zone")

    def __init__(self, fields: Fields, zone: str | None, gap: Gap, fold: Fold) -> None:
        self.zone = zone
        self.gap = gap
        self.fold = fold
        self._fields = fields
        fixed = not fields.is_elapsed
        # What changes of the clocks mean to it: run what a gap jumped over; only the first, only the second of two passes.
        self._policy = fixed and gap == "shift", fixed and fold == "first", fixed and fold == "second"
        self._spans = spans_of(zone_of("UTC" if zone is None else zone))
        self._times = times_of(fields.second, fields.minute, fields.hour)
        self._days = days_of(fields.day, fields.month, fields.weekday)
        if not self._days.possible():
            raise BadSpec(
                f"cron {fields.text!r} never happens: no year has {days_in_words(fields)}", code="spec.impossible"
            )
        self._text = " ".join(
            [
                f"cron {fields.text}",
                *([f"in {zone}"] if zone is not None else []),
                *([f"gap={gap}"] if gap != "shift" else []),
                *([f"fold={fold}"] if fold != "first" else []),
            ]
        )

    @property
    def text(self) -> str:
        return self._text

    @property
    def expression(self) -> str:
        """The bare expression, as typed but for spaces and case."""
        return self._fields.text

    def describe(self) -> str:
        return in_words(self._fields, self.zone, self.gap, self.fold)

    def bind(self, *, added_at: int, seed: str, zone: str) -> "Cron":
        return self if self.zone is not None else Cron(self._fields, zone, self.gap, self.fold)

    def __reduce__(self) -> tuple[object, ...]:
        return cron, (self.expression, self.zone, self.gap, self.fold)  # the caches of a zone don't travel

    def next_ms(self, after: int) -> int | None:
        second = after // 1000 + 1
        if second < EARLIEST_S:
            second = EARLIEST_S
        at = self._spans.at
        shift, first, last = self._policy
        limit = (second if second > _RULES_S else _RULES_S) + _CYCLE_S
        if limit > _LATEST_S:
            limit = _LATEST_S
        while second <= limit:
            start, end, offset, before, later = at(second)
            low = second + offset
            if shift and before < offset and second == start:
                low = start + before  # what the clocks jumped over comes first
            elif first and before > offset and low < start + before:
                low = start + before  # what they show again was there already
            wall = self._wall_from(low)
            if wall is None:
                return None
            if wall < (end + later if last and later < offset else end + offset):
                found = wall - offset
                if found < second:  # in the gap just before it
                    found = second
                return found * 1000 if found <= limit else None
            # Nothing more in this span. No local time from `low` up to `wall` matches, so nothing does before a day ahead
            # of `wall`, offsets being less than a day; unless the clocks soon go back and show times before `low` again.
            far = wall - DAY_S > end and (later >= offset or end - second >= 2 * DAY_S)
            second = wall - DAY_S if far else end
        return None

    def previous_ms(self, before: int) -> int | None:
        second = min((before - 1) // 1000, _LATEST_S)
        at = self._spans.at
        shift, first, last = self._policy
        while second >= EARLIEST_S:
            start, end, offset, earlier, later = at(second)
            high = second + offset
            if last and later < offset and high >= end + later:
                high = end + later - 1  # what the clocks will show again counts then
            wall = self._wall_to(high)
            if wall is None:
                return None
            if shift and earlier < offset and start + earlier <= wall < start + offset:
                return start * 1000
            if wall >= (start + earlier if first and earlier > offset else start + offset):
                return (wall - offset) * 1000
            far = wall + DAY_S < start and (earlier <= offset or second - start >= 2 * DAY_S)
            second = wall + DAY_S if far else start - 1
        return None

    def gaps_ms(self, first: int, last: int) -> list[int]:
        if self._fields.is_elapsed or self.gap == "shift":
            return []
        gaps = []
        second = max(-(-first // 1000), EARLIEST_S)
        stop = min(-(-last // 1000), _LATEST_S)
        while second < stop:
            start, end, offset, before, _ = self._spans.at(second)
            if second == start and before < offset:
                wall = self._wall_from(start + before)
                if wall is not None and wall < start + offset:
                    gaps.append(start * 1000)
            second = end
        return gaps

    @property
    def marks(self) -> Marks:
        """The seconds of a minute, the minutes of an hour and the hours of a day that it names."""
        fields = self._fields
        return frozenset(fields.second.values), frozenset(fields.minute.values), frozenset(fields.hour.values)

    def stretch_around(self, at: int, marks: Marks) -> tuple[int, int]:
        """The last instant before `at`, which it names, and the first after it, at which it may not name all of those
        seconds, minutes and hours."""
        fields, second = self._fields, at // 1000
        start, end, offset, _, _ = self._spans.at(second)
        seconds, minutes, hours = (one <= mine for one, mine in zip(marks, self.marks, strict=True))
        if not fields.is_elapsed or not seconds:
            return at - 1, at + 1
        local = second + offset
        unit = 60 if not minutes else DAY_S if hours else 3600
        low = local // unit * unit
        high = low + unit
        if unit == DAY_S:
            while high - offset < end and (self._days.every or self._days.next(high // DAY_S) == high // DAY_S):
                high += DAY_S
        return max(low - offset, start) * 1000 - 1, min(high - offset, end) * 1000

    def _wall_from(self, local: int) -> int | None:
        """The first local second at or after that one which the fields name."""
        day, time = divmod(local, DAY_S)
        days = self._days
        if not days.every:
            found = days.next(day)
            if found is None:
                return None
            if found != day:
                return found * DAY_S + self._times.first
        rest = self._times.next(time)
        if rest >= 0:
            return day * DAY_S + rest
        following = day + 1 if days.every else days.next(day + 1)
        return None if following is None else following * DAY_S + self._times.first

    def _wall_to(self, local: int) -> int | None:
        """The last local second at or before that one which the fields name."""
        day, time = divmod(local, DAY_S)
        days = self._days
        if not days.every:
            found = days.previous(day)
            if found is None:
                return None
            if found != day:
                return found * DAY_S + self._times.last
        rest = self._times.previous(time)
        if rest >= 0:
            return day * DAY_S + rest
        preceding = day - 1 if days.every else days.previous(day - 1)
        return None if preceding is None else preceding * DAY_S + self._times.last
