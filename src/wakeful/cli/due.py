"""Layer 5. `wakeful due`: what fires next?"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from wakeful.cli import known_names, options

if TYPE_CHECKING:
    from wakeful.views.due import DueRow


@options.command("due")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@options.limit_option(20)
@options.store_option
def due(cls: str | None, limit: int, url: str, as_json: bool) -> None:
    """What fires next, in order; overdue timers come first."""
    asyncio.run(_due(cls, limit, url, as_json))


async def _due(cls: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import instead
    from wakeful.cli.output import many, put_json, put_line
    from wakeful.cli.session import viewing
    from wakeful.store.protocol import Query
    from wakeful.views.due import plain_row, rows

    async with viewing(url) as view:
        page = await rows(view, Query(cls=cls), limit)
        total = sum([await store.count("timers", cls=cls) for store in view.stores]) if page.cursor else 0
        hint = "" if page.rows or as_json else await instead(view, cls)
    if as_json:
        put_json([plain_row(row) for row in page.rows])
        return
    if not page.rows:
        put_line(f"nothing of {cls} is waiting{hint}" if hint else "nothing is waiting", "dim")
        return
    put_timers(page.rows, with_object=True)
    if page.cursor is not None:
        put_line(f"the first {len(page.rows):,} of {many(total, 'timer')}; -n shows more", "dim")


def put_timers(found: Sequence["DueRow"], *, with_object: bool, indent: int = 0) -> None:
    """For people: when, what, and why later than asked."""
    from wakeful.cli.output import clock_time, now_ms, put_table, relative
    from wakeful.views.timer_names import kind_of, timer_words

    now = now_ms()
    rows = []
    for timer, held_by, is_running in found:
        notes = [held_by] if held_by is not None else []
        notes += [f"retry {timer.attempt}"] if timer.attempt else []
        notes += ["started"] if is_running else ["overdue"] if timer.due_at < now - 1_000 else []
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
