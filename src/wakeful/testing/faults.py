"""Layer 5. A store that fails on request: crashes before and after commits, outages, refusals."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, Literal, NamedTuple, TypeVar, cast

from wakeful.store.memory import MemoryStore
from wakeful.store.protocol import (
    NO_GUARDS,
    Guard,
    Hint,
    LocalStore,
    NodeRow,
    Obstacle,
    Outcome,
    Query,
    Range,
    Receipt,
    RunMarks,
    ShardRow,
    Store,
    Swap,
    Swapping,
    Table,
    TableLock,
)
from wakeful.testing.timewarp import Timewarp
from wakeful.values.commits import Commit, Info, Loaded, Remembered
from wakeful.values.errors import Fenced, OutcomeUnknown, StoreDown, Unavailable, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer, TimerKey

T = TypeVar("T")


class Lag(NamedTuple):
    """What becomes of one trip to the store, while the world goes on.

    `late`: it happens at once, and its answer comes so much later. `lost`: the same, but what comes is that the
    connection was lost. `stray`: the connection is called lost, after `told_ms`, and so much later it happens all the same.
    """

    kind: Literal["late", "lost", "stray"]
    length_ms: int
    told_ms: int = 0


class Lags:
    """A spell in which many trips to the store lag, by seconds; those that write more than others."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def __call__(self, verb: str) -> Lag | None:
        dice = self._dice
        if dice.random() >= (0.5 if verb in ("commit", "insert") else 0.12):
            return None
        kind: Literal["late", "lost", "stray"] = dice.choice(("late", "lost", "lost", "stray"))
        return Lag(kind, dice.choice((3, 40, 700, 2_500, 7_000)), dice.choice((0, 0, 40, 700)))


class Faults:
    """What shall go wrong. Probes are the points where a process can die: before and after each trip to the store.

    >>> from wakeful import App, DurableObject, errors
    >>> app = App()
    >>> @app.object
    ... class Counter(DurableObject):
    ...     async def add(self) -> int:
    ...         total = await self.storage.get("total", 0) + 1
    ...         await self.storage.put("total", total)
    ...         return total
    >>> async with app.world() as world:
    ...     world.faults.fail_commit(0, when="before")
    ...     try:
    ...         await world.get(Counter, "a").add()
    ...     except errors.Unavailable as error:
    ...         print(error.code)
    ...     await world.advance("10s")
    ...     print(await world.get(Counter, "a").add())
    store.down
    1
    """

    def __init__(self) -> None:
        self.is_down = False  # every verb raises StoreDown
        self.fail_commits: dict[int, Literal["before", "after"]] = {}  # n-th commit from now (0 is the next)
        self.on_probe: Callable[[str, int], None] | None = None  # told the probe's name and number; may crash the node
        self.probes = 0
        self.groups = 0
        self.lag: Callable[[str], Lag | None] | None = None  # asked of every trip, by the name of its verb
        self.lagging = 0  # trips whose answers are still to come, late
        self.gate: asyncio.Event | None = None  # the process stands still: nothing goes in or out until it is set

    def fail_commit(self, n: int = 0, *, when: Literal["before", "after"] = "before") -> None:
        """Let the n-th group commit from now fail: `before` nothing of it is on disk, `after` all of it is and nobody knows."""
        self.fail_commits[self.groups + n] = when

    def lag_once(self, verb: str, kind: Literal["late", "lost", "stray"], length_ms: int, told_ms: int = 0) -> None:
        """Let the next trip of that verb lag."""

        def lag(asked: str) -> Lag | None:
            if asked != verb:
                return None
            self.lag = None
            return Lag(kind, length_ms, told_ms)

        self.lag = lag

    def probe(self, name: str) -> None:
        self.probes += 1
        if self.on_probe is not None:
            self.on_probe(name, self.probes)


