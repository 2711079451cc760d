"""Layer 5. `wakeful why`: why did a schedule run or not, and what is to come?"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from wakeful.cli import known_names, options

if TYPE_CHECKING:
    from wakeful.schedules.records import Record
    from wakeful.schedules.words import About
    from wakeful.store.protocol import Store
    from wakeful.values.ids import ObjectId
    from wakeful.values.timers import Run


UPCOMING = 5


@options.command("why")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.argument("schedule", shell_complete=known_names.schedules)
@click.option(
    "--at", metavar="TIME", help="Only about this occurrence, in the schedule's zone unless it has an offset."
)
@options.limit_option(20)
@options.store_option
def why(cls: str, key: str, schedule: str, at: str | None, limit: int, url: str, as_json: bool) -> None:
    """Say how SCHEDULE of CLASS/KEY stands, and why each of its latest occurrences ran or did not.

    Newest first, in the schedule's zone. Doesn't wake the object.
    """
    asyncio.run(_why(cls, key, schedule, at, limit, url, as_json))


async def _why(cls: str, key: str, name: str, at: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import guessing, info_of
    from wakeful.cli.output import put_json
    from wakeful.cli.session import viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views.schedules import about_of, line_words, show

    id = ObjectId(cls, key)
    async with viewing(url) as view:
        await info_of(view, id)
        now, store = view.now(), view.store_of(id)
        async with guessing(view, id, name):
            about = await about_of(store, id, name, limit=limit)
        waits = await line_words(view, id, name, is_named=True)
        if as_json and at is None:
            put_json(await show(view, id, name, limit=limit, upcoming=UPCOMING))
            return
        if at is not None:
            await _put_one(store, id, name, at, about, now, as_json)
            return
    _put_head(id, name, about.record, now, waits)
    if about.record is not None:
        _put_standing(about.record, about.zone, now)
    _put_verdicts(about.runs[:limit], about)


# one occurrence


async def _put_one(
    store: "Store", id: "ObjectId", name: str, text: str, about: "About", now: int, as_json: bool
) -> None:
    """The verdict of one occurrence, or why there is none."""
    from wakeful.cli.instants import instants
    from wakeful.cli.output import iso, put_json, put_line
    from wakeful.schedules.queries import runs_since, verdicts_at
    from wakeful.schedules.words import About, fate, is_occurrence, moment
    from wakeful.views.ledger import plain_run

    times = instants(text, about.zone, what="--at")
    record = about.record
    runs = await runs_since(store, id, name, min(times))
    shown: list[tuple[int, list[Run], str]] = []
    for time in times:
        at = _meant(time, record, runs)
        rows = verdicts_at(runs, at)
        shown.append((at, rows, "" if rows else "the schedule is gone" if record is None else fate(record, at, now)))
    if len(shown) > 1:  # the clocks show it twice: one that is an occurrence says more than one that is not
        known = [one for one in shown if one[1] or (record is not None and is_occurrence(record, one[0]))]
        shown = known or shown[:1]
    whole = About(record, runs, about.parked)
    if as_json:
        answer = [
            {"at": iso(at), "fate": text or None, "verdicts": [plain_run(run, whole) for run in rows]}
            for at, rows, text in shown
        ]
        put_json({"class": id.cls, "key": id.key, "schedule": name, "zone": about.zone, "occurrences": answer})
        return
    for at, rows, text in shown:
        put_line(f"{id} {name}, {moment(at, about.zone)} in {about.zone}", "bold")
        if rows:
            _put_runs(rows, whole)
        else:
            put_line(f"  {text}")


def _meant(at: int, record: "Record | None", runs: Sequence["Run"]) -> int:
    """The occurrence that is shown as this time: people see, and so write, no parts of a second."""
    from wakeful.values.times import from_datetime

    known = [from_datetime(when) for run in runs for when in (run.nominal_at, run.first_at) if when is not None]
    to_come = None if record is None else record.timeline.next_ms(at - 1)
    if to_come is not None:
        known.append(to_come)
    return at if at % 1_000 else min((one for one in known if at <= one < at + 1_000), default=at)


# for people


def _put_head(id: "ObjectId", name: str, record: "Record | None", now: int, waits: str | None) -> None:
    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import put_line
    from wakeful.policy.plan import spec_of
    from wakeful.schedules.words import standing

    put_line(one_line(f"{id} {name}"), "bold")
    if record is not None:
        put_line(f"  {spec_of(record.version.spec).describe()}")
        put_line(f"  {record.version.spec}", "cyan")
    state = one_line(standing(record, now))
    put_line(f"  {state}", "green" if state == "active" else "yellow")
    if waits is not None:
        put_line(one_line(f"  what is due waits: {waits}"), "yellow")


def _put_standing(record: "Record", zone: str, now: int) -> None:
    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import length, many, put_line, put_table, relative
    from wakeful.schedules.schedules import next_times
    from wakeful.schedules.words import moment
    from wakeful.values.times import from_datetime
    from wakeful.views.arguments import read, words

    options, sums = record.options, record.counters
    put_line(
        f"  runs {options.handler}, catch_up={options.policy.catch_up}, overlap={options.policy.overlap}, "
        f"{many(options.retry.max_attempts, 'attempt')}"
        + (f", tags {', '.join(options.tags)}" if options.tags else ""),
        "dim",
    )
    if options.args is not None:
        put_line(one_line(f"  called with {words(read(options.args, is_masked=False))}"), "dim")
    others = (("overlap", sums.overlap), ("paused", sums.paused), ("gap", sums.gap))
    parts = [
        many(sums.runs, "run"),
        f"{sums.failures:,} failed",
        f"{sums.retries:,} retried",
        f"{sums.missed:,} missed",
    ]
    parts += [f"{count:,} {name}" for name, count in others if count]
    put_line(f"  {', '.join(parts)}", "dim")
    if sums.average_lateness_ms is not None and sums.p99_lateness_ms is not None:
        average, most = length(round(sums.average_lateness_ms)), length(sums.p99_lateness_ms + 1)
        put_line(f"  late by {average} on average, 99 of 100 by less than {most}", "dim")
    if len(record.versions) > 1 or record.version.until is not None:
        _title("versions")
        versions = [
            (v.number, moment(v.since, zone), "" if v.until is None else moment(v.until, zone), v.spec)
            for v in reversed(record.versions)
        ]
        put_table([">number", "since", "until", "…spec"], versions, indent=2)
    upcoming = next_times(record, now, UPCOMING)
    if upcoming:
        _title("next")
        times = [from_datetime(when) for when in upcoming]
        rows = [(_weekday(at, zone), moment(at, zone), relative(at, now), _note(record, at)) for at in times]
        width = 4 if any(row[3] for row in rows) else 3
        put_table(["day", zone, "", "note"][:width], [row[:width] for row in rows], indent=2)


def _put_verdicts(runs: Sequence["Run"], about: "About") -> None:
    from wakeful.cli.output import put_line

    _title("verdicts")
    if runs:
        _put_runs(runs, about)
    else:
        has_had = about.record is not None and about.record.counters.occurrences > 0
        put_line("  none kept" if has_had else "  none yet", "dim")


def _put_runs(runs: Sequence["Run"], about: "About") -> None:
    from wakeful.cli.output import length, put_table
    from wakeful.schedules.words import because, moment
    from wakeful.values.times import from_datetime

    rows = []
    for run in runs:
        at, fired_at = from_datetime(run.nominal_at), from_datetime(run.fired_at)
        shown = moment(at, about.zone)
        if run.covers > 1 and run.first_at is not None:
            shown = f"{moment(from_datetime(run.first_at), about.zone)} … {shown} ({run.covers:,})"
        rows.append(
            (
                shown,
                _fired_words(fired_at, at, about.zone),
                length(max(0, fired_at - at)),
                run.verdict,
                because(run, about),
            )
        )
    put_table([about.zone, "decided", ">late", "verdict", "~why"], rows, indent=2)


def _fired_words(fired_at: int, at: int, zone: str) -> str:
    """When it was decided about, without the day when that is the day it is of."""
    from wakeful.schedules.nights import local_time

    fired = local_time(fired_at, zone)
    return f"{fired:%H:%M:%S}" if fired.date() == local_time(at, zone).date() else f"{fired:%m-%d %H:%M:%S}"


def _weekday(at: int, zone: str) -> str:
    from wakeful.schedules.nights import local_time

    return f"{local_time(at, zone):%a}"


def _note(record: "Record", at: int) -> str:
    from wakeful.policy.plan import spec_of
    from wakeful.schedules.nights import night_note

    return night_note(spec_of(record.version.spec), at)


def _title(text: str) -> None:
    from wakeful.cli.output import put_line

    put_line()
    put_line(f"  {text}", "bold cyan")
