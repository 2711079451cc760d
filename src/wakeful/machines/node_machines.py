"""Layer 4. What do the machines of one node share?"""

import logging
from typing import TYPE_CHECKING, Any

from wakeful.machines.actors import Actors
from wakeful.machines.bindings import Bound
from wakeful.machines.downtime import Downtime
from wakeful.machines.watchers import Watchers
from wakeful.policy.order import Order
from wakeful.runtime.turn import Turn
from wakeful.statechart.effects import Log
from wakeful.values.codec import encode
from wakeful.values.errors import NotRunning
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer
from wakeful.values.trace import with_trace

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime

FEATURE = "machines"
# The timers of machines: delays, actions that wait to be done, actors that run, and what one sends another.
DELAY, DO, RUN, MAIL = "machine", "machine-do", "machine-run", "machine-mail"
# The operation by which a machine of elsewhere becomes one here; whoever brings them in has it.
IMPORT = "machine.import"
log = logging.getLogger("wakeful.machine")


class NodeMachines:
    """What the machines of one node share."""

    def __init__(self, node: "NodeRuntime", classes: dict[str, Bound]) -> None:
        self._node = node
        self.classes = classes
        self.order = Order(node.name)
        self.watchers = Watchers(node)
        self.actors = Actors(node)
        self.downtime = Downtime(node, is_needed=any(one.resume == "pause_while_down" for one in classes.values()))

    def bound_of(self, cls: str) -> Bound:
        return self.classes[cls]

    def mail(self, turn: Turn, target: ObjectId, letter: list[Any]) -> None:
        """Have another machine get this, with the commit of this turn."""
        dice, now = self._node.dice, self._node.clock.now()
        token = f"{int(dice.random() * (1 << 53)):014x}{int(dice.random() * (1 << 24)):06x}"
        payload = with_trace(encode(letter), turn.trace_for(MAIL))
        turn.send([Timer(target, f"{MAIL}:{token}", now, now, self.order.next(now), payload=payload)])

    def log(self, id: ObjectId, effect: Log) -> None:
        """What a chart wants to have written."""
        label = f"{effect.label}: " if effect.label else ""
        log.info("%s%s", label, effect.value, extra={"object": str(id)})


def feature_of(node: Any) -> NodeMachines:
    """The machines of the program that this node runs."""
    found = node.features.get(FEATURE)
    if not isinstance(found, NodeMachines):
        raise NotRunning("this node runs without machines; start it with app.run(…)", code="machine.feature")
    return found
