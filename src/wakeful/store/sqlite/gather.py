"""Layer 2, pure. What rows does a list of commits come to, when later ones go on top of earlier ones?

A group is written table by table, not commit by commit. That is the same as one after the other
because every storage row and timer ends as its last writer left it, and because what depends on the
stored timer (a clear or a start of one setting) depends on its `seq` alone, so that those of
different settings never meet, and those of the same setting are resolved here. A send depends on whether
the name is taken: commits between which that matters make a group of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import astuple

from wakeful.store.sends import Sends
from wakeful.store.sqlite.statements import Row
from wakeful.values.commits import USER, Commit, Slot, Start
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry, Parked, Timer

TimerName = tuple[str, str, str]  # class, key, name


class CommitGroup:
    """The rows of several commits, ready for the statements in the order of these fields."""

    __slots__ = (
        "answers", "clears", "deletes", "entries", "fences", "makes", "objects", "parks", "puts", "sends", "sets", "starts",
        "unparks", "wipes",
    )  # fmt: skip

    def __init__(self, commits: Iterable[Commit]) -> None:
        self.fences: set[tuple[int, int]] = set()  # every (shard, epoch) that must still be ours
        self.makes: dict[
            ObjectId, Row
        ] = {}  # objects that were sent something before they wrote anything in this group
        self.objects: dict[ObjectId, Row] = {}
        self.wipes: set[ObjectId] = set()
        self.deletes: dict[Row, None] = {}
        self.puts: dict[Row, Row] = {}
        self.clears: dict[Row, None] = {}  # class, key, name, seq
        self.starts: dict[Row, Row] = {}
        self.sets: dict[TimerName, Row] = {}
        self.sends: dict[TimerName, Row] = {}
        self.entries: list[Row] = []
        self.parks: list[Row] = []
        self.unparks: list[Row] = []
        self.answers: dict[Row, Row] = {}
        for commit in commits:
            self._add(commit)

    def size(self) -> int:
        """About how many rows it touches."""
        return (
            len(self.objects) + len(self.deletes) + len(self.puts) + len(self.clears) + len(self.starts)
            + len(self.sets) + 2 * len(self.sends) + len(self.entries) + len(self.parks) + len(self.unparks) + len(self.answers)
        )  # fmt: skip

    def _add(self, commit: Commit) -> None:
        # All at once: compiled, to read one field of a Struct is a search by its name.
        (
            id, shard, epoch, now, wipe, puts, deletes, sets, clears, starts, sends, entries, parks, unparks, remember, records,
        ) = astuple(commit)  # fmt: skip
        self.fences.add((shard, epoch))
        if starts and not commit.must_sync:
            self._add_timers(id, shard, epoch, sets, clears, starts)  # a bare start note has nothing else
            return
        known = self.objects.get(id)
        self.objects[id] = (*id, shard, known[3] if known else now, now)
        if wipe or deletes or puts:
            self._add_rows(id, wipe, deletes, puts, again=known is not None)
        if clears or sets or starts:
            self._add_timers(id, shard, epoch, sets, clears, starts)
        for timer in sends:
            self._send(timer, now)
        if not (entries or parks or unparks or remember or records):
            return
        for entry in entries:
            self.entries.append(entry_row(entry))
        for parked in parks:
            self.parks.append(parked_row(parked))
        for number in unparks:
            self.unparks.append((number,))
        for answer in (remember, *records):
            if answer is not None:
                row = (*id, answer.key, answer.fingerprint, answer.answer, answer.expires_at)
                self.answers[*id, answer.key] = row

    def _add_rows(
        self, id: ObjectId, wipe: bool, deletes: Sequence[Slot], puts: Mapping[Any, Any], *, again: bool
    ) -> None:
        """What is in `puts` is the database's to refuse, for this commit alone."""
        cls, key = id
        if wipe:
            self.wipes.add(id)
            if again:
                self._unput(id)
        for space, name in deletes:
            self.puts.pop((cls, key, space, name), None)
            self.deletes[cls, key, space, name] = None
        for (space, name), value in puts.items():
            slot = (cls, key, space, name)
            self.puts[slot] = (*slot, value)

    def _unput(self, id: ObjectId) -> None:
        """Forget what earlier commits of the group put before the object was wiped."""
        for row in [row for row in self.puts if row[0] == id.cls and row[1] == id.key and row[2] == USER]:
            del self.puts[row]

    def _add_timers(
        self,
        id: ObjectId,
        shard: int,
        epoch: int,
        sets: Sequence[Timer],
        clears: Sequence[tuple[str, int]],
        starts: Sequence[Start],
    ) -> None:
        cls, key = id
        for name, seq in clears:
            at = (cls, key, name)
            pending = self.sets.get(at)
            if pending is None:
                self.clears[cls, key, name, seq] = None
            elif seq in (0, pending[_SEQ]):
                del self.sets[at]
                # The set would have replaced whatever is on disk, so nothing of it may be left.
                self.clears[cls, key, name, 0] = None
        for timer in sets:
            row = timer_row(id, shard, timer)
            self.sets[cls, key, row[_NAME]] = row
        for start in starts:
            started = epoch if start.is_running else 0
            pending = self.sets.get((cls, key, start.name))
            if pending is None:
                setting = (cls, key, start.name, start.seq)
                self.starts[setting] = (*setting, started, start.crashes)
            elif pending[_SEQ] == start.seq:
                begun = (start.crashes, started)
                self.sets[cls, key, start.name] = (*pending[:_CRASHES], *begun, *pending[_CRASHES + 2 :])

    def _send(self, timer: Timer, now: int) -> None:
        shard = shard_of(timer.id)
        if timer.id not in self.objects:
            self.makes.setdefault(timer.id, (*timer.id, shard, now, now))
        self.sends.setdefault((*timer.id, timer.name), timer_row(timer.id, shard, timer))


