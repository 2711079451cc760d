"""Layer 5. How does a command reach the nodes: which of them answers from here?

A node of this user on this machine is asked through its control socket and passes calls on to where they belong. Nodes
on other machines are asked at the addresses that they give each other, with the cluster's secret.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from wakeful.cli.cluster_access import SECRET, Pass, pass_of
from wakeful.cli.exit_codes import UNAVAILABLE, CommandError
from wakeful.cli.output import length, now_ms
from wakeful.cli.peers import Peers, runs
from wakeful.store.protocol import NodeRow, Store
from wakeful.transport import sockets
from wakeful.transport.control import ControlClient
from wakeful.values.errors import ClusterError, Unavailable, WakefulError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.views.nodes import ALIVE, ClusterMember, Members, members

# One that is frozen still has its socket, which takes what is sent and answers nothing.
ANSWER_S = 2.0
ALL_S = 3.0  # all of them, side by side, by whichever way


def control_addresses(row: NodeRow) -> list[str]:
    """Where the node's control socket may be on this machine."""
    found = []
    with suppress(Unavailable):
        found = [f"{sockets.SCHEME}{path}" for path in sockets.folder().glob(f"*-{row.node}.sock")]
    # Of a store that nodes share it is the address of their links, where a command that speaks otherwise is a stranger.
    if sockets.is_control(row.address, row.node) and row.address not in found:
        found.append(row.address)
    return found


@asynccontextmanager
async def controlled(store: Store, row: NodeRow) -> AsyncIterator[tuple[ControlClient, dict[str, Any]] | None]:
    """The node's control socket and what it says of itself; None when it does not answer."""
    for address in control_addresses(row):
        client = ControlClient(address, store=store.url)
        try:
            async with asyncio.timeout(ANSWER_S):
                await client.__aenter__()
                status = await client.status()
        except (Unavailable, TimeoutError):
            await client.__aexit__(None, None, None)
            continue
        if not runs(status, store):
            await client.__aexit__(None, None, None)
            continue
        try:
            yield client, status
        finally:
            await client.__aexit__(None, None, None)
        return
    yield None


async def statuses(store: Store, rows: Iterable[NodeRow]) -> dict[str, dict[str, Any]]:
    """What each node says of itself, of those that can be asked from here and answer within `ALL_S`."""
    let_in = pass_of()
    async with Peers(store, let_in) as peers:

        async def ask(row: NodeRow) -> dict[str, Any] | None:
            with suppress(TimeoutError):
                async with asyncio.timeout(ALL_S):
                    return await said_by(row)
            return None

        async def said_by(row: NodeRow) -> dict[str, Any] | None:
            async with controlled(store, row) as found:
                if found is not None:
                    return found[1]
            if not row.address or not store.shared:
                return None
            try:
                return await peers.status_of(row, timeout_ms=int(ANSWER_S * 1000))
            except WakefulError:
                return None

        listed = list(rows)
        answers = await asyncio.gather(*(ask(row) for row in listed))
    return {row.node: answer for row, answer in zip(listed, answers, strict=True) if answer is not None}


@asynccontextmanager
async def connected(store: Store, id: ObjectId | None = None) -> AsyncIterator[ControlClient | Peers | None]:
    """Something that takes calls for any object, its owner first; None when no process runs the store.

    `CommandError` when nodes live and none of them can be reached from here.
    """
    found = await members(store, now_ms())
    for member in _in_order(found, id):
        async with controlled(store, member.row) as reached:
            if reached is not None:
                yield reached[0]
                return
    if not store.shared or not found.alive:
        # An SQLite file is locked by its owner, so its lease needs no respect: opening it will tell.
        yield None
        return
    let_in = pass_of()
    async with Peers(store, let_in) as peers:
        await _check_link(peers, found, let_in)
        yield peers


def _in_order(found: Members, id: ObjectId | None) -> Sequence[ClusterMember]:
    shard = None if id is None else shard_of(id)
    return sorted(
        [member for member in found.nodes if member.row.is_here is not False],
        key=lambda member: (member.state not in ALIVE, shard not in member.shards, -len(member.shards)),
    )


async def _check_link(peers: Peers, found: Members, let_in: Pass) -> None:
    """At least one living node lets us in; else `CommandError` with what stood in the way."""
    because: WakefulError | None = None
    for member in found.alive:
        if not member.row.address:
            continue
        try:
            await peers.link(member.row)
            return
        except (Unavailable, ClusterError) as error:
            because = error
    first = found.alive[0]
    more = f" and {len(found.alive) - 1} more" if len(found.alive) > 1 else ""
    why = "" if because is None else f" ({because.message})"
    remedy = "run this as its user on its machine"
    if let_in.secret is None and because is not None:
        remedy = f"set ${SECRET} to the cluster's secret, or {remedy}"
    raise CommandError(
        f"node {first.row.node} ({first.row.about}){more} {'own' if more else 'owns'} it and can't be reached from here{why}; {remedy}, "
        f"or stop it (its lease ends in {length(max(0, first.lease_ms))} unless it is renewed)",
        code="owner.unreachable",
        exit_code=UNAVAILABLE,
    )
