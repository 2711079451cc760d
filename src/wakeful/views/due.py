"""Layer 5. What fires next?"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from wakeful.jobs.ids import PREFIX as JOB
from wakeful.jobs.ids import job_id
from wakeful.schedules.records import PREFIX, decode_record, schedule_of, slot_of
from wakeful.store.protocol import Query
from wakeful.values.commits import SYSTEM
from wakeful.values.ids import ObjectId
from wakeful.values.runs import run_id
from wakeful.values.timers import Timer
from wakeful.values.times import LATEST_MS
from wakeful.views.line import line_of
from wakeful.views.pages import TIMERS, RowPage, ViewPage, find
from wakeful.views.plain import iso
from wakeful.views.timer_names import kind_of, schedule_named, timer_words
from wakeful.views.view import View, is_shown


class DueRow(NamedTuple):
    """A timer, why it won't run what it is set for or not yet, if so: `paused`, `waits for 'x'`; and whether it runs."""

    timer: Timer
    held_by: str | None
    is_running: bool


async def page(
    view: View,
    cls: str | None = None,
    key: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    prefix: str | None = None,
    name: str | None = None,
    name_prefix: str | None = None,
) -> ViewPage:
    """Timers in firing order, overdue ones first; `prefix` is of the object's key, `name` of the timer."""
    query = Query(cls=cls, key=key, key_prefix=prefix, name=name, name_prefix=name_prefix)
    found = await rows(view, query, limit, cursor)
    return ViewPage(await view.each(plain_row, found.rows), found.cursor)


async def rows(view: View, query: Query, limit: int = 50, cursor: str | None = None) -> RowPage[DueRow]:
    """The same before they are plain."""
    found = await find(
        view, TIMERS, query, limit=limit, cursor=cursor, keep=lambda timer: is_shown(timer.id.cls, query.cls)
    )
    is_all = query.key is None and query.key_prefix is None  # else others may be none of their business
    return RowPage(await stand(view, found.rows, is_named=is_all), found.cursor)


async def stand(view: View, timers: Sequence[Timer], *, is_named: bool) -> list[DueRow]:
    """How each of them stands; not `is_named`: without the names of other objects' timers that it waits for."""
    held, running = await held_by(view, timers), set[Timer]()
    for store in view.stores:
        own = [timer for timer in timers if view.store_of(timer.id) is store]
        found = await line_of(store, own, view.now(), is_named=is_named)
        running |= found.running
        held |= found.waits
    return [DueRow(timer, held.get(timer), timer in running) for timer in timers]


async def held_by(view: View, timers: Iterable[Timer]) -> dict[Timer, str]:
    """Those that won't run what they are set for, and why: `paused`, `waits for 'x'`, or `waits for other jobs`."""
    by_object: dict[ObjectId, dict[str, Timer]] = {}
    held: dict[Timer, str] = {}
    for timer in timers:
        if timer.due_at > LATEST_MS:
            held[timer] = "waits for other jobs"
        elif timer.name.startswith(f"{PREFIX}:"):
            by_object.setdefault(timer.id, {})[slot_of(schedule_of(timer.name)[0])[1]] = timer
    reads = await view.together(view.store_of(id).read(id, SYSTEM, list(slots)) for id, slots in by_object.items())
    now = view.now()
    for (id, slots), rows in zip(by_object.items(), reads, strict=True):
        for slot, data in rows.items():
            timer, record = slots[slot], decode_record(data, f"{id} {slot}")
            if record.timeline.is_paused(max(timer.nominal_at, now)):
                held[timer] = "paused"
            elif record.waits_for is not None:
                held[timer] = f"waits for {record.waits_for!r}"
    return held


def plain_row(row: DueRow) -> dict[str, Any]:
    """One timer of a list."""
    timer = row.timer
    return {
        "class": timer.id.cls,
        "key": timer.id.key,
        "timer": timer.name,
        "words": timer_words(timer),
        "schedule": schedule_named(timer.name),
        "kind": kind_of(timer),
        "job": job_id(timer.id, timer.name) if timer.name.startswith(f"{JOB}:") else None,
        "due_at": iso(timer.due_at),
        "nominal_at": iso(timer.nominal_at),
        "attempt": timer.attempt,
        "crashes": timer.crashes,
        "is_running": row.is_running,
        "run_id": run_id(timer),
        "held_by": row.held_by,
    }
