"""Layer 1, pure. Which spec does a rule mean that was said in words, typed or chained?

- A step that divides the minute, the hour or the day is a cron (`*/5 * * * *`), aligned to the clock; any other is an
  interval, aligned to its anchor.
- A step within a window begins anew at the window's start every day, and both ends belong to it:
  every 15 minutes between 9:00 and 17:00 runs first at 9:00 and last at 17:00.
- Times of day that don't fit one cron (9:15 and 17:40) are the union of several.
- Without a time it is 00:00; a week without a day begins on Sunday, as cron's `@weekly`; a month, quarter and year
  without one on the first. "Last" of a quarter or a year is in its last month.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from wakeful.specs.combine import union
from wakeful.specs.cron import cron
from wakeful.specs.interval import interval
from wakeful.specs.spec import Spec
from wakeful.specs.zones import Fold, Gap
from wakeful.values.errors import BadInput, BadSpec

Period = Literal["day", "week", "month", "quarter", "year"]

DAY_S = 86_400
HOUR_S = 3_600
ALL_MONTHS = frozenset(range(1, 13))
# A union of more crons than hours in a day is no longer something to read; no sensible phrase needs it.
_CRONS_MAX = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a phrase or a chain says, before it is a spec. All empty means nothing was said."""

    period: Period | None = None
    step_months: int = 1  # with the period "month": every so many
    step_ms: int | None = None  # a length instead of a period
    times: tuple[int, ...] = ()  # seconds of the day
    marks: tuple[int, ...] = ()  # minutes past each hour
    window: tuple[int, int] | None = None  # seconds of the day, both inclusive
    weekdays: frozenset[int] = frozenset()  # Sunday is 0
    days: frozenset[str] = frozenset()  # of the month, as cron writes them: 1 … 31, L, LW, 1W
    nths: frozenset[str] = frozenset()  # days of the week in the month, as cron writes them: 1#1, 5L
    dates: frozenset[tuple[int, int]] = frozenset()  # month and day
    months: frozenset[int] = frozenset()
    zone: str | None = None
    is_length: bool = False  # an interval even where a cron would do: "every 5m"


class Unclear(Exception):
    """What was said is contradictory, incomplete or not exact; `example` is how it could be said."""

    def __init__(self, why: str, example: str) -> None:
        super().__init__(why)
        self.why = why
        self.example = example


def spec_of(meaning: Meaning, *, what: str, zone: str | None = None, gap: Gap = "shift", fold: Fold = "first") -> Spec:
    """The spec that is meant; `BadSpec` that names `what` and says how to say it when none is."""
    if zone is not None:
        if meaning.zone not in (None, zone):
            raise BadSpec(
                f"{what} is in {meaning.zone}, and zone={zone!r} is given too; leave one out", code="spec.zone"
            )
        meaning = replace(meaning, zone=zone)
    try:
        if _is_interval(meaning):
            if gap != "shift" or fold != "first":
                raise Unclear("an interval of elapsed time has neither gap nor fold", "every day at 9am")
            return _interval(meaning)
        crons = [f"{times} {days}" for days in _dates(meaning) for times in _clock(meaning)]
        if len(crons) > _CRONS_MAX:
            raise Unclear(
                f"it takes {len(crons)} crons to say exactly; use within(…) around every(…)",
                "every 15 minutes between 9am and 5pm",
            )
        made = [cron(text, zone=meaning.zone, gap=gap, fold=fold) for text in crons]
        return made[0] if len(made) == 1 else union(made)
    except Unclear as unclear:
        raise BadSpec(f'{what}: {unclear.why}; write it like "{unclear.example}"', code="spec.phrase") from None
    except BadInput as error:
        raise type(error)(f"{what}: {error.message}", code=error.code) from None


# steps


def _is_interval(meaning: Meaning) -> bool:
    if meaning.step_ms is None or meaning.window is not None:
        return False
    return meaning.is_length or not _divides(meaning.step_ms)


def _divides(step_ms: int) -> bool:
    """Whether the clock repeats with the step: 90 s doesn't divide an hour's minutes, nor 5 hours a day."""
    step, rest = divmod(step_ms, 1000)
    if rest or step < 1:
        return False
    return not (60 % step and (step % 60 or HOUR_S % step) and (step % HOUR_S or DAY_S % step))


