"""Layer 5. `env.FLOW`: what is a workflow of a Worker here, and how is it started, asked and told?

A class of Wakeful's own workflows, under the name that the wrangler file gives it; each instance is an object of that class
whose key is its id. Its body is the Worker's. What the binding does to it are operations that nobody can name from outside.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from uuid import UUID

from wakeful.compat.workers.bindings.calls import SystemStub
from wakeful.compat.workers.entrypoints import ExecutionContext, WorkflowEntrypoint
from wakeful.compat.workers.failures import JsException, JsTypeError, MissingBinding
from wakeful.compat.workers.values import Record, dress, option_of, result_of, sendable
from wakeful.compat.workers.workflow_steps import (
    VALUE_BYTES_MAX,
    StepRules,
    WorkflowError,
    WorkflowStep,
    check_length,
    check_type,
)
from wakeful.runtime.context import runtime_of
from wakeful.runtime.registry import for_operators
from wakeful.runtime.turn import Turn, running_turn
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadOption, Conflict
from wakeful.values.times import from_datetime
from wakeful.workflow import Step, Workflow, WorkflowStatus
from wakeful.workflows import acts
from wakeful.workflows.node_workflows import feature_of
from wakeful.workflows.records import (
    ACTIVE,
    CANCELLED,
    DONE,
    FAILED,
    OUTCOME,
    OVER,
    PARKED,
    PAUSED,
    RUNNING,
    WorkflowRecord,
    load,
    load_step,
    load_steps,
    read_row,
    save,
    save_step,
)
from wakeful.workflows.settlement import end
from wakeful.workflows.status import running_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from wakeful.compat.workers.bindings.desk import BindingHome
    from wakeful.compat.workers.rpc import RpcPromise
    from wakeful.runtime.context import Context

CREATE, STATUS, SEND, PAUSE, RESUME, TERMINATE, RESTART, DELETE = (
    f"workers.workflow.{name}"
    for name in ("create", "status", "send", "pause", "resume", "terminate", "restart", "delete")
)
NAME_CHARS_MAX, ID_CHARS_MAX, BATCH_MAX = 64, 100, 100
STEPS_MAX = 10_000  # as there, where the file says nothing
KEEP_MS = 30 * 86_400_000  # for which one that is over is kept, as there
_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_-]*", re.ASCII)
_KINDS = {"do": "step", "sleep": "sleep", "waitForEvent": "wait"}
_UNHANDLED = (
    "The execution of the Workflow instance was terminated, as a step threw an NonRetryableError and it was not handled"
)


class WorkflowKind(NamedTuple):
    """A workflow of a Worker: what its file says, and its code."""

    name: str
    path: str
    cls: type
    env: Any
    context: Callable[[], ExecutionContext]
    rules: StepRules
    keeps_words: bool  # of a NonRetryableError that ends an instance


class HostedWorkflow(Workflow):
    """One instance of a workflow of a Worker."""

    _kind: ClassVar[WorkflowKind]

    __wakeful_reader_operations__ = (*Workflow.__wakeful_reader_operations__, STATUS)

    async def run(self, step: Step, params: Any = None, at: int | None = None) -> Any:
        """The Worker's body."""
        kind = self._kind
        event = Record(
            payload=dress({} if params is None else params),
            timestamp=step.now() if at is None else datetime.fromtimestamp(at / 1000, UTC),
            instanceId=self.key,
            workflowName=kind.name,
        )
        made = kind.cls(kind.context(), kind.env)
        answer = await result_of(made.run(event, WorkflowStep(step, kind.rules)))
        data = sendable(answer, f"what {kind.name} returned")
        if len(encode(data)) > VALUE_BYTES_MAX:
            raise WorkflowError(f"what {kind.name} returned is too large. Maximum allowed size is 1MiB.")
        return data

    async def start(self, *args: Any, **options: Any) -> WorkflowStatus:
        """Start it with params, as `create` does."""
        status = await super().start(*args, **options)
        turn = running_turn(runtime_of(self.ctx), "Workflow.start")
        record = await acts.existing(turn)
        if record.keep_ms is None:
            record.keep_ms = [KEEP_MS, KEEP_MS]
            save(turn, record)
        return status

    async def send(self, event: str, data: Any = None) -> None:
        """An event for `step.wait_for_event`."""
        await super().send(check_type(event), _letter(data, from_datetime(self.ctx.now())))

    @for_operators("`POST /v1/objects/CLASS/KEY/workflow/resume`, or `wakeful workflow resume CLASS KEY`")
    async def resume(self) -> WorkflowStatus:
        """Go on; sleeps and waits have as long to go as when it was paused."""
        await shift_waits(running_turn(runtime_of(self.ctx), "Workflow.resume"))
        return await super().resume()


