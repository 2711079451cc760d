"""Layer 2, pure. What do many commits come to, as rows of which no two are the same row?

One statement sees the database as it was before, and may touch a row once. So the commits of one object
are folded into one final state first, later ones on top of earlier ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from operator import itemgetter

from msgspec.structs import replace

from wakeful.values.commits import USER, Commit, Slot
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

Values = dict[str, object]
Rows = dict[str, list[tuple[object, ...]]]

_TIMER = ("cls", "key", "name", "due_at", "nominal_at", "seq", "attempt", "crashes", "started", "priority", "payload")
TIMER_COLUMNS = (*_TIMER, "shard")
_COLUMNS: dict[str, tuple[str, ...]] = {
    "wipes": ("wipe_cls", "wipe_key"),
    "keeps": ("keep_cls", "keep_key", "keep_name"),
    "deletes": ("delete_cls", "delete_key", "delete_space", "delete_name"),
    "puts": ("put_cls", "put_key", "put_space", "put_name", "put_value"),
    "objects": ("cls", "key", "created_at", "active_at", "rows", "bytes"),
    "makes": ("make_cls", "make_key", "make_at"),
    "clears": ("clear_cls", "clear_key", "clear_name", "clear_seq"),
    "sets": (*(f"set_{column}" for column in _TIMER), "set_shard"),
    "starts": ("start_cls", "start_key", "start_name", "start_seq", "start_epoch", "start_crashes"),
    "sends": (*(f"send_{column}" for column in _TIMER), "send_shard"),
    "resends": (*(f"resend_{column}" for column in _TIMER), "resend_shard"),
    "overs": ("over_cls", "over_key", "over_name", "over_seq"),
    "entries": tuple(
        f"entry_{column}"
        for column in (
            *("cls", "key", "name", "run_id", "nominal_at", "fired_at", "finished_at", "attempt", "verdict"),
            *("node", "error", "missed", "is_backfill", "covers", "first_at"),
        )
    ),
    "parks": tuple(
        f"park_{column}" for column in (*_TIMER, "run_id", "parked_at", "attempts", "reason", "error", "traceback")
    ),
    "unparks": ("unparks",),
    "remembers": tuple(
        f"remember_{column}" for column in ("cls", "key", "request", "fingerprint", "answer", "expires_at")
    ),
}

_BESIDE = {"keeps": "wipes", "overs": "resends"}  # no parts of their own, but arguments of those


class Fold:
    """One object's commits as a single step from what is on disk."""

    __slots__ = ("active_at", "clears", "created_at", "deletes", "puts", "sets", "shard", "starts", "wipe")

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.created_at: int | None = None  # None until something durable was written
        self.active_at = 0
        self.wipe = False
        self.puts: dict[Slot, bytes] = {}
        self.deletes: set[Slot] = set()
        self.sets: dict[str, Timer] = {}
        self.clears: dict[str, set[int]] = {}  # of a name: settings to remove if they are there; 0 means any
        self.starts: dict[tuple[str, int], tuple[int, int]] = {}

    def add(self, commit: Commit) -> None:
        """Apply one more commit on top."""
        if commit.must_sync:
            if self.created_at is None:
                self.created_at = commit.now
            self.active_at = commit.now
        if commit.wipe:
            self.wipe = True
            self.puts = {slot: value for slot, value in self.puts.items() if slot[0] != USER}
            self.deletes = {slot for slot in self.deletes if slot[0] != USER}
        for slot in commit.deletes:
            self.puts.pop(slot, None)
            if not (self.wipe and slot[0] == USER):
                self.deletes.add(slot)
        if commit.puts:
            self.puts.update(commit.puts)
            if self.deletes:
                self.deletes.difference_update(commit.puts)
        for name, seq in commit.clears:
            self._clear(name, seq)
        for timer in commit.sets:
            self._set(timer)
        for start in commit.starts:
            self._start(start.name, start.seq, commit.epoch if start.is_running else 0, start.crashes)

    def _clear(self, name: str, seq: int) -> None:
        set_ = self.sets.get(name)
        if set_ is not None:
            if seq in (0, set_.seq):
                del self.sets[name]
                self.clears[name] = {0}  # whatever is on disk was replaced before
            return
        gone = self.clears.setdefault(name, set())
        if 0 not in gone:
            self.clears[name] = {0} if seq == 0 else gone | {seq}
        for key in [key for key in self.starts if key[0] == name and seq in (0, key[1])]:
            del self.starts[key]

    def _set(self, timer: Timer) -> None:
        self.sets[timer.name] = timer
        self.clears.pop(timer.name, None)
        if self.starts:
            for key in [key for key in self.starts if key[0] == timer.name]:
                del self.starts[key]

    def _start(self, name: str, seq: int, epoch: int, crashes: int) -> None:
        set_ = self.sets.get(name)
        if set_ is not None:
            if set_.seq == seq:
                self.sets[name] = replace(set_, started=epoch, crashes=crashes)
        elif not self.clears.get(name, frozenset()) & {0, seq}:
            self.starts[name, seq] = (epoch, crashes)


