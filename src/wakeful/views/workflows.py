"""Layer 5. How does a workflow stand, and what became of its steps? Nothing of it wakes it."""

import json
from typing import TypedDict

from wakeful.store.protocol import Range, Store
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import UnknownObject
from wakeful.values.ids import ObjectId
from wakeful.views.pages import ViewPage, check_limit, open_cursor, write_cursor
from wakeful.views.plain import Instant, OfObject, iso_of
from wakeful.views.view import View
from wakeful.workflows.node_workflows import feature_of
from wakeful.workflows.queries import WorkflowFilter, WorkflowRow, list_workflows
from wakeful.workflows.records import ROW, STEPS, WorkflowRecord, read_record, read_step
from wakeful.workflows.status import StepStatus, status_of, step_status

LOOKS_MAX = 2_000  # objects that a page looks at beyond those that it shows
_KIND = "workflows"
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


class PlainWorkflowRow(OfObject):
    """A workflow of a list."""

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


class PlainWorkflow(PlainWorkflowRow):
    """A workflow, with its last steps in order."""

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
    steps = [_plain(step_status(read_step(data), record=record)) for _, data in reversed(rows)]
    return {**plain_row(WorkflowRow(id, status_of(record))), "steps": steps}


async def page(
    view: View,
    cls: str | None = None,
    state: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    prefix: str | None = None,
) -> ViewPage[PlainWorkflowRow]:
    """Workflows by class and key, in this state; the page may be short when most are in others."""
    check_limit(limit)
    after = None if cursor is None else json.dumps(open_cursor(view, cursor, _KIND))
    classes = None if view.running is None else feature_of(view.running).classes
    wanted = WorkflowFilter(cls, state, prefix, classes)
    with view.beside():
        found = await list_workflows(view.node, wanted, limit=limit, after=after, looks_max=limit + LOOKS_MAX)
    following = None if found.next is None else write_cursor(view, _KIND, json.loads(found.next))
    return ViewPage(await view.each(plain_row, found), following)


def plain_row(row: WorkflowRow) -> PlainWorkflowRow:
    id, status = row
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
