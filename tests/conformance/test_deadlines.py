"""Deadlines and cycles: no call waits for ever; on every store."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.acts import SECOND, Gate, add_one, ask, sleep
from wakeful import AlarmInfo, Limits
from wakeful.values.errors import (
    DeadlineExceeded,
    Reentrancy,
)

# Deadlines


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


async def test_what_a_late_turn_had_committed_is_not_said_to_be_undone(stage: Any) -> None:
    async with stage.world(limits=Limits(alarm_deadline_ms=5_000)) as world:

        async def slow(self: Any, *given: Any) -> None:
            await self.storage.put("x", 1)
            await self.ctx.commit()
            await self.storage.put("x", 2)
            await asyncio.sleep(100)

        with pytest.raises(DeadlineExceeded, match=r"what it wrote since ctx\.commit\(\) was undone"):
            await stage.do(slow, deadline="5s")
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        stage.handlers["a"] = slow
        await stage.set_alarm(SECOND)
        await world.advance(seconds=7)
        [failed] = await world.ledger(stage.Bell, "a")
        assert "what it wrote since ctx.commit() was undone" in failed.error


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


async def test_a_late_reader_is_told_so_in_a_task_that_was_told_to_end_too(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)

        async def cleaning() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await stage.peek(lambda self: asyncio.sleep(60), deadline=SECOND)

        task = asyncio.ensure_future(cleaning())
        await world.advance(milliseconds=1)
        task.cancel()
        await world.advance(seconds=5)
        [told] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(told, DeadlineExceeded), told


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
            )  # one to an idle object, one from the mailbox
            results = await asyncio.gather(first, second, return_exceptions=True)
            assert [type(result) for result in results] == [DeadlineExceeded, DeadlineExceeded]
            assert all("unknown" in str(result) for result in results), results
            assert not any("undone" in str(result) for result in results)
            gate.open()
            await world.settle()
            assert await stage.do(add_one) == 4


# Cycles


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
