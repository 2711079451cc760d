"""Crashes, stops and parking: whose fault was it? On every store."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.acts import SECOND, Expected, add_one, sleep
from wakeful import AlarmInfo
from wakeful.values.errors import (
    Conflict,
    NotRunning,
)
from wakeful.values.times import from_datetime


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


async def test_every_failure_is_in_the_log_and_the_first_with_where_it_came_from(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.world() as world:

        async def fail_always(self: Any, info: AlarmInfo) -> None:
            raise ValueError("no luck")

        stage.handlers["a"] = fail_always
        await stage.set_alarm(SECOND)
        with caplog.at_level(logging.WARNING, "wakeful"):
            await world.advance(minutes=4)
    lines = [(record.code, record.getMessage()) for record in caplog.records if "no luck" in record.getMessage()]
    said = [(code, "in fail_always" in text) for code, text in lines]
    assert said == [("timer.failed", True)] + [("timer.failed", False)] * 5 + [("timer.parked", False)]
