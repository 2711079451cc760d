"""Layer 5. How does a command call objects whose nodes are on other machines?

By a link of its own to the node that owns the object, as nodes do among themselves: with the cluster's secret. A call
that has not begun anywhere is made again until its deadline.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.cli.cluster_access import Pass
from wakeful.cli.output import now_ms
from wakeful.policy.limits import Limits
from wakeful.store.protocol import NodeRow, Store
from wakeful.transport.messages import raised
from wakeful.transport.protocol import Link, PeerCall
from wakeful.transport.tcp import SocketTransport
from wakeful.values.codec import decode, encode
from wakeful.values.errors import DeadlineExceeded, LinkLost, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.views.nodes import ALIVE, members

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
        failure = raised(reply.failure)
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
        raise raised(reply.failure)
    found: dict[str, Any] = decode(reply.answer or b"")
    return found
