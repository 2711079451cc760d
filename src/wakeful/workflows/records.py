"""Layer 4. What is kept of a workflow?

One row says how it stands and what it waits for, one has what it was started with, one what came of it; each step has a
row of its own, and so has each event that came before anybody waited for it. Results and waits that end get numbers that
rise: in their order they are handed to the body, whenever that runs again.
"""

from dataclasses import dataclass, field, fields
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

from wakeful.runtime.admission import QueuePlace, pack_place, read_place
from wakeful.runtime.storage import scan
from wakeful.runtime.turn import Turn
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.errors import StepFailed
from wakeful.values.timers import storable, text_of

ROW: Slot = (SYSTEM, "workflow")
INPUT: Slot = (SYSTEM, "workflow.input")  # [args, kwargs]
OUTCOME: Slot = (SYSTEM, "workflow.outcome")
STEPS, EVENTS = "workflow.step:", "workflow.event:"
PAGE = 1_000  # rows in one read
TRACE_CHARS_MAX = 4_000

ACTIVE, PAUSED, DONE, FAILED, CANCELLED, PARKED = "active", "paused", "done", "failed", "cancelled", "parked"
QUEUED = "queued"  # it waits until its queue lets it go
OVER = frozenset({DONE, FAILED, CANCELLED})
RUNNING, SLEEPING, WAITING = "running", "sleeping", "waiting"  # an active one: its body runs, or rests until then


class Wait(NamedTuple):
    """Something that a body waits for and that is no function at work."""

    ordinal: int  # of which step
    kind: str
    name: str
    due_at: int | None  # when it ends by itself
    event: str | None  # what ends it


@dataclass(slots=True)
class WorkflowRecord:
    """A workflow on disk."""

    version: int  # of the class, when it was started
    run: int  # rises with each beginning: what belongs to an earlier one is nobody's any more
    started_at: int
    seed: str  # of its dice
    state: str = ACTIVE
    phase: str = RUNNING
    since: int = 0  # of state and phase
    ended_at: int = 0
    wake_at: int | None = None
    last: int = 0  # the newest number that an event, a timer or an operator's act has; of all, while it rests
    cancelled: int = 0  # the number of its cancellation
    events: int = 0  # how many are kept
    rounds: int = 0  # how often it went on as new
    waits: list[Wait] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)
    parent: list[str] | None = None  # class and key of the workflow that began it
    listeners: list[list[str]] = field(default_factory=list)  # class, key and event of those who wait for its end
    error: list[Any] | None = None  # of the last failure: kind, message, …
    failed_by: list[int] = field(default_factory=list)  # the steps whose failures these were
    forked_from: list[str] | None = None  # class, key and step
    place: QueuePlace | None = None  # in the queue that it goes through
    keep_ms: list[int] | None = None  # kept so long when it is done, and when it failed; None: until it is forgotten

    def touch(self, now: int, *, state: str | None = None, phase: str | None = None) -> None:
        """It stands otherwise from now on."""
        before = (self.state, self.phase)
        self.state, self.phase = state or self.state, phase or self.phase
        if (self.state, self.phase) != before:
            self.since = now


@dataclass(slots=True)
class StepRow:
    """One step on disk: known by its place in the order of asking, and by kind, name and count."""

    ordinal: int
    kind: str  # step, undo, sleep, wait, call, start, result, publish
    name: str
    count: int  # of its name, from 1
    after: int  # the number that had been handed to the body last when it asked
    state: str  # done, error, late, waiting, tried, left
    number: int = 0  # its place in the order of ends; 0: it has not ended
    value: bytes | None = None
    error: list[Any] | None = None
    asked_at: int = 0
    ended_at: int = 0
    attempts: int = 0
    due_at: int | None = None
    event: str | None = None
    place: str | None = None  # of the kept event that it took, should it be given back
    detail: list[Any] | None = None  # what else is said to people: whom it calls, what it started

    @property
    def label(self) -> str:
        return label_of(self.name, self.count)


_RECORD = [one.name for one in fields(WorkflowRecord)]
_KNOWN = frozenset(_RECORD)
_STEP = [one.name for one in fields(StepRow)]
_record_values, _step_values = attrgetter(*_RECORD), attrgetter(*_STEP)  # these run with each step
ENDED = frozenset({"done", "error", "late"})


