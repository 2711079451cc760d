"""Timers from outside a turn: gathered, sent again when nobody knows, never more than there is room for."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.yardstick import PATIENCE_S
from wakeful.runtime import inserter as inserting
from wakeful.runtime.inserter import Inserter
from wakeful.store.protocol import CANCELLED, Guard, Obstacle, Receipt
from wakeful.values.errors import (
    BadValue,
    DeadlineExceeded,
    NotRunning,
    OutcomeUnknown,
    StoreDown,
    StoreError,
    Unavailable,
)
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

A = ObjectId("Clerk", "a")
DEADLINE = 60_000
GUARD = Guard("record", "ask:")


class Store:
    """Keeps timers by name; the next inserts go wrong as the test says."""

    def __init__(self) -> None:
        self.rows: dict[str, Timer] = {}
        self.calls: list[list[str]] = []
        self.taken: dict[str, int] = {}  # the last number of each who sends
        self.ever: list[str] = []  # what was written, also when it is gone
        self.faults: list[tuple[Exception, bool]] = []  # what goes wrong, and whether after it was written
        self.refuses: set[str] = set()
        self.refusal: Exception = StoreError("not that one")
        self.gate: asyncio.Event | None = None

    async def insert(
        self,
        timers: Sequence[Timer],
        *,
        now: int,
        receipt: Receipt,
        guards: Mapping[int, Guard],
        each: bool,
    ) -> list[Obstacle]:
        self.calls.append([timer.name for timer in timers])
        if self.gate is not None:
            await self.gate.wait()
        if self.refuses & {timer.name for timer in timers}:
            raise self.refusal
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and not fault[1]:
            raise fault[0]
        met = [Obstacle(n, self.rows[one.name]) for n, one in enumerate(timers) if one.name in self.rows]
        if self.taken.get(receipt.id, 0) >= receipt.number:
            met = [one for one in met if each and one.timer not in timers]
        elif not met or each:
            out = {one.index for one in met}
            self.rows |= {one.name: one for n, one in enumerate(timers) if n not in out}
            self.ever += [one.name for n, one in enumerate(timers) if n not in out]
            self.taken[receipt.id] = receipt.number
        if fault is not None:
            raise fault[0]
        return met


class Arrivals:
    def __init__(self) -> None:
        self.here: list[str] = []
        self.expected: set[str] = set()

    def expect(self, timers: Sequence[Timer]) -> int:
        self.expected |= {timer.name for timer in timers}
        return 7

    def on_added(self, timers: Sequence[Timer], mark: int) -> None:
        assert mark == 7
        self.unsure(timers)
        self.here += [timer.name for timer in timers]

    def unsure(self, timers: Sequence[Timer]) -> None:
        self.expected -= {timer.name for timer in timers}


class Clock:
    """Goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 5
        self.handles: list[Handle] = []

    def now(self) -> int:
        return self.time

    async def sleep(self, length_ms: int) -> None:
        self.go_on(length_ms)
        await asyncio.sleep(0)

    def go_on(self, length_ms: int) -> None:
        self.time += length_ms
        for handle in [one for one in self.handles if one.at <= self.time]:
            self.handles.remove(handle)
            handle.call()

    def call_at(self, at: int, call: Callable[[], None]) -> "Handle":
        self.handles.append(Handle(self, at, call))
        return self.handles[-1]


class Handle:
    def __init__(self, clock: Clock, at: int, call: Callable[[], None]) -> None:
        self.clock, self.at, self.call = clock, at, call

    def cancel(self) -> None:
        if self in self.clock.handles:
            self.clock.handles.remove(self)


class Bench:
    def __init__(self) -> None:
        self.store = Store()
        self.arrivals = Arrivals()
        self.down: list[Unavailable] = []
        self.clock = Clock()
        clock: Any = self.clock
        store: Any = self.store
        self.inserter = Inserter(store, clock, random.Random(1), arrivals=self.arrivals, on_down=self.down.append)

    async def add(self, timer: Timer, guard: Guard | None = None) -> Obstacle | None:
        return await self.inserter.add(timer, guard, until=self.clock.now() + DEADLINE)

    async def add_all(self, timers: Sequence[Timer]) -> list[Timer | None]:
        return [one.timer for one in await self.inserter.add_all(timers, until=self.clock.now() + DEADLINE)]

    def raises(self, error: Exception, *, written: bool = False) -> None:
        self.store.faults.append((error, written))


