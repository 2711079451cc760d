"""Layer 5. `wakeful due`: what fires next?"""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options

if TYPE_CHECKING:
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
    if as_json:
        put_json([plain_timer(timer) for timer in timers])
        return
    if not timers:
        put_line("nothing is waiting", "dim")
        return
    put_timers(timers, with_object=True)
    if total > len(timers):
        put_line(f"the first {len(timers):,} of {many(total, 'timer')}; -n shows more", "dim")


def plain_timer(timer: "Timer") -> dict[str, Any]:
    """For programs."""
    from wakeful.cli.printing import iso
    from wakeful.values.runs import run_id

    return {
        "class": timer.id.cls,
        "key": timer.id.key,
        "timer": timer.name,
        "due_at": iso(timer.due_at),
        "nominal_at": iso(timer.nominal_at),
        "attempt": timer.attempt,
        "crashes": timer.crashes,
        "is_running": bool(timer.started),
        "run_id": run_id(timer),
    }


def put_timers(timers: list["Timer"], *, with_object: bool, indent: int = 0) -> None:
    """For people: when, what, and why later than asked."""
    from wakeful.cli.printing import clock_time, now_ms, put_table, relative

    now = now_ms()
    rows = []
    for timer in timers:
        notes = [f"retry {timer.attempt}"] if timer.attempt else []
        notes += ["started"] if timer.started else ["overdue"] if timer.due_at < now - 1_000 else []
        notes += [f"asked for {clock_time(timer.nominal_at)}"] if timer.attempt else []
        row = (clock_time(timer.due_at), relative(timer.due_at, now), str(timer.id), timer.name, ", ".join(notes))
        rows.append(row if with_object else (*row[:2], *row[3:]))
    columns = ["at", "", "object", "timer", "note"]
    put_table(columns if with_object else [*columns[:2], *columns[3:]], rows, indent=indent)