def label_of(name: str, count: int) -> str:
    """A step for people: its name, and which of those it is."""
    return name if count == 1 else f"{name} #{count}"


def read_record(data: bytes) -> WorkflowRecord:
    found = {key: value for key, value in decode(data).items() if key in _KNOWN}
    record = WorkflowRecord(**found)
    record.waits = [Wait(*one) for one in record.waits]
    if record.place is not None:
        record.place = read_place(found["place"])
    return record


def copy_step(row: StepRow) -> StepRow:
    return StepRow(*_step_values(row))


def read_step(data: bytes) -> StepRow:
    return StepRow(*decode(data)[: len(_STEP)])


async def read_row(turn: Turn, slot: Slot) -> bytes | None:
    """A row as this turn sees it."""
    return turn.writes[slot] if slot in turn.writes else await turn.activation.rows.read(slot)


async def load(turn: Turn) -> WorkflowRecord | None:
    """The workflow as this turn sees it; None before its start."""
    data = await read_row(turn, ROW)
    return None if data is None else read_record(data)


def save(turn: Turn, record: WorkflowRecord) -> None:
    turn.writes[ROW] = pack_record(record)


def pack_record(record: WorkflowRecord) -> bytes:
    """As it is kept: the same bytes whenever it is the same."""
    kept = dict(zip(_RECORD, _record_values(record), strict=True))
    kept["waits"] = [list(one) for one in record.waits]
    kept["place"] = None if record.place is None else pack_place(record.place)
    return encode(kept)


def step_slot(ordinal: int) -> Slot:
    return (SYSTEM, f"{STEPS}{ordinal:06x}")


def save_step(turn: Turn, row: StepRow) -> None:
    turn.writes[step_slot(row.ordinal)] = encode(list(_step_values(row)))


async def load_step(turn: Turn, ordinal: int) -> StepRow | None:
    data = await read_row(turn, step_slot(ordinal))
    return None if data is None else read_step(data)


async def scan_rows(turn: Turn, prefix: str, limit: int | None = None) -> dict[str, bytes]:
    """All rows whose names begin so, as this turn sees them, a page in each read."""
    rows: dict[str, bytes] = {}
    first, end = prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)
    while True:
        size = PAGE if limit is None else min(PAGE, limit - len(rows))
        page = await scan(turn.activation, turn, SYSTEM, first, end, limit=size)
        rows.update(page)
        if len(page) < size or len(rows) == limit:
            return rows
        first = next(reversed(page)) + "\0"


async def load_steps(turn: Turn) -> list[StepRow]:
    """All of them, in the order of asking."""
    return [read_step(data) for data in (await scan_rows(turn, STEPS)).values()]


# Events that came before anybody waited for them


def event_prefix(event: str) -> str:
    """What the names of such rows begin with; of names of any length and letters."""
    return f"{EVENTS}{blake2b(event.encode(), digest_size=10).hexdigest()}:"


async def first_event(turn: Turn, event: str) -> tuple[str, bytes] | None:
    """The oldest that is kept of it: its place, and what it carried."""
    for key, data in (await scan_rows(turn, event_prefix(event), 1)).items():
        return key, decode(data)[1]
    return None


def keep_event(turn: Turn, place: str, event: str, value: bytes) -> None:
    turn.writes[SYSTEM, place] = encode([event, value])


# An error as data


def pack_error(error: BaseException, trace: str = "") -> list[Any]:
    """What is kept of it: its type and those above it by name, what it said, and where it came from."""
    kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__ if kind is not object]
    code = getattr(error, "code", None)
    message = getattr(error, "message", None)
    said = storable(message) if isinstance(message, str) else text_of(error)
    kept = code if isinstance(code, str) else None
    return [type(error).__name__, said[:TRACE_CHARS_MAX], [storable(one) for one in kinds], kept, storable(trace)]


def unpack_error(kept: list[Any], where: str) -> StepFailed:
    kind, message, kinds, code, trace = kept
    return StepFailed(
        f"{where}: {kind}: {message}", kind=kind, said=message, kinds=tuple(kinds), remote_code=code, trace=trace
    )
