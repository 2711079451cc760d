"""Layer 3. Whom can't this node reach, since when, and which calls ran out of time?

The store decides who owns what, so a network that is cut between two nodes moves nothing: each goes on with what it
has, and calls from one to the other wait until their deadline. Only the two of them can tell.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from wakeful.values.clock import Handle
from wakeful.values.errors import ClusterError, DeadlineExceeded, LinkLost, Unavailable, WakefulError
from wakeful.values.ids import shard_of

if TYPE_CHECKING:
    from wakeful.runtime.calls import Call
    from wakeful.runtime.node import Node
    from wakeful.store.protocol import NodeRow

log = logging.getLogger("wakeful.links")

HERE = "here"  # what is asked to see whether one gets through; any answer will do
SOON_MS = 500  # from the first call that did not get through to the question whether nothing does
AGAIN_MS = 2_000  # between questions to those that did not answer
ALL_MS = 10_000  # between questions to all others, so that a cut shows that no call has met yet
ASKED_MAX = 32  # of all others at once; the next time the next ones
ANSWER_MS = 4_000  # longer than a connection is tried for, whose failure says why
LATE_KEPT_MS = 3_600_000  # for so long a method whose calls ran out of time is named
LATE_MAX = 64


class _Cut:
    """One that does not answer."""

    def __init__(self, since: int, why: str) -> None:
        self.since = since
        self.why = why
        self.calls = 0  # that did not get through
        self.is_sure = False  # it was asked again, and nothing came


class Contacts:
    """What a node knows of its ways to the others, and of calls that were not answered in time."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._cuts: dict[str, _Cut] = {}
        self._late: dict[tuple[str, str, str], list[int]] = {}  # class, method, owner: how many, and the last of them
        self._handle: Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._all_at = 0  # when all others are asked next
        self._turn = 0  # whose turn it is, where not all can be asked at once

    def start(self) -> None:
        """Ask the others now and then, until `stop`."""
        self.stop()
        self._all_at = self._node.clock.now() + ALL_MS
        if self._cuts or self._node.membership.asks_back:
            self._later(AGAIN_MS if self._cuts else ALL_MS)

    def stop(self) -> None:
        for one in (self._handle, self._task):
            if one is not None:
                one.cancel()
        self._handle = self._task = None

    # what calls meet

    def failed(self, name: str, error: Unavailable | ClusterError) -> None:
        """A call to that node did not get through."""
        cut = self._cuts.get(name)
        if cut is None:
            cut = self._cuts[name] = _Cut(self._node.clock.now(), error.message)
            if self._task is None:
                self._later(SOON_MS)
        cut.calls += 1

    def reached(self, name: str) -> None:
        """It answered."""
        cut = self._cuts.pop(name, None)
        if cut is not None and cut.is_sure:
            length_s = (self._node.clock.now() - cut.since) / 1000
            log.warning("node %s is reached again, after %.1f s", name, length_s, extra={"code": "link.back"})

    def expired(self, call: "Call") -> None:
        """A call had no answer by its deadline."""
        node = self._node
        node.meter.expired.add()
        target = call.chain[-1]
        owner = node.membership.owner_of(shard_of(target)) if node.is_clustered else None
        whose = node.name if shard_of(target) in node.epochs else "" if owner is None else owner.node
        now = node.clock.now()
        found = self._late.pop((target.cls, call.method, whose), [0, now])
        if len(self._late) >= LATE_MAX:
            del self._late[next(iter(self._late))]
        self._late[target.cls, call.method, whose] = [found[0] + 1, now]

    # what people are told

    def unreached(self) -> list[dict[str, Any]]:
        """Nodes that live, by the store, and don't answer this one."""
        now, live = self._node.clock.now(), self._alive()
        return [
            {"node": name, "for_ms": now - cut.since, "because": cut.why, "calls": cut.calls}
            for name, cut in sorted(self._cuts.items())
            if cut.is_sure and name in live
        ]

    def late(self) -> list[dict[str, Any]]:
        """Calls of the last hour that had no answer by their deadline: of which method, on which node (or nobody's)."""
        now = self._node.clock.now()
        self._late = {what: found for what, found in self._late.items() if now - found[1] < LATE_KEPT_MS}
        return [
            {"class": cls, "method": method, "on": owner or None, "calls": number, "ago_ms": now - at}
            for (cls, method, owner), (number, at) in reversed(self._late.items())
        ]

    # asking

    def _alive(self) -> "dict[str, NodeRow]":
        membership, now = self._node.membership, self._node.clock.now()
        return {
            name: row
            for name, row in membership.nodes.items()
            if name != self._node.name and row.lease_until > now and row.is_here is not False
        }

    def _later(self, length_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._node.clock.call_at(self._node.clock.now() + length_ms, self._look)

    def _look(self) -> None:
        self._handle = None
        if self._node.state == "up" and self._node.routes.has_links:
            self._task = asyncio.get_running_loop().create_task(self._ask_them())

    async def _ask_them(self) -> None:
        node = self._node
        live = self._alive()
        for name in self._cuts.keys() - live.keys():
            if not self._may_come_back(name):
                del self._cuts[name]
        asked = [row for name, row in live.items() if name in self._cuts]
        if node.membership.asks_back and node.clock.now() >= self._all_at:
            rest = [row for name, row in sorted(live.items()) if name not in self._cuts and row.address]
            first = self._turn % len(rest) if len(rest) > ASKED_MAX else 0
            asked += (rest[first:] + rest[:first])[:ASKED_MAX]
            self._turn = first + ASKED_MAX
            self._all_at = node.clock.now() + ALL_MS
        await asyncio.gather(*map(self._ask, asked))
        self._task = None
        if self._cuts or node.membership.asks_back:
            self._later(AGAIN_MS if self._cuts else max(1, self._all_at - node.clock.now()))

    def _may_come_back(self, name: str) -> bool:
        """It is silent, which is said elsewhere; but that it was cut off is said, and so shall be that it no longer is."""
        row = self._node.membership.nodes.get(name)
        return self._cuts[name].is_sure and row is not None and row.is_here is not False

    async def _ask(self, row: "NodeRow") -> None:
        began_at = self._node.clock.now()
        try:
            await self._node.routes.ask(row, HERE, timeout_ms=ANSWER_MS)
        except WakefulError as error:
            if isinstance(error, LinkLost | ClusterError | DeadlineExceeded):
                self._missed(row, error, began_at)
                return
            # Any other error is an answer: an older node does not know the question.
        self.reached(row.node)

    def _missed(self, row: "NodeRow", error: WakefulError, began_at: int) -> None:
        cut = self._cuts.setdefault(row.node, _Cut(began_at, ""))
        cut.why = error.message.removesuffix("; try again")
        if cut.is_sure or row.node not in self._alive():
            return
        cut.is_sure = True
        log.warning(
            "node %s (%s) lives and can't be reached from here: %s; calls to its objects end in call.unrouted",
            row.node,
            row.address,
            cut.why,
            extra={"code": "link.cut"},
        )
