"""Layer 0. What waits, for which object, until when?"""

from msgspec import Struct
from msgspec.structs import replace as _replace

from wakeful.values.ids import ObjectId

ALARM = "alarm"

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

    def moved(self, *, due_at: int, attempt: int) -> "Timer":
        """The same timer, to be tried again later."""
        return _replace(self, due_at=due_at, attempt=attempt, started=0, crashes=0)

    def begun(self, epoch: int) -> "Timer":
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
