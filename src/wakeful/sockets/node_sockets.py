"""Layer 4. What do the sockets of one node share?"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wakeful.runtime.turn import running_turn
from wakeful.sockets import socket as sockets
from wakeful.sockets.gateway import Gateway
from wakeful.sockets.gateways import Sweep, name_of
from wakeful.sockets.outbox import Effect, Outbox
from wakeful.sockets.socket import FEATURE, Message, Socket
from wakeful.store.protocol import NodeRow
from wakeful.values.errors import DeadlineExceeded, NotRunning, Unavailable

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.runtime.object_runtime import ObjectRuntime

ANSWERED = "sockets.answered"  # what other nodes are asked by for the times of automatic answers
ANSWERED_MS = 2_000


class NodeSockets:
    """What the sockets of one node share. A process with several stores has several nodes and one gateway."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._gateway = Gateway(node)
        self._outbox = Outbox(node, lambda: self._gateway.id, self._row_of)
        self.sweep = Sweep(node, lambda gateway: gateway == self.gateway.id)

    @property
    def main(self) -> "NodeSockets":
        homes = self._node.homes
        return self if homes is None else feature_of(homes.main)

    @property
    def gateway(self) -> Gateway:
        """That of this process."""
        return self.main._gateway

    def _row_of(self, name: str) -> NodeRow | None:
        """The node of that name, where others see it."""
        return next((row for home in self._node.all_homes if (row := home.membership.nodes.get(name))), None)

    async def answered_at(self, ids: Mapping[str, list[str]]) -> dict[str, int]:
        """When sockets, by their gateways, had the automatic answer last; those of one that can't be asked are left out."""
        main = self.main
        told = await asyncio.gather(*(main._ask_answered(gateway, held) for gateway, held in ids.items()))
        return {id: at for one in told for id, at in one.items()}

    async def _ask_answered(self, gateway: str, ids: list[str]) -> dict[str, int]:
        if gateway == self._gateway.id:
            return self._gateway.answered_at(ids)
        row = self._row_of(name_of(gateway))
        if row is None:
            return {}
        try:
            found: dict[str, int] = await self._node.routes.ask(row, ANSWERED, ids, timeout_ms=ANSWERED_MS)
        except (Unavailable, DeadlineExceeded):
            return {}
        return found

    def release(self, effects: Iterable[tuple[str, Effect]]) -> None:
        """A turn is on disk: what it sends leaves."""
        main = self.main
        gateway = main._gateway
        for to, effect in effects:
            if to == gateway.id:
                gateway.apply(effect)
            else:
                main._outbox.push(to, effect)

    # what the context offers

    async def sockets(self, activation: "ObjectRuntime", tag: str | None) -> list[Socket]:
        return await sockets.sockets_of(running_turn(activation, "ctx.sockets()"), tag)

    async def broadcast(
        self, activation: "ObjectRuntime", message: Message, tag: str | None, except_for: Iterable[Socket | str]
    ) -> int:
        return await sockets.broadcast(running_turn(activation, "ctx.broadcast()"), message, tag, except_for)

    async def auto_response(self, activation: "ObjectRuntime", request: str | None, response: str | None) -> None:
        await sockets.auto_response(running_turn(activation, "ctx.auto_response()"), request, response)


def feature_of(node: Any) -> NodeSockets:
    """The sockets of the program that this node runs."""
    found = node.features.get(FEATURE)
    if not isinstance(found, NodeSockets):
        raise NotRunning("this node runs without sockets; start it with app.run(…)", code="socket.feature")
    return found