class FaultyStore:
    """Any store, with faults, and with its real work announced to the time warp."""

    def __init__(self, inner: Store, faults: Faults, warp: Timewarp) -> None:
        self.inner = inner
        self.url = inner.url
        self.shared = inner.shared
        self.rhythm, self.keeps_time, self.needs_looks = inner.rhythm, inner.keeps_time, inner.needs_looks
        self.local = inner.local
        self._faults = faults
        self._warp = warp
        self._is_instant = isinstance(inner, MemoryStore)  # never leaves the loop, so time need not be held
        self._strays: set[asyncio.Task[None]] = set()
        self.is_cut = False  # the process it belonged to is dead: nothing more gets through
        self.told: Callable[[], Awaitable[None]] | None = None  # waits until the world's nodes have heard what was told

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def listens(self) -> bool:
        return self.inner.listens

    @property
    def tells(self) -> bool:
        return self.inner.tells

    @property
    def shows_locks(self) -> bool:
        return self.inner.shows_locks

    @property
    def run_marks(self) -> RunMarks | None:
        return self.inner.run_marks

    def cut(self) -> None:
        self.is_cut = True
        if isinstance(self.inner, MemoryStore):
            self.inner.vanish()  # a database notices that the session is gone

    def _is_free(self) -> bool:
        """Nothing shall go wrong, nobody watches, time need not be held: straight through, which is most of a long test."""
        faults = self._faults
        if (
            self._is_instant
            and faults.on_probe is None
            and faults.lag is None
            and not (faults.is_down or self.is_cut or faults.gate)
        ):
            faults.probes += 2
            return True
        return False

    async def _pass(self, verb: str, made: Callable[[], Coroutine[Any, Any, T]]) -> T:
        faults = self._faults
        if self._is_free():
            return await made()
        await self._pass_gate()
        faults.probe(f"{verb}.before")
        self._check()
        lag = None if faults.lag is None else faults.lag(verb)
        if lag is not None and lag.kind == "stray":
            task = asyncio.get_running_loop().create_task(
                self._stray(made, lag.told_ms + lag.length_ms), context=Context()
            )
            self._strays.add(task)
            task.add_done_callback(self._strays.discard)
            await self._lag(lag.told_ms)
            raise _no_answer(verb)
        answer = await self._make(made)
        if lag is not None:
            await self._lag(lag.length_ms)
        faults.probe(f"{verb}.after")
        await self._pass_gate()
        self._check()
        if lag is not None and lag.kind == "lost":
            raise _no_answer(verb)
        return answer

    async def _lag(self, length_ms: int) -> None:
        if length_ms:
            self._faults.lagging += 1
            try:
                await self._warp.sleep(length_ms)
            finally:
                self._faults.lagging -= 1

    async def _make(self, made: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._is_instant:
            return await made()
        with self._warp.outside():
            return await made()

    async def _stray(self, made: Callable[[], Coroutine[Any, Any, Any]], length_ms: int) -> None:
        """It reaches the store whatever became of its sender."""
        await self._warp.sleep(length_ms)
        with suppress(WakefulError, Fenced):
            await self._make(made)

    async def _pass_gate(self) -> None:
        while self._faults.gate is not None and not self.is_cut:
            await self._faults.gate.wait()

    def _check(self) -> None:
        if self.is_cut:
            raise StoreDown("this process is dead (the test crashed it)")
        if self._faults.is_down:
            raise StoreDown("the store is down (the test says so)")

    async def open(self, *, now: int, readonly: bool = False) -> None:
        await self._pass("open", lambda: self.inner.open(now=now, readonly=readonly))

    async def close(self) -> None:
        with self._warp.outside():
            await self.inner.close()

    async def migrate(self, *, now: int) -> list[str]:
        return await self._pass("migrate", lambda: self.inner.migrate(now=now))

    async def join(self, row: NodeRow) -> None:
        await self._pass("join", lambda: self.inner.join(row))

    async def leave(self, node: str) -> None:
        await self._pass("leave", lambda: self.inner.leave(node))

    async def nodes(self) -> list[NodeRow]:
        return await self._pass("nodes", self.inner.nodes)

    async def drain(self, node: str, is_draining: bool) -> bool:
        return await self._pass("drain", lambda: self.inner.drain(node, is_draining))

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        return await self._pass("claim", lambda: self.inner.claim(node, shards, now=now, seen=seen))

    async def release(self, node: str, epochs: Mapping[int, int]) -> None:
        await self._pass("release", lambda: self.inner.release(node, epochs))

    async def owners(self) -> list[ShardRow]:
        return await self._pass("owners", self.inner.owners)

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        faults = self._faults
        fault = faults.fail_commits.pop(faults.groups, None)
        faults.groups += 1
        if fault == "before":
            raise StoreDown("commit failed (the test says so)")
        if fault is None and self._is_free():
            return await self.inner.commit(node, commits)
        outcomes = await self._pass("commit", lambda: self.inner.commit(node, commits))
        if fault == "after":
            raise OutcomeUnknown("connection lost after the commit was sent (the test says so)")
        return outcomes

    async def insert(
        self,
        timers: Sequence[Timer],
        *,
        now: int,
        receipt: Receipt | None = None,
        guards: Mapping[int, Guard] = NO_GUARDS,
        each: bool = False,
    ) -> list[Obstacle]:
        return await self._pass(
            "insert", lambda: self.inner.insert(timers, now=now, receipt=receipt, guards=guards, each=each)
        )

    async def forget(self, receipts: Sequence[str], *, at: int) -> None:
        await self._pass("forget", lambda: self.inner.forget(receipts, at=at))

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        if self._is_free():
            return await self.inner.load(ids)
        return await self._pass("load", lambda: self.inner.load(ids))

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        return await self._pass("read", lambda: self.inner.read(id, space, keys))

    def read_now(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        """It can't be late, but it can fail."""
        self._faults.probe("read_now")
        self._check()
        return cast("LocalStore", self.inner).read_now(id, space, keys)

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        return await self._pass("scan", lambda: self.inner.scan(id, space, range))

    async def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        return await self._pass("recall", lambda: self.inner.recall(id, key, now=now))

    async def find_answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        return await self._pass("find", lambda: self.inner.find_answers(query, now=now))

    async def erase(self, node: str, id: ObjectId, epoch: int, *, now: int, limit: int) -> bool:
        return await self._pass("erase", lambda: self.inner.erase(node, id, epoch, now=now, limit=limit))

    async def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        return await self._pass("timers", lambda: self.inner.timers(shards, after=after, until=until, limit=limit))

    async def find_objects(self, query: Query) -> list[Info]:
        return await self._pass("find", lambda: self.inner.find_objects(query))

    async def find_timers(self, query: Query) -> list[Timer]:
        return await self._pass("find", lambda: self.inner.find_timers(query))

    async def find_entries(self, query: Query) -> list[tuple[int, Entry]]:
        return await self._pass("find", lambda: self.inner.find_entries(query))

    async def find_parked(self, query: Query) -> list[Parked]:
        return await self._pass("find", lambda: self.inner.find_parked(query))

    async def count(self, what: Table, *, cls: str | None = None, key_prefix: str | None = None) -> int:
        return await self._pass("count", lambda: self.inner.count(what, cls=cls, key_prefix=key_prefix))

    async def known_classes(self) -> list[str]:
        return await self._pass("find", self.inner.known_classes)

    async def prune(
        self, *, now: int, entries_before: int, crowded: Sequence[tuple[ObjectId, str, int]], limit: int
    ) -> int:
        return await self._pass(
            "prune",
            lambda: self.inner.prune(now=now, entries_before=entries_before, crowded=crowded, limit=limit),
        )

    async def locks(self) -> list[TableLock]:
        """No probe: it changes nothing, and nobody's crash is any different after it."""
        await self._pass_gate()
        self._check()
        return await self._make(self.inner.locks)

    async def swap(self, swaps: Sequence[Swap]) -> int:
        return await self._pass("swap", lambda: cast("Swapping", self.inner).swap(swaps))

    async def time(self) -> int | None:
        return await self._pass("time", self.inner.time)

    async def tell(self, hints: Sequence[Hint]) -> None:
        await self._pass("tell", lambda: self.inner.tell(hints))
        if self.told is not None and not self._is_instant:
            with self._warp.outside():  # else the world's time could jump while a real server's hint is on its way
                await self.told()

    async def look(self) -> None:
        await self._pass("look", self.inner.look)

    def watch(self, heard: Callable[[Sequence[Hint]], None]) -> None:
        self.inner.watch(lambda hints: None if self.is_cut else heard(hints))


def _no_answer(verb: str) -> Unavailable:
    kind = OutcomeUnknown if verb in ("commit", "insert") else StoreDown
    return kind(f"the connection was lost before {verb} was answered (the test says so)")