def groups(commits: Sequence[Commit]) -> list[CommitGroup]:
    """All commits as groups to be written one after the other; nearly always a single one."""
    if not any(commit.sends for commit in commits):
        return [CommitGroup(commits)]
    runs: list[list[Commit]] = []
    sends: Sends | None = None
    for commit in commits:
        if sends is None or not sends.admits(commit):
            sends = Sends()
            sends.admits(commit)
            runs.append([])
        runs[-1].append(commit)
    return [CommitGroup(run) for run in runs]


# Where these stand in a row of `timer_row`; `started` follows `crashes`.
_NAME, _SEQ, _CRASHES = 2, 6, 8


def timer_row(id: ObjectId, shard: int, timer: Timer) -> Row:
    """As statements.set_timers takes it."""
    _, name, due_at, nominal_at, seq, attempt, crashes, started, priority, payload = astuple(timer)
    return (*id, name, shard, due_at, nominal_at, seq, attempt, crashes, started, -priority, payload)


def timer_of(row: Row) -> Timer:
    """The timer of a row that was selected as `class, key, name, {TIMER}`."""
    cls, key, name, due_at, nominal_at, seq, attempt, crashes, started, rank, payload = row
    return Timer(ObjectId(cls, key), name, due_at, nominal_at, seq, attempt, crashes, started, -rank, payload)


def entry_row(entry: Entry) -> Row:
    """Its fields are in the order of ENTRY."""
    id, *rest = astuple(entry)
    return (*id, *rest)


def entry_of(row: Row) -> Entry:
    """The entry of a row that was selected as ENTRY."""
    cls, key, name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, *stands_for = row
    missed, is_backfill, covers, first_at = stands_for
    return Entry(
        ObjectId(cls, key), name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, missed,
        bool(is_backfill), covers, first_at,
    )  # fmt: skip


def parked_row(parked: Parked) -> Row:
    timer = timer_row(parked.timer.id, 0, parked.timer)
    return (
        *timer[:3], *timer[4:], parked.run_id, parked.parked_at, parked.attempts, parked.reason, parked.error,
        parked.traceback,
    )  # fmt: skip


def parked_of(row: Row) -> Parked:
    """The parked timer of a row that was selected as `number, PARKED`."""
    run_id, parked_at, attempts, reason, error, traceback = row[12:]
    return Parked(timer_of(row[1:12]), run_id, parked_at, attempts, reason, error, traceback, number=row[0])
