"""Layer 5. The base class of objects whose behaviour is one long function of many steps."""

from typing import TYPE_CHECKING, Any, ClassVar

from wakeful.objects import DurableObject
from wakeful.policy.queue_terms import Queue
from wakeful.policy.retry import RetryPolicy
from wakeful.runtime.context import runtime_of
from wakeful.runtime.registry import for_operators, reader
from wakeful.runtime.turn import Turn, running_turn
from wakeful.values.codec import decode
from wakeful.values.errors import DeadlineExceeded
from wakeful.values.ids import check_key
from wakeful.values.times import Duration
from wakeful.workflows import acts
from wakeful.workflows.body import ContinueAsNew
from wakeful.workflows.node_workflows import NodeWorkflows, feature_of
from wakeful.workflows.records import WorkflowRecord, load, load_steps
from wakeful.workflows.status import StepStatus, WorkflowStatus, running_rows, status_of, step_status
from wakeful.workflows.step import Child, Step
from wakeful.workflows.waiters import PEEK, peek
from wakeful.workflows.watch import LOOK

if TYPE_CHECKING:
    QueueOption = Queue | None
else:
    QueueOption = Any  # at the edges it is a name, see http/queues.py; whatever else it is is refused with words

__all__ = ["Child", "ContinueAsNew", "Step", "StepStatus", "Workflow", "WorkflowStatus"]


