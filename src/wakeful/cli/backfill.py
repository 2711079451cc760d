"""Layer 5. `wakeful backfill`: run what a schedule would have run in a stretch of time, or see what that is."""

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import CommandError, one_line

if TYPE_CHECKING:
    from wakeful.store.protocol import Store
    from wakeful.values.ids import ObjectId
    from wakeful.views.ledger import Stretch
    from wakeful.views.view import View

LOOK_S = 0.2


@options.command("backfill")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.argument("schedule", shell_complete=known_names.schedules)
@click.option("--from", "start", metavar="TIME", required=True, help="The first instant of the range.")
@click.option("--to", "end", metavar="TIME", required=True, help="The first instant after the range.")
@click.option("--dry-run", is_flag=True, help="Only list them, with the verdicts that the ledger has; wakes nothing.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def backfill(
    cls: str,
    key: str,
    schedule: str,
    start: str,
    end: str,
    dry_run: bool,
    yes: bool,
    target: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Run every occurrence of SCHEDULE from --from up to but not at --to, whatever came of it before.

    What is still to come is left out: it will run by itself. Oldest first, beside the schedule's own times, under the versions that were in force then. TIME is like
    2026-03-29T02:30 or 2026-03-29, in the schedule's zone unless it has an offset.
    """
    asyncio.run(_backfill(cls, key, schedule, start, end, dry_run, yes, target, url, as_json))


async def _backfill(
    cls: str,
    key: str,
    name: str,
    start: str,
    end: str,
    dry_run: bool,
    yes: bool,
    target: str | None,
    url: str,
    as_json: bool,
) -> None:
    from wakeful.cli.known_names import guessing, info_of
    from wakeful.cli.output import is_watched, many, put_json, put_line
    from wakeful.cli.session import hand, reaching, viewing
    from wakeful.values.ids import ObjectId
    from wakeful.values.times import to_datetime
    from wakeful.views.ledger import backfills

    id = ObjectId(cls, key)
    async with viewing(url) as view:
        await info_of(view, id)
        async with guessing(view, id, name):
            stretch = await _stretch_of(view, id, name, start, end)
    if dry_run:
        _put(id, name, stretch, view.now(), as_json)
        return
    count = len(stretch.times)
    if not yes and count and sys.stdin.isatty() and sys.stdout.isatty():
        put_line(one_line(f"{id} {name}: {many(count, 'occurrence')} {_stretch(stretch)}"))
        if not click.confirm("run them?"):
            raise CommandError("nothing was done", code="backfill.declined")
    is_over = False
    async with reaching(url, target, what="backfill", id=id) as reached:
        others = await backfills(reached.at(id), id, name)
        # The same range once more, before it is over: whoever asks was cut off, and does not want each to run twice.
        before = next((lane for lane, one in others.items() if one.is_of(stretch.times)), None)
        if before is not None:
            runs = others.pop(before).ahead
        else:
            runs = len(await hand(reached).backfill(id, name, to_datetime(stretch.first), to_datetime(stretch.last)))
        # A program of ours ends with this command, so it has to be waited for; else only for somebody who watches.
        if runs and (reached.is_ours or (is_watched() and not as_json)):
            is_over = await _follow(reached.at(id), id, name, set(others), runs, is_shown=not as_json)
    if as_json:
        put_json({"runs": runs, "was_under_way": before is not None})
    elif runs:
        how = "are over" if is_over else "run now, oldest first"
        if before is not None:
            how = f"had been begun already; the {runs:,} that were left {how}"
        put_line(one_line(f"{id} {name}: {many(count, 'occurrence')} {_stretch(stretch)} {how}"))
    else:
        put_line(one_line(f"{id} {name} has no occurrence in that range{_until(stretch)}"), "dim")


async def _follow(store: "Store", id: "ObjectId", name: str, others: set[str], total: int, *, is_shown: bool) -> bool:
    """Watch them until the last is over, well or not; those of `others` were there before."""
    from wakeful.cli.output import bar
    from wakeful.views.ledger import backfills

    before = total
    with bar("backfill", total, is_shown=is_shown) as step:
        while True:
            found = await backfills(store, id, name)
            left = sum(one.ahead for lane, one in found.items() if lane not in others)
            step(before - left)
            before = left
            if not left:
                return True
            await asyncio.sleep(LOOK_S)


async def _stretch_of(view: "View", id: "ObjectId", name: str, start: str, end: str) -> "Stretch":
    from wakeful.cli.instants import instant
    from wakeful.policy.plan import spec_of
    from wakeful.schedules.nights import zone_name
    from wakeful.schedules.queries import record_of
    from wakeful.values.errors import BadOption
    from wakeful.views.ledger import stretch

    record = await record_of(view.store_of(id), id, name)
    zone = zone_name(spec_of(record.version.spec))
    first, last = instant(start, zone, what="--from"), instant(end, zone, what="--to")
    if last <= first:
        raise BadOption(f"--to {end} is not after --from {start}", code="schedule.backfill")
    return await stretch(view, id, name, first, last)


def _put(id: "ObjectId", name: str, found: "Stretch", now: int, as_json: bool) -> None:
    from wakeful.cli.output import many, put_json, put_line, put_table
    from wakeful.schedules.nights import local_time
    from wakeful.schedules.words import moment
    from wakeful.views.ledger import known, plain_known

    rows = known(found, now)
    if as_json:
        put_json([plain_known(at, run, said, found.zone) for at, run, said in rows])
        return
    if not rows:
        put_line(one_line(f"{id} {name} has no occurrence in that range{_until(found)}"), "dim")
        return
    table: list[tuple[Any, ...]] = []
    for at, run, said in rows:
        day = f"{local_time(at, found.zone):%a}"
        table.append((day, moment(at, found.zone), "" if run is None else run.verdict, said))
    put_table(["day", found.zone, "verdict", "why"], table)
    left = "; what is still to come will run by itself" if found.has_ahead else ""
    put_line(f"{many(len(rows), 'occurrence')} would run; without --dry-run they do{left}", "dim")


def _until(found: "Stretch") -> str:
    return " until now; what is still to come will run by itself" if found.has_ahead else ""


def _stretch(found: "Stretch") -> str:
    from wakeful.schedules.words import moment

    if not found.times:
        return ""
    return f"from {moment(found.times[0], found.zone)} to {moment(found.times[-1], found.zone)} in {found.zone}"