class Sent:
    """What a batch of commits sends to other objects, or to their own; no other commit of it bears on those timers."""

    __slots__ = ("made", "over", "timers")

    def __init__(self) -> None:
        self.made: dict[ObjectId, int] = {}  # since when, for those that had written nothing in the batch until then
        self.timers: dict[tuple[ObjectId, str], Timer] = {}
        self.over: set[tuple[ObjectId, str]] = set()  # of these the commit that sends them clears a setting

    def add(self, commit: Commit, found: Mapping[ObjectId, Commit | Fold]) -> None:
        """The sends of one commit; `found` is what came before it in the batch."""
        own = {timer.name for timer in commit.sets}
        for timer in commit.sends:
            if timer.id == commit.id and timer.name in own:
                continue  # taken by the commit itself
            self.timers.setdefault((timer.id, timer.name), timer)
            before = found.get(timer.id)
            wrote = before.must_sync if isinstance(before, Commit) else before and before.created_at is not None
            if not wrote and timer.id != commit.id:
                self.made.setdefault(timer.id, commit.now)

    def takes_over(self, id: ObjectId, name: str) -> bool:
        """Whether that timer is sent although its object clears it, which is noted."""
        if (id, name) not in self.timers:
            return False
        self.over.add((id, name))
        return True

    def append(self, rows: Rows) -> None:
        """Their rows, once those of all objects are there; in one order, so that two nodes that send the same can't deadlock."""
        rows["makes"] += [(*id, at) for id, at in sorted(self.made.items())]
        for (id, name), timer in sorted(self.timers.items(), key=itemgetter(0)):
            part = "resends" if (id, name) in self.over else "sends"
            rows[part].append((*timer_row(id, timer), shard_of(id)))


def gather(node: str, commits: Sequence[Commit]) -> tuple[list[str], Set[int], Values]:
    """The parts of the statement that these commits need, their shards, and its arguments. A shard has one epoch in all of them."""
    rows: Rows = defaultdict(list)
    epochs: dict[int, int] = {}
    steps: dict[ObjectId, Commit | Fold] = {}
    sent = Sent()
    for commit in commits:
        if commit.sends:
            sent.add(commit, steps)
        epochs[commit.shard] = commit.epoch
        before = steps.setdefault(commit.id, commit)
        if before is not commit:
            fold = before if isinstance(before, Fold) else _fold(before)
            fold.add(commit)
            steps[commit.id] = fold
    _append_logs(commits, rows)
    for id, step in steps.items():
        if isinstance(step, Fold):
            _append_fold(id, step, rows, sent)
        elif not _try_plain(step, rows, sent):
            _append_fold(id, _fold(step), rows, sent)
    sent.append(rows)
    values: Values = {"node": node, "shards": list(epochs), "epochs": list(epochs.values())}
    parts = [part for part, some in rows.items() if some and part not in _BESIDE]
    for part in parts:
        values.update(zip(_COLUMNS[part], zip(*rows[part], strict=True), strict=True))
    for part, beside in _BESIDE.items():
        if beside in parts:
            columns = zip(*rows[part], strict=True) if rows[part] else ((),) * len(_COLUMNS[part])
            values.update(zip(_COLUMNS[part], columns, strict=True))
    return parts, epochs.keys(), values


def timer_columns(timers: Iterable[tuple[Timer, int]]) -> Values:
    """Timers and their shards as the arguments of `insert`."""
    columns = zip(*((*timer_row(timer.id, timer), shard) for timer, shard in timers), strict=True)
    return dict(zip(TIMER_COLUMNS, columns, strict=True))