def _letter(payload: Any, at: int) -> dict[str, Any]:
    return {"payload": payload, "at": at}


async def shift_waits(turn: Turn) -> None:
    """What a paused one waits for ends later, by as long as it was paused."""
    record = await load(turn)
    if record is None or record.state != PAUSED:
        return
    lost = turn.activation.node.clock.now() - record.since
    waits = []
    for wait in record.waits:
        if wait.due_at is not None:
            row = await load_step(turn, wait.ordinal)
            if row is not None and row.due_at is not None:
                row.due_at += lost
                save_step(turn, row)
            wait = wait._replace(due_at=wait.due_at + lost)
        waits.append(wait)
    record.waits = waits
    save(turn, record)


# What the binding has done, each in a turn of the instance: it says in a word what came of it, which goes over any wire.


def _turn(ctx: "Context", what: str) -> Turn:
    activation = runtime_of(ctx)
    if not isinstance(activation.instance, HostedWorkflow):
        raise BadOption(f"{activation.id} is no workflow of a Worker", code="workflow.class")
    return running_turn(activation, what)


async def create(ctx: "Context", params: Any, keep_ms: list[int]) -> bool:
    """Start it; False: there is one under that id."""
    turn = _turn(ctx, CREATE)
    if await load(turn) is not None:
        return False
    node = turn.activation.node
    bound = feature_of(node).bound_of(turn.activation.id.cls)
    data = bound.encode_input((params, node.clock.now()), {}, node.limits.arguments_bytes)
    record = await acts.start(turn, data)
    record.keep_ms = keep_ms
    save(turn, record)
    return True


async def status(ctx: "Context") -> dict[str, Any] | None:
    """As `InstanceStatus` has it; None: there is none under that id."""
    turn = _turn(ctx, STATUS)
    record = await load(turn)
    if record is None:
        return None
    driver = feature_of(turn.activation.node).drivers.get(turn.activation.id)
    output = await read_row(turn, OUTCOME)
    return {
        "status": state_of(record, is_at_work=bool(running_rows(driver))),
        "error": _error_of(record, turn.activation.instance._kind),
        "output": None if output is None else decode(output),
    }


def state_of(record: WorkflowRecord, *, is_at_work: bool) -> str:
    """The name that its state has there."""
    if record.state == ACTIVE:
        return "running" if record.phase == RUNNING else "waiting"
    if record.state == PAUSED:
        return "waitingForPause" if is_at_work else "paused"
    return {DONE: "complete", FAILED: "errored", PARKED: "errored", CANCELLED: "terminated"}.get(
        record.state, "unknown"
    )


def _error_of(record: WorkflowRecord, kind: WorkflowKind) -> dict[str, str] | None:
    if record.state not in (FAILED, PARKED) or record.error is None:
        return None
    name, said = str(record.error[0]), str(record.error[1])
    if name == "NonRetryableError" and not kind.keeps_words:
        return {"name": "WorkflowFatalError", "message": _UNHANDLED}
    name = name.removeprefix("Js") if name in ("JsTypeError", "JsRangeError") else name
    return {"name": "Error" if name == "JsException" else name, "message": said.removeprefix(f"{name}: ")}


async def send(ctx: "Context", kind: str, payload: Any) -> str:
    """An event for it."""
    turn = _turn(ctx, SEND)
    record = await load(turn)
    if record is None:
        return "missing"
    if record.state in OVER:
        return "over"
    await acts.send(turn, kind, _letter(payload, turn.activation.node.clock.now()))
    return "done"


async def pause(ctx: "Context") -> str:
    """What is over stays so, and is no error, as there."""
    turn = _turn(ctx, PAUSE)
    record = await load(turn)
    if record is not None and record.state == ACTIVE:
        await acts.pause(turn)
    return "missing" if record is None else "done"


async def resume(ctx: "Context") -> str:
    """What is not paused goes on as it does."""
    turn = _turn(ctx, RESUME)
    record = await load(turn)
    if record is not None and record.state in (PAUSED, PARKED):
        await shift_waits(turn)
        await acts.resume(turn)
    return "missing" if record is None else "done"


