"""The alarm fails, line by line as the specification says it (conformance-alarms.md), on every store."""

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.conformance.acts import SECOND, ms


async def fail_always(self: Any, info: Any) -> None:
    raise ValueError("no luck")


def check_backoff(stage: Any, attempts: int) -> None:
    """Each retry came 2, 4, … s after the failure before, plus at most a quarter."""
    times = stage.times()[-attempts:]
    for n, (before, after) in enumerate(pairwise(times)):
        assert 2 * 2**n * SECOND <= after - before <= 2.5 * 2**n * SECOND


async def test_a_handler_that_raises_is_tried_six_more_times_at_doubling_intervals(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        await world.advance(minutes=4)
        assert [info.retry_count for info in stage.infos()] == [0, 1, 2, 3, 4, 5, 6]
        assert [info.is_retry for info in stage.infos()] == [False] + [True] * 6
        assert {info.scheduled_at for info in stage.infos()} == {at}
        assert len({info.run_id for info in stage.infos()}) == 1
        check_backoff(stage, 7)
        ledger = await world.ledger(stage.Bell, "a")
        assert [(run.attempt, run.verdict) for run in ledger] == [(n, "failed") for n in range(7)]
        assert all("no luck" in run.error for run in ledger)


async def test_the_interval_counts_from_the_end_of_the_failed_attempt_and_is_jittered(stage: Any) -> None:
    async with stage.world() as world:
        ends: list[datetime] = []

        async def slow_failure(self: Any, info: Any) -> None:
            await asyncio.sleep(100)
            ends.append(self.ctx.now())
            raise ValueError

        for key in ("a", "b", "c", "d"):
            stage.handlers[key] = slow_failure
            await stage.set_alarm(SECOND, key)
        await world.advance(seconds=150)
        gaps = [stage.times(key)[1] - stage.times(key)[0] - 100 * SECOND for key in ("a", "b", "c", "d")]
        assert all(2 * SECOND <= gap <= 2.5 * SECOND for gap in gaps)
        assert len(set(gaps)) > 1


async def test_after_the_last_retry_it_is_parked_with_its_error_and_history(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        await world.advance(minutes=4)
        [parked] = await world.parked()
        assert (parked.timer.name, parked.reason, parked.attempts) == ("alarm", "failed", 7)
        assert parked.timer.nominal_at == ms(at)
        assert parked.run_id == stage.infos()[0].run_id
        assert parked.error == "ValueError: no luck"
        assert "fail_always" in parked.traceback
        assert await world.due() == []
        assert await stage.get_alarm() is None
        await world.advance(minutes=10)
        assert len(stage.fired) == 7
        assert len(await world.parked()) == 1


async def test_during_the_wait_for_a_retry_get_alarm_returns_the_failing_alarms_time(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        await world.advance(seconds=2)
        assert len(stage.fired) == 1
        assert await stage.get_alarm() == at
        await world.sleep_all()
        assert await stage.get_alarm() == at


@pytest.mark.parametrize("interruption", ["sleep", "crash", "restart"])
async def test_a_retry_survives_sleep_crash_and_restart_with_its_count(stage: Any, interruption: str) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND
        stage.handlers["a"] = fail_always
        await stage.set_alarm(at)
        for _ in range(20):
            seen = len(stage.fired)
            while len(stage.fired) == seen and seen < 7:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            await world.settle()
            if interruption == "sleep":
                await world.sleep_all()
            elif interruption == "crash":
                await world.crash()
                await world.restart()
            else:
                await world.restart()
        assert [info.retry_count for info in stage.infos()] == list(range(7))
        assert {info.scheduled_at for info in stage.infos()} == {at}
        check_backoff(stage, 7)
        assert len(await world.parked()) == 1


async def test_a_call_that_sets_the_alarm_during_the_wait_for_a_retry_replaces_it(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        stage.handlers["a"] = fail_always
        await stage.set_alarm(start + SECOND)
        await world.advance(seconds=4)
        assert [info.retry_count for info in stage.infos()] == [0, 1]
        del stage.handlers["a"]
        await stage.set_alarm(start + 60 * SECOND)
        await world.advance(minutes=4)
        assert [info.retry_count for info in stage.infos()] == [0, 1, 0]
        assert stage.times()[-1] == stage.infos()[-1].scheduled_at == start + 60 * SECOND
        assert stage.infos()[-1].run_id != stage.infos()[0].run_id


async def test_a_call_that_deletes_the_alarm_during_the_wait_for_a_retry_ends_it(stage: Any) -> None:
    async with stage.world() as world:
        stage.handlers["a"] = fail_always
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        await stage.delete_alarm()
        assert await stage.get_alarm() is None
        await world.advance(minutes=4)
        assert len(stage.fired) == 1
        assert await world.parked() == []


async def test_a_handler_that_set_a_new_alarm_and_then_raised_keeps_the_retry_and_nothing_else(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("wrote", info.retry_count)
            await self.storage.set_alarm(timedelta(days=1))
            if info.retry_count < 2:
                raise ValueError("after setting")

        stage.handlers["a"] = handler
        await stage.set_alarm(at)
        await world.advance(seconds=2)
        assert await stage.get_alarm() == at
        assert await world.rows(stage.Bell, "a") == {}
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0, 1, 2]
        assert await world.rows(stage.Bell, "a") == {"wrote": 2}
        assert await stage.get_alarm() == stage.times()[-1] + timedelta(days=1)


async def test_a_handler_that_deleted_its_alarm_and_then_raised_is_retried(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.delete_alarm()
            if not info.is_retry:
                raise ValueError("after deleting")

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0, 1]


async def test_a_handler_that_succeeds_after_retries_clears_the_count(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            if info.retry_count < 3:
                raise ValueError
            await self.storage.set_alarm(timedelta(minutes=5))

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=7)
        assert [info.retry_count for info in stage.infos()][:5] == [0, 1, 2, 3, 0]
        ledger = await world.ledger(stage.Bell, "a")
        assert [run.verdict for run in ledger][:5] == ["failed", "failed", "failed", "run", "failed"]


@pytest.mark.parametrize(
    "text", ["nul \0 inside", "lone \ud800 surrogate", "🙂 " * 5_000, ""], ids=["nul", "surrogate", "long", "empty"]
)
async def test_a_failure_with_any_text_is_written_down_retried_and_parked(stage: Any, text: str) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            raise ValueError(text)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=4)
        assert len(stage.fired) == 7
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["failed"] * 7
        assert len(await world.parked()) == 1


async def test_a_crash_during_the_handler_is_tried_again_at_once_without_being_counted(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("ran", len(stage.fired))
            if len(stage.fired) == 1:
                await asyncio.sleep(60)

        stage.handlers["a"] = handler
        await stage.set_alarm(at)
        await world.advance(seconds=5)
        await world.crash()
        assert await world.rows(stage.Bell, "a") == {}
        await world.restart()
        await world.settle()
        assert [info.retry_count for info in stage.infos()] == [0, 0]
        assert {info.scheduled_at for info in stage.infos()} == {at}
        assert len({info.run_id for info in stage.infos()}) == 1
        assert stage.times()[1] == world.now()
        assert await world.rows(stage.Bell, "a") == {"ran": 2}
        assert await world.due() == []


async def test_a_handler_that_kills_its_process_three_times_is_parked(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            world.kill()

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        for life in range(1, 4):
            await world.advance(minutes=1)
            assert len(stage.fired) == life
            await world.restart()
        await world.advance(minutes=10)
        assert [info.retry_count for info in stage.infos()] == [0, 0, 0]
        [parked] = await world.parked()
        assert (parked.reason, parked.timer.name, parked.attempts) == ("crashed", "alarm", 3)
        assert "died 3 times" in parked.error
        assert await stage.get_alarm() is None


async def test_innocents_that_ran_beside_a_killer_are_not_parked(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def killer(self: Any, info: Any) -> None:
            await asyncio.sleep(3)
            world.kill()

        async def innocent(self: Any, info: Any) -> None:
            await asyncio.sleep(5)
            await self.storage.put("done", True)

        stage.handlers["killer"] = killer
        await stage.set_alarm(at, "killer")
        for n in range(5):
            stage.handlers[f"innocent-{n}"] = innocent
            await stage.set_alarm(at, f"innocent-{n}")
        for _ in range(12):
            await world.advance(seconds=40)
            await world.restart()
        await world.advance(minutes=2)
        assert [parked.timer.id.key for parked in await world.parked()] == ["killer"]
        for n in range(5):
            assert await world.rows(stage.Bell, f"innocent-{n}") == {"done": True}
        assert len(stage.times("killer")) == 3


async def test_a_handler_cancelled_because_the_node_stops_is_not_counted_and_runs_again(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("x", 1)
            if len(stage.fired) < 6:
                await asyncio.sleep(600)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(seconds=2)
        for life in range(1, 6):
            assert len(stage.fired) == life
            await world.restart()
            await world.settle()
        assert [info.retry_count for info in stage.infos()] == [0] * 6
        assert await world.parked() == []
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]


async def test_a_store_that_goes_away_during_the_handler_is_not_counted(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            await self.storage.put("ran", len(stage.fired))
            if len(stage.fired) < 6:
                world.faults.is_down = True

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        for life in range(1, 6):
            await world.advance(minutes=1)
            assert len(stage.fired) == life  # and no more while the store is away
            world.faults.is_down = False
        await world.advance(minutes=1)
        assert [info.retry_count for info in stage.infos()] == [0] * 6
        assert len({info.run_id for info in stage.infos()}) == 1
        assert await world.parked() == []
        assert await world.rows(stage.Bell, "a") == {"ran": 6}
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]


async def test_an_unavailable_object_called_by_the_handler_is_not_counted_and_backs_off(stage: Any) -> None:
    from wakeful.values.errors import Unavailable

    async with stage.world() as world:

        async def handler(self: Any, info: Any) -> None:
            if len(stage.fired) < 12:
                raise Unavailable("the one it called is moving")

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        await world.advance(minutes=5)
        assert [info.retry_count for info in stage.infos()] == [0] * 12
        gaps = [after - before for before, after in pairwise(stage.times())]
        assert gaps[0] < SECOND
        assert gaps[-1] > 3 * SECOND
        assert await world.parked() == []
