"""Layer 4. What do the schedules of one node share?"""

from typing import TYPE_CHECKING

from wakeful.runtime.node import Node
from wakeful.runtime.turn import Turn
from wakeful.specs.zones import zone_of
from wakeful.values.errors import NotRunning

if TYPE_CHECKING:
    from wakeful.schedules.tenants import Quotas

FEATURE = "schedules"


class NodeSchedules:
    """What the schedules of a program share: its zone and its quotas."""

    def __init__(self, *, default_zone: str, quotas: "Quotas | None") -> None:
        zone_of(default_zone)
        self.default_zone = default_zone
        self.quotas = quotas

    async def admit(self, turn: Turn, count: int) -> None:
        """`QuotaExceeded` when the object's tenant may not have one more schedule."""
        if self.quotas is not None:
            await self.quotas.admit_schedule(turn, count)

    async def release(self, turn: Turn, count: int) -> None:
        """The object has no more than so many schedules now."""
        if self.quotas is not None:
            await self.quotas.release_schedule(turn, count)


def feature_of(node: Node) -> NodeSchedules:
    """The schedules of the program that this node runs."""
    found = node.features.get(FEATURE)
    if not isinstance(found, NodeSchedules):
        raise NotRunning("this node runs without schedules; start it with app.run(…)", code="schedule.feature")
    return found
