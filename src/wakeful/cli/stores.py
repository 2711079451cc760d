"""Layer 5. `wakeful schema`, `migrate` and `move`: what do the tables look like, are they up to date, and may they be another store's?"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import USAGE, CommandError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from wakeful.store_move import Moved, MoveProgress


@options.command("schema")
@click.option("--sql", is_flag=True, help="The SQL that makes the tables, to read or to run by hand.")
@options.store_option
def schema(sql: bool, url: str, as_json: bool) -> None:
    """Which version the store's tables have, or the SQL that makes them."""
    from wakeful.cli.output import put_json

    if sql:
        text = files(f"wakeful.store.{kind_of(url)}").joinpath("schema.sql").read_text(encoding="utf-8")
        if as_json:
            put_json({"store": kind_of(url), "sql": text})
        else:
            click.echo(text.rstrip())
        return
    asyncio.run(_schema(url, as_json))


async def _schema(url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import reading

    names = migrations(url)
    async with reading(url) as store:  # refuses any other version, in words
        shown = store.url
    if as_json:
        put_json({"store": shown, "migrations": names, "is_current": True})
    else:
        put_line(f"{shown}: up to date ({names[-1]})")


@options.command("migrate")
@options.store_option
def migrate(url: str, as_json: bool) -> None:
    """Bring the store's tables up to date. Stop the processes that run on it first."""
    asyncio.run(_migrate(url, as_json))


async def _migrate(url: str, as_json: bool) -> None:
    from wakeful.cli.joined_stores import check_one
    from wakeful.cli.output import now_ms, pulse, put_json, put_line
    from wakeful.store import open_url

    check_one(url)
    store = open_url(url)
    with pulse("migrate", is_shown=not as_json):  # a database does not say how far a statement is
        applied = await store.migrate(now=now_ms())
    await store.close()
    if as_json:
        put_json({"store": store.url, "applied": applied})
        return
    for name in applied:
        put_line(f"applied {name}", "green")
    if not applied:
        put_line(f"{store.url}: nothing to do, it is up to date")


_TABLES_OF = {"bucket": "sqlite"}  # its local copy has them


def kind_of(url: str) -> str:
    """The package that has the tables of the store that the URL names, for one of ours."""
    from wakeful.store import open_url

    if url == "memory:":
        raise CommandError(
            "memory: has no tables; name sqlite:PATH or postgresql://…", code="store.memory", exit_code=USAGE
        )
    module = type(open_url(url)).__module__
    if not module.startswith("wakeful.store."):
        raise CommandError(
            f"{module} brings this store, and its tables; ask there", code="store.foreign", exit_code=USAGE
        )
    return _TABLES_OF.get(kind := module.split(".")[2], kind)


def migrations(url: str) -> list[str]:
    """The names of all migrations that this version brings for that kind of store."""
    folder = files(f"wakeful.store.{kind_of(url)}").joinpath("migrations")
    return sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))


# `wakeful move`: everything from one store into another, with a bar to watch and a check at the end.


@options.command("move")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
def move(source: str, target: str, as_json: bool) -> None:
    """Copy objects, storage, timers, ledger, parked timers and remembered answers of SOURCE into the empty store TARGET.

    Both are store URLs; no process may run on either. It is one transaction of TARGET: whatever stops it, TARGET is
    as empty as before. Before it ends, all rows are read back and compared. SOURCE stays as it is: don't run both.
    """
    asyncio.run(_move(source, target, as_json))


async def _move(source: str, target: str, as_json: bool) -> None:
    from wakeful.cli.joined_stores import check_one
    from wakeful.cli.output import now_ms
    from wakeful.store_move import move

    check_one(source)
    check_one(target)
    began = time.monotonic()
    with _bar(is_shown=not as_json) as heard:
        done = await move(source, target, now=now_ms(), heard=heard)
    _put(done, round((time.monotonic() - began) * 1000), as_json)


def _put(done: "Moved", took_ms: int, as_json: bool) -> None:
    from wakeful.cli.output import length, put_json, put_line, put_table

    if as_json:
        parts = {part.table: {"rows": part.rows, "digest": part.digest} for part in done.parts}
        put_json(
            {"source": done.source, "target": done.target, "tables": parts, "is_checked": True, "took_ms": took_ms}
        )
        return
    rows = [(part.table, f"{part.rows:,}", part.digest) for part in done.parts]
    put_table(["table", ">rows", "digest on both sides"], rows)
    put_line(f"moved and checked in {length(took_ms)}: {done.target} holds what {done.source} holds", "green")
    put_line(f"{done.source} is unchanged: don't run both, or what they owe is done twice", "dim")


@contextmanager
def _bar(*, is_shown: bool) -> Iterator[Callable[["MoveProgress"], None]]:
    """A line for each table that copies or checks; nothing where nobody watches."""
    from wakeful.cli.output import progress

    with progress(is_shown=is_shown) as shown:
        lines: dict[tuple[str, str], TaskID] = {}

        def hear(step: "MoveProgress") -> None:
            if shown is None:
                return
            line = lines.get((step.what, step.table))
            if line is None:
                line = shown.add_task(f"{step.what} {step.table}", total=step.total)
                lines[step.what, step.table] = line
            shown.update(line, completed=step.rows)

        yield hear