class Workflow(DurableObject):
    """An object with a body, `run(self, step, …)`, that goes on where it was after a crash, a sleep of weeks or a move.

    Whatever takes time or reaches outside is a step; what came of it is remembered, and the body itself may run again
    from the top at any time. See docs/workflows.md.

    >>> from wakeful import App, Step, Workflow
    >>> app = App()
    >>> async def greet(name: str) -> str:
    ...     return f"hello {name}"
    >>> @app.object
    ... class Welcome(Workflow):
    ...     async def run(self, step: Step, name: str) -> str:
    ...         words = await step("greet", greet, name)
    ...         await step.sleep("a while", "3d")
    ...         answer = await step.wait_for("answer", timeout="7d")
    ...         return f"{words}: {answer}"
    >>> async with app.world() as world:
    ...     welcome = world.get(Welcome, "ann")
    ...     await welcome.start("Ann")
    ...     await welcome.send("answer", "hi")  # it comes early, and is kept
    ...     await world.advance(days=3)
    ...     print(await welcome.result())
    hello Ann: hi
    """

    version: ClassVar[int] = 1  # which code a workflow was started with: `step.version`
    queue: ClassVar[Queue | None] = None  # through which all go that are started without one of their own
    step_retry: ClassVar[RetryPolicy | None] = None  # of steps that say nothing of it; None: five attempts

    __wakeful_workflow__ = True  # by which an App knows one without loading this module for programs that have none
    __wakeful_reader_operations__: tuple[str, ...] = (PEEK, LOOK)
    __wakeful_names__: tuple[str, ...] = (
        *("start", "send", "result", "status", "steps", "published", "key"),
        *("pause", "resume", "cancel", "retry", "restart", "fork"),
    )

    async def run(self, step: Step, /, *args: Any, **kwargs: Any) -> Any:
        """The body. Write it."""
        raise NotImplementedError

    run.__wakeful_internal__ = True  # type: ignore[attr-defined]
    run.__wakeful_unwritten__ = True  # type: ignore[attr-defined]  # a class that has only this one has none

    @property
    def key(self) -> str:
        return self.ctx.key

    async def start(self, *args: Any, queue: QueueOption = None, **kwargs: Any) -> WorkflowStatus:
        """Start it with this. Again with the same changes nothing; `Conflict` when it was something else.

        With a `queue`, its own or that of its class, it is "queued" until that lets it go (docs/queues.md).
        """
        turn, feature = self._here("start")
        limits = turn.activation.node.limits
        data = feature.bound_of(self.ctx.cls).encode_input(args, kwargs, limits.arguments_bytes)
        return self._status(await acts.start(turn, data, queue))

    async def send(self, event: str, data: Any = None) -> None:
        """An event for `step.wait_for(event)`; kept until it is waited for."""
        turn, _ = self._here("send")
        await acts.send(turn, event, data)

    @reader
    async def result(self, timeout: Duration | None = None) -> Any:
        """What the body returned, once it has; `WorkflowFailed`, `WorkflowCancelled`, or `DeadlineExceeded` when that takes longer.

        It waits no longer than a call may take: `app.get(Flow, key, deadline="1h").result()` for an hour.
        """
        kept = await peek(self.ctx)  # who calls waits beside the turns of the object, see waiters.py
        if kept is None:
            raise DeadlineExceeded(f"{self.ctx.id} has not come to its end", code="workflow.wait")
        return None if kept[0] is None else decode(kept[0])

    @reader
    async def status(self) -> WorkflowStatus:
        """How it stands. Before its start the state is "new"."""
        turn, _ = self._here("status")
        return self._status(await load(turn))

    @reader
    async def steps(self) -> list[StepStatus]:
        """Every step that it has asked for, in that order; those that run are known where they run."""
        turn, feature = self._here("steps")
        record = await load(turn)
        found = {row.ordinal: step_status(row, record=record) for row in await load_steps(turn)}
        for row in running_rows(feature.drivers.get(self.ctx.id)):
            found[row.ordinal] = step_status(row, "running")
        return [found[ordinal] for ordinal in sorted(found)]

    @reader
    async def published(self, since: int = 0) -> list[tuple[int, Any]]:
        """What the body has published after the number `since`, each with its number."""
        turn, _ = self._here("published")
        rows = [row for row in await load_steps(turn) if row.kind == "publish" and row.ordinal >= since]
        return [(row.ordinal + 1, None if row.value is None else decode(row.value)) for row in rows]

    @for_operators("`POST /v1/objects/CLASS/KEY/workflow/pause`, or `wakeful workflow pause CLASS KEY`")
    async def pause(self) -> WorkflowStatus:
        """Begin nothing more, until `resume`; functions that run come to their end, and events are kept."""
        return self._status(await acts.pause(self._here("pause")[0]))

    @for_operators("`POST /v1/objects/CLASS/KEY/workflow/resume`, or `wakeful workflow resume CLASS KEY`")
    async def resume(self) -> WorkflowStatus:
        """Go on, from a pause or from where it was parked because its code had changed."""
        return self._status(await acts.resume(self._here("resume")[0]))

    @for_operators("`POST /v1/objects/CLASS/KEY/workflow/cancel`, or `wakeful workflow cancel CLASS KEY`")
    async def cancel(self) -> WorkflowStatus:
        """End it: `finally` blocks run, then what undoes its steps, last first; what it started is cancelled too."""
        return self._status(await acts.cancel(self._here("cancel")[0]))

    @for_operators("`POST /v1/objects/CLASS/KEY/workflow/retry`, or `wakeful workflow retry CLASS KEY`")
    async def retry(self, from_step: str | None = None) -> WorkflowStatus:
        """Of one that failed: go on from the step that failed, or from this one, with what was done before it."""
        return self._status(await acts.retry(self._here("retry")[0], from_step))

    @for_operators("`POST /v1/objects/CLASS/KEY/workflow/restart`, or `wakeful workflow restart CLASS KEY`")
    async def restart(self) -> WorkflowStatus:
        """From the top, with what it was started with. Nothing is undone."""
        return self._status(await acts.restart(self._here("restart")[0]))

    @for_operators("`POST /v1/objects/CLASS/KEY/workflow/fork`, or `wakeful workflow fork CLASS KEY`")
    async def fork(self, key: str, from_step: str | None = None) -> str:
        """Another workflow under that key, which has all this one had before that step and goes on from there; its key."""
        await acts.fork(self._here("fork")[0], check_key(self.ctx.cls, key), from_step)
        return key

    def _here(self, what: str) -> tuple[Turn, NodeWorkflows]:
        activation = runtime_of(self.ctx)
        return running_turn(activation, f"Workflow.{what}"), feature_of(activation.node)

    def _status(self, record: WorkflowRecord | None) -> WorkflowStatus:
        driver = feature_of(runtime_of(self.ctx).node).drivers.get(self.ctx.id)
        return status_of(record, [row.label for row in running_rows(driver)])
