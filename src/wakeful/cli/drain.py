"""Layer 5. `wakeful drain`: a node hands over all it owns and goes on running, so that stopping it is felt by nobody."""

import asyncio
import platform
import sys
from typing import TYPE_CHECKING

import click

from wakeful.cli import known_names, options
from wakeful.cli.exit_codes import UNAVAILABLE, USAGE, CommandError, one_line

if TYPE_CHECKING:
    from wakeful.store.protocol import MembershipTable, Store

LOOK_S = 0.2


@options.command("drain")
@click.argument("name", metavar="NODE", required=False, shell_complete=known_names.nodes)
@click.option("--here", is_flag=True, help="Instead of NODE: what runs on this machine, or in this container.")
@click.option("--undo", is_flag=True, help="Let it own shards again.")
@click.option("--wait", is_flag=True, help="Until it owns nothing.")
@click.option("--timeout", metavar="LENGTH", help="With --wait: give up after this long, like 30s; the wish stays.")
@options.store_option
def drain(name: str | None, here: bool, undo: bool, wait: bool, timeout: str | None, url: str, as_json: bool) -> None:
    """Let NODE (its name, or how that begins) hand its shards over to the other nodes and take no new ones.

    It keeps running and passes calls on; stop it when it owns nothing. The wish is kept in the store for as long as
    the node is there.
    """
    if (name is None) != here:
        raise CommandError("give NODE, or --here for that of this machine", code="usage", exit_code=USAGE)
    if undo and wait:
        raise CommandError("--undo has nothing to wait for; leave --wait out", code="usage", exit_code=USAGE)
    if timeout is not None and not wait:
        raise CommandError("--timeout is how long to wait, so give --wait too", code="usage", exit_code=USAGE)
    asyncio.run(_drain(name, undo, wait, timeout, url, as_json))


async def _drain(name: str | None, undo: bool, wait: bool, timeout: str | None, url: str, as_json: bool) -> None:
    from wakeful.cli.output import many, now_ms, put_json, put_line
    from wakeful.cli.session import writing
    from wakeful.values.times import duration_ms
    from wakeful.views.nodes import members

    timeout_ms = None if timeout is None else duration_ms(timeout, what="--timeout")
    async with writing(url, what="drain") as store:
        found = await members(store, now_ms())
        chosen = found.at(platform.node()) if name is None else [found.with_name(name)]
        nodes = [member.row.node for member in chosen]
        others = [one.row.node for one in found.alive if one.row.node not in nodes and not one.row.is_draining]
        if not undo and wait and not others and (kept := sum(len(member.shards) for member in chosen)):
            raise _alone(nodes, kept)
        for node in nodes:
            await _wish(store, node, is_draining=not undo)
        left = sum(len(member.shards) for member in chosen)
        if wait:
            left = await _wait(store, nodes, timeout_ms, is_shown=not as_json)
    if as_json:
        named = {"node": nodes[0]} if len(nodes) == 1 else {"nodes": nodes}
        put_json({**named, "is_draining": not undo, "shards_left": left, "others": others})
        return
    what, verb = _name_all(nodes), "s" * (len(nodes) == 1)
    if undo:
        put_line(f"{what} take{verb} shards again", "green")
    elif not left:
        put_line(f"{what} own{verb} nothing; stop {'it' if verb else 'them'} when you like", "green")
    elif not others:
        put_line(_alone(nodes, left).message, "yellow")
    else:
        put_line(f"{what} hand{verb} over {many(left, 'shard')}; wakeful nodes shows how far it is", "green")


async def _wish(store: "Store", node: str, *, is_draining: bool) -> None:
    """Write it down, with an audit row. A node that can't be reached must still be drained, so without one if need be."""
    from wakeful.cli.node_access import connecting
    from wakeful.cli.session import actor, bare, live
    from wakeful.operations.acts import Acts
    from wakeful.values.errors import Unavailable

    try:
        async with connecting(store) as client:
            send = bare(store) if client is None else live(client)
            acts = Acts(send, actor(), stores=[store])
            await (acts.drain(node) if is_draining else acts.undrain(node))
        return
    except (CommandError, Unavailable) as error:
        because = error.message
    if not await store.drain(node, is_draining):
        raise CommandError(f"node {node} has just left; there is nothing to drain", code="node.left")
    await store.tell([])
    print(one_line(f"warning: there is no audit row of this: {because}"), file=sys.stderr)


async def _wait(store: "Store", nodes: list[str], timeout_ms: int | None, *, is_shown: bool) -> int:
    """Until they own nothing."""
    from wakeful.cli.output import bar, now_ms
    from wakeful.views.nodes import members

    loop = asyncio.get_running_loop()
    until = None if timeout_ms is None else loop.time() + timeout_ms / 1000
    before = await _count_shards(store, nodes)
    with bar(f"drain {' '.join(nodes)}", before, is_shown=is_shown) as step:
        while True:
            found = await members(store, now_ms())
            left = await _count_shards(store, nodes)
            step(before - left)
            before = left
            if not left:
                return 0
            if not any(other.row.node not in nodes and not other.row.is_draining for other in found.alive):
                raise _alone(nodes, left)
            if until is not None and loop.time() >= until:
                raise CommandError(
                    f"{_name_all(nodes)} still own{'s' * (len(nodes) == 1)} {left} shards; handing over goes on, wakeful nodes "
                    "shows how far it is",
                    code="drain.timeout",
                    exit_code=UNAVAILABLE,
                )
            await asyncio.sleep(LOOK_S)


async def _count_shards(store: "MembershipTable", nodes: list[str]) -> int:
    """How many shards are in their names."""
    return sum(row.owner in nodes for row in await store.owners())


def _name_all(nodes: list[str]) -> str:
    return f"node{'s' * (len(nodes) > 1)} {', '.join(nodes)}"


def _alone(nodes: list[str], left: int) -> CommandError:
    from wakeful.cli.output import many

    keeps, its, goes = ("keeps", "its", "goes") if len(nodes) == 1 else ("keep", "their", "go")
    return CommandError(
        f"{_name_all(nodes)} {keeps} {its} {many(left, 'shard')} and {goes} on firing: no other node can take them; start one "
        "first, take the wish back with --undo, or just stop it (its objects then wait)",
        code="drain.alone",
    )