def timer(name: str, seq: int = 1) -> Timer:
    return Timer(A, name, 1, 1, seq)


async def test_those_that_come_while_one_is_under_way_go_together() -> None:
    bench = Bench()
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.add(timer("0")))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(bench.add(timer(str(n)))) for n in range(1, 30)]
    await asyncio.sleep(0)
    bench.store.gate.set()
    await asyncio.gather(*tasks)
    assert [len(call) for call in bench.store.calls] == [1, 29]
    assert (bench.inserter.groups, bench.inserter.timers) == (2, 30)
    assert sorted(bench.arrivals.here, key=int) == [str(n) for n in range(30)]


@pytest.mark.parametrize("written", [True, False])
async def test_an_insert_whose_outcome_is_unknown_is_sent_again_and_is_there_once(written: bool) -> None:
    bench = Bench()
    bench.raises(OutcomeUnknown("cut"), written=written)
    await asyncio.gather(bench.add(timer("a", 1)), bench.add(timer("b", 2)))
    assert set(bench.store.rows) == {"a", "b"}
    assert bench.down == []
    assert bench.arrivals.expected == set()
    assert await bench.add_all([timer("c"), timer("d")]) == []


async def test_one_that_was_written_fired_and_cleared_before_it_is_sent_again_is_not_written_again() -> None:
    for guard in (None, GUARD):
        bench = Bench()
        bench.raises(OutcomeUnknown("cut"), written=True)
        sleep = bench.clock.sleep

        async def meanwhile(length_ms: int, bench: Bench = bench, sleep: Any = sleep) -> None:
            bench.store.rows.clear()  # all of it has run
            await sleep(length_ms)

        bench.clock.sleep = meanwhile  # type: ignore[method-assign]
        await asyncio.gather(bench.add(timer("a", 1), guard), bench.add(timer("b", 2)))
        bench.raises(OutcomeUnknown("cut"), written=True)
        assert await bench.add_all([timer("c"), timer("d")]) == []
        assert (bench.store.ever, bench.store.rows) == (["a", "b", "c", "d"], {})


async def test_one_that_stays_unknown_is_told_so_at_its_deadline_and_the_node_hears() -> None:
    bench = Bench()
    for _ in range(200):
        bench.raises(OutcomeUnknown("cut"))
    with pytest.raises(OutcomeUnknown):
        await bench.add(timer("a"))
    assert bench.clock.now() <= 5 + DEADLINE + 5_000
    assert len(bench.down) == 1


async def test_a_store_that_is_away_is_waited_for_within_the_deadline() -> None:
    bench = Bench()
    for _ in range(5):
        bench.raises(StoreDown("away"))
    assert await bench.add(timer("a")) is None
    for _ in range(5):
        bench.raises(StoreDown("away"))
    assert await bench.add_all([timer("b")]) == []
    assert set(bench.store.rows) == {"a", "b"}
    for way in (bench.add(timer("c")), bench.add_all([timer("d")])):
        for _ in range(200):
            bench.raises(StoreDown("away"))
        with pytest.raises(StoreDown, match="away"):
            await way
        bench.store.faults.clear()


async def test_unknown_and_then_down_is_still_unknown() -> None:
    bench = Bench()
    for way in (bench.add(timer("a")), bench.add_all([timer("b")])):
        bench.raises(OutcomeUnknown("cut"), written=True)
        for _ in range(200):
            bench.raises(StoreDown("away"))
        with pytest.raises(OutcomeUnknown):
            await way
        bench.store.faults.clear()
    bench.raises(RuntimeError("a bug"))
    with pytest.raises(Unavailable, match="RuntimeError: a bug"):
        await bench.add(timer("c"))


