"""Layer 5. Which jobs are in the SQLAlchemy job store of APScheduler 3, as schedules?

Its table has a pickle for each job: read by `pickles`, so that nothing of it runs and APScheduler need not be here.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from wakeful.importers.findings import bad
from wakeful.importers.pickles import Thing, read
from wakeful.importers.schedule_import import EVER, ImportPlan, NoSchedule, Wish, cron_text, plain, zone_name
from wakeful.importers.sqlite import Tables
from wakeful.policy.plan import spec_of
from wakeful.specs.build import any_of
from wakeful.specs.instants import at
from wakeful.specs.interval import interval
from wakeful.values.errors import BadValue, WakefulError
from wakeful.values.times import from_datetime

TABLE = "apscheduler_jobs"
_ALLOWED = ("apscheduler.triggers.",)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LATE_S = 60  # how late a run may be here before it counts as missed
GRACE_S = 1  # of a job that says nothing of it
_NOTE = f"a run may begin {LATE_S} s late, where APScheduler drops it after {GRACE_S} s unless it says otherwise"


def read_store(path: Path, table: str = TABLE) -> ImportPlan:
    """The jobs of an SQLite file, in the order of their ids."""
    tables = Tables(path)
    if table not in tables:
        there = ", ".join(tables.names) or "none"
        raise bad(str(path), f"there is no table {table!r}; --table names another. There are: {there}")
    plan = ImportPlan(note=_NOTE)
    for row in sorted(tables.rows(table), key=lambda row: str(row.get("id"))):
        name = str(row.get("id"))
        data = row.get("job_state")
        if not isinstance(data, bytes):
            raise bad(f"{path}: {table} {name}", "there is no job_state; is it the table of APScheduler's job store?")
        try:
            state = read(data, f"{path}: {table} {name}", _ALLOWED)
            if not isinstance(state, dict):
                raise NoSchedule("its job_state is no job of APScheduler 3")
            plan.wishes.append(_wish(name, state, is_paused=row.get("next_run_time") is None))
        except BadValue as error:
            plan.left.append((name, error.message.partition(f"{name}: ")[2] or error.message))
        except (NoSchedule, WakefulError) as error:
            plan.left.append((name, str(getattr(error, "message", error))))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            plan.left.append((name, "it is not as APScheduler 3 writes it"))
    return plan


def _wish(name: str, state: dict[str, Any], *, is_paused: bool) -> Wish:
    trigger, task = state.get("trigger"), state.get("func")
    if not isinstance(task, str) or not isinstance(trigger, Thing):
        raise NoSchedule("it has no function by name, or no trigger")
    wish = Wish(name, task.replace(":", "."), "", is_paused=is_paused)
    wish.args, wish.kwargs = plain(list(state.get("args") or ())), plain(dict(state.get("kwargs") or {}))
    next_at = None if is_paused else state.get("next_run_time")
    _go_on(trigger, next_at)
    wish.spec, wish.note = _spec(trigger, wish)
    _say_next(wish, next_at)
    _late(wish, state)
    most = state.get("max_instances") or 1
    if most > 1:
        wish.options["parallel"] = int(most)
    return wish


def _go_on(trigger: Thing, next_at: datetime | None) -> None:
    """Its next run is what an interval counts on from, and when a date comes, whatever the trigger was made with."""
    if next_at is None or trigger.state.get("jitter"):  # then it is not of the trigger alone
        return
    place = {"IntervalTrigger": "start_date", "DateTrigger": "run_date"}.get(trigger.name.rpartition(".")[2])
    if place is not None:
        trigger.state[place] = next_at


def _say_next(wish: Wish, next_at: datetime | None) -> None:
    """One that was set by hand (`next_run_time=…`) is no time of the schedule."""
    if next_at is None or "jitter" in wish.options:
        return
    spec, at_ms = spec_of(wish.spec), from_datetime(_aware(next_at))
    if spec.next_ms(at_ms - 1) != at_ms:
        wish.changes.append(f"its next run was set to {next_at.isoformat()}, and here it goes by its times alone")


def _late(wish: Wish, state: dict[str, Any]) -> None:
    """`coalesce` and `misfire_grace_time`."""
    wish.options["catch_up"] = "latest" if state.get("coalesce") else "all"
    grace = state.get("misfire_grace_time")
    if grace is None:
        wish.options["catch_up_window"] = EVER
    elif grace < LATE_S:
        wish.options["catch_up_window"] = f"{LATE_S}s"
        if grace != GRACE_S:
            wish.changes.append(f"it runs up to {LATE_S} s late, not {grace} s")
    else:
        wish.options["catch_up_window"] = f"{int(grace)}s"


def _spec(trigger: Thing, wish: Wish) -> tuple[str, str]:
    kind = trigger.name.rpartition(".")[2]
    make = _TRIGGERS.get(kind)
    if make is None:
        raise NoSchedule(f"{kind} is not known here")
    state = trigger.state
    jitter = state.get("jitter")
    if jitter:
        wish.options["jitter"] = f"{int(jitter)}s"
        wish.changes.append(f"jitter: its own, lasting part of {int(jitter)} s, not another one each time")
    if state.get("end_date") is not None and kind != "OrTrigger":
        wish.options["end_at"] = _aware(state["end_date"])
    return make(trigger, wish)


def _cron(trigger: Thing, wish: Wish) -> tuple[str, str]:
    state = trigger.state
    fields = {str(one.state.get("name")): one for one in state.get("fields") or () if isinstance(one, Thing)}
    texts = {name: _field(name, one) for name, one in fields.items()}
    for name in ("year", "week"):
        if texts.get(name, "*") != "*":
            raise NoSchedule(f"it is bound to {name} {texts[name]}, which cron has not")
    day, weekday = texts.get("day", "*"), texts.get("day_of_week", "*")
    if any(mark in day for mark in ("#", *_WEEKDAYS)):  # `2nd fri` is said of the day of the week here
        if weekday != "*" or any(part.isdigit() or part == "L" for part in day.split(",")):
            raise NoSchedule(f"its days {day} and {weekday} can't be said together in cron")
        day, weekday = "*", day
    if state.get("start_date") is not None:
        wish.options["start_at"] = _aware(state["start_date"])
    return cron_text(
        texts.get("minute", "*"),
        texts.get("hour", "*"),
        day,
        texts.get("month", "*"),
        weekday,
        second=texts.get("second", "0"),
        zone=zone_name(state.get("timezone")),
    )


def _field(name: str, field: Thing) -> str:
    found = field.state.get("expressions") or ()
    texts = [_expression(name, one) for one in found if isinstance(one, Thing)]
    return "*" if "*" in texts else ",".join(texts) or "*"


def _expression(name: str, one: Thing) -> str:
    kind, state = one.name.rpartition(".")[2], one.state
    step = state.get("step")
    if kind == "LastDayOfMonthExpression":
        return "L"
    if kind == "WeekdayPositionExpression":
        weekday, place = _WEEKDAYS[state["weekday"]], state["option_num"]
        return f"{weekday}L" if place == 5 else f"{weekday}#{place + 1}"
    if name == "day_of_week":  # numbered from Monday there, from Sunday in cron
        first, last = state.get("first", 0), state.get("last", 6)
        if kind == "AllExpression" and not step:
            return "*"
        last = 6 if last is None and step else first if last is None else last
        if not step and first < last:
            return f"{_WEEKDAYS[first]}-{_WEEKDAYS[last]}"
        return ",".join(_WEEKDAYS[number] for number in range(first, last + 1, step or 1))
    if kind == "AllExpression":
        return "*" if not step else f"*/{step}"
    if kind in ("RangeExpression", "MonthRangeExpression"):
        first, last = state["first"], state.get("last")
        text = str(first) if last is None or (last == first and not step) else f"{first}-{last}"
        return text if not step else f"{text}/{step}"
    raise NoSchedule(f"its {name} has a {kind}, which is not known here")


def _interval(trigger: Thing, wish: Wish) -> tuple[str, str]:
    made = interval(trigger.state["interval"], _aware(trigger.state["start_date"]))
    return made.text, made.describe()


def _date(trigger: Thing, wish: Wish) -> tuple[str, str]:
    made = at(_aware(trigger.state["run_date"]))
    return made.text, made.describe()


def _or(trigger: Thing, wish: Wish) -> tuple[str, str]:
    parts = []
    for name, state in trigger.state["triggers"]:  # each as the name of its class and its state
        one = Thing(str(name).replace(":", "."))
        one.__setstate__(state)
        parts.append(spec_of(_spec(one, wish)[0]))
        if one.name.endswith(".IntervalTrigger"):
            wish.changes.append("an interval in it is counted from its start, not from the last run of any of them")
    if any(name in wish.options for name in ("start_at", "end_at")):
        raise NoSchedule("one of its triggers begins or ends some day, and the others don't")
    made = any_of(*parts)
    return made.text, made.describe()


_TRIGGERS: dict[str, Callable[[Thing, Wish], tuple[str, str]]] = {
    "CronTrigger": _cron,
    "IntervalTrigger": _interval,
    "DateTrigger": _date,
    "OrTrigger": _or,
}


def _aware(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise NoSchedule(f"{value!r} is no instant with a zone")
    return value
