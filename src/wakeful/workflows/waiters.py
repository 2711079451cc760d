"""Layer 4. Who waits for the end of a workflow, without holding it awake or up?

Beside all turns of the object: a look at how it stands, and then until somebody says that it has ended.
"""

import asyncio
from collections.abc import Collection, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.runtime.calls import Call, resolve
from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import running_turn
from wakeful.values.codec import decode
from wakeful.values.errors import Conflict, DeadlineExceeded, Unavailable, WorkflowCancelled, WorkflowFailed
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.times import duration_ms
from wakeful.workflows.records import CANCELLED, DONE, OUTCOME, OVER, WorkflowRecord, load, read_row

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.object_runtime import NodeRuntime
    from wakeful.runtime.registry import ObjectClass

PEEK = "workflow.peek"
MARGIN_MS = 200  # before the call's own deadline: who waits hears how it stands, not that nobody answered
LOOK_MS = 5_000  # how often who waits looks whether it is still here


class EndWaiters:
    """Those who wait on one node."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node
        self._waiting: dict[ObjectId, set[asyncio.Future[None]]] = {}
        node.farewells.append(self._send_away)

    def tell_end(self, id: ObjectId) -> None:
        """It has come to an end, and that is on disk."""
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
        timeout = call.kwargs.get("timeout", call.args[0] if call.args else None)
        if timeout is not None:
            until = min(until, node.clock.now() + duration_ms(timeout, what="timeout"))
        while True:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            here = self._waiting.setdefault(id, set())
            here.add(future)
            try:
                kept = await self._look(id, call)
                if kept is not None:
                    return None if kept[0] is None else decode(kept[0])
                now = node.clock.now()
                if now >= until:
                    raise DeadlineExceeded(f"{id} has not come to its end", code="workflow.wait")
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

    async def _look(self, id: ObjectId, call: Call) -> list[bytes | None] | None:
        look = Call(PEEK, (), {}, deadline_at=call.deadline_at, request_key=None, chain=call.chain)
        node: Any = self._node
        found: list[bytes | None] | None = await node.within_deadline(look, node.deliver(id, look))
        return found

    def _send_away(self, shards: Collection[int]) -> None:
        for id in [id for id in self._waiting if shard_of(id) in shards]:
            for future in list(self._waiting[id]):
                resolve(future, None, _refusal(id))


async def peek(ctx: "Context") -> list[bytes | None] | None:
    """What came of it: None while it is not over, and what it ended with if that was an error."""
    turn = running_turn(runtime_of(ctx), PEEK)
    record = await load(turn)
    if record is None:
        raise Conflict(f"{ctx.id} has not been started", code="workflow.unstarted")
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