async def test_an_answer_that_never_comes_ends_at_the_deadline() -> None:
    bench = Bench()
    bench.store.gate = asyncio.Event()
    first, alone = asyncio.create_task(bench.add(timer("a"))), asyncio.create_task(bench.add_all([timer("b")]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    behind = asyncio.create_task(bench.add(timer("c"), GUARD))
    await asyncio.sleep(0)
    bench.clock.go_on(DEADLINE)
    results = await asyncio.gather(first, alone, behind, return_exceptions=True)
    assert [type(one) for one in results] == [DeadlineExceeded, DeadlineExceeded, StoreDown]
    assert "nothing was written" in str(results[2])
    bench.store.gate.set()
    await bench.add(timer("d"))
    assert "c" not in bench.store.rows  # it was told so


async def test_an_earlier_deadline_than_that_of_one_that_is_done_is_kept() -> None:
    bench = Bench()
    await bench.add(timer("a"))
    bench.clock.time -= DEADLINE  # somebody set the clock back
    bench.store.gate = asyncio.Event()
    late = asyncio.create_task(bench.add(timer("b")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.clock.go_on(DEADLINE)
    await asyncio.sleep(0)
    assert isinstance(late.exception(), DeadlineExceeded)
    assert not bench.clock.handles


async def test_keyed_ones_go_together_and_those_who_want_one_name_hear_of_the_first() -> None:
    bench = Bench()
    await bench.add(timer("there", 7))
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.add(timer("0")))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    names = ["a", "there", "a", "b", "there", "a"]
    tasks += [asyncio.create_task(bench.add(timer(name, n), GUARD)) for n, name in enumerate(names)]
    await asyncio.sleep(0)
    bench.store.gate.set()
    found = await asyncio.gather(*tasks)
    assert bench.store.calls[-1] == ["a", "there", "b"]
    seen = [None if one is None or one.timer is None else one.timer.seq for one in found[1:]]
    assert seen == [None, 7, 0, None, 7, 0]


async def test_a_statement_that_the_server_ends_is_its_callers_and_no_outage() -> None:
    bench = Bench()
    bench.raises(StoreDown("ended by a timeout", code=CANCELLED))
    with pytest.raises(StoreDown, match="ended by a timeout"):
        await bench.add_all([timer("a")])
    assert await bench.add_all([timer("a")]) == []
    assert bench.down == []


async def test_all_or_none_and_the_taken_come_back() -> None:
    bench = Bench()
    assert await bench.add_all([timer("a", 1), timer("b", 2)]) == []
    assert await bench.add_all([timer("b", 9), timer("c", 3)]) == [timer("b", 2)]
    assert set(bench.store.rows) == {"a", "b"}
    assert bench.arrivals.here == ["a", "b"]


async def test_one_that_the_store_refuses_fails_alone() -> None:
    bench = Bench()
    bench.store.refuses = {"bad"}
    results = await asyncio.gather(*(bench.add(timer(name)) for name in ("a", "bad", "b")), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), StoreError, type(None)]
    assert set(bench.store.rows) == {"a", "b"}


async def test_past_the_bound_callers_wait_to_be_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserting, "WAITING_MAX", 5)
    monkeypatch.setattr(inserting, "GROUP_MAX", 3)
    bench = Bench()
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.add(timer(str(n)))) for n in range(40)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(bench.inserter._waiting) <= 5
    bench.store.gate.set()
    await asyncio.gather(*tasks)
    assert len(bench.store.rows) == 40
    assert max(len(call) for call in bench.store.calls) <= 3


async def test_callers_that_have_gone_take_nobodys_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserting, "WAITING_MAX", 2)
    bench = Bench()
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.add(timer(str(n)))) for n in range(20)]
    for _ in range(5):
        await asyncio.sleep(0)
    gone, rest = tasks[4:18], tasks[:4] + tasks[18:]
    for task in gone:
        task.cancel()
    bench.store.gate.set()
    await asyncio.wait_for(asyncio.gather(*rest), PATIENCE_S)


