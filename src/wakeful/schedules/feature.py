"""Layer 4. How do schedules join the nodes of a program?"""

import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.runtime.feature import Feature
from wakeful.schedules.declarations import Declarations
from wakeful.schedules.functions import CLASS as FUNCTIONS
from wakeful.schedules.functions import Functions, start_function
from wakeful.schedules.options import FEATURE, NodeSchedules
from wakeful.schedules.schedules import operations, upsert
from wakeful.schedules.tenants import CLAIMS, TENANTS, Claims, Quotas, Tenant, erase
from wakeful.schedules.timers import LaneTimer, ScheduleTimer
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.runtime.turn import Turn


class ScheduleFeature(Feature):
    """What runs by the clock: named schedules of objects, and plain functions."""

    def __init__(self, *, default_zone: str, quotas: Quotas | None) -> None:
        self.functions = Functions()
        self.declarations = Declarations(upsert)
        self.declarations.by_key(self.functions.cls, self.functions.declared_as)
        self.classes = ((self.functions.cls, FUNCTIONS), (Tenant, TENANTS), (Claims, CLAIMS))
        self._shared = NodeSchedules(default_zone=default_zone, quotas=quotas)

    def equip(self, node: "Node") -> None:
        node.features[FEATURE] = self._shared
        node.operations.update(operations())
        for handler in (ScheduleTimer, LaneTimer):
            node.timer_runs.register(handler(self.declarations, node.limits.alarm_deadline_ms))

    def add_function(self, spec: Any, function: Any, *, node: "Node | None", **options: Any) -> Any:
        """Run this function at the times of the spec, also when the program runs already."""
        self.functions.add(spec, function, **options)
        name = str(options.get("name", function.__name__))
        if node is not None and not node.is_client:
            node.home(ObjectId(FUNCTIONS, name)).hibernation.retire(FUNCTIONS)
            node.keep(asyncio.get_running_loop().create_task(start_function(node, name)))
        return function

    async def started(self, node: "Node") -> None:
        """Functions on the deployment's clock have their schedules."""
        for name in self.functions.names():
            await start_function(node, name)

    async def erase(self, turn: "Turn") -> None:
        await erase(turn)
