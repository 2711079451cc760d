"""Layer 5. `wakeful schedules`: which schedules does an object have, and how do they do?"""

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from wakeful.cli import options
from wakeful.cli.failing import CommandError

if TYPE_CHECKING:
    from wakeful.schedules.records import Record
    from wakeful.schedules.schedule import Schedule
    from wakeful.store.protocol import Store
    from wakeful.values.ids import ObjectId
    from wakeful.values.runs import Run


class Row(NamedTuple):
    """One schedule and the latest thing that is known of it."""

    schedule: "Schedule"
    record: "Record"
    last: "Run | None"


@options.command("schedules")
@click.argument("cls", metavar="CLASS")
@click.argument("key")
@click.option("--tag", metavar="TAG", help="Only those with this tag.")
@click.option(
    "--state", type=click.Choice(["active", "paused", "waiting", "done", "retired"]), help="Only those in this state."
)
@options.limit_option(50)
@options.store_option
def schedules(cls: str, key: str, tag: str | None, state: str | None, limit: int, url: str, as_json: bool) -> None:
    """List the schedules of CLASS/KEY: spec, state, next time, last verdict and sums. Doesn't wake it."""
    asyncio.run(_schedules(cls, key, tag, state, limit, url, as_json))


async def _schedules(
    cls: str, key: str, tag: str | None, state: str | None, limit: int, url: str, as_json: bool
) -> None:
    from wakeful.cli.finding import reading
    from wakeful.cli.printing import many, put_json, put_line
    from wakeful.values.ids import ObjectId

    id = ObjectId(cls, key)
    async with reading(url) as store:
        await check_object(store, id)
        rows, total = await rows_of(store, id, limit=limit, tag=tag, state=state)
    if as_json:
        put_json([plain_row(row) for row in rows])
        return
    if not rows:
        put_line("no schedules" + (" match" if tag or state else ""), "dim")
        return
    put_rows(rows, with_sums=True)
    if total > len(rows):
        put_line(f"the first {len(rows):,} of {many(total, 'schedule')}; -n shows more", "dim")


async def check_object(store: "Store", id: "ObjectId") -> None:
    """`CommandError` when there is no such object: asking the node would make one."""
    from wakeful.store.protocol import Query

    if not await store.find_objects(Query(cls=id.cls, key=id.key, limit=1)):
        raise CommandError(f"there is no object {id}; wakeful ls {id.cls} shows which there are", code="object.unknown")


async def rows_of(
    store: "Store", id: "ObjectId", *, limit: int, tag: str | None = None, state: str | None = None
) -> tuple[list[Row], int]:
    """The schedules in the order of their names, and how many there are in all."""
    from wakeful.cli.printing import now_ms
    from wakeful.schedules.reading import records_of, runs_of, seen

    now = now_ms()
    records = {
        name: record
        for name, record in (await records_of(store, id)).items()
        if tag in (None, *record.options.tags) and state in (None, seen(name, record, now).state)
    }
    rows = []
    for name, record in list(records.items())[:limit]:
        runs = await runs_of(store, id, name, limit=1)
        rows.append(Row(seen(name, record, now), record, runs[0] if runs else None))
    return rows, len(records)


def plain_row(row: Row) -> dict[str, Any]:
    """For programs."""
    from wakeful.cli.plain import plain
    from wakeful.cli.printing import iso
    from wakeful.values.times import from_datetime

    one, last = row.schedule, row.last
    return {
        "schedule": one.name,
        "spec": one.text,
        "words": one.spec.describe(),
        "state": one.state,
        "note": one.note,
        "paused_until": None if one.paused_until is None else iso(from_datetime(one.paused_until)),
        "waits_for": one.waits_for,
        "handler": one.handler,
        "is_declared": one.is_declared,
        "version": one.version,
        "next_at": None if one.next_at is None else iso(from_datetime(one.next_at)),
        "tags": list(one.tags),
        "metadata": plain(one.metadata),
        "catch_up": one.catch_up,
        "depends_on": list(one.depends_on),
        "last": None if last is None else {"nominal_at": iso(from_datetime(last.nominal_at)), "verdict": last.verdict},
        "counters": plain_counters(row.record),
    }


def plain_counters(record: "Record") -> dict[str, Any]:
    """The sums, for programs."""
    from wakeful.cli.printing import iso

    counters = record.counters
    names = ("runs", "failures", "retries", "missed", "skipped", "too_late", "coalesced", "overlap", "paused", "gap")
    return {name: getattr(counters, name) for name in names} | {
        "last_run_at": iso(counters.last_run_at),
        "last_duration_ms": counters.last_duration_ms,
        "last_missed_at": iso(counters.last_missed_at),
        "average_lateness_ms": counters.average_lateness_ms,
        "p99_lateness_ms": counters.p99_lateness_ms,
    }


def spec_shown(record: "Record") -> str:
    """The spec, short: an interval without the instant that it is counted from."""
    from wakeful.logic.specs.interval import Interval
    from wakeful.logic.timeline import spec_of

    version = record.version
    return version.asked if isinstance(spec_of(version.spec), Interval) else version.spec


def put_rows(rows: list[Row], *, with_sums: bool, indent: int = 0) -> None:
    """For people: what, how it stands, when next, what came of the last."""
    from wakeful.cli.printing import now_ms, put_table, relative
    from wakeful.values.times import from_datetime

    now = now_ms()
    table = []
    for row in rows:
        one, sums = row.schedule, row.record.counters
        upcoming = "" if one.next_at is None else relative(from_datetime(one.next_at), now)
        last = "" if row.last is None else f"{row.last.verdict} {relative(from_datetime(row.last.nominal_at), now)}"
        cells = (one.name, spec_shown(row.record), one.state, upcoming, last, sums.runs, sums.failures, sums.missed)
        table.append(cells if with_sums else cells[:5])
    columns = ["schedule", "…spec", "state", "next", "last", ">runs", ">failed", ">missed"]
    put_table(columns if with_sums else columns[:5], table, indent=indent)
