"""Jobs that fail: tried again, given up, parked, redriven; on every store."""

import asyncio
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.desk import Desk, at, failing
from wakeful import Job, Limits, RetryPolicy, Stop, errors, exponential, fixed


async def test_fails_until_the_third_attempt(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing(2)
        job = await desk.jobs.schedule(desk.at().work, "x", metadata={"a": "b"})
        await world.advance(seconds=60)
        assert [seen.job.attempt for seen in desk.seen] == [1, 2, 3]
        assert {seen.job.id for seen in desk.seen} == {job.id}
        assert (await desk.state(job), await desk.effects(world)) == ("done", {"x": 1})
        verdicts = [(run.verdict, run.attempt) for run in await world.ledger(desk.Clerk, "a")]
        assert verdicts == [("failed", 0), ("failed", 1), ("run", 2)]


async def test_the_default_is_five_attempts_with_waits_of_2_4_8_16_seconds(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=100)
        waits = [b - a for a, b in zip(desk.times, desk.times[1:], strict=False)]
        for wait, least in zip(waits, (2, 4, 8, 16), strict=True):
            assert least <= wait <= least * 1.25
        found = await desk.jobs.get(job.id)
        assert (found.state, found.attempt, found.error) == ("failed", 5, "ValueError: on purpose")
        [parked] = await world.parked()
        assert (parked.attempts, parked.reason) == (5, "failed")


async def test_a_policy_says_how_often_after_what_waits_and_for_which_errors(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing(error=TimeoutError)
        desk.handlers["y"] = failing(error=ValueError)
        policy = RetryPolicy(4, exponential("1s", factor=3, max="4s"), on=(OSError,))
        slow = await desk.jobs.schedule(desk.at("x").work, "x", retry=policy)
        other = await desk.jobs.schedule(desk.at("y").work, "y", retry=policy)
        await world.advance(seconds=60)
        assert (desk.labels.count("x"), desk.labels.count("y")) == (4, 1)
        assert {await desk.state(slow), await desk.state(other)} == {"failed"}


def later(job: Job, error: BaseException) -> datetime | None:
    assert job.state == "running"
    assert "on purpose" in str(job.error)
    return at(10 * job.attempt) if isinstance(error, ValueError) and job.attempt < 4 else None


async def later_still(job: Job, error: BaseException) -> datetime | None:
    await asyncio.sleep(1)
    return later(job, error)


def broken(job: Job, error: BaseException) -> datetime | None:
    raise KeyError("in the policy")


def past(job: Job, error: BaseException) -> datetime | None:
    return at(-100) if job.attempt < 3 else None


def nonsense(job: Job, error: BaseException) -> Any:
    return 5


@pytest.mark.parametrize("policy", [later, later_still])
async def test_a_policy_function_says_when_and_none_parks(stage: Any, policy: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=policy)
        await world.advance(seconds=100)
        assert (desk.times, await desk.state(job)) == ([0, 10, 20, 30], "failed")


async def test_a_policy_that_returns_a_past_time_means_at_once(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=past)
        await world.advance(seconds=1)
        assert (desk.times, await desk.state(job)) == ([0, 0, 0], "failed")


@pytest.mark.parametrize(("policy", "text"), [(broken, "in the policy"), (nonsense, "must return a datetime")])
async def test_a_policy_that_raises_parks_with_both_errors(stage: Any, policy: Any, text: str) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=policy)
        await world.advance(seconds=100)
        found = await desk.jobs.get(job.id)
        assert (found.state, len(desk.seen)) == ("failed", 1)
        assert "on purpose" in str(found.error)
        assert text in str(found.error)


async def test_a_policy_may_be_a_method_of_the_target(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        for given in ("policy", desk.at().policy, desk.Clerk.policy):
            await desk.jobs.schedule(desk.at("x").work, "x", retry=given)
            await world.crash()
            await world.restart()
            start = world.now()
            await world.advance(seconds=60)
            assert [when - (start - at(0)).total_seconds() for when in desk.times] == [0, 7, 14]
            desk.seen.clear()


async def test_a_policy_that_cannot_be_found_any_more_parks_and_is_named(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=later, after=1)
        monkeypatch.delattr(sys.modules[__name__], "later")  # a newer program, without it
        await world.advance(seconds=100)
        found = await desk.jobs.get(job.id)
        assert found.state == "failed"
        assert "test_jobs_failing:later" in str(found.error)


async def test_a_policy_is_found_in_the_modules_of_the_programs_classes(stage: Any) -> None:
    desk = Desk(stage)
    desk.Clerk.__module__ = "desk"
    desk.app.object(Elsewhere)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        await desk.jobs.schedule(desk.at().work, "x", retry=later, after=1)
        await world.advance(seconds=100)
        assert desk.times == [1, 10, 20, 30]


class Elsewhere:
    """Makes this module one of the program's own."""

    def __init__(self, ctx: Any) -> None: ...


async def test_a_policy_that_no_module_of_a_class_can_see_is_refused_when_it_is_given(stage: Any) -> None:
    """It was taken, and found for as long as this process lived; then the job parked at its first failure."""
    desk = Desk(stage)
    desk.Clerk.__module__ = "desk"
    async with desk.world() as world:
        with pytest.raises(
            errors.BadHandler, match=r"test_jobs_failing:later would not be found after a restart"
        ) as no:
            await desk.jobs.schedule(desk.at().work, "x", retry=later)
        assert no.value.code == "job.retry"
        assert await world.due() == []


async def test_a_terminal_failure_parks_the_job_and_nothing_else_keeps_it_alive(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(2, fixed("1s")))
        await desk.jobs.schedule(desk.at().work, "beside")
        await world.advance(seconds=10)
        assert await world.due() == []
        assert len(await world.parked()) == 1
        await world.crash()
        await world.restart(after="1d")
        await world.advance(hours=1)
        assert desk.labels == ["x", "beside", "x"]


async def test_a_parked_job_is_redriven_with_a_fresh_count(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing(3)
        policy = RetryPolicy(2, fixed("1s"))
        job = await desk.jobs.schedule(desk.at().work, "x", retry=policy, metadata={"a": "b"}, key="k")
        await world.advance(seconds=10)
        assert await desk.state(job) == "failed"
        again = await desk.jobs.redrive(job.id)
        assert (again.id, again.state, again.metadata) == (job.id, "scheduled", {"a": "b"})
        await world.advance(seconds=10)
        assert [seen.job.attempt for seen in desk.seen] == [1, 2, 1, 2]
        assert (await desk.state(job), await world.parked()) == ("done", [])
        with pytest.raises(errors.Conflict):
            await desk.jobs.redrive(job.id)
        with pytest.raises(errors.Conflict):
            await desk.jobs.redrive("Clerk/a/work%3Anone")


async def test_waiting_for_a_job_that_fails_says_so(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1))
        with pytest.raises(errors.JobFailed, match="on purpose"):
            await desk.jobs.wait(job.id)


async def test_the_handlers_own_cancellation_error_counts_as_a_failure(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing(1, asyncio.CancelledError)
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=10)
        assert [seen.job.attempt for seen in desk.seen] == [1, 2]
        assert await desk.state(job) == "done"


async def test_the_nodes_stopping_is_not_counted(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            if len(desk.seen) < 5:
                await asyncio.sleep(3600)

        desk.handlers["x"] = slow
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(2))
        for _ in range(4):
            await world.advance(seconds=1)
            await world.restart()
        await world.settle()
        assert [seen.job.attempt for seen in desk.seen] == [1] * 5
        assert (await desk.state(job), await desk.effects(world)) == ("done", {"x": 1})


async def test_if_writing_the_retry_fails_others_go_on_and_the_job_is_not_lost(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world(limits=Limits(concurrent_turns=1)) as world:  # a slot that is not freed would hold up all

        async def fail_twice(clerk: Any, job: Any) -> None:
            if len([label for label in desk.labels if label == "x"]) == 1:
                world.faults.fail_commit(0)  # the commit that would write the failure
                raise ValueError("on purpose")

        desk.handlers["x"] = fail_twice
        job = await desk.jobs.schedule(desk.at().work, "x")
        others = [await desk.jobs.schedule(desk.at(str(n)).work, n, after=5) for n in range(5)]
        await world.advance(seconds=60)
        assert await desk.state(job) == "done"
        assert {await desk.state(other) for other in others} == {"done"}
        assert await desk.effects(world) == {"x": 1}


async def test_a_retry_keeps_id_and_metadata_and_the_attempt_survives_a_takeover(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing(2)
        policy = RetryPolicy(5, fixed("10s"))
        job = await desk.jobs.schedule(desk.at().work, "x", retry=policy, metadata={"ä": "b"}, tags=["t"])
        await world.advance(seconds=1)
        between = await desk.jobs.get(job.id)
        assert (between.id, between.state, between.attempt, between.metadata) == (job.id, "scheduled", 1, {"ä": "b"})
        assert between.due_at >= at(10)
        assert between.error == "ValueError: on purpose"
        await world.crash()
        await world.restart()
        await world.advance(seconds=60)
        assert [seen.job.attempt for seen in desk.seen] == [1, 2, 3]
        assert {(seen.job.id, seen.job.tags) for seen in desk.seen} == {(job.id, ("t",))}


async def test_a_job_that_kills_the_process_three_times_is_parked_with_that_reason(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def die(clerk: Any, job: Any) -> None:
            world.kill()
            await asyncio.sleep(0)

        desk.handlers["x"] = die
        job = await desk.jobs.schedule(desk.at().work, "x")
        for _ in range(6):
            await world.settle()
            await world.restart()
        await world.advance(seconds=5)
        assert len(desk.seen) == 3
        found = await desk.jobs.get(job.id)
        assert (found.state, found.attempt, found.error) == ("failed", 3, "the process died 3 times while this ran")
        [parked] = await world.parked()
        assert parked.reason == "crashed"


async def test_a_job_that_takes_longer_than_it_may_is_undone_and_tried_again(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            if len(desk.seen) == 1:
                await asyncio.sleep(3600)

        desk.handlers["x"] = slow
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(timedelta(minutes=20))
        assert (len(desk.seen), await desk.state(job), await desk.effects(world)) == (2, "done", {"x": 1})


async def test_an_object_that_cannot_wake_has_its_jobs_tried_and_parked(stage: Any) -> None:
    desk = Desk(stage)

    @desk.app.object
    class Sick:
        def __init__(self, ctx: Any) -> None:
            raise RuntimeError("can't wake")

        async def work(self) -> None: ...

    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.app.get(Sick, "a").work, retry=RetryPolicy(2, fixed("1s")))
        await world.advance(seconds=10)
        found = await desk.jobs.get(job.id)
        assert (found.state, found.attempt) == ("failed", 2)
        assert "can't wake" in str(found.error)


class Unspeakable(Exception):
    """One that fails at saying what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words \ud800")


@pytest.mark.parametrize(
    "error",
    [ValueError("nul \0 inside"), ValueError("lone \ud800 surrogate"), Unspeakable()],
    ids=["nul", "lone", "none"],
)
async def test_a_job_that_fails_with_any_text_is_given_up_and_says_so(stage: Any, error: Exception) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def handler(clerk: Any, job: Job) -> None:
            raise error

        desk.handlers["x"] = handler
        policy = RetryPolicy(max_attempts=2, backoff=fixed("1s"))
        job = await desk.jobs.schedule(desk.at().work, "x", retry=policy)
        await world.advance(minutes=1)
        found = await desk.jobs.get(job.id)
        assert (found.state, len(desk.seen)) == ("failed", 2)
        assert type(error).__name__ in str(found.error)
        assert len(await world.parked()) == 1


async def test_a_job_may_stop_for_any_reason(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def handler(clerk: Any, job: Job) -> Stop:
            return Stop("nul \0 and lone \ud800")

        desk.handlers["x"] = handler
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(minutes=1)
        assert (await desk.state(job), len(desk.seen)) == ("cancelled", 1)
