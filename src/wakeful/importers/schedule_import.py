"""Layer 5. How do the schedules of another scheduler become those of an object, all in one commit or none?"""

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from wakeful.importers.archive_rules import check_own
from wakeful.importers.feature import SETTLE
from wakeful.importers.wishes import Wish
from wakeful.policy.timeline import spec_of
from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import running_turn
from wakeful.schedules.handlers import check_arguments, handler_name
from wakeful.schedules.options import check_schedule_name, parse_options, parse_spec_options
from wakeful.schedules.schedules import Schedules
from wakeful.values.errors import BadInput, Conflict, UnknownSchedule

if TYPE_CHECKING:
    from wakeful.runtime.context import Context


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
