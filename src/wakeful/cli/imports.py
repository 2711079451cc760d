"""Layer 5. `wakeful import`: an object that was exported, machines of XState or actor-kit, schedules of APScheduler or Celery."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import FAILED, UNAVAILABLE, USAGE, CommandError, one_line
from wakeful.cli.output import many, now_ms, put_json, put_line, put_table

if TYPE_CHECKING:
    from wakeful.cli.output import Step
    from wakeful.importers.archive import Carried
    from wakeful.importers.findings import FoundMachine
    from wakeful.importers.schedule_import import ImportPlan
    from wakeful.store.protocol import Store
    from wakeful.values.ids import ObjectId


BAR_FROM = 10  # fewer are done before one has looked

Ask = Callable[["ObjectId", tuple[Any, ...], dict[str, Any], bool], Awaitable[dict[str, Any]]]


@options.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "form",
    metavar="FORM",
    help="What it is: wakeful (what export wrote), xstate, actor-kit, apscheduler or celery.",
)
@click.option("--class", "cls", metavar="CLASS", help="The class of the object.  [default: what the file says]")
@click.option("--key", metavar="KEY", help="The key of the object.  [default: what the file says]")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken and what not.")
@click.option("--replace", is_flag=True, help="Put it in the place of a machine that has been started.")
@click.option(
    "--no-delays",
    is_flag=True,
    help="When the file says nothing of delays: set none, instead of counting those of active states anew.",
)
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="TASK=METHOD",
    help="Of a scheduler: which method does what the task did.  [default: the one that is called like it]",
)
@click.option("--table", metavar="NAME", help="Of APScheduler: its table.  [default: apscheduler_jobs]")
@click.option("--from-version", type=click.IntRange(1), metavar="N", help="The chart's version it was written by.")
@options.app_option("When no process runs the store: run this program for the length of the import.")
@options.store_option
def import_(
    file: Path,
    form: str | None,
    cls: str | None,
    key: str | None,
    dry_run: bool,
    replace: bool,
    no_delays: bool,
    maps: tuple[str, ...],
    table: str | None,
    from_version: int | None,
    target: str | None,
    url: str,
    as_json: bool,
) -> None:
    """Bring in what `wakeful export` wrote, or the machines in FILE: snapshots of XState, storage of actor-kit; or the
    schedules of APScheduler (its SQLite job store) or of Celery beat (celerybeat-schedule, or the .py that has it).

    An exported object goes into a store that no process runs, where there is no object of that name; all or nothing.

    Of machines first everything is read and tried: if one machine does not fit its chart, none is imported. Then each becomes an
    object in one commit. The report says what was taken of each and what was not.

    Schedules all go to the object of --class and --key, in one commit; nothing of the file is run.
    """
    form = form or _form_of(file)
    if form in ("apscheduler", "celery"):
        _refuse(form, {"--no-delays": no_delays, "--from-version": from_version})
        asyncio.run(
            settle(
                file,
                form,
                cls,
                key,
                maps=maps,
                table=table,
                target=target,
                url=url,
                is_dry=dry_run,
                replaces=replace,
                as_json=as_json,
            )
        )
        return
    if maps or table:
        raise CommandError("--map and --table are for --as apscheduler and celery", code="usage", exit_code=USAGE)
    if form == "wakeful":
        given = {"--class": cls, "--key": key, "--replace": replace, "--no-delays": no_delays}
        given |= {"--from-version": str(from_version or ""), "--app": target}
        for option, value in given.items():
            if value:
                raise CommandError(
                    f"{option} is for machines; an exported object is what the file says", code="usage", exit_code=USAGE
                )
        asyncio.run(unpack(file, url, is_dry=dry_run, as_json=as_json))
        return
    settings = {"replaces": replace, "restarts": not no_delays, "from_version": from_version}
    asyncio.run(_import(file, form, cls, key, settings, target, url, is_dry=dry_run, as_json=as_json))


def _refuse(form: str, given: dict[str, Any]) -> None:
    for option, value in given.items():
        if value:
            raise CommandError(f"{option} is for machines, not for --as {form}", code="usage", exit_code=USAGE)


def _form_of(file: Path) -> str:
    """`wakeful` if the file begins like that; what else it is, must be said."""
    from wakeful.importers.archive import is_one

    try:
        with file.open("rb") as opening:
            if is_one(opening.read(64)):
                return "wakeful"
    except OSError as error:
        raise CommandError(f"{file} can't be read: {error.strerror}", code="import.file", exit_code=USAGE) from None
    raise CommandError(
        f"{file} is not what wakeful export writes; say what it is: --as xstate, actor-kit, apscheduler or celery",
        code="import.form",
        exit_code=USAGE,
    )


async def _import(
    file: Path,
    form: str,
    cls: str | None,
    key: str | None,
    settings: dict[str, Any],
    target: str | None,
    url: str,
    *,
    is_dry: bool,
    as_json: bool,
) -> None:
    import msgspec

    from wakeful.cli.output import bar
    from wakeful.importers.machine_import import read

    found = [(_id_of(one, cls, key, file), one) for one in read(file, form)]
    _check_twice([id for id, _ in found], file)
    wishes = [(id, (msgspec.to_builtins(one),)) for id, one in found]
    async with _asking(url, target, [id for id, _ in found]) as ask:
        with bar("check", len(wishes), is_shown=not as_json and len(wishes) > BAR_FROM) as step:
            reports, there = await _check(ask, wishes, settings, step, is_dry=is_dry)
        if not is_dry:
            with bar("import", len(wishes), is_shown=not as_json and len(wishes) > BAR_FROM) as step:
                reports = await _all(ask, wishes, settings, step)
    _put(reports, there, is_dry=is_dry, as_json=as_json)


async def _check(
    ask: Ask, wishes: list[tuple["ObjectId", tuple[Any, ...]]], settings: dict[str, Any], step: "Step", *, is_dry: bool
) -> tuple[list[dict[str, Any]], int]:
    """What would be taken, and how many are there because an import of this very file was cut off after them."""
    from wakeful.values.errors import Conflict

    reports: list[dict[str, Any]] = []
    there: list[Conflict] = []
    for id, args in wishes:
        try:
            reports.append(await ask(id, args, settings, True))
        except Conflict as error:
            if is_dry or error.code != "import.exists":
                raise
            reports.append(await ask(id, args, settings, False))  # remembered; what came otherwise is refused again
            there.append(error)
        step(1)
    if len(there) == len(wishes):
        raise there[0]  # nothing was cut off
    return reports, len(there)


async def _all(
    ask: Ask, wishes: list[tuple["ObjectId", tuple[Any, ...]]], settings: dict[str, Any], step: "Step"
) -> list[dict[str, Any]]:
    from wakeful.values.errors import WakefulError

    done: list[dict[str, Any]] = []
    for id, args in wishes:
        try:
            done.append(await ask(id, args, settings, False))
            step(1)
        except WakefulError as error:
            if not done:
                raise
            raise CommandError(
                f"{id}: {error.message}; {len(done)} of {len(wishes)} are imported, up to {done[-1]['key']}: "
                "put that right and run it again, which goes on from there",
                code="import.partly",
                exit_code=FAILED,
            ) from error
    return done


def _id_of(found: "FoundMachine", cls: str | None, key: str | None, file: Path) -> "ObjectId":
    from wakeful.importers.archive import check_own
    from wakeful.values.ids import ObjectId, check_class, check_key

    for name, given, option in ((found.cls, cls, "--class"), (found.key, key, "--key")):
        if given is None and name is None:
            raise CommandError(
                f"{file} does not say which; give {option}", code=f"import.{option[2:]}", exit_code=USAGE
            )
    wanted = check_class(str(cls or found.cls))
    id = ObjectId(wanted, check_key(wanted, str(key or found.key)))
    check_own(id, "import brings")
    return id


def _check_twice(ids: list["ObjectId"], file: Path) -> None:
    twice = next((id for place, id in enumerate(ids) if id in ids[:place]), None)
    if twice is not None:
        raise CommandError(
            f"{file} has {len(ids)} machines and two of them would be {twice}; leave out --key, and give each its own",
            code="import.twice",
            exit_code=USAGE,
        )


@asynccontextmanager
async def _asking(url: str, target: str | None, ids: list["ObjectId"]) -> AsyncIterator[Ask]:
    """Who takes them in: the process that runs the store, or the program for that long.

    An import that is cut off is run again: what it had brought is then answered as it was, and not brought anew.
    """
    from wakeful.cli.session import reaching
    from wakeful.machines.node_machines import IMPORT
    from wakeful.values.codec import encode

    async with reaching(url, target, what="import", id=ids[0]) as reached:

        async def ask(id: "ObjectId", args: tuple[Any, ...], settings: dict[str, Any], is_dry: bool) -> dict[str, Any]:
            key = None
            if not is_dry and not settings["replaces"]:
                key = f"import:{sha256(encode([args, settings])).hexdigest()[:32]}"
            answer = await reached.send(id, IMPORT, args, {**settings, "is_dry": is_dry}, request_key=key)
            assert isinstance(answer, dict)
            return answer

        yield ask


def _put(reports: list[dict[str, Any]], there: int, *, is_dry: bool, as_json: bool) -> None:
    from wakeful.cli.output import many, put_json, put_line, put_table

    if as_json:
        put_json({"is_dry": is_dry, "objects": reports, "there": there})
        return
    for report in reports:
        put_line(f"{report['class']}/{report['key']}", "bold")
        rows = [("taken", *_cells(one)) for one in report["taken"]]
        rows += [("left", *_cells(one)) for one in report["left"]]
        put_table(["", "what", "name", "~"], rows, indent=2)
        put_line()
    if there:
        put_line(f"{there} of them had come before the import was cut off, and were left as they are")
    left = sum(len(report["left"]) for report in reports)
    said = f"{'would import' if is_dry else 'imported'} {many(len(reports), 'object')}"
    put_line(
        f"{said}, and left {many(left, 'thing')} of the file behind" if left else said, "yellow" if left else "green"
    )


def _cells(one: dict[str, str]) -> tuple[str, str, str]:
    return one["what"], one["name"], one["note"]


# `wakeful import` of one object that `wakeful export` wrote, into a store that no process runs.

BYTES_MAX = 256 * 1024 * 1024


async def unpack(file: Path, url: str, *, is_dry: bool, as_json: bool) -> None:
    """Put the object into the store, or only say what that would be."""
    from wakeful.cli.output import pulse
    from wakeful.cli.session import opening, reading
    from wakeful.importers import archive

    with pulse("import", is_shown=not as_json):
        carried = _read_archive(file)
        async with reading(url) as store:
            await _check_idle(store)
            await archive.check_absent(store, carried)
        if not is_dry:
            async with opening(url) as store:  # `FileOwned` when a process has come since
                await archive.unpack(store, carried, name=f"import-{uuid.uuid4().hex[:8]}", now=now_ms())
    _put_archive(carried, url=store.url, is_dry=is_dry, as_json=as_json)


def _read_archive(file: Path) -> "Carried":
    from wakeful.importers import archive
    from wakeful.importers.findings import bad

    try:
        if file.stat().st_size > BYTES_MAX:
            raise bad(str(file), f"it has more than {BYTES_MAX:,} bytes")
        return archive.read(file.read_bytes(), str(file))
    except OSError as error:
        raise bad(str(file), f"it can't be read: {error.strerror}") from None


async def _check_idle(store: "Store") -> None:
    """Nobody owns shards: an owner would not see what is put beside it."""
    from wakeful.views.nodes import members

    alive = (await members(store, now_ms())).alive if store.shared else []
    if alive:
        raise CommandError(
            f"node {alive[0].row.node} ({alive[0].row.about}) runs {store.url}; stop all nodes, import, start them again",
            code="owner.alive",
            exit_code=UNAVAILABLE,
        )


def _put_archive(carried: "Carried", *, url: str, is_dry: bool, as_json: bool) -> None:
    counts = carried.counts()
    if as_json:
        put_json({"is_dry": is_dry, "objects": [{"class": carried.id.cls, "key": carried.id.key, **counts}]})
        return
    put_table(["what", ">rows"], [(name, f"{count:,}") for name, count in counts.items()])
    said = "would import" if is_dry else "imported"
    put_line(one_line(f"{said} {carried.id} into {url}"), "green")
    if not is_dry and carried.timers:
        put_line(
            f"it owes {many(len(carried.timers), 'timer')}: don't let the one that it was made from live on", "yellow"
        )


# `wakeful import` of the schedules that APScheduler or Celery beat had.

FORMS = ("apscheduler", "celery")


async def settle(
    file: Path,
    form: str,
    cls: str | None,
    key: str | None,
    *,
    maps: tuple[str, ...],
    table: str | None,
    target: str | None,
    url: str,
    is_dry: bool,
    replaces: bool,
    as_json: bool,
) -> None:
    """Read the file, have the object take what it can, and say what became of each."""
    import msgspec

    from wakeful.cli.session import ask
    from wakeful.importers.archive import check_own
    from wakeful.importers.feature import SETTLE
    from wakeful.values.ids import ObjectId, check_class, check_key

    if cls is None or key is None:
        raise CommandError(
            f"whose schedules will they be? Give {'--class' if cls is None else '--key'}", code="usage", exit_code=USAGE
        )
    id = ObjectId(check_class(cls), check_key(cls, key))
    check_own(id, "import brings")
    methods = _methods(maps)
    plan = _read_plan(file, form, table)
    wishes = [msgspec.structs.asdict(one) for one in plan.wishes]
    report: dict[str, Any] = await ask(
        id,
        SETTLE,
        (wishes,),
        {"methods": methods, "is_dry": is_dry, "replaces": replaces},
        url=url,
        target=target,
        what="import",
    )
    report["left"] += [{"what": "", "name": name, "note": why} for name, why in plan.left]
    report["note"] = plan.note
    _put_schedules(report, is_dry=is_dry, as_json=as_json)


def _read_plan(file: Path, form: str, table: str | None) -> "ImportPlan":
    if form == "celery":
        from wakeful.importers.celery import read_beat

        if table is not None:
            raise CommandError("--table is for --as apscheduler", code="usage", exit_code=USAGE)
        return read_beat(file)
    from wakeful.importers.apscheduler import TABLE, read_store

    return read_store(file, table or TABLE)


def _methods(maps: tuple[str, ...]) -> dict[str, str]:
    methods = {}
    for text in maps:
        task, equals, method = text.partition("=")
        if not equals or not task or not method:
            raise CommandError(f"--map {text!r}: write it as TASK=METHOD", code="usage", exit_code=USAGE)
        methods[task.replace(":", ".")] = method
    return methods


def _put_schedules(report: dict[str, Any], *, is_dry: bool, as_json: bool) -> None:
    if as_json:
        put_json({"is_dry": is_dry, "objects": [report]})
        return
    rows = [(how, one["name"], one["what"], one["note"]) for how in ("taken", "changed", "left") for one in report[how]]
    put_table(["", "schedule", "was", "~"], rows)
    count, left = len(report["taken"]) + len(report["changed"]), len(report["left"])
    said = (
        f"{'would import' if is_dry else 'imported'} {many(count, 'schedule')} into {report['class']}/{report['key']}"
    )
    said += f", {len(report['changed'])} of them changed" if report["changed"] else ""
    put_line(f"{said}, and left {left} behind" if left else said, "yellow" if left else "green")
    if count:
        put_line(f"of all of them: {report['note']}")
    if count and not is_dry:
        put_line("stop the other scheduler, or each of them runs twice", "yellow")