async def terminate(ctx: "Context") -> str:
    """End it where it is: nothing of its body runs any more."""
    turn = _turn(ctx, TERMINATE)
    record = await load(turn)
    if record is None:
        return "missing"
    if record.state in OVER:
        return "over"
    await acts.unpark(turn)
    record.error = None
    end(turn, record, CANCELLED, None)
    acts.drop_driver(feature_of(turn.activation.node), turn)
    save(turn, record)
    return "done"


async def restart(ctx: "Context", name: str | None, count: int, kind: str | None) -> str:
    """From the top, or from that step with what was done before it."""
    turn = _turn(ctx, RESTART)
    record = await load(turn)
    if record is None:
        return "missing"
    if name is None:
        await acts.restart(turn)
        return "done"
    kinds = list(_KINDS.values()) if kind is None else [_KINDS[kind]]
    found = [row for row in await load_steps(turn) if row.name == name and row.kind in kinds]
    if not 0 < count <= len(found):
        return "no step"
    record.state = FAILED  # from which one goes on again from a step
    save(turn, record)
    await acts.retry(turn, found[count - 1].label)
    return "done"


async def delete(ctx: "Context") -> str:
    """Forget it."""
    turn = _turn(ctx, DELETE)
    if await load(turn) is None:
        return "missing"
    acts.drop_driver(feature_of(turn.activation.node), turn)
    turn.forget()
    return "done"


OPERATIONS: dict[str, "Callable[..., Awaitable[Any]]"] = {
    CREATE: create,
    STATUS: status,
    SEND: send,
    PAUSE: pause,
    RESUME: resume,
    TERMINATE: terminate,
    RESTART: restart,
    DELETE: delete,
}


# How a wrangler file makes them


def host_workflow(home: "BindingHome", options: Mapping[str, Any]) -> str:
    """Have the app run a workflow whose code is this Worker's; the name of the class that its instances are of."""
    path, name, class_name = home.config.path, options.get("name"), options.get("class_name")
    if not isinstance(name, str) or len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise BadOption(
            f"{path}: a workflow's name is up to {NAME_CHARS_MAX} letters, digits, '-' and '_', not {name!r}",
            code="workers.binding",
        )
    cls = getattr(home.module, str(class_name), None)
    if not isinstance(cls, type) or not issubclass(cls, WorkflowEntrypoint) or not callable(getattr(cls, "run", None)):
        raise BadOption(
            f"{path}: the workflow {name} has the class {class_name}, which is no WorkflowEntrypoint with a run() in "
            f"{home.config.name}",
            code="workers.class",
        )
    stored = name if name[0].isalpha() or name[0] == "_" else f"_{name}"
    known = home.desk.workflows.get(name)
    if known is not None:
        if known.kind.cls is not cls:
            raise BadOption(
                f"{path}: the program has a workflow {name} already, in {known.kind.path}", code="workers.binding"
            )
        return stored
    if home.app.deployment.registry.knows(stored):
        raise BadOption(
            f"{path}: the workflow {name} is kept in objects of a class {stored}, and the program has another of that name; "
            "give one of them another name",
            code="workers.binding",
        )
    steps = (options.get("limits") or {}).get("steps", STEPS_MAX)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise BadOption(
            f"{path}: the workflow {name}: limits.steps is a whole number from 1, not {steps!r}", code="workers.binding"
        )
    config = home.config
    kind = WorkflowKind(
        name,
        str(path),
        cls,
        home.env,
        lambda: ExecutionContext(home.keep, home.exports),
        StepRules(
            config.has(
                "python_workflows_implicit_dependencies", "no_python_workflows_implicit_dependencies", "2026-02-25"
            ),
            steps,
        ),
        config.has(
            "workflows_preserve_non_retryable_error_message",
            "workflows_replace_non_retryable_error_message",
            "2026-05-14",
        ),
    )
    hosted = type(
        cls.__name__, (HostedWorkflow,), {"_kind": kind, "__doc__": cls.__doc__, "__module__": cls.__module__}
    )
    home.app.object(hosted, name=stored)  # type: ignore[call-overload]
    home.desk.workflows[name] = KnownWorkflow(kind, stored)
    return stored


