"""Layer 5. `wakeful move`: everything from one store into another, with a bar to watch and a check at the end."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from wakeful.cli import options

if TYPE_CHECKING:
    from rich.progress import TaskID

    from wakeful.store_move import Moved, MoveProgress


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
    from wakeful.cli.output import now_ms
    from wakeful.store_move import move

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
    from wakeful.cli.progress import progress

    with progress(is_shown=is_shown) as shown:
        lines: dict[tuple[str, str], TaskID] = {}

        def heard(step: "MoveProgress") -> None:
            if shown is None:
                return
            line = lines.get((step.what, step.table))
            if line is None:
                line = shown.add_task(f"{step.what} {step.table}", total=step.total)
                lines[step.what, step.table] = line
            shown.update(line, completed=step.rows)

        yield heard
