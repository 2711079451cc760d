"""Layer 4. How do workflows join the nodes of a program?"""

from typing import TYPE_CHECKING

from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import Turn

if TYPE_CHECKING:  # a program without workflows loads nothing of them before it runs
    from wakeful.runtime.node import Node
    from wakeful.workflows.bindings import BoundWorkflow


class WorkflowFeature(Feature):
    """Objects with a body."""

    def __init__(self) -> None:
        self.bound: dict[str, BoundWorkflow] = {}  # the program's workflows, by their names

    def bind(self, name: str, cls: type) -> None:
        """A class of the program is one."""
        from wakeful.workflows.bindings import BoundWorkflow

        self.bound[name] = BoundWorkflow(name, cls, self.bound)

    def equip(self, node: "Node") -> None:
        from wakeful.workflows import acts
        from wakeful.workflows.mail import Calls, Places, WorkflowMail
        from wakeful.workflows.node_workflows import FEATURE, NodeWorkflows
        from wakeful.workflows.timers import BodyTimers, KeepTimers
        from wakeful.workflows.waiters import PEEK, peek
        from wakeful.workflows.watch import LOOK, NEWS, look

        feature = node.features[FEATURE] = NodeWorkflows(node, self.bound)
        node.operations.update({**acts.OPERATIONS, PEEK: peek, LOOK: look})
        node.rewrites |= {"result": feature.waiters.rewrite, NEWS: feature.waiters.rewrite_news}
        for handler in (BodyTimers, KeepTimers, WorkflowMail, Calls):
            node.timer_runs.register(handler(feature, node.limits.alarm_deadline_ms))
        node.timer_runs.register(Places(feature, node.limits.alarm_deadline_ms), quiet=True)

    async def erase(self, turn: Turn) -> None:
        """Whoever waits for its end hears that it was forgotten, and the workflows that it began go with it."""
        if turn.activation.id.cls in self.bound:
            from wakeful.workflows import acts
            from wakeful.workflows.node_workflows import feature_of

            await acts.erase(feature_of(turn.activation.node), turn)
