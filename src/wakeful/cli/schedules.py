"""Layer 5. `wakeful schedules`, `pause`, `resume`, `fire`, `cancel`: which schedules are there, how do they do, and what can be done to them?"""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import USAGE, CommandError, one_line

if TYPE_CHECKING:
    from wakeful.schedules.records import Record
    from wakeful.values.errors import UnknownSchedule
    from wakeful.views.schedules import ScheduleFilter, ScheduleRow
    from wakeful.views.view import View


@options.command("schedules")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=known_names.keys)
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
    from wakeful.cli.known_names import info_of, instead
    from wakeful.cli.output import many, pulse, put_json, put_line
    from wakeful.cli.session import viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views.schedules import OBJECTS_MAX, count_of, plain_row

    id = None if wanted.cls is None or wanted.key is None else ObjectId(wanted.cls, wanted.key)
    async with viewing(url) as view:
        if id is not None:
            await info_of(view, id)
        with pulse("look", is_shown=is_wide and not as_json):
            listed, cursor = await _rows(view, wanted, limit, is_wide=is_wide)
        is_more = cursor is not None and len(listed) == limit
        total = await count_of(view, id, wanted) if is_more and id is not None else None
        hint = "" if listed or as_json else await instead(view, wanted.cls)
    unseen = f"; those without a next time were looked for in the first {OBJECTS_MAX:,} objects, --all looks on"
    if as_json:
        put_json([plain_row(view, row) for row in listed])
        if cursor is not None and not is_more:
            print(f"note{unseen.replace(';', ':')}", file=sys.stderr)
        return
    if not listed:
        how = " match" if wanted.tag or wanted.state or wanted.contains else ""
        put_line(
            f"no schedules of {wanted.cls}{hint}" if hint else f"no schedules{how}{unseen if cursor else ''}", "dim"
        )
        return
    put_rows(listed, with_sums=id is not None, with_object=id is None)
    if is_more:
        of = "" if total is None else f" of {many(total, 'schedule')}"
        put_line(f"the first {len(listed):,}{of}; -n shows more", "dim")
    elif cursor is not None:
        put_line(f"{many(len(listed), 'schedule')}{unseen}", "dim")


async def _rows(
    view: "View", wanted: "ScheduleFilter", limit: int, *, is_wide: bool
) -> tuple[list["ScheduleRow"], str | None]:
    """As many as were asked for, though pages of what a filter thins out may be short; and where the rest begins.

    Unless it is wide, one page looks for those without a next time: each object has to be asked, of a million.
    """
    from wakeful.views.schedules import is_among_ended, rows

    listed: list[ScheduleRow] = []
    cursor = None
    while True:
        page = await rows(view, wanted, limit - len(listed), cursor)
        listed += page.rows
        cursor = page.cursor
        if cursor is None or len(listed) >= limit or (is_among_ended(view, cursor) and not is_wide):
            return listed, cursor


def spec_shown(record: "Record") -> str:
    """The spec, short: an interval without the instant that it is counted from."""
    from wakeful.policy.plan import spec_of
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
        schedule, sums = row.schedule, row.record.counters
        upcoming = "" if schedule.next_at is None else relative(from_datetime(schedule.next_at), now)
        # When it came to that: the occurrence itself may be of long ago, caught up with or backfilled.
        last = "" if row.last is None else f"{row.last.verdict} {relative(from_datetime(row.last.fired_at), now)}"
        cells: tuple[object, ...] = (
            schedule.name,
            spec_shown(row.record),
            schedule.state,
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


# `wakeful pause`, `resume`, `fire`, `cancel`: what a person does to schedules while the program runs.

F = TypeVar("F", bound=Callable[..., Any])


def _choice(function: F) -> F:
    """CLASS KEY SCHEDULE, or --tag TAG in place of SCHEDULE."""
    function = click.option("--tag", metavar="TAG", help="All with this tag, instead of one by name.")(function)
    function = click.argument("schedule", metavar="[SCHEDULE]", required=False, shell_complete=known_names.schedules)(
        function
    )
    function = click.argument("key", shell_complete=known_names.keys)(function)
    return click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)(function)