def printable(text: str) -> str:
    """Text for people as PostgreSQL can hold it: an error with a NUL in it must not make its own record fail."""
    if "\0" in text or not text.isascii():
        return text.encode("utf-8", "backslashreplace").decode().replace("\0", "␀")
    return text


def _fold(commit: Commit) -> Fold:
    fold = Fold(commit.shard)
    fold.add(commit)
    return fold


def _try_plain(commit: Commit, rows: Rows, sent: Sent) -> bool:
    """Its rows, when nothing in it bears on anything else in it, so that it needs no folding: most commits are like that."""
    starts, clears, sets = commit.starts, commit.clears, commit.sets
    if len(starts) + len(clears) + len(sets) > 1 or commit.wipe or commit.deletes:
        return False
    cls, key = commit.id
    if not starts or commit.must_sync:
        now, puts = commit.now, commit.puts
        created_at = sent.made.pop(commit.id, now) if sent.made else now
        rows["objects"].append((cls, key, created_at, now, len(puts), _append_puts(commit.id, puts, rows)))
    for name, seq in clears:
        rows["overs" if sent.takes_over(commit.id, name) else "clears"].append((cls, key, name, seq))
    for timer in sets:
        rows["sets"].append((*timer_row(commit.id, timer), commit.shard))
    for start in starts:
        epoch = commit.epoch if start.is_running else 0
        rows["starts"].append((cls, key, start.name, start.seq, epoch, start.crashes))
    return True


def _append_fold(id: ObjectId, fold: Fold, rows: Rows, sent: Sent) -> None:
    size = _append_puts(id, fold.puts, rows)
    if fold.created_at is not None:
        created_at = sent.made.pop(id, fold.created_at)
        rows["objects"].append((*id, created_at, fold.active_at, len(fold.puts), size))
    if fold.wipe:
        rows["wipes"].append(id)
        rows["keeps"] += [(*id, name.encode()) for space, name in fold.puts if space == USER]
    for space, name in fold.deletes:
        rows["deletes"].append((*id, space, name.encode()))
    for name, seqs in fold.clears.items():
        rows["overs" if sent.takes_over(id, name) else "clears"] += [(*id, name, seq) for seq in seqs]
    for timer in fold.sets.values():
        rows["sets"].append((*timer_row(id, timer), fold.shard))
    for (name, seq), (epoch, crashes) in fold.starts.items():
        rows["starts"].append((*id, name, seq, epoch, crashes))


def _append_puts(id: ObjectId, puts: Mapping[Slot, bytes], rows: Rows) -> int:
    """Their rows; the answer is how many bytes they have, keys and values."""
    size = 0
    cls, key = id
    for (space, name), value in puts.items():
        raw = name.encode()
        size += len(raw) + len(value)
        rows["puts"].append((cls, key, space, raw, value))
    return size


def _append_logs(commits: Sequence[Commit], rows: Rows) -> None:
    """What is only ever added, in the order of the commits; of two answers to one request key the later stays."""
    remembers: dict[tuple[ObjectId, str], tuple[object, ...]] = {}
    entries, parks = rows["entries"], rows["parks"]
    for commit in commits:
        if commit.unparks:
            rows["unparks"] += [(number,) for number in commit.unparks]
        for e in commit.entries:
            cls, key = e.id
            error = e.error if e.error is None else printable(e.error)
            entries.append((
                cls, key, e.name, e.run_id, e.nominal_at, e.fired_at, e.finished_at, e.attempt, e.verdict,
                e.node, error, e.missed, e.is_backfill, e.covers, e.first_at,
            ))  # fmt: skip
        for p in commit.parks:
            texts = (printable(p.reason), printable(p.error), printable(p.traceback))
            parks.append((*timer_row(p.timer.id, p.timer), p.run_id, p.parked_at, p.attempts, *texts))
        for r in (commit.remember, *commit.records) if commit.remember or commit.records else ():
            if r is not None:
                row = (*commit.id, r.key.encode(), r.fingerprint, r.answer, r.expires_at)
                remembers[commit.id, r.key] = row
    rows["remembers"] = list(remembers.values())


def timer_row(id: ObjectId, t: Timer) -> tuple[object, ...]:
    """As TIMER_COLUMNS, but for the shard."""
    return (*id, t.name, t.due_at, t.nominal_at, t.seq, t.attempt, t.crashes, t.started, t.priority, t.payload)
