"""Turns: one at a time, all or nothing, durable before anyone hears of them; on every store."""

import asyncio
import contextlib
import contextvars
import logging
import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from wakeful import AlarmInfo, Context, DurableObject, Fenced, Limits, Unavailable, reader
from wakeful.runtime.registry import Registry
from wakeful.runtime.turn import CURRENT
from wakeful.store.protocol import Query
from wakeful.values.errors import (
    BadOption,
    BadValue,
    Conflict,
    DeadlineExceeded,
    KeyTaken,
    NotRunning,
    OutcomeUnknown,
    ReadOnly,
    Reentrancy,
    StoreDown,
    TurnFailed,
    TurnOver,
    UnknownClass,
)
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.runs import run_id
from wakeful.values.timers import Timer
from wakeful.values.times import from_datetime

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Expected(Exception):
    pass


class Gate:
    """Holds commits back until it is opened, at the latest at the end of its block."""

    def __init__(self, world: Any) -> None:
        self._store = world.node.store
        self._real = self._store.commit
        self._open = asyncio.Event()
        self.groups: list[int] = []
        self._store.commit = self._commit

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *exc: object) -> None:
        self.open()

    def open(self) -> None:
        self._open.set()
        self._store.commit = self._real

    async def _commit(self, node: str, commits: Any) -> Any:
        self.groups.append(len(commits))
        await self._open.wait()
        return await self._real(node, commits)


def put(key: str, value: Any) -> Any:
    async def body(self: Any) -> Any:
        await self.storage.put(key, value)
        return value

    return body


def get(key: str) -> Any:
    async def body(self: Any) -> Any:
        return await self.storage.get(key)

    return body


async def add_one(self: Any) -> int:
    count: int = await self.storage.get("count", 0) + 1
    await self.storage.put("count", count)
    return count


def sleep(seconds: float) -> Any:
    async def body(self: Any) -> str:
        await asyncio.sleep(seconds)
        return "slept"

    return body


# One at a time, all or nothing


async def test_turns_of_one_object_run_one_at_a_time_in_order(stage: Any) -> None:
    async with stage.world() as world:
        running: list[int] = []
        most = 0

        def turn(n: int) -> Any:
            async def body(self: Any) -> int:
                nonlocal most
                running.append(n)
                most = max(most, len(running))
                count = await self.storage.get("count", 0)
                await asyncio.sleep(1)
                await self.storage.put("count", count + 1)
                running.remove(n)
                return count

            return body

        assert await asyncio.gather(*(stage.do(turn(n)) for n in range(20))) == list(range(20))
        assert most == 1
        assert await world.rows(stage.Bell, "a") == {"count": 20}


