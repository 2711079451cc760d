"""Layer 5. `wakeful show`: one object with everything it has, without waking it."""

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import known_names, options

if TYPE_CHECKING:
    from wakeful.values.commits import Info
    from wakeful.values.ids import ObjectId
    from wakeful.values.timers import Entry, Parked
    from wakeful.views.due import DueRow


@options.command("show")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.option("--chart", "is_chart", is_flag=True, help="Draw the chart of a Machine as SVG, with where it is.")
@click.option(
    "--output", "-o", metavar="FILE.svg", type=click.Path(path_type=Path), help="Where to draw.  [default: stdout]"
)
@options.app_option("With --chart, when no process runs the store: the program that has the chart.")
@options.limit_option(50)
@options.store_option
def show(
    cls: str, key: str, is_chart: bool, output: Path | None, target: str | None, limit: int, url: str, as_json: bool
) -> None:
    """Show one object: state, keys with their values, schedules, timers, parked, the last runs. Doesn't wake it."""
    if is_chart:
        from wakeful.cli.pictures import show_chart

        asyncio.run(show_chart(cls, key, output, target, url, as_json=as_json))
        return
    if output is not None or target is not None:
        raise click.UsageError("--output and --app go with --chart")
    asyncio.run(_show(cls, key, limit, url, as_json))


async def _show(cls: str, key: str, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.schedules import put_rows
    from wakeful.cli.session import viewing
    from wakeful.store.protocol import Query, Range
    from wakeful.values.commits import STATE_SLOT, USER
    from wakeful.values.ids import ObjectId
    from wakeful.views import databases, due, machines, migrations, objects, schedules

    id = ObjectId(cls, key)
    async with viewing(url) as view:
        info, store = await info_of(view, id), view.store_of(id)
        if as_json:
            put_json(await objects.show(view, id, limit))
            return
        state = await store.read(id, STATE_SLOT[0], [STATE_SLOT[1]])
        rows = await store.scan(id, USER, Range(limit=limit + 1))
        query = Query(cls=cls, key=key, limit=limit)
        timers = await due.stand(view, await store.find_timers(query), is_named=True)
        parked = await store.find_parked(query)
        entries = [entry for _, entry in await store.find_entries(Query(cls=cls, key=key, limit=objects.LEDGER_ROWS))]
        own_schedules = await schedules.rows(view, schedules.ScheduleFilter(cls, key), limit)
        machine = await machines.kept_of(store, id)
        done = await migrations.number_of(store, id)
        database_bytes = await databases.size_of(store, id)
    _put_head(info, done)
    if machine is not None:
        _put_machine(machines.plain_machine(machine))
    _put_rows(state.get(STATE_SLOT[1]), rows, limit, has_more=machine is not None or database_bytes > 0)
    if database_bytes:
        _put_database(id, database_bytes)
    if own_schedules.rows:
        _title("schedules")
        put_rows(own_schedules.rows, with_sums=False, indent=2)
    if own_schedules.cursor is not None:
        put_line(f"  the first {limit:,} schedules; -n shows more", "dim")
    _put_timers(timers, parked)
    _put_ledger(entries)


def _put_head(info: "Info", done: int) -> None:
    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import many, now_ms, put_line, relative, size

    now = now_ms()
    put_line(one_line(str(info.id)), "bold")
    put_line(
        f"  created {relative(info.created_at, now)}, last active {relative(info.active_at, now)}, "
        f"{many(info.rows, 'row')}, {size(info.bytes)}" + (f", {many(done, 'migration')}" if done else ""),
        "dim",
    )


def _put_machine(machine: dict[str, Any]) -> None:
    from wakeful.cli.output import put_table
    from wakeful.views.plain import text

    _title("machine")
    rows = [(name, text(value)) for name, value in machine.items() if value is not None and value != []]
    put_table(["field", "…value"], rows, indent=2)


def _put_rows(state: bytes | None, rows: list[tuple[str, bytes]], limit: int, *, has_more: bool = False) -> None:
    from wakeful.cli.output import put_line, put_table
    from wakeful.values.codec import decode_loosely
    from wakeful.views.plain import plain, text, text_of

    if state is not None:
        _title("state")
        fields = plain(decode_loosely(state))
        put_table(["field", "…value"], [(name, text(value)) for name, value in fields.items()], indent=2)
    if rows:
        _title("storage")
        put_table(["key", "…value"], [(name, text_of(data)) for name, data in rows[:limit]], indent=2)
    if len(rows) > limit:
        put_line(f"  the first {limit:,} keys; -n shows more", "dim")
    if state is None and not rows and not has_more:
        put_line("  nothing stored", "dim")


def _put_database(id: "ObjectId", count: int) -> None:
    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import put_line, size

    _title("database")
    put_line(one_line(f"  {size(count)}; wakeful sql {id.cls} {shlex.quote(id.key)} looks into it"))


def _put_timers(timers: list["DueRow"], parked: list["Parked"]) -> None:
    from wakeful.cli.due import put_timers
    from wakeful.cli.parked import put_parked

    if timers:
        _title("timers")
        put_timers(timers, with_object=False, indent=2)
    if parked:
        _title("parked")
        put_parked(parked, with_object=False, indent=2)


def _put_ledger(entries: list["Entry"]) -> None:
    from wakeful.cli.output import clock_time, length, put_table
    from wakeful.views.timer_names import name_words

    if not entries:
        return
    _title("last runs")
    put_table(
        ["fired", "timer", "verdict", "attempt", "late", "took", "…error"],
        [
            (
                clock_time(entry.fired_at),
                name_words(entry.name),
                entry.verdict,
                entry.attempt + 1 if entry.verdict in ("run", "failed") else "",
                length(max(0, entry.fired_at - entry.nominal_at)),
                length(entry.finished_at - entry.fired_at),
                entry.error or "",
            )
            for entry in entries
        ],
        indent=2,
    )


def _title(text: str) -> None:
    from wakeful.cli.output import put_line

    put_line()
    put_line(f"  {text}", "bold cyan")
