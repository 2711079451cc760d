"""Layer 5. Which entries has the schedule of Celery beat, as schedules?

Either the file in which it is written down (Python, which is read and not run), or the shelf `celerybeat-schedule` that
beat keeps, with the pickles read by `pickles`. Celery need not be here.
"""

import ast
import dbm
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from wakeful.importers.findings import bad
from wakeful.importers.pickles import Thing, read
from wakeful.importers.schedule_import import EVER, ImportPlan, NoSchedule, Wish, cron_text, plain
from wakeful.specs.interval import interval
from wakeful.values.errors import WakefulError

_ALLOWED = ("celery.beat.ScheduleEntry", "celery.schedules.", "django_celery_beat.")
_SCHEDULES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE")
SOURCE_BYTES_MAX = 256 * 1024  # of a .py file
_OWN = "celery.backend_cleanup"
_NOTE = "a run that falls due during the one before waits for it, where beat would start both"
_FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")


def read_beat(path: Path) -> ImportPlan:
    """The entries of a `.py` file, or of beat's shelf."""
    return _read_source(path) if path.suffix == ".py" else _read_shelf(path)


def _read_shelf(path: Path) -> ImportPlan:
    try:
        with dbm.open(str(path), "r") as shelf:
            shelved = {name: shelf[name] for name in (b"entries", b"tz") if name in shelf}
    except Exception as error:  # each kind of shelf has its own ways to fail over a damaged one
        raise bad(str(path), f"it can't be read as beat's schedule: {str(error)[:200]}") from None
    if b"entries" not in shelved:
        raise bad(str(path), "there are no entries in it; is it the celerybeat-schedule file?")
    zone = read(shelved[b"tz"], f"{path}: tz", _ALLOWED) if b"tz" in shelved else None
    entries = read(shelved[b"entries"], f"{path}: entries", _ALLOWED)
    if not isinstance(entries, dict):
        raise bad(f"{path}: entries", "they are no mapping")
    plan = ImportPlan(note=_NOTE)
    for name, entry in entries.items():
        if not isinstance(entry, Thing) or len(entry.args) < 8:
            plan.left.append((str(name), "it is no entry of beat's"))
            continue
        _, task, last_run_at, _, schedule, args, kwargs, options = entry.args[:8]
        made = {"task": task, "schedule": schedule, "args": args, "kwargs": kwargs, "options": options}
        _add(plan, str(name), made | {"last_run_at": last_run_at}, str(zone or "UTC"))
    return plan


