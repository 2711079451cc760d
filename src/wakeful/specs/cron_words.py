"""Layer 1, pure. How does a cron expression read in plain English?"""

from collections.abc import Sequence

from wakeful.specs.cron_parse import Field, Fields, Part

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = ("first", "second", "third", "fourth", "fifth")
# More times than this are told as a rule rather than listed.
_LISTED_MAX = 6


def in_words(fields: Fields, zone: str | None, gap: str, fold: str) -> str:
    """The whole rule: when on a day, on which days, in which zone, and what is unusual about its nights."""
    time, often = _time(fields)
    day = _days(fields)
    if " from " in time and day.startswith("from "):
        said = f"{time}, {day.removeprefix('from ')}"  # one "from" is enough
    else:
        said = f"{time} {day}" if day else time if often else f"{time} every day"
    if zone is not None:
        said += ", UTC" if zone == "UTC" else f", {zone} time"
    if not fields.is_elapsed:
        said += "; left out when the clocks jump over it" if gap == "skip" else ""
        said += {
            "second": "; the second time when the clocks go back",
            "both": "; both times when the clocks go back",
        }.get(fold, "")
    return said


def days_in_words(fields: Fields) -> str:
    """The days alone, for an error about them."""
    return _days(fields).removeprefix("on ")


# the time of the day


def _time(fields: Fields) -> tuple[str, bool]:
    """When on a day, and whether that is often enough to need no "every day"."""
    second, minute, hour = fields.second, fields.minute, fields.hour
    if second.values == (0,):
        return _minutes(minute, hour)
    if len(second.values) == 1 and len(minute.values) * len(hour.values) <= _LISTED_MAX:
        return f"at {_join(_clocks(hour, minute, second.values[0]))}", False
    seconds = _every(second, "second")
    if minute.full and hour.full:
        return (seconds if _even(second) else f"{seconds} of every minute"), True
    said, often = _minutes(minute, hour)
    if said.startswith("every minute"):
        return f"{seconds}{said.removeprefix('every minute')}" if _even(second) else f"{seconds} of {said}", often
    return f"{seconds} of the minute, {said}", often


def _minutes(minute: Field, hour: Field) -> tuple[str, bool]:
    """The same for rules without seconds."""
    if hour.full:
        if minute.values == (0,):
            return "every hour", True
        return (_every(minute, "minute") if _even(minute) else f"{_every(minute, 'minute')} of every hour"), True
    step, single = _step(hour), len(minute.values) == 1
    if single and _even(hour):
        at = minute.values[0]
        return f"every {step} hours" + (f" at minute {at}" if at else ""), True
    part = hour.parts[0]
    since, until = f"{part.low:02}:{minute.values[0]:02}", f"{_end(part, 24):02}:{minute.values[-1]:02}"
    if single and step == 1 and len(hour.values) > 2:
        return f"every hour from {since} to {until}", False
    if len(minute.values) * len(hour.values) <= _LISTED_MAX:
        return f"at {_join(_clocks(hour, minute))}", False
    # Only minutes that go on evenly from one hour into the next may be told as one stretch.
    if len(hour.values) == 1 and _step(minute) and minute.parts[0].low <= minute.parts[0].high:
        return f"{_pace(minute)} from {since} to {until}", False
    if step == 1 and _even(minute):
        return f"{_every(minute, 'minute')} from {since} to {until}", False
    if single and step:
        return f"every {step} hours from {since} to {until}", False
    if single:
        return f"at {_join(_clocks(hour, minute))}", False
    return f"{_every(minute, 'minute')} of {_hours(hour)}", False


def _hours(hour: Field) -> str:
    if _even(hour):
        return f"every {_ordinal(_step(hour))} hour (00, {_step(hour):02}, …)"
    if _step(hour) == 1 and len(hour.values) > 2:
        return f"the hours {hour.parts[0].low:02} to {hour.parts[0].high:02}"
    return f"the hour{'s' * (len(hour.values) > 1)} {_join([f'{value:02}' for value in hour.values])}"


def _pace(minute: Field) -> str:
    step = _step(minute)
    return "every minute" if step == 1 else f"every {step} minutes"


def _every(field: Field, unit: str) -> str:
    """`every 15 minutes`, `at minute 5`, `at minutes 0, 7 and 33`, `every 7 minutes from minute 0 to 56`."""
    if field.full:
        return f"every {unit}"
    if len(field.values) == 1:
        return f"at {unit} {field.values[0]}"
    step = _step(field)
    if step and _even(field):
        return f"every {step} {unit}s"
    if step and len(field.values) > 3:
        part = field.parts[0]
        each = f"every {unit}" if step == 1 else f"every {step} {unit}s"
        return f"{each} from {unit} {part.low} to {_end(part, 60)}"
    return f"at {unit}s {_join([str(value) for value in field.values])}"


