"""Layer 3. Which spans do calls and due timers become, on a node that has a tracer?

A node without one never comes here. Each of these wraps what would happen anyway.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from wakeful.runtime.env import Env
from wakeful.runtime.turn import Turn
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer, run_id
from wakeful.values.trace import TRACE, UNSAMPLED, Span, Tracer

T = TypeVar("T")
Fired = tuple[BaseException | None, Turn | None]


async def within(span: Span, way: Coroutine[Any, Any, T]) -> T:
    """What the way leads to; the span ends with it."""
    try:
        answer = await way
    except BaseException as error:
        span.end(error)
        raise
    span.end()
    return answer


def turn(env: Env, id: ObjectId, method: str, way: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """The turn of a call."""
    if env.tracer is None or TRACE.get() == UNSAMPLED:
        return way
    span = begin(env, env.tracer, "turn", id, method)
    return way if span is None else within(span, way)


def step(
    env: Env, id: ObjectId, label: str, run_id: str, attempt: int, way: Coroutine[Any, Any, T]
) -> Coroutine[Any, Any, T]:
    """One attempt of a workflow's step."""
    if env.tracer is None or TRACE.get() == UNSAMPLED:
        return way
    span = begin(env, env.tracer, "step", id, label)
    if span is None:
        return way
    if span.is_seen:
        span.set("wakeful.run_id", run_id)
        span.set("wakeful.attempt", attempt)
    return within(span, way)


async def trace_run(
    env: Env,
    tracer: Tracer,
    timer: Timer,
    fired_at: int,
    trace: str | None,
    way: Coroutine[Any, Any, Fired],
) -> Fired:
    """The run of a due timer: from when it was due, with its turn within."""
    kind = timer.name.partition(":")[0]
    whole = tracer.enter("fire", timer.id, kind, parent=trace, since_ms=timer.due_at)
    if whole is None:
        return await way
    if not whole.is_seen:
        return await within(whole, way)
    whole.set("wakeful.node", env.name)
    whole.set("wakeful.timer", timer.name)
    whole.set("wakeful.attempt", timer.attempt)
    whole.set("wakeful.lateness_ms", max(0, fired_at - timer.due_at))
    inner = begin(env, tracer, "run", timer.id, kind)
    error: BaseException | None = None
    try:
        error, turn = await way
        occurrence = turn.occurrence if turn is not None else None
        whole.set("wakeful.run_id", run_id(timer) if occurrence is None else occurrence.run_id)
        return error, turn
    except BaseException as raised:
        error = raised
        raise
    finally:
        if inner is not None:
            inner.end(error)
        whole.end(error)


def begin(env: Env, tracer: Tracer, kind: str, id: ObjectId, name: str) -> Span | None:
    """A span of what the code that follows does on that node; None when there is nothing to end."""
    span = tracer.enter(kind, id, name, parent=None)
    if span is not None and span.is_seen:
        span.set("wakeful.node", env.name)
    return span
