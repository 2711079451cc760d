"""Layer 4. How long was nobody there? For delays that stand still meanwhile (`resume="pause_while_down"`).

Down is when no node of the deployment ran. All of them beat at one reserved object; a gap between two beats that is
longer than a missed beat or two is counted there. Known to a beat, five seconds.
"""

import asyncio
from typing import TYPE_CHECKING

from wakeful.runtime.context import runtime_of
from wakeful.values.errors import DeadlineExceeded, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.times import Handle

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.object_runtime import NodeRuntime

PULSE = "wakeful.Pulse"
BEAT_MS = 5_000
GAP_MS = 3 * BEAT_MS
_ALL = ObjectId(PULSE, "all")


class Pulse:
    """Counts the time in which nobody was there. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def beat(self) -> int:
        """Somebody is there now; how long in all nobody was."""
        storage = self._ctx.storage
        now = runtime_of(self._ctx).node.clock.now()
        last, total = await storage.get("beat", (now, 0))
        if now - last > GAP_MS:
            total += now - last
        await storage.put("beat", (max(now, last), total))
        return int(total)


class Downtime:
    """What this node knows of it, while some machine needs to know."""

    def __init__(self, node: "NodeRuntime", *, is_needed: bool) -> None:
        self._node = node
        self._is_needed = is_needed
        self._total: int | None = None
        self._next: Handle | None = None

    def begin(self) -> None:
        """This node runs from here on, so it beats, if any machine needs to know."""
        if self._is_needed and self._next is None:
            self._again()

    async def ask(self) -> int:
        """How long in all nobody was there."""
        if not self._is_needed:
            return 0
        if self._total is None:  # the first beat is on its way, or the store was away at the last one
            await self._beat()
        return self._total or 0

    async def _beat(self) -> None:
        self._total = await self._node.send(_ALL, "beat", (), {})

    def _again(self) -> None:
        """Beat now, and from now on; whether it succeeds or not, the next one comes."""
        node = self._node
        if not node.is_dead:
            self._next = node.clock.call_at(node.clock.now() + BEAT_MS, self._again)
            node.keep(asyncio.get_running_loop().create_task(self._try_beat()))

    async def _try_beat(self) -> None:
        try:
            await self._beat()
        except (Unavailable, DeadlineExceeded):
            self._total = None  # who needs to know must ask anew
