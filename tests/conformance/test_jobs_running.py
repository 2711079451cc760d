"""What a running job is told, may return, and how many run at once; on every store."""

import asyncio
from typing import Any

import pytest

from tests.conformance.desk import Desk, at, failing
from wakeful import Again, JobSpec, Limits, RetryPolicy, Stop, errors, fixed


async def test_a_run_is_told_what_was_asked_for(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        asked = await desk.jobs.schedule(desk.at().work, "x", at=at(5), metadata={"a": "b"}, tags=["t"], priority=3)
        await world.advance(seconds=6)
        [seen] = desk.seen
        job = seen.job
        assert (job.id, job.name, job.due_at, job.metadata) == (asked.id, "work", at(5), {"a": "b"})
        assert (job.attempt, job.dequeue_count, job.state, job.tags, job.priority) == (1, 1, "running", ("t",), 3)
        assert job.run_id
        assert job.target == ("Clerk", "a")


async def test_outside_a_job_there_is_none(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():

        async def body(clerk: Any) -> Any:
            return clerk.ctx.job

        assert await desk.do(body) is None


async def test_attempts_count_from_one_and_each_has_a_run_id_of_its_own(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing(3)
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=60)
        assert [seen.job.attempt for seen in desk.seen] == [1, 2, 3, 4]
        assert len({seen.job.run_id for seen in desk.seen}) == 4
        assert all(seen.job.run_id for seen in desk.seen)
        assert {seen.job.id for seen in desk.seen} == {job.id}
        done = await desk.jobs.get(job.id)
        assert (done.attempt, done.run_id) == (4, desk.seen[-1].job.run_id)


async def test_a_redelivered_attempt_has_the_same_run_id(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def die(clerk: Any, job: Any) -> None:
            if len(desk.seen) == 1:
                world.kill()
                await asyncio.sleep(0)

        desk.handlers["x"] = die
        await desk.jobs.schedule(desk.at().work, "x")
        await world.settle()
        await world.restart()
        await world.settle()
        assert [seen.job.attempt for seen in desk.seen] == [1, 1]
        assert len({seen.job.run_id for seen in desk.seen}) == 1
        assert await desk.effects(world) == {"x": 1}


async def test_a_limit_of_three_with_ten_due_jobs(stage: Any) -> None:
    desk = Desk(stage)
    running, most = 0, 0

    async def count(clerk: Any, job: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    async with desk.world(limits=Limits(concurrent_turns=3)) as world:
        for n in range(10):
            desk.handlers[n] = count
            await desk.jobs.schedule(desk.at(str(n)).work, n, at=at(5))
        await world.advance(seconds=30)
        assert sorted(desk.labels) == list(range(10))
        assert most == 3


async def test_again_three_times_then_done(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def poll(clerk: Any, job: Any) -> Any:
            return Again(after="10s") if len(desk.seen) < 4 else "ready"

        desk.handlers["x"] = poll
        job = await desk.jobs.schedule(desk.at().work, "x", retry=never_asked, metadata={"a": "b"})
        await world.advance(seconds=100)
        assert desk.times == [0, 10, 20, 30]
        assert [seen.job.attempt for seen in desk.seen] == [1, 1, 1, 1]
        assert len({seen.job.run_id for seen in desk.seen}) == 4
        assert {seen.job.id for seen in desk.seen} == {job.id}
        done = await desk.jobs.get(job.id)
        assert (done.state, done.result, done.metadata) == ("done", "ready", {"a": "b"})
        assert await desk.effects(world) == {"x": 4}
        ledger = await world.ledger(desk.Clerk, "a")
        assert [run.verdict for run in ledger] == ["run"] * 4
        assert [run.nominal_at for run in ledger] == [at(0), at(10), at(20), at(30)]
        assert [seen.job.due_at for seen in desk.seen] == [at(0), at(10), at(20), at(30)]
        assert [run.error is None for run in ledger] == [False, False, False, True]
        counters = desk.jobs.counters()
        assert (counters["rescheduled"], counters["run"], counters["retried"]) == (3, 1, 0)


async def never_asked(job: Any, error: BaseException) -> None:
    raise AssertionError("the policy was asked")


async def test_attempts_start_again_after_again(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def poll(clerk: Any, job: Any) -> Any:
            if len(desk.seen) in (1, 3):
                raise ValueError("on purpose")
            return Again(after="10s") if len(desk.seen) == 2 else None

        desk.handlers["x"] = poll
        await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(2, fixed("1s")))
        await world.advance(seconds=60)
        assert [seen.job.attempt for seen in desk.seen] == [1, 2, 1, 2]


@pytest.mark.parametrize("delay", [0, -1, "0s", 0.0004])
def test_again_after_nothing_is_an_error(delay: Any) -> None:
    with pytest.raises(errors.BadInput):
        Again(after=delay)


async def test_stop_ends_it_for_good_and_keeps_what_it_wrote(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def stop(clerk: Any, job: Any) -> Any:
            return Stop("no longer wanted")

        desk.handlers["x"] = stop
        job = await desk.jobs.schedule(desk.at().work, "x")
        with pytest.raises(errors.JobCancelled, match="no longer wanted"):
            await desk.jobs.wait(job.id)
        await world.advance(hours=1)
        found = await desk.jobs.get(job.id)
        assert (found.state, found.error, len(desk.seen)) == ("cancelled", "no longer wanted", 1)
        assert await desk.effects(world) == {"x": 1}


async def test_a_result_is_kept_and_waited_for(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def give(clerk: Any, job: Any) -> Any:
            await asyncio.sleep(3)
            return {"a": [1, (2, 3)], "at": clerk.ctx.now()}

        desk.handlers["x"] = give
        job = await desk.jobs.schedule(desk.at().work, "x", after=2)
        with pytest.raises(errors.DeadlineExceeded):
            await desk.jobs.wait(job.id, timeout="1s")
        result = await desk.jobs.wait(job.id)
        assert result == {"a": [1, (2, 3)], "at": at(5)}
        assert world.now() == at(5)
        await world.crash()
        await world.restart()
        assert await desk.jobs.wait(job.id) == result
        await world.crash()
        await world.restart(after="25h")
        assert (await desk.jobs.get(job.id)).result is None  # kept for a day; the ledger knows a week


async def test_a_result_that_cannot_be_kept_is_a_failure_that_says_so(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def give(clerk: Any, job: Any) -> Any:
            return object()

        async def too_much(clerk: Any, job: Any) -> Any:
            return "x" * 2_000_000

        desk.handlers.update(x=give, y=too_much)
        odd = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1))
        large = await desk.jobs.schedule(desk.at().work, "y", retry=RetryPolicy(1))
        await world.settle()
        assert "result of job" in str((await desk.jobs.get(odd.id)).error)
        assert "more than the limit" in str((await desk.jobs.get(large.id)).error)
        assert await desk.effects(world) == {}


async def test_redelivery_of_the_same_attempt_joins_the_running_one(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(60)

        desk.handlers["x"] = slow
        await desk.jobs.schedule(desk.at().work, "x")
        for _ in range(5):
            await world.advance(seconds=5)
            world.node.dispatcher.read_again()
        await world.advance(seconds=60)
        assert (desk.labels, await desk.effects(world)) == (["x"], {"x": 1})


async def test_a_job_of_an_object_that_sleeps_after_each_turn(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world(sleep_after_turn=True) as world:
        await desk.jobs.schedule_many([JobSpec(desk.at().work, (n,), after=n) for n in range(5)])
        await world.advance(seconds=10)
        assert (desk.labels, desk.times) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


async def test_a_trace_is_carried_from_the_caller_through_every_attempt(stage: Any) -> None:
    from wakeful.values.trace import TRACE

    desk = Desk(stage)
    traces = []

    async def note(clerk: Any, job: Any) -> None:
        traces.append(TRACE.get())
        if len(traces) == 1:
            raise ValueError("on purpose")
        if len(traces) == 2:
            await clerk.jobs.schedule(clerk.ctx.get(desk.Clerk, "b").work, "x")

    desk.handlers["x"] = note
    async with desk.world() as world:
        token = TRACE.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        await desk.jobs.schedule(desk.at().work, "x")
        TRACE.reset(token)
        await world.crash()
        await world.restart()
        await world.advance(seconds=30)
        assert traces == ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"] * 3
