"""Layer 5. `wakeful nodes`: who runs this store, and how is each of them?"""

import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.looking.nodes import Members


@options.command("nodes")
@options.store_option
def nodes(url: str, as_json: bool) -> None:
    """The processes that run the store: state, address, shards, and how busy those are that can be reached from here.

    States: up; draining (owns nothing or soon will); silent (its lease is over: frozen, or cut off from the
    database); gone (its session has ended; its row goes when another node has taken its shards).
    """
    asyncio.run(_nodes(url, as_json))


async def _nodes(url: str, as_json: bool) -> None:
    from wakeful.cli.finding import viewing
    from wakeful.cli.printing import put_json
    from wakeful.cli.reaching import statuses
    from wakeful.looking.nodes import members, page

    async with viewing(url) as view:
        [store] = view.stores
        found = await members(store, view.now())
        said = await statuses(store, [member.row for member in found.nodes])
        shown = await page(view, said)
    if as_json:
        put_json({"nodes": shown.rows, "unowned": shown.unowned, "lost": shown.lost})
    else:
        _put(found, said, {row["node"]: row["state"] for row in shown.rows}, is_shared=store.shared)


def _put(found: "Members", said: dict[str, dict[str, Any]], states: dict[str, str], *, is_shared: bool) -> None:
    from wakeful.cli.printing import length, many, put_line, put_table
    from wakeful.looking.nodes import ranges

    if not found.nodes:
        put_line("no node has joined this store", "dim")
    else:
        rows = []
        for member in found.nodes:
            row = member.row
            lease = length(member.lease_ms) if member.lease_ms > 0 else f"over for {length(-member.lease_ms)}"
            lease = lease if is_shared else ""  # a file has a lock instead
            load = load_words(said.get(row.node))
            address = row.address.removeprefix("tcp:")
            rows.append((row.node, states[row.node], len(member.shards), lease, load, address, row.cluster, row.about))
        has_cluster = any(row[6] for row in rows)
        columns = ["node", "state", ">shards", "lease", "load", "…address", "cluster", "…about"]
        if not has_cluster:
            columns, rows = [*columns[:6], *columns[7:]], [(*row[:6], *row[7:]) for row in rows]  # type: ignore[misc]
        put_table(columns, rows)
    for owner, shards in found.lost.items():
        text = f"{many(len(shards), 'shard')} still in the name of {owner}, which has left: {ranges(shards)}"
        put_line(text, "yellow")
    if found.unowned:
        style = "yellow" if found.alive else "dim"
        put_line(f"{many(len(found.unowned), 'shard')} without an owner: {ranges(found.unowned)}", style)


def load_words(status: dict[str, Any] | None) -> str:
    """How busy it is, short; a question mark when it can't be asked from here."""
    from wakeful.cli.printing import many

    if status is None:
        return "?"
    if status.get("state") != "up":
        return str(status.get("state"))
    parts = [f"{status.get('awake', 0):,} awake", f"{many(status.get('timers_running', 0), 'timer')} running"]
    return ", ".join(parts)
