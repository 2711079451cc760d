"""What is parked and let go: it never runs, those who wait for it hear of it, and nothing of it is left; on every store."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.desk import Desk, failing
from wakeful import JobSpec, RetryPolicy, errors
from wakeful.runtime.redrives import DROP

SECOND = timedelta(seconds=1)


async def drop(world: Any, parked: Any) -> None:
    await world.node.send(parked.timer.id, DROP, (parked.timer.name, parked.number), {})


async def fail_always(*_: Any) -> None:
    raise ValueError("no luck")


async def test_an_alarm_that_is_dropped_never_runs_and_its_attempts_stay_in_the_ledger(stage: Any) -> None:
    async with stage.world() as world:
        stage.handlers["a"] = fail_always
        await stage.set_alarm(world.now() + SECOND)
        await world.advance(minutes=4)
        [parked] = await world.parked()
        await world.sleep_all()
        wakes = world.node.meter.wakes.value
        await drop(world, parked)
        assert world.node.meter.wakes.value == wakes
        assert (await world.parked(), await world.due()) == ([], [])
        assert len(await world.ledger(stage.Bell, "a")) == 7
        await world.crash()
        await world.restart()
        await world.advance(minutes=10)
        assert (await world.parked(), len(stage.fired)) == ([], 7)
        with pytest.raises(errors.Conflict, match="no longer parked"):
            await drop(world, parked)


async def test_a_job_that_is_dropped_is_cancelled_and_so_are_those_that_wait_for_it(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1))
        waiting = await desk.jobs.schedule(desk.at().work, "y", depends_on=[job])
        await world.settle()
        assert await desk.state(waiting) == "waiting"
        [parked] = await world.parked()
        await drop(world, parked)
        await world.settle()
        assert (await desk.state(job), await desk.state(waiting)) == ("cancelled", "cancelled")
        assert (await desk.jobs.get(job.id)).error == "dropped"
        with pytest.raises(errors.JobCancelled):
            await desk.jobs.wait(job.id)
        with pytest.raises(errors.Conflict):
            await desk.jobs.redrive(job.id)
        await world.advance(hours=1)
        assert desk.labels == ["x"]


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_failed_job_can_be_cancelled_once(stage: Any, key: str | None) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1), key=key)
        await world.settle()
        assert await desk.jobs.cancel(job.id) is True
        assert (await desk.state(job), await world.parked()) == ("cancelled", [])
        assert await desk.jobs.cancel(job.id) is False
        assert [one.id for one in await desk.jobs.list(state="cancelled")] == [job.id]


async def test_a_batch_counts_one_that_failed_and_was_dropped_once(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        counts: list[Any] = []

        async def counting(clerk: Any, job: Any) -> None:
            counts.append(clerk.ctx.job.batch)

        desk.handlers["then"] = counting
        batch = [JobSpec(desk.at().work, ("x",), retry=RetryPolicy(1)), JobSpec(desk.at().work, ("slow",), after=60)]
        await desk.jobs.batch(batch, then=JobSpec(desk.at().work, ("then",)))
        await world.advance(seconds=5)
        [parked] = await world.parked()
        await drop(world, parked)
        await world.advance(seconds=100)
        assert counts == [{"done": 1, "failed": 1, "cancelled": 0}]


async def test_what_is_cancelled_and_rolled_back_stays_parked(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1))
        await world.settle()

        async def rolled_back(clerk: Any) -> None:
            with suppress(ZeroDivisionError):
                async with clerk.storage.transaction():
                    assert await clerk.jobs.cancel(job.id)
                    raise ZeroDivisionError

        await desk.do(rolled_back)
        assert (await desk.state(job), len(await world.parked())) == ("failed", 1)
