"""Layer 2. The store as plain dicts: the oracle that the others are compared with, and what tests run on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from wakeful.policy.lease import USUAL
from wakeful.policy.ranges import lower
from wakeful.store.protocol import (
    NO_GUARDS,
    REWALK_MS,
    WAKE_PAGES,
    WHOLE_BYTES_MAX,
    WHOLE_ROWS_MAX,
    Guard,
    Hint,
    NodeRow,
    Obstacle,
    Outcome,
    Query,
    Range,
    Receipt,
    RunMark,
    RunMarks,
    ShardRow,
    Swap,
    Table,
    TableLock,
)
from wakeful.store.sends import check_once, is_other, still_out
from wakeful.values.commits import (
    FORGET_TIMER,
    FORGOTTEN_SLOT,
    HISTORY_SLOT,
    MIGRATIONS_SLOT,
    PAGES,
    STATE_SLOT,
    SYSTEM,
    USER,
    Commit,
    Info,
    Loaded,
    Remembered,
    Slot,
    page_slot,
)
from wakeful.values.errors import Fenced, StoreDown
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import ALARM, Entry, Parked, Timer, TimerKey

_NOWHERE: frozenset[int] = frozenset()


@dataclass
class Disk:
    """What survives a crash: hand the same one to the next `MemoryStore`.

    >>> from wakeful.store import Disk, MemoryStore
    >>> disk = Disk()
    >>> first, second = MemoryStore(disk), MemoryStore(disk)  # one after the other, as before and after a crash
    >>> len(disk.shards)
    256
    """

    objects: dict[ObjectId, tuple[int, int]] = field(default_factory=dict)  # created_at, active_at
    rows: dict[ObjectId, dict[Slot, bytes]] = field(default_factory=dict)
    timers: dict[tuple[ObjectId, str], Timer] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    entries_since: int = 0  # no entry that may go finished before that; spares most prunings a look at every one
    parked: dict[int, Parked] = field(default_factory=dict)
    remembered: dict[tuple[ObjectId, str], Remembered] = field(default_factory=dict)
    receipts: dict[str, tuple[Receipt, frozenset[int]]] = field(default_factory=dict)  # and what it left out
    shards: dict[int, ShardRow] = field(default_factory=lambda: {n: ShardRow(n, None, 0) for n in range(SHARDS)})
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    numbers: int = 0
    marks: dict[int, RunMark] = field(default_factory=dict)  # by place
    stores: list["MemoryStore"] = field(default_factory=list)  # those that have it open, in this process

    def number(self) -> int:
        self.numbers += 1
        return self.numbers


class _Marks:
    """The places for marks that a disk has."""

    places = 1_024

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def set(self, place: int, mark: RunMark) -> bool:
        self._disk.marks[place] = mark
        return True

    def wipe(self, place: int) -> None:
        self._disk.marks.pop(place, None)

    def all(self) -> list[RunMark]:
        return list(self._disk.marks.values())

    def clear(self) -> None:
        self._disk.marks.clear()


class MemoryStore:
    """A store that answers at once and forgets with the process, unless its disk is passed on.

    `shared` lets several nodes of one process be a cluster on one disk: each has a store of its own, whose `clock`
    is the one that they follow. `listens` and `sees` make it one that tells of changes, and of nodes that are gone.

    >>> from wakeful import App, DurableObject
    >>> from wakeful.store import Disk, MemoryStore
    >>> app, disk = App(), Disk()
    >>> @app.object
    ... class Counter(DurableObject):
    ...     async def add(self) -> int:
    ...         await self.storage.put("total", total := await self.storage.get("total", 0) + 1)
    ...         return total
    >>> for _ in range(2):
    ...     async with app.run(MemoryStore(disk)):
    ...         print(await app.get(Counter, "a").add())
    1
    2
    """

    local = True
    rhythm = USUAL
    needs_looks = shows_locks = False

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        shared: bool = False,
        listens: bool = False,
        sees: bool = False,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.url = "memory:"
        self.identity = ""
        self.disk = disk or Disk()
        self.shared = shared
        self.run_marks: RunMarks | None = None if shared else _Marks(self.disk)
        self.listens = self.tells = listens
        self._sees = sees
        self._clock, self.keeps_time = clock, clock is not None
        self._open = False
        self._joined: str | None = None
        self._heard: Callable[[Sequence[Hint]], None] | None = None
        self._settled_to = 0  # ledger rows up to this number are old and stay
        self._walked_at = 0  # when they were last looked at

    async def open(self, *, now: int, readonly: bool = False) -> None:
        self._open = True
        if self not in self.disk.stores:
            self.disk.stores.append(self)

    async def close(self) -> None:
        self.vanish()
        self._open = False

    def vanish(self) -> None:
        """The process is gone, and its session with it; what it wrote can still be looked at."""
        if self in self.disk.stores:
            self.disk.stores.remove(self)

    async def migrate(self, *, now: int) -> list[str]:
        return []

    async def join(self, row: NodeRow) -> None:
        self._check()
        known = self.disk.nodes.get(row.node, replace(row, is_draining=False))
        self.disk.nodes[row.node] = replace(row, joined_at=known.joined_at, is_draining=known.is_draining, is_here=None)
        self._joined = row.node

    async def leave(self, node: str) -> None:
        self._check()
        self.disk.nodes.pop(node, None)

    async def nodes(self) -> list[NodeRow]:
        self._check()
        here = {store._joined for store in self.disk.stores}
        return [
            replace(row, is_here=row.node in here if self._sees else None)
            for row in sorted(self.disk.nodes.values(), key=lambda row: row.node)
        ]

    async def drain(self, node: str, is_draining: bool) -> bool:
        self._check()
        known = self.disk.nodes.get(node)
        if known is not None:
            self.disk.nodes[node] = replace(known, is_draining=is_draining)
        return known is not None

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        self._check()
        won = [n for n in shards if seen is None or self.disk.shards[n].epoch == seen.get(n)]
        for n in won:
            self.disk.shards[n] = ShardRow(n, node, self.disk.shards[n].epoch + 1)
        return {n: self.disk.shards[n].epoch for n in won}

    async def release(self, node: str, epochs: Mapping[int, int]) -> None:
        self._check()
        for n, epoch in epochs.items():
            if self.disk.shards[n] == ShardRow(n, node, epoch):
                self.disk.shards[n] = ShardRow(n, None, epoch)

    async def owners(self) -> list[ShardRow]:
        self._check()
        return list(self.disk.shards.values())  # in order: none ever comes or goes

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        self._check()
        return [self._apply(node, commit) for commit in commits]

    async def insert(
        self,
        timers: Sequence[Timer],
        *,
        now: int,
        receipt: Receipt | None = None,
        guards: Mapping[int, Guard] = NO_GUARDS,
        each: bool = False,
    ) -> list[Obstacle]:
        self._check()
        if not timers:
            return []
        check_once(timers)
        last = None if receipt is None else self.disk.receipts.get(receipt.id)
        if receipt is not None and last is not None and last[0].number >= receipt.number:
            found = self._obstacles(timers, guards if each else {}, guards, now)
            left_out = last[1] if last[0].number == receipt.number else frozenset()
            return still_out([one for one in found if is_other(one, timers)], left_out)
        obstacles = self._obstacles(timers, range(len(timers)), guards, now)
        if obstacles and not each:
            return obstacles
        barred = frozenset([one.index for one in obstacles]) if obstacles else _NOWHERE
        self._add([timer for n, timer in enumerate(timers) if n not in barred] if barred else timers, now)
        if receipt is not None:
            self.disk.receipts[receipt.id] = (receipt, barred & guards.keys() if barred else _NOWHERE)
        return obstacles

    def _obstacles(
        self, timers: Sequence[Timer], places: Iterable[int], guards: Mapping[int, Guard], now: int
    ) -> list[Obstacle]:
        """What is in the way of the timers at these places, in their order."""
        if not guards:
            there = self.disk.timers
            return [Obstacle(n, found) for n in places if (found := there.get((timers[n].id, timers[n].name)))]
        wanted = {timers[n].id for n in guards}
        others: dict[ObjectId, list[Timer]] = {}
        for timer in self.disk.timers.values() if wanted else ():
            if timer.id in wanted:
                others.setdefault(timer.id, []).append(timer)
        return [one for n in sorted(places) if (one := self._obstacle(n, timers[n], guards.get(n), now, others))]

    def _obstacle(
        self, index: int, timer: Timer, guard: Guard | None, now: int, others: Mapping[ObjectId, list[Timer]]
    ) -> Obstacle | None:
        disk, id = self.disk, timer.id
        there = disk.timers.get((id, timer.name))
        if guard is None:
            return None if there is None else Obstacle(index, there)
        if there is None:
            asks = [one for one in others.get(id, ()) if one.name.startswith(guard.prefix)]
            there = max(asks, key=lambda one: one.sort_key, default=None)
        parked = [one for _, one in sorted(disk.parked.items()) if (one.timer.id, one.timer.name) == (id, timer.name)]
        answer = disk.remembered.get((id, guard.answer))
        if answer is not None and answer.expires_at <= now:
            answer = None
        if there is None and not parked and answer is None:
            return None
        return Obstacle(index, there, parked[-1] if parked else None, answer)

    async def forget(self, receipts: Sequence[str], *, at: int) -> None:
        self._check()
        for id in receipts:
            if id in self.disk.receipts:
                receipt, left_out = self.disk.receipts[id]
                self.disk.receipts[id] = (replace(receipt, expires_at=at), left_out)

    async def erase(self, node: str, id: ObjectId, epoch: int, *, now: int, limit: int) -> bool:
        self._check()
        disk, shard = self.disk, shard_of(id)
        if (disk.shards[shard].owner, disk.shards[shard].epoch) != (node, epoch):
            raise Fenced(shard, epoch)
        rows = disk.rows.get(id, {})
        if FORGOTTEN_SLOT not in rows:
            return True
        tables: list[tuple[dict[Any, Any], list[Any]]] = [
            (rows, [slot for slot in rows if slot != FORGOTTEN_SLOT]),
            (disk.entries, [number for number, entry in disk.entries.items() if entry.id == id]),
            (disk.parked, [number for number, parked in disk.parked.items() if parked.timer.id == id]),
            (disk.remembered, [slot for slot in disk.remembered if slot[0] == id]),
        ]
        for table, going in tables:
            for slot in going[:limit]:
                del table[slot]
        if any(len(going) > limit for _, going in tables):
            return False
        del disk.rows[id], disk.objects[id]
        disk.timers.pop((id, FORGET_TIMER), None)
        if any(owner == id for owner, _ in disk.timers):
            disk.objects[id] = (now, now)
        return True

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        self._check()
        return [self._load(id) for id in ids]

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        return self.read_now(id, space, keys)

    def read_now(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        self._check()
        rows = self.disk.rows.get(id, {})
        return {key: rows[space, key] for key in keys if (space, key) in rows}

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        self._check()
        first, last = range.first.encode(), None if range.last is None else range.last.encode()
        rows = sorted(
            (key.encode(), key, value)
            for (where, key), value in self.disk.rows.get(id, {}).items()
            if where == space and key.encode() >= first and (last is None or key.encode() < last)
        )
        if range.reverse:
            rows.reverse()
        return [(key, value) for _, key, value in rows[: range.limit]]

    async def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        self._check()
        found = self.disk.remembered.get((id, key))
        return found if found and found.expires_at > now else None

    async def find_answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        self._check()
        found = sorted(
            (
                (*_bytes_of(id), kept.key.encode(), id, kept)
                for (id, _), kept in self.disk.remembered.items()
                if kept.expires_at > now and _matches(id, query) and _is_named(kept.key, query)
            ),
            key=lambda one: one[:3],
        )
        after = None if query.after is None else tuple(str(part).encode() for part in query.after)
        return [(id, kept) for *place, id, kept in found if after is None or tuple(place) > after][: query.limit]

    async def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        self._check()
        mine = set(shards)
        due = sorted(
            (
                timer
                for timer in self.disk.timers.values()
                if timer.due_at <= until and (after is None or timer.sort_key > after) and shard_of(timer.id) in mine
            ),
            key=lambda timer: timer.sort_key,
        )
        return due[:limit], len(due) > limit

    async def find_objects(self, query: Query) -> list[Info]:
        self._check()
        objects = [
            self._info(id)
            for id in sorted(self.disk.objects, key=_bytes_of)
            if _matches(id, query)
            and (query.after is None or _bytes_of(id) > _bytes_of(ObjectId(*map(str, query.after))))
        ]
        return objects[: query.limit]

    async def find_timers(self, query: Query) -> list[Timer]:
        self._check()
        timers = [
            timer
            for timer in sorted(self.disk.timers.values(), key=lambda timer: timer.sort_key)
            if _matches(timer.id, query)
            and _is_named(timer.name, query)
            and (query.after is None or timer.sort_key > query.after)
        ]
        return timers[: query.limit]

    async def find_entries(self, query: Query) -> list[tuple[int, Entry]]:
        self._check()
        entries = [
            (number, entry)
            for number, entry in sorted(self.disk.entries.items(), reverse=True)
            if _matches(entry.id, query)
            and _is_named(entry.name, query)
            and (query.after is None or (number,) < query.after)
        ]
        return entries[: query.limit]

    async def find_parked(self, query: Query) -> list[Parked]:
        self._check()
        rows = [
            parked
            for number, parked in sorted(self.disk.parked.items())
            if _matches(parked.timer.id, query)
            and _is_named(parked.timer.name, query)
            and (query.after is None or (number,) > query.after)
        ]
        return rows[: query.limit]

    async def count(self, what: Table, *, cls: str | None = None, key_prefix: str | None = None) -> int:
        self._check()
        ids: dict[str, list[ObjectId]] = {
            "objects": list(self.disk.objects),
            "timers": [id for id, _ in self.disk.timers],
            "entries": [entry.id for entry in self.disk.entries.values()],
            "parked": [parked.timer.id for parked in self.disk.parked.values()],
        }
        return sum(1 for id in ids[what] if cls in (None, id.cls) and id.key.startswith(key_prefix or ""))

    async def known_classes(self) -> list[str]:
        self._check()
        return sorted({id.cls for id in self.disk.objects})

    async def prune(
        self, *, now: int, entries_before: int, crowded: Sequence[tuple[ObjectId, str, int]], limit: int
    ) -> int:
        self._check()
        old = [slot for slot, answer in self.disk.remembered.items() if answer.expires_at <= now][:limit]
        for slot in old:
            del self.disk.remembered[slot]
        expired = [one.id for one, _ in self.disk.receipts.values() if one.expires_at <= now]
        for receipt in expired:
            del self.disk.receipts[receipt]
        going = self._pop_aged(now, entries_before, limit)
        for id, name, keep in crowded:
            numbers = [n for n, entry in sorted(self.disk.entries.items()) if (entry.id, entry.name) == (id, name)]
            going += numbers[: max(0, len(numbers) - keep)]
        gone = set(going)
        for number in gone:
            del self.disk.entries[number]
        return len(old) + len(gone)

    def _pop_aged(self, now: int, before: int, limit: int) -> list[int]:
        """Ledger rows that are old enough to go, and go."""
        disk = self.disk
        if before > 0 and now - self._walked_at >= REWALK_MS:
            self._walked_at, self._settled_to, disk.entries_since = now, 0, 0
        if disk.entries_since >= before:
            return []
        rows = [(n, entry) for n, entry in sorted(disk.entries.items()) if n > self._settled_to]
        going = [n for n, entry in rows if entry.finished_at < before and not self._stays(n, entry)]
        if len(going) >= limit:
            return going[:limit]
        young = [(n, entry.finished_at) for n, entry in rows if entry.finished_at >= before]
        self._settled_to = young[0][0] - 1 if young else max([self._settled_to, *(n for n, _ in rows)])
        gone = set(going)
        left = [entry.finished_at for n, entry in rows if n > self._settled_to and n not in gone]
        disk.entries_since = min(left, default=before)
        return going

    def _stays(self, number: int, row: Entry) -> bool:
        """It belongs to the newest verdict of a name that lasts."""
        disk, id, name = self.disk, row.id, row.name
        if name.startswith("job"):
            return False
        rows = disk.rows.get(id, {})
        if (id, name) not in disk.timers and (SYSTEM, name) not in rows and not (name == ALARM and rows):
            return False
        newer = [entry for n, entry in disk.entries.items() if n > number and (entry.id, entry.name) == (id, name)]
        others = [entry for entry in newer if entry.run_id != row.run_id]
        return all(entry.verdict == "failed" for entry in others) and len({entry.run_id for entry in others}) < 2

    async def swap(self, swaps: Sequence[Swap]) -> int:
        self._check()
        return sum([swap_bytes(self.disk, one) for one in swaps])

    async def locks(self) -> list[TableLock]:
        return []

    async def time(self) -> int | None:
        self._check()
        return self._clock() if self._clock is not None else None

    async def tell(self, hints: Sequence[Hint]) -> None:
        self._check()
        for store in list(self.disk.stores) if self.listens else ():
            if store is not self and store._heard is not None:
                store._heard(hints)

    async def look(self) -> None:
        self._check()

    def watch(self, heard: Callable[[Sequence[Hint]], None]) -> None:
        self._heard = heard

    def _check(self) -> None:
        if not self._open:
            raise StoreDown("the memory store is closed")

    def _apply(self, node: str, commit: Commit) -> Outcome:
        shard = self.disk.shards[commit.shard]
        if shard.owner != node or shard.epoch != commit.epoch:
            return Fenced(commit.shard, commit.epoch)
        disk, id = self.disk, commit.id
        if commit.must_sync:
            known = disk.objects.get(id)
            disk.objects[id] = (known[0] if known else commit.now, commit.now)
        if commit.puts or commit.deletes or commit.wipe:
            self._write(id, commit)
        for name, seq in commit.clears:
            timer = disk.timers.get((id, name))
            if timer and seq in (0, timer.seq):
                del disk.timers[id, name]
        for timer in commit.sets:
            disk.timers[id, timer.name] = timer
        for start in commit.starts:
            timer = disk.timers.get((id, start.name))
            if timer and timer.seq == start.seq:
                disk.timers[id, start.name] = replace(
                    timer, started=commit.epoch if start.is_running else 0, crashes=start.crashes
                )
        self._add(commit.sends, commit.now)
        for entry in commit.entries:
            disk.entries[disk.number()] = entry
            disk.entries_since = min(disk.entries_since, entry.finished_at)
        for parked in commit.parks:
            number = disk.number()
            disk.parked[number] = replace(parked, number=number)
        for number in commit.unparks:
            disk.parked.pop(number, None)
        for kept in (commit.remember, *commit.records):
            if kept is not None:
                disk.remembered[id, kept.key] = kept
        return None

    def _add(self, timers: Sequence[Timer], now: int) -> None:
        objects, there = self.disk.objects, self.disk.timers
        for timer in timers:
            objects.setdefault(timer.id, (now, now))
            there.setdefault((timer.id, timer.name), timer)

    def _write(self, id: ObjectId, commit: Commit) -> None:
        rows = self.disk.rows.setdefault(id, {})
        if commit.wipe:
            for slot in [slot for slot in rows if slot[0] == USER]:
                del rows[slot]
        for slot in commit.deletes:
            rows.pop(slot, None)
        rows.update(commit.puts)

    def _info(self, id: ObjectId) -> Info:
        created_at, active_at = self.disk.objects[id]
        rows = self.disk.rows.get(id, {})
        size = sum(len(key.encode()) + len(value) for (_, key), value in rows.items())
        return Info(id, created_at, active_at, len(rows), size)

    def _load(self, id: ObjectId) -> Loaded:
        if id not in self.disk.objects:
            return Loaded(None, None, {}, True)
        info = self._info(id)
        rows = self.disk.rows.get(id, {})
        whole = info.rows <= WHOLE_ROWS_MAX and info.bytes <= WHOLE_BYTES_MAX
        kept = dict(rows) if whole else {slot: value for slot, value in rows.items() if _comes_along(slot)}
        return Loaded(info, self.disk.timers.get((id, ALARM)), kept, whole)


def _comes_along(slot: Slot) -> bool:
    """The row is needed by a large object that wakes."""
    starts = (STATE_SLOT, MIGRATIONS_SLOT, FORGOTTEN_SLOT, HISTORY_SLOT)
    return slot in starts or (slot[0] == PAGES and slot <= page_slot(WAKE_PAGES))


def _matches(id: ObjectId, query: Query) -> bool:
    return (
        query.cls in (None, id.cls)
        and query.key in (None, id.key)
        and id.key.startswith(query.key_prefix or "")
        and (query.key_contains is None or lower(query.key_contains) in lower(id.key))
    )


def _is_named(name: str, query: Query) -> bool:
    return query.name in (None, name) and name.startswith(query.name_prefix or "")


def _bytes_of(id: ObjectId) -> tuple[bytes, bytes]:
    return id.cls.encode(), id.key.encode()


def swap_bytes(disk: "Disk", one: Swap) -> bool:
    """Put the new in place of the old where that is still there; whether it was."""
    where = one.where
    if one.table == "storage":
        rows, slot = disk.rows.get(ObjectId(*where[:2]), {}), (where[2], where[3])
        is_same = bool(rows.get(slot) == one.old[0])
        if is_same:
            rows[slot] = one.new[0]
        return is_same
    if one.table == "timers":
        name = (ObjectId(*where[:2]), where[2])
        timer = disk.timers.get(name)
        is_same = timer is not None and bool(timer.payload == one.old[0])
        if is_same:
            disk.timers[name] = replace(disk.timers[name], payload=one.new[0])
        return is_same
    if one.table == "requests":
        request = (ObjectId(*where[:2]), where[2])
        answer = disk.remembered.get(request)
        is_same = answer is not None and bool((answer.fingerprint, answer.answer) == one.old)
        if is_same:
            disk.remembered[request] = replace(disk.remembered[request], fingerprint=one.new[0], answer=one.new[1])
        return is_same
    if one.table == "ledger":
        if is_there := where[0] in disk.entries:
            disk.entries[where[0]] = replace(disk.entries[where[0]], error=one.new[0])
        return is_there
    parked = disk.parked.get(where[0])
    if parked is None:
        return False
    timer = replace(parked.timer, payload=one.new[0])
    disk.parked[where[0]] = replace(parked, timer=timer, error=one.new[1], traceback=one.new[2])
    return True
