"""Layer 3. What is written and not committed yet, and what commit does it make?

The one place that knows all that a commit may be made of: who adds a field to it adds it here.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from wakeful.values.commits import USER, Commit, Remembered, Slot
from wakeful.values.ids import ObjectId
from wakeful.values.runs import Entry
from wakeful.values.timers import Parked, Timer

_NONE: list[Any] = []  # never appended to


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

    __slots__ = ("entries", "parks", "records", "remember", "sends", "then", "timers", "unparks", "wiped", "writes")

    def __init__(self) -> None:
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

    def is_empty(self, timers: Mapping[str, Timer | None]) -> bool:
        """There is nothing to commit but these timers, if they are any."""
        rest = self.entries or self.parks or self.unparks or self.sends or self.remember or self.records
        return not (self.writes or self.wiped or timers or rest)

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
        self.writes, self.wiped = {}, False
        self.entries, self.parks, self.unparks, self.sends, self.records = _NONE, _NONE, _NONE, _NONE, _NONE
        self.timers = {} if timers is self.timers else {k: t for k, t in self.timers.items() if k not in timers}
