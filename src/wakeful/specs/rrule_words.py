"""Layer 1, pure. How does a recurrence rule read in plain English?"""

from datetime import datetime, timedelta

from wakeful.specs.rrule_lines import Lines
from wakeful.specs.rrule_parts import DAILY, HOURLY, MONTHLY, WEEKLY, Moment, Parts, is_run
from wakeful.specs.words import MONTHS, WEEKDAYS, clock_words, date_words, joined, ordinal_words
from wakeful.specs.zones import Fold, Gap

_EPOCH = datetime(1970, 1, 1)
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_TIMES_MAX = 6  # more of them are told as hours and minutes


def in_words(lines: Lines, gap: Gap, fold: Fold) -> str:
    """The whole rule: how often, on which days, at which times, in which zone, from when until when."""
    parts = lines.parts
    start = None if lines.start is None else _EPOCH + timedelta(seconds=lines.start)
    said = _head(parts) + _days(parts, start) + _times(parts, start)
    if parts.bysetpos:
        said += (
            f", only the {joined([ordinal_words(at) for at in parts.bysetpos])} of them in each {_UNITS[parts.freq]}"
        )
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
        said += f" on the {joined([ordinal_words(day) for day in parts.byyearday])} day of the year"
    if parts.bymonthday:
        said += f" on the {joined([ordinal_words(day) for day in parts.bymonthday])}"
        said += " day" * (parts.bymonthday[0] < 0) + " of the month" * (not parts.bymonth)
        if parts.byday:
            said += f" when it is a {joined([_nth(*pair) for pair in parts.byday], 'or')}"
    elif parts.byday and not (parts.freq in (WEEKLY, DAILY) and parts.interval == 1):
        plain = [day for which, day in parts.byday if which == 0]
        names = ([_weekdays(plain)] if plain else []) + [f"the {_nth(*pair)}" for pair in parts.byday if pair[0]]
        said += f" on {joined(names)}"
        if any(which for which, _ in parts.byday):
            said += " of the month" if parts.freq == MONTHLY or parts.bymonth else " of the year"
    if parts.byweekno:
        said += f" in week {joined([ordinal_words(week) if week < 0 else str(week) for week in parts.byweekno])}"
        said += " of the year"
    if start is not None and not (parts.byyearday or parts.bymonthday or parts.byday):
        if parts.freq == WEEKLY or parts.byweekno:
            said = f" on {WEEKDAYS[start.weekday()]}" + said
        elif parts.freq == MONTHLY:
            said += f" on the {ordinal_words(start.day)}"
        elif parts.freq < MONTHLY:
            said += f" on {start.day}" + ("" if parts.bymonth else f" {MONTHS[start.month - 1]}")
    if parts.bymonth:
        said += f" in {joined([MONTHS[month - 1] for month in parts.bymonth])}"
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
        return " at " + joined([f"{name} {_numbers(numbers)}" for name, numbers in names if numbers])
    began = start or _EPOCH
    hours, minutes = parts.byhour or (began.hour,), parts.byminute or (began.minute,)
    seconds = parts.bysecond or (began.second,)
    if len(hours) * len(minutes) * len(seconds) <= _TIMES_MAX:
        times = [_EPOCH.replace(hour=h, minute=m, second=s) for h in hours for m in minutes for s in seconds]
        return f" at {joined([clock_words(time) for time in times])}"
    said = f" at minute {_numbers(minutes)} of hour {_numbers(hours)}"
    return f"{said}, second {_numbers(seconds)}" if seconds != (0,) else said


def _nth(which: int, day: int) -> str:
    return f"{ordinal_words(which)} {WEEKDAYS[day]}" if which else WEEKDAYS[day]


def _weekdays(days: list[int]) -> str:
    if days == [0, 1, 2, 3, 4]:
        return "weekday"
    if len(days) == 7:
        return "day"
    return joined([WEEKDAYS[day] for day in days])


def _numbers(numbers: tuple[int, ...]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if is_run(numbers) else joined([str(number) for number in numbers])


def _moment(moment: Moment) -> str:
    when = _EPOCH + timedelta(seconds=moment.seconds)
    if moment.date:
        return date_words(when)
    return f"{date_words(when)} at {clock_words(when)}" + " UTC" * moment.utc


def _dates(moments: tuple[Moment, ...]) -> str:
    return joined([_moment(one) for one in moments]) if len(moments) <= 3 else f"{len(moments)} dates"
