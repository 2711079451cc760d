"""Layer 5. `wakeful due`: what fires next?"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.store.protocol import Store
    from wakeful.values.timers import Timer


@options.command("due")
@click.argument("cls", metavar="[CLASS]", required=False)
@options.limit_option(20)
@options.store_option
def due(cls: str | None, limit: int, url: str, as_json: bool) -> None:
    """What fires next, in order; overdue timers come first."""
    asyncio.run(_due(cls, limit, url, as_json))


async def _due(cls: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.finding import reading
    from wakeful.cli.printing import many, put_json, put_line
    from wakeful.store.protocol import Query

    async with reading(url) as store:
        timers = await store.find_timers(Query(cls=cls, limit=limit))
        total = await store.count("timers", cls=cls)
        held = await held_by(store, timers)
    if as_json:
        put_json([plain_timer(timer) | {"held_by": held.get(timer)} for timer in timers])
        return
    if not timers:
        put_line("nothing is waiting", "dim")
        return
    put_timers(timers, with_object=True, held=held)
    if total > len(timers):
        put_line(f"the first {len(timers):,} of {many(total, 'timer')}; -n shows more", "dim")


async def held_by(store: "Store", timers: list["Timer"]) -> dict["Timer", str]:
    """Of schedules' timers, those that won't run what they are set for, and why: `paused`, or `waits for 'x'`."""
    from wakeful.cli.printing import now_ms
    from wakeful.schedules.records import PREFIX, decode_record, schedule_of, slot_of
    from wakeful.values.commits import SYSTEM
    from wakeful.values.ids import ObjectId

    now = now_ms()
    by_object: dict[ObjectId, dict[str, Timer]] = {}
    for timer in timers:
        if timer.name.startswith(f"{PREFIX}:"):
            by_object.setdefault(timer.id, {})[slot_of(schedule_of(timer.name)[0])[1]] = timer
    held = {}
    for id, slots in by_object.items():
        for slot, data in (await store.read(id, SYSTEM, list(slots))).items():
            timer, record = slots[slot], decode_record(data, f"{id} {slot}")
            if record.timeline.is_paused(max(timer.nominal_at, now)):
                held[timer] = "paused"
            elif record.waits_for is not None:
                held[timer] = f"waits for {record.waits_for!r}"
    return held


def plain_timer(timer: "Timer") -> dict[str, Any]:
    """For programs."""
    from wakeful.cli.naming import kind_of, schedule_named
    from wakeful.cli.printing import iso
    from wakeful.jobs.ids import PREFIX, job_id
    from wakeful.values.runs import run_id

    return {
        "class": timer.id.cls,
        "key": timer.id.key,
        "timer": timer.name,
        "schedule": schedule_named(timer.name),
        "kind": kind_of(timer),
        "job": job_id(timer.id, timer.name) if timer.name.startswith(f"{PREFIX}:") else None,
        "due_at": iso(timer.due_at),
        "nominal_at": iso(timer.nominal_at),
        "attempt": timer.attempt,
        "crashes": timer.crashes,
        "is_running": bool(timer.started),
        "run_id": run_id(timer),
    }


def put_timers(
    timers: list["Timer"], *, with_object: bool, held: Mapping["Timer", str] | None = None, indent: int = 0
) -> None:
    """For people: when, what, and why later than asked."""
    from wakeful.cli.naming import kind_of, timer_words
    from wakeful.cli.printing import clock_time, now_ms, put_table, relative

    now = now_ms()
    rows = []
    for timer in timers:
        notes = [held[timer]] if held and timer in held else []
        notes += [f"retry {timer.attempt}"] if timer.attempt else []
        notes += ["started"] if timer.started else ["overdue"] if timer.due_at < now - 1_000 else []
        is_beside = kind_of(timer) not in (None, "schedule", "trigger")
        notes += [f"asked for {clock_time(timer.nominal_at)}"] if timer.attempt or is_beside else []
        row = (
            clock_time(timer.due_at),
            relative(timer.due_at, now),
            str(timer.id),
            timer_words(timer),
            ", ".join(notes),
        )
        rows.append(row if with_object else (*row[:2], *row[3:]))
    columns = ["at", "", "object", "timer", "note"]
    put_table(columns if with_object else [*columns[:2], *columns[3:]], rows, indent=indent)
