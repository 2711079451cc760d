"""Jobs while the store is away: waited for within the call deadline, then a typed error; never for ever, nothing half."""

import asyncio
from typing import Any

import pytest

from tests.conformance.desk import Desk
from wakeful import JobSpec, errors
from wakeful.testing.faults import Lag


def ways(desk: Desk, id: str) -> dict[str, Any]:
    """Every call about jobs, from outside."""
    jobs, work = desk.jobs, desk.at().work
    return {
        "schedule": lambda: jobs.schedule(work, "one"),
        "key": lambda: jobs.schedule(work, "keyed", key="k"),
        "replace": lambda: jobs.schedule(work, "newest", key="r", replace=True),
        "many": lambda: jobs.schedule_many([JobSpec(work, ("many",))]),
        "batch": lambda: jobs.batch([JobSpec(work, ("member",))], then=JobSpec(work, ("then",))),
        "get": lambda: jobs.get(id),
        "list": lambda: jobs.list(),
        "wait": lambda: jobs.wait(id, timeout="40s"),
        "cancel": lambda: jobs.cancel(id),
        "cancel_many": lambda: jobs.cancel_many(tag="none"),
    }


async def test_an_outage_of_seconds_is_waited_for(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at("other").work, "before", after="1d")
        world.faults.is_down = True
        with pytest.raises(errors.Unavailable):  # what is under way when it goes is told so
            await desk.do(lambda clerk: clerk.storage.put("x", 1))
        asked = {name: asyncio.ensure_future(way()) for name, way in ways(desk, job.id).items()}
        await world.advance(seconds=8)
        assert [name for name, one in asked.items() if one.done()] == []
        world.faults.is_down = False
        await world.advance(seconds=60)
        failed = {name: one.exception() for name, one in asked.items() if one.exception() is not None}
        assert set(failed) <= {"wait"}  # the job is a day ahead, or was cancelled
        labels = sorted(desk.labels)
        assert labels == ["keyed", "many", "member", "newest", "one", "then"]


async def test_an_outage_of_minutes_is_a_typed_error_by_the_deadline(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at("other").work, "before", after="1d")
        world.faults.is_down = True
        asked = {name: asyncio.ensure_future(way()) for name, way in ways(desk, job.id).items()}
        await world.advance(seconds=70)
        assert [name for name, one in asked.items() if not one.done()] == []
        for name, one in asked.items():
            assert isinstance(one.exception(), errors.Unavailable | errors.DeadlineExceeded), name
        await world.advance(minutes=5)
        world.faults.is_down = False
        await world.advance(minutes=5)
        assert desk.labels == []  # all were told that nothing was written


@pytest.mark.parametrize("verb", ["insert", "commit"])
async def test_an_answer_that_comes_seconds_late_is_waited_for(stage: Any, verb: str) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        world.faults.lag_once(verb, "late", 7_000)
        jobs = await asyncio.gather(*(desk.jobs.schedule(desk.at(f"k{n}").work, n, key=f"k{n}") for n in range(20)))
        await world.advance(seconds=60)
        assert sorted(desk.labels) == list(range(20))
        assert len({job.id for job in jobs}) == 20


@pytest.mark.parametrize("name", ["schedule", "many"])
async def test_one_that_is_on_its_way_again_at_the_deadline_is_not_said_to_be_unwritten(stage: Any, name: str) -> None:
    """The first try found the store away; the second is written, and its answer comes after the deadline."""
    desk = Desk(stage)
    async with desk.world() as world:
        world.faults.is_down = True
        asked = asyncio.ensure_future(ways(desk, "")[name]())
        await world.advance(milliseconds=1)
        world.faults.is_down = False
        world.faults.lag_once("insert", "late", 60_000)
        await world.advance(seconds=100)
        assert desk.labels == [{"schedule": "one"}.get(name, name)]
        with pytest.raises(errors.WakefulError) as caught:
            await asked
        assert isinstance(caught.value, errors.DeadlineExceeded | errors.OutcomeUnknown), caught.value
        assert "unknown" in caught.value.message


@pytest.mark.parametrize(("name", "verb"), [("many", "insert"), ("get", "find")])
async def test_who_asks_while_it_is_cancelled_hears_of_the_deadline_too(stage: Any, name: str, verb: str) -> None:
    """A `finally` of a task that was told to end asks: what the deadline says is not one more cancellation."""
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at("other").work, "before", after="1d")

        async def cleaning() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                world.faults.lag = lambda asked: Lag("late", 60_000) if asked == verb else None
                await ways(desk, job.id)[name]()

        task = asyncio.ensure_future(cleaning())
        await world.advance(milliseconds=1)
        task.cancel()
        await world.advance(seconds=70)
        world.faults.lag = None
        [told] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(told, errors.DeadlineExceeded), told