def _interval(meaning: Meaning) -> Spec:
    assert meaning.step_ms is not None
    step = _length_words(meaning.step_ms)
    is_days = meaning.step_ms >= DAY_S * 1000
    if meaning.times or meaning.marks:
        if not is_days:
            raise _both()
        raise Unclear(
            f"{step} apart at a time of day need a first day to count from; "
            f'use rrule(…) with DTSTART, or every("{meaning.step_ms // 86_400_000}d", anchor=…)',
            "every day at 9am",
        )
    if meaning.weekdays or meaning.days or meaning.nths or meaning.dates or meaning.months:
        if is_days:
            raise Unclear(
                f"{step} apart on given days need a first one to count from; "
                f'use rrule(…) with DTSTART, or every("{meaning.step_ms // 86_400_000}d", anchor=…)',
                "every monday at 9am",
            )
        raise Unclear(
            f"{step} apart do not divide a day, so on given days they need a time to begin at",
            "every 7 minutes between 9am and 5pm on weekdays",
        )
    if meaning.zone is not None:
        raise Unclear(f"{step} is an interval of elapsed time, in which a zone changes nothing", "every 7 minutes")
    return interval(f"{meaning.step_ms}ms")


def _length_words(ms: int) -> str:
    for unit, length in (("week", 604_800_000), ("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if ms % length == 0:
            return f"{ms // length} {unit}{'s' if ms != length else ''}"
    return f"{ms / 1000:g} seconds"


# times of day: seconds, minutes and hours of one or several crons


def _clock(meaning: Meaning) -> list[str]:
    if meaning.step_ms is None:
        if meaning.window is not None:
            raise Unclear("it does not say how often between those times", "every 15 minutes between 9am and 5pm")
        if meaning.marks:
            raise Unclear("it does not say past which hour", "every hour at :15")
        return _clock_fields(meaning.times or (0,), is_step=False)
    step = meaning.step_ms // 1000
    if meaning.times:
        raise _both()
    if meaning.marks and step % HOUR_S:
        raise Unclear("minutes past the hour go with hours only", "every 2 hours at :15")
    if meaning.window is not None:
        return _clock_fields(_within(meaning, meaning.window), is_step=True)
    if step < 60:
        return [f"{_step_field(step)} * *"]
    if step < HOUR_S:
        return [f"{_step_field(step // 60)} *"]
    if step == DAY_S:
        return [f"{_list_field(meaning.marks or (0,), 0, 59)} 0"]
    return [f"{_list_field(meaning.marks or (0,), 0, 59)} {_step_field(step // HOUR_S)}"]


def _both() -> Unclear:
    return Unclear("it has both a step and a time of day", "every 15 minutes between 9am and 5pm")


def _step_field(step: int) -> str:
    return "*" if step == 1 else f"*/{step}"


def _within(meaning: Meaning, window: tuple[int, int]) -> tuple[int, ...]:
    """The times of day in a window, from its start; one that passes midnight goes on in the next day."""
    start, end = window
    assert meaning.step_ms is not None
    step, rest = divmod(meaning.step_ms, 1000)
    if rest or step >= DAY_S or not step:
        raise Unclear(
            f"{_length_words(meaning.step_ms)} is no step within a day", "every 15 minutes between 9am and 5pm"
        )
    if end < start or not end:  # midnight as an end is that of the day
        if meaning.weekdays or meaning.days or meaning.nths or meaning.dates or meaning.months:
            raise Unclear(
                "the window passes midnight, so its second half is on another day; split it in two with any_of(…)",
                "every 15 minutes between 9am and 5pm on weekdays",
            )
        end += DAY_S
    if meaning.marks:
        hours = range(start // HOUR_S * HOUR_S, end + 1, step)
        found = [hour + mark * 60 for hour in hours for mark in meaning.marks]
    else:
        found = list(range(start, end + 1, step))
    times = tuple(at % DAY_S for at in found if start <= at <= end)
    if not times:
        raise Unclear("no time of it is in the window", "every hour between 9am and 5pm at :30")
    return times


def _clock_fields(times: tuple[int, ...], *, is_step: bool) -> list[str]:
    """The clock fields of as few crons as name exactly these times."""
    minutes: dict[int, set[int]] = {}
    for at in times:
        minutes.setdefault(at // 60, set()).add(at % 60)
    hours: dict[int, dict[frozenset[int], set[int]]] = {}
    for minute, of_minute in minutes.items():
        hours.setdefault(minute // 60, {}).setdefault(frozenset(of_minute), set()).add(minute % 60)
    blocks: dict[tuple[frozenset[int], frozenset[int]], set[int]] = {}
    for hour, of_hour in hours.items():
        for seconds, in_hour in of_hour.items():
            blocks.setdefault((seconds, frozenset(in_hour)), set()).add(hour)
    fields = []
    for (seconds, in_hours), of_day in sorted(blocks.items(), key=lambda one: (min(one[1]), *map(min, one[0]))):
        text = f"{_list_field(in_hours, 0, 59, is_step)} {_list_field(of_day, 0, 23, is_step)}"
        fields.append(text if seconds == {0} else f"{_list_field(seconds, 0, 59, is_step)} {text}")
    return fields


def _list_field(
    values: "frozenset[int] | set[int] | tuple[int, ...]", low: int, high: int, is_step: bool = False
) -> str:
    """A cron field with exactly these values.

    A `*` is written for steps only: by Debian's rule it makes a job follow elapsed time when the clocks change, and a
    time of day must not.
    """
    ordered = sorted(set(values))
    step = ordered[1] - ordered[0] if len(ordered) > 1 else 0
    is_even = all(right - left == step for left, right in pairwise(ordered))
    if is_step and is_even and step and ordered[0] == low and ordered[-1] + step == high + 1:
        return _step_field(step)
    if is_step and is_even and step > 1 and len(ordered) > 2:
        return f"{ordered[0]}-{ordered[-1]}/{step}"
    runs: list[list[int]] = []
    for value in ordered:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


# dates: day of month, month and day of week of one or several crons


def _dates(meaning: Meaning) -> list[str]:
    kinds = [bool(kind) for kind in (meaning.weekdays, meaning.days, meaning.nths, meaning.dates)]
    if sum(kinds) > 1:
        raise Unclear(
            "days of the week and days of the month together could mean both or either; "
            "use any_of(…) for either, within(…) for both",
            "on the first monday of the month at 9am",
        )
    if meaning.dates:
        return _of_year(meaning)
    if meaning.days or meaning.nths:
        return _of_month(meaning)
    months = _months(meaning, is_last=False)
    if meaning.weekdays:
        if meaning.period in ("month", "quarter", "year"):
            raise Unclear(
                f"it does not say which of those days in the {meaning.period}",
                "on the first monday of the month at 9am",
            )
        return [f"* {months} {_week(meaning.weekdays)}"]
    if meaning.period == "week":
        return [f"* {months} 0"]
    if meaning.period in ("month", "quarter", "year"):
        return [f"1 {months} *"]
    if meaning.months and meaning.period is None and meaning.step_ms is None:
        raise Unclear("it does not say how often in that time", "every day in january at 9am")
    return [f"* {months} *"]


def _months(meaning: Meaning, *, is_last: bool) -> str:
    if meaning.months:
        if meaning.period == "quarter" or meaning.step_months > 1:
            raise Unclear("it has both named months and a step of months", "every month from june to august")
        return _year(meaning.months)
    if meaning.period == "quarter":
        return "3-12/3" if is_last else "*/3"
    if meaning.period == "year":
        return "12" if is_last else "1"
    return _step_field(meaning.step_months) if meaning.step_months < 12 else "1"


def _year(months: frozenset[int]) -> str:
    return "*" if months == ALL_MONTHS else _list_field(months, 1, 12)


def _week(weekdays: frozenset[int]) -> str:
    return "*" if len(weekdays) == 7 else _list_field(weekdays, 0, 6)


def _of_month(meaning: Meaning) -> list[str]:
    if meaning.period in ("day", "week"):
        raise Unclear(f'"every {meaning.period}" and days of the month exclude each other', "every month on the 1st")
    fields = []
    items = meaning.days or meaning.nths
    # Only in a quarter or a year does the last day fall into another month than the first.
    for is_last in (False, True):
        months = _months(meaning, is_last=is_last)
        part = sorted((one for one in items if ("L" in one) is is_last), key=_order)
        if months == _months(meaning, is_last=not is_last):
            part = [] if is_last else sorted(items, key=_order)
        if part:
            text = ",".join(part)
            if all(one.isdigit() for one in part):
                text = _list_field(frozenset(int(one) for one in part), 1, 31)
            fields.append(f"{text} {months} *" if meaning.days else f"* {months} {text}")
    return fields


def _order(item: str) -> tuple[bool, int, str]:
    number = "".join(one for one in item.partition("#")[2] or item if one.isdigit())
    return "L" in item, int(number or 0), item


def _of_year(meaning: Meaning) -> list[str]:
    if meaning.period not in (None, "year"):
        raise Unclear(f'"every {meaning.period}" and a date of the year exclude each other', "every year on march 1")
    if meaning.months:
        raise Unclear("it has both dates and months", "every year on march 1")
    days: dict[int, set[int]] = {}
    for month, day in meaning.dates:
        days.setdefault(month, set()).add(day)
    months: dict[frozenset[int], set[int]] = {}
    for month, in_month in sorted(days.items()):
        months.setdefault(frozenset(in_month), set()).add(month)
    return [f"{_list_field(in_month, 1, 31)} {_year(frozenset(group))} *" for in_month, group in months.items()]
