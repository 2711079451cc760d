"""Layer 0. What waits, for which object, until when?"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace as _replace

from wakeful.values.errors import BadHandler
from wakeful.values.ids import ObjectId
from wakeful.values.times import to_datetime

ALARM = "alarm"
# What the timers of a machine are, by their prefixes.
MACHINE_TIMERS = {"machine": "delay", "machine-do": "action", "machine-run": "invoked", "machine-mail": "letter"}

# What those of a workflow are.
WORKFLOW_TIMERS = {
    "workflow": "workflow goes on",
    "workflow-mail": "workflow's letter",
    "workflow-call": "workflow's call",
    "workflow-place": "word of workflow's queue",
    "workflow-forget": "workflow is forgotten",
}

# Where a timer stands in the order of firing: due time, then higher priority, then insertion.
TimerKey = tuple[int, int, int]


class Timer(Struct, frozen=True, gc=False):
    """One durable row that becomes a turn when it is due. Everything that waits is one of these."""

    id: ObjectId
    name: str
    due_at: int
    nominal_at: int  # what was asked for; `due_at` moves with retries, this does not
    seq: int  # order of insertion, and the identity of this setting of the name
    attempt: int = 0  # failures counted against the handler so far
    crashes: int = 0  # how often the process died while it ran
    started: int = 0  # epoch of the owner that began to run it and has not finished; 0 when none
    priority: int = 0
    payload: bytes | None = None

    @property
    def sort_key(self) -> TimerKey:
        return (self.due_at, -self.priority, self.seq)

    def later(self, *, due_at: int, attempt: int) -> "Timer":
        """The same timer, to be tried again later."""
        return _replace(self, due_at=due_at, attempt=attempt, started=0, crashes=0)

    def with_start(self, epoch: int) -> "Timer":
        """The same timer with the note that the owner of that epoch runs it."""
        return _replace(self, started=epoch)


class Parked(Struct, frozen=True, gc=False):
    """A timer that failed for good: kept with its error until a person redrives or drops it."""

    timer: Timer
    run_id: str
    parked_at: int
    attempts: int
    reason: str  # "failed" (retries used up) or "crashed" (it killed its process)
    error: str
    traceback: str
    number: int = 0  # the store's own number for it, used to redrive


# Which occurrence is the turn of a due timer, where that is more than the timer itself says?


class Occurrence(Struct, frozen=True):
    """One time that a schedule names, as the ledger and the handler are told of it."""

    name: str  # the ledger's name for it
    run_id: str
    nominal_at: int
    missed: int = 0  # how many missed occurrences it answers for, itself included
    first_at: int = 0  # the first of those
    is_backfill: bool = False


# What happened to one attempt of one timer, as the ledger keeps it and as people see it.

Verdict = Literal["run", "failed", "skipped", "too_late", "coalesced", "overlap", "paused", "gap"]


class Entry(Struct, frozen=True, gc=False):
    """One row of the ledger; times in milliseconds UTC."""

    id: ObjectId
    name: str
    run_id: str
    nominal_at: int
    fired_at: int
    finished_at: int
    attempt: int
    verdict: Verdict
    node: str
    error: str | None = None
    missed: int = 0
    is_backfill: bool = False
    covers: int = 1  # how many occurrences it stands for; `nominal_at` is the last of them, or its own
    first_at: int = 0  # nominal time of the first of them; 0 when that is `nominal_at`


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt as people see it. `id` is the same for every attempt and redelivery of one occurrence, so it makes outside effects idempotent.

    Its times are in UTC, whatever the schedule's zone: `run.nominal_at.astimezone(ZoneInfo("Pacific/Auckland"))` has the day
    and the month that it is there.

    >>> from wakeful import App, DurableObject, Run, every
    >>> app = App()
    >>> @app.object
    ... class Report(DurableObject):
    ...     @every.day.at("09:00", catch_up="latest")
    ...     async def send(self, run: Run) -> None:
    ...         print(f"{run.nominal_at.date()} late by {run.lateness}, for {run.missed} of them")
    ...     async def begin(self) -> None: ...
    >>> async with app.world(start="2026-03-26T08:00Z") as world:
    ...     await world.get(Report, "eu").begin()
    ...     await world.crash()
    ...     await world.restart(after="50h")
    ...     print([run.verdict for run in await world.ledger(Report, "eu")])
    2026-03-28 late by 1:00:00, for 3 of them
    ['too_late', 'too_late', 'run']
    """

    id: str
    name: str
    nominal_at: datetime
    fired_at: datetime
    finished_at: datetime | None
    attempt: int
    verdict: Verdict | None
    error: str | None = None
    missed: int = 0
    is_backfill: bool = False
    covers: int = 1  # how many occurrences it stands for; `nominal_at` is the last of them, or its own
    first_at: datetime | None = None  # nominal time of the first of them; None when that is `nominal_at`

    @property
    def lateness(self) -> timedelta:
        """How long after its nominal time it began."""
        return self.fired_at - self.nominal_at

    @classmethod
    def of(cls, entry: Entry) -> "Run":
        """The ledger row, for people."""
        return cls(
            id=entry.run_id,
            name=entry.name,
            nominal_at=to_datetime(entry.nominal_at),
            fired_at=to_datetime(entry.fired_at),
            finished_at=to_datetime(entry.finished_at),
            attempt=entry.attempt,
            verdict=entry.verdict,
            error=entry.error,
            missed=entry.missed,
            is_backfill=entry.is_backfill,
            covers=entry.covers,
            first_at=to_datetime(entry.first_at) if entry.first_at else None,
        )


def run_id(timer: Timer) -> str:
    """Stable over retries, crashes and takeovers of one setting of a timer; different for every other."""
    text = f"{timer.id.cls}\0{timer.id.key}\0{timer.name}\0{timer.seq}"
    return blake2b(text.encode(), digest_size=12).hexdigest()


# What can a handler return that is more than a result, and is it what this kind of run understands?

Kind = Literal["alarm", "job", "schedule"]

# What each kind of run does not understand, and how the same is said there.
_INSTEAD: dict[Kind, dict[str, str]] = {
    "alarm": {
        "Again": "set it again with storage.set_alarm(…)",
        "Next": "set it again with storage.set_alarm(…)",
        "Stop": "return nothing, and it stays over",
    },
    "job": {"Next": "return Again(after=…) to run once more"},
    "schedule": {
        "Again": "return Next(after=…) for another time",
        "Stop": "end the schedule with schedules.cancel(name)",
    },
}


class HandlerAnswer:
    """The base of what one kind of run takes as a wish, and every other would take for a result and lose."""

    __slots__ = ()


def check_answer(answer: object, kind: Kind, who: str) -> None:
    """`BadHandler` when it is the answer of another kind of run: a failed attempt is seen, a lost wish is not."""
    if not isinstance(answer, HandlerAnswer):
        return
    name = type(answer).__name__
    instead = _INSTEAD[kind].get(name)
    if instead is not None:
        article = "an" if kind == "alarm" else "a"
        raise BadHandler(
            f"{who} returned {name}, which {article} {kind} does not know; {instead}", code="handler.answer"
        )


# How is a failure said in the ledger?


def storable(text: str) -> str:
    """Text that every store can hold: a handler may raise with anything, and its failure must still be written."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """What the error says, as every store can hold it; one may fail at saying it."""
    try:
        return storable(str(error))
    except Exception:
        return "its text can't be made"


def words_of(error: BaseException) -> str:
    """Its kind and what it says."""
    return f"{storable(type(error).__name__)}: {text_of(error)}"