async def test_turns_of_different_objects_run_beside_each_other(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        await asyncio.gather(*(stage.do(sleep(10), f"k{n}") for n in range(10)))
        assert world.now() == start + 10 * SECOND


async def test_a_turn_reads_its_own_writes_over_the_committed_rows(stage: Any) -> None:
    async with stage.world():
        await stage.do(put("x", 1))

        async def body(self: Any) -> list[Any]:
            seen = [await self.storage.get("x")]
            await self.storage.put("x", 2)
            seen.append(await self.storage.get("x"))
            await self.storage.delete("x")
            seen.append(await self.storage.get("x", "gone"))
            await self.storage.put("x", 3)
            seen.append((await self.storage.get_many(["x"]))["x"])
            return seen

        assert await stage.do(body) == [1, 2, "gone", 3]


async def test_a_raise_discards_every_write_and_the_caller_gets_the_typed_error_with_its_traceback(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        before = await world.info(stage.Bell, "a")

        async def body(self: Any) -> None:
            await self.storage.put("x", 2)
            await self.storage.delete_all()
            await self.storage.put("y", 2)
            raise Expected("of its own", 7)

        with pytest.raises(Expected) as caught:
            await stage.do(body)
        assert caught.value.args == ("of its own", 7)
        text = "".join(traceback.format_exception(caught.value))
        assert "of its own" in text
        assert "test_turns.py" in text
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        assert await world.info(stage.Bell, "a") == before
        assert await stage.do(get("x")) == 1
        assert await stage.do(get("y")) is None


async def test_an_error_of_a_waiting_turn_reaches_its_own_caller_only(stage: Any) -> None:
    async with stage.world() as world:

        async def fail(self: Any) -> None:
            await self.storage.put("bad", 1)
            raise Expected

        results = await asyncio.gather(
            stage.do(sleep(1)), stage.do(add_one), stage.do(fail), stage.do(add_one), return_exceptions=True
        )
        assert results[0:2] == ["slept", 1]
        assert isinstance(results[2], Expected)
        assert results[3] == 2
        assert await world.rows(stage.Bell, "a") == {"count": 2}


async def test_even_a_base_exception_reaches_the_caller_and_undoes_the_turn(stage: Any) -> None:
    class Abort(BaseException):
        pass

    async with stage.world() as world:

        async def fail(self: Any) -> None:
            await self.storage.put("bad", 1)
            raise Abort

        with pytest.raises(Abort):
            await stage.do(fail)
        waiting = asyncio.create_task(stage.do(sleep(1)))
        await asyncio.sleep(0)
        start = world.now()
        with pytest.raises(Abort):
            await stage.do(fail)
        await waiting
        assert world.now() == start + SECOND
        assert await stage.do(add_one) == 1
        assert await world.rows(stage.Bell, "a") == {"count": 1}


async def test_a_handler_that_raises_a_base_exception_has_failed(stage: Any) -> None:
    class Abort(BaseException):
        pass

    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            if not info.is_retry:
                raise Abort

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0, 1]


async def test_a_turn_cancelled_by_its_own_code_is_a_typed_error(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.put("x", 1)
            raise asyncio.CancelledError

        with pytest.raises(TurnFailed, match="cancelled by its own code"):
            await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}


async def test_a_handler_cancelled_by_its_own_code_has_failed(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            if not info.is_retry:
                raise asyncio.CancelledError

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0, 1]


async def test_a_background_task_can_not_write_after_its_turn_but_may_call_the_object(stage: Any) -> None:
    async with stage.world() as world:
        outcome: list[Any] = []

        async def later(self: Any) -> None:
            await asyncio.sleep(1)
            try:
                await self.storage.put("late", 1)
            except TurnOver as error:
                outcome.append(error)
            outcome.append(await stage.do(add_one))

        tasks: list[asyncio.Task[None]] = []

        async def body(self: Any) -> None:
            tasks.append(asyncio.create_task(later(self)))

        await stage.do(body)
        await tasks[0]
        assert isinstance(outcome[0], TurnOver)
        assert "call the object again" in str(outcome[0])
        assert outcome[1] == 1
        assert await world.rows(stage.Bell, "a") == {"count": 1}


# Durable points


async def test_ctx_commit_is_a_durable_point_and_a_later_raise_undoes_only_what_came_after(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.put("before", 1)
            await self.storage.set_alarm(MINUTE)
            await self.ctx.commit()
            assert await world.rows(stage.Bell, "a") == {"before": 1}
            assert len(await world.due()) == 1
            await self.storage.put("after", 1)
            await self.storage.delete("before")
            await self.storage.delete_alarm()
            raise Expected

        with pytest.raises(Expected):
            await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {"before": 1}
        assert await stage.do(get("after")) is None
        assert await stage.do(get("before")) == 1
        assert await stage.get_alarm() is not None


async def test_ctx_commit_survives_a_crash_in_the_rest_of_the_turn(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.put("before", 1)
            await self.ctx.commit()
            await self.storage.put("after", 1)
            await asyncio.sleep(30)

        task = asyncio.create_task(stage.do(body))
        await world.advance(seconds=5)
        await world.crash()
        with pytest.raises(NotRunning):
            await task
        await world.restart()
        assert await world.rows(stage.Bell, "a") == {"before": 1}


async def test_ctx_commit_with_nothing_written_waits_for_what_came_before(stage: Any) -> None:
    async with stage.world() as world:
        groups = world.faults.groups

        async def body(self: Any) -> None:
            await self.ctx.commit()
            await self.ctx.commit()

        await stage.do(body)
        assert world.faults.groups == groups


async def test_ctx_commit_inside_a_transaction_is_an_error(stage: Any) -> None:
    async with stage.world():

        async def body(self: Any) -> None:
            async with self.storage.transaction():
                await self.ctx.commit()

        with pytest.raises(BadOption, match="commit after it"):
            await stage.do(body)


async def test_the_alarm_slot_is_unchanged_until_the_end_of_an_alarm_turn(stage: Any) -> None:
    async with stage.world() as world:
        seqs: list[int] = []

        async def handler(self: Any, info: AlarmInfo) -> None:
            await self.storage.put("runs", len(stage.fired))
            await self.storage.set_alarm(timedelta(minutes=10))
            await self.ctx.commit()
            [timer] = await world.due()
            seqs.append(timer.seq)
            assert timer.nominal_at == from_datetime(info.scheduled_at)
            if len(stage.fired) == 1:
                await asyncio.sleep(30)
            if len(stage.fired) == 2:
                raise Expected

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=5)
        await world.crash()
        await world.restart()  # the second run, at once
        assert await world.rows(stage.Bell, "a") == {"runs": 2}
        await world.advance(seconds=10)  # the third, a retry after the raise
        assert [info.retry_count for info in stage.infos()] == [0, 0, 1]
        assert len(set(seqs)) == 1
        assert await world.rows(stage.Bell, "a") == {"runs": 3}
        assert await stage.get_alarm() == stage.times()[2] + timedelta(minutes=10)


async def test_other_timers_of_an_alarm_turn_commit_at_its_durable_point(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            if info.is_retry:
                return
            turn = CURRENT.get()
            assert turn is not None
            node = turn.activation.node
            at = from_datetime(world.now() + timedelta(hours=1))
            turn.set_timer(Timer(turn.activation.id, "job:x", at, at, node.next_seq(turn.activation.shard)))
            await self.ctx.commit()
            raise Expected

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert [timer.name for timer in await world.due()] == ["job:x"]


# Readers


async def test_readers_run_beside_each_other_and_beside_a_waiting_turn(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        start = world.now()

        async def slow_write(self: Any) -> None:
            await self.storage.put("x", 2)
            await asyncio.sleep(30)

        async def slow_read(self: Any) -> Any:
            await asyncio.sleep(5)
            return await self.storage.get("x")

        turn = asyncio.create_task(stage.do(slow_write))
        await asyncio.sleep(1)
        assert await asyncio.gather(*(stage.peek(slow_read) for _ in range(5))) == [1] * 5
        assert world.now() == start + 6 * SECOND
        await turn
        assert await stage.peek(get("x")) == 2


async def test_a_reader_never_sees_writes_that_are_undone(stage: Any) -> None:
    async with stage.world():
        await stage.do(put("x", 1))
        seen: list[Any] = []

        async def fails(self: Any) -> None:
            await self.storage.put("x", 2)
            seen.append(await stage.peek(get("x")))
            raise Expected

        with pytest.raises(Expected):
            await stage.do(fails)
        seen.append(await stage.peek(get("x")))
        assert seen == [1, 1]


async def test_a_reader_sees_what_a_turn_made_durable_midway(stage: Any) -> None:
    async with stage.world():
        seen: list[Any] = []

        async def body(self: Any) -> None:
            await self.storage.put("x", 1)
            await self.ctx.commit()
            await self.storage.put("x", 2)
            seen.append(await stage.peek(get("x")))

        await stage.do(body)
        assert seen == [1]


@pytest.mark.parametrize("raises", [False, True])
async def test_a_readers_answer_waits_for_the_writes_it_rests_on(stage: Any, raises: bool) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        with Gate(world) as gate:

            async def look(self: Any) -> Any:
                found = await self.storage.get("x")
                if raises and found == 2:
                    raise Expected("it is two")
                return found

            write = asyncio.create_task(stage.do(put("x", 2)))
            await world.settle()
            read = asyncio.create_task(stage.peek(look))
            await world.settle()
            assert not write.done()
            assert not read.done()
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(write, read, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown, StoreDown]
            await world.advance(seconds=10)
            assert await stage.peek(get("x")) == 1


async def test_a_readers_listing_is_of_one_moment_though_turns_end_while_it_is_read(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("zero", 0))
        store = world.node.store
        real = store.scan

        async def listing(self: Any) -> Any:
            return await self.storage.list()

        async def put_both(self: Any) -> None:
            await self.storage.put_many({"a": 2, "b": 2})

        with Gate(world) as gate:
            first = asyncio.create_task(stage.do(put("a", 1)))
            await world.settle()

            async def slow_scan(*args: Any) -> Any:
                store.scan = real
                gate.open()
                await first
                # In a context of its own: it is not the reader that calls.
                await asyncio.create_task(stage.do(put_both), context=contextvars.Context())
                return await real(*args)

            store.scan = slow_scan
            found = await stage.peek(listing)
        assert found in ({"a": 1, "zero": 0}, {"a": 2, "b": 2, "zero": 0})


async def test_a_reader_in_a_reader_can_not_write_through_a_call(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.put("x", 1)

        with pytest.raises(ReadOnly):
            await stage.peek(body)
        assert await world.rows(stage.Bell, "a") == {}


# self.state


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)
    total: int = 0


class Tally(msgspec.Struct):
    counts: dict[str, int] = {}
    note: str = "new"


class Shop(DurableObject):
    state: Basket

    async def add(self, item: str, *, fail: bool = False, hold: float = 0) -> int:
        self.state.items.append(item)
        self.state.total += 1
        if hold:
            await asyncio.sleep(hold)
        if fail:
            raise Expected
        return self.state.total

    async def replace(self, items: list[str]) -> None:
        self.state = Basket(items, len(items))

    async def wrong(self) -> None:
        self.state = Tally()  # type: ignore[assignment]

    async def unencodable(self) -> None:
        self.state.items.append(object())  # type: ignore[arg-type]

    async def savepoint(self, *, touch_first: bool) -> list[str]:
        if touch_first:
            self.state.items.append("kept")
        try:
            async with self.storage.transaction():
                self.state.items.append("dropped")
                self.state.total = 99
                raise Expected
        except Expected:
            pass
        return self.state.items

    async def halfway(self) -> None:
        self.state.items.append("durable")
        await self.ctx.commit()
        self.state.items.append("undone")
        raise Expected

    async def untouched(self) -> None:
        await self.storage.put("x", 1)

    @reader
    async def look(self) -> Basket:
        return self.state

    @reader
    async def scribble(self) -> int:
        self.state.items.append("never")
        return len(self.state.items)

    @reader
    async def assign(self) -> None:
        self.state = Basket(["never"])


class Counter(DurableObject):
    state: Tally

    async def count(self, name: str) -> int:
        self.state.counts[name] = self.state.counts.get(name, 0) + 1
        return self.state.counts[name]

    @reader
    async def look(self) -> Tally:
        return self.state


async def test_state_is_a_typed_value_that_is_saved_with_the_turn_that_changed_it(stage: Any) -> None:
    stage.app.object(Shop)
    stage.app.object(Counter)
    async with stage.world() as world:
        shop, counter = world.get(Shop, "s"), world.get(Counter, "c")
        assert await shop.look() == Basket()
        assert await shop.add("tea") == 1
        assert await counter.count("x") == 1
        await world.sleep_all()
        assert await shop.look() == Basket(["tea"], 1)
        assert await counter.look() == Tally({"x": 1}, "new")
        await world.crash()
        await world.restart()
        assert await shop.add("milk") == 2
        assert await counter.count("x") == 2
        await shop.replace(["only"])
        await world.crash()
        await world.restart()
        assert await shop.look() == Basket(["only"], 1)
        assert await world.rows(Shop, "s") == {}


async def test_state_rolls_back_with_its_turn(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.add("tea")
        with pytest.raises(Expected):
            await shop.add("bad", fail=True)
        assert await shop.look() == Basket(["tea"], 1)
        with pytest.raises(Expected):
            await shop.halfway()
        assert (await shop.look()).items == ["tea", "durable"]
        assert await shop.add("milk") == 2
        await world.sleep_all()
        assert (await shop.look()).items == ["tea", "durable", "milk"]


@pytest.mark.parametrize("touch_first", [False, True])
async def test_state_rolls_back_to_its_savepoint(stage: Any, touch_first: bool) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.add("tea")
        expected = ["tea", "kept"] if touch_first else ["tea"]
        assert await shop.savepoint(touch_first=touch_first) == expected
        assert await shop.look() == Basket(expected, 1)
        await world.sleep_all()
        assert await shop.look() == Basket(expected, 1)


async def test_state_touched_only_in_a_transaction_that_raised_is_left_alone(stage: Any) -> None:
    stage.app.object(Shop)

    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.add("tea")

        async def body(self: Any) -> None:
            try:
                async with self.storage.transaction():
                    self.state.items.append("dropped")
                    raise Expected
            except Expected:
                pass

        Shop.quiet = lambda self: body(self)  # type: ignore[attr-defined]
        original = Shop.untouched
        Shop.untouched = body  # type: ignore[method-assign]
        try:
            await shop.untouched()
        finally:
            Shop.untouched = original  # type: ignore[method-assign]
            del Shop.quiet  # type: ignore[attr-defined]
        await world.sleep_all()
        assert await shop.look() == Basket(["tea"], 1)


async def test_a_reader_gets_a_copy_of_the_state(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world():
        shop = stage.app.get(Shop, "s")
        await shop.add("tea")
        assert await shop.scribble() == 2
        assert await shop.look() == Basket(["tea"], 1)
        with pytest.raises(ReadOnly):
            await shop.assign()
        turn = asyncio.create_task(shop.add("milk", hold=10, fail=True))
        await asyncio.sleep(1)
        assert await shop.look() == Basket(["tea"], 1)
        with pytest.raises(Expected):
            await turn
        assert await shop.look() == Basket(["tea"], 1)


async def test_state_that_was_not_changed_is_not_written(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        shop = world.get(Shop, "s")
        await shop.look()
        await shop.untouched()
        info = await world.info(Shop, "s")
        assert info is not None
        assert info.rows == 1


async def test_a_state_of_the_wrong_type_or_unencodable_is_an_error(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world():
        shop = stage.app.get(Shop, "s")
        with pytest.raises(BadValue, match="state must be a Basket, not Tally"):
            await shop.wrong()
        with pytest.raises(BadValue, match=r"Shop/s: state: .*items.*\[0\]"):
            await shop.unencodable()
        assert await shop.look() == Basket()

        async def body(self: Any) -> Any:
            return self.state

        with pytest.raises(BadOption, match="declares no state"):
            await stage.do(body)


@dataclass
class NewBasket:
    items: list[str] = field(default_factory=list)
    currency: str = "EUR"
    paid: bool = False


class NewShop(DurableObject):
    state: NewBasket

    @reader
    async def look(self) -> NewBasket:
        return self.state

    async def pay(self) -> None:
        self.state.paid = True


async def test_state_survives_a_class_whose_fields_changed(stage: Any) -> None:
    stage.app.object(Shop)
    async with stage.world() as world:
        await world.get(Shop, "s").add("tea")
        await world.crash()
        stage.app.registry = Registry()
        stage.app.object(NewShop, name="Shop")
        await world.restart()
        shop = world.get(NewShop, "s")
        assert await shop.look() == NewBasket(["tea"], "EUR", False)
        await shop.pay()
        await world.sleep_all()
        assert await shop.look() == NewBasket(["tea"], "EUR", True)


# Deadlines and cancellation


async def test_a_running_turn_past_its_deadline_is_cancelled_and_rolled_back(stage: Any) -> None:
    async with stage.world() as world:
        cleaned: list[str] = []
        start = world.now()

        async def slow(self: Any) -> None:
            await self.storage.put("x", 1)
            try:
                await asyncio.sleep(100)
            finally:
                cleaned.append("yes")

        with pytest.raises(DeadlineExceeded, match=r"Bell/a\.do did not finish within its deadline"):
            await stage.do(slow, deadline="5s")
        assert world.now() == start + 5 * SECOND
        assert cleaned == ["yes"]
        assert await world.rows(stage.Bell, "a") == {}
        assert await stage.do(add_one) == 1


async def test_the_default_deadline_is_a_named_limit(stage: Any) -> None:
    async with stage.world(limits=Limits(call_deadline_ms=7_000)) as world:
        start = world.now()
        with pytest.raises(DeadlineExceeded):
            await stage.do(sleep(100))
        assert world.now() == start + 7 * SECOND


async def test_a_turn_that_swallows_its_cancellation_is_still_rolled_back(stage: Any) -> None:
    async with stage.world() as world:

        async def stubborn(self: Any) -> str:
            await self.storage.put("x", 1)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100)
            return "done anyway"

        with pytest.raises(DeadlineExceeded):
            await stage.do(stubborn, deadline="5s")
        blocker = asyncio.create_task(stage.do(sleep(1)))
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceeded):
            await stage.do(stubborn, deadline="5s")
        await blocker
        assert await stage.do(add_one) == 1
        assert await world.rows(stage.Bell, "a") == {"count": 1}
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_queued_call_past_its_deadline_never_runs(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        first = asyncio.create_task(stage.do(sleep(30)))
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceeded):
            await stage.do(add_one, deadline="5s")
        assert world.now() == start + 5 * SECOND
        assert await first == "slept"
        await world.settle()
        assert await world.rows(stage.Bell, "a") == {}


async def test_a_reader_past_its_deadline_is_cancelled(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        start = world.now()
        with pytest.raises(DeadlineExceeded):
            await stage.peek(sleep(100), deadline="5s")
        assert world.now() == start + 5 * SECOND


async def test_a_nested_call_inherits_what_is_left_of_the_deadline(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        seen: list[str] = []

        async def inner(self: Any) -> None:
            await self.storage.put("x", 1)
            try:
                await asyncio.sleep(100)
            finally:
                seen.append(f"inner ended at {(self.ctx.now() - start).seconds}")

        async def outer(self: Any) -> None:
            await asyncio.sleep(3)
            try:
                await self.ctx.get(stage.Bell, "b", deadline="1h").do(stage.act(inner))
            except DeadlineExceeded:
                await asyncio.sleep(1_000)  # swallowing it must not give it more time
                seen.append("outer went on")

        with pytest.raises(DeadlineExceeded, match="Bell/a"):
            await stage.do(outer, deadline="10s")
        assert seen == ["inner ended at 10"]
        assert world.now() == start + 10 * SECOND
        assert await world.rows(stage.Bell, "b") == {}
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_shorter_deadline_of_a_nested_call_is_its_own(stage: Any) -> None:
    async with stage.world() as world:

        async def outer(self: Any) -> str:
            with pytest.raises(DeadlineExceeded, match="Bell/b"):
                await self.ctx.get(stage.Bell, "b", deadline="2s").do(stage.act(sleep(100)))
            await self.storage.put("x", 1)
            return "went on"

        assert await stage.do(outer, deadline="10s") == "went on"
        assert await world.rows(stage.Bell, "a") == {"x": 1}


async def test_an_alarm_that_runs_longer_than_fifteen_minutes_has_failed(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def handler(self: Any, info: AlarmInfo) -> None:
            await self.storage.put("attempt", info.retry_count)
            if not info.is_retry:
                await asyncio.sleep(3_600)

        stage.handlers["a"] = handler
        await stage.set_alarm(start + SECOND)
        await world.advance(minutes=16)
        assert [info.retry_count for info in stage.infos()] == [0, 1]
        assert 2 * SECOND <= stage.times()[1] - start - SECOND - timedelta(minutes=15) <= 2.5 * SECOND
        first, second = await world.ledger(stage.Bell, "a")
        assert (first.verdict, second.verdict) == ("failed", "run")
        assert "ran longer than 900000 ms" in (first.error or "")
        assert await world.rows(stage.Bell, "a") == {"attempt": 1}


async def test_a_commit_that_is_late_for_the_deadline_is_told_as_unknown(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:
            first = asyncio.create_task(stage.do(add_one, deadline="5s"))
            await asyncio.sleep(0)
            second = asyncio.create_task(
                stage.do(add_one, deadline="5s")
            )  # one in its caller's task, one from the mailbox
            results = await asyncio.gather(first, second, return_exceptions=True)
            assert [type(result) for result in results] == [DeadlineExceeded, DeadlineExceeded]
            assert all("unknown" in str(result) for result in results), results
            assert not any("undone" in str(result) for result in results)
            gate.open()
            await world.settle()
            assert await stage.do(add_one) == 4


async def test_cancelling_a_caller_cancels_its_turn(stage: Any) -> None:
    async with stage.world() as world:
        ended: list[str] = []

        def slow(name: str) -> Any:
            async def body(self: Any) -> None:
                await self.storage.put(name, 1)
                try:
                    await asyncio.sleep(50)
                finally:
                    ended.append(name)

            return body

        first = asyncio.create_task(stage.do(slow("first")))  # runs in its caller's task
        second = asyncio.create_task(stage.do(slow("second")))  # waits, then runs in the object's
        third = asyncio.create_task(stage.do(slow("third")))  # cancelled while it waits
        last = asyncio.create_task(stage.do(add_one))
        await world.advance(seconds=1)
        third.cancel()
        first.cancel()
        await world.advance(seconds=1)
        assert ended == ["first"]
        second.cancel()
        assert await last == 1
        results = await asyncio.gather(first, second, third, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert ended == ["first", "second"]
        assert await world.rows(stage.Bell, "a") == {"count": 1}


async def test_cancelling_a_caller_cancels_the_turns_its_turn_waits_for(stage: Any) -> None:
    async with stage.world() as world:

        async def inner(self: Any) -> None:
            await self.storage.put("x", 1)
            await asyncio.sleep(50)

        async def outer(self: Any) -> None:
            await self.storage.put("x", 1)
            await self.ctx.get(stage.Bell, "b").do(stage.act(inner))

        task = asyncio.create_task(stage.do(outer))
        await world.advance(seconds=1)
        task.cancel()
        await world.settle()
        assert task.cancelled()
        assert not any(activation.is_busy for activation in world.node.awake.values())
        assert await world.rows(stage.Bell, "a") == await world.rows(stage.Bell, "b") == {}


# Cycles


def ask(stage: Any, *rest: tuple[str, str]) -> Any:
    """A turn that calls the next of a chain of objects: (method, key)."""

    async def body(self: Any) -> Any:
        if not rest:
            return self.ctx.key
        (method, key), *more = rest
        name = stage.act(ask(stage, *more))
        return await getattr(self.ctx.get(stage.Bell, key), method)(name)

    return body


async def test_an_object_that_calls_itself_raises_reentrancy_at_once(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        with pytest.raises(Reentrancy, match="Bell/a → Bell/a"):
            await stage.do(ask(stage, ("do", "a")))
        assert world.now() == start


async def test_a_cycle_of_calls_raises_reentrancy_with_the_chain_at_once(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        with pytest.raises(Reentrancy, match="Bell/a → Bell/b → Bell/c → Bell/a"):
            await stage.do(ask(stage, ("do", "b"), ("do", "c"), ("do", "a")))
        with pytest.raises(Reentrancy, match="Bell/a → Bell/b → Bell/b"):
            await stage.do(ask(stage, ("do", "b"), ("do", "b")))
        assert world.now() == start
        assert await stage.do(add_one) == 1


async def test_a_chain_without_a_cycle_is_no_reentrancy(stage: Any) -> None:
    async with stage.world():
        assert await stage.do(ask(stage, ("do", "b"), ("do", "c"), ("do", "d"))) == "d"

        async def twice(self: Any) -> list[Any]:
            other = self.ctx.get(stage.Bell, "b")
            return [await other.do(stage.act(add_one)), await other.do(stage.act(add_one))]

        assert await stage.do(twice) == [1, 2]


async def test_readers_in_a_cycle_are_fine(stage: Any) -> None:
    async with stage.world():
        assert await stage.do(ask(stage, ("peek", "a"))) == "a"
        assert await stage.do(ask(stage, ("do", "b"), ("peek", "a"))) == "a"
        assert await stage.peek(ask(stage, ("peek", "b"), ("peek", "a"))) == "a"


async def test_on_wake_that_waits_for_its_own_object_raises_reentrancy_at_once(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def wake(self: Any) -> None:
            if self.ctx.key == "a":
                await self.ctx.get(stage.Bell, "b").do(stage.act(ask(stage, ("peek", "a"))))

        stage.on_wake = wake
        with pytest.raises(Reentrancy, match="Bell/a → Bell/b → Bell/a"):
            await stage.do(add_one)
        assert world.now() == start


async def test_an_alarm_handler_in_a_cycle_has_failed(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            if not info.is_retry:
                await ask(stage, ("do", "b"), ("do", "a"))(self)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        first, second = await world.ledger(stage.Bell, "a")
        assert "Bell/a → Bell/b → Bell/a" in (first.error or "")
        assert second.verdict == "run"


# Request keys


async def test_a_repeat_with_the_same_request_key_does_not_run_again(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(add_one)

        def call(key: str = "r1", object: str = "a") -> Any:
            return stage.app.get(stage.Bell, object, request_key=key).do(name)

        assert [await call(), await call(), await call("r2"), await call(), await call("r2")] == [1, 1, 2, 1, 2]
        assert await call(object="b") == 1  # a key belongs to its object
        await world.sleep_all()
        assert await call() == 1
        await world.crash()
        await world.restart()
        assert await call() == 1
        assert await world.rows(stage.Bell, "a") == {"count": 2}


async def test_a_repeat_while_the_first_is_not_yet_on_disk_waits_for_it(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        name = stage.act(add_one)
        with Gate(world) as gate:
            tasks = [asyncio.create_task(stage.app.get(stage.Bell, "a", request_key="r").do(name)) for _ in range(3)]
            await world.settle()
            assert not any(task.done() for task in tasks)
            gate.open()
            assert await asyncio.gather(*tasks) == [1, 1, 1]
            assert (await world.rows(stage.Bell, "a"))["count"] == 1


async def test_a_repeat_of_a_call_whose_commit_failed_runs(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        world.faults.fail_commit(when="before")
        with pytest.raises(Unavailable):
            await stub.do(name)
        await world.advance(seconds=10)
        assert await stub.do(name) == 1
        assert await stub.do(name) == 1


async def test_a_repeat_after_an_unknown_outcome_gives_the_first_answer(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        world.faults.fail_commit(when="after")
        with pytest.raises(OutcomeUnknown):
            await stub.do(name)
        await world.advance(seconds=10)
        assert await stub.do(name) == 1
        assert await world.rows(stage.Bell, "a") == {"count": 1}


async def test_another_call_with_a_used_request_key_is_an_error(stage: Any) -> None:
    async with stage.world() as world:
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        await stub.do(stage.act(add_one))
        with pytest.raises(KeyTaken, match="'r' was used for another method or other arguments"):
            await stub.do(stage.act(add_one))
        assert await world.rows(stage.Bell, "a") == {"count": 1}


async def test_a_request_key_is_kept_for_its_time_and_then_free(stage: Any) -> None:
    async with stage.world(limits=Limits(request_keep_ms=600_000)) as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        assert await stub.do(name) == 1
        await world.advance(seconds=599)
        assert await stub.do(name) == 1
        await world.advance(seconds=2)
        assert await stub.do(name) == 2


async def test_a_request_key_is_kept_for_a_day_by_default(stage: Any) -> None:
    assert Limits().request_keep_ms == 24 * 3_600_000
    async with stage.world() as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        assert await stub.do(name) == 1
        await world.crash()
        await world.restart(after=timedelta(hours=23, minutes=59))
        assert await stub.do(name) == 1
        await world.crash()
        await world.restart(after=timedelta(minutes=2))
        assert await stub.do(name) == 2


async def test_a_failed_call_is_not_remembered(stage: Any) -> None:
    async with stage.world() as world:

        async def fail_once(self: Any) -> int:
            await self.storage.put("x", 1)
            if not world.faults.is_down and not seen:
                seen.append(1)
                raise Expected
            return 7

        seen: list[int] = []
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        name = stage.act(fail_once)
        with pytest.raises(Expected):
            await stub.do(name)
        assert await stub.do(name) == 7


class Echo(DurableObject):
    async def echo(self, *args: Any, **options: Any) -> int:
        return await add_one(self)


async def test_equal_arguments_are_the_same_call_in_whatever_order_they_are_named(stage: Any) -> None:
    stage.app.object(Echo)
    async with stage.world():
        stub = stage.app.get(Echo, "a", request_key="r")
        assert await stub.echo({"x": 1}, b=2, a={"p", "q"}) == 1
        assert await stub.echo({"x": 1}, a={"q", "p"}, b=2) == 1
        with pytest.raises(KeyTaken):
            await stub.echo({"x": 1}, a={"q", "p"}, b=3)


# Pipelining


async def test_many_concurrent_calls_of_one_object_share_groups(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        groups, commits = world.node.committer.groups, world.node.committer.commits
        assert await asyncio.gather(*(stage.do(add_one) for _ in range(200))) == list(range(2, 202))
        assert world.node.committer.commits - commits == 200
        assert world.node.committer.groups - groups <= 20
        assert await world.rows(stage.Bell, "a") == {"count": 201}


async def test_concurrent_calls_of_many_objects_share_groups(stage: Any) -> None:
    async with stage.world() as world:
        groups = world.node.committer.groups
        await asyncio.gather(*(stage.do(add_one, f"k{n}") for n in range(200)))
        assert world.node.committer.groups - groups <= 60


async def test_no_answer_leaves_before_its_turn_is_on_disk(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:
            tasks = [asyncio.create_task(stage.do(body)) for body in (add_one, add_one, get("count"), add_one)]
            await world.settle()
            assert len(gate.groups) == 1
            assert not any(task.done() for task in tasks)
            assert await world.rows(stage.Bell, "a") == {"count": 1}
            gate.open()
            assert await asyncio.gather(*tasks) == [2, 3, 3, 4]


async def test_an_error_that_rests_on_an_unsaved_turn_waits_for_it_too(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:

            async def refuse(self: Any) -> None:
                raise Expected(await self.storage.get("count"))

            tasks = [asyncio.create_task(stage.do(body)) for body in (add_one, refuse)]
            await world.settle()
            tasks.append(asyncio.create_task(stage.do(refuse)))
            await world.settle()
            assert not any(task.done() for task in tasks)
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown] * 3


async def test_a_failed_commit_fails_every_turn_built_on_it_and_the_object_wakes_from_disk(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:
            tasks = [asyncio.create_task(stage.do(add_one)) for _ in range(5)]
            await world.settle()
            running = asyncio.create_task(stage.do(sleep(30)))
            waiting = asyncio.create_task(stage.do(add_one))
            await world.settle()
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(*tasks, running, waiting, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown] * 7
            await world.advance(seconds=10)
            assert await world.rows(stage.Bell, "a") == {"count": 1}
            assert await stage.do(add_one) == 2
            assert stage.news == ["a", "a"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_that_fails_before_is_not_there_and_one_that_fails_after_is(stage: Any, when: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        world.faults.fail_commit(when=when)
        with pytest.raises(StoreDown if when == "before" else OutcomeUnknown):
            await stage.do(add_one)
        await world.advance(seconds=10)
        assert await stage.do(get("count")) == (1 if when == "before" else 2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", [0, 1])
async def test_an_alarms_effect_happens_exactly_once_whichever_of_its_commits_fails(
    stage: Any, when: Any, n: int
) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            assert info.retry_count == 0
            await add_one(self)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        world.faults.fail_commit(n, when=when)
        await world.advance(minutes=1)
        assert await world.rows(stage.Bell, "a") == {"count": 1}
        assert await world.due() == []
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]


async def test_a_nested_call_waits_until_what_its_caller_knows_is_on_disk(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        with Gate(world) as gate:

            async def tell(self: Any) -> None:
                value = await self.storage.get("x")
                await self.ctx.get(stage.Bell, "b").do(stage.act(put("heard", value)))

            write = asyncio.create_task(stage.do(put("x", 2)))
            await world.settle()
            told = asyncio.create_task(stage.do(tell))
            await world.settle()
            assert stage.news == ["a"]  # b has not been called
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(write, told, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown, StoreDown]
            await world.advance(seconds=10)
            assert await world.rows(stage.Bell, "b") == {}


# Bounds


async def test_the_least_recently_used_object_sleeps_first_when_too_many_are_awake(stage: Any) -> None:
    async with stage.world(limits=Limits(awake_objects=3)) as world:
        for key in "abc":
            await stage.do(add_one, key)
        await stage.do(add_one, "a")
        await stage.do(add_one, "d")
        assert sorted(id.key for id in world.node.awake) == ["a", "c", "d"]
        assert await stage.do(add_one, "b") == 2
        assert sorted(id.key for id in world.node.awake) == ["a", "b", "d"]


async def test_busy_objects_stay_awake_and_the_bound_holds_again_when_they_are_done(stage: Any) -> None:
    async with stage.world(limits=Limits(awake_objects=3)) as world:
        tasks = [asyncio.create_task(stage.do(sleep(1), f"k{n}")) for n in range(8)]
        await world.settle()
        assert len(world.node.awake) == 8
        assert await asyncio.gather(*tasks) == ["slept"] * 8
        await world.settle()
        assert len(world.node.awake) <= 3


async def test_no_more_turns_run_at_once_than_the_limit_says(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=2)) as world:
        running = most = 0

        async def body(self: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1

        async def handler(self: Any, info: AlarmInfo) -> None:
            await body(self)

        start = world.now()
        for n in range(4):
            stage.handlers[f"k{n}"] = handler
            await stage.set_alarm(start + SECOND, f"k{n}")
        await asyncio.sleep(1)
        await asyncio.gather(*(stage.do(body, f"k{n}") for n in range(8)))
        await world.advance(seconds=30)
        assert len(stage.fired) == 4
        assert most == 2


async def test_nested_calls_do_not_deadlock_at_the_limit(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=1)) as world:
        start = world.now()

        def tell(key: str) -> Any:
            async def body(self: Any) -> str:
                await asyncio.sleep(1)
                return await self.ctx.get(stage.Bell, key).do(stage.act(sleep(1)))

            return body

        results = await asyncio.gather(
            stage.do(tell("x"), "a"), stage.do(tell("x"), "b"), stage.do(tell("c"), "c2"), stage.do(tell("y"), "d")
        )
        assert results == ["slept"] * 4
        assert world.now() <= start + 10 * SECOND


async def test_a_nested_call_behind_one_that_waits_for_a_slot_does_not_deadlock(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=1)) as world:
        start = world.now()

        async def tell(self: Any) -> str:
            await asyncio.sleep(2)
            return await self.ctx.get(stage.Bell, "b").do(stage.act(sleep(1)))

        first = asyncio.create_task(stage.do(tell, "a"))  # holds the only slot
        await asyncio.sleep(1)
        second = asyncio.create_task(stage.do(sleep(1), "b"))  # has b's turn, waits for the slot
        third = asyncio.create_task(stage.do(sleep(1), "b"))
        assert await asyncio.gather(first, second, third) == ["slept"] * 3
        assert world.now() <= start + 10 * SECOND


async def test_a_nested_call_behind_a_due_alarm_that_waits_for_a_slot_does_not_deadlock(stage: Any) -> None:
    async with stage.world(limits=Limits(concurrent_turns=1)) as world:
        start = world.now()

        async def tell(self: Any) -> str:
            await asyncio.sleep(2)
            return await self.ctx.get(stage.Bell, "b").do(stage.act(sleep(1)))

        await stage.set_alarm(start + SECOND, "b")
        assert await stage.do(tell, "a") == "slept"
        assert world.now() <= start + 10 * SECOND
        assert len(stage.fired) == 1


async def test_a_full_mailbox_tells_callers_to_back_off(stage: Any) -> None:
    async with stage.world(limits=Limits(mailbox=3)) as world:
        tasks = [asyncio.create_task(stage.do(sleep(1))) for _ in range(6)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[:4] == ["slept"] * 4
        assert all(isinstance(result, Unavailable) for result in results[4:])
        assert "back off" in str(results[4])
        assert await stage.do(add_one) == 1
        assert len(await world.rows(stage.Bell, "a")) == 1


# Classes


class Plain:
    """No base class."""

    made = 0

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.woken = False
        Plain.made += 1

    async def on_wake(self) -> None:
        self.woken = True

    async def add(self) -> int:
        assert self.woken
        await self.ctx.set_alarm(SECOND)
        return await add_one(self.ctx)

    async def alarm(self) -> None:
        await self.ctx.storage.put("rang", self.ctx.run is not None)


async def test_a_plain_class_without_the_base_class_works_the_same(stage: Any) -> None:
    stage.app.object(Plain)
    async with stage.world() as world:
        plain = world.get(Plain, "p")
        assert await plain.add() == 1
        await world.sleep_all()
        assert await plain.add() == 2
        await world.advance(seconds=2)
        assert await world.rows(Plain, "p") == {"count": 2, "rang": True}


async def test_on_wake_runs_once_before_the_first_turn_of_each_activation(stage: Any) -> None:
    async with stage.world() as world:
        order: list[str] = []

        async def wake(self: Any) -> None:
            order.append("wake begins")
            await asyncio.sleep(1)
            order.append("wake ends")

        def turn(name: str) -> Any:
            async def body(self: Any) -> None:
                order.append(name)

            return body

        stage.on_wake = wake
        await asyncio.gather(stage.do(turn("one")), stage.do(turn("two")), stage.peek(turn("reader")))
        assert order[:2] == ["wake begins", "wake ends"]
        assert sorted(order[2:]) == ["one", "reader", "two"]
        await world.sleep_all()
        await stage.do(turn("three"))
        assert order[5:] == ["wake begins", "wake ends", "three"]


async def test_ctx_knows_its_object_the_time_and_the_run(stage: Any) -> None:
    async with stage.world() as world:
        seen: list[Any] = []

        async def handler(self: Any, info: AlarmInfo) -> None:
            run = self.ctx.run
            seen.append((run.id, run.name, run.attempt, run.nominal_at, run.verdict))
            assert run.id == info.run_id

        async def body(self: Any) -> list[Any]:
            assert self.ctx.run is None
            self.ctx.log.info("hello")
            return [tuple(self.ctx.id), self.ctx.cls, self.ctx.key, self.ctx.now()]

        stage.handlers["a"] = handler
        assert await stage.do(body) == [("Bell", "a"), "Bell", "a", world.now()]
        at = world.now() + SECOND
        await stage.set_alarm(at)
        await world.advance(seconds=2)
        assert [(name, attempt, nominal) for _, name, attempt, nominal, _ in seen] == [("alarm", 0, at)]


async def test_arguments_and_answers_are_copies(stage: Any) -> None:
    class Keeper(DurableObject):
        async def swap(self, value: list[int]) -> list[int]:
            value.append(2)
            self.value = value
            return value

        async def look(self) -> list[int]:
            return self.value

    stage.app.object(Keeper)
    async with stage.world() as world:
        given = [1]
        keeper = world.get(Keeper, "k")
        answer = await keeper.swap(given)
        answer.append(3)
        assert given == [1]
        assert await keeper.look() == [1, 2]


# Fencing and outages


async def test_a_stolen_shard_refuses_the_commit_and_the_caller_gets_unavailable(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        shard = shard_of(ObjectId("Bell", "a"))
        swallowed: list[BaseException] = []

        async def tries(self: Any) -> None:
            await self.storage.put("x", 2)
            try:
                await self.ctx.commit()
            except Exception as error:
                swallowed.append(error)
            await asyncio.sleep(1)

        await world.store.claim("thief", [shard], now=from_datetime(world.now()))
        with pytest.raises(Unavailable) as caught:
            await stage.do(tries)
        assert not isinstance(caught.value, StoreDown)
        assert swallowed == []
        with pytest.raises(Unavailable):
            await stage.do(put("x", 3))
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        assert not issubclass(Fenced, Exception)
        other = next(f"k{n}" for n in range(1_000) if shard_of(ObjectId("Bell", f"k{n}")) != shard)
        assert await stage.do(add_one, other) == 1  # the other shards go on


async def test_a_stolen_shard_refuses_a_commit_at_the_end_of_a_turn_and_all_that_wait(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        await world.store.claim("thief", range(256), now=from_datetime(world.now()))
        tasks = [asyncio.create_task(stage.do(put("x", n))) for n in range(2, 6)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(type(result) is Unavailable for result in results), results
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        with pytest.raises(Unavailable, match="owned by another node"):
            await stage.do(get("x"))


async def test_a_stolen_shards_alarm_does_not_count_here_and_is_left_to_the_new_owner(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await self.storage.put("ran", 1)
            if len(stage.fired) == 1:
                await world.store.claim("thief", range(256), now=from_datetime(world.now()))

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert len(stage.fired) == 1
        assert await world.rows(stage.Bell, "a") == {}
        assert await world.ledger(stage.Bell, "a") == []
        [timer] = await world.due()
        assert timer.attempt == 0
        await world.restart()
        await world.advance(minutes=1)
        assert await world.rows(stage.Bell, "a") == {"ran": 1}


async def test_while_the_store_is_away_calls_are_unavailable_and_nothing_is_lost(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        at = world.now() + MINUTE
        await stage.set_alarm(at)
        await stage.set_alarm(at, "b")
        world.faults.is_down = True
        with pytest.raises(Unavailable):
            await stage.do(add_one)
        with pytest.raises(Unavailable, match="try again"):
            await stage.do(get("count"))
        with pytest.raises(Unavailable):
            await stage.peek(get("count"))
        await world.advance(minutes=5)
        assert stage.fired == []
        world.faults.is_down = False
        back = world.now()
        await world.advance(seconds=6)
        assert await stage.do(get("count")) == 1
        assert len(stage.fired) == 2
        assert all(back <= when <= back + 6 * SECOND for _, _, when in stage.fired)
        assert {info.scheduled_at for _, info, _ in stage.fired} == {at}
        assert await stage.do(add_one) == 2


async def test_a_store_that_flickers_loses_no_acknowledged_write(stage: Any) -> None:
    async with stage.world() as world:
        acknowledged = 0
        for n in range(60):
            if n % 7 == 3:
                world.faults.fail_commit(when="before" if n % 2 else "after")
            try:
                acknowledged = await stage.do(add_one)
            except Unavailable:
                await world.advance(seconds=6)
        count = await stage.do(get("count"))
        assert acknowledged <= count <= 60
        assert count >= 51


async def test_what_ran_while_the_store_went_away_is_interrupted_and_told(stage: Any) -> None:
    async with stage.world() as world:
        running = asyncio.create_task(stage.do(sleep(50)))
        nested = asyncio.create_task(stage.do(ask(stage, ("do", "c"), ("do", "d")), "b"))
        await nested
        slow_nest = asyncio.create_task(stage.do(slow_chain(stage), "e"))
        await world.advance(seconds=1)
        world.faults.is_down = True
        with pytest.raises(StoreDown):
            await stage.do(add_one, "z")
        start = world.now()
        for task in (running, slow_nest):
            with pytest.raises(StoreDown):
                await task
            assert task.cancelling() == 0
        assert world.now() == start
        world.faults.is_down = False
        await world.advance(seconds=10)
        assert await stage.do(add_one) == 1


def slow_chain(stage: Any) -> Any:
    async def body(self: Any) -> str:
        try:
            return await self.ctx.get(stage.Bell, "f").do(stage.act(sleep(50)))
        except Exception:
            await asyncio.sleep(1_000)  # it can't outlive the failure of its own turn
            return "went on"

    return body


async def test_a_reader_that_wakes_its_object_while_the_store_goes_away_is_told(stage: Any) -> None:
    async with stage.world() as world:

        async def wake(self: Any) -> None:
            if self.ctx.key == "a":
                await asyncio.sleep(20)

        stage.on_wake = wake
        read = asyncio.create_task(stage.peek(get("x")))
        await world.advance(seconds=1)
        world.faults.is_down = True
        with pytest.raises(StoreDown):
            await stage.do(add_one, "z")
        with pytest.raises(StoreDown):
            await read
        world.faults.is_down = False


# Timers beyond the alarm


class Owner:
    """A feature's stake in timers called `test:…`."""

    prefix = "test"
    deadline_ms = 60_000

    def __init__(self) -> None:
        self.fired: list[str] = []
        self.fails: set[str] = set()

    async def fire(self, activation: Any, turn: Any, timer: Timer) -> None:
        self.fired.append(timer.name)
        if timer.name in self.fails:
            raise Expected(timer.name)
        await activation.instance.storage.put(timer.name, True)

    def retry_delay_ms(self, timer: Timer, roll: float) -> int | None:
        return None


def set_timers(world: Any, *named: tuple[str, timedelta]) -> Any:
    async def body(self: Any) -> None:
        turn = CURRENT.get()
        assert turn is not None
        for name, delay in named:
            at = from_datetime(world.now() + delay)
            seq = turn.activation.node.next_seq(turn.activation.shard)
            turn.set_timer(Timer(turn.activation.id, name, at, at, seq))

    return body


async def test_timers_of_an_unknown_class_stay_and_are_reported_and_run_once_a_node_knows_the_class(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        await stage.set_alarm(at)
        await stage.set_alarm(at, "b")
        await world.crash()
        known, stage.app.registry = stage.app.registry, Registry()
        with caplog.at_level(logging.WARNING, "wakeful"):
            await world.restart(after="1m")
            await world.advance(minutes=11)
        assert stage.fired == []
        reports = [record for record in caplog.records if getattr(record, "code", "") == "timer.unknown"]
        assert len(reports) == 1
        assert "knows no class 'Bell'" in reports[0].getMessage()
        assert world.node.dispatcher.unknown == {"Bell"}
        assert len(await world.due()) == 2
        assert await world.store.known_classes() == ["Bell"]
        with pytest.raises(UnknownClass):
            world.get(stage.Bell, "a")
        await world.crash()
        stage.app.registry = known
        await world.restart()
        await world.advance(seconds=1)
        assert sorted(key for key, _, _ in stage.fired) == ["a", "b"]
        assert {info.scheduled_at for _, info, _ in stage.fired} == {at}


async def test_timers_that_no_feature_here_owns_stay_too(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(set_timers(world, ("test:x", SECOND)))
        await world.advance(minutes=1)
        assert [timer.name for timer in await world.due()] == ["test:x"]
        assert world.node.dispatcher.unknown == {"test"}
        owner = Owner()
        await world.crash()
        await world.restart()
        world.node.timer_runs.register(owner)
        world.node.dispatcher.read_again()
        await world.advance(minutes=6)
        assert owner.fired == ["test:x"]
        assert await world.due() == []


async def test_several_due_timers_of_one_object_run_in_one_activation_in_order_each_a_turn(stage: Any) -> None:
    async with stage.world() as world:
        owner = Owner()
        owner.fails = {"test:1"}
        names = [(f"test:{n}", timedelta(seconds=10 + n // 2)) for n in (4, 1, 0, 3, 2, 5)]
        await stage.do(set_timers(world, *names))
        await world.crash()
        await world.restart(after="1m")
        world.node.timer_runs.register(owner)
        world.node.dispatcher.read_again()
        await world.advance(seconds=1)
        # By due time, then in the order in which they were set.
        assert owner.fired == ["test:1", "test:0", "test:3", "test:2", "test:4", "test:5"]
        assert stage.news == ["a", "a"]
        assert sorted(await world.rows(stage.Bell, "a")) == ["test:0", "test:2", "test:3", "test:4", "test:5"]
        assert [parked.timer.name for parked in await world.parked()] == ["test:1"]


async def test_more_due_timers_than_memory_holds_all_fire_in_order(stage: Any) -> None:
    for near in (1, 2, 10):
        async with stage.world(limits=Limits(near_timers=near)) as world:
            stage.fired.clear()
            start = world.now()
            for n in range(25):
                await stage.set_alarm(start + timedelta(seconds=1 + (n * 7) % 25), f"{near}-{n}")
            assert len(world.node.queue) <= max(near, 1)
            await world.advance(seconds=30)
            assert [at for _, _, at in stage.fired] == [start + timedelta(seconds=1 + n) for n in range(25)]


# Crashes, stops, parking


async def test_a_graceful_stop_during_a_handler_is_not_a_crash(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(3_000 if len(stage.fired) < 5 else 1)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        for _ in range(4):
            await world.restart()
            [timer] = await world.due()
            assert timer.crashes == 0
        await world.advance(seconds=5)
        assert len(stage.fired) == 5
        assert await world.parked() == []
        assert [(run.verdict, run.attempt) for run in await world.ledger(stage.Bell, "a")] == [("run", 0)]


async def test_a_graceful_stop_lets_running_turns_finish_within_the_deadline(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(5)
            await self.storage.put("done", True)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        call = asyncio.create_task(stage.do(sleep(4), "b"))
        await world.settle()
        await world.restart()
        assert await call == "slept"
        assert await world.rows(stage.Bell, "a") == {"done": True}
        assert len(stage.fired) == 1


async def test_a_graceful_stop_does_not_bring_back_an_alarm_that_was_replaced_meanwhile(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def reset(self: Any) -> None:
            await self.storage.set_alarm(start + timedelta(minutes=5))

        await stage.set_alarm(start + 2 * SECOND)
        tasks = [asyncio.create_task(stage.do(body)) for body in (sleep(3), reset, sleep(600))]
        await asyncio.sleep(2.5)  # the alarm is due and waits behind them
        await world.restart()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[:2] == ["slept", None]
        assert isinstance(results[2], NotRunning)
        assert await stage.get_alarm() == start + timedelta(minutes=5)
        await world.advance(minutes=6)
        assert stage.times() == [start + timedelta(minutes=5)]


async def test_a_graceful_stop_releases_the_shards_and_leaves(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        rows = await world.store.owners()
        assert {row.owner for row in rows} == {world.node.name}
        await world.crash()
        assert {row.owner for row in await world.store.owners()} == {"node-1"}
        await world.restart()
        assert {row.owner for row in await world.store.owners()} == {"node-2"}
        assert [row.epoch for row in await world.store.owners()] == [row.epoch + 1 for row in rows]


async def test_three_crashes_lie_at_one_door_even_with_other_failures_between(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            if len(stage.fired) in (2, 4):
                raise Expected
            world.kill()

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        for _ in range(3):
            await world.advance(minutes=1)
            await world.restart()
        await world.advance(minutes=1)
        # Crash, failure, crash, failure, crash: a failure in between shows that it can end, so it counts anew.
        assert len(stage.fired) >= 4
        assert await world.parked() == []


async def test_a_suspect_handler_that_calls_another_suspects_object_does_not_deadlock(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def tell(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(3)
            if len(stage.times("a")) > 1:
                await self.ctx.get(stage.Bell, "b").do(stage.act(add_one))

        async def slow(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(3)

        stage.handlers["a"], stage.handlers["b"] = tell, slow
        await stage.set_alarm(start + SECOND)
        await stage.set_alarm(start + SECOND + timedelta(milliseconds=1), "b")  # so it is tried second
        await world.advance(seconds=2)
        await world.crash()
        await world.restart()
        await world.advance(seconds=30)
        assert await world.rows(stage.Bell, "b") == {"count": 1}
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]
        assert [run.verdict for run in await world.ledger(stage.Bell, "b")] == ["run"]


async def park(stage: Any, world: Any) -> Any:
    async def fail(self: Any, info: AlarmInfo) -> None:
        raise Expected("for good")

    stage.handlers["a"] = fail
    await stage.set_alarm(SECOND)
    await world.advance(minutes=4)
    [parked] = await world.parked()
    del stage.handlers["a"]
    stage.fired.clear()
    return parked


async def test_redrive_makes_a_parked_alarm_due_again_with_a_fresh_count(stage: Any) -> None:
    async with stage.world() as world:
        parked = await park(stage, world)
        await world.advance(seconds=20)
        news = len(stage.news)
        now = world.now()
        await world.node.redrive(parked)
        await world.settle()
        assert stage.times() == [now]
        [info] = stage.infos()
        assert info.retry_count == 0
        assert from_datetime(info.scheduled_at) == parked.timer.nominal_at
        assert await world.parked() == []
        assert len(stage.news) == news + 1  # woken by the alarm, not by the redrive
        assert (await world.ledger(stage.Bell, "a"))[-1].verdict == "run"


async def test_redrive_that_fails_again_is_retried_and_parked_again(stage: Any) -> None:
    async with stage.world() as world:
        parked = await park(stage, world)

        async def fail(self: Any, info: AlarmInfo) -> None:
            raise Expected("still")

        stage.handlers["a"] = fail
        await world.node.redrive(parked)
        await world.advance(minutes=4)
        assert [info.retry_count for info in stage.infos()] == list(range(7))
        [again] = await world.parked()
        assert "still" in again.error
        assert again.number != parked.number


async def test_redrive_is_refused_when_another_alarm_is_pending(stage: Any) -> None:
    async with stage.world() as world:
        parked = await park(stage, world)
        await stage.set_alarm(timedelta(minutes=1))
        with pytest.raises(Conflict, match="another alarm pending"):
            await world.node.redrive(parked)
        assert len(await world.parked()) == 1
        await stage.delete_alarm()
        await world.node.redrive(parked)
        await world.settle()
        assert len(stage.fired) == 1
        with pytest.raises(Conflict, match="no longer parked"):
            await world.node.redrive(parked)


async def test_a_killer_that_was_parked_can_be_redriven(stage: Any) -> None:
    async with stage.world() as world:

        async def killer(self: Any, info: AlarmInfo) -> None:
            world.kill()

        stage.handlers["a"] = killer
        await stage.set_alarm(SECOND)
        for _ in range(3):
            await world.advance(minutes=1)
            await world.restart()
        await world.settle()
        [parked] = await world.parked()
        del stage.handlers["a"]
        await world.node.redrive(parked)
        await world.settle()
        assert (await world.ledger(stage.Bell, "a"))[-1].verdict == "run"
        assert await world.parked() == await world.due() == []


# The ledger


async def test_the_ledger_has_a_row_per_attempt_and_the_run_id_is_stable_over_retries_and_crashes(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()

        async def handler(self: Any, info: AlarmInfo) -> None:
            if len(stage.fired) == 1:
                raise Expected("first")
            if len(stage.fired) == 2:
                await asyncio.sleep(60)  # until the crash
            await asyncio.sleep(2)

        stage.handlers["a"] = handler
        await stage.set_alarm(start + SECOND)
        await world.advance(seconds=10)
        await world.crash()
        await world.restart(after="1m")
        await world.advance(seconds=5)
        first, second = await world.ledger(stage.Bell, "a")
        assert {info.run_id for info in stage.infos()} == {first.id} == {second.id}
        assert (first.attempt, first.verdict, first.error) == (0, "failed", f"{__name__}.Expected: first")
        assert (second.attempt, second.verdict, second.error) == (1, "run", None)
        assert first.nominal_at == second.nominal_at == start + SECOND
        assert first.lateness == timedelta(0)
        assert second.finished_at - second.fired_at == 2 * SECOND
        await stage.set_alarm(SECOND)
        await world.advance(seconds=5)
        assert (await world.ledger(stage.Bell, "a"))[-1].id not in {first.id}


async def test_run_ids_differ_between_settings_objects_and_names(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        for key in ("a", "b"):
            await stage.set_alarm(at, key)
        await world.advance(seconds=2)
        await stage.set_alarm(at)
        await world.settle()
        assert len({info.run_id for _, info, _ in stage.fired}) == 3
        timer = Timer(ObjectId("Bell", "a"), "alarm", 1, 1, 5)
        assert run_id(timer) == run_id(timer.moved(due_at=9, attempt=3))


async def test_the_ledger_is_pruned_to_the_newest_rows(stage: Any) -> None:
    async with stage.world(limits=Limits(ledger_keep=20)) as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await self.storage.set_alarm(SECOND)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await stage.set_alarm(SECOND, "b")
        await world.advance(seconds=299)
        assert len(await world.ledger(stage.Bell, "a")) > 250
        await stage.delete_alarm()
        await world.advance(seconds=10)
        ledger = await world.ledger(stage.Bell, "a")
        assert len(ledger) == 20
        assert ledger[-1].fired_at >= world.now() - 12 * SECOND
        assert len(await world.ledger(stage.Bell, "b")) == 1


async def test_the_ledger_is_pruned_by_age(stage: Any) -> None:
    async with stage.world(limits=Limits(ledger_keep_ms=600_000)) as world:
        await stage.set_alarm(SECOND)
        await world.advance(minutes=9)
        assert len(await world.ledger(stage.Bell, "a")) == 1
        await stage.set_alarm(SECOND, "b")
        await world.advance(minutes=7)
        assert await world.ledger(stage.Bell, "a") == []
        assert len(await world.ledger(stage.Bell, "b")) == 1


# Looking without waking


async def test_objects_are_listed_and_inspected_without_waking_them(stage: Any) -> None:
    async with stage.world() as world:
        keys = ["acme/eu", "acme/us", "bob", "zoë"]
        for key in keys:
            await stage.do(put("x", key), key)
            await stage.set_alarm(MINUTE, key)
        await world.advance(seconds=30)
        assert not world.node.awake
        made = len(stage.news)
        store = world.store
        found = await store.find_objects(Query(cls="Bell"))
        assert [info.id.key for info in found] == keys
        assert [info.id.key for info in await store.find_objects(Query(key_contains="acme"))] == keys[:2]
        assert await store.count("objects") == 4
        assert await store.known_classes() == ["Bell"]
        assert await world.rows(stage.Bell, "bob") == {"x": "bob"}
        assert len(await world.due()) == 4
        info = await world.info(stage.Bell, "bob")
        assert info is not None
        assert info.rows == 1
        assert len(stage.news) == made
        assert not world.node.awake
