"""Layer 5. What did another scheduler have, and how does it become schedules of an object, all in one commit or none?"""

import inspect
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct, field

from wakeful.importers.archive import check_own
from wakeful.importers.feature import SETTLE
from wakeful.policy.plan import spec_of
from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import running_turn
from wakeful.schedules.handlers import check_arguments, handler_name
from wakeful.schedules.options import check_schedule_name, parse_options, parse_spec_options
from wakeful.schedules.schedules import Schedules
from wakeful.values.errors import BadInput, BadValue, Conflict, UnknownSchedule

if TYPE_CHECKING:
    from wakeful.runtime.context import Context


# What did another scheduler have, in terms of schedules here?

# Where the other one sets no end to how late something may still run.
EVER = "365d"


class Wish(Struct):
    """One schedule that is to be."""

    name: str
    task: str  # what the other scheduler called, by its full name
    spec: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    is_paused: bool = False
    note: str = ""  # of its times
    changes: list[str] = field(default_factory=list)  # what is not as it was


class ImportPlan(Struct):
    """Everything of the file: what can be, and what can't with the reason."""

    wishes: list[Wish] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    note: str = ""  # what is not as it was in any of them


class NoSchedule(Exception):
    """It can't be a schedule here, for that reason."""


def zone_name(zone: Any) -> str:
    """The name of a zone; `Unfit` for one that has none."""
    if isinstance(zone, ZoneInfo) and zone.key:
        return zone.key
    offset = zone.utcoffset(None) if zone is not None else None
    if offset is not None and not offset:
        return "UTC"
    raise NoSchedule(f"its time zone is {zone}, which has no name; give it one like Europe/Berlin first")


def cron_text(
    minute: str, hour: str, day: str, month: str, weekday: str, *, second: str = "0", zone: str
) -> tuple[str, str]:
    """A spec of those fields, and its words. Both days must fit there, and one is enough in cron: then it is none."""
    from wakeful.specs.cron import cron

    if day[:1] not in "*?" and weekday[:1] not in "*?":
        raise NoSchedule(
            f"it asks for day {day} of the month that is also {weekday}; in cron one of the two is enough. "
            "Schedule the day and return on others"
        )
    fields = [minute, hour, day, month, weekday]
    try:
        made = cron(" ".join(fields if second == "0" else [second, *fields]), zone)
    except ValueError as error:
        raise NoSchedule(str(getattr(error, "message", error))) from None
    return made.text, made.describe()


def plain(value: Any) -> Any:
    """Arguments that can be kept; `Unfit` names what can't."""
    from wakeful.values.codec import encode

    try:
        encode(value)
    except BadValue as error:
        raise NoSchedule(f"its arguments: {error.message}") from None
    return value


async def settle(
    ctx: "Context",
    data: list[dict[str, Any]],
    *,
    methods: dict[str, str],
    is_dry: bool = False,
    replaces: bool = False,
) -> dict[str, Any]:
    """The operation: give this object those schedules; which were taken as they were, which changed, which not and why.

    `methods` says which method does what a task did; without it, the one that is called like the task.
    """
    activation = runtime_of(ctx)
    running_turn(activation, SETTLE)
    check_own(activation.id, "import brings")
    schedules = Schedules(ctx)
    taken: list[tuple[Wish, str]] = []
    left: list[dict[str, str]] = []
    for wish in msgspec.convert(data, list[Wish]):
        try:
            taken.append((wish, _check(ctx, wish, methods)))
        except BadInput as error:
            left.append(_row(wish.name, wish.task, error.message))
    for wish, _ in taken:
        await _check_free(schedules, wish.name, replaces=replaces)
    for wish, method in () if is_dry else taken:
        await schedules.add(
            spec_of(wish.spec), method, *wish.args, name=wish.name, kwargs=wish.kwargs or None, **wish.options
        )
        if wish.is_paused:
            await schedules.pause(wish.name, note="it was paused where it came from")
    rows = [(wish, _row(wish.name, wish.task, _note(wish, method))) for wish, method in taken]
    return {
        "class": activation.id.cls,
        "key": activation.id.key,
        "is_imported": not is_dry,
        "taken": [row for wish, row in rows if not wish.changes],
        "changed": [row for wish, row in rows if wish.changes],
        "left": left,
    }


def _check(ctx: "Context", wish: Wish, methods: dict[str, str]) -> str:
    """The method that will do it; `BadInput` says why this can't be a schedule of the object."""
    activation = runtime_of(ctx)
    check_schedule_name(wish.name)
    method = handler_name(activation, methods.get(wish.task) or wish.task.rpartition(".")[2])
    check_arguments(inspect.getattr_static(activation.known.cls, method), tuple(wish.args), wish.kwargs)
    options = dict(wish.options)
    spec = parse_spec_options(spec_of(wish.spec), options)
    parse_options(spec, method, tuple(wish.args), wish.kwargs, options)
    return method


async def _check_free(schedules: Schedules, name: str, *, replaces: bool) -> None:
    try:
        there = await schedules.get(name)
    except UnknownSchedule:
        return
    if not replaces and there.state not in ("done", "retired"):
        raise Conflict(
            f"there is a schedule {name!r} already; --replace gives it the times of the file", code="import.exists"
        )


def _note(wish: Wish, method: str) -> str:
    paused = ["paused"] if wish.is_paused else []
    return "; ".join([f"{method}: {wish.note}", *paused, *wish.changes])


def _row(name: str, task: str, note: str) -> dict[str, str]:
    return {"what": task, "name": name, "note": note}
