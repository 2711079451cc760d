"""Layer 5. `wakeful ls`: which objects are there?"""

import asyncio
from typing import Any

import click

from wakeful.cli import options


@options.command("ls")
@click.argument("cls", metavar="[CLASS]", required=False)
@click.option("--contains", metavar="TEXT", help="Only keys with this text in them (case matters).")
@options.limit_option(50)
@options.store_option
def ls(cls: str | None, contains: str | None, limit: int, url: str, as_json: bool) -> None:
    """List objects by class and key, without waking them."""
    asyncio.run(_ls(cls, contains, limit, url, as_json))


async def _ls(cls: str | None, contains: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.finding import reading
    from wakeful.cli.printing import now_ms, put_json
    from wakeful.store.protocol import Query

    async with reading(url) as store:
        found = await store.find_objects(Query(cls=cls, key_contains=contains, limit=limit + 1))
        rows: list[dict[str, Any]] = []
        for info in found[:limit]:
            timers = await store.find_timers(Query(cls=info.id.cls, key=info.id.key, limit=1))
            rows.append({"info": info, "timer": timers[0] if timers else None})
        total = await store.count("objects", cls=cls)
    if as_json:
        put_json([_plain(row) for row in rows])
    else:
        _put(rows, now_ms(), more=len(found) > limit, total=total, filtered=contains is not None)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    from wakeful.cli.printing import iso

    info, timer = row["info"], row["timer"]
    return {
        "class": info.id.cls,
        "key": info.id.key,
        "rows": info.rows,
        "bytes": info.bytes,
        "created_at": iso(info.created_at),
        "active_at": iso(info.active_at),
        "next": None if timer is None else {"timer": timer.name, "due_at": iso(timer.due_at)},
    }


def _put(rows: list[dict[str, Any]], now: int, *, more: bool, total: int, filtered: bool) -> None:
    from wakeful.cli.printing import many, put_line, put_table, relative, size

    if not rows:
        put_line("no objects" + (" match" if filtered or total else " yet"), "dim")
        return
    put_table(
        ["class", "key", ">rows", ">size", "last active", "next timer"],
        [
            (
                row["info"].id.cls,
                row["info"].id.key,
                row["info"].rows,
                size(row["info"].bytes),
                relative(row["info"].active_at, now),
                f"{row['timer'].name} {relative(row['timer'].due_at, now)}" if row["timer"] else "",
            )
            for row in rows
        ],
    )
    if more:
        of = "" if filtered else f" of {many(total, 'object')}"
        put_line(f"the first {len(rows):,}{of}; -n shows more", "dim")
