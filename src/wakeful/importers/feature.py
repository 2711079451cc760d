"""Layer 5. How do the nodes of a program take in what lived elsewhere?

Few ever do, so what it takes is loaded when the first object does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wakeful.machines.node_machines import IMPORT
from wakeful.runtime.feature import Feature

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from wakeful.runtime.node import Node
    from wakeful.runtime.turn import Turn

CHART, SETTLE = "machine.chart", "schedules.settle"


class ImportFeature(Feature):
    """Machines and schedules of other libraries become objects here."""

    def equip(self, node: "Node") -> None:
        node.operations[IMPORT] = _load("machine_import", "arrive")
        node.operations[CHART] = _load("machine_import", "chart_of")
        node.operations[SETTLE] = _load("schedule_import", "settle")
        node.quiet_operations.add(CHART)

    async def erase(self, turn: "Turn") -> None:
        """Nothing: it keeps nothing."""


def _load(module: str, function: str) -> "Callable[..., Awaitable[Any]]":
    async def operate(*args: Any, **kwargs: Any) -> Any:
        return await getattr(import_module(f"wakeful.importers.{module}"), function)(*args, **kwargs)

    return operate