class KnownWorkflow(NamedTuple):
    """A workflow of the program, and the class that its instances are of."""

    kind: WorkflowKind
    stored: str


class WorkflowBinding:
    """`create`, `create_batch`, `get`, `delete_batch`. What they do is on its way when a call returns, awaited or not."""

    def __init__(self, home: "BindingHome", binding: str, name: str, script: str | None) -> None:
        self._home = home
        self._binding = binding
        self._name = name
        self._script = script

    def create(self, options: Any = None, **named: Any) -> "RpcPromise":
        """A new instance, with `id`, `params` and `retention`; an id that is taken is an error."""
        given = option_of(options, named, "create()")
        id, params, keep_ms = _read_create(given)
        return self._stub(id)._begin(self._create(id, params, keep_ms), "create")

    def create_batch(self, batch: Sequence[Mapping[str, Any]]) -> "RpcPromise":
        """Up to 100 new instances; those whose id is taken are left out of what it gives."""
        if not batch:
            raise WorkflowError("batchCreate should have at least 1 instance")
        if len(batch) > BATCH_MAX:
            raise WorkflowError(f"batchCreate only supports {BATCH_MAX} instances at a time")
        asked = [_read_create(option_of(one, {}, "createBatch()")) for one in batch]
        return self._stub(asked[0][0])._begin(self._create_all(asked), "createBatch")

    createBatch = create_batch  # noqa: N815  the name there

    def get(self, id: Any) -> "RpcPromise":
        """The instance of that id; an error if there is none."""
        return self._stub(str(id))._begin(self._get(id), "get")

    def delete_batch(self, ids: Sequence[str]) -> "RpcPromise":
        """Delete up to 100 instances; what it gives says which, and which were not there."""
        if not isinstance(ids, Sequence) or isinstance(ids, str) or not 0 < len(ids) <= BATCH_MAX:
            raise WorkflowError(f"(body) deleteBatch takes 1 to {BATCH_MAX} ids")
        return self._stub(str(ids[0]))._begin(self._delete_all(list(ids)), "deleteBatch")

    deleteBatch = delete_batch  # noqa: N815  the name there

    def __repr__(self) -> str:
        return f"<workflow {self._name}>"

    def _stub(self, id: str) -> SystemStub:
        known = self._home.desk.workflows.get(self._name)
        if known is None:
            raise MissingBinding(
                f"env.{self._binding} is the workflow {self._name} of the Worker {self._script}, which is not in this program"
            )
        return SystemStub(self._home.app, known.stored, id)

    async def _create(self, id: str, params: Any, keep_ms: list[int]) -> "WorkflowInstance":
        if not await self._stub(id)._send(CREATE, (params, keep_ms), {}):
            raise WorkflowError(f"(instance.already_exists) there is an instance {id} of {self._name} already")
        return WorkflowInstance(self, id)

    async def _create_all(self, asked: list[tuple[str, Any, list[int]]]) -> list["WorkflowInstance"]:
        made = await asyncio.gather(*[self._stub(id)._send(CREATE, (params, keep), {}) for id, params, keep in asked])
        return [WorkflowInstance(self, id) for (id, _, _), is_new in zip(asked, made, strict=True) if is_new]

    async def _get(self, id: Any) -> "WorkflowInstance":
        if not _is_id(id) or await self._stub(id)._send(STATUS, (), {}) is None:
            raise _missing(self._name, id)
        return WorkflowInstance(self, id)

    async def _delete_all(self, ids: list[str]) -> Record:
        answers = {id: "missing" for id in ids if not _is_id(id)}
        for id in dict.fromkeys(id for id in ids if _is_id(id)):
            answers[id] = await self._stub(id)._send(DELETE, (), {})
        missing = {"code": 10400, "message": "workflows.api.error.instance.not_found"}
        return dress(  # type: ignore[no-any-return]
            {
                "deleted": [{"id": id} for id in ids if answers[id] == "done"],
                "errors": [{"id": id, **missing} for id in ids if answers[id] != "done"],
            }
        )


