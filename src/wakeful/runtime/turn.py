"""Layer 3. What has the running turn written so far, and who is running?"""

from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar

from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime
from wakeful.values.codec import Shelf, encode, shelve_with
from wakeful.values.commits import FORGET_TIMER, FORGOTTEN_SLOT, MIGRATIONS_SLOT, USER, Commit, Remembered, Slot
from wakeful.values.errors import ReadOnly, TurnOver
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Occurrence, Parked, Run, Timer, run_id
from wakeful.values.times import to_datetime
from wakeful.values.trace import current_trace, linked_trace

# What is written and not committed yet, and what commit does it make?
#
# The one place that knows all that a commit may be made of: who adds a field to it adds it here.

_NONE: list[Any] = []  # never appended to
_NO_PAGES: dict[Slot, bytes | None] = {}  # nor this


class Savepoint(NamedTuple):
    """What a draft held when somebody began what may be undone; `state` is the object's own."""

    writes: dict[Slot, bytes | None]
    wiped: bool
    timers: dict[str, Timer | None]
    sends: list[Timer]
    entries: list[Entry]
    parks: list[Parked]
    unparks: list[int]
    records: list[Remembered]
    then: list[Callable[[], None]]
    state: bytes | None


class CommitDraft:
    """The buffered writes of one turn. Nothing of it exists for anyone else until its commit is on disk."""

    __slots__ = (
        "entries",
        "pages",
        "parks",
        "records",
        "remember",
        "sends",
        "then",
        "timers",
        "unparks",
        "wiped",
        "writes",
    )

    def __init__(self) -> None:
        self.writes: dict[Slot, bytes | None] = {}
        self.pages = _NO_PAGES  # of the object's database, and its undo image, as soon as a commit is about to be made
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

    def is_empty(self, timers: Mapping[str, Timer | None]) -> bool:
        """There is nothing to commit but these timers, if they are any."""
        rest = self.entries or self.parks or self.unparks or self.sends or self.remember or self.records
        return not (self.writes or self.pages or self.wiped or timers or rest)

    def counts(self) -> tuple[int, ...]:
        """How many there are of what is only ever added to."""
        outside = (len(self.entries), len(self.parks), len(self.unparks))
        return (*outside, len(self.sends), len(self.records), len(self.then))

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

    def savepoint(self, state: bytes | None) -> Savepoint:
        """All of it as it is now, to be gone back to."""
        return Savepoint(
            dict(self.writes),
            self.wiped,
            dict(self.timers),
            list(self.sends),
            list(self.entries),
            list(self.parks),
            list(self.unparks),
            list(self.records),
            list(self.then),
            state,
        )

    def go_back(self, to: Savepoint) -> None:
        self.writes, self.wiped, self.timers, self.sends = to.writes, to.wiped, to.timers, to.sends
        self.entries, self.parks, self.unparks = to.entries, to.parks, to.unparks
        self.records, self.then = to.records, to.then

    def as_commit(
        self,
        id: ObjectId,
        shard: int,
        epoch: int,
        now: int,
        timers: Mapping[str, Timer | None],
        consumed: Timer | None,
        sends: list[Timer],
    ) -> Commit:
        """As one commit, with these of its timers; `sends` as they are to go, and the timer that the turn is, if it is one."""
        # Loops, not comprehensions: each of those is a call, and there is a commit for every turn.
        puts: dict[Slot, bytes] = {}
        deletes: list[Slot] = _NONE
        for slot, value in (self.writes | self.pages if self.pages else self.writes).items():
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
                clears.append((name, consumed.seq if consumed is not None and consumed.name == name else 0))
        return Commit(
            id=id,
            shard=shard,
            epoch=epoch,
            now=now,
            wipe=self.wiped,
            puts=puts,
            deletes=deletes,
            sets=sets,
            clears=clears,
            sends=sends,
            entries=self.entries,
            parks=self.parks,
            unparks=self.unparks,
            remember=self.remember,
            records=self.records,
        )

    def begin_anew(self, timers: Mapping[str, Timer | None]) -> None:
        """It was committed, with these of its timers: what comes now is the next one."""
        self.writes, self.pages, self.wiped = {}, _NO_PAGES, False
        self.entries, self.parks, self.unparks, self.sends, self.records = _NONE, _NONE, _NONE, _NONE, _NONE
        self.timers = {} if timers is self.timers else {k: t for k, t in self.timers.items() if k not in timers}


T = TypeVar("T")
Base = tuple[dict[Slot, bytes | None], dict[str, Timer | None], tuple[int, ...]]
_NO_COUNTS = (0, 0, 0, 0, 0, 0, 0)
BREATH = 25  # schedules or jobs, each of which takes up to half a millisecond

# The turn or reader whose code is running in this context, for storage and outgoing calls.
CURRENT: ContextVar["Turn | None"] = ContextVar("wakeful_turn", default=None)


def running_turn(activation: ObjectRuntime, what: str) -> "Turn":
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
        yield  # type: ignore[unreachable]  # pragma: no cover  (makes this a generator)


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
        yield  # type: ignore[unreachable]  # pragma: no cover  (makes this a generator)


