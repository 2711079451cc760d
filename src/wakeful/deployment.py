"""Layer 5. A program as its edges and its processes see it: classes, features, limits, keys, and the node that runs it.

An `App` has one and shows users what they call; whatever serves, shows or measures the program is given this.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from wakeful.jobs.jobs import Jobs
from wakeful.policy.limits import Limits
from wakeful.runtime.feature import Feature
from wakeful.runtime.node import Node
from wakeful.runtime.registry import Registry
from wakeful.runtime.status import status_of
from wakeful.store.protocol import Store
from wakeful.system import Keys
from wakeful.values.errors import NotRunning
from wakeful.values.ids import ObjectId
from wakeful.values.trace import Tracer

Place = str | Store | Mapping[str, str]
"""Where the objects of a class, or of a beginning of keys, are kept: a store, or, of a class, several servers by name."""


class Deployment:
    """What is the same in every process of a program, and this one's node."""

    def __init__(
        self,
        *,
        limits: Limits,
        idle_ms: int,
        features: Sequence[Feature],
        places: Mapping[str, Place],
        keys: Keys | None = None,
        overloaded: Callable[[], bool | str | None] | None = None,
    ) -> None:
        self.registry = Registry()
        self.limits = limits
        self.idle_ms = idle_ms
        self.features = list(features)
        self.places = dict(places)  # which objects live in which other store
        self.keys = keys
        self.tracer: Tracer | None = None  # see `wakeful.telemetry.setup`
        self.node: Node | None = None
        self.latest: Node | None = None  # the node that runs, or ran last: what it counted is still to be sent
        self.is_sampled = False  # somebody looks now and then at what no turn measures
        self._overloaded = overloaded
        for feature in self.features:
            for cls, name in feature.classes:
                self.registry.add(cls, name)

    @property
    def jobs(self) -> Jobs:
        return Jobs(self)

    def equip(self, node: Node) -> None:
        """Give a node the features, before it starts."""
        node.overload.ask, node.tracer = self._overloaded, self.tracer
        node.routes.requests["status"] = partial(status_of, node)
        for feature in self.features:
            feature.equip(node)
            node.erasers.append(feature.erase)

    async def started(self, node: Node) -> None:
        """The node runs, and is no client."""
        for feature in self.features:
            await feature.started(node)

    async def stopping(self, node: Node) -> None:
        """What is to be done while the node can still be asked."""
        for say in list(node.last_words):
            await say()
        if not node.is_client:
            for feature in self.features:
                await feature.stopping(node)

    def attach(self, node: Node) -> None:
        """Calls go to this node from here on."""
        if self.node is not None:
            raise NotRunning("this app is running already; one node per App in a process")
        self.node = self.latest = node

    def detach(self, node: Node) -> None:
        if self.node is node:
            self.node = None

    def send(
        self,
        target: ObjectId,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        deadline_ms: int | None,
        request_key: str | None,
    ) -> Coroutine[Any, Any, Any]:
        """Router of the program's own stubs: to the node that runs now."""
        if self.node is None:
            raise NotRunning(
                f"{target}.{method}: the app is not running; call it inside `async with app.run(…)`, or after `await app.start(…)`"
            )
        return self.node.send(target, method, args, kwargs, deadline_ms=deadline_ms, request_key=request_key)
