"""Layer 4. What do the workflows of one node share?"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.policy.order import Order
from wakeful.runtime.turn import Turn
from wakeful.values.codec import encode
from wakeful.values.errors import BadOption, NotRunning
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer
from wakeful.values.trace import with_trace
from wakeful.workflows.bindings import BoundWorkflow
from wakeful.workflows.waiters import Waiters

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime
    from wakeful.workflows.rehearsal import Rehearsals

FEATURE = "workflows"
# The timers of workflows: the body, what one sends another, calls that are part of one, and the end of what is kept of it.
BODY, MAIL, CALL, FORGET = "workflow", "workflow-mail", "workflow-call", "workflow-forget"
PLACE = "workflow-place"  # what a queue says to one that goes through it
TIMER = f"{BODY}:body"
LINGER_MS = 10_000  # for so long one that rests stays in memory: what it waits for may come at once
LINGERING_MAX = 1_000
log = logging.getLogger("wakeful.workflow")


class NodeWorkflows:
    """What the workflows of one node share."""

    def __init__(self, node: "NodeRuntime", classes: Mapping[str, BoundWorkflow]) -> None:
        self.node = node
        self.classes = classes
        self.drivers: dict[ObjectId, Any] = {}  # each the Driver of a body that is in memory
        self._order = Order(node.name)
        self._lingering: OrderedDict[ObjectId, Any] = OrderedDict()
        self._keeper: asyncio.Task[None] | None = None
        self.waiters = Waiters(node)
        self.rehearsals: Rehearsals | None = None  # set by `wakeful dev`: bodies are run once more, and compared
        node.farewells.append(self._send_away)

    def bound_of(self, cls: str) -> BoundWorkflow:
        bound = self.classes.get(cls)
        if bound is None:
            raise BadOption(
                f"{cls} is no Workflow in this program, and some of them are kept; bring back its base class and `run`, or "
                "forget them",
                code="workflow.class",
            )
        return bound

    def token(self) -> str:
        """A name that nobody else can have."""
        dice = self.node.dice
        return f"{int(dice.random() * (1 << 53)):014x}{int(dice.random() * (1 << 24)):06x}"

    def next_order(self) -> int:
        """The number of the next timer that is sent to another object."""
        return self._order.next(self.node.clock.now())

    def mail(self, turn: Turn, target: ObjectId, letter: list[Any], kind: str = MAIL) -> None:
        """Have another object get this, with the commit of this turn."""
        now = self.node.clock.now()
        payload = with_trace(encode(letter), turn.trace_for(kind))
        turn.send([Timer(target, f"{kind}:{self.token()}", now, now, self._order.next(now), payload=payload)])

    # bodies in memory

    def linger(self, driver: Any) -> None:
        """It rests: it is kept for a while."""
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep())
            self.node.keep(self._keeper)
        self._lingering[driver.id] = driver
        self._lingering.move_to_end(driver.id)
        clock = self.node.clock
        driver.linger_until = clock.now() + LINGER_MS
        clock.call_at(driver.linger_until, partial(self._let_go, driver))
        if len(self._lingering) > LINGERING_MAX:
            self._lingering.popitem(last=False)[1].drop()

    def _let_go(self, driver: Any) -> None:
        is_there = driver.id in self._lingering and self._lingering[driver.id] is driver
        if is_there and self.node.clock.now() >= driver.linger_until:
            del self._lingering[driver.id]
            driver.drop()

    def go_on(self, driver: Any) -> None:
        """It rests no more."""
        self._lingering.pop(driver.id, None)

    async def _keep(self) -> None:
        """Until the node ends, and then their code has an end too."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for driver in list(self.drivers.values()):
                driver.drop()

    def _send_away(self, shards: Collection[int]) -> None:
        for id in [id for id in self._lingering if shard_of(id) in shards]:
            self._lingering.pop(id).drop()


def feature_of(node: Any) -> NodeWorkflows:
    """The workflows of the program that this node runs."""
    found = node.features.get(FEATURE)
    if not isinstance(found, NodeWorkflows):
        raise NotRunning("this node runs without workflows; start it with app.run(…)", code="workflow.feature")
    return found