def forget_timer(node: NodeRuntime, id: ObjectId, shard: int, after_ms: int = 0) -> Timer:
    """The timer at which an object is forgotten; `shard` is that of whoever asks for it."""
    due_at = node.clock.now() + after_ms
    return Timer(id, FORGET_TIMER, due_at, due_at, node.next_seq(shard))


class Turn(CommitDraft):
    """One event of an object, from its start to its end: whose it is, what it is, and what it has written."""

    is_standing = False  # it goes on over many events, see beside.py

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
        "sql_writes",
        "state_copy",
        "state_used",
        "was_restored",
    )

    def __init__(
        self,
        activation: ObjectRuntime,
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
        self.sql_writes = 0  # statements that changed the object's database since its last durable point
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

    @property
    def path(self) -> tuple[ObjectId, ...]:
        """The objects that led to the code that runs, itself last."""
        return self.chain

    async def leave(self) -> None:
        """Until all that its code knows, but for what it wrote itself, is on disk."""
        await self.activation.settle()

    def touch(self) -> None:
        """Something was written; a turn of its own is committed when it ends."""

    def check_writable(self) -> None:
        self.check_open()
        if self.is_reader:
            raise ReadOnly(f"{self.activation.id}: a @reader can't write; drop @reader from the method")

    @property
    def is_clean(self) -> bool:
        """There is nothing to commit."""
        return self.is_empty(self.timers) and not self.sql_writes

    def mark(self) -> None:
        """The object's code begins: what was written so far is its owner's, and says nothing of the object's memory."""
        if self.base is None:
            self.base = (dict(self.writes), dict(self.timers), (*self.counts(), self.sql_writes))

    @property
    def has_written(self) -> bool:
        """The object's code has written something since the last durable point, and may have changed its memory with it."""
        own: dict[str, Timer | None] = {} if self.consumed is None else {self.consumed.name: None}
        writes, timers, counts = self.base or ({}, own, _NO_COUNTS)
        is_same = writes == self.writes and timers == self.timers and counts == (*self.counts(), self.sql_writes)
        return self.wiped or self.was_restored or bool(self.pages) or not is_same

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

    def trace_for(self, kind: str) -> str | None:
        """The trace for a timer of that kind which this turn sets for its own object.

        One that a run of the same kind sets again begins a new trace, linked to this one: it may go on like that for ever.
        """
        trace = current_trace(self.activation.node.tracer)
        if trace is not None and self.consumed is not None and self.consumed.name.partition(":")[0] == kind:
            return linked_trace(trace)
        return trace

    def wipe(self) -> None:
        super().wipe()
        if self.activation.sql is not None and self.activation.known.migrations:
            self.activation.sql.clear(self)
        elif self.activation.sql is not None:
            self.activation.sql.wipe(len(self.saved))
            self.sql_writes += 1

    def forget(self, *, after_ms: int = 0) -> None:
        """Have the object forgotten once this is on disk: its next event does it (see erasure.py), or a timer does."""
        self.writes[FORGOTTEN_SLOT] = encode(0)
        self.set_timer(forget_timer(self.activation.node, self.activation.id, self.activation.shard, after_ms))

    # savepoints

    def save(self) -> None:
        state = self.activation.state.snapshot() if self.state_used else None
        self.saved = [*self.saved, self.savepoint(state)]

    def restore(self) -> None:
        savepoint = self.saved.pop()
        self.go_back(savepoint)
        if self.activation.sql is not None:
            self.activation.sql.go_back(len(self.saved))
        self.activation.state.restore(self.activation.id, savepoint.state, self.shelf)
        self.was_restored = True

    def release(self) -> None:
        """What was done since the last savepoint stays."""
        self.saved.pop()
        if self.activation.sql is not None:
            self.activation.sql.keep(len(self.saved))

    # the end

    def collect_pages(self) -> None:
        """Put what it made of the object's database into the draft."""
        assert self.activation.sql is not None
        self.pages = self.activation.sql.collect()
        self.sql_writes = 0

    def take_commit(self, *, final: bool) -> Commit | None:
        """What has been written since the last durable point, as one commit; None when that is nothing.

        The slot of the timer that this turn is changes only in the final commit: cleared earlier,
        a crash in the rest of the turn would lose it.
        """
        timers = self.timers
        if not final and self.consumed is not None:
            name = self.consumed.name
            timers = {key: timer for key, timer in timers.items() if key != name}
        if not self.writes and self.is_empty(timers):
            return None
        activation = self.activation
        if activation.history is not None:
            self.pages = {**self.pages, **activation.history.image(self, timers)}
        if activation.unnumbered is not None:
            self.writes[MIGRATIONS_SLOT], activation.unnumbered = activation.unnumbered, None
        node, id = activation.node, activation.id
        if node.notices is not None:
            node.notices.add_to(self)
        sends = self.sends and node.route_timers(id, self.sends)
        commit = self.as_commit(id, activation.shard, activation.epoch, node.clock.now(), timers, self.consumed, sends)
        self.commits += 1
        activation.adopt(self.writes, self.wiped, timers)
        if not final:
            self.base, self.was_restored = None, False
            self.begin_anew(timers)
        return commit
