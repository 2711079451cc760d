"""Layer 5. `wakeful parked` and `wakeful redrive`: what failed for good, and how is it set due again, or let go?"""

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import FAILED, OK, USAGE, CommandError, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeful.cli.node_access import Peers
    from wakeful.operations.acts import Which
    from wakeful.store.protocol import Store
    from wakeful.transport.control import ControlClient
    from wakeful.values.timers import Parked
    from wakeful.views.parked import PlainParked


@click.group("parked", cls=options.ListingGroup)
def parked() -> None:
    """Timers that failed for good and wait for a person: list them, or drop those that are never to run.

    Without a subcommand it lists. `wakeful redrive` sets them due again.
    """


def choice_options(function: options.F) -> options.F:
    """Which parked timers: their numbers, or all that the filters leave."""
    for option in (
        click.option("--older-than", metavar="LENGTH", help="With --all: only those parked longer ago (7d, 12h)."),
        click.option("--error", metavar="TEXT", help="With --all: only those whose error has this text, in any case."),
        click.option("--prefix", metavar="TEXT", help="With --all: only of objects whose keys begin like that."),
        click.option("--key", metavar="KEY", shell_complete=known_names.keys, help="With --all: only of this object."),
        click.option(
            "--class",
            "cls",
            metavar="CLASS",
            shell_complete=known_names.classes,
            help="With --all: only of this class.",
        ),
        click.option("--all", "everything", is_flag=True, help="All that is parked."),
        click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=int, shell_complete=known_names.parked),
    ):
        function = option(function)
    return function


def _which(
    what: str,
    numbers: tuple[int, ...],
    everything: bool,
    cls: str | None,
    key: str | None,
    prefix: str | None,
    error: str | None,
    older_than: str | None,
) -> "Which":
    from wakeful.operations.acts import Which

    if bool(numbers) == everything:
        raise CommandError(
            f"say what to {what}: numbers from `wakeful parked`, or --all", code="usage", exit_code=USAGE
        )
    if numbers and any(one is not None for one in (prefix, error, older_than)):
        raise CommandError("--prefix, --error and --older-than go with --all", code="usage", exit_code=USAGE)
    return Which(numbers, everything, cls, key, prefix, error, _before(older_than))


def _before(older_than: str | None) -> int | None:
    from wakeful.cli.output import now_ms
    from wakeful.values.times import duration_ms

    return None if older_than is None else now_ms() - duration_ms(older_than, what="--older-than")


@options.command("list")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=known_names.keys)
@click.option("--full", is_flag=True, help="With the traceback of each, and what it was called with.")
@click.option("--prefix", metavar="TEXT", help="Only of objects whose keys begin like that.")
@click.option("--error", metavar="TEXT", help="Only those whose error has this text, in any case.")
@click.option("--older-than", metavar="LENGTH", help="Only those parked longer ago (7d, 12h).")
@options.limit_option(50)
@options.store_option
def listing(
    cls: str | None,
    key: str | None,
    full: bool,
    prefix: str | None,
    error: str | None,
    older_than: str | None,
    limit: int,
    url: str,
    as_json: bool,
) -> None:
    """Timers that failed for good, oldest first, with the number that `wakeful redrive` takes."""
    from wakeful.operations.acts import Which

    which = Which(cls=cls, key=key, prefix=prefix, error=error, before=_before(older_than))
    asyncio.run(_parked(which, full, limit, url, as_json))


