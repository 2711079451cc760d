"""Layer 4. How do sockets join the nodes of a program?"""

from typing import TYPE_CHECKING

from wakeful.runtime.feature import Feature
from wakeful.sockets.gateways import GATEWAYS, Gateways
from wakeful.sockets.lost import Closes, Lost
from wakeful.sockets.node_sockets import NodeSockets, feature_of
from wakeful.sockets.outbox import REQUEST
from wakeful.sockets.socket import FEATURE
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

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


class SocketFeature(Feature):
    """Clients that are connected to objects."""

    classes = ((Gateways, GATEWAYS),)

    def equip(self, node: "Node") -> None:
        feature = node.features[FEATURE] = NodeSockets(node)
        node.operations.update({CONNECT: connect, MESSAGE: message, CLOSED: closed, FORGET: forget, LATER: close_later})
        node.quiet_operations |= {FORGET, LATER}
        node.timer_runs.register(Lost(node.limits.alarm_deadline_ms), quiet=True)
        node.timer_runs.register(Closes(node.limits.alarm_deadline_ms))
        node.routes.requests[REQUEST] = lambda *batch: feature.gateway.take(*batch)

    async def started(self, node: "Node") -> None:
        """See whose sockets were lost, now and whenever nodes come or go."""
        registry = node.registry
        if any(has_hook(registry.by_name(name), "on_message") for name in registry.names()):
            sweep = feature_of(node).sweep
            node.routes.watchers.append(sweep.look)
            sweep.look()

    async def stopping(self, node: "Node") -> None:
        """Clients that are connected here are sent away."""
        await feature_of(node).gateway.leave()
