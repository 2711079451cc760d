"""Layer 5. `wakeful schedules`: which schedules does an object have, and how do they do?"""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from wakeful.cli import completion_names, options

if TYPE_CHECKING:
    from wakeful.schedules.records import Record
    from wakeful.views.schedules import ScheduleFilter, ScheduleRow
    from wakeful.views.view import View


@options.command("schedules")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=completion_names.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=completion_names.keys)
@click.option("--contains", metavar="TEXT", help="Only those with this text in their name or their object's key.")
@click.option("--tag", metavar="TAG", help="Only those with this tag.")
@click.option(
    "--state", type=click.Choice(["active", "paused", "waiting", "done", "retired"]), help="Only those in this state."
)
@click.option("--all", "everything", is_flag=True, help="Look through all objects for those without a next time.")
@options.limit_option(50)
@options.store_option
def schedules(
    cls: str | None,
    key: str | None,
    contains: str | None,
    tag: str | None,
    state: str | None,
    everything: bool,
    limit: int,
    url: str,
    as_json: bool,
) -> None:
    """List schedules: spec, state, next time, last verdict and sums. Doesn't wake their objects.

    Those of the object CLASS/KEY by name; those of CLASS, or all, soonest first, and then the ones that have ended.
    The latter, and others without a next time, are looked for in the first objects only, unless --all or --state asks for them.
    """
    from wakeful.views.schedules import ScheduleFilter

    is_wide = everything or state is not None
    asyncio.run(_schedules(ScheduleFilter(cls, key, tag, state, contains), is_wide, limit, url, as_json))


async def _schedules(wanted: "ScheduleFilter", is_wide: bool, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.output import many, put_json, put_line
    from wakeful.cli.progress import pulse
    from wakeful.cli.store_session import viewing
    from wakeful.cli.suggestions import info_of, instead
    from wakeful.values.ids import ObjectId
    from wakeful.views.schedules import OBJECTS_MAX, count_of, plain_row

    id = None if wanted.cls is None or wanted.key is None else ObjectId(wanted.cls, wanted.key)
    async with viewing(url) as view:
        if id is not None:
            await info_of(view, id)
        with pulse("look", is_shown=is_wide and not as_json):
            found, cursor = await _rows(view, wanted, limit, is_wide=is_wide)
        is_more = cursor is not None and len(found) == limit
        total = await count_of(view, id, wanted) if is_more and id is not None else None
        hint = "" if found or as_json else await instead(view, wanted.cls)
    unseen = f"; those without a next time were looked for in the first {OBJECTS_MAX:,} objects, --all looks on"
    if as_json:
        put_json([plain_row(row) for row in found])
        if cursor is not None and not is_more:
            print(f"note{unseen.replace(';', ':')}", file=sys.stderr)
        return
    if not found:
        how = " match" if wanted.tag or wanted.state or wanted.contains else ""
        put_line(
            f"no schedules of {wanted.cls}{hint}" if hint else f"no schedules{how}{unseen if cursor else ''}", "dim"
        )
        return
    put_rows(found, with_sums=id is not None, with_object=id is None)
    if is_more:
        of = "" if total is None else f" of {many(total, 'schedule')}"
        put_line(f"the first {len(found):,}{of}; -n shows more", "dim")
    elif cursor is not None:
        put_line(f"{many(len(found), 'schedule')}{unseen}", "dim")


async def _rows(
    view: "View", wanted: "ScheduleFilter", limit: int, *, is_wide: bool
) -> tuple[list["ScheduleRow"], str | None]:
    """As many as were asked for, though pages of what a filter thins out may be short; and where the rest begins.

    Unless it is wide, one page looks for those without a next time: each object has to be asked, of a million.
    """
    from wakeful.views.schedules import is_among_ended, rows

    found: list[ScheduleRow] = []
    cursor = None
    while True:
        page = await rows(view, wanted, limit - len(found), cursor)
        found += page.rows
        cursor = page.cursor
        if cursor is None or len(found) >= limit or (is_among_ended(view, cursor) and not is_wide):
            return found, cursor


def spec_shown(record: "Record") -> str:
    """The spec, short: an interval without the instant that it is counted from."""
    from wakeful.policy.timeline import spec_of
    from wakeful.specs.interval import Interval

    version = record.version
    return version.asked if isinstance(spec_of(version.spec), Interval) else version.spec


def put_rows(rows: list["ScheduleRow"], *, with_sums: bool, with_object: bool = False, indent: int = 0) -> None:
    """For people: what, how it stands, when next, what came of the last."""
    from wakeful.cli.output import now_ms, put_table, relative
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
