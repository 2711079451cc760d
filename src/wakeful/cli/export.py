"""Layer 5. `wakeful export`: one object with all that it has and owes, in a file."""

import asyncio
import os
import sys
from pathlib import Path

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import USAGE, CommandError, one_line

PRIVATE = 0o600  # values are in it in the clear


@options.command("export")
@click.argument("cls", metavar="CLASS", shell_complete=known_names.classes)
@click.argument("key", shell_complete=known_names.keys)
@click.option(
    "--output", "-o", metavar="FILE", type=click.Path(path_type=Path), help="Where to.  [default: stdout, into a pipe]"
)
@click.option(
    "--sql",
    "database",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write its database alone, as a file for the program sqlite3.",
)
@options.store_option
def export(cls: str, key: str, output: Path | None, database: Path | None, url: str, as_json: bool) -> None:
    """Write the object CLASS/KEY: storage, state, schedules with versions, timers, jobs, ledger, parked, answers.

    All of one moment, without waking it. `wakeful import FILE` puts it into another store. Don't let both live: each
    would do what the object owes. What names other objects (a machine's children, jobs that wait for others) is refused.
    """
    if database is not None:
        if output is not None:
            raise click.UsageError("--sql FILE is the whole of it; leave out -o")
        asyncio.run(_export_database(cls, key, database, url, as_json))
        return
    if output is None and (as_json or sys.stdout.isatty()):
        raise CommandError(
            "say where to: -o FILE, or > FILE; --json is then what is printed about it", code="usage", exit_code=USAGE
        )
    asyncio.run(_export(cls, key, output, url, as_json))


async def _export(cls: str, key: str, output: Path | None, url: str, as_json: bool) -> None:
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import many, pulse, put_json, put_line, size
    from wakeful.cli.session import viewing
    from wakeful.importers import archive
    from wakeful.values.ids import ObjectId

    id = ObjectId(cls, key)
    async with viewing(url) as view:
        await info_of(view, id)
        with pulse("export", is_shown=not as_json):
            lines, left = await archive.export(view.store_of(id), id, now=view.now())
    if output is None:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
        return
    _write(output, lines)
    counts, count = archive.read(b"".join(lines), str(output)).counts(), sum(map(len, lines))
    notes = [one for one in left if one]
    if as_json:
        put_json({"class": cls, "key": key, "output": str(output), "bytes": count, "left": notes, **counts})
        return
    nouns = {"storage": "row", "database": "database page", "ledger": "verdict", "parked": "parked timer"}
    nouns["state"] = "typed state"
    said = ", ".join(many(number, nouns.get(what, what.removesuffix("s"))) for what, number in counts.items() if number)
    put_line(one_line(f"{id} in {output}: {said or 'nothing but its name'} ({size(count)})"), "green")
    for note in notes:
        put_line(note, "yellow")


async def _export_database(cls: str, key: str, output: Path, url: str, as_json: bool) -> None:
    """All pages in one read, so they are of one moment."""
    from wakeful.cli.known_names import info_of
    from wakeful.cli.output import put_json, put_line, size
    from wakeful.cli.session import viewing
    from wakeful.values.ids import ObjectId
    from wakeful.views.databases import pages_of

    id = ObjectId(cls, key)
    async with viewing(url) as view:
        await info_of(view, id)
        pages = await pages_of(view, id)
    _write(output, pages)
    count = sum(map(len, pages))
    if as_json:
        put_json({"class": cls, "key": key, "output": str(output), "bytes": count})
    else:
        put_line(one_line(f"the database of {id} in {output} ({size(count)}): sqlite3 {output}"), "green")


def _write(output: Path, lines: list[bytes]) -> None:
    """All of it or nothing, for nobody else to read: a file of that name is replaced when the new one is whole."""
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)  # of one that was killed under the same number
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())  # else a power cut could leave the name with nothing behind it
        draft.replace(output)
        folder = os.open(output.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # and this one the new name
        finally:
            os.close(folder)
    except OSError as error:
        raise CommandError(f"{output} can't be written: {error.strerror}", code="export.file") from None
    finally:
        draft.unlink(missing_ok=True)
