"""Layer 5. `wakeful ls`: which objects are there?"""

import asyncio
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from wakeful.cli import options
from wakeful.values.ids import RESERVED

if TYPE_CHECKING:
    from wakeful.store.protocol import Query, Store
    from wakeful.values.commits import Info

PAST_RESERVED = "wakeful/"


@options.command("ls")
@click.argument("cls", metavar="[CLASS]", required=False)
@click.option("--all", "everything", is_flag=True, help="With the objects that Wakeful keeps itself (wakeful.…).")
@click.option("--contains", metavar="TEXT", help="Only keys with this text in them (case matters).")
@options.limit_option(50)
@options.store_option
def ls(cls: str | None, everything: bool, contains: str | None, limit: int, url: str, as_json: bool) -> None:
    """List objects by class and key, without waking them.

    Those that Wakeful keeps itself, such as wakeful.Function, are listed with --all or when CLASS names them.
    """
    asyncio.run(_ls(cls, everything or cls is not None, contains, limit, url, as_json))


async def _ls(cls: str | None, everything: bool, contains: str | None, limit: int, url: str, as_json: bool) -> None:
    from wakeful.cli.finding import reading
    from wakeful.cli.printing import now_ms, put_json
    from wakeful.store.protocol import Query

    async with reading(url) as store:
        query = Query(cls=cls, key_contains=contains, limit=limit + 1)
        found = await store.find_objects(query) if everything else await _own_objects(store, query)
        rows: list[dict[str, Any]] = []
        for info in found[:limit]:
            timers = await store.find_timers(Query(cls=info.id.cls, key=info.id.key, limit=1))
            rows.append({"info": info, "timer": timers[0] if timers else None})
        total = await store.count("objects", cls=cls)
        if not everything:
            reserved = [name for name in await store.known_classes() if name.startswith(RESERVED)]
            total -= sum([await store.count("objects", cls=name) for name in reserved])
    if as_json:
        put_json([_plain(row) for row in rows])
    else:
        _put(rows, now_ms(), more=len(found) > limit, total=total, filtered=contains is not None)


async def _own_objects(store: "Store", query: "Query") -> list["Info"]:
    """The first of the objects of the program's own classes."""
    found = await store.find_objects(query)
    own = [info for info in found if not info.id.cls.startswith(RESERVED)]
    if len(own) == len(found):
        return own
    # In byte order all of "wakeful." stands together, right before "wakeful/", which no class can be called.
    rest = await store.find_objects(replace(query, after=(PAST_RESERVED, "")))
    before = [info for info in own if info.id.cls < RESERVED]
    return [*before, *rest][: query.limit]


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
    from wakeful.cli.naming import timer_words
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
                f"{timer_words(row['timer'])} {relative(row['timer'].due_at, now)}" if row["timer"] else "",
            )
            for row in rows
        ],
    )
    if more:
        of = "" if filtered else f" of {many(total, 'object')}"
        put_line(f"the first {len(rows):,}{of}; -n shows more", "dim")
