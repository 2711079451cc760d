"""Layer 5. How does a workflow stand, and what became of its steps? Nothing of it wakes it."""

from typing import TypedDict

from wakeful.store.protocol import Range, Store
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import UnknownObject
from wakeful.values.ids import ObjectId
from wakeful.views.plain import Instant, OfObject, iso_of
from wakeful.views.view import View
from wakeful.workflows.records import ROW, STEPS, WorkflowRecord, read_record, read_step
from wakeful.workflows.status import StepStatus, status_of, step_status

STEPS_END = f"{STEPS[:-1]};"  # right behind the names of all of them


class PlainStep(TypedDict):
    """One step, as far as there is a row of it: functions that run have none yet."""

    number: int
    name: str
    kind: str
    state: str
    attempts: int
    asked_at: Instant | None
    ended_at: Instant | None
    wake_at: Instant | None
    error: str | None
    detail: str | None


class PlainWorkflow(OfObject):
    """A workflow, with its last steps in order."""

    state: str
    waits_for: list[str]
    since: Instant | None
    wake_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    error: str | None
    version: int
    rounds: int
    is_cancelling: bool
    queue: str | None
    queue_key: str | None
    steps: list[PlainStep]


async def record_of(store: Store, id: ObjectId) -> WorkflowRecord:
    """What is kept of it; `UnknownObject` when there is no such workflow."""
    rows = await store.read(id, ROW[0], [ROW[1]])
    if ROW[1] not in rows:
        raise UnknownObject(
            f"there is no workflow {id} that has been started; wakeful ls {id.cls} shows which there are"
        )
    return read_record(rows[ROW[1]])


async def show(view: View, id: ObjectId, limit: int) -> PlainWorkflow:
    """How it stands, and its last steps."""
    store = view.store_of(id)
    record = await record_of(store, id)
    rows = await store.scan(id, SYSTEM, Range(STEPS, STEPS_END, True, limit))
    status = status_of(record)
    return {
        "class": id.cls,
        "key": id.key,
        "state": status.state,
        "waits_for": list(status.steps),
        "since": iso_of(status.since),
        "wake_at": iso_of(status.wake_at),
        "started_at": iso_of(status.started_at),
        "ended_at": iso_of(status.ended_at),
        "error": status.error,
        "version": status.version,
        "rounds": status.rounds,
        "is_cancelling": status.is_cancelling,
        "queue": status.queue,
        "queue_key": status.queue_key,
        "steps": [_plain(step_status(read_step(data))) for _, data in reversed(rows)],
    }


def _plain(step: StepStatus) -> PlainStep:
    return {
        "number": step.number,
        "name": step.name,
        "kind": step.kind,
        "state": step.state,
        "attempts": step.attempts,
        "asked_at": iso_of(step.asked_at),
        "ended_at": iso_of(step.ended_at),
        "wake_at": iso_of(step.wake_at),
        "error": step.error,
        "detail": step.detail,
    }
