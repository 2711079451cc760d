"""Turns: one at a time, all or nothing, with durable points; on every store."""

import asyncio
import traceback
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.acts import MINUTE, SECOND, Expected, add_one, get, put, sleep
from wakeful import AlarmInfo
from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import (
    BadOption,
    NotRunning,
    TurnFailed,
    TurnOver,
)
from wakeful.values.timers import Timer
from wakeful.values.times import from_datetime

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