class WorkflowInstance:
    """One instance: its `id`, `status()`, and what can be done to it."""

    def __init__(self, binding: WorkflowBinding, id: str) -> None:
        self._binding = binding
        self.id = id

    def __repr__(self) -> str:
        return f"<workflow {self._binding._name}/{self.id}>"

    def status(self) -> "RpcPromise":
        """`status`, and `output` or `error` when it has one."""
        return self._stub._begin(self._status(), "status")

    def pause(self) -> "RpcPromise":
        """Begin nothing more; a step that runs comes to its end."""
        return self._act(PAUSE, "pause")

    def resume(self) -> "RpcPromise":
        """Go on from a pause; what was slept and waited for has as long to go as it had then."""
        return self._act(RESUME, "resume")

    def terminate(self, options: Any = None, **named: Any) -> "RpcPromise":
        """End it now."""
        option_of(
            options, named, "terminate()"
        )  # `rollback` is of what JavaScript's steps register, and Python's can't
        return self._act(TERMINATE, "terminate")

    def restart(self, options: Any = None, **named: Any) -> "RpcPromise":
        """From the top, or `{"from": {"name": …, "count": 1, "type": "do"}}`."""
        start = option_of(options, named, "restart()").get("from")
        if start is None:
            return self._act(RESTART, "restart", None, 1, None)
        name, count, kind = start.get("name"), start.get("count", 1), start.get("type")
        is_count = isinstance(count, int) and not isinstance(count, bool)
        if not isinstance(name, str) or not is_count or kind not in (None, *_KINDS):
            raise JsTypeError(
                f"restart(): from has a name, a count from 1 and a type of {', '.join(_KINDS)}, not {start!r:.100}"
            )
        return self._act(RESTART, "restart", name, count, kind)

    def delete(self) -> "RpcPromise":
        """Forget it, and all that is kept of it."""
        return self._act(DELETE, "delete")

    def send_event(self, event: Any = None, **named: Any) -> "RpcPromise":
        """`type` and `payload` of an event that it waits for, or is to."""
        given = option_of(event, named, "sendEvent()")
        kind = check_type(given.get("type"))
        return self._act(SEND, "sendEvent", kind, _check_value(given.get("payload"), "the payload of an event"))

    sendEvent = send_event  # noqa: N815  the name there

    @property
    def _stub(self) -> SystemStub:
        return self._binding._stub(self.id)

    def _act(self, operation: str, what: str, *args: Any) -> "RpcPromise":
        return self._stub._begin(self._run(operation, what, args), what)

    async def _status(self) -> Record:
        found = await self._stub._send(STATUS, (), {})
        if found is None:
            raise _missing(self._binding._name, self.id)
        return dress(found)  # type: ignore[no-any-return]

    async def _run(self, operation: str, what: str, args: tuple[Any, ...]) -> None:
        try:
            answer = await self._stub._send(operation, args, {})
        except Conflict as error:
            raise WorkflowError(f"(instance.cannot_{what}) {error.message}") from error
        if answer == "missing":
            raise WorkflowError("(instance.not_found) Instance does not exist")
        if answer == "over":
            raise WorkflowError(f"(instance.cannot_{what}) Cannot {what} instance since its on a finite state")
        if answer == "no step":
            raise WorkflowError(f'(instance.cannot_restart) Step "{args[0]}" not found in execution history')


def _missing(name: str, id: Any) -> JsException:
    return JsException(f"instance.not_found: {name} has no instance {id!r:.120}")


def _is_id(id: Any) -> bool:
    return isinstance(id, str) and len(id) <= ID_CHARS_MAX and _NAME.fullmatch(id) is not None


def _read_create(given: Mapping[str, Any]) -> tuple[str, Any, list[int]]:
    """Id, params and for how long it is kept."""
    id = given.get("id")
    if id is None:
        id = str(UUID(bytes=secrets.token_bytes(16), version=4))
    if not _is_id(id):
        raise WorkflowError(
            f"Workflow instance has invalid id: up to {ID_CHARS_MAX} letters, digits, '-' and '_', not {id!r:.120}"
        )
    params = given.get("params")
    kept = given.get("retention") or {}
    keep_ms = [
        check_length(kept.get(name, KEEP_MS), f"retention.{name}") for name in ("successRetention", "errorRetention")
    ]
    return id, _check_value({} if params is None else params, "params"), keep_ms


def _check_value(value: Any, what: str) -> Any:
    data = sendable(value, what)
    size = len(encode(data))
    if size > VALUE_BYTES_MAX:
        raise WorkflowError(f"{what}: {size} bytes, {size - VALUE_BYTES_MAX} more than the limit of {VALUE_BYTES_MAX}")
    return data
