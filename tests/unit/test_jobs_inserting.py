"""Timers from outside a turn: gathered, sent again when nobody knows, never more than there is room for."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from wakeful.runtime import inserter as inserting
from wakeful.runtime.inserter import Inserter
from wakeful.store.protocol import CANCELLED
from wakeful.values.errors import BadValue, NotRunning, OutcomeUnknown, StoreDown, StoreError, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer
from yardstick import PATIENCE_S

A = ObjectId("Clerk", "a")


class Store:
    """Keeps timers by name; the next inserts go wrong as the test says."""

    def __init__(self) -> None:
        self.rows: dict[str, Timer] = {}
        self.calls: list[list[str]] = []
        self.faults: list[Callable[[Sequence[Timer]], None]] = []
        self.refuses: set[str] = set()
        self.refusal: Exception = StoreError("not that one")
        self.gate: asyncio.Event | None = None

    async def insert(self, timers: Sequence[Timer], *, now: int) -> list[Timer]:
        self.calls.append([timer.name for timer in timers])
        if self.gate is not None:
            await self.gate.wait()
        if self.refuses & {timer.name for timer in timers}:
            raise self.refusal
        if self.faults:
            self.faults.pop(0)(timers)
        taken = [self.rows[timer.name] for timer in timers if timer.name in self.rows]
        if not taken:
            self.rows |= {timer.name: timer for timer in timers}
        return taken


class Arrivals:
    def __init__(self) -> None:
        self.here: list[str] = []
        self.expected: set[str] = set()

    def expect(self, timers: Sequence[Timer]) -> int:
        self.expected |= {timer.name for timer in timers}
        return 7

    def added(self, timers: Sequence[Timer], mark: int) -> None:
        assert mark == 7
        self.unsure(timers)
        self.here += [timer.name for timer in timers]

    def unsure(self, timers: Sequence[Timer]) -> None:
        self.expected -= {timer.name for timer in timers}


class Clock:
    def now(self) -> int:
        return 5

    async def sleep(self, length_ms: int) -> None:
        await asyncio.sleep(0)


class Bench:
    def __init__(self) -> None:
        self.store = Store()
        self.arrivals = Arrivals()
        self.down: list[Unavailable] = []
        clock: Any = Clock()
        store: Any = self.store
        self.inserter = Inserter(store, clock, random.Random(1), arrivals=self.arrivals, on_down=self.down.append)

    def raises(self, error: Exception, *, written: bool = False) -> None:
        def fault(timers: Sequence[Timer]) -> None:
            if written:
                self.store.rows |= {timer.name: timer for timer in timers}
            raise error

        self.store.faults.append(fault)


def timer(name: str, seq: int = 1) -> Timer:
    return Timer(A, name, 1, 1, seq)


async def test_those_that_come_while_one_is_under_way_go_together() -> None:
    bench = Bench()
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.inserter.add(timer("0")))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(bench.inserter.add(timer(str(n)))) for n in range(1, 30)]
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
    await asyncio.gather(bench.inserter.add(timer("a", 1)), bench.inserter.add(timer("b", 2)))
    assert set(bench.store.rows) == {"a", "b"}
    assert bench.down == []
    assert bench.arrivals.expected == set()
    assert await bench.inserter.add_all([timer("c"), timer("d")]) == []


async def test_one_that_stays_unknown_is_told_so_and_the_node_hears() -> None:
    bench = Bench()
    for _ in range(inserting.TRIES_MAX):
        bench.raises(OutcomeUnknown("cut"))
    with pytest.raises(OutcomeUnknown):
        await bench.inserter.add(timer("a"))
    assert len(bench.down) == 1


async def test_unknown_and_then_down_is_still_unknown() -> None:
    bench = Bench()
    bench.raises(OutcomeUnknown("cut"), written=True)
    bench.raises(StoreDown("away"))
    with pytest.raises(OutcomeUnknown):
        await bench.inserter.add_all([timer("a")])
    bench.raises(StoreDown("away"))
    with pytest.raises(StoreDown):
        await bench.inserter.add_all([timer("b")])
    bench.raises(RuntimeError("a bug"))
    with pytest.raises(Unavailable, match="RuntimeError: a bug"):
        await bench.inserter.add(timer("c"))
    assert len(bench.down) == 3


async def test_a_statement_that_the_server_ends_is_its_callers_and_no_outage() -> None:
    bench = Bench()
    bench.raises(StoreDown("ended by a timeout", code=CANCELLED))
    with pytest.raises(StoreDown, match="ended by a timeout"):
        await bench.inserter.add_all([timer("a")])
    assert await bench.inserter.add_all([timer("a")]) == []
    assert bench.down == []


async def test_all_or_none_and_the_taken_come_back() -> None:
    bench = Bench()
    assert await bench.inserter.add_all([timer("a", 1), timer("b", 2)]) == []
    assert await bench.inserter.add_all([timer("b", 9), timer("c", 3)]) == [timer("b", 2)]
    assert set(bench.store.rows) == {"a", "b"}
    assert bench.arrivals.here == ["a", "b"]


async def test_one_that_the_store_refuses_fails_alone() -> None:
    bench = Bench()
    bench.store.refuses = {"bad"}
    results = await asyncio.gather(
        *(bench.inserter.add(timer(name)) for name in ("a", "bad", "b")), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), StoreError, type(None)]
    assert set(bench.store.rows) == {"a", "b"}


async def test_past_the_bound_callers_wait_to_be_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserting, "WAITING_MAX", 5)
    monkeypatch.setattr(inserting, "GROUP_MAX", 3)
    bench = Bench()
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.inserter.add(timer(str(n)))) for n in range(40)]
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
    tasks = [asyncio.create_task(bench.inserter.add(timer(str(n)))) for n in range(20)]
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
    await asyncio.gather(*(bench.inserter.add(one) for one in timers))
    assert [len(call) for call in bench.store.calls] == [52, 3, 1, 1]


async def test_one_that_the_store_calls_invalid_is_refused_alone() -> None:
    bench = Bench()
    bench.store.refuses, bench.store.refusal = {"b"}, BadValue("not text")
    results = await asyncio.gather(*(bench.inserter.add(timer(name)) for name in "abc"), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), BadValue, type(None)]


async def test_whoever_waits_when_the_node_stops_hears_of_it() -> None:
    bench = Bench()
    bench.store.gate = asyncio.Event()
    tasks = [asyncio.create_task(bench.inserter.add(timer(str(n)))) for n in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = asyncio.create_task(bench.inserter.add(timer("late")))
    await asyncio.sleep(0)
    bench.inserter.stop()
    results = await asyncio.gather(*tasks, late, return_exceptions=True)
    assert {type(result) for result in results} == {NotRunning}
    with pytest.raises(NotRunning):
        await bench.inserter.add(timer("after"))
