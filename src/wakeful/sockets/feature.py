"""Layer 4. How do sockets join a node?"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wakeful.runtime.turn import running_turn
from wakeful.sockets import socket as sockets
from wakeful.sockets.effects import Effect
from wakeful.sockets.gateway import Gateway
from wakeful.sockets.gateways import Sweep
from wakeful.sockets.lost import Closes, Lost
from wakeful.sockets.outbox import REQUEST, Outbox
from wakeful.sockets.socket import FEATURE, Message, Socket
from wakeful.sockets.turns import (
    CLOSED,
    CONNECT,
    FORGET,
    LATER,
    MESSAGE,
    close_later,
    closed,
    connect,
    forget,
    has_hook,
    message,
)
from wakeful.store.protocol import NodeRow
from wakeful.values.errors import NotRunning

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.node import Node


class SocketFeature:
    """What the sockets of one node share. A process with several stores has several nodes and one gateway."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._gateway = Gateway(node)
        self._outbox = Outbox(node, lambda: self._gateway.id, self._row_of)
        self.sweep = Sweep(node, lambda gateway: gateway == self.gateway.id)

    @property
    def main(self) -> "SocketFeature":
        homes = self._node.homes
        return self if homes is None else feature_of(homes.main)

    @property
    def gateway(self) -> Gateway:
        """That of this process."""
        return self.main._gateway

    def _row_of(self, name: str) -> NodeRow | None:
        """The node of that name, where others see it."""
        return next((row for home in self._node.all_homes if (row := home.membership.nodes.get(name))), None)

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

    async def sockets(self, activation: "Activation", tag: str | None) -> list[Socket]:
        return await sockets.sockets_of(running_turn(activation, "ctx.sockets()"), tag)

    async def broadcast(
        self, activation: "Activation", message: Message, tag: str | None, except_for: Iterable[Socket | str]
    ) -> int:
        return await sockets.broadcast(running_turn(activation, "ctx.broadcast()"), message, tag, except_for)

    async def auto_response(self, activation: "Activation", request: str | None, response: str | None) -> None:
        await sockets.auto_response(running_turn(activation, "ctx.auto_response()"), request, response)


def feature_of(node: Any) -> SocketFeature:
    """The sockets of the program that this node runs."""
    found = node.features.get(FEATURE)
    if not isinstance(found, SocketFeature):
        raise NotRunning("this node runs without sockets; start it with app.run(…)", code="socket.feature")
    return found


def equip(node: "Node") -> None:
    """Give a node sockets, before it starts."""
    feature = node.features[FEATURE] = SocketFeature(node)
    node.operations.update({CONNECT: connect, MESSAGE: message, CLOSED: closed, FORGET: forget, LATER: close_later})
    node.quiet_operations |= {FORGET, LATER}
    node.timer_runs.register(Lost(node.limits.alarm_deadline_ms), quiet=True)
    node.timer_runs.register(Closes(node.limits.alarm_deadline_ms))
    node.routes.requests[REQUEST] = lambda *batch: feature.gateway.take(*batch)


def started(node: "Node") -> None:
    """The node runs from here on: see whose sockets were lost, now and whenever nodes come or go."""
    registry = node.registry
    if any(has_hook(registry.named(name), "on_message") for name in registry.names()):
        sweep = feature_of(node).sweep
        node.routes.watchers.append(sweep.look)
        sweep.look()


async def stopping(node: "Node") -> None:
    """The node is about to stop."""
    await feature_of(node).gateway.leave()
