"""Layer 5. In which turn does the work of an object run, and which of the transactions that an event has begun goes first?

They may be gathered: each then waits for the one before it, as there, since what one undoes must be its own. One that
begins inside another waits only for those inside the same one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, Optional

from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.values import Promise, Work, start_task
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.ids import ObjectId, shard_of

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

log = logging.getLogger("wakeful.workers")

APART = "workers.apart"  # the operation under which work of a task that outlived its event has a turn

_tokens = count(1)


class Scope:
    """A turn, or a transaction in it: one at a time of those right inside has it to itself."""

    def __init__(self, turn: Turn, parent: Optional["Scope"] = None) -> None:
        self.turn = turn
        self._parent = parent
        self._inside = asyncio.Lock()
        self._is_over = False

    @asynccontextmanager
    async def enter(self) -> AsyncIterator["Scope"]:
        """A new one inside the one that runs this code; it must be `close`d before what it wrote is settled."""
        while True:
            above = self._here()
            async with above._inside:
                if above._is_over:
                    continue  # it ended while this waited
                made = Scope(self.turn, above)
                token = _INSIDE.set(made)
                try:
                    yield made
                finally:
                    _INSIDE.reset(token)
                    made._is_over = True
                return

    async def close(self) -> None:
        """Wait for what runs inside it; nothing begins there any more."""
        async with self._inside:
            self._is_over = True

    def _here(self) -> "Scope":
        found = _INSIDE.get()
        while found is not None and (found.turn is not self.turn or found._is_over):
            found = found._parent
        return found or self


_INSIDE: ContextVar[Scope | None] = ContextVar("wakeful.workers.scope", default=None)


class WaitUntilTasks:
    """The tasks of `waitUntil`, which must not keep an object here when its shard goes elsewhere."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], ObjectId] = {}

    def add(self, activation: "ObjectRuntime", task: asyncio.Task[Any]) -> None:
        self._tasks[task] = activation.id
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def send_away(self, shards: Collection[int]) -> None:
        for task in [task for task, id in self._tasks.items() if shard_of(id) in shards]:
            task.cancel()


class Hosted:
    """A class of the Worker's that is hosted here."""

    def __init__(
        self,
        cls: type,
        name: str,
        env: Any,
        beside: WaitUntilTasks,
        *,
        deletes_alarm: bool,
        uses_kv: Callable[[], bool],
        keeps_history: bool,
    ) -> None:
        self.cls = cls
        self.name = name  # under which its objects are stored
        self.env = env
        self.beside = beside
        self.deletes_alarm = deletes_alarm  # whether deleteAll() does
        self.uses_kv = uses_kv  # whether its Worker speaks of `kv`: then rows must be in memory before its code runs
        self.keeps_history = keeps_history  # whether its Worker speaks of bookmarks: who does not pays nothing for them
        self.has_alarm = callable(getattr(cls, "alarm", None))


class ObjectEvents:
    """The events of one object: the turn that each runs in, and what was begun in it."""

    def __init__(self, activation: "ObjectRuntime", hosted: Hosted) -> None:
        self._activation = activation
        self.hosted = hosted
        self.has_cleared_alarm = False  # in the event that runs
        self._unbegun: list[Promise] = []
        self._scope: Scope | None = None
        self._apart: dict[int, Work] = {}

    def doing(self, work: Work) -> Promise:
        """Work that is done when it is awaited, and at the end of the event if nobody does."""
        promise = Promise(lambda: self.in_turn(work))
        if self._turn() is None:
            start_task(_await(promise), self._activation.node.keep, f"work of {self._activation.id}")
        else:
            self._unbegun.append(promise)
        return promise

    async def finish(self) -> None:
        """Do what the event began and nobody awaited."""
        while self._unbegun:
            promise = self._unbegun.pop(0)
            if promise.is_begun:
                continue
            try:
                await promise
            except Exception as error:  # as with anything that nobody awaits
                log.warning(
                    "%s: not awaited, and failed: %s", self._activation.id, error, extra={"code": "workers.unawaited"}
                )

    def begin(self) -> None:
        """An event begins."""
        self.has_cleared_alarm = False
        self._unbegun.clear()

    def scope(self, turn: Turn) -> Scope:
        """What the transactions of this turn are in."""
        if self._scope is None or self._scope.turn is not turn:
            self._scope = Scope(turn)
        return self._scope

    async def in_turn(self, work: Work) -> Any:
        """Do it in the turn that runs, or in one of its own."""
        if self._turn() is not None:
            return await work()
        return await self._send(work)

    def apart(self, work: Work, what: str) -> asyncio.Task[Any]:
        """Begin it in a turn of its own."""
        return start_task(self._send(work), self._activation.node.keep, f"{what} of {self._activation.id}")

    async def run_apart(self, token: int) -> Any:
        """In that turn: do what was left here for it."""
        work = self._apart.pop(token, None)
        if work is None:
            raise JsException("the object was reset or has moved; what its old copy began is over")
        return await work()

    async def _send(self, work: Work) -> Any:
        token = next(_tokens)
        self._apart[token] = work
        answer: list[Any] = []

        async def keep_answer() -> None:  # the answer need not be data: it goes nowhere
            answer.append(await work())

        self._apart[token] = keep_answer
        try:
            await self._activation.node.send(self._activation.id, APART, (token,), {})
        finally:
            self._apart.pop(token, None)
        return answer[0]

    def _turn(self) -> Turn | None:
        turn = CURRENT.get()
        return None if turn is None or turn.activation is not self._activation or turn.is_over else turn


async def _await(promise: Promise) -> Any:
    return await promise
