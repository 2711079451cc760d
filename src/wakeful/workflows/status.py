"""Layer 4. A workflow as people see it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from wakeful.values.times import to_datetime
from wakeful.workflows.records import ACTIVE, CANCELLED, DONE, FAILED, PARKED, StepRow, WorkflowRecord

if TYPE_CHECKING:
    from wakeful.workflows.driver import Driver

NEW = "new"
# What a workflow that has been started can be.
STATES = ("running", "sleeping", "waiting", "queued", "paused", "parked", "done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class WorkflowStatus:
    """How a workflow stands at the moment of asking."""

    state: str  # new, queued, running, sleeping, waiting, paused, parked, done, failed, cancelled
    steps: tuple[str, ...] = ()  # what it is at: steps that run, sleep or wait
    since: datetime | None = None  # of the state
    wake_at: datetime | None = None  # when it goes on by itself
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None  # why it failed, is parked, was dropped by its queue, or ended ill when it was cancelled
    version: int = 0
    rounds: int = 0  # how often it went on as new
    is_cancelling: bool = False
    queue: str | None = None  # that it goes through
    queue_key: str | None = None  # and as whose


@dataclass(frozen=True, slots=True)
class StepStatus:
    """One step of a workflow; `name` tells those of one name apart, as in `"mail #2"`."""

    number: int  # in the order in which the body asked for them, from 1
    name: str
    kind: str  # step, undo, sleep, wait, call, start, result, publish
    state: str  # running, done, failed, late, waiting, retrying, left
    attempts: int = 0
    asked_at: datetime | None = None
    ended_at: datetime | None = None
    wake_at: datetime | None = None
    error: str | None = None
    detail: str | None = None  # whom it calls, what it started


_STATES = {"error": "failed", "tried": "retrying"}


def state_of(record: WorkflowRecord) -> str:
    """One of `STATES`."""
    return record.phase if record.state == ACTIVE else record.state


def status_of(record: WorkflowRecord | None, running: Iterable[str] = ()) -> WorkflowStatus:
    """`running`: the functions that are at work, which no row has."""
    if record is None:
        return WorkflowStatus(NEW)
    error, place = record.error, record.place
    if error is not None and record.state in (FAILED, PARKED, CANCELLED):
        said = str(error[1]) if record.state == CANCELLED else f"{error[0]}: {error[1]}"
    else:
        said = None
    waits = () if record.state not in (ACTIVE, "paused") else tuple(wait.name for wait in record.waits)
    return WorkflowStatus(
        state=state_of(record),
        steps=(*running, *waits),
        since=_instant(record.since),
        wake_at=_instant(record.wake_at),
        started_at=_instant(record.started_at),
        ended_at=_instant(record.ended_at),
        error=said,
        version=record.version,
        rounds=record.rounds,
        is_cancelling=record.state == ACTIVE and record.cancelled > 0,
        queue=None if place is None else place.queue,
        queue_key=None if place is None else place.key or None,
    )


def step_status(row: StepRow, state: str | None = None, record: WorkflowRecord | None = None) -> StepStatus:
    """One step; of a workflow that is done or cancelled nothing waits any more, whatever its row says."""
    is_open = row.state in ("waiting", "tried")
    if is_open and record is not None and record.state in (DONE, CANCELLED):
        is_open, state = False, "left"
    error = None if row.error is None else f"{row.error[0]}: {row.error[1]}"
    detail = None if row.detail is None else "/".join(map(str, row.detail[:2]))
    if row.detail is not None and row.kind == "call":
        detail = f"{detail}.{row.detail[2]}"
    return StepStatus(
        number=row.ordinal + 1,
        name=row.label,
        kind=row.kind,
        state=state or _STATES.get(row.state, row.state),
        attempts=row.attempts,
        asked_at=_instant(row.asked_at),
        ended_at=_instant(row.ended_at) if row.state in ("done", "error", "late") else None,
        wake_at=_instant(row.due_at) if is_open else None,
        error=error,
        detail=detail,
    )


def running_rows(driver: "Driver | None") -> list[StepRow]:
    """The functions that are at work in this process."""
    if driver is None or driver.body is None or not driver.is_running:
        return []
    return [driver.body.ops[ordinal].row for ordinal in sorted({*driver.runners, *driver.ends})]


def _instant(ms: int | None) -> datetime | None:
    return to_datetime(ms) if ms else None