def _read_source(path: Path) -> ImportPlan:
    try:
        if path.stat().st_size > SOURCE_BYTES_MAX:
            raise bad(
                str(path), f"it has more than {SOURCE_BYTES_MAX:,} bytes; put beat_schedule into a file of its own"
            )
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        raise bad(str(path), f"it can't be read: {error.strerror}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the latter two: it is nested too deeply
        raise bad(str(path), f"this is no Python: {error or type(error).__name__}") from None
    named = _settings(tree)
    zone = next((value.value for key in _ZONES if isinstance(value := named.get(key), ast.Constant)), "UTC")
    mapping = next((value for key in _SCHEDULES if isinstance(value := named.get(key), ast.Dict)), None)
    if mapping is None:
        raise bad(str(path), f"there is no {', '.join(_SCHEDULES)} = {{…}} in it")
    plan = ImportPlan(note=_NOTE)
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        name = str(key.value) if isinstance(key, ast.Constant) else ast.unparse(key or value)[:60]
        try:
            entry = _value(value)
        except (NoSchedule, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            plan.left.append((name, str(error)[:200]))
            continue
        _add(plan, name, entry, str(zone))
    return plan


def _settings(tree: ast.Module) -> dict[str, ast.expr]:
    """What is set by name, as an attribute (`app.conf.beat_schedule = …`), or by `conf.update(beat_schedule=…)`."""
    settings: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", None)
                if name is not None:
                    settings[name] = node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "update":
            settings |= {one.arg: one.value for one in node.keywords if one.arg is not None}
    return settings


def _value(node: ast.expr) -> Any:
    """What an expression says, where it says it by itself; `Unfit` for what only a run would tell."""
    if isinstance(node, ast.Dict):
        return {
            _value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key is not None
        }
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        args, kwargs = [_value(one) for one in node.args], {str(one.arg): _value(one.value) for one in node.keywords}
        if name == "timedelta":
            return timedelta(*args, **kwargs)
        if name in ("crontab", "schedule", "solar"):
            return _thing(name, args, kwargs)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _value(node.left), _value(node.right)
        if all(isinstance(one, int | float) for one in (left, right)):
            return left * right
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise NoSchedule(f"what {ast.unparse(node)[:60]!r} is, only a run of the file would tell") from None


def _thing(name: str, args: list[Any], kwargs: dict[str, Any]) -> Thing:
    return Thing(f"celery.schedules.{name}", *args, **kwargs)


def _add(plan: ImportPlan, name: str, entry: Any, zone: str) -> None:
    try:
        plan.wishes.append(_wish(name, entry, zone))
    except (NoSchedule, WakefulError) as error:
        plan.left.append((name, str(getattr(error, "message", error))))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        plan.left.append((name, "it is not as Celery writes it"))


def _wish(name: str, entry: Any, zone: str) -> Wish:
    if name == _OWN:
        raise NoSchedule("beat's own upkeep; Wakeful has its own")
    if not isinstance(entry, Mapping) or not isinstance(entry.get("task"), str):
        raise NoSchedule("it names no task")
    wish = Wish(name, entry["task"], "")
    wish.args, wish.kwargs = plain(list(entry.get("args") or ())), plain(dict(entry.get("kwargs") or {}))
    schedule = entry.get("schedule")
    wish.spec, wish.note = _spec(schedule, entry, zone, wish)
    # Beat sends what fell due while it was down once, when it is back; what still runs does not keep it.
    wish.options |= {"catch_up": "latest", "catch_up_window": EVER, "overlap": "queue_one"}
    options = dict(entry.get("options") or {})
    expires = options.pop("expires", None)
    if isinstance(expires, int | float) and not isinstance(expires, bool):
        wish.options["catch_up_window"] = f"{max(60, int(expires))}s"
    elif expires is not None:
        options["expires"] = expires
    if options:
        wish.changes.append(f"without {', '.join(sorted(map(str, options)))}")
    return wish


def _spec(schedule: Any, entry: Mapping[str, Any], zone: str, wish: Wish) -> tuple[str, str]:
    if isinstance(schedule, Thing):
        kind = schedule.name.rpartition(".")[2]
        if kind == "crontab":
            return _crontab(schedule, zone)
        if kind == "schedule":
            given = dict(zip(("run_every", "relative", "nowfun"), schedule.args, strict=False)) | schedule.kwargs
            entry, schedule = {**entry, "relative": given.get("relative")}, given.get("run_every")
        else:
            raise NoSchedule(f"{kind} times are not known here")
    if isinstance(schedule, int | float) and not isinstance(schedule, bool):
        schedule = timedelta(seconds=schedule)
    if not isinstance(schedule, timedelta):
        raise NoSchedule(f"{schedule!r} is no schedule")
    if entry.get("relative"):
        wish.changes.append("relative: it is counted from its last run, or from the import, not rounded to the clock")
    last = entry.get("last_run_at")  # the shelf has it: a weekly one that is due tomorrow stays so
    made = interval(schedule, last + schedule if isinstance(last, datetime) and last.tzinfo is not None else None)
    return made.text, made.describe()


def _crontab(schedule: Thing, zone: str) -> tuple[str, str]:
    given = dict(zip(_FIELDS, schedule.args, strict=False)) | schedule.kwargs
    texts = {name: _text(given.get(name, "*")) for name in _FIELDS}
    minute, hour, weekday, day, month = (texts[name] for name in _FIELDS)
    weekday = re.sub(r"[A-Za-z]+", lambda name: name[0][:3], weekday)  # it goes by the first three letters of a name
    return cron_text(minute, hour, day, month, weekday, zone=zone)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.replace(" ", "") or "*"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(str(one) for one in sorted(value))
    raise NoSchedule(f"{value!r} is no field of a crontab")
