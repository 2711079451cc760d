"""Layer 3. What has the running turn written so far, and who is running?"""

from collections.abc import Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wakeful.runtime.commit_draft import CommitDraft, Savepoint
from wakeful.values.codec import Shelf, shelve_with
from wakeful.values.commits import Commit, Slot
from wakeful.values.errors import ReadOnly, TurnOver
from wakeful.values.ids import ObjectId
from wakeful.values.runs import Run, run_id
from wakeful.values.timers import Occurrence, Timer
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation

T = TypeVar("T")
Base = tuple[dict[Slot, bytes | None], dict[str, Timer | None], tuple[int, ...]]
_NO_COUNTS = (0, 0, 0, 0, 0, 0)
_NONE: list[Any] = []  # never appended to
BREATH = 25  # schedules or jobs, each of which takes up to half a millisecond

# The turn or reader whose code is running in this context, for storage and outgoing calls.
CURRENT: ContextVar["Turn | None"] = ContextVar("wakeful_turn", default=None)


def running_turn(activation: "Activation", what: str) -> "Turn":
    """The turn whose code is asking, which must be one of this very object."""
    turn = CURRENT.get()
    if turn is None or turn.activation is not activation:
        raise TurnOver(
            f"{activation.id}: {what} is for code that runs in a turn of this very object; "
            "call one of its methods instead"
        )
    turn.check_open()
    return turn


def _shelf() -> Shelf | None:
    """Where the running turn keeps what it must hold to carry unknown fields along."""
    turn = CURRENT.get()
    if turn is None:
        return None
    if turn.shelf is None:
        turn.shelf = Shelf()
    return turn.shelf


shelve_with(_shelf)


async def breathe(turn: "Turn") -> None:
    """Others go on now and then while one turn sets thousands of things to do: the node has a lease to keep."""
    if not (len(turn.timers) + len(turn.sends) + 1) % BREATH:
        await turn.activation.node.clock.sleep(0)


class Done(Generic[T]):
    """An awaitable that is finished already: the write it stands for is in the turn, awaited or not."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        return self.value
        yield  # pragma: no cover  (makes this a generator)


DONE: Done[None] = Done(None)


class RefusedWrite(Done[Any]):
    """A write that could not be taken: raises where it is awaited, and fails the turn if nobody awaits it."""

    __slots__ = ("error", "turn")

    def __init__(self, turn: "Turn", error: Exception) -> None:
        super().__init__(None)
        self.turn = turn
        self.error = error
        turn.refused = [*turn.refused, self]

    def __await__(self) -> Generator[Any, None, Any]:
        if self in self.turn.refused:
            self.turn.refused = [other for other in self.turn.refused if other is not self]
        raise self.error
        yield  # pragma: no cover  (makes this a generator)


class Turn(CommitDraft):
    """One event of an object, from its start to its end: whose it is, what it is, and what it has written."""

    __slots__ = (
        "activation",
        "base",
        "chain",
        "commits",
        "consumed",
        "deadline_at",
        "fired_at",
        "is_over",
        "is_reader",
        "job",
        "note",
        "occurrence",
        "refused",
        "run_id",
        "saved",
        "shelf",
        "state_copy",
        "state_used",
        "was_restored",
    )

    def __init__(
        self,
        activation: "Activation",
        chain: tuple[ObjectId, ...],
        deadline_at: int,
        *,
        is_reader: bool = False,
        consumed: Timer | None = None,
        fired_at: int = 0,
    ) -> None:
        CommitDraft.__init__(self)
        self.activation = activation
        self.chain = chain  # the objects whose turns led to this one, itself last
        self.deadline_at = deadline_at
        self.is_reader = is_reader
        self.consumed = consumed  # the due timer that this turn is
        self.fired_at = fired_at
        self.is_over = False
        self.was_restored = False  # a savepoint was undone: what the object's code did to memory meanwhile was not
        self.base: Base | None = None  # what its owner had written when the object's code began; None: nothing
        self.commits = 0  # durable points so far
        self.refused: list[RefusedWrite] = _NONE
        self.saved: list[Savepoint] = _NONE
        self.shelf: Shelf | None = None  # of what its code read and its classes do not know all of
        self.state_used = False
        self.state_copy: Any = None
        self.occurrence: Occurrence | None = None  # what the timer's owner says that this turn is
        self.run_id: str | None = None  # of the timer that this turn is, once somebody has computed it
        self.note: Any = None  # the owner's own, for when the turn fails
        self.job: Any = None  # the job that this turn is, for the object's code; or how to make it, when that asks
        if consumed is not None:
            self.timers[consumed.name] = None

    def check_open(self) -> None:
        if self.is_over:
            raise TurnOver(
                f"{self.activation.id}: the turn is over; what a background task writes later belongs to no turn. "
                "Await it inside the method, or call the object again"
            )

    def check_writable(self) -> None:
        self.check_open()
        if self.is_reader:
            raise ReadOnly(f"{self.activation.id}: a @reader can't write; drop @reader from the method")

    @property
    def is_clean(self) -> bool:
        """There is nothing to commit."""
        return self.is_empty(self.timers)

    def mark(self) -> None:
        """The object's code begins: what was written so far is its owner's, and says nothing of the object's memory."""
        if self.base is None:
            self.base = (dict(self.writes), dict(self.timers), self.counts())

    @property
    def has_written(self) -> bool:
        """The object's code has written something since the last durable point, and may have changed its memory with it."""
        own: dict[str, Timer | None] = {} if self.consumed is None else {self.consumed.name: None}
        writes, timers, counts = self.base or ({}, own, _NO_COUNTS)
        is_same = writes == self.writes and timers == self.timers and counts == self.counts()
        return self.wiped or self.was_restored or not is_same

    @property
    def run(self) -> Run | None:
        """The attempt that this turn is, for the object's code; None in a call."""
        timer = self.consumed
        if timer is None:
            return None
        fired_at, told = to_datetime(self.fired_at), self.occurrence
        if told is None:
            return Run(run_id(timer), timer.name, to_datetime(timer.nominal_at), fired_at, None, timer.attempt, None)
        return Run(
            id=told.run_id,
            name=told.name,
            nominal_at=to_datetime(told.nominal_at),
            fired_at=fired_at,
            finished_at=None,
            attempt=timer.attempt,
            verdict=None,
            missed=told.missed,
            is_backfill=told.is_backfill,
            first_at=to_datetime(told.first_at) if told.first_at else None,
        )

    # savepoints

    def save(self) -> None:
        self.saved = [*self.saved, self.savepoint(self.activation.state.snapshot(self))]

    def restore(self) -> None:
        savepoint = self.saved.pop()
        self.go_back(savepoint)
        self.activation.state.restore(self, savepoint.state)
        self.was_restored = True

    # the end

    def take_commit(self, *, final: bool) -> Commit | None:
        """What has been written since the last durable point, as one commit; None when that is nothing.

        The slot of the timer that this turn is changes only in the final commit: cleared earlier,
        a crash in the rest of the turn would lose it.
        """
        timers = self.timers
        if not final and self.consumed is not None:
            name = self.consumed.name
            timers = {key: timer for key, timer in timers.items() if key != name}
        if self.is_empty(timers):
            return None
        activation = self.activation
        node, id = activation.node, activation.id
        sends = self.sends and node.routed(id, self.sends)
        commit = self.as_commit(id, activation.shard, activation.epoch, node.clock.now(), timers, self.consumed, sends)
        self.commits += 1
        self.base, self.was_restored = None, False
        activation.adopt(self.writes, self.wiped, timers)
        self.begin_anew(timers)
        return commit
