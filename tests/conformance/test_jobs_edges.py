"""Where two things about a job meet (a cancel and a key, a redrive and a rollback, a quota and a race): what holds then, on every store."""

import asyncio
import sys
import types
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.desk import Desk, failing
from wakeful import Again, App, DurableObject, JobSpec, Quotas, RetryPolicy, Stop, errors, exponential
from wakeful.jobs.runs import JobRuns
from wakeful.store import Disk, MemoryStore


async def test_a_job_that_cancels_another_keeps_its_own_result(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():
        other = await desk.jobs.schedule(desk.at().work, "other", after="1h", key="k")

        async def cancels(clerk: Any, job: Any) -> str:
            return f"cancelled: {await clerk.jobs.cancel(other.id)}"

        desk.handlers["x"] = cancels
        job = await desk.jobs.schedule(desk.at().work, "x", key="mine", metadata={"a": 1})
        assert await desk.jobs.wait(job.id) == "cancelled: True"
        assert (await desk.jobs.get(job.id)).metadata == {"a": 1}
        assert await desk.state(other) == "cancelled"
        assert (await desk.jobs.schedule(desk.at().work, "x", key="mine", metadata={"a": 1})).state == "done"
        assert desk.labels == ["x"]


async def test_of_many_cancelled_in_one_turn_each_is_remembered(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def ask() -> list[Any]:
            return [
                await desk.jobs.schedule(desk.at().work, n, after=60, key=f"k{n}", metadata={"n": n}) for n in range(3)
            ]

        jobs = await ask()
        assert await desk.do(lambda clerk: clerk.jobs.cancel_many(key_prefix="k"), request_key="r") == 3
        assert [(await desk.jobs.get(job.id)).metadata for job in jobs] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert [job.state for job in await ask()] == ["cancelled"] * 3
        await world.advance(seconds=100)
        assert desk.seen == []


async def test_a_key_cancelled_and_asked_for_in_one_turn_is_taken_as_it_is_outside(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at().work, 1, after=60, key="k")

        async def anew(clerk: Any) -> str:
            await clerk.jobs.cancel(job.id)
            assert (await clerk.jobs.schedule(clerk.work, 1, after=60, key="k")).state == "cancelled"
            with pytest.raises(errors.KeyTaken):
                await clerk.jobs.schedule(clerk.work, 2, after=60, key="k")
            return str((await clerk.jobs.schedule(clerk.work, 3, after=60, key="k", replace=True)).state)

        assert await desk.do(anew) == "scheduled"
        await world.advance(seconds=100)
        assert (desk.labels, await desk.state(job)) == ([3], "done")


async def test_what_is_redriven_and_rolled_back_stays_parked(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1), key="k")
        await world.settle()

        async def rolled_back(clerk: Any) -> None:
            for redrives in (True, False):
                with suppress(ZeroDivisionError):
                    async with clerk.storage.transaction():
                        if redrives:
                            await clerk.jobs.redrive(job.id)
                        else:
                            await clerk.jobs.schedule(clerk.work, "y", key="k", replace=True)
                        raise ZeroDivisionError

        await desk.do(rolled_back)
        await world.advance(seconds=5)
        assert (len(desk.seen), [one.id for one in await desk.jobs.list(state="failed")]) == (1, [job.id])
        assert (await desk.jobs.redrive(job.id)).state == "scheduled"


async def test_two_redriven_in_one_turn_are_both_parked_no_more(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        jobs = [await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1)) for _ in range(2)]
        await world.settle()
        del desk.handlers["x"]

        async def both(clerk: Any) -> None:
            for job in jobs:
                await clerk.jobs.redrive(job.id)

        await desk.do(both)
        await world.settle()
        assert [await desk.state(job) for job in jobs] == ["done", "done"]
        assert await desk.jobs.list(state="failed") == []
        assert len(desk.seen) == 4


