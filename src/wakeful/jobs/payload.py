"""Layer 4. What is kept of a job: with its timer while it is owed, in a record when it has ended?"""

from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.jobs.ids import RECORD, attempt_id, job_id, key_of, method_in
from wakeful.jobs.job import Job, State
from wakeful.policy.retry import Retry
from wakeful.runtime.admission import QueuePlace, with_ticket
from wakeful.values.codec import decode
from wakeful.values.commits import Remembered
from wakeful.values.errors import Undecodable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer
from wakeful.values.times import LATEST_MS, to_datetime

# Past every time that can be asked for: a job that waits for others is due then, and so costs disk only.
HELD_AT = LATEST_MS + 86_400_000
STOPPED = "stopped:"  # what the ledger row of a job that stopped itself says first
BATCH = "*"  # among what a completion job waits for: its batch

# How results and metadata become values; someone without the program's types sets `decode_loosely`.
READ: ContextVar[Callable[[bytes], Any]] = ContextVar("wakeful.jobs.read", default=decode)


class JobPayload(Struct, array_like=True, frozen=True, gc=False):
    """What a job's timer carries. Fields are only ever added, at the end, with a default."""

    method: str
    args: bytes | None  # encoded arguments and keyword arguments; None: none
    token: str  # which version of a key this is
    key: str | None
    created_at: int
    at: int | None  # what was asked for: an instant,
    after: int | None  # or a delay,
    due_at: int  # and the instant that it came to
    metadata: bytes | None = None
    tags: tuple[str, ...] = ()
    retry: Retry | str | None = None  # a policy, or the name of a function
    waits: tuple[str, ...] = ()  # ids of jobs that must end first
    batch: tuple[str, int] | None = None  # the completion job to be told, and of how many
    ended: tuple[int, int, int] | None = None  # of a completion job's batch: done, failed, cancelled
    is_newest: bool = False  # put there by its owner in place of any other version
    trace: str | None = None
    error: str | None = None  # of the last attempt
    place: QueuePlace | None = None  # in the queue that it goes through

    @property
    def ticket(self) -> str | None:
        """With which it waits in its queue, or runs."""
        return None if self.place is None else self.place.ticket


class EndedJob(Struct, array_like=True, frozen=True, gc=False):
    """What is remembered of a job that has ended."""

    state: Literal["done", "failed", "cancelled"]
    kept: JobPayload
    priority: int
    attempt: int
    run_id: str | None
    result: bytes | None
    error: str | None
    ended_at: int


# Of many jobs that are asked for together, most are made in the same millisecond and due at the same instant.
_instant = lru_cache(maxsize=64)(to_datetime)
_encoder = msgspec.msgpack.Encoder()
_kept = msgspec.msgpack.Decoder(JobPayload)
_records = msgspec.msgpack.Decoder(EndedJob)


def encode_kept(kept: JobPayload) -> bytes:
    return _encoder.encode(kept)


def decode_kept(timer: Timer) -> JobPayload:
    try:
        return _kept.decode(timer.payload or b"")
    except msgspec.DecodeError as error:
        raise Undecodable(f"{timer.id} {timer.name}: what is kept of the job is damaged: {error}") from None


def without_ticket(kept: JobPayload) -> JobPayload:
    """The same, outside its queue: when it is due, it asks for a place."""
    return kept if kept.place is None else replace(kept, place=with_ticket(kept.place, None))


