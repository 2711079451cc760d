"""Layer 5. How does a command reach the nodes: which of them answers from here?

A node of this user on this machine is asked through its control socket and passes calls on to where they belong. Nodes
on other machines are asked at the addresses that they give each other, with the cluster's secret.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from wakeful.cli.cluster_access import SECRET, Pass, pass_of
from wakeful.cli.exit_codes import UNAVAILABLE, CommandError
from wakeful.cli.output import length, now_ms
from wakeful.policy.limits import Limits
from wakeful.store.protocol import NodeRow, Store
from wakeful.transport import addresses
from wakeful.transport.control import ControlClient
from wakeful.transport.messages import error_of
from wakeful.transport.protocol import Link, PeerCall
from wakeful.transport.tcp import SocketTransport
from wakeful.values.codec import decode, encode
from wakeful.values.errors import ClusterError, DeadlineExceeded, LinkLost, Unavailable, WakefulError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.views.nodes import ALIVE, ClusterMember, Members, members

# One that is frozen still has its socket, which takes what is sent and answers nothing.
ANSWER_S = 2.0
OWNER_S = (
    6.0  # of the one process that has a file: nobody else can be asked, and a busy machine is no reason to give up
)
ALL_S = 3.0  # all of several, side by side, by whichever way


# How does a command call objects whose nodes are on other machines?
#
# By a link of its own to the node that owns the object, as nodes do among themselves: with the cluster's secret. A call
# that has not begun anywhere is made again until its deadline.

AGAIN_S = 0.2
STATUS_MS = 2_000
STATUS = "status"  # asked of the node itself: of no class and no key


def runs(status: Mapping[str, Any], store: Store) -> bool:
    """Whether a node that says this of itself has this very store: a copy of one names the nodes that run the first."""
    said = list(filter(None, status.get("store_ids") or [status.get("store_id")]))  # a process may have several
    return not store.identity or not said or store.identity in said


class Peers:
    """The nodes of a store, reached by links; used as `async with Peers(store, let_in) as peers`."""

    def __init__(self, store: Store, let_in: Pass) -> None:
        self._store = store
        self._let_in = let_in
        self._transports: dict[str, SocketTransport] = {}
        self._links: dict[str, Link] = {}

    async def __aenter__(self) -> "Peers":
        return self

    async def __aexit__(self, *exc: object) -> None:
        for transport in self._transports.values():
            await transport.close()

    async def link(self, row: NodeRow) -> Link:
        """The link to that node, made when first needed."""
        known = self._links.get(row.node)
        if known is None or known.is_closed or known.is_leaving:
            transport = self._transports.get(row.cluster)
            if transport is None:
                transport = self._transports[row.cluster] = SocketTransport(
                    node="wakeful-command",
                    cluster=row.cluster,
                    listen="unix:",  # never does
                    entropy=os.urandom,
                    secret=self._let_in.secret,
                    tls=self._let_in.tls,
                )
            known = await transport.connect(row.address, expect_node=row.node)
            try:
                status = await _status(known, STATUS_MS)
            except (LinkLost, DeadlineExceeded) as error:  # nothing was asked of it yet
                await known.close()
                raise LinkLost(f"node {row.node} does not answer: {error.message}", was_sent=False) from None
            if not runs(status, self._store):
                await known.close()
                raise LinkLost(f"node {row.node} runs another store, of which this one is a copy", was_sent=False)
            self._links[row.node] = known
        return known

    async def status_of(self, row: NodeRow, *, timeout_ms: int) -> dict[str, Any]:
        """What that node says of itself."""
        return await _status(await self.link(row), timeout_ms)

    async def call_raw(
        self,
        cls: str,
        key: str,
        method: str,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        request_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> bytes:
        """The answer of the object as bytes of the codec, wherever it lives."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (deadline_ms or Limits().call_deadline_ms) / 1000
        target = ObjectId(cls, key)
        arguments = encode(tuple(args)), encode(kwargs or {})
        while True:
            left_ms = max(1, int((until - loop.time()) * 1000))
            sent = PeerCall(cls, key, method, *arguments, left_ms, request_key, caller="wakeful-command")
            answer = await self._try(target, sent, left_ms, is_harmless=request_key is not None)
            if isinstance(answer, bytes):
                return answer
            if loop.time() + AGAIN_S > until:
                raise DeadlineExceeded(
                    f"{target}.{method} could not begin within its deadline: {answer.message}", code="call.unrouted"
                )
            await asyncio.sleep(AGAIN_S)

    async def _try(self, target: ObjectId, call: PeerCall, left_ms: int, *, is_harmless: bool) -> bytes | Unavailable:
        """The answer, or why it should be asked for again."""
        owner = await self._owner(target)
        if owner is None:
            return Unavailable(f"{target}: nobody owns its shard at the moment", code="shard.unowned")
        try:
            link = await self.link(owner)
            reply = await link.ask(call, timeout_ms=left_ms)
        except LinkLost as error:
            if error.was_sent and not is_harmless:
                raise
            return error
        if reply.failure is None:
            return reply.answer or b""
        failure = error_of(reply.failure)
        if isinstance(failure, Unavailable) and (not reply.failure.is_started or is_harmless):
            return failure
        raise failure

    async def _owner(self, target: ObjectId) -> NodeRow | None:
        shard = shard_of(target)
        for member in (await members(self._store, now_ms())).nodes:
            if member.state in ALIVE and shard in member.shards:
                return member.row if member.row.address else None
        return None


