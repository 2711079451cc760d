"""Layer 5. `wakeful nodes`: who runs this store, and how is each of them?"""

import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.cli.members import Member, Members


@options.command("nodes")
@options.store_option
def nodes(url: str, as_json: bool) -> None:
    """The processes that run the store: state, address, shards, and how busy those are that can be reached from here.

    States: up; draining (owns nothing or soon will); silent (its lease is over: frozen, or cut off from the
    database); gone (its session has ended; its row goes when another node has taken its shards).
    """
    asyncio.run(_nodes(url, as_json))


async def _nodes(url: str, as_json: bool) -> None:
    from wakeful.cli.finding import reading
    from wakeful.cli.members import members
    from wakeful.cli.printing import put_json
    from wakeful.cli.reaching import statuses

    async with reading(url) as store:
        found = await members(store)
        said = await statuses(store, [member.row for member in found.nodes])
    if as_json:
        put_json(plain_members(found, said))
    else:
        _put(found, said)


def plain_members(found: "Members", said: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """For programs."""
    return {
        "nodes": [_plain(member, said.get(member.row.node)) for member in found.nodes],
        "unowned": found.unowned,
        "lost": found.lost,
    }


def _plain(member: "Member", status: dict[str, Any] | None) -> dict[str, Any]:
    from wakeful.cli.printing import iso

    row = member.row
    return {
        "node": row.node,
        "state": member.state,
        "address": row.address,
        "cluster": row.cluster,
        "version": row.version,
        "about": row.about,
        "joined_at": iso(row.joined_at),
        "lease_until": iso(row.lease_until),
        "lease_ms": member.lease_ms,
        "is_draining": row.is_draining,
        "is_here": row.is_here,
        "shards": member.shards,
        "status": status,
    }


def _put(found: "Members", said: dict[str, dict[str, Any]]) -> None:
    from wakeful.cli.members import ranges
    from wakeful.cli.printing import length, many, put_line, put_table

    if not found.nodes:
        put_line("no node has joined this store", "dim")
    else:
        rows = []
        for member in found.nodes:
            row = member.row
            lease = length(member.lease_ms) if member.lease_ms > 0 else f"over for {length(-member.lease_ms)}"
            load = load_words(said.get(row.node))
            address = row.address.removeprefix("tcp:")
            rows.append((row.node, member.state, len(member.shards), lease, load, address, row.cluster, row.about))
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
