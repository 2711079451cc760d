"""Layer 4. Which gateway holds sockets of which objects, and who tells those objects when it dies?

One reserved object knows, of every process that holds sockets, the objects that they belong to. When a process is gone
from the cluster, the owner of that object writes to all of them, with the commit that crosses them off its list.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wakeful.policy.order import Order
from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import running_turn
from wakeful.store.protocol import Range
from wakeful.values.codec import encode
from wakeful.values.commits import USER
from wakeful.values.errors import DeadlineExceeded, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.object_runtime import NodeRuntime

GATEWAYS = "wakeful.Gateways"
ALL = ObjectId(GATEWAYS, "all")
LOST = "socket-lost"  # of an object: a gateway that held sockets of it is gone
PAGE = 500  # objects that are written to in one turn

_FALSE = encode(False)  # of a gateway that is thought to be dead

log = logging.getLogger("wakeful.sockets")


def name_of(gateway: str) -> str:
    """The node that this gateway is, or was, a part of."""
    return gateway.rpartition("~")[0]


class Gateways:
    """The list of all. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def note(self, gateway: str, added: list[tuple[str, str]], removed: list[tuple[str, str]]) -> bool:
        """That gateway holds sockets of these objects, or does no longer; False when it is thought to be dead."""
        storage = self._ctx.storage
        if await storage.get(f"gate/{gateway}", default=True) is False:
            return False
        await storage.put(f"gate/{gateway}", True)
        await storage.delete_many([_at(gateway, id) for id in removed])
        await storage.put_many({_at(gateway, id): list(id) for id in added})
        return True

    async def is_known(self, gateway: str) -> bool:
        """It is on the list, and nobody thinks that it is dead."""
        return bool(await self._ctx.storage.get(f"gate/{gateway}", default=False))

    async def leave(self, gateway: str) -> None:
        """It holds no sockets any more."""
        storage = self._ctx.storage
        while found := await storage.list(prefix=f"at/{gateway}/", limit=PAGE):
            await storage.delete_many(found)
        await storage.delete(f"gate/{gateway}")

    async def bury(self, gateways: list[str]) -> bool:
        """These are dead: write to the objects whose sockets they held; True when there is more to write."""
        storage, activation = self._ctx.storage, runtime_of(self._ctx)
        turn = running_turn(activation, "the list of gateways")
        now = activation.node.clock.now()
        order = Order(activation.node.name)
        has_more = False
        for gateway in gateways:
            found = await storage.list(prefix=f"at/{gateway}/", limit=PAGE)
            await storage.delete_many(found)
            for cls, key in found.values():
                turn.send([Timer(ObjectId(cls, key), f"{LOST}:{gateway}", now, now, order.next(now))])
            if len(found) < PAGE:
                await storage.delete(f"gate/{gateway}")
            else:
                await storage.put(f"gate/{gateway}", False)  # whatever becomes of its node: this one stays dead
                has_more = True
        return has_more


def _at(gateway: str, id: Iterable[str]) -> str:
    cls, key = id
    return f"at/{gateway}/{cls}/{key}"


class Sweep:
    """This node's look at the list, whenever nodes came or went."""

    def __init__(self, node: "NodeRuntime", is_ours: Any) -> None:
        self._node = node
        self._is_ours = is_ours  # the gateway of this very process
        self._task: asyncio.Task[None] | None = None
        self._is_asked = False

    def look(self) -> None:
        """Nodes or owners changed."""
        self._is_asked = True
        if self._task is None and self._node.state == "up":
            self._task = asyncio.get_running_loop().create_task(self._sweep())
            self._node.keep(self._task)

    async def _sweep(self) -> None:
        node, tries = self._node, 0
        try:
            while self._is_asked and node.state == "up":
                self._is_asked = False
                if node.is_clustered and shard_of(ALL) not in node.epochs:
                    return
                try:
                    while (dead := await self._dead()) and await node.send(ALL, "bury", (dead,), {}):
                        pass
                except (Unavailable, DeadlineExceeded) as error:
                    log.info("gateways could not be looked at: %s", error, extra={"code": "socket.sweep"})
                    self._is_asked = True
                    tries += 1
                    await node.clock.sleep(platform_delay_ms(tries, node.dice.random()))
        finally:
            self._task = None

    async def _dead(self) -> list[str]:
        """Gateways of nodes that are gone. From the disk, so that nothing wakes when there are none."""
        node = self._node
        rows = await node.store.scan(ALL, USER, Range("gate/", "gate0"))
        gateways = [key.partition("/")[2] for key, _ in rows]
        if not gateways:
            return []
        live = {row.node for row in await node.store.nodes()} if node.is_clustered else set()
        live.discard(node.name)
        dead = []
        for (_, data), gateway in zip(rows, gateways, strict=True):
            is_alive = name_of(gateway) in live or self._is_ours(gateway)
            if not is_alive or data == _FALSE:
                dead.append(gateway)
        return dead
