"""Do all stores give equal answers and end in equal states, whatever is done to them?

One random sequence of operations goes through every store side by side, with the memory store as the
oracle, until each kind of operation has had its effect at least once.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.store import MemoryStore, NodeRow, Query, Range, Store
from wakeful.store.bucket import BucketStore
from wakeful.store.bucket.bootstrap import bring
from wakeful.store.bucket.storage import Patient
from wakeful.store.postgres import finds as postgres_finds
from wakeful.store.protocol import Guard, Obstacle, Receipt
from wakeful.store.sqlite import finds
from wakeful.values.commits import FORGOTTEN_SLOT, SYSTEM, USER, Commit, Remembered, Start
from wakeful.values.errors import BadInput, Fenced
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Entry, Parked, Timer

STEPS_MIN, STEPS_MAX = 250, 5000
EVERY = 1000  # larger than anything a sequence makes: a page is the whole

NODES = ["node-a", "node-b"]
IDS = [ObjectId(cls, key) for cls in ("Order", "Tenant") for key in ("a", "b", "ä", "🦫", "a/b")]
SHARDS_USED = sorted({shard_of(id) for id in IDS})
NAMES = ["alarm", "job:1", "job:2", "schedule:ü"]
KEYS = ["", "a", "aa", "a\0", "b", "Z", "é", "🦫", *(f"k{n:02}" for n in range(20))]
KINDS = {
    "put", "replace", "delete", "wipe", "set", "reset", "clear", "clear any", "clear missed", "start", "start missed",
    "entry", "park", "unpark", "remember", "record", "recall", "recall expired", "fenced epoch", "fenced node", "nothing",
    "same object twice", "join", "renew", "leave", "claim", "release", "insert", "prune answers", "prune entries",
    "prune crowded", "erase", "erase sent to", "erase unmarked", "erase fenced", "load whole", "load part", "load never", "read", "scan", "timers page", "timers of some shards",
    "find", "find key prefix", "find name prefix", "find pages", "covers", "reopen", "send", "send taken",
    "send to itself", "send and clear", "insert taken", "insert twice", "insert again", "insert some",
    "insert guarded", "claim seen", "claim lost", "drain", "undrain",
    "drain nobody", "answers", "answers by prefix", "answers pages",
}  # fmt: skip


class Sequence:
    """Operations drawn from one seed; what they depend on is read from the oracle."""

    def __init__(self, seed: int, stores: list[Store]) -> None:
        self.dice = Random(seed)
        self.stores = stores
        oracle = stores[0]
        assert isinstance(oracle, MemoryStore)
        self.disk = oracle.disk
        self.now = 1_760_000_000_000
        self.seq = 0
        self.done: Counter[str] = Counter()
        self.sent: dict[tuple[str, int], tuple[list[Timer], dict[int, Guard], bool]] = {}  # by receipt

    async def both(self, what: str, call: Callable[[Store], Any]) -> Any:
        """One call on every store; the answers must be equal."""
        answers = [await call(store) for store in self.stores]
        for store, answer in zip(self.stores[1:], answers[1:], strict=True):
            assert _plain(answer) == _plain(answers[0]), f"{what} differs on {store.url}"
        return answers[0]

    async def step(self) -> None:
        self.now += self.dice.randrange(5)
        operations = [self.commit] * 12 + [
            self.insert, self.membership, self.claim, self.release, self.recall, self.load, self.read, self.scan,
            self.timers, self.find, self.prune, self.reopen, self.answers, self.erase,
        ]  # fmt: skip
        await self.dice.choice(operations)()

    # writes

    async def commit(self) -> None:
        drawn = [self.draw() for _ in range(self.dice.choice([1, 1, 2, 3, 8]))]
        node = self.dice.choice([*NODES, NODES[0], NODES[0]])
        # Parked rows are named by each store's own numbers, which are alike only in their order.
        ranks = [
            self.dice.randrange(len(self.disk.parked)) if self.disk.parked and self.chance(0.2) else None for _ in drawn
        ]
        before = self.state()

        async def call(store: Store) -> Any:
            numbers = [row.number for row in await store.find_parked(Query(limit=EVERY))]
            commits = [
                commit if rank is None else replace(commit, unparks=[numbers[rank]])
                for commit, rank in zip(drawn, ranks, strict=True)
            ]
            return await store.commit(node, commits)

        outcomes = await self.both("commit", call)
        kept = [commit for commit, outcome in zip(drawn, outcomes, strict=True) if outcome is None]
        for outcome, commit in zip(outcomes, drawn, strict=True):
            if outcome is not None:
                other = self.disk.shards[commit.shard].owner != node
                self.done["fenced node" if other else "fenced epoch"] += 1
        self.done["same object twice"] += len({commit.id for commit in kept}) < len(kept)
        if len(kept) == 1:
            self.note(kept[0], before)

    def draw(self) -> Commit:
        dice = self.dice
        id = dice.choice(IDS[:4] if self.chance(0.5) else IDS)
        shard = shard_of(id)
        epoch = self.disk.shards[shard].epoch - (dice.random() < 0.05)
        commit = Commit(id=id, shard=shard, epoch=epoch, now=self.now)
        if self.chance(0.1):
            return replace(commit, starts=[self.draw_start(id) for _ in range(2)])
        if self.chance(0.6):
            commit.puts = {
                self.draw_slot(): dice.randbytes(dice.choice([0, 1, 9, 9, 3000])) for _ in range(dice.choice([1, 2, 9]))
            }
        commit.deletes = [self.draw_slot() for _ in range(3)] if self.chance(0.3) else []
        commit.wipe = self.chance(0.06)
        commit.sets = [self.draw_timer(id) for _ in range(dice.choice([1, 2]))] if self.chance(0.5) else []
        commit.clears = [self.draw_clear(id) for _ in range(2)] if self.chance(0.3) else []
        commit.starts = [self.draw_start(id)] if self.chance(0.3) else []
        commit.entries = [self.draw_entry(id) for _ in range(dice.choice([1, 3]))] if self.chance(0.4) else []
        commit.parks = [self.draw_parked(id)] if self.chance(0.15) else []
        if self.chance(0.35):
            commit.sends = [self.draw_timer(dice.choice([id, *IDS[:4], *IDS])) for _ in range(dice.choice([1, 2, 5]))]
        commit.remember = self.draw_answer() if self.chance(0.2) else None
        commit.records = [self.draw_answer() for _ in range(dice.choice([1, 3]))] if self.chance(0.15) else []
        return commit

    def draw_answer(self) -> Remembered:
        dice = self.dice
        return Remembered(dice.choice(KEYS), dice.randbytes(4), dice.randbytes(9), self.now + dice.randrange(200))

    def draw_slot(self) -> tuple[int, str]:
        if self.chance(0.1):
            return (SYSTEM, "state")
        return (self.dice.choice([USER, USER, USER, SYSTEM]), self.dice.choice(KEYS))

    def draw_timer(self, id: ObjectId) -> Timer:
        dice = self.dice
        name = dice.choice(NAMES)
        known = self.disk.timers.get((id, name))
        if known and self.chance(0.3):
            return known.later(due_at=self.now + dice.randrange(50), attempt=known.attempt + 1)
        self.seq += 1
        due_at = self.now // 10 * 10 + dice.choice([0, 0, 10, 20])
        payload = dice.choice([None, b"", dice.randbytes(20)])
        return Timer(
            id, name, due_at, due_at - 3, self.seq, dice.randrange(3), 0, 0, dice.choice([0, 0, -2, 5]), payload
        )

    def draw_clear(self, id: ObjectId) -> tuple[str, int]:
        name = self.dice.choice(NAMES)
        known = self.disk.timers.get((id, name))
        return name, self.dice.choice([0, known.seq if known else 1, known.seq if known else 1, 1])

    def draw_start(self, id: ObjectId) -> Start:
        name = self.dice.choice(NAMES)
        known = self.disk.timers.get((id, name))
        return Start(name, known.seq if known and self.chance(0.8) else 1, self.dice.randrange(4))

    def draw_entry(self, id: ObjectId) -> Entry:
        dice = self.dice
        error = dice.choice([None, "ValueError: é"])
        return Entry(
            id, dice.choice(NAMES), f"{dice.getrandbits(64):x}", self.now - 9, self.now - 1, self.now, dice.randrange(5),
            dice.choice(["run", "failed", "gap"]), dice.choice(NODES), error, dice.randrange(3), self.chance(0.5),
            dice.choice([1, 1, 2, 10_000]), dice.choice([0, 0, self.now - 60_000]),
        )  # fmt: skip

    def draw_parked(self, id: ObjectId) -> Parked:
        timer = replace(self.draw_timer(id), started=2, crashes=1)
        return Parked(timer, "run", self.now, 3, "failed", "boom", "Traceback\n…")

    def note(self, commit: Commit, before: dict[str, Any]) -> None:
        """Which kinds of operation a lone commit brought about."""
        after = self.state()
        id, done = commit.id, self.done
        rows, timers = before["rows"].get(id, {}), before["timers"]
        done["put"] += any(slot not in rows for slot in commit.puts)
        done["replace"] += any(slot in rows for slot in commit.puts) and not commit.wipe
        done["delete"] += any(slot in rows for slot in commit.deletes)
        done["wipe"] += commit.wipe and any(space == USER for space, _ in rows)
        done["set"] += any((id, timer.name) not in timers for timer in commit.sets)
        done["reset"] += any((id, timer.name) in timers for timer in commit.sets)
        for name, seq in commit.clears:
            gone = (id, name) in timers and (id, name) not in after["timers"]
            done[("clear any" if seq == 0 else "clear") if gone else "clear missed"] += 1
        for start in commit.starts:
            timer = after["timers"].get((id, start.name))
            done["start" if timer and timer.seq == start.seq and timer.started else "start missed"] += 1
        for timer in commit.sends:
            at = (timer.id, timer.name)
            has_come = after["timers"].get(at) == timer and timers.get(at) != timer
            done["send" if has_come else "send taken"] += 1
            done["send to itself"] += has_come and timer.id == id
            done["send and clear"] += has_come and timer.id == id and at in timers
        done["entry"] += bool(commit.entries)
        done["covers"] += any(entry.covers > 1 and entry.first_at for entry in commit.entries)
        done["park"] += bool(commit.parks)
        done["unpark"] += any(number not in after["parked"] for number in before["parked"])
        done["remember"] += commit.remember is not None
        done["record"] += bool(commit.records)
        done["nothing"] += before == after

    def state(self) -> dict[str, Any]:
        disk = self.disk
        return {
            "rows": {id: dict(rows) for id, rows in disk.rows.items() if rows},
            "timers": dict(disk.timers), "parked": dict(disk.parked), "entries": dict(disk.entries),
            "remembered": dict(disk.remembered),
        }  # fmt: skip

    async def insert(self) -> None:
        timers = [self.draw_timer(self.dice.choice(IDS)) for _ in range(self.dice.choice([0, 1, 5, 40]))]
        if self.chance(0.8):
            timers = list({(timer.id, timer.name): timer for timer in timers}.values())
        if self.chance(0.6):
            timers = [timer for timer in timers if (timer.id, timer.name) not in self.disk.timers]

        receipt = self.draw_receipt() if self.chance(0.6) else None
        requests = [request for _, request in self.disk.remembered] or ["none"]
        guards = {
            n: Guard(self.dice.choice(requests), self.dice.choice(["a", "job:", "zz"]))
            for n in range(len(timers))
            if self.chance(0.3)
        }
        each = self.chance(0.4)
        if receipt is not None:  # what comes again is what was sent before
            known = self.sent.setdefault((receipt.id, receipt.number), (timers, guards, each))
            timers, guards, each = known

        async def call(store: Store) -> Any:
            try:
                return await store.insert(timers, now=self.now, receipt=receipt, guards=guards, each=each)
            except BadInput as error:
                return str(error)

        is_again = (
            receipt is not None and (last := self.disk.receipts.get(receipt.id)) and last[0].number >= receipt.number
        )
        taken = await self.both("insert", call)
        if receipt is not None and receipt.id not in self.disk.receipts:
            del self.sent[receipt.id, receipt.number]  # refused, and nobody knows of it: the next may be another
        if not isinstance(taken, str):
            self.done["insert again"] += bool(is_again and timers)
            self.done["insert some"] += each and 0 < len(taken) < len(timers)
            self.done["insert guarded"] += any(one.parked or one.answer for one in taken)
        self.done["insert twice" if isinstance(taken, str) else "insert taken" if taken else "insert"] += bool(timers)

    def draw_receipt(self) -> Receipt:
        """Of three who send: the next number, or one that was sent before."""
        id = self.dice.choice(["one", "two", "three"])
        last = self.disk.receipts[id][0].number if id in self.disk.receipts else 0
        return Receipt(id, max(1, last + self.dice.choice([1, 1, 1, 0, -1])), self.now + self.dice.choice([1, 10**9]))

    async def membership(self) -> None:
        node = self.dice.choice(NODES)
        if self.chance(0.3):
            self.done["leave"] += node in self.disk.nodes
            await self.both("leave", lambda store: store.leave(node))
        elif self.chance(0.4):
            is_draining = self.chance(0.5)
            is_there = await self.both("drain", lambda store: store.drain(node, is_draining))
            self.done[("drain" if is_draining else "undrain") if is_there else "drain nobody"] += 1
        else:
            self.done["renew" if node in self.disk.nodes else "join"] += 1
            version = self.dice.randrange(3)
            row = NodeRow(node, f"host:{self.dice.randrange(9)}", self.now, self.now + 50, "test", "blue", version)
            await self.both("join", lambda store: store.join(row))

    async def claim(self) -> None:
        shards = self.dice.sample(SHARDS_USED, self.dice.randrange(4))
        node = self.dice.choice([NODES[0], NODES[0], NODES[1]])
        seen = None
        if self.chance(0.5):
            seen = {n: self.disk.shards[n].epoch - self.chance(0.3) for n in shards if self.chance(0.9)}
        won = await self.both("claim", lambda store: store.claim(node, shards, now=self.now, seen=seen))
        self.done["claim" if seen is None else "claim seen"] += bool(won)
        self.done["claim lost"] += len(won) < len(shards)

    async def release(self) -> None:
        shards = self.dice.sample(SHARDS_USED, 2)
        epochs = {shard: self.disk.shards[shard].epoch - self.chance(0.3) for shard in shards}
        node = self.dice.choice(NODES)
        before = dict(self.disk.shards)
        await self.both("release", lambda store: store.release(node, epochs))
        self.done["release"] += before != self.disk.shards

    async def prune(self) -> None:
        crowded = [(self.dice.choice(IDS), self.dice.choice(NAMES), self.dice.randrange(4)) for _ in range(3)]
        before = self.state()
        entries_before = self.now - self.dice.randrange(100)
        if self.chance(0.5):
            crowded = []
        await self.both(
            "prune",
            lambda store: store.prune(now=self.now, entries_before=entries_before, crowded=crowded, limit=EVERY),
        )
        after = self.state()
        self.done["prune answers"] += before["remembered"] != after["remembered"]
        gone = before["entries"].keys() - after["entries"].keys()
        old = {number for number in gone if before["entries"][number].finished_at < entries_before}
        self.done["prune entries"] += bool(old)
        self.done["prune crowded"] += bool(gone - old)

    async def erase(self) -> None:
        id = self.dice.choice(IDS)
        shard = shard_of(id)
        owner, epoch = self.disk.shards[shard].owner or NODES[0], self.disk.shards[shard].epoch
        if self.chance(0.8):
            mark = Commit(id=id, shard=shard, epoch=epoch, now=self.now, puts={FORGOTTEN_SLOT: b""})
            if self.chance(0.5):  # else it may have been sent something that stays
                mark.clears = [(name, 0) for where, name in self.disk.timers if where == id]
            await self.both("mark", lambda store: store.commit(owner, [mark]))
        is_marked = FORGOTTEN_SLOT in self.disk.rows.get(id, {})
        epoch -= self.chance(0.2)

        async def call(store: Store) -> Any:
            try:
                return await store.erase(owner, id, epoch, now=self.now, limit=EVERY)
            except Fenced:
                return "fenced"

        is_fenced = await self.both("erase", call) == "fenced"
        kind = (
            " fenced" if is_fenced else " unmarked" if not is_marked else " sent to" if id in self.disk.objects else ""
        )
        self.done[f"erase{kind}"] += 1

    async def reopen(self) -> None:
        """Everything is still there after a close."""
        if self.chance(0.7):
            return
        for store in self.stores:
            await store.close()
            await store.open(now=self.now)
        self.done["reopen"] += 1

    # reads

    async def recall(self) -> None:
        id, key = self.dice.choice(list(self.disk.remembered) or [(IDS[0], "a")])
        now = self.now - self.dice.choice([0, 500])
        found = await self.both("recall", lambda store: store.recall(id, key, now=now))
        self.done["recall" if found else "recall expired"] += (id, key) in self.disk.remembered

    async def answers(self) -> None:
        dice = self.dice
        query = Query(
            cls=dice.choice([None, None, "Order"]), key=dice.choice([None, None, None, "a"]),
            key_prefix=dice.choice([None, None, "a", "\0"]), key_contains=dice.choice([None, None, "a", "A"]),
            name=dice.choice([None, None, None, *KEYS[:8]]), name_prefix=dice.choice([None, None, "", "k", "a", "a\0", "🦫"]),
            limit=dice.choice([1, 2, EVERY]),
        )  # fmt: skip
        now = self.now - dice.choice([0, 500])
        pages = await self.both("answers", lambda store: _answers(store, query, now))
        self.done["answers"] += bool(pages)
        self.done["answers by prefix"] += bool(query.name_prefix and pages)
        self.done["answers pages"] += len(pages) > 1

    async def load(self) -> None:
        ids = self.dice.sample([*IDS, ObjectId("Never", "x")], 4)
        for loaded in await self.both("load", lambda store: store.load(ids)):
            self.done["load never" if loaded.info is None else "load whole" if loaded.complete else "load part"] += 1

    async def read(self) -> None:
        id, keys = self.dice.choice(IDS), self.dice.sample(KEYS, 12)
        found = await self.both("read", lambda store: store.read(id, USER, keys))
        self.done["read"] += bool(found)

    async def scan(self) -> None:
        dice, id = self.dice, self.dice.choice(IDS)
        range = Range(dice.choice(KEYS), dice.choice([None, *KEYS]), self.chance(0.5), dice.choice([None, 0, 1, 3]))
        found = await self.both("scan", lambda store: store.scan(id, USER, range))
        self.done["scan"] += len(found) > 1

    async def timers(self) -> None:
        shards = list(range(SHARDS)) if self.chance(0.5) else self.dice.sample(SHARDS_USED, 4)
        after, until, limit = None, self.now + self.dice.randrange(60), self.dice.choice([1, 3, 7])
        more, pages = True, 0
        while more:
            kept = after
            found, more = await self.both(
                "timers", lambda store, kept=kept: store.timers(shards, after=kept, until=until, limit=limit)
            )
            after = found[-1].sort_key if found else None
            pages += bool(found)
        self.done["timers page"] += pages > 1
        self.done["timers of some shards"] += pages > 0 and len(shards) < SHARDS

    async def find(self) -> None:
        dice = self.dice
        query = Query(
            cls=dice.choice([None, None, "Order", "Order", "Never"]), key=dice.choice([None, None, None, "a", "🦫"]),
            key_prefix=dice.choice([None, None, "a", "a/", "🦫", "Z", "\0"]),
            key_contains=dice.choice([None, None, "a", "/"]), name=dice.choice([None, None, "alarm"]),
            name_prefix=dice.choice([None, None, "job:", "schedule:", "\U0010ffff"]), limit=dice.choice([1, 2, EVERY]),
        )  # fmt: skip
        found = await self.snapshot(query)
        self.done["find"] += any(found)
        self.done["find key prefix"] += bool(query.key_prefix) and all(found[:3])
        self.done["find name prefix"] += bool(query.name_prefix) and all(found[:3])
        pages = await self.both("pages", lambda store: _pages(store, query))
        self.done["find pages"] += len(pages) > 6

    async def snapshot(self, query: Query) -> list[Any]:
        """Everything that people can see, equal on every store."""
        found = [
            await self.both("find_objects", lambda store: store.find_objects(query)),
            await self.both("find_timers", lambda store: store.find_timers(query)),
            await self.both("find_entries", lambda store: store.find_entries(query)),
            await self.both("find_parked", lambda store: store.find_parked(query)),
        ]
        await self.both("owners", lambda store: store.owners())
        await self.both("nodes", lambda store: store.nodes())
        await self.both("known_classes", lambda store: store.known_classes())
        for what in ("objects", "timers", "entries", "parked"):
            await self.both(f"count {what}", lambda store, what=what: store.count(what, cls=query.cls))
        return found

    async def whole(self) -> None:
        await self.snapshot(Query(limit=100 * EVERY))
        for id in IDS:
            for space in (USER, SYSTEM):
                await self.both(f"rows of {id}", lambda store, at=id, space=space: store.scan(at, space, Range()))
        for id, key in list(self.disk.remembered):
            await self.both("recall", lambda store, at=id, key=key: store.recall(at, key, now=0))

    def missing(self) -> set[str]:
        return {kind for kind in KINDS if not self.done[kind]}

    def chance(self, share: float) -> bool:
        return self.dice.random() < share


async def _pages(store: Store, query: Query) -> list[list[Any]]:
    """Every page of every find, each continued by the store's own cursor."""
    pages: list[list[Any]] = []
    for find, cursor in (
        (store.find_objects, lambda row: tuple(row.id)),
        (store.find_timers, lambda row: row.sort_key),
        (store.find_entries, lambda row: (row[0],)),
        (store.find_parked, lambda row: (row.number,)),
    ):
        after = None
        while page := await find(replace(query, after=after)):
            pages.append(page)
            after = cursor(page[-1])
    return pages


