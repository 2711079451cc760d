"""Layer 4. How do sockets join the nodes of a program?"""

from typing import TYPE_CHECKING

from wakeful.runtime.feature import Feature
from wakeful.runtime.timer_handler import Failed, RowTimers
from wakeful.runtime.turn import Turn
from wakeful.sockets import records as keeping
from wakeful.sockets.gateways import GATEWAYS, LOST, Gateways
from wakeful.sockets.node_sockets import ANSWERED, NodeSockets, feature_of
from wakeful.sockets.outbox import CLOSE as CLOSED_BY
from wakeful.sockets.outbox import REQUEST, effect, put
from wakeful.sockets.socket import FEATURE
from wakeful.sockets.turns import (
    CLOSE,
    CLOSED,
    CONNECT,
    FORGET,
    FORGOTTEN,
    LATER,
    MESSAGE,
    close_later,
    close_timer,
    closed,
    connect,
    forget,
    has_hook,
    message,
    part,
)
from wakeful.values.codec import decode
from wakeful.values.timers import Timer
from wakeful.values.trace import without_trace

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.runtime.object_runtime import ObjectRuntime


# A gateway died with the sockets of an object: how does that hear of each of them, once?
#
# One letter says which gateway it was; its turn wakes nothing and makes a timer for each socket that this one held. Each
# of those is a turn that forgets the socket and runs `on_close` with 1006. A gateway that lives asks for such a timer when
# the object has no time to be told by a call.


class _Owner(RowTimers):
    """What both have in common."""

    prefix = ""

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms


class Lost(_Owner):
    """`socket-lost:GATEWAY`."""

    prefix = LOST

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        gateway = timer.name.partition(":")[2]
        hears = has_hook(activation.known, "on_close")
        for id, kept in list((await keeping.load_all(turn)).items()):
            if kept.gateway != gateway:
                continue
            if hears:
                turn.set_timer(close_timer(activation, id))
            else:
                await keeping.remove(turn, id)
        return False

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> None:
        """It only reads and writes rows, so what failed was the store, which is not counted."""


class Closes(_Owner):
    """`socket-close:SOCKET`, with what it was closed with, if anybody knows."""

    prefix = CLOSE

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        id = timer.name.partition(":")[2]
        if activation.beside is not None:
            await activation.beside.in_event(self._tell(activation.beside.turn, id, timer))
        else:
            await self._tell(turn, id, timer)
        return False

    async def _tell(self, turn: Turn, id: str, timer: Timer) -> None:
        if await keeping.load(turn, id) is not None:
            known = without_trace(timer.payload)
            code, reason, was_clean = decode(known) if known else (1006, "", False)
            await part(turn, id, code, reason, was_clean=was_clean)

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> None:
        """The object was told, and failed: it is not told again."""
        id = failure.timer.name.partition(":")[2]
        if await keeping.load(turn, id) is not None:
            await keeping.remove(turn, id)


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
        node.routes.requests[ANSWERED] = lambda ids: feature.gateway.answered_at(ids)

    async def started(self, node: "Node") -> None:
        """See whose sockets were lost, now and whenever nodes come or go."""
        registry = node.registry
        if any(has_hook(registry.by_name(name), "on_message") for name in registry.names()):
            sweep = feature_of(node).sweep
            node.routes.watchers.append(sweep.look)
            sweep.look()

    async def erase(self, turn: Turn) -> None:
        """Its clients are sent away; the list of gateways loses its name when they are gone."""
        feature, (code, reason) = feature_of(turn.activation.node), FORGOTTEN
        for id, kept in (await keeping.load_all(turn)).items():
            put(turn, feature, kept.gateway, effect(CLOSED_BY, turn, [id], code=code, reason=reason))

    async def stopping(self, node: "Node") -> None:
        """Clients that are connected here are sent away."""
        await feature_of(node).gateway.leave()