async def test_waits_that_grow_past_all_numbers_are_the_longest_wait(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        policy = RetryPolicy(160, exponential("1ms", factor=100, max="1ms"))
        job = await desk.jobs.schedule(desk.at().work, "x", retry=policy)
        await world.advance(seconds=5)
        assert (await desk.state(job), len(desk.seen)) == ("failed", 160)


async def test_a_failure_that_nobody_can_judge_is_tried_again(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing(1)
        judge, broken = JobRuns.failed, [True]

        async def judged(self: Any, *args: Any) -> Any:
            if broken.pop():
                broken.append(False)
                raise RuntimeError("a bug of ours")
            return await judge(self, *args)

        monkeypatch.setattr(JobRuns, "failed", judged)
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=10)
        assert (await desk.state(job), [seen.job.attempt for seen in desk.seen]) == ("done", [1, 1])


async def test_again_past_the_latest_time_is_a_failure_and_hides_nobody(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def again(clerk: Any, job: Any) -> Again:
            return Again(after=timedelta(days=9_000_000))

        desk.handlers["x"] = again
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(1))
        other = await desk.jobs.schedule(desk.at().work, "y", after=60)
        await world.advance(seconds=1)
        assert [one.id for one in await desk.jobs.list()] == [other.id, job.id]
        assert "9999-01-01" in str((await desk.jobs.get(job.id)).error)


async def test_a_job_that_stopped_itself_is_cancelled_also_when_only_the_ledger_knows(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def stop(clerk: Any, job: Any) -> Stop:
            return Stop("enough")

        desk.handlers["x"] = stop
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(hours=30)
        assert await desk.state(job) == "cancelled"
        assert [one.id for one in await desk.jobs.list(state="cancelled")] == [job.id]
        assert await desk.jobs.list(state="done") == []


async def test_the_same_call_is_the_same_in_whatever_order_its_names_come(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():
        first = await desk.jobs.schedule(desk.at().work, b=1, a=2, after=60, key="k", metadata={"b": 1, "a": 2})
        again = await desk.jobs.schedule(desk.at().work, a=2, b=1, after=60, key="k", metadata={"a": 2, "b": 1})
        assert first.id == again.id


async def test_a_job_cannot_wait_for_itself(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():
        job = await desk.jobs.schedule(desk.at().work, after=60, key="k")
        with pytest.raises(errors.BadOption, match="depends on itself"):
            await desk.jobs.schedule(desk.at().work, key="k", depends_on=[job], replace=True)


async def test_a_full_quota_lets_the_same_key_and_a_newer_version_pass(stage: Any) -> None:
    desk = Desk(stage, quotas=Quotas(jobs=1))
    async with desk.world() as world:
        first = await desk.jobs.schedule(desk.at().work, 1, after=60, key="k")
        assert (await desk.jobs.schedule(desk.at().work, 1, after=60, key="k")).id == first.id
        await desk.jobs.schedule(desk.at().work, 2, after=60, key="k", replace=True)
        with pytest.raises(errors.QuotaExceeded):
            await desk.jobs.schedule(desk.at().work, 3, after=60, key="other")
        await world.advance(seconds=100)
        assert desk.labels == [2]


async def test_a_full_quota_lets_many_pass_that_are_there_already(stage: Any) -> None:
    """Sent again because its answer was lost, the same list under the same keys was refused."""
    desk = Desk(stage, quotas=Quotas(jobs=2))
    async with desk.world() as world:
        specs = [JobSpec(desk.at().work, (n,), after=60, key=f"k{n}") for n in range(2)]
        first = await desk.jobs.schedule_many([*specs, specs[0]])  # the last is the first once more
        again = await desk.jobs.schedule_many(specs)
        assert [job.id for job in first] == [job.id for job in [*again, again[0]]]
        with pytest.raises(errors.QuotaExceeded):
            await desk.jobs.schedule_many([*specs, JobSpec(desk.at().work, after=60)])
        inside = await desk.do(lambda clerk: clerk.jobs.schedule_many(specs), "b")
        assert [job.id for job in inside] == [job.id for job in again]
        await world.advance(seconds=100)
        assert desk.labels == [0, 1]


async def test_callers_at_one_moment_pass_a_quota_no_more_than_one_after_the_other(stage: Any) -> None:
    desk = Desk(stage, quotas=Quotas(jobs=3))
    async with desk.world():
        asking = [desk.jobs.schedule(desk.at(f"acme/{n}").work, n, after=60) for n in range(20)]
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert sum(isinstance(answer, errors.QuotaExceeded) for answer in answers) == 17
        assert len(await desk.jobs.list()) == 3


async def test_a_quota_counts_what_lives_in_other_stores_too(stage: Any) -> None:
    desk = Desk(stage, quotas=Quotas(jobs=3), stores={"eu/": "memory:"})
    async with desk.world() as world:
        for n in range(3):
            await desk.jobs.schedule(desk.at(f"eu/{n}").work, n, after=60)
            await world.advance(seconds=5)
        with pytest.raises(errors.QuotaExceeded):
            await desk.jobs.schedule(desk.at("eu/x").work, after=60)


@pytest.mark.sources_only("it swaps Node.add_timer, which is called directly by what was compiled with it")
async def test_a_key_used_up_between_asking_and_inserting_is_said_to_be_taken(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        node = world.node
        add_timer = node.add_timer

        async def slowly(*given: Any) -> Any:
            node.add_timer = add_timer
            await desk.jobs.schedule(desk.at().work, "first", key="k")
            await world.settle()
            return await add_timer(*given)

        node.add_timer = slowly
        with pytest.raises(errors.KeyTaken):
            await desk.jobs.schedule(desk.at().work, "second", after="2d", key="k")
        await world.advance(days=3)
        assert desk.labels == ["first"]
        assert await desk.jobs.list(state="scheduled") == []


async def test_a_policy_in_a_module_that_the_class_imports_is_found_elsewhere(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("review_policies")
    exec(
        "from datetime import timedelta\n"
        "def later(job, error):\n    return job.due_at + timedelta(seconds=5) if job.attempt < 3 else None",
        vars(module),
    )
    monkeypatch.setitem(sys.modules, "review_policies", module)
    monkeypatch.setattr(sys.modules[__name__], "review_policies", module, raising=False)
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        await desk.jobs.schedule(desk.at().work, "x", after=1, retry=vars(module)["later"])
        await world.advance(seconds=60)
        assert desk.times == [1, 6, 11]


async def test_listing_lets_others_go_on_between_the_pages(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.jobs.queries.PAGE", 2)
    desk = Desk(stage)
    async with desk.world():
        for n in range(10):
            await desk.jobs.schedule(desk.at().work, n, after=60)
        breaths = 0

        async def breathe() -> None:
            nonlocal breaths
            while True:
                await asyncio.sleep(0)
                breaths += 1

        beside = asyncio.create_task(breathe())
        assert await desk.jobs.list(tag="none") == []
        beside.cancel()
        assert breaths >= 5


async def test_jobs_of_a_class_that_the_program_no_longer_has_can_be_cancelled() -> None:
    disk = Disk()
    old = App()

    @old.object
    class Gone(DurableObject):
        async def work(self) -> None:
            raise AssertionError("it was cancelled")

    async with old.run(MemoryStore(disk)):
        job = await old.jobs.schedule(old.get(Gone, "a").work, after="1h")
        keyed = await old.jobs.schedule(old.get(Gone, "b").work, after="1h", key="k")
    new = App()
    async with new.run(MemoryStore(disk)):
        assert [one.state for one in await new.jobs.list()] == ["scheduled", "scheduled"]
        assert await new.jobs.cancel(job.id) is True
        assert await new.jobs.cancel_many(key_prefix="k") == 1
        assert await new.jobs.cancel(keyed.id) is False
        assert await new.jobs.list(state="scheduled") == []


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.sources_only("it swaps Node.add_timers, which is called directly by what was compiled with it")
async def test_many_of_which_one_was_beaten_to_its_key_get_the_job_that_had_it(stage: Any, is_same: bool) -> None:
    """It came and went between asking and inserting: the answer told of a job that would never run."""
    desk = Desk(stage)
    async with desk.world() as world:
        node = world.node
        add_timers = node.add_timers

        async def slowly(*given: Any) -> Any:
            node.add_timers = add_timers
            await desk.jobs.schedule(desk.at().work, "x" if is_same else "other", key="k")
            await world.settle()
            return await add_timers(*given)

        node.add_timers = slowly
        twins = [JobSpec(desk.at().work, ("x",), key="k") for _ in range(2)]
        specs = [JobSpec(desk.at().work, ("y",), key="l", after=5), *twins]
        if is_same:
            jobs = await desk.jobs.schedule_many(specs)
            assert [job.state for job in jobs] == ["scheduled", "done", "done"]
        else:
            with pytest.raises(errors.KeyTaken, match=r"jobs\[1\]: .*'k' belongs to another"):
                await desk.jobs.schedule_many(specs)
        await world.advance(seconds=10)
        assert desk.labels == (["x", "y"] if is_same else ["other"])
        assert await world.due() == []


async def test_to_wait_for_a_result_that_is_not_kept_any_more_says_so(stage: Any) -> None:
    """It answered None, like a job that returned nothing."""
    desk = Desk(stage)
    async with desk.world() as world:

        async def answer(clerk: Any, job: Any) -> str:
            return "found"

        desk.handlers["x"] = answer
        jobs = [await desk.jobs.schedule(desk.at().work, label) for label in "xy"]
        assert [await desk.jobs.wait(job) for job in jobs] == ["found", None]
        await world.advance(hours=25)
        for job in jobs:
            assert (await desk.jobs.get(job)).state == "done"
            with pytest.raises(errors.UnknownJob, match="its result is not kept") as gone:
                await desk.jobs.wait(job)
            assert gone.value.code == "job.expired"
