"""Layer 1, pure. Which spec does whatever a person gives mean, together with zone, gap, fold and jitter?

The one door: an aware datetime, a length, a cron expression, a phrase, the text of a spec, a chain or a spec goes in here.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from wakeful.specs.calendars import Calendar
from wakeful.specs.combine import AnyOf, ExceptFor, Sieve, Spread, Within, check_possible, spread_over, union
from wakeful.specs.cron import Cron, cron
from wakeful.specs.instants import after, at
from wakeful.specs.phrases import parse_phrase
from wakeful.specs.rrule import rrule
from wakeful.specs.spec import Spec, check_length
from wakeful.specs.text import LEAVES, parse_spec
from wakeful.specs.zones import Fold, Gap
from wakeful.values.errors import BadInput, BadOption, BadSpec
from wakeful.values.times import Duration

BUILD_OPTIONS = ("zone", "gap", "fold", "jitter")  # what `build` takes beside the value

_LOOSE = ("at", "after", "every")  # words that phrases begin with too
_FIELD = re.compile(r"[\d*?L][\d*/,\-?LW#]*", re.IGNORECASE)
_RULE = re.compile(r"\s*(RRULE:|FREQ=|DTSTART\b)", re.IGNORECASE)


def build(
    value: object,
    *,
    zone: str | None = None,
    gap: Gap | None = None,
    fold: Fold | None = None,
    jitter: Duration | None = None,
) -> Spec:
    """The spec that the value means, with these on top of it."""
    spec = _on_the_clock(to_spec(value), zone, gap, fold)
    return spec if jitter is None else spread_over(spec, jitter)


def rebuild(value: object, before: Iterable[Spec], given: Mapping[str, Any]) -> Spec:
    """The spec that follows those, latest first: of zone, gap, fold and jitter stays what neither it nor `given` says."""
    spec = _on_the_clock(to_spec(value), given.get("zone"), given.get("gap"), given.get("fold"))
    before = list(before)
    crons = next(filter(None, map(_crons, before)), [])  # of the latest that had times of day
    had = {name: {getattr(part, name) for part in crons} for name in ("zone", "gap", "fold") if name not in given}
    spec = _fill(spec, {name: values.pop() for name, values in had.items() if len(values) == 1})
    if given.get("jitter") is not None:
        return spread_over(spec, given["jitter"])
    if "jitter" not in given and isinstance(before[0], Spread) and not isinstance(spec, Spread):
        return Spread(spec, before[0].window_ms, None)
    return spec


def _on_the_clock(spec: Spec, zone: str | None, gap: Gap | None, fold: Fold | None) -> Spec:
    if zone is None and gap is None and fold is None:
        return spec
    if isinstance(spec, Cron):
        if zone is not None and spec.zone not in (None, zone):
            raise BadOption(f"zone={zone!r}: the spec is in {spec.zone} already", code="schedule.zone")
        return cron(spec.expression, zone or spec.zone, gap or spec.gap, fold or spec.fold)
    if isinstance(spec, AnyOf):
        return union(_on_the_clock(part, zone, gap, fold) for part in spec.parts)
    raise BadOption(
        f"zone, gap and fold are for times of day; give them to the spec itself, not beside {spec.text}",
        code="schedule.zone",
    )


def _crons(spec: Spec) -> list[Cron]:
    """The parts of a spec that are times of day."""
    if isinstance(spec, Spread | Sieve):
        return _crons(spec.spec)
    if isinstance(spec, AnyOf):
        return [part for branch in spec.parts for part in _crons(branch)]
    return [spec] if isinstance(spec, Cron) else []


def _fill(spec: Spec, had: dict[str, Any]) -> Spec:
    """The spec with what there was before wherever it says nothing of its own."""
    if isinstance(spec, Spread):
        return Spread(_fill(spec.spec, had), spec.window_ms, spec.seed)
    if isinstance(spec, AnyOf):
        return union(_fill(part, had) for part in spec.parts)
    if not isinstance(spec, Cron):
        return spec
    unsaid = cron(spec.expression)
    own = {
        name: getattr(spec, name) for name in ("zone", "gap", "fold") if getattr(spec, name) != getattr(unsaid, name)
    }
    return cron(spec.expression, **(had | own))


# What does the value alone mean?


def to_spec(value: object) -> Spec:
    """The spec that a value means: a spec, a fluent form, a datetime, a delay, a text, a cron expression or a phrase."""
    if isinstance(value, Spec):
        return value
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, datetime):
        return at(value)
    if isinstance(value, timedelta | int | float) and not isinstance(value, bool):
        return after(value)
    inner = getattr(value, "spec", None)
    if isinstance(inner, Spec):
        return inner
    hint = "; use it as within(spec, calendar) or except_for(spec, calendar)" if isinstance(value, Calendar) else ""
    raise BadSpec(
        f"{value!r} is not a spec; give an aware datetime, a timedelta or seconds, a cron expression, a phrase such as "
        f"'every monday at 9am', every…, or what at, after, cron, rrule, any_of… return{hint}",
        code="spec.type",
    )


def _of_text(text: str) -> Spec:
    check_length(text)
    plain = text.strip()
    word = plain.partition(" ")[0]
    if plain.startswith("(") or (word in LEAVES and word not in _LOOSE):
        spec = parse_spec(plain)
        return check_possible(spec) if isinstance(spec, Sieve) else spec
    if word in _LOOSE:
        try:
            return parse_spec(plain)
        except BadInput as error:
            if error.code in ("spec.interval", "time.late"):  # it was understood, and is refused
                raise
    if _RULE.match(plain):
        return rrule(plain)
    return cron(plain) if _is_cron(plain) else parse_phrase(plain)


def _is_cron(text: str) -> bool:
    fields = text.split()
    return text.startswith("@") or (len(fields) > 1 and all(map(_FIELD.fullmatch, fields[:3])))


# Which combinations can be made of such values?


def any_of(*specs: object) -> Spec:
    """Whatever any of them names; an instant that several name is one occurrence, and one spec alone is itself.

    >>> from datetime import UTC, datetime
    >>> from wakeful import any_of, every
    >>> spec = any_of(every.monday.at("09:00"), every.friday.at("17:00"))
    >>> [f"{time:%a %H:%M}" for time in spec.between(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 8, tzinfo=UTC))]
    ['Mon 09:00', 'Fri 17:00']
    """
    return union(map(to_spec, specs))


def except_for(spec: object, *excluded: object) -> ExceptFor:
    """What the spec names, but not at the exact instants of another spec, nor while a calendar is open.

    >>> from datetime import UTC, datetime
    >>> from wakeful import every, except_for, holidays
    >>> spec = except_for(every.day.at("09:00"), holidays("12-25", zone="UTC"))
    >>> print(spec.next_after(datetime(2026, 12, 24, 12, tzinfo=UTC)))
    2026-12-26 09:00:00+00:00
    """
    if not excluded:
        raise BadSpec("except_for: give what to leave out, a spec or a calendar", code="spec.empty")
    out = tuple(part if isinstance(part, Calendar) else to_spec(part) for part in excluded)
    return check_possible(ExceptFor(to_spec(spec), out))


def within(spec: object, *calendars: Calendar) -> Within:
    """What the spec names while every one of the calendars is open.

    >>> from datetime import UTC, datetime
    >>> from wakeful import business_hours, every, within
    >>> spec = within(every(2).hours, business_hours("mon-fri", "09:00-13:00", "UTC"))
    >>> spec.next_after(datetime(2026, 3, 28, 12, tzinfo=UTC)).strftime("%a %H:%M")
    'Mon 10:00'
    """
    if not calendars:
        raise BadSpec("within: give a calendar, such as business_hours()", code="spec.empty")
    for calendar in calendars:
        if not isinstance(calendar, Calendar):
            raise BadSpec(f"within {calendar!r}: give a calendar, such as business_hours()", code="spec.type")
    return check_possible(Within(to_spec(spec), calendars))


def spread(spec: object, window: Duration) -> Spread:
    """The spec with every occurrence moved by the same part of the window, which each schedule has its own of.

    The part follows from the schedule's identity alone, so it is the same after a restart and on every node; until the
    spec is bound to a schedule it is 0.

    >>> from wakeful import every, spread
    >>> spread(every.hour, "10m").describe()
    'every hour, spread over 10 minutes'
    """
    return spread_over(to_spec(spec), window)