async def test_a_group_carries_no_more_bytes_than_a_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserting, "GROUP_BYTES_MAX", 1_000)
    bench = Bench()
    sizes = [10] * 50 + [400] * 5 + [5_000] * 2
    timers = [Timer(A, str(n), 1, 1, 1, payload=b"x" * size) for n, size in enumerate(sizes)]
    await asyncio.gather(*(bench.add(one) for one in timers))
    assert [len(call) for call in bench.store.calls] == [52, 3, 1, 1]


async def test_one_that_the_store_calls_invalid_is_refused_alone() -> None:
    bench = Bench()
    bench.store.refuses, bench.store.refusal = {"b"}, BadValue("not text")
    results = await asyncio.gather(*(bench.add(timer(name)) for name in "abc"), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), BadValue, type(None)]


async def test_whoever_waits_when_the_node_stops_hears_of_it() -> None:
    bench = Bench()
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.add(timer(str(n)))) for n in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = asyncio.create_task(bench.add(timer("late")))
    await asyncio.sleep(0)
    bench.inserter.stop()
    results = await asyncio.gather(*tasks, late, return_exceptions=True)
    assert {type(result) for result in results} == {NotRunning}
    with pytest.raises(NotRunning):
        await bench.add(timer("after"))


async def test_a_name_that_is_taken_after_all_takes_no_others_of_its_group_with_it() -> None:
    """The group is all or none, and the others were told that they are in."""
    bench = Bench()
    bench.store.rows["a"] = timer("a", 99)
    got = await asyncio.gather(*(bench.add(timer(name, n)) for n, name in enumerate("abc")), return_exceptions=True)
    assert isinstance(got[0], StoreError)
    assert got[1:] == [None, None]
    assert set(bench.store.rows) == {"a", "b", "c"}


async def test_those_who_wait_while_others_go_one_by_one_hear_at_their_deadline() -> None:
    bench = Bench()
    bench.store.refuses, insert = {"a"}, bench.store.insert

    async def hangs(timers: Sequence[Timer], **options: Any) -> list[Obstacle]:
        if len(timers) == 1:
            await asyncio.Event().wait()
        return await insert(timers, **options)

    bench.store.insert = hangs  # type: ignore[method-assign]
    tasks = [asyncio.create_task(bench.add(timer(name, n))) for n, name in enumerate("abc")]
    for _ in range(20):
        await asyncio.sleep(0)
    bench.clock.go_on(DEADLINE + 1)
    got = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE_S)
    assert [type(one) for one in got] == [DeadlineExceeded] * 3
    bench.inserter.stop()


async def test_many_of_a_node_that_has_stopped_are_not_sent_and_not_sent_again() -> None:
    bench = Bench()
    bench.store.gate = asyncio.Event()
    task = asyncio.create_task(bench.add_all([timer("a")]))
    for _ in range(5):
        await asyncio.sleep(0)
    bench.inserter.stop()
    bench.raises(StoreDown("closed"))
    bench.store.gate.set()
    with pytest.raises(StoreDown):
        await task
    with pytest.raises(NotRunning):
        await bench.add_all([timer("b")])
    assert (bench.store.calls, bench.store.rows) == ([["a"]], {})


async def test_one_that_slipped_in_and_has_run_since_is_in() -> None:
    """Else those that went in with it, of a `schedule_many`, were sent again, and ran twice."""
    from wakeful.store.postgres.inserter import InsertLine as PostgresInserter
    from wakeful.store.postgres.inserter import PendingInsert
    from wakeful.values.commits import Remembered

    nothing: Any = None
    inserter = PostgresInserter(nothing, nothing)
    own_record = Obstacle(0, answer=Remembered("record", b"", b"", 9))

    async def obstacles(*_: object) -> list[Obstacle]:
        return [own_record]

    inserter._obstacles = obstacles  # type: ignore[method-assign]
    rows: Any = [{"place": 0, "slipped": True, "first": True}]
    wanted = PendingInsert([timer("a"), timer("b", 2)], 1, Receipt("r", 1, 9), {0: GUARD}, False)
    [met] = await inserter._obstacles_met(nothing, wanted, rows)
    assert (met.is_in, met.answer) == (True, own_record.answer)