_app_option = options.app_option("When no process runs the store: run this program for the length of the command.")


@options.command("pause")
@_choice
@click.option("--note", default="", metavar="TEXT", help="Why; shown wherever the schedule is.")
@click.option("--until", metavar="TIME|LENGTH", help="When it ends by itself: a time, or a length from now like 2h.")
@_app_option
@options.store_option
def pause(
    cls: str,
    key: str,
    schedule: str | None,
    tag: str | None,
    note: str,
    until: str | None,
    target: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Let no occurrence of SCHEDULE run, until `wakeful resume` or --until; each gets the verdict `paused`."""
    asyncio.run(_pause(ScheduleChoice("pause", cls, key, schedule, tag, target, url), note, until, as_json))


@options.command("resume")
@_choice
@_app_option
@options.store_option
def resume(
    cls: str, key: str, schedule: str | None, tag: str | None, target: str | None, url: str, as_json: bool
) -> None:
    """Let SCHEDULE run again from now on. What the pause held stays as it is; see `wakeful backfill`."""
    asyncio.run(_resume(ScheduleChoice("resume", cls, key, schedule, tag, target, url), as_json))


@options.command("fire")
@_choice
@_app_option
@options.store_option
def fire(
    cls: str, key: str, schedule: str | None, tag: str | None, target: str | None, url: str, as_json: bool
) -> None:
    """Run SCHEDULE now, paused or not, beside its own times; prints the ids of the runs."""
    asyncio.run(_fire(ScheduleChoice("fire", cls, key, schedule, tag, target, url), as_json))


@options.command("cancel")
@_choice
@_app_option
@options.store_option
def cancel(
    cls: str, key: str, schedule: str | None, tag: str | None, target: str | None, url: str, as_json: bool
) -> None:
    """End SCHEDULE: it runs no more, and a run of it that is under way is let end. Its past stays in the ledger.

    One that the program declares begins again when its declaration changes.
    `wakeful pause` is for a while; a job is cancelled by its id, with `wakeful jobs cancel`.
    """
    asyncio.run(_cancel(ScheduleChoice("cancel", cls, key, schedule, tag, target, url), as_json))


class ScheduleChoice:
    """Which schedules a command is about, and how to do something to them."""

    def __init__(
        self, command: str, cls: str, key: str, name: str | None, tag: str | None, target: str | None, url: str
    ) -> None:
        from wakeful.schedules.options import check_schedule_name
        from wakeful.values.ids import ObjectId, check_class, check_key

        if (name is None) == (tag is None):
            raise CommandError(
                f"say which: the name of a schedule, or --tag TAG; wakeful schedules {cls} {key} lists them",
                code="usage",
                exit_code=USAGE,
            )
        self.id: ObjectId = ObjectId(check_class(cls), check_key(cls, key))
        self.command = command
        self.name = None if name is None else check_schedule_name(name)
        self.tag = tag
        self._target = target
        self._url = url
        self._names: list[str] = []

    @property
    def which(self) -> str:
        return f"{self.id} {self.name}" if self.name is not None else f"{self.id}, tag {self.tag}"

    async def records(self) -> dict[str, "Record"]:
        """What the store has of them. The object must be there, or asking for it would make it; and the tag must be used."""
        from wakeful.cli.known_names import info_of
        from wakeful.cli.session import viewing
        from wakeful.schedules.queries import records_of
        from wakeful.values.errors import UnknownSchedule

        async with viewing(self._url) as view:
            await info_of(view, self.id)
            found = await records_of(view.store_of(self.id), self.id)
        self._names = list(found)
        if self.name is not None:  # one that the class newly declares is not there before the object wakes
            return {self.name: found[self.name]} if self.name in found else {}
        chosen = {name: record for name, record in found.items() if self.tag in record.options.tags}
        if not chosen:
            tags = sorted({tag for record in found.values() for tag in record.options.tags})
            raise UnknownSchedule(
                f"no schedule of {self.id} has the tag {self.tag!r}; there are {', '.join(tags[:10]) or 'none'}",
                code="schedule.tag",
            )
        return chosen

    async def do(self, act: str, **kwargs: Any) -> Any:
        """Have the node do it, as a turn of the object, with an audit row."""
        from wakeful.cli.known_names import meant
        from wakeful.cli.session import acting
        from wakeful.values.errors import UnknownSchedule

        async with acting(self._url, self._target, what=self.command, id=self.id) as acts:
            try:
                return await getattr(acts, act)(self.id, self.name, tag=self.tag, **kwargs)
            except UnknownSchedule as error:
                hint = meant(self.name or "", self._names)
                raise UnknownSchedule(f"{error.message}{hint}", code=error.code) from None

    def unknown(self) -> "UnknownSchedule":
        """There is none of that name, of which the act itself makes no error."""
        from wakeful.cli.known_names import meant
        from wakeful.values.errors import UnknownSchedule

        known = ", ".join(sorted(self._names)[:10]) or "none"
        return UnknownSchedule(
            f"{self.id} has no schedule {self.name!r}; it has {known}{meant(self.name or '', self._names)}"
        )


async def _pause(asked: ScheduleChoice, note: str, until: str | None, as_json: bool) -> None:
    from wakeful.cli.output import iso, put_json, put_line
    from wakeful.schedules.words import moment
    from wakeful.values.times import to_datetime

    records = await asked.records()
    end = None if until is None else _end(until, records)
    count = await asked.do("pause", note=note, until=None if end is None else to_datetime(end))
    if as_json:
        put_json({"paused": count, "until": iso(end), "note": note})
        return
    zone = _zone(records) or "UTC"
    shown = "until wakeful resume" if end is None else f"until {moment(end, zone)} ({zone})"
    put_line(one_line(f"{_count_words(asked, count)} paused, {shown}"))


async def _resume(asked: ScheduleChoice, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line

    await asked.records()
    count = await asked.do("resume")
    if as_json:
        put_json({"resumed": count})
    elif count:
        put_line(one_line(f"{_count_words(asked, count)} resumed"))
    else:
        put_line(one_line(f"{asked.which} was not paused"), "dim")


async def _fire(asked: ScheduleChoice, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line

    await asked.records()
    ids = await asked.do("trigger")
    if as_json:
        put_json({"runs": ids})
        return
    put_line(one_line(f"{_count_words(asked, len(ids))} runs now: {', '.join(ids)}"))
    if asked.name is not None:
        put_line(one_line(f"wakeful why {asked.id.cls} {asked.id.key} {asked.name} shows what comes of it"), "dim")


async def _cancel(asked: ScheduleChoice, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line

    records = await asked.records()
    if not await asked.do("cancel"):
        raise asked.unknown()
    count = 1 if asked.name is not None else len(records)
    if as_json:
        put_json({"cancelled": count})
        return
    put_line(one_line(f"{_count_words(asked, count)} cancelled, which {'runs' if count == 1 else 'run'} no more"))
    if any(record.is_declared for record in records.values()):
        put_line("what the program declares begins again when its declaration changes", "dim")


def _end(until: str, records: dict[str, "Record"]) -> int:
    from wakeful.cli.instants import instant, is_length
    from wakeful.cli.output import now_ms
    from wakeful.values.times import duration_ms, within_years

    if is_length(until):
        return within_years(now_ms() + duration_ms(until, what="--until"), f"--until {until}")
    return instant(until, _zone(records), what="--until")


def _zone(records: dict[str, "Record"]) -> str | None:
    """The one zone that all of them are in."""
    from wakeful.policy.plan import spec_of
    from wakeful.schedules.nights import zone_name

    zones = {zone_name(spec_of(record.version.spec)) for record in records.values()}
    return zones.pop() if len(zones) == 1 else None


def _count_words(asked: ScheduleChoice, count: int) -> str:
    from wakeful.cli.output import many

    return asked.which if asked.name is not None else f"{asked.which}: {many(count, 'schedule')}"
