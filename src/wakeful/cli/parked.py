"""Layer 5. `wakeful parked`: what failed for good and waits for a person?"""

import asyncio
from typing import TYPE_CHECKING

import click

from wakeful.cli import completion_names, options

if TYPE_CHECKING:
    from wakeful.values.timers import Parked


@options.command("parked")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=completion_names.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=completion_names.keys)
@click.option("--full", is_flag=True, help="With the traceback of each.")
@options.limit_option(50)
@options.store_option
def parked(cls: str | None, key: str | None, full: bool, limit: int, url: str, as_json: bool) -> None:
    """Timers that failed for good, oldest first, with the number that `wakeful redrive` takes."""
    asyncio.run(_parked(cls, key, full, limit, url, as_json))


async def _parked(cls: str | None, key: str | None, full: bool, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.output import many, put_json, put_line
    from wakeful.cli.store_session import viewing
    from wakeful.cli.suggestions import instead
    from wakeful.store.protocol import Query
    from wakeful.views.parked import plain_parked, rows

    async with viewing(url) as view:
        found = await rows(view, Query(cls=cls, key=key), limit)
        total = sum([await store.count("parked", cls=cls) for store in view.stores])
        hint = "" if found.rows or as_json else await instead(view, cls, key)
    if as_json:
        put_json([plain_parked(row) for row in found.rows])
        return
    if not found.rows:
        put_none(cls, key, hint)
        return
    put_parked(found.rows, with_object=True)
    if full:
        put_traces(found.rows)
    if found.cursor is not None:
        of = f" of {many(total, 'parked timer')}" if key is None else ""
        put_line(f"the first {len(found.rows):,}{of}; -n shows more", "dim")


def put_none(cls: str | None, key: str | None, hint: str) -> None:
    """For people: that nothing is, and what was perhaps meant by a class or a key that there is not."""
    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import put_line

    where = "/".join(part for part in (cls, key) if part)
    put_line(one_line(f"nothing of {where} is parked{hint}") if hint else "nothing is parked", "dim")


def put_parked(rows: list["Parked"], *, with_object: bool, indent: int = 0) -> None:
    """For people: which, since when, why."""
    from wakeful.cli.output import clock_time, now_ms, put_table, relative
    from wakeful.views.timer_names import name_words

    now = now_ms()
    table = []
    for row in rows:
        what, at = name_words(row.timer.name), clock_time(row.timer.nominal_at)
        cells = (row.number, str(row.timer.id), what, at, relative(row.parked_at, now), row.attempts, row.error)
        table.append(cells if with_object else (cells[0], *cells[2:]))
    columns = [">number", "object", "timer", "asked for", "parked", ">attempts", "…error"]
    put_table(columns if with_object else [columns[0], *columns[2:]], table, indent=indent)


def put_traces(rows: list["Parked"]) -> None:
    """The traceback of each, in full."""
    from wakeful.cli.exit_codes import one_screen
    from wakeful.cli.output import put_line
    from wakeful.views.timer_names import name_words

    for row in rows:
        put_line()
        put_line(f"{row.number}  {row.timer.id} {name_words(row.timer.name)}", "bold")
        put_line(one_screen(row.traceback or row.error))