async def _status(link: Link, timeout_ms: int) -> dict[str, Any]:
    call = PeerCall("", "", STATUS, encode(()), encode({}), timeout_ms, caller="wakeful-command")
    reply = await link.ask(call, timeout_ms=timeout_ms)
    if reply.failure is not None:
        raise error_of(reply.failure)
    found: dict[str, Any] = decode(reply.answer or b"")
    return found


def control_addresses(row: NodeRow) -> list[str]:
    """Where the node's control socket may be on this machine."""
    addresses_here = []
    with suppress(Unavailable):
        addresses_here = [f"{addresses.SCHEME}{path}" for path in addresses.folder().glob(f"*-{row.node}.sock")]
    # Of a store that nodes share it is the address of their links, where a command that speaks otherwise is a stranger.
    if addresses.is_control(row.address, row.node) and row.address not in addresses_here:
        addresses_here.append(row.address)
    return addresses_here


@asynccontextmanager
async def controlling(store: Store, row: NodeRow) -> AsyncIterator[tuple[ControlClient, dict[str, Any]] | None]:
    """The node's control socket and what it says of itself; None when it does not answer."""
    for address in control_addresses(row):
        client = ControlClient(address, store=getattr(store, "asked_url", store.url))
        try:
            async with asyncio.timeout(ANSWER_S if store.shared else OWNER_S):
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
    """What each node says of itself, of those that can be asked from here and answer within `ALL_S`; the owner of a file has its own time."""
    within_s = ALL_S if store.shared else OWNER_S
    let_in = pass_of()
    async with Peers(store, let_in) as peers:

        async def ask(row: NodeRow) -> dict[str, Any] | None:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    return await said_by(row)
            return None

        async def said_by(row: NodeRow) -> dict[str, Any] | None:
            async with controlling(store, row) as found:
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
async def connecting(store: Store, id: ObjectId | None = None) -> AsyncIterator[ControlClient | Peers | None]:
    """Something that takes calls for any object, its owner first; None when no process runs the store.

    `CommandError` when nodes live and none of them can be reached from here.
    """
    cluster = await members(store, now_ms())
    for member in _in_order(cluster, id):
        async with controlling(store, member.row) as reached:
            if reached is not None:
                yield reached[0]
                return
    if not store.shared or not cluster.alive:
        # An SQLite file is locked by its owner, so its lease needs no respect: opening it will tell.
        yield None
        return
    let_in = pass_of()
    async with Peers(store, let_in) as peers:
        await _check_link(peers, cluster, let_in)
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
