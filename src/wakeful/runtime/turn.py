"""Layer 3. What has the running turn written so far, and who is running?"""

from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wakeful.values.commits import USER, Commit, Remembered, Slot
from wakeful.values.errors import ReadOnly, TurnOver
from wakeful.values.ids import ObjectId
from wakeful.values.rests import Shelf, shelve_with
from wakeful.values.runs import Entry, Run, run_id
from wakeful.values.timers import Occurrence, Parked, Timer
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation

T = TypeVar("T")
Saved = tuple[
    dict[Slot, bytes | None],
    bool,
    dict[str, Timer | None],
    list[Timer],
    tuple[list[Entry], list[int], list[Remembered], list[Callable[[], None]]],
    bytes | None,
]
Base = tuple[dict[Slot, bytes | None], dict[str, Timer | None], tuple[int, ...]]
_NO_COUNTS = (0, 0, 0, 0, 0)
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


class Turn:
    """The buffered writes of one turn. Nothing of it exists for anyone else until its commit is on disk."""

    __slots__ = (
        "activation",
        "base",
        "chain",
        "commits",
        "consumed",
        "deadline_at",
        "entries",
        "fired_at",
        "is_over",
        "is_reader",
        "job",
        "note",
        "occurrence",
        "parks",
        "records",
        "refused",
        "remember",
        "run_id",
        "saved",
        "sends",
        "shelf",
        "state_copy",
        "state_used",
        "then",
        "timers",
        "unparks",
        "was_restored",
        "wiped",
        "writes",
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
        self.writes: dict[Slot, bytes | None] = {}
        self.wiped = False
        self.timers: dict[str, Timer | None] = {}
        # Most turns have none of these; a turn is made so often that empty lists would be felt.
        self.entries: list[Entry] = _NONE
        self.parks: list[Parked] = _NONE
        self.unparks: list[int] = _NONE
        self.sends: list[Timer] = _NONE  # timers of any object, under names that nobody else can have
        self.remember: Remembered | None = None  # the answer to the call's request key
        self.records: list[Remembered] = _NONE  # what features remember beside it
        self.then: list[Callable[[], None]] = _NONE  # to be done once it is on disk, and not if it never is
        self.refused: list[RefusedWrite] = _NONE
        self.saved: list[Saved] = _NONE
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
        rest = self.entries or self.unparks or self.sends or self.remember or self.records
        return not (self.writes or self.timers or self.wiped or rest)

    def mark(self) -> None:
        """The object's code begins: what was written so far is its owner's, and says nothing of the object's memory."""
        if self.base is None:
            self.base = (dict(self.writes), dict(self.timers), self._counts())

    @property
    def has_written(self) -> bool:
        """The object's code has written something since the last durable point, and may have changed its memory with it."""
        own: dict[str, Timer | None] = {} if self.consumed is None else {self.consumed.name: None}
        writes, timers, counts = self.base or ({}, own, _NO_COUNTS)
        is_same = writes == self.writes and timers == self.timers and counts == self._counts()
        return self.wiped or self.was_restored or not is_same

    def _counts(self) -> tuple[int, ...]:
        return (len(self.entries), len(self.unparks), len(self.sends), len(self.records), len(self.then))

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

    def set_timer(self, timer: Timer) -> None:
        self.timers[timer.name] = timer

    def clear_timer(self, name: str) -> None:
        self.timers[name] = None

    def send(self, timers: list[Timer]) -> None:
        """Insert timers of any object with this turn's commit; their names must be new."""
        if self.sends is _NONE:
            self.sends = []
        self.sends += timers

    def wipe(self) -> None:
        for slot in [slot for slot in self.writes if slot[0] == USER]:
            del self.writes[slot]
        self.wiped = True

    # savepoints

    def save(self) -> None:
        state = self.activation.state.snapshot(self)
        writes, timers, sends = dict(self.writes), dict(self.timers), list(self.sends)
        logs = (self.entries, self.unparks, self.records, self.then)
        self.saved = [*self.saved, (writes, self.wiped, timers, sends, logs, state)]

    def restore(self) -> None:
        self.writes, self.wiped, self.timers, self.sends, logs, state = self.saved.pop()
        self.entries, self.unparks, self.records, self.then = logs
        self.activation.state.restore(self, state)
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
        rest = self.entries or self.parks or self.unparks or self.sends or self.remember or self.records
        if not (self.writes or self.wiped or timers or rest):
            return None
        # Loops, not comprehensions: each of those is a call, and there is a commit for every turn.
        puts: dict[Slot, bytes] = {}
        deletes: list[Slot] = _NONE
        for slot, value in self.writes.items():
            if value is not None:
                puts[slot] = value
            else:
                deletes = deletes or []
                deletes.append(slot)
        sets: list[Timer] = _NONE
        clears: list[tuple[str, int]] = _NONE
        for name, timer in timers.items():
            if timer is not None:
                sets = sets or []
                sets.append(timer)
            else:
                clears = clears or []
                clears.append((name, self._seq_of(name)))
        activation = self.activation
        commit = Commit(
            id=activation.id,
            shard=activation.shard,
            epoch=activation.epoch,
            now=activation.node.clock.now(),
            wipe=self.wiped,
            puts=puts,
            deletes=deletes,
            sets=sets,
            clears=clears,
            sends=self.sends and activation.node.routed(activation.id, self.sends),
            entries=self.entries,
            parks=self.parks,
            unparks=self.unparks,
            remember=self.remember,
            records=self.records,
        )
        self.commits += 1
        self.base, self.was_restored = None, False
        activation.adopt(self.writes, self.wiped, timers)
        self.writes, self.wiped = {}, False
        self.entries, self.parks, self.unparks, self.sends, self.records = _NONE, _NONE, _NONE, _NONE, _NONE
        self.timers = {} if timers is self.timers else {k: t for k, t in self.timers.items() if k not in timers}
        return commit

    def _seq_of(self, name: str) -> int:
        return self.consumed.seq if self.consumed is not None and self.consumed.name == name else 0
