"""Layer 5. `wakeful backfill`: run what a schedule would have run in a stretch of time, or see what that is."""

import asyncio
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from wakeful.cli import options
from wakeful.cli.failing import CommandError, one_line

if TYPE_CHECKING:
    from wakeful.schedules.words import About
    from wakeful.store.protocol import Store
    from wakeful.values.ids import ObjectId
    from wakeful.values.runs import Run


class Range(NamedTuple):
    """What a backfill means: which occurrences, and what the ledger knows of each."""

    zone: str
    first: int
    last: int
    times: list[int]
    about: "About"


@options.command("backfill")
@click.argument("cls", metavar="CLASS")
@click.argument("key")
@click.argument("schedule")
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

    Oldest first, beside the schedule's own times, under the versions that were in force then. TIME is like
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
    from wakeful.cli.asking import ask
    from wakeful.cli.finding import reading
    from wakeful.cli.printing import many, put_json, put_line
    from wakeful.cli.schedules import check_object
    from wakeful.values.ids import ObjectId
    from wakeful.values.times import to_datetime

    id = ObjectId(cls, key)
    async with reading(url) as store:
        await check_object(store, id)
        found = await _range(store, id, name, start, end)
    if dry_run:
        _put(id, name, found, as_json)
        return
    count = len(found.times)
    if not yes and count and sys.stdin.isatty() and sys.stdout.isatty():
        put_line(one_line(f"{id} {name}: {many(count, 'occurrence')} {_stretch(found)}"))
        if not click.confirm("run them?"):
            raise CommandError("nothing was done", code="backfill.declined")
    settings = {"request_key": None, "deadline_ms": None}
    args = (name, to_datetime(found.first), to_datetime(found.last))
    done = await ask(id, "schedules.backfill", args, {}, url=url, target=target, what="backfill", settings=settings)
    if as_json:
        put_json({"runs": len(done)})
    elif done:
        put_line(one_line(f"{id} {name}: {many(len(done), 'occurrence')} {_stretch(found)} run now, oldest first"))
    else:
        put_line(one_line(f"{id} {name} has no occurrence in that range"), "dim")


async def _range(store: "Store", id: "ObjectId", name: str, start: str, end: str) -> Range:
    from wakeful.cli.instants import instant
    from wakeful.logic.timeline import spec_of
    from wakeful.schedules.nights import zone_name
    from wakeful.schedules.reading import parked_of, record_of, runs_since
    from wakeful.schedules.schedules import backfill_times
    from wakeful.schedules.words import About
    from wakeful.values.errors import BadOption

    record = await record_of(store, id, name)
    zone = zone_name(spec_of(record.version.spec))
    first, last = instant(start, zone, what="--from"), instant(end, zone, what="--to")
    if last <= first:
        raise BadOption(f"--to {end} is not after --from {start}", code="schedule.backfill")
    times = backfill_times(name, record, first, last)
    runs = await runs_since(store, id, name, first)
    return Range(zone, first, last, times, About(record, runs, await parked_of(store, id, name)))


def _put(id: "ObjectId", name: str, found: Range, as_json: bool) -> None:
    from wakeful.cli.printing import iso, many, put_json, put_line, put_table
    from wakeful.schedules.nights import local_time
    from wakeful.schedules.words import moment

    rows = _known(found)
    if as_json:
        put_json(
            [
                {
                    "nominal_at": iso(at),
                    "local": local_time(at, found.zone).isoformat(),
                    "verdict": None if run is None else run.verdict,
                    "why": said,
                }
                for at, run, said in rows
            ]
        )
        return
    if not rows:
        put_line(one_line(f"{id} {name} has no occurrence in that range"), "dim")
        return
    table: list[tuple[Any, ...]] = []
    for at, run, said in rows:
        day = f"{local_time(at, found.zone):%a}"
        table.append((day, moment(at, found.zone), "" if run is None else run.verdict, said))
    put_table(["day", found.zone, "verdict", "why"], table)
    put_line(f"{many(len(rows), 'occurrence')} would run; without --dry-run they do", "dim")


def _known(found: Range) -> list[tuple[int, "Run | None", str]]:
    """Each occurrence with the newest verdict about it, and why; or what there is to say when the ledger has none."""
    from wakeful.cli.printing import now_ms
    from wakeful.schedules.reading import verdicts_at
    from wakeful.schedules.words import because, fate
    from wakeful.values.times import from_datetime

    record, now = found.about.record, now_ms()
    assert record is not None
    own = {from_datetime(run.nominal_at): run for run in reversed(found.about.runs)}
    stretches = [run for run in found.about.runs if run.covers > 1]
    rows: list[tuple[int, Run | None, str]] = []
    for at in found.times:
        run = own.get(at) or next(iter(verdicts_at(stretches, at)), None)
        if run is not None:
            said = because(run, found.about)
        elif at <= record.versions[0].since:
            said = "before the schedule was made"
        else:
            said = fate(record, at, now)
        rows.append((at, run, said))
    return rows


def _stretch(found: Range) -> str:
    from wakeful.schedules.words import moment

    if not found.times:
        return ""
    return f"from {moment(found.times[0], found.zone)} to {moment(found.times[-1], found.zone)} in {found.zone}"
