"""Cancelling is exact: the answer is what happens; on every store."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.desk import Desk, at, failing
from wakeful import Limits, RetryPolicy, errors, fixed
from wakeful.jobs.ids import parse_id


async def test_a_pending_job_is_cancelled_and_never_runs(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at().work, after=5, metadata={"a": "b"})
        assert await desk.jobs.cancel(job.id) is True
        found = await desk.jobs.get(job.id)
        assert (found.state, found.attempt, found.metadata) == ("cancelled", 0, {"a": "b"})
        await world.advance(seconds=60)
        assert desk.seen == []
        with pytest.raises(errors.JobCancelled):
            await desk.jobs.wait(job.id)


async def test_it_never_runs_also_after_a_crash(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = [await desk.jobs.schedule(desk.at().work, n, at=at(5)) for n in range(5)]
        assert await desk.jobs.cancel(jobs[2].id)
        world.kill()
        await world.restart(after="60s")
        await world.settle()
        assert desk.labels == [0, 1, 3, 4]
        assert await desk.state(jobs[2]) == "cancelled"


async def test_unknown_done_or_cancelled_already_is_false(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        done = await desk.jobs.schedule(desk.at().work)
        gone = await desk.jobs.schedule(desk.at().work, after=5)
        await world.settle()
        assert await desk.jobs.cancel(gone.id) is True
        for id in (done.id, gone.id, "Clerk/a/work%3Anone", "Clerk/new/%3Dnone", "nonsense", "a/b/c/d"):
            assert await desk.jobs.cancel(id) is False, id
        assert [await desk.state(job) for job in (done, gone)] == ["done", "cancelled"]


async def test_cancelling_wakes_nobody(stage: Any) -> None:
    desk = Desk(stage)
    woken = []

    @desk.app.object
    class Sleeper:
        def __init__(self, ctx: Any) -> None:
            woken.append(ctx.key)

        async def work(self) -> None: ...

    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.app.get(Sleeper, "a").work, after=5)
        assert await desk.jobs.cancel(job.id)
        assert (await desk.jobs.get(job.id)).state == "cancelled"
        await world.advance(seconds=60)
        assert woken == []


async def test_a_job_between_two_attempts_is_cancelled(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "x", retry=RetryPolicy(5, fixed("10s")))
        await world.advance(seconds=1)
        assert await desk.jobs.cancel(job.id) is True
        await world.advance(seconds=60)
        assert (len(desk.seen), await desk.state(job), await world.parked()) == (1, "cancelled", [])


async def test_a_running_job_is_asked_to_stop_and_the_answer_is_true_when_it_does(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        heard = []

        async def slow(clerk: Any, job: Any) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard.append(clerk.ctx.now())
                raise

        desk.handlers["x"] = slow
        job = await desk.jobs.schedule(desk.at().work, "x")
        beside = await desk.jobs.schedule(desk.at().work, "beside", after=2)
        await world.advance(seconds=5)
        assert await desk.state(job) == "running"
        assert await desk.jobs.cancel(job.id) is True
        assert (heard, world.now()) == ([at(5)], at(5))
        await world.advance(seconds=600)
        assert (await desk.state(job), await desk.state(beside)) == ("cancelled", "done")
        assert await desk.effects(world) == {"beside": 1}
        assert desk.labels == ["x", "beside"]
        assert await world.parked() == []


async def test_what_a_job_had_committed_before_it_was_cancelled_stays_and_the_rest_is_undone(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def in_parts(clerk: Any, job: Any) -> None:
            await clerk.ctx.commit()
            await clerk.storage.put("did:rest", 1)
            await asyncio.sleep(60)

        desk.handlers["x"] = in_parts
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=1)
        assert await desk.jobs.cancel(job.id) is True
        await world.advance(seconds=100)
        assert (await desk.effects(world), len(desk.seen), await desk.state(job)) == ({"x": 1}, 1, "cancelled")


async def test_a_running_job_that_will_not_stop_wins_and_the_answer_is_false(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def stubborn(clerk: Any, job: Any) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(10)
            return "done all the same"

        desk.handlers["x"] = stubborn
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=5)
        assert await desk.jobs.cancel(job.id) is False
        assert world.now() == at(15)
        found = await desk.jobs.get(job.id)
        assert (found.state, found.result, len(desk.seen)) == ("done", "done all the same", 1)


async def test_a_running_job_that_says_it_was_stopped_in_its_own_words_is_cancelled(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def wordy(clerk: Any, job: Any) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise RuntimeError("interrupted") from None

        desk.handlers["x"] = wordy
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=5)
        assert await desk.jobs.cancel(job.id) is True
        await world.advance(seconds=100)
        assert (await desk.state(job), len(desk.seen), await world.parked()) == ("cancelled", 1, [])


async def test_a_cancel_that_its_caller_gave_up_leaves_the_job_to_run(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(10)

        async def hold(clerk: Any) -> None:
            await asyncio.sleep(20)

        desk.handlers["x"] = slow
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.advance(seconds=1)
        first = asyncio.ensure_future(desk.do(hold))  # waits before the cancel in the object's mailbox
        await world.settle()
        cancel = asyncio.ensure_future(desk.jobs.cancel(job.id))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancel.cancel()
        await asyncio.gather(cancel, return_exceptions=True)
        await first
        await world.advance(seconds=60)
        state = await desk.state(job)
        assert (state, await desk.effects(world)) in [("done", {"x": 1}), ("cancelled", {})]


async def test_a_job_cannot_cancel_itself(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        answers = []

        async def body(clerk: Any, job: Any) -> None:
            answers.append(await clerk.jobs.cancel(job.id))

        desk.handlers["x"] = body
        job = await desk.jobs.schedule(desk.at().work, "x")
        await world.settle()
        assert (answers, await desk.state(job)) == ([False], "done")


async def test_a_turn_cancels_its_own_jobs_with_itself(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = [await desk.jobs.schedule(desk.at().work, n, after=5) for n in range(3)]

        async def fail(clerk: Any) -> None:
            assert await clerk.jobs.cancel(jobs[0].id)
            raise ValueError("on purpose")

        async def succeed(clerk: Any) -> Any:
            new = await clerk.jobs.schedule(clerk.work, "new")
            other = await clerk.jobs.schedule(clerk.ctx.get(desk.Clerk, "b").work, "other")
            return [await clerk.jobs.cancel(job) for job in (jobs[1], jobs[2], jobs[2], new, other)]

        with pytest.raises(ValueError, match="on purpose"):
            await desk.do(fail)
        assert await desk.do(succeed) == [True, True, False, True, True]
        await world.advance(seconds=60)
        assert desk.labels == [0]
        assert [await desk.state(job) for job in jobs] == ["done", "cancelled", "cancelled"]


async def test_a_turn_cancels_a_job_of_another_object(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at("b").work, after=5)

        async def body(clerk: Any) -> Any:
            return await clerk.jobs.cancel(job.id)

        assert await desk.do(body) is True
        await world.advance(seconds=10)
        assert desk.seen == []


async def test_cancelling_all_that_is_due_at_an_instant_yields_nothing_at_that_instant(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = [await desk.jobs.schedule(desk.at(str(n % 3)).work, n, at=at(5)) for n in range(12)]
        kept = await desk.jobs.schedule(desk.at().work, "kept", at=at(6))
        assert all(await asyncio.gather(*(desk.jobs.cancel(job.id) for job in jobs)))
        await world.advance(seconds=10)
        assert (desk.labels, await desk.state(kept)) == (["kept"], "done")
        assert await world.due() == []


async def test_the_first_of_an_instant_cancels_those_behind_it(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs: list[Any] = []

        async def clear(clerk: Any, job: Any) -> None:
            assert all([await clerk.jobs.cancel(other) for other in jobs])

        desk.handlers["first"] = clear
        await desk.jobs.schedule(desk.at().work, "first", at=at(5), priority=1)
        jobs += [await desk.jobs.schedule(desk.at().work, n, at=at(5)) for n in range(10)]
        await world.advance(seconds=10)
        assert desk.labels == ["first"]


async def test_cancel_races_with_the_run_and_the_answer_is_always_right(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def short(clerk: Any, job: Any) -> None:
            await asyncio.sleep(0.002)

        for n in range(30):
            desk.handlers[n] = short
        jobs = [await desk.jobs.schedule(desk.at(str(n % 5)).work, n, after=0.5 + 0.001 * (n % 7)) for n in range(30)]

        async def cancel(n: int) -> bool:
            await asyncio.sleep(0.5 + 0.001 * (n % 11))
            return await desk.jobs.cancel(jobs[n].id)

        answers = await asyncio.gather(*(cancel(n) for n in range(30)))
        await world.advance(seconds=60)
        states = [await desk.state(job) for job in jobs]
        assert states == ["cancelled" if answer else "done" for answer in answers]
        did: dict[str, int] = {}
        for key in range(5):
            did |= await desk.effects(world, str(key))
        assert did == {str(n): 1 for n in range(30) if not answers[n]}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cancel_whose_commit_fails_is_told_apart_from_an_answer(stage: Any, when: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at().work, after=30)
        world.faults.fail_commit(0, when=when)
        with pytest.raises(errors.Unavailable):
            await desk.jobs.cancel(job.id)
        await world.advance(seconds=10)
        assert await desk.jobs.cancel(job.id) is (when == "before")
        await world.advance(seconds=60)
        assert desk.seen == []


async def test_cancel_many_by_key_prefix_target_method_and_tag(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        for n in range(3):
            await desk.jobs.schedule(desk.at("a").work, f"mail {n}", key=f"mail:{n}", after=5)
            await desk.jobs.schedule(desk.at("b").work, f"bill {n}", key=f"bill:{n}", after=5, tags=["money"])
            await desk.jobs.schedule(desk.at("c").other, f"other {n}", after=5)
        assert await desk.jobs.cancel_many(key_prefix="mail:") == 3
        assert await desk.jobs.cancel_many(key_prefix="mail:") == 0
        assert await desk.jobs.cancel_many(tag="money", key_prefix="bill:1") == 1
        assert await desk.jobs.cancel_many(cls=desk.Clerk, key="c", name="other") == 3
        with pytest.raises(errors.BadOption):
            await desk.jobs.cancel_many()
        await world.advance(seconds=10)
        assert sorted(desk.labels) == ["bill 0", "bill 2"]


async def test_a_keyed_job_that_is_still_on_its_way_is_cancelled(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def ask(clerk: Any) -> Any:
            job = await clerk.jobs.schedule(clerk.ctx.get(desk.Clerk, "b").work, "x", key="k", after=5)
            assert parse_id(job.id) == (("Clerk", "b"), "job:=k")
            return job

        job = await desk.do(ask)
        assert await desk.jobs.cancel(job.id) is True
        await world.advance(seconds=20)
        assert desk.seen == []


async def test_a_keyed_job_that_has_not_come_to_its_target_is_cancelled_on_its_way(stage: Any) -> None:
    is_overloaded = [True]  # so that nothing that is due is begun, what brings the job to its target neither
    desk = Desk(stage, overloaded=lambda: is_overloaded[0])
    async with desk.world() as world:

        async def ask(clerk: Any) -> Any:
            return await clerk.jobs.schedule(clerk.ctx.get(desk.Clerk, "b").work, "x", key="k", after=5)

        job = await desk.do(ask)
        await world.advance(seconds=1)
        assert await desk.jobs.cancel(job.id) is True
        is_overloaded[0] = False
        await world.advance(seconds=20)
        assert (desk.seen, await world.due()) == ([], [])


async def test_a_job_that_waits_for_a_slot_is_cancelled_before_it_begins(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world(limits=Limits(concurrent_turns=1)) as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(300)

        desk.handlers.update(first=slow, second=slow)
        await desk.jobs.schedule(desk.at("a").work, "first")
        await world.advance(seconds=1)
        job = await desk.jobs.schedule(desk.at("b").work, "second")
        await world.advance(seconds=1)
        answer = asyncio.ensure_future(desk.jobs.cancel(job.id))
        with suppress(errors.DeadlineExceeded):
            await answer
        await world.advance(seconds=2_000)
        state = await desk.state(job)
        assert (state, desk.labels) in [("cancelled", ["first"]), ("done", ["first", "second"])]


async def test_the_alarm_of_an_object_that_sleeps_is_not_disturbed_by_cancelling_its_jobs(stage: Any) -> None:
    desk = Desk(stage)
    rung = []

    @desk.app.object
    class Clock:
        def __init__(self, ctx: Any) -> None:
            self.ctx = ctx

        async def set(self) -> None:
            await self.ctx.set_alarm(at(20))

        async def alarm(self) -> None:
            rung.append(self.ctx.now())

        async def work(self) -> None: ...

    async with desk.world() as world:
        stub = desk.app.get(Clock, "a")
        await stub.set()
        jobs = [await desk.jobs.schedule(stub.work, after=60) for _ in range(3)]
        await world.advance(seconds=15)
        await world.sleep_all()
        for job in jobs:
            assert await desk.jobs.cancel(job.id)
        await world.advance(seconds=10)
        assert rung == [at(20)]
