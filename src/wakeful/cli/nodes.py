"""Layer 5. `wakeful nodes`: who runs this store, and how is each of them?"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from wakeful.cli import options
from wakeful.cli.exit_codes import OK, UNAVAILABLE, CommandError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from wakeful.store.protocol import Store
    from wakeful.views.nodes import Members

T = TypeVar("T")

# For each question: nodes and shards are few, so only a lock, or a server in trouble, takes longer. After each of these waits
# it is looked whether somebody holds one: who waits for that waits in vain.
ASK_S = (2.5, 2.5)
DOCTOR = "see what wakeful doctor says of the server"


@options.command("nodes")
@options.store_option
def nodes(url: str, as_json: bool) -> int:
    """The processes that run the store: state, address, shards, and how busy those are that can be reached from here.

    States: up; draining (owns nothing or soon will); silent (its lease is over: frozen, or cut off from the
    database); gone (its session has ended; its row goes when another node has taken its shards).
    """
    return asyncio.run(_nodes(url, as_json))


async def _nodes(url: str, as_json: bool) -> int:
    from wakeful.cli.node_access import statuses
    from wakeful.cli.output import put_json
    from wakeful.cli.session import reading
    from wakeful.system import open_store
    from wakeful.views.nodes import plain_member

    async with AsyncExitStack() as stack:
        shut = open_store(url)  # which knows of no locks yet; of sessions the server does
        opening = stack.enter_async_context(reading(url))
        waits_s = (ASK_S[0], options.OPEN_S - ASK_S[0])
        store = await _answer(opening, shut, url, "the store can't be opened", waits_s)
        cluster, mute = await _members(store, url)
        said = await statuses(store, [member.row for member in cluster.nodes])
        if mute is None:
            # Asking may take seconds: nodes join and leave, leases end. Only what is read after it is shown.
            cluster, mute = await _members(store, url)
        shown: list[Mapping[str, Any]] = [
            plain_member(member, said.get(member.row.node), store) for member in cluster.nodes
        ]
    if mute is not None:
        shown = [{**row, "shards": None} for row in shown]
    if as_json:
        more = {} if mute is None else {"error": {"code": mute.code, "message": mute.message}}
        put_json({"nodes": shown, "unowned": cluster.unowned, "lost": cluster.lost, **more})
        return OK if mute is None else mute.exit_code
    _put(shown, cluster, is_shared=store.shared)
    if mute is not None:
        raise mute
    return OK


async def _members(store: "Store", url: str) -> tuple["Members", CommandError | None]:
    """The nodes, and why it is not known who has which shard, when it isn't."""
    from wakeful.cli.output import now_ms
    from wakeful.views.nodes import members, stand

    rows = await _answer(store.nodes(), store, url, "the nodes can't be read")
    try:
        return await _answer(members(store, now_ms()), store, url, "who has which shard can't be read"), None
    except CommandError as error:
        return stand(rows, [], now_ms()), error


async def _answer(
    question: "Coroutine[Any, Any, T]", store: "Store", url: str, what: str, waits_s: tuple[float, ...] = ()
) -> T:
    """What is asked; a `CommandError` when no answer comes in time, or before that, when somebody is in the way."""
    from wakeful.cli.session import in_the_way

    task, waited_s, holder = asyncio.ensure_future(question), 0.0, None
    try:
        for wait_s in waits_s or ASK_S:
            if (await asyncio.wait({task}, timeout=wait_s))[0]:
                return task.result()
            waited_s += wait_s
            holder = await in_the_way(store, url) if store.shared else None
            if task.done():
                return task.result()  # it came while that was looked at
            if holder is not None and holder.is_awaited:
                break
    finally:
        task.cancel()
    text = f"{what}: no answer within {waited_s:g} s"
    raise _mute(text, DOCTOR) if holder is None else _mute(f"{text}, because {holder.text}", holder.remedy)


def _mute(what: str, remedy: str) -> CommandError:
    return CommandError(f"{what}; {remedy}", code="store.mute", exit_code=UNAVAILABLE)


def _put(shown: Sequence[Mapping[str, Any]], found: "Members", *, is_shared: bool) -> None:
    from wakeful.cli.output import many, put_line, put_table
    from wakeful.views.nodes import ALIVE, ranges

    if not shown:
        put_line("no node has joined this store", "dim")
    else:
        columns = ["node", "state", ">shards", "lease", "load", "…address", "cluster", "…about"]
        rows = [_cells(row, is_shared=is_shared) for row in shown]
        if not any(row["cluster"] for row in shown):
            columns, rows = [*columns[:6], *columns[7:]], [(*row[:6], *row[7:]) for row in rows]
        put_table(columns, rows)
    mute = [row["node"] for row in shown if row["status"] is None and row["state"] != "gone"]
    if mute and is_shared:
        put_line(f"{', '.join(mute)}: no answer; frozen, or not to be reached from here", "yellow")
    put_reach({row["node"]: row["status"] for row in shown if row["state"] in ALIVE})
    for owner, shards in found.lost.items():
        text = f"{many(len(shards), 'shard')} still in the name of {owner}, which has left: {ranges(shards)}"
        put_line(text, "yellow")
    if found.unowned:
        style = "yellow" if any(row["state"] in ALIVE for row in shown) else "dim"
        put_line(f"{many(len(found.unowned), 'shard')} without an owner: {ranges(found.unowned)}", style)


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


def _cells(row: Mapping[str, Any], *, is_shared: bool) -> tuple[object, ...]:
    from wakeful.cli.output import length

    lease = length(row["lease_ms"]) if row["lease_ms"] > 0 else f"over for {length(-row['lease_ms'])}"
    return (
        row["node"],
        row["state"],
        "?" if row["shards"] is None else len(row["shards"]),
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
