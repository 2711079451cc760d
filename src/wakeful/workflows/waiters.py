"""Layer 4. Who waits for the end of a workflow, or for what it publishes, without holding it awake or up?

Beside all turns of the object: a look at how it stands, and then until somebody says that there is something new.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.runtime.calls import Call, resolve
from wakeful.runtime.context import runtime_of
from wakeful.runtime.long_poll import WAIT_MS
from wakeful.runtime.turn import running_turn
from wakeful.values.codec import decode
from wakeful.values.errors import BadInput, Conflict, DeadlineExceeded, Unavailable, WorkflowCancelled, WorkflowFailed
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.times import duration_ms
from wakeful.workflows.records import CANCELLED, DONE, OUTCOME, OVER, WorkflowRecord, load, read_row
from wakeful.workflows.watch import LOOK

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.object_runtime import NodeRuntime
    from wakeful.runtime.registry import ObjectClass

PEEK = "workflow.peek"
MARGIN_MS = 200  # before the call's own deadline: who waits hears how it stands, not that nobody answered
LOOK_MS = 5_000  # how often who waits looks whether it is still here


class Waiters:
    """Those who wait on one node."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node
        self._waiting: dict[ObjectId, set[asyncio.Future[None]]] = {}
        node.farewells.append(self._send_away)

    def tell(self, id: ObjectId) -> None:
        """It has come to an end, or published something, and that is on disk."""
        for future in list(self._waiting.get(id, ())):
            resolve(future, None)

    def rewrite(self, known: "ObjectClass", call: Call) -> Coroutine[Any, Any, Any] | None:
        """What `result` of a workflow is: for objects of other classes it is a method like any other."""
        if PEEK not in getattr(known.cls, "__wakeful_reader_operations__", ()):
            known.check_method(call.method)  # whoever sent it saw only that there is something of that name
            return None
        return self._wait(call)

    async def _wait(self, call: Call) -> Any:
        id, node = call.chain[-1], self._node
        until = call.deadline_at - MARGIN_MS
        timeout = _timeout_of(call)
        if timeout is not None:
            until = min(until, node.clock.now() + duration_ms(timeout, what="timeout"))
        kept = await self._until(id, until, lambda: self._ask(id, call, PEEK, ()))
        if kept is None:
            raise DeadlineExceeded(f"{id} has not come to its end", code="workflow.wait")
        return None if kept[0] is None else decode(kept[0])

    def rewrite_news(self, known: "ObjectClass", call: Call) -> Coroutine[Any, Any, Any] | None:
        """Whoever watches a workflow waits here."""
        id, node = call.chain[-1], self._node
        until = min(call.deadline_at - MARGIN_MS, node.clock.now() + WAIT_MS)
        return self._until(id, until, lambda: self._ask(id, call, LOOK, call.args))

    async def _until(self, id: ObjectId, until: int, look: Callable[[], Awaitable[Any]]) -> Any:
        """What there is to tell, once there is something; None when that is not by then."""
        node = self._node
        while True:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            here = self._waiting.setdefault(id, set())
            here.add(future)
            try:
                found = await look()
                now = node.clock.now()
                if found is not None or now >= until:
                    return found
                handle = node.clock.call_at(min(until, now + LOOK_MS), partial(resolve, future, None))
                try:
                    await future
                finally:
                    handle.cancel()
            finally:
                here.discard(future)
                if not here and self._waiting.get(id) is here:
                    del self._waiting[id]
            if shard_of(id) not in node.epochs:
                raise _refusal(id)

    async def _ask(self, id: ObjectId, call: Call, method: str, args: tuple[Any, ...]) -> Any:
        look = Call(method, args, {}, deadline_at=call.deadline_at, request_key=None, chain=call.chain)
        node: Any = self._node
        return await node.within_deadline(look, node.deliver(id, look))

    def _send_away(self, shards: Collection[int]) -> None:
        for id in [id for id in self._waiting if shard_of(id) in shards]:
            for future in list(self._waiting[id]):
                resolve(future, None, _refusal(id))


def _timeout_of(call: Call) -> Any:
    """What `result(timeout=…)` was given; `BadInput` for anything else, which nobody would heed."""
    unknown = [name for name in call.kwargs if name != "timeout"]
    if unknown or len(call.args) > 1 or (call.args and call.kwargs):
        given = [*map(repr, call.args), *(f"{name}={value!r}" for name, value in call.kwargs.items())]
        raise BadInput(
            f"{call.chain[-1]}.result takes a timeout and nothing else, not ({', '.join(given):.200})",
            code="arguments.unknown",
        )
    return call.kwargs.get("timeout", call.args[0] if call.args else None)


async def peek(ctx: "Context") -> list[bytes | None] | None:
    """What came of it: None while it is not over, and what it ended with if that was an error."""
    turn = running_turn(runtime_of(ctx), PEEK)
    record = await load(turn)
    if record is None:
        raise Conflict(f"{ctx.id} has not been started; start it first", code="workflow.unstarted")
    if record.state not in OVER:
        return None
    check_done(ctx.id, record)
    return [await read_row(turn, OUTCOME)]


def check_done(id: ObjectId, record: WorkflowRecord) -> None:
    """`WorkflowFailed` or `WorkflowCancelled` when that is what came of it."""
    if record.state == CANCELLED:
        why = "" if record.error is None else f": {record.error[1]}"
        raise WorkflowCancelled(f"{id} was cancelled{why}")
    if record.state != DONE:
        said = "it failed" if record.error is None else f"{record.error[0]}: {record.error[1]}"
        raise WorkflowFailed(f"{id} failed: {said}")


def _refusal(id: ObjectId) -> Unavailable:
    return Unavailable(f"{id} is moving to another node; try again", code="object.moved")