def _even(field: Field) -> bool:
    """It goes round without a jump: 0, 15, 30, 45 does, 0, 7, … 56 does not."""
    if field.full:
        return True
    step, size = _step(field), 24 if field.name == "hour" else 60
    return bool(step) and size % step == 0 and field.values[0] == 0 and len(field.values) == size // step


def _step(field: Field) -> int:
    """The step of a field that is one range; 0 when it is something else."""
    if len(field.parts) != 1 or field.parts[0].kind != "values" or len(field.values) < 2:
        return 0
    return field.parts[0].step


def _end(part: Part, size: int, first: int = 0) -> int:
    """The last value that a range reaches, in a field of so many values from `first` on."""
    high = part.high if part.high >= part.low else part.high + size
    return (part.low + (high - part.low) // part.step * part.step - first) % size + first


def _clocks(hour: Field, minute: Field, second: int | None = None) -> list[str]:
    tail = "" if second is None else f":{second:02}"
    return [f"{one:02}:{two:02}{tail}" for one in hour.values for two in minute.values]


# the days


def _days(fields: Fields) -> str:
    """On which days; empty when on all."""
    day, month, weekday = fields.day, fields.month, fields.weekday
    within = of = ""
    if not month.full:
        months, several = _run(month, _MONTHS, 12)
        within = f" from {months}" if several else f" in {months}"
        of = f" of each month from {months}" if several else f" of {months}"
    if day.full and weekday.full:
        return f"every day{within}" if within and _once(fields) else within.lstrip()
    if weekday.full:
        return _month_days(day, of)
    if day.full:
        return _weekdays(weekday, within, of)
    if day.star or weekday.star:
        return f"{_month_days(day, of)} if it is {_if_weekday(weekday)}"
    every = _weekdays(weekday, within, of)
    if not weekday.special:
        every = every.replace("on ", "on every ", 1)
    return f"{_month_days(day, of)} and {every}"


def _once(fields: Fields) -> bool:
    return not _time(fields)[1]


def _month_days(day: Field, of: str) -> str:
    said = []
    plain = [part for part in day.parts if part.kind == "values"]
    if len(plain) == 1 and len(day.values) > 3:
        part = plain[0]
        if part.step == 1:
            said.append(f"from day {part.low} to day {part.high}")
        else:
            first, second, third = ((part.low + n * part.step - 1) % 31 + 1 for n in range(3))
            said.append(f"on every {_ordinal(part.step)} day ({first}, {second}, {third}, … {_end(part, 31, 1)})")
    elif day.values:
        said.append(f"on day{'s' * (len(day.values) > 1)} {_join([str(value) for value in day.values])}")
    for part in day.special:
        if part.kind == "last":
            days = f"{part.step} day{'s' * (part.step > 1)}"
            said.append(f"on the day that is {days} before the last day" if part.step else "on the last day")
        elif part.kind == "last_weekday":
            said.append("on the last weekday (Monday to Friday)")
        else:
            said.append(f"on the weekday (Monday to Friday) nearest day {part.low}")
    return f"{_join(said)}{of or ' of the month'}"


def _weekdays(weekday: Field, within: str, of: str) -> str:
    special = [_special_weekday(part) for part in weekday.special]
    if not weekday.values:
        return f"on {_join(special)}{of or ' of the month'}"
    days, several = _run(weekday, _WEEKDAYS, 7)
    plain = f"from {days}{within}" if several else f"on {days}{within}"
    return f"{plain} and on {_join(special)}{of or ' of the month'}" if special else plain


def _if_weekday(weekday: Field) -> str:
    said = [f"a {_WEEKDAYS[value]}" for value in _monday_first(weekday.values)]
    return _join(said + [f"{_special_weekday(part)} of the month" for part in weekday.special], "or")


def _special_weekday(part: Part) -> str:
    return f"the {_NTH[part.step - 1] if part.kind == 'nth' else 'last'} {_WEEKDAYS[part.low]}"


def _run(field: Field, names: Sequence[str], size: int) -> tuple[str, bool]:
    """`Monday to Friday` for one range of three and more, and True; else the names one by one."""
    first = 1 if size == 12 else 0
    plain = [part for part in field.parts if part.kind == "values"]
    if len(plain) == 1 and plain[0].step == 1 and len(field.values) > 2:
        return f"{names[(plain[0].low - first) % size]} to {names[(plain[0].high - first) % size]}", True
    values = field.values if size == 12 else _monday_first(field.values)
    return _join([names[value - first] for value in values]), False


def _monday_first(values: Sequence[int]) -> list[int]:
    return sorted(values, key=lambda value: (value - 1) % 7)


def _ordinal(number: int) -> str:
    if number in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _join(words: Sequence[str], word: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {word} {words[-1]}"
