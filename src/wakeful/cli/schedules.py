"""Layer 5. `wakeful schedules`: which schedules does an object have, and how do they do?"""

import asyncio
from typing import TYPE_CHECKING

import click

from wakeful.cli import offering, options

if TYPE_CHECKING:
    from wakeful.looking.schedules import Row, Wanted
    from wakeful.looking.view import View
    from wakeful.schedules.records import Record


@options.command("schedules")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=offering.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=offering.keys)
@click.option("--contains", metavar="TEXT", help="Only those with this text in their name or their object's key.")
@click.option("--tag", metavar="TAG", help="Only those with this tag.")
@click.option(
    "--state", type=click.Choice(["active", "paused", "waiting", "done", "retired"]), help="Only those in this state."
)
@options.limit_option(50)
@options.store_option
def schedules(
    cls: str | None,
    key: str | None,
    contains: str | None,
    tag: str | None,
    state: str | None,
    limit: int,
    url: str,
    as_json: bool,
) -> None:
    """List schedules: spec, state, next time, last verdict and sums. Doesn't wake their objects.

    Those of the object CLASS/KEY by name; those of CLASS, or all, soonest first, and then the ones that have ended.
    """
    from wakeful.looking.schedules import Wanted

    asyncio.run(_schedules(Wanted(cls, key, tag, state, contains), limit, url, as_json))


async def _schedules(wanted: "Wanted", limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.finding import viewing
    from wakeful.cli.guessing import info_of, instead
    from wakeful.cli.printing import many, put_json, put_line
    from wakeful.looking.schedules import count_of, plain_row
    from wakeful.values.ids import ObjectId

    id = None if wanted.cls is None or wanted.key is None else ObjectId(wanted.cls, wanted.key)
    async with viewing(url) as view:
        if id is not None:
            await info_of(view, id)
        found, is_more = await _rows(view, wanted, limit)
        total = await count_of(view, id, wanted) if is_more and id is not None else None
        hint = "" if found or as_json else await instead(view, wanted.cls)
    if as_json:
        put_json([plain_row(row) for row in found])
        return
    if not found:
        how = " match" if wanted.tag or wanted.state or wanted.contains else ""
        put_line(f"no schedules of {wanted.cls}{hint}" if hint else f"no schedules{how}", "dim")
        return
    put_rows(found, with_sums=id is not None, with_object=id is None)
    if is_more:
        of = "" if total is None else f" of {many(total, 'schedule')}"
        put_line(f"the first {len(found):,}{of}; -n shows more", "dim")


async def _rows(view: "View", wanted: "Wanted", limit: int) -> tuple[list["Row"], bool]:
    """As many as were asked for, though pages of what a filter thins out may be short; and whether there are more."""
    from wakeful.looking.schedules import rows

    found: list[Row] = []
    cursor = None
    while True:
        page = await rows(view, wanted, limit - len(found), cursor)
        found += page.rows
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return found[:limit], cursor is not None or len(found) > limit


def spec_shown(record: "Record") -> str:
    """The spec, short: an interval without the instant that it is counted from."""
    from wakeful.logic.specs.interval import Interval
    from wakeful.logic.timeline import spec_of

    version = record.version
    return version.asked if isinstance(spec_of(version.spec), Interval) else version.spec


def put_rows(rows: list["Row"], *, with_sums: bool, with_object: bool = False, indent: int = 0) -> None:
    """For people: what, how it stands, when next, what came of the last."""
    from wakeful.cli.printing import now_ms, put_table, relative
    from wakeful.values.times import from_datetime

    now = now_ms()
    table: list[tuple[object, ...]] = []
    for row in rows:
        one, sums = row.schedule, row.record.counters
        upcoming = "" if one.next_at is None else relative(from_datetime(one.next_at), now)
        last = "" if row.last is None else f"{row.last.verdict} {relative(from_datetime(row.last.nominal_at), now)}"
        cells: tuple[object, ...] = (
            one.name,
            spec_shown(row.record),
            one.state,
            upcoming,
            last,
            sums.runs,
            sums.failures,
            sums.missed,
        )
        cells = cells if with_sums else cells[:5]
        table.append((str(row.id), *cells) if with_object else cells)
    columns = ["schedule", "…spec", "state", "next", "last", ">runs", ">failed", ">missed"]
    columns = columns if with_sums else columns[:5]
    put_table(["object", *columns] if with_object else columns, table, indent=indent)
