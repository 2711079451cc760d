"""Layer 5. `wakeful nodes`: who runs this store, and how is each of them?"""

import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.views.nodes import Nodes


@options.command("nodes")
@options.store_option
def nodes(url: str, as_json: bool) -> None:
    """The processes that run the store: state, address, shards, and how busy those are that can be reached from here.

    States: up; draining (owns nothing or soon will); silent (its lease is over: frozen, or cut off from the
    database); gone (its session has ended; its row goes when another node has taken its shards).
    """
    asyncio.run(_nodes(url, as_json))


async def _nodes(url: str, as_json: bool) -> None:
    from wakeful.cli.node_access import statuses
    from wakeful.cli.output import put_json
    from wakeful.cli.store_session import viewing
    from wakeful.views.nodes import members, page

    async with viewing(url) as view:
        [store] = view.stores
        asked = await members(store, view.now())
        said = await statuses(store, [member.row for member in asked.nodes])
        # Asking may take seconds: nodes join and leave, leases end. Only what is read after it is shown.
        shown = await page(view, said)
    if as_json:
        put_json({"nodes": shown.rows, "unowned": shown.unowned, "lost": shown.lost})
    else:
        _put(shown, is_shared=store.shared)


def _put(shown: "Nodes", *, is_shared: bool) -> None:
    from wakeful.cli.output import many, put_line, put_table
    from wakeful.views.nodes import ALIVE, ranges

    if not shown.rows:
        put_line("no node has joined this store", "dim")
    else:
        columns = ["node", "state", ">shards", "lease", "load", "…address", "cluster", "…about"]
        rows = [_cells(row, is_shared=is_shared) for row in shown.rows]
        if not any(row["cluster"] for row in shown.rows):
            columns, rows = [*columns[:6], *columns[7:]], [(*row[:6], *row[7:]) for row in rows]
        put_table(columns, rows)
    mute = [row["node"] for row in shown.rows if row["status"] is None and row["state"] != "gone"]
    if mute and is_shared:
        put_line(f"{', '.join(mute)}: no answer; frozen, or not to be reached from here", "yellow")
    put_reach({row["node"]: row["status"] for row in shown.rows if row["state"] in ALIVE})
    for owner, shards in shown.lost.items():
        text = f"{many(len(shards), 'shard')} still in the name of {owner}, which has left: {ranges(shards)}"
        put_line(text, "yellow")
    if shown.unowned:
        style = "yellow" if any(row["state"] in ALIVE for row in shown.rows) else "dim"
        put_line(f"{many(len(shown.unowned), 'shard')} without an owner: {ranges(shown.unowned)}", style)


def put_reach(said: dict[str, dict[str, Any] | None]) -> None:
    """Who reaches whom, of those that live, when not all do."""
    from wakeful.cli.output import length, put_line, put_table

    cut = {
        (name, one["node"]): one["for_ms"]
        for name, status in said.items()
        for one in (status or {}).get("unreached", ())
        if one["node"] in said
    }
    if not cut:
        return

    def word(name: str, other: str) -> str:
        if name == other:
            return "-"
        if said[name] is None:
            return "?"
        return f"not for {length(cut[name, other])}" if (name, other) in cut else "yes"

    put_line("not all nodes reach each other:", "yellow")
    put_table(["from … to", *said], [(name, *(word(name, other) for other in said)) for name in said])


def _cells(row: dict[str, Any], *, is_shared: bool) -> tuple[object, ...]:
    from wakeful.cli.output import length

    lease = length(row["lease_ms"]) if row["lease_ms"] > 0 else f"over for {length(-row['lease_ms'])}"
    return (
        row["node"],
        row["state"],
        len(row["shards"]),
        lease if is_shared else "",  # a file has a lock instead
        load_words(row["status"]),
        row["address"].removeprefix("tcp:"),
        row["cluster"],
        row["about"],
    )


def load_words(status: dict[str, Any] | None) -> str:
    """How busy it is, short, and who waits to be tried after crashes; a question mark when it can't be asked from here."""
    from wakeful.cli.output import many
    from wakeful.views.timer_names import name_words

    if status is None:
        return "?"
    if status.get("state") != "up":
        return str(status.get("state"))
    parts = [f"{status.get('awake', 0):,} awake", f"{many(status.get('timers_running', 0), 'timer')} running"]
    if line := status.get("line"):
        behind = line["behind"]
        who = "" if behind is None else f" behind {behind['class']}/{behind['key']} {name_words(behind['timer'])}"
        parts.append(f"{line['waiting']:,} in line{who}")
    return ", ".join(parts)
