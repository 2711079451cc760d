"""Layer 3. What is a node, whatever it does? Half of what its parts want of it.

A part that is given an `Env`, and callbacks for the rest, can be read and tested without the node: it does not know that
there is one. Only the few that are one thing with the node hold the node itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from wakeful.policy.limits import Limits
from wakeful.runtime.registry import ObjectClass, Registry
from wakeful.store.protocol import NodeRow, Store
from wakeful.values.commits import Remembered
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.metrics import Meter
from wakeful.values.times import Clock, Dice
from wakeful.values.trace import Tracer

T = TypeVar("T")


class CheckCall(Protocol):
    """Raises when a method can't be called so (see operations/type_check.py)."""

    def __call__(
        self, known: ObjectClass, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, has_run: bool = False
    ) -> None: ...


class Env:
    """Name, clock, dice, limits, store, classes, measures, and which shards are its own."""

    loop: asyncio.AbstractEventLoop | None = None  # on which it runs, and all its callers must
    state = "new"  # new → up ⇄ down → stopping → stopped

    def __init__(
        self,
        *,
        name: str,
        registry: Registry,
        store: Store,
        clock: Clock,
        dice: Dice,
        limits: Limits,
        meter: Meter,
        on_down: Callable[[Unavailable], None],
        about: str = "",
        address: str = "",
        is_alone: bool = False,
        is_client: bool = False,
    ) -> None:
        self.tracer: Tracer | None = None  # set by whoever wants spans
        self.check_call: CheckCall | None = None  # set by whoever wants arguments looked at, also within the program
        self.name = name
        self.registry = registry
        self.store = store
        self.clock = clock
        self.dice = dice
        self.limits = limits
        self.meter = meter
        self.store_failed = on_down  # nothing can be read or written for now
        self.about, self.address = about, address  # and where others reach this process
        # Others may own shards of the same store; `is_alone` is for a test that knows better.
        self.is_clustered = store.shared and not is_alone
        self.is_client = is_client  # owns nothing and is no member: only calls, schedules and looks
        self.epochs: dict[int, int] = {}  # of the shards that are its own

    async def reading(self, read: Coroutine[Any, Any, T]) -> T:
        """A read for a turn; a store that can't answer takes the node down until it can."""
        try:
            return await read
        except Unavailable as error:
            self.store_failed(error)
            raise

    async def recall(self, id: ObjectId, key: str) -> Remembered | None:
        """The answer that was given to that request key, as far as it is remembered."""
        return await self.reading(self.store.recall(id, key, now=self.clock.now()))


class NodeRequest(Protocol):
    """Asks another node something that is no call to an object, and has its answer."""

    def __call__(self, row: NodeRow, request: str, *args: Any, timeout_ms: int) -> Awaitable[Any]: ...