def arguments_of(kept: JobPayload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if kept.args is None:
        return (), {}
    args, kwargs = decode(kept.args)
    return tuple(args), kwargs


def is_same(mine: JobPayload, other: JobPayload) -> bool:
    """The same call was asked for at the same time: what a key used twice must be."""
    return _request_of(mine) == _request_of(other)


def _request_of(kept: JobPayload) -> tuple[object, ...]:
    return kept.method, kept.args, kept.metadata, kept.at, kept.after


def record_key(name: str) -> str:
    """The request key under which the record of that timer is remembered."""
    return f"{RECORD}{name}"


def remembered_row(name: str, record: EndedJob, expires_at: int) -> Remembered:
    return Remembered(record_key(name), record.kept.token.encode(), _encoder.encode(record), expires_at)


def decode_record(kept: Remembered) -> EndedJob:
    return _records.decode(kept.answer)


# as people see it


def readable_payload(timer: Timer) -> JobPayload:
    """What is kept, or, of one that this version can't read, that: it must not hide the others."""
    try:
        return decode_kept(timer)
    except Undecodable as error:
        return JobPayload(
            "?", None, "", key_of(timer.name), timer.nominal_at, None, None, timer.nominal_at, error=str(error)
        )


def job_of_timer(timer: Timer, kept: JobPayload | None = None, *, is_running: bool, is_asked: bool = False) -> Job:
    """A job that is owed; `kept` spares reading what its timer carries once more."""
    kept = kept or readable_payload(timer)
    is_waiting = kept.waits or (timer.due_at == HELD_AT and kept.ticket is not None)
    state: State = "running" if is_running else "waiting" if is_waiting else "scheduled"
    attempts = 0 if is_asked else timer.attempt + is_running
    return _job(timer.id, timer.name, kept, timer.priority, state, attempts, timer=timer, error=kept.error)


def job_of_parked(parked: Parked) -> Job:
    timer, kept = parked.timer, readable_payload(parked.timer)
    return _job(
        timer.id, timer.name, kept, timer.priority, "failed", parked.attempts, run_id=parked.run_id, error=parked.error
    )


def job_of_record(id: ObjectId, name: str, record: EndedJob, *, result_max: int | None = None) -> Job:
    """A job that has ended; a result of more bytes than that is left out, and marked as such."""
    size = 0 if record.result is None else len(record.result)
    is_left_out = result_max is not None and size > result_max
    return _job(
        id,
        name,
        record.kept,
        record.priority,
        record.state,
        record.attempt,
        run_id=record.run_id,
        error=record.error,
        result=None if record.result is None or is_left_out else READ.get()(record.result),
        left_out=size if is_left_out else 0,
    )


def is_stopped(entry: Entry) -> bool:
    """It returned `Stop`, which its row says."""
    return entry.verdict == "run" and (entry.error or "").startswith(STOPPED)


def job_of_entry(entry: Entry) -> Job:
    """A job of which only the ledger knows: it had nothing to remember."""
    states: dict[str, State] = {"run": "done", "skipped": "cancelled"}
    return Job(
        id=job_id(entry.id, entry.name),
        key=key_of(entry.name),
        name=method_in(entry.name, entry.run_id),
        due_at=to_datetime(entry.nominal_at),
        state="cancelled" if is_stopped(entry) else states.get(entry.verdict, "failed"),
        attempt=entry.attempt + 1 if entry.verdict != "skipped" else entry.attempt,
        error=entry.error,
        run_id=entry.run_id,
    )


def _job(
    id: ObjectId,
    name: str,
    kept: JobPayload,
    priority: int,
    state: State,
    attempt: int,
    *,
    timer: Timer | None = None,
    run_id: str | None = None,
    result: Any = None,
    error: str | None = None,
    left_out: int = 0,
) -> Job:
    due_at = kept.due_at if timer is None or timer.due_at == HELD_AT else timer.due_at
    ended = kept.ended
    # Fifteen keywords and no more: CPython calls with a sixteenth by way of a dict, at twice the price.
    job = Job(
        id=job_id(id, name),
        key=kept.key,
        name=kept.method,
        due_at=_instant(due_at),
        state=state,
        attempt=attempt,
        metadata=None if kept.metadata is None else READ.get()(kept.metadata),
        tags=kept.tags,
        priority=priority,
        created_at=_instant(kept.created_at),
        result=result,
        error=error,
        run_id=attempt_id(timer, kept.method) if timer is not None and state == "running" else run_id,
        depends_on=tuple(one for one in kept.waits if one != BATCH) if kept.waits else (),
        batch=None if ended is None else {"done": ended[0], "failed": ended[1], "cancelled": ended[2]},
    )
    if kept.place is not None:
        job = replace(job, queue=kept.place.queue, queue_key=kept.place.key or None)
    return replace(job, left_out=left_out) if left_out else job
