"""Layer 4. How do machines join the nodes of a program?"""

from typing import TYPE_CHECKING

from wakeful.machines.actors import ANSWER, KEEP, SAY
from wakeful.machines.bindings import Bound
from wakeful.machines.downtime import PULSE, Pulse
from wakeful.machines.family import erase
from wakeful.machines.mail import Mail
from wakeful.machines.news import NEWS, SEEN, news, show
from wakeful.machines.node_machines import FEATURE, NodeMachines, feature_of
from wakeful.machines.timers import Delays, Doings, Runs, hear, keep, take_answer
from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import Turn

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


class MachineFeature(Feature):
    """Objects that are statecharts."""

    classes = ((Pulse, PULSE),)

    def __init__(self) -> None:
        self.bound: dict[str, Bound] = {}  # the program's machines, by their names

    def bind(self, name: str, cls: type) -> None:
        """A class of the program is one."""
        self.bound[name] = Bound(name, cls, self.bound.__contains__)

    def equip(self, node: "Node") -> None:
        feature = node.features[FEATURE] = NodeMachines(node, self.bound)
        node.operations.update({ANSWER: take_answer, KEEP: keep, SAY: hear, NEWS: news, SEEN: show})
        for handler in (Delays, Doings, Runs, Mail):
            node.timer_runs.register(handler(feature, node.limits.alarm_deadline_ms))

    async def erase(self, turn: Turn) -> None:
        """Whoever started it hears that it failed, what it runs is stopped, and the machines that it started go with it."""
        bound = self.bound.get(turn.activation.id.cls)
        if bound is not None:
            await erase(feature_of(turn.activation.node), turn, bound)

    async def started(self, node: "Node") -> None:
        """From here on time is not down time."""
        feature_of(node).downtime.begin()
