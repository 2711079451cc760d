"""Layer 4. What can the body of a workflow ask for?"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

from wakeful.policy.queue_terms import Queue
from wakeful.policy.retry import RetryPolicy
from wakeful.runtime.calls import Method
from wakeful.values.codec import encode
from wakeful.values.errors import BadHandler, BadInput, BadOption, BadTime, TurnOver
from wakeful.values.ids import ObjectId, check_key
from wakeful.values.times import LATEST_MS, Duration, duration_ms, from_datetime, to_datetime
from wakeful.workflows.bindings import BoundWorkflow
from wakeful.workflows.body import NAME_CHARS_MAX, WorkflowBody, check_name

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import NodeRuntime

T = TypeVar("T")
# The step whose function runs in this context, and which of its attempts that is.
RUN_ID: ContextVar[str | None] = ContextVar("wakeful_step_run", default=None)
ATTEMPT: ContextVar[int] = ContextVar("wakeful_step_attempt", default=0)


class Step:
    """Handed to `run`: each thing that takes time or reaches outside is a step, and what came of it is remembered.

    >>> from wakeful import App, Step, Workflow
    >>> app = App()
    >>> async def charge(amount: int) -> str:
    ...     print("charged", amount)
    ...     return "receipt 1"
    >>> @app.object
    ... class Order(Workflow):
    ...     async def run(self, step: Step, amount: int) -> str:
    ...         receipt = await step("charge", charge, amount)
    ...         await step.sleep("cool down", "3d")
    ...         return receipt
    >>> async with app.world() as world:
    ...     order = world.get(Order, "17")
    ...     await order.start(12)
    ...     await world.settle()
    ...     await world.crash()
    ...     await world.restart(after="3d")
    ...     print(await order.result())
    charged 12
    receipt 1
    """

    __slots__ = ("_body", "_bound", "_node")

    def __init__(self, body: WorkflowBody, node: "NodeRuntime", bound: BoundWorkflow) -> None:
        self._body = body
        self._node = node
        self._bound = bound

    @overload
    async def __call__(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        undo: Callable[[T], Any] | None = None,
        **kwargs: Any,
    ) -> T: ...

    @overload
    async def __call__(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        undo: Callable[[T], Any] | None = None,
        **kwargs: Any,
    ) -> T: ...

    async def __call__(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        undo: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the function with these arguments, at least once; what it returned, or `StepFailed` when it failed for good.

        `timeout` is for each attempt. `undo` is called with what it returned if the workflow is cancelled later.
        """
        if not callable(function):
            raise BadHandler(
                f"step {name!r}: give a function and its arguments, not {function!r}", code="workflow.function"
            )
        if undo is not None and not callable(undo):
            raise BadHandler(f"step {name!r}: undo must be a function, not {undo!r}", code="workflow.function")
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise BadOption(f"step {name!r}: retry must be a RetryPolicy(…), not {retry!r}", code="workflow.retry")
        return await self._body.ask(
            "step",
            name,
            function=function,
            args=args,
            kwargs=kwargs,
            retry=self._bound.retry if retry is None else retry.kept,
            timeout_ms=None if timeout is None else duration_ms(timeout, what=f"step {name!r}: timeout"),
            undo=undo,
        )

    async def sleep(self, name: str, length: Duration) -> None:
        """Until that much time has passed; the object sleeps meanwhile, and so may the program."""
        length_ms = self._length(duration_ms(length, what=f"sleep {name!r}"), name)
        await self._body.ask("sleep", name, payload=(length_ms, None, None))

    async def sleep_until(self, name: str, when: datetime) -> None:
        """Until then; the past is over at once."""
        if not isinstance(when, datetime):
            raise BadTime(f"sleep {name!r}: {when!r} must be an aware datetime", code="time.type")
        due_at = from_datetime(when) + bool(when.microsecond % 1000)
        await self._body.ask("sleep", name, payload=(None, due_at, None))

    async def wait_for(self, event: str, timeout: Duration | None = None, *, name: str | None = None) -> Any:
        """What came with the next event of that name: `send(event, data)`. One that came before is taken first.

        `TimeoutError` when none has come in time. `name` is what the step is called, where that is not the event's.
        """
        check_name("event", event)
        length_ms = None
        if timeout is not None:
            length_ms = self._length(duration_ms(timeout, what=f"wait {event!r}: timeout"), event)
        return await self._body.ask(
            "wait", event if name is None else name, payload=(length_ms, None, f"event:{event}")
        )

    async def call(self, method: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Call a method of another object (`ctx.get(Stock, "a").take`), exactly once: its turn and this answer are one.

        One that raises is tried again, five times in all; then it is `StepFailed`.
        """
        if not isinstance(method, Method):
            raise BadHandler(
                f"step.call takes a method of a stub, self.ctx.get(Class, key).method, not {method!r}; for a plain function "
                "use step(name, function, …)",
                code="workflow.call",
            )
        target, name = method.target, method.name
        known = self._node.registry.by_name(target.cls)
        known.check_method(name)
        if name == "result" and getattr(known.cls, "__wakeful_workflow__", False):
            raise BadHandler(
                f"step.call can't wait for {target}: start it with step.start(…), also one that runs already, and wait for "
                "child.result()",
                code="workflow.call",
            )
        if self._node.check_call is not None:
            self._node.check_call(known, name, args, kwargs)
        data = encode([list(args), kwargs])
        _check_size(self._node, len(data), f"arguments of {target}.{name}")
        label = _label(f"{target.cls}/{target.key}.{name}")
        found: T = await self._body.ask("call", label, payload=(target, name, data))
        return found

    async def start(
        self, cls: type[Any], key: str, /, *args: Any, queue: Queue | None = None, **kwargs: Any
    ) -> "Child":
        """Start another workflow, which this one may wait for: `await child.result()`. One that is there is taken as it is.

        With a `queue` it waits until that lets it go.
        """
        known = self._node.registry.of_class(cls)
        target = ObjectId(known.name, check_key(known.name, key))
        bound = self._bound.sibling(known.name)
        if target == self._body.id:
            raise BadOption(f"{target} can't start itself; return ContinueAsNew(…)", code="workflow.itself")
        data = bound.encode_input(args, kwargs, self._node.limits.arguments_bytes)
        op = self._body.put(
            "start",
            _label(f"{target.cls}/{target.key}"),
            payload=(target, data, check_queue(queue, f"step.start({target})")),
        )
        try:
            await op.future
        except asyncio.CancelledError:
            self._body.leave(op)
            raise
        return Child(self._body, target, op.row.ordinal)

    async def publish(self, value: Any) -> None:
        """Let those who watch have this: `published()`."""
        data = encode(value)
        _check_size(self._node, len(data), "what is published")
        await self._body.ask("publish", "publish", payload=data)

    def now(self) -> datetime:
        """The instant at which the body went on; the same whenever it comes here again."""
        return to_datetime(self._body.now_ms)

    def uuid(self) -> UUID:
        """A random one, the same whenever the body comes here again."""
        return UUID(bytes=self._body.roll(), version=4)

    def random(self) -> float:
        """At least 0 and less than 1, the same whenever the body comes here again."""
        return (int.from_bytes(self._body.roll()[:8], "big") >> 11) / (1 << 53)

    def patched(self, name: str) -> bool:
        """Whether to take the way of the new code: not for a workflow that was past this place before there was one."""
        return self._body.patched(name)

    @property
    def version(self) -> int:
        """The class's `version` when this workflow was started."""
        return self._body.record.version

    @property
    def run_id(self) -> str:
        """In a step's function: the same at each attempt, after crashes too, so that others know it again."""
        found = RUN_ID.get()
        if found is None:
            raise TurnOver("step.run_id is for the function of a step, while it runs", code="workflow.run_id")
        return found

    @property
    def attempt(self) -> int:
        """In a step's function: which attempt this is, from 1."""
        found = ATTEMPT.get()
        if not found:
            raise TurnOver("step.attempt is for the function of a step, while it runs", code="workflow.run_id")
        return found

    def _length(self, length_ms: int, name: str) -> int:
        if self._node.clock.now() + length_ms > LATEST_MS:
            raise BadTime(
                f"{name!r} would end past the latest time, 9999-01-01; give a shorter length", code="time.late"
            )
        return length_ms


class Child:
    """A workflow that another one has started."""

    __slots__ = ("_body", "_op", "_ordinal", "id")

    def __init__(self, body: WorkflowBody, id: ObjectId, ordinal: int) -> None:
        self._body = body
        self._ordinal = ordinal
        self._op: Any = None
        self.id = id

    @property
    def key(self) -> str:
        return self.id.key

    async def result(self) -> Any:
        """What it returned, once it is done; `StepFailed` when it failed, was cancelled or forgotten."""
        if self._op is None:
            event = f"child:{self._body.record.run}:{self._ordinal}"
            self._op = self._body.put("result", _label(f"{self.id.cls}/{self.id.key}"), payload=(None, None, event))
        return await asyncio.shield(self._op.future)


def check_queue(queue: object, what: str) -> Queue | None:
    """`BadOption` for what is no queue."""
    if queue is not None and not isinstance(queue, Queue):
        raise BadOption(f"{what}: queue must be a Queue(…), not {queue!r:.100}", code="queue.option")
    return queue


def _label(text: str) -> str:
    """A name for a step about another object, whatever its key is made of."""
    return "".join(char if char.isprintable() else "?" for char in text[:NAME_CHARS_MAX])


def _check_size(node: "NodeRuntime", size: int, what: str) -> None:
    most = node.limits.arguments_bytes
    if size > most:
        raise BadInput(
            f"{what}: {size} bytes, {size - most} more than the limit of {most}; keep large data in storage, or in a file "
            "elsewhere, and pass its name",
            code="limit.workflow_result",
        )