async def _answers(store: Store, query: Query, now: int) -> list[list[Any]]:
    """Every page of the remembered answers."""
    pages: list[list[Any]] = []
    after = None
    while page := await store.find_answers(replace(query, after=after), now=now):
        pages.append(page)
        id, kept = page[-1]
        after = (*id, kept.key)
    return pages


def _plain(answer: Any) -> Any:
    """The answer without what may differ: the stores' own numbers, and the identity of errors."""
    if isinstance(answer, list | tuple) and not hasattr(answer, "_fields"):
        if len(answer) == 2 and isinstance(answer[1], Entry):
            return answer[1]
        return [_plain(part) for part in answer]
    if isinstance(answer, Parked):
        return replace(answer, number=0)
    if isinstance(answer, Obstacle):
        return replace(answer, parked=_plain(answer.parked))
    if isinstance(answer, NodeRow):
        return replace(answer, is_here=None)
    if isinstance(answer, Fenced):
        return ("fenced", answer.shard, answer.epoch)
    return answer


def _check_replayed(store: BucketStore, folder: Path) -> None:
    """Whoever has nothing but the bucket has every row of every table as it is in the local file."""
    copy = str(folder / "copy.db")
    bring(Patient(store.storage, lambda seconds: None), copy, "copy", lambda: 0.0, now=None)
    assert _tables(copy) == _tables(store.path)


