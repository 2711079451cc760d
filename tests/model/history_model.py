"""Random lives of an object with a history: gone back to any of its points, it is what a copy of its rows was then."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from wakeful import App, DurableObject, Limits, Unavailable
from wakeful.store import Query, Range
from wakeful.values.commits import PAGES, SYSTEM, USER, Slot
from wakeful.values.ids import ObjectId

LIFE = ObjectId("Life", "a")


class Oops(Exception):
    pass


@dataclass
class Purse:
    coins: int = 0


class Life(DurableObject):
    """Does what it is told, in one turn."""

    history = "30d"
    state: Purse

    async def do(self, ops: list[Any]) -> None:
        for op in ops:
            await self._apply(op)

    async def mark(self) -> str:
        return await self.ctx.bookmark()

    async def back(self, mark: str, timers: bool, ops: list[Any]) -> str:
        """What it does beside is as if it had not been done."""
        for op in ops[:1]:
            await self._apply(op)
        before = await self.ctx.restore(mark, timers=timers)
        for op in ops[1:]:
            await self._apply(op)
        return before

    async def back_and_fail(self, mark: str) -> None:
        await self.ctx.restore(mark)
        raise Oops

    async def look(self) -> tuple[Any, int, list[Any]]:
        """The same as the rows say, out of its own memory, cache and connection."""
        table = self.sql("SELECT 1 FROM sqlite_schema WHERE name = 't'").first()
        rows = self.sql("SELECT id, a FROM t ORDER BY id").raw() if table else []
        return await self.storage.list(), self.state.coins, rows

    async def alarm(self) -> None:
        await self.storage.put("rang", self.ctx.now())

    async def tick(self) -> None:
        self.state.coins += 1

    async def _apply(self, op: Any) -> None:
        match op:
            case ("put", key, size):
                await self.storage.put(key, "v" * size)
            case ("delete", key):
                await self.storage.delete(key)
            case ("wipe",):
                await self.storage.delete_all()
            case ("earn", coins):
                self.state.coins += coins
            case ("sql", size):
                self.sql("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, a TEXT)")
                self.sql("INSERT INTO t (a) VALUES (?)", "t" * size)
            case ("shrink",):
                self.sql("DROP TABLE IF EXISTS t")
            case ("alarm", minutes):
                await self.storage.set_alarm(timedelta(minutes=minutes))
            case ("no alarm",):
                await self.storage.delete_alarm()
            case ("schedule", name, minutes):
                await self.schedules.add(f"every {minutes} minutes", "tick", name=name)
            case ("cancel", name):
                await self.schedules.cancel(name)
            case ("commit",):
                await self.ctx.commit()
            case ("raise",):
                raise Oops
            case ("transaction", ops):
                with suppress(Oops):
                    async with self.ctx.transaction():
                        for inner in ops:
                            await self._apply(inner)


class Copy(NamedTuple):
    """The object on disk, as far as it can go back."""

    rows: dict[Slot, bytes]
    timers: dict[str, tuple[Any, ...]]

    def is_due(self, now: int) -> bool:
        return any(timer[0] <= now for timer in self.timers.values())


def _is_of_timers(slot: Slot) -> bool:
    return slot[0] == SYSTEM and slot[1].startswith(("schedule", "run:"))


KEYS = st.sampled_from(["k1", "k2", "k3"])
NAMES = st.sampled_from(["s1", "s2"])
SIMPLE = st.one_of(
    st.tuples(st.just("put"), KEYS, st.sampled_from([1, 100, 9_000])),
    st.tuples(st.just("delete"), KEYS),
    st.just(("wipe",)),
    st.tuples(st.just("earn"), st.integers(1, 3)),
    st.tuples(st.just("sql"), st.sampled_from([1, 3_000, 9_000])),
    st.just(("shrink",)),
    st.tuples(st.just("alarm"), st.integers(1, 300)),
    st.just(("no alarm",)),
    st.tuples(st.just("schedule"), NAMES, st.sampled_from([30, 50])),
    st.tuples(st.just("cancel"), NAMES),
)
TIMED = ("alarm", "no alarm", "schedule", "cancel", "wipe")
INSIDE = st.lists(SIMPLE | st.just(("raise",)), max_size=3)
OPS = st.lists(
    st.one_of(SIMPLE, SIMPLE, SIMPLE, st.just(("commit",)), st.tuples(st.just("transaction"), INSIDE)),
    min_size=1,
    max_size=5,
)


class HistoryModel(RuleBasedStateMachine):
    """One object, one world, and copies of what is on disk, each under the bookmark that the object gave for it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.app = App(limits=Limits(cache_bytes_per_object=12_000))  # so that not all is in memory
        self.app.object(Life)
        self.world: Any = None
        self.copies: list[tuple[str, Copy]] = []
        self.requests = 0

    def store_url(self) -> str:
        return "memory:"

    @initialize(paranoid=st.booleans())
    def begin(self, paranoid: bool) -> None:
        async def enter() -> Any:
            return await self.app.world(store=self.store_url(), sleep_after_turn=paranoid).__aenter__()

        self.world = self.run(enter())

    def teardown(self) -> None:
        if self.world is not None:
            self.run(self.world.__aexit__(None, None, None))
        self.loop.close()

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @property
    def life(self) -> Any:
        return self.world.get(Life, "a")

    @rule(ops=OPS, fails=st.booleans())
    def call(self, ops: list[Any], fails: bool) -> None:
        try:
            self.run(self.life.do([*ops, *([("raise",)] if fails else [])]))
        except Oops:
            assert fails

    @rule(turns=st.lists(OPS, min_size=2, max_size=4))
    def burst(self, turns: list[Any]) -> None:
        """The next turn begins on top of what is on its way."""

        async def together() -> None:
            life = self.life
            await asyncio.gather(*(life.do(ops) for ops in turns))

        self.run(together())

    @rule()
    def take(self) -> None:
        mark = self.run(self.life.mark())
        assert all(mark >= other for other, _ in self.copies)
        self.copies.append((mark, self.run(self.copy())))

    @precondition(lambda self: self.copies)
    @rule(data=st.data(), timers=st.booleans(), ops=st.lists(SIMPLE, max_size=3), undo=st.booleans())
    def go_back(self, data: Any, timers: bool, ops: list[Any], undo: bool) -> None:
        mark, then = data.draw(st.sampled_from(self.copies))
        timers = timers and not then.is_due(self.now())  # else they would run at once, and the rest be gone
        ops = [op for op in ops if timers or op[0] not in TIMED]  # else what the turn makes of timers stays
        now = self.run(self.copy())
        before = self.run(self.life.back(mark, timers, ops))
        self.check(then, now, timers)
        if undo and not (timers and now.is_due(self.now())):
            self.run(self.life.back(before, timers, []))
            self.check(now, now, timers)

    @precondition(lambda self: self.copies)
    @rule(data=st.data())
    def go_back_and_fail(self, data: Any) -> None:
        mark, _ = data.draw(st.sampled_from(self.copies))
        before = self.run(self.copy())
        with suppress(Oops):
            self.run(self.life.back_and_fail(mark))
        assert self.run(self.copy()) == before

    @precondition(lambda self: self.copies)
    @rule(data=st.data(), when=st.sampled_from(["before", "after"]))
    def commit_fails(self, data: Any, when: Any) -> None:
        """The caller can't know; asking again under the same request key does it exactly once."""
        mark, then = data.draw(st.sampled_from(self.copies))
        now = self.run(self.copy())
        self.requests += 1
        stub = self.world.get(Life, "a", request_key=f"request-{self.requests}")
        self.run(self.life.look())  # awake: the next commit is that of the restore
        self.world.faults.fail_commit(0, when=when)
        try:
            self.run(stub.back(mark, False, []))
        except Unavailable:
            self.run(self.world.settle())
            assert self.run(self.copy()) in (now, self.merged(then, now, False))
            self.run(self.world.advance(timedelta(seconds=1)))
            now = self.run(self.copy())  # a timer may have run meanwhile
            if when == "before":
                self.run(stub.back(mark, False, []))
            else:
                return
        finally:
            self.world.faults.fail_commits.clear()
        self.check(then, now, False)

    @rule(minutes=st.sampled_from([1, 40, 200]))
    def time_passes(self, minutes: int) -> None:
        self.run(self.world.advance(timedelta(minutes=minutes)))

    @rule()
    def sleep(self) -> None:
        self.run(self.world.sleep_all())

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        if not is_clean:
            self.run(self.world.crash())
        self.run(self.world.restart())

    def now(self) -> int:
        return int(self.world.node.clock.now())

    def check(self, then: Copy, now: Copy, timers: bool) -> None:
        assert self.run(self.copy()) == self.merged(then, now, timers)
        seen = self.run(self.life.look())
        self.run(self.world.sleep_all())
        assert self.run(self.life.look()) == seen

    def merged(self, then: Copy, now: Copy, timers: bool) -> Copy:
        if timers:
            return then
        rows = {slot: data for slot, data in then.rows.items() if not _is_of_timers(slot)}
        return Copy(rows | {slot: data for slot, data in now.rows.items() if _is_of_timers(slot)}, now.timers)

    async def copy(self) -> Copy:
        await self.world.settle()
        store = self.world.store
        rows = {
            (space, key): data
            for space in (USER, SYSTEM, PAGES)
            for key, data in await store.scan(LIFE, space, Range())
            if (space, key) != (SYSTEM, "history")
        }
        found = await store.find_timers(Query(cls=LIFE.cls, key=LIFE.key))
        return Copy(rows, {one.name: (one.due_at, one.nominal_at, one.seq, one.payload) for one in found})
