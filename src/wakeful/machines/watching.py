"""Layer 4. Who watches a machine, and what are they shown?"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from wakeful.machines.kept import Kept
from wakeful.machines.showing import shown
from wakeful.machines.snapshot import Snapshot
from wakeful.runtime.turn import Turn
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.machines.binding import Bound
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.node import Node

WAITING_MAX = 1_000  # of one watcher that does not look; past it the oldest are dropped
News = Snapshot | dict[str, Any]


class Watchers:
    """Those who watch machines of this node; told once what they see is on disk."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._queues: dict[ObjectId, list[asyncio.Queue[News]]] = {}

    def changed(self, turn: Turn, bound: "Bound", kept: Kept) -> None:
        if turn.activation.id in self._queues:
            self._later(turn.activation, shown(bound, kept))

    def emit(self, turn: Turn, event: dict[str, Any]) -> None:
        if turn.activation.id in self._queues:
            self._later(turn.activation, event)

    async def watch(self, id: ObjectId) -> AsyncIterator[News]:
        """Snapshots and emitted events from now on, in order."""
        queue: asyncio.Queue[News] = asyncio.Queue()
        self._queues.setdefault(id, []).append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues[id].remove(queue)
            if not self._queues[id]:
                del self._queues[id]

    def _later(self, activation: "Activation", news: News) -> None:
        # One pass later the turn has ended, and its commit has its number.
        asyncio.get_running_loop().call_soon(self._follow, activation, news)

    def _follow(self, activation: "Activation", news: News) -> None:
        self._node.keep(asyncio.get_running_loop().create_task(self._tell(activation, news)))

    async def _tell(self, activation: "Activation", news: News) -> None:
        try:
            await activation.settled()
        except Unavailable:
            return  # it did not happen
        for queue in self._queues.get(activation.id, ()):
            while queue.qsize() >= WAITING_MAX:
                queue.get_nowait()
            queue.put_nowait(news)
