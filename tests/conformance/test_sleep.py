"""Sleep and waking, line by line as the specification says it, on every store."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

SECOND = timedelta(seconds=1)


class Expected(Exception):
    pass


async def remember(self: Any) -> int:
    """A turn that keeps something in memory and something on disk; how often this instance has run it."""
    self.memory.append(1)
    await self.storage.put("count", await self.storage.get("count", 0) + 1)
    return len(self.memory)


async def test_idle_for_nine_seconds_is_the_same_instance(stage: Any) -> None:
    async with stage.world() as world:
        for n in range(1, 5):
            assert await stage.do(remember) == n
            await world.advance(seconds=9)
        assert stage.news == ["a"]


async def test_idle_for_eleven_seconds_is_a_new_instance_with_its_storage(stage: Any) -> None:
    async with stage.world() as world:
        for n in range(1, 5):
            assert await stage.do(remember) == 1
            assert await world.rows(stage.Bell, "a") == {"count": n}
            await world.advance(seconds=11)
        assert stage.news == ["a"] * 4
        assert not world.node.awake


async def test_the_idle_time_is_an_option_of_the_app(stage: Any) -> None:
    stage.restock(idle="60s")
    async with stage.world() as world:
        assert await stage.do(remember) == 1
        await world.advance(seconds=59)
        assert await stage.do(remember) == 2
        await world.advance(seconds=61)
        assert await stage.do(remember) == 1


async def test_a_reader_keeps_it_awake_as_a_turn_does(stage: Any) -> None:
    async with stage.world() as world:

        async def look(self: Any) -> int:
            return len(self.memory)

        assert await stage.do(remember) == 1
        for _ in range(4):
            await world.advance(seconds=9)
            assert await stage.peek(look) == 1
        await world.advance(seconds=11)
        assert await stage.peek(look) == 0


async def test_a_call_in_flight_keeps_it_awake(stage: Any) -> None:
    async with stage.world() as world:

        async def other(self: Any) -> None:
            await asyncio.sleep(30)

        async def ask(self: Any) -> int:
            self.memory.append(1)
            await self.ctx.get(stage.Bell, "b").do(stage.act(other))
            return len(self.memory)

        task = asyncio.create_task(stage.do(ask))
        await world.advance(seconds=25)
        assert len(world.node.awake) == 2
        assert await task == 1
        assert await stage.do(remember) == 2
        assert stage.news == ["a", "b"]


async def test_a_running_turn_keeps_it_awake(stage: Any) -> None:
    async with stage.world() as world:

        async def slow(self: Any) -> int:
            self.memory.append(1)
            await asyncio.sleep(30)
            return len(self.memory)

        task = asyncio.create_task(stage.do(slow))
        await world.advance(seconds=25)
        await world.sleep_all()
        assert len(world.node.awake) == 1
        assert await task == 1
        assert await stage.do(remember) == 2
        assert stage.news == ["a"]


async def test_a_running_reader_keeps_it_awake(stage: Any) -> None:
    async with stage.world() as world:

        async def slow(self: Any) -> int:
            await asyncio.sleep(30)
            return len(self.memory)

        assert await stage.do(remember) == 1
        task = asyncio.create_task(stage.peek(slow))
        await world.advance(seconds=25)
        await world.sleep_all()
        assert await task == 1
        assert stage.news == ["a"]


async def test_an_open_transaction_keeps_it_awake(stage: Any) -> None:
    async with stage.world() as world:

        async def slow(self: Any) -> int:
            self.memory.append(1)
            async with self.storage.transaction():
                await self.storage.put("x", 1)
                await asyncio.sleep(30)
            return len(self.memory)

        task = asyncio.create_task(stage.do(slow))
        await world.advance(seconds=25)
        await world.sleep_all()
        assert await task == 1
        assert await stage.do(remember) == 2
        assert stage.news == ["a"]
        assert await world.rows(stage.Bell, "a") == {"count": 1, "x": 1}


async def test_a_constructor_that_raises_gives_the_caller_that_error_and_the_object_stays_asleep(stage: Any) -> None:
    async with stage.world() as world:

        def fail(self: Any) -> None:
            self.storage.put("x", 1)
            raise Expected("in the constructor")

        stage.on_new = fail
        with pytest.raises(Expected, match="in the constructor"):
            await stage.do(remember)
        with pytest.raises(Expected, match="in the constructor"):
            await stage.peek(remember)
        assert not world.node.awake
        assert await world.rows(stage.Bell, "a") == {}
        assert await world.info(stage.Bell, "a") is None


async def test_on_wake_that_raises_gives_the_caller_that_error_and_undoes_its_writes(stage: Any) -> None:
    async with stage.world() as world:

        async def fail(self: Any) -> None:
            await self.storage.put("x", 1)
            await self.storage.set_alarm(SECOND)
            await asyncio.sleep(1)
            raise Expected("in on_wake")

        stage.on_wake = fail
        with pytest.raises(Expected, match="in on_wake"):
            await stage.do(remember)
        with pytest.raises(Expected, match="in on_wake"):
            await stage.peek(remember)
        assert not world.node.awake
        assert await world.rows(stage.Bell, "a") == {}
        assert await world.due() == []


async def test_the_next_call_tries_to_wake_it_again(stage: Any) -> None:
    async with stage.world() as world:

        async def fail_twice(self: Any) -> None:
            if len(stage.news) <= 2:
                raise Expected

        stage.on_wake = fail_twice
        results = await asyncio.gather(*(stage.do(remember) for _ in range(4)), return_exceptions=True)
        assert [type(result) for result in results[:2]] == [Expected, Expected]
        assert results[2:] == [1, 2]
        assert stage.news == ["a"] * 3
        assert await world.rows(stage.Bell, "a") == {"count": 2}


@pytest.mark.parametrize("where", ["constructor", "on_wake"])
async def test_a_due_alarm_counts_a_failed_wake_as_a_failure_of_the_handler(stage: Any, where: str) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        await stage.set_alarm(at)
        await world.sleep_all()

        def fail(self: Any) -> None:
            if len(stage.news) <= 4:
                raise Expected("can't wake")

        async def fail_later(self: Any) -> None:
            fail(self)

        if where == "constructor":
            stage.on_new = fail
        else:
            stage.on_wake = fail_later
        await world.advance(minutes=2)
        assert len(stage.news) == 5
        [info] = stage.infos()
        assert (info.retry_count, info.scheduled_at) == (3, at)
        ledger = await world.ledger(stage.Bell, "a")
        assert [(run.attempt, run.verdict) for run in ledger] == [
            (0, "failed"),
            (1, "failed"),
            (2, "failed"),
            (3, "run"),
        ]
        assert "can't wake" in ledger[0].error


async def test_an_alarm_that_never_wakes_its_object_is_parked(stage: Any) -> None:
    async with stage.world() as world:
        await stage.set_alarm(SECOND)
        await world.sleep_all()

        async def fail(self: Any) -> None:
            raise Expected("can't wake")

        stage.on_wake = fail
        await world.advance(minutes=4)
        assert len(stage.news) == 8
        [parked] = await world.parked()
        assert (parked.reason, parked.attempts) == ("failed", 7)
        assert "can't wake" in parked.error


async def test_what_on_wake_writes_is_durable_before_the_first_answer(stage: Any) -> None:
    async with stage.world() as world:

        async def wake(self: Any) -> None:
            await self.storage.put("woke", len(stage.news))

        async def look(self: Any) -> Any:
            return await self.storage.get("woke")

        stage.on_wake = wake
        assert await stage.do(look) == 1
        assert await world.rows(stage.Bell, "a") == {"woke": 1}
        await world.sleep_all()
        assert await stage.peek(look) == 2
        assert await world.rows(stage.Bell, "a") == {"woke": 2}