def _tables(path: str) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(map(repr, db.execute(f'SELECT * FROM "{name}"'))) for name in names}


@pytest.mark.parametrize(
    ("seed", "others"),
    [*((seed, [kind]) for seed in range(3) for kind in ("sqlite", "postgres")), (0, ["bucket"])],
    ids=str,
)
async def test_stores_in_lockstep(
    seed: int, others: list[str], store_of: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # So low that both ways to a page are taken: collecting the rows of few objects, and walking past those of others.
    monkeypatch.setattr(finds, "NARROW_ROWS", 4)
    monkeypatch.setattr(postgres_finds, "NARROW_ROWS", 4)
    stores = [store_of(kind) for kind in ["memory", *others]]
    sequence = Sequence(seed, stores)
    for store in stores:
        await store.open(now=sequence.now)
    step = 0
    try:
        await sequence.both("claim", lambda store: store.claim(NODES[0], SHARDS_USED, now=sequence.now))
        while step < STEPS_MIN or sequence.missing():
            step += 1
            assert step < STEPS_MAX, f"never happened: {sequence.missing()}"
            await sequence.step()
            if step % 50 == 0:
                await sequence.whole()
        await sequence.whole()
        for store in stores:
            if isinstance(store, BucketStore):
                _check_replayed(store, tmp_path)
    except BaseException:
        print(f"seed {seed}, step {step}")
        raise
    finally:
        for store in stores:
            await store.close()
