"""Layer 4. How does a gateway see to it that its objects are on the list of gateways before they have sockets here?

What comes together goes to the list in one turn. An object whose last socket went stays on it for a while: it often
gets another, and who is on the list for nothing is only written to for nothing.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING

from wakeful.sockets.gateways import ALL
from wakeful.values.errors import DeadlineExceeded, Unavailable
from wakeful.values.ids import SHARDS, ObjectId

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime

FORGET_AFTER_MS = 5_000
VERIFY_MS = 100  # between looks at whether the store is back


class Register:
    """This gateway's entries on the list."""

    def __init__(self, node: "NodeRuntime", expelled: Callable[[], None]) -> None:
        self._node = node
        self._token = ""
        self._life = 1
        self._expelled = expelled
        self._noted: set[ObjectId] = set()
        self._added: dict[ObjectId, None] = {}  # what the list is to learn
        self._removed: dict[ObjectId, None] = {}
        self._telling: asyncio.Task[bool] | None = None
        self._is_verifying = False
        node.farewells.append(self._doubt)
        node.returns.append(lambda: self._doubt(range(SHARDS)))

    @property
    def id(self) -> str:
        """Of this gateway; another one after it was thought to be dead, and in the next process of the same name."""
        if not self._token:
            self._token = f"{int(self._node.dice.random() * (1 << 32)):08x}"
        return f"{self._node.name}~{self._token}.{self._life}"

    async def add(self, target: ObjectId) -> None:
        """Returns when that object is on the list."""
        self._removed.pop(target, None)
        while target not in self._noted:
            self._added[target] = None
            if not await asyncio.shield(self._telling or self._tell_soon()):
                raise Unavailable("this process was thought to be dead; try again", code="socket.gateway")

    def remove(self, target: ObjectId) -> None:
        """There are no sockets of it here any more, and it knows that."""
        if target in self._noted:
            if not self._removed:
                clock = self._node.clock
                clock.call_at(clock.now() + FORGET_AFTER_MS, self._tidy)
            self._removed[target] = None

    async def leave(self) -> None:
        """There are no sockets here any more."""
        if self._noted and self._node.state == "up":
            with suppress(Unavailable, DeadlineExceeded):
                await self._node.send(ALL, "leave", (self.id,), {})
                self._noted.clear()

    def _tidy(self) -> None:
        if self._removed and self._telling is None and self._node.state == "up":
            self._tell_soon()

    def _tell_soon(self) -> "asyncio.Task[bool]":
        task = self._telling = asyncio.get_running_loop().create_task(self._tell(), context=Context())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits raises it
        self._node.keep(task)
        return task

    async def _tell(self) -> bool:
        """Bring the list up to date with what has gathered; False when it thinks that this gateway is dead."""
        added, self._added = list(self._added), {}
        removed, self._removed = list(self._removed), {}
        self._noted.difference_update(removed)
        try:
            args = (self.id, [tuple(id) for id in added], [tuple(id) for id in removed])
            if not await self._node.send(ALL, "note", args, {}):
                self._expel()
                return False
            self._noted.update(added)
            return True
        finally:
            self._telling = None

    def _doubt(self, shards: Collection[int]) -> None:
        """The store was away, or this process was: others may have thought it dead meanwhile."""
        if len(shards) == SHARDS and self._node.is_clustered and self._noted and not self._is_verifying:
            self._is_verifying = True
            self._node.keep(asyncio.get_running_loop().create_task(self._verify(), context=Context()))

    async def _verify(self) -> None:
        node = self._node
        try:
            while node.state in ("up", "down"):
                await node.clock.sleep(VERIFY_MS)
                with suppress(Unavailable, DeadlineExceeded):
                    if node.state == "up":
                        if not await node.send(ALL, "is_known", (self.id,), {}):
                            self._expel()
                        return
        finally:
            self._is_verifying = False

    def _expel(self) -> None:
        self._life += 1
        self._noted.clear()
        self._expelled()