async def _parked(which: "Which", full: bool, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import instead
    from wakeful.cli.output import many, put_json, put_line
    from wakeful.cli.session import viewing
    from wakeful.views.parked import plain_rows, rows

    is_filtered = any(one is not None for one in (which.prefix, which.error, which.before))
    async with viewing(url) as view:
        page = await rows(view, which.query(), limit, fits=which.fits)
        parked_rows = page.rows
        while page.cursor is not None and len(parked_rows) < limit:  # a page looks through a bounded number of rows
            page = await rows(view, which.query(), limit - len(parked_rows), page.cursor, which.fits)
            parked_rows += page.rows
        plain = await plain_rows(view, parked_rows) if as_json or full else []
        total = sum([await store.count("parked", cls=which.cls) for store in view.stores])
        hint = "" if parked_rows or as_json else await instead(view, which.cls, which.key)
    if as_json:
        put_json(plain)
        return
    if not parked_rows and is_filtered and total:
        put_line("nothing that is parked fits", "dim")
        return
    if not parked_rows:
        put_none(which.cls, which.key, hint)
        return
    put_parked(parked_rows, with_object=True)
    if full:
        put_traces(plain)
    if page.cursor is not None:
        of = f" of {many(total, 'parked timer')}" if which.key is None and not is_filtered else ""
        put_line(f"the first {len(parked_rows):,}{of}; -n shows more", "dim")


def put_none(cls: str | None, key: str | None, hint: str) -> None:
    """For people: that nothing is, and what was perhaps meant by a class or a key that there is not."""
    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import put_line

    where = "/".join(part for part in (cls, key) if part)
    put_line(one_line(f"nothing of {where} is parked{hint}") if hint else "nothing is parked", "dim")


def put_parked(rows: list["Parked"], *, with_object: bool, indent: int = 0) -> None:
    """For people: which, since when, why."""
    from wakeful.cli.output import clock_time, now_ms, put_table, relative
    from wakeful.views.timer_names import parked_words

    now = now_ms()
    table = []
    for row in rows:
        what, at = parked_words(row.timer), clock_time(row.timer.nominal_at)
        cells = (row.number, str(row.timer.id), what, at, relative(row.parked_at, now), row.attempts, row.error)
        table.append(cells if with_object else (cells[0], *cells[2:]))
    columns = [">number", "object", "timer", "?asked for", "parked", "?attempts", "…error"]
    put_table(columns if with_object else [columns[0], *columns[2:]], table, indent=indent)


def put_traces(rows: list["PlainParked"]) -> None:
    """What each was called with, and its traceback in full."""
    from wakeful.cli.exit_codes import one_screen
    from wakeful.cli.output import put_line
    from wakeful.views.arguments import words
    from wakeful.views.plain import text

    for row in rows:
        put_line()
        put_line(one_line(f"{row['number']}  {row['class']}/{row['key']} {row['words']}"), "bold")
        if row["arguments"] is not None:
            put_line(one_line(f"{row['method']} was called with: {words(row['arguments'])}"))
        if row["metadata"]:
            put_line(one_line(f"metadata: {text(row['metadata'])}"))
        put_line(one_screen(row["traceback"] or row["error"]))


# `wakeful redrive`: set parked timers due again, through the owner or in its absence.

BAR_FROM = 50  # fewer are done before one has looked


@options.command("redrive")
@choice_options
@options.store_option
def redrive(url: str, as_json: bool, **choice: Any) -> int:
    """Set parked timers due again at once, with a fresh count of attempts.

    Give the numbers that `wakeful parked` shows, or --all. The process that runs the store does it;
    without one the timers are set in the store and fire when it starts.
    """
    return asyncio.run(_redrive(_which("redrive", **choice), url, as_json))


async def _redrive(which: "Which", url: str, as_json: bool) -> int:
    from wakeful.cli.joined_stores import check_one
    from wakeful.cli.known_names import instead
    from wakeful.cli.node_access import connecting
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import viewing

    check_one(url)  # numbers are each store's own
    async with viewing(url) as view, connecting(view.stores[0]) as client:
        hint = "" if as_json else await instead(view, which.cls, which.key)
        if client is not None:
            results = await _through(client, view.stores[0], which, is_shown=not as_json)
    if client is None:
        results = await redrive_unowned(url, which, is_shown=not as_json)
    if as_json:
        put_json(results)
    else:
        _put_results(results, "due now")
        if not results:
            put_none(which.cls, which.key, hint)
        elif client is None and any(row["ok"] for row in results):
            put_line("no process runs this store; they fire when one starts", "dim")
    return OK if all(row["ok"] for row in results) else FAILED


def _put_results(results: list[dict[str, Any]], done: str) -> None:
    """For people: what came of each."""
    from wakeful.cli.output import put_line
    from wakeful.views.timer_names import name_words

    for row in results:
        what = f"{row['class']}/{row['key']} {name_words(row['timer'])}: " if row["class"] else ""
        line = f"{row['number']}  {what}" + (done if row["ok"] else str(row["problem"]))
        put_line(one_line(line), "green" if row["ok"] else "red")


async def _through(
    client: "ControlClient | Peers", store: "Store", which: "Which", *, is_shown: bool
) -> list[dict[str, Any]]:
    """The owners do it, with a bar to watch when there are many."""
    from wakeful.cli.output import bar
    from wakeful.cli.session import actor, live
    from wakeful.operations.acts import Acts, finding
    from wakeful.runtime.redrives import REDRIVE, survey

    send = live(client)
    find = finding(store)
    total = (await survey(find, which.query(), fits=which.fits)).total if which.is_all else len(which.numbers)
    with bar("redrive", total, is_shown=is_shown and total > BAR_FROM) as step:

        async def send_counting(id: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            answer = await send(id, method, args, kwargs)
            step(method == REDRIVE)
            return answer

        return await Acts(send_counting, actor(), stores=[store]).redrive(which)


async def redrive_unowned(url: str, which: "Which", *, is_shown: bool = False) -> list[dict[str, Any]]:
    """Do it without the program: own the shards for a moment, commit, release. Needs no classes."""
    from wakeful.cli.output import bar, now_ms
    from wakeful.cli.session import actor, bare, opening
    from wakeful.operations.acts import Acts, finding
    from wakeful.runtime.redrives import NAMED_MAX, each_parked, survey
    from wakeful.transport.control import redriven

    name = f"redrive-{uuid.uuid4().hex[:8]}"
    async with opening(url) as store:
        acts = Acts(bare(store), actor())
        target = "all parked" if which.is_all else f"parked {', '.join(map(str, sorted(which.numbers)[:20]))}"
        find, query = finding(store), which.query()
        surveyed = await survey(find, query, which.numbers, which.fits)
        missing = sorted(set(which.numbers) - set(surveyed.numbers))
        results = [redriven(number, None, "is not parked") for number in missing]
        if not surveyed.total:
            return results
        async with acts.row("redrive", target, {"numbers": surveyed.numbers[:NAMED_MAX]}) as end:
            shards = sorted(surveyed.shards)
            # Only what nobody has taken since: a node that starts this very moment must not lose its shards to us.
            seen = {row.shard: row.epoch for row in await store.owners()}
            epochs = await store.claim(name, shards, now=now_ms(), seen=seen)
            try:
                with bar("redrive", surveyed.total, is_shown=is_shown and surveyed.total > BAR_FROM) as step:
                    count = 0
                    async for parked in each_parked(find, query, which.numbers, surveyed.last, fits=which.fits):
                        count += 1
                        problem = await _put_back(store, name, epochs, parked, count)
                        results.append(redriven(parked.number, parked, problem))
                        step(1)
            finally:
                await store.release(name, epochs)
            end.note_tries(results, "set due again")
        await store.tell([])
        return results


async def _put_back(store: "Store", name: str, epochs: "Mapping[int, int]", parked: "Parked", count: int) -> str | None:
    """Set the timer due again; what stood in the way, None when nothing did."""
    from wakeful.cli.output import now_ms
    from wakeful.store.protocol import Query
    from wakeful.values.commits import Commit
    from wakeful.values.errors import Fenced
    from wakeful.values.ids import shard_of
    from wakeful.values.timers import Timer

    old, now = parked.timer, now_ms()
    shard = shard_of(old.id)
    if shard not in epochs:
        return "a process took the store over meanwhile; redrive again, through it"
    if await store.find_timers(Query(cls=old.id.cls, key=old.id.key, name=old.name, limit=1)):
        return f"{old.id} has another {old.name} pending; let it run or delete it, then redrive this one"
    seq = (epochs[shard] << 39) | (count << 8) | shard  # as an owner of this epoch would give them
    fresh = Timer(old.id, old.name, now, old.nominal_at, seq, priority=old.priority, payload=old.payload)
    commit = Commit(id=old.id, shard=shard, epoch=epochs[shard], now=now, sets=[fresh], unparks=[parked.number])
    [outcome] = await store.commit(name, [commit])
    if isinstance(outcome, Fenced):
        return "a process took the store over meanwhile; redrive again, through it"
    return None if outcome is None else str(outcome)


# `wakeful parked drop`: let go of them, through the owner of their objects.


@options.command("drop")
@choice_options
@click.option("--yes", is_flag=True, help="With --all: do it without asking.")
@click.option("--dry-run", is_flag=True, help="Only list what would be dropped.")
@options.app_option("When no process runs the store: run this program for the length of the command.")
@options.store_option
def dropping(yes: bool, dry_run: bool, target: str | None, url: str, as_json: bool, **choice: Any) -> int:
    """Let go of parked timers: they never run. A failed job is cancelled, and those that wait for it are told.

    Give the numbers that `wakeful parked` shows, or --all with filters. What is dropped can't be brought back; the ledger
    keeps its failed attempts, and the audit log who dropped it.
    """
    return asyncio.run(_drop(_which("drop", **choice), yes, dry_run, target, url, as_json))


async def _drop(which: "Which", yes: bool, dry_run: bool, target: str | None, url: str, as_json: bool) -> int:
    from wakeful.cli.joined_stores import check_one
    from wakeful.cli.known_names import instead
    from wakeful.cli.output import confirm, many, put_json
    from wakeful.cli.session import acting, viewing
    from wakeful.operations.acts import finding
    from wakeful.runtime.redrives import each_parked, survey
    from wakeful.views.parked import plain_rows

    check_one(url)
    async with viewing(url) as view:
        find = finding(view.stores[0])
        total = (await survey(find, which.query(), which.numbers, which.fits)).total
        hint = "" if as_json or total else await instead(view, which.cls, which.key)
        chosen = each_parked(find, which.query(), which.numbers, fits=which.fits)
        rows = [one async for one in chosen] if dry_run else []
        plain = await plain_rows(view, rows) if as_json else []
    if as_json and (dry_run or (which.is_all and not total)):
        put_json(plain)
        return OK
    if dry_run or (which.is_all and not total):
        put_parked(rows, with_object=True) if rows else put_none(which.cls, which.key, hint)
        return OK
    if which.is_all and not yes:
        confirm(f"drop {many(total, 'parked timer')}", can_ask=not as_json)
    async with acting(url, target, what="drop") as acts:
        results = await acts.drop(which)
    if as_json:
        put_json(results)
    else:
        _put_results(results, "dropped: it never runs")
    return OK if all(row["ok"] for row in results) else FAILED


parked.add_command(listing)
parked.add_command(dropping)
