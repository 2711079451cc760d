"""Layer 5. How is it remembered that somebody was refused, however often they try?

The first refusal of each kind (why, and whom) is written at once, the others of that minute as one row with their
count when it is over. In one minute there are rows for so many kinds, and one more for all the rest: a flood from many
addresses is a handful of rows, not a full disk.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from wakeful.security.audit import LOG
from wakeful.values.errors import WakefulError
from wakeful.values.times import Handle

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.security")

KINDS_MAX = 20
MINUTE_MS = 60_000
WRITE_MS = 2_000  # who is refused waits no longer for it to be written


class Refusals:
    """Counts refusals and writes them as audit rows."""

    def __init__(self) -> None:
        self._node: Node | None = None
        self._counts: dict[tuple[str, str], dict[str, Any]] = {}
        self._flush: Handle | None = None

    async def add(self, node: "Node", *, code: str, actor: str, act: str, target: str, why: str) -> None:
        """Somebody was refused just now. Whatever becomes of the row, they stay refused."""
        node.meter.denied.of(code).add()
        if node is not self._node or self._flush is None:
            self._begin(node)
        kind = (code, actor)
        if kind not in self._counts and len(self._counts) >= KINDS_MAX:
            kind = (code, "others")
            actor = "others"
        known = self._counts.get(kind)
        if known is not None:
            known["count"] += 1
            known["target"] = target
            return
        row = {"actor": actor, "act": act, "target": target, "detail": {"why": why}, "outcome": code, "count": 1}
        self._counts[kind] = row | {"count": 0}
        log.warning("refused %s: %s %s: %s", actor, act, target, why, extra={"code": code})
        await self._write(node, [row])

    def _begin(self, node: "Node") -> None:
        """Another minute, perhaps of another node of the app."""
        if self._flush is not None:
            self._flush.cancel()
        self._node = node
        self._counts.clear()
        node.last_words.append(self.flush)
        self._flush = node.clock.call_at(node.clock.now() + MINUTE_MS, lambda: self._minute_is_over(node))

    def _minute_is_over(self, node: "Node") -> None:
        self._flush = None
        if node is self._node and not node.is_dead:
            node.last_words.remove(self.flush)
            node.keep(asyncio.get_running_loop().create_task(self.flush()))

    async def flush(self) -> None:
        """Write what was counted so far: the minute is over, or the node stops before it is."""
        rows = [row for row in self._counts.values() if row["count"]]
        self._counts.clear()
        if rows and self._node is not None:
            await self._write(self._node, rows)

    async def _write(self, node: "Node", rows: list[dict[str, Any]]) -> None:
        try:
            await node.send(LOG, "refuse", (rows,), {}, deadline_ms=WRITE_MS)
        except WakefulError as error:
            log.warning("a refusal is not in the audit rows: %s", error, extra={"code": "audit.lost"})


class TurnedAway:
    """Writes down who came as a node and is none: told by the transport, which knows no audit rows."""

    def __init__(self) -> None:
        self.node: Node | None = None  # whose rows they are, once it is there
        self._refusals = Refusals()

    def __call__(self, peer: str, code: str, why: str) -> None:
        node = self.node
        if node is not None and node.state == "up":
            host = peer.rpartition(":")[0] or peer  # each connection has a port of its own
            told = self._refusals.add(node, code=code, actor=f"address:{host}", act="link", target=node.name, why=why)
            node.keep(asyncio.get_running_loop().create_task(told))
