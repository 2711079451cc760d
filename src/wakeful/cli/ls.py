"""Layer 5. `wakeful ls`: which objects are there?"""

import asyncio
from typing import TYPE_CHECKING

import click

from wakeful.cli import known_names, options

if TYPE_CHECKING:
    from wakeful.views.objects import ObjectRow


@options.command("ls")
@click.argument("cls", metavar="[CLASS]", required=False, shell_complete=known_names.classes)
@click.option("--all", "everything", is_flag=True, help="With the objects that Wakeful keeps itself (wakeful.…).")
@click.option("--prefix", metavar="TEXT", help="Only keys that begin like that (case matters).")
@click.option("--contains", metavar="TEXT", help="Only keys with this text in them, in any case.")
@options.limit_option(50)
@options.store_option
def ls(
    cls: str | None, everything: bool, prefix: str | None, contains: str | None, limit: int, url: str, as_json: bool
) -> None:
    """List objects by class and key, without waking them.

    Those that Wakeful keeps itself, such as wakeful.Function, are listed with --all or when CLASS names them.
    """
    asyncio.run(_ls(cls, everything or cls is not None, prefix, contains, limit, url, as_json))


async def _ls(
    cls: str | None, everything: bool, prefix: str | None, contains: str | None, limit: int, url: str, as_json: bool
) -> None:
    from wakeful.cli.known_names import instead
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import viewing
    from wakeful.views.objects import count, plain_row, rows

    async with viewing(url) as view:
        page = await rows(view, cls, prefix, contains, limit, reserved=everything)
        total = 0 if as_json else await count(view, cls, reserved=everything)
        hint = "" if total or as_json else await instead(view, cls)
    if as_json:
        put_json([plain_row(row) for row in page.rows])
    elif hint:
        put_line(f"no objects of {cls}{hint}", "dim")
    else:
        is_filtered = prefix is not None or contains is not None
        _put(page.rows, view.now(), more=page.cursor is not None, total=total, filtered=is_filtered)


def _put(rows: list["ObjectRow"], now: int, *, more: bool, total: int, filtered: bool) -> None:
    from wakeful.cli.output import many, put_line, put_table, relative, size
    from wakeful.views.timer_names import timer_words

    if not rows:
        put_line("no objects" + (" match" if filtered or total else " yet"), "dim")
        return
    put_table(
        ["class", "key", ">rows", ">size", "last active", "next timer"],
        [
            (
                row.info.id.cls,
                row.info.id.key,
                row.info.rows,
                size(row.info.bytes),
                relative(row.info.active_at, now),
                f"{timer_words(row.timer)} {relative(row.timer.due_at, now)}" if row.timer else "",
            )
            for row in rows
        ],
    )
    if more:
        of = "" if filtered else f" of {many(total, 'object')}"
        put_line(f"the first {len(rows):,}{of}; -n shows more", "dim")
