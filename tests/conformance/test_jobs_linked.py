"""Jobs that wait for others, and batches with a completion job; on every store."""

from typing import Any

import pytest

from tests.conformance.desk import Desk, at, failing
from wakeful import JobSpec, RetryPolicy, Stop, errors


async def test_a_job_waits_for_those_it_depends_on(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        a = await desk.jobs.schedule(desk.at("a").work, "a", after=5)
        b = await desk.jobs.schedule(desk.at("b").work, "b", after=9)
        c = await desk.jobs.schedule(desk.at("c").work, "c", depends_on=[a, b.id])
        d = await desk.jobs.schedule(desk.at("a").work, "d", depends_on=[c])
        e = await desk.jobs.schedule(desk.at("a").work, "e", depends_on=[a], at=at(20))
        found = await desk.jobs.get(c.id)
        assert (c.state, found.state, set(found.depends_on)) == ("waiting", "waiting", {a.id, b.id})
        await world.advance(seconds=6)
        assert set((await desk.jobs.get(c.id)).depends_on) == {b.id}
        await world.advance(seconds=60)
        assert list(zip(desk.labels, desk.times, strict=True)) == [("a", 5), ("b", 9), ("c", 9), ("d", 9), ("e", 20)]
        assert {await desk.state(job) for job in (a, b, c, d, e)} == {"done"}
        assert await world.due() == []


async def test_it_waits_also_over_crashes(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        a = await desk.jobs.schedule(desk.at("a").work, "a", after=5)
        await desk.jobs.schedule(desk.at("b").work, "b", depends_on=[a])
        world.kill()
        await world.restart()
        await world.settle()
        await world.crash()
        await world.restart(after="10s")
        await world.advance(seconds=1)
        assert desk.labels == ["a", "b"]


async def test_one_that_is_done_already_is_not_waited_for(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        a = await desk.jobs.schedule(desk.at("a").work, "a")
        await world.settle()
        b = await desk.jobs.schedule(desk.at("b").work, "b", depends_on=[a])
        assert b.state == "scheduled"
        await world.settle()
        assert desk.labels == ["a", "b"]


async def test_those_who_wait_for_a_cancelled_one_are_cancelled_too_and_say_why(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def stop(clerk: Any, job: Any) -> Any:
            return Stop("enough")

        desk.handlers["stop"] = stop
        a = await desk.jobs.schedule(desk.at("a").work, "a", after=5)
        b = await desk.jobs.schedule(desk.at("b").work, "b", depends_on=[a])
        c = await desk.jobs.schedule(desk.at("c").work, "c", depends_on=[b])
        s = await desk.jobs.schedule(desk.at("a").work, "stop", after=1)
        t = await desk.jobs.schedule(desk.at("b").work, "t", depends_on=[s])
        late = await desk.jobs.schedule(desk.at("b").work, "late", depends_on=[a])
        await world.advance(seconds=2)
        await desk.jobs.cancel(a.id)
        await world.settle()
        for job, other in ((b, a), (c, b), (t, s), (late, a)):
            found = await desk.jobs.get(job.id)
            assert (found.state, other.id in str(found.error)) == ("cancelled", True)
        after = await desk.jobs.schedule(desk.at("b").work, "after", depends_on=[a])
        await world.advance(seconds=60)
        assert await desk.state(after) == "cancelled"
        assert desk.labels == ["stop"]


async def test_those_who_wait_for_a_failed_one_wait_until_it_is_redriven(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["a"] = failing(1)
        a = await desk.jobs.schedule(desk.at("a").work, "a", retry=RetryPolicy(1), after=5)
        b = await desk.jobs.schedule(desk.at("b").work, "b", depends_on=[a])
        await world.advance(seconds=60)
        c = await desk.jobs.schedule(desk.at("c").work, "c", depends_on=[a])
        await world.advance(seconds=60)
        assert (await desk.state(a), await desk.state(b), await desk.state(c)) == ("failed", "waiting", "waiting")
        await desk.jobs.redrive(a.id)
        await world.settle()
        assert sorted(desk.labels) == ["a", "a", "b", "c"]


async def test_a_waiting_job_is_cancelled_and_what_it_waited_for_runs(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        a = await desk.jobs.schedule(desk.at("a").work, "a", after=5)
        b = await desk.jobs.schedule(desk.at("b").work, "b", depends_on=[a])
        await world.settle()
        assert await desk.jobs.cancel(b.id) is True
        await world.advance(seconds=10)
        assert (desk.labels, await desk.state(b)) == (["a"], "cancelled")


async def test_a_chain_made_in_one_turn(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(clerk: Any) -> None:
            b = clerk.ctx.get(desk.Clerk, "b")
            one = await clerk.jobs.schedule(clerk.work, 1, after=2)
            two = await clerk.jobs.schedule(b.work, 2, depends_on=[one])
            three = await clerk.jobs.schedule(b.work, 3, key="three", depends_on=[two])
            await clerk.jobs.schedule(clerk.work, 4, depends_on=[three])

        await desk.do(body)
        await world.advance(seconds=10)
        assert (desk.labels, desk.times) == ([1, 2, 3, 4], [2] * 4)


async def test_a_job_with_many_dependents(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        a = await desk.jobs.schedule(desk.at("a").work, "a", after=5)
        await desk.jobs.schedule_many([JobSpec(desk.at(str(n % 3)).work, (n,), depends_on=[a]) for n in range(60)])
        await world.advance(seconds=10)
        assert desk.labels[0] == "a"
        assert sorted(desk.labels[1:]) == list(range(60))
        [row] = await world.store.load([a.target])
        assert [slot for slot in row.rows if str(slot[1]).startswith("jobs.")] == []


async def test_a_dependency_that_is_unknown_is_refused(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():
        with pytest.raises(errors.UnknownJob, match="depends on"):
            await desk.jobs.schedule(desk.at().work, depends_on=["Clerk/a/work%3Anone"])


# batches


async def test_the_completion_job_runs_once_when_all_have_ended_well_or_not(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["bad"] = failing()
        specs = [JobSpec(desk.at(str(n % 4)).work, (n,), after=n) for n in range(10)]
        specs.append(JobSpec(desk.at("bad").work, ("bad",), retry=RetryPolicy(1)))
        batch = await desk.jobs.batch(specs, then=JobSpec(desk.at("end").work, ("end",)))
        assert (len(batch.jobs), batch.then.state) == (11, "waiting")
        await world.advance(seconds=2)
        assert await desk.jobs.cancel(batch.jobs[5].id)
        await world.advance(seconds=6)
        assert "end" not in desk.labels
        await world.crash()
        await world.restart()
        await world.advance(seconds=60)
        assert (desk.labels.count("end"), desk.labels[-1]) == (1, "end")
        assert desk.seen[-1].job.batch == {"done": 9, "failed": 1, "cancelled": 1}
        assert (await desk.jobs.get(batch.id)).state == "done"


async def test_a_member_redriven_later_is_not_counted_twice(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["bad"] = failing(1)
        specs = [JobSpec(desk.at("a").work, ("bad",), retry=RetryPolicy(1)), JobSpec(desk.at("b").work, (1,), after=60)]
        batch = await desk.jobs.batch(specs, then=JobSpec(desk.at("end").work, ("end",)))
        await world.advance(seconds=5)
        await desk.jobs.redrive(batch.jobs[0].id)
        await world.advance(seconds=5)
        assert await desk.state(batch.then) == "waiting"
        await world.advance(seconds=60)
        assert desk.seen[-1].job.batch == {"done": 1, "failed": 1, "cancelled": 0}


async def test_an_empty_batch_is_complete_at_once(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        batch = await desk.jobs.batch([], then=JobSpec(desk.at("end").work, ("end",)))
        await world.settle()
        assert desk.seen[-1].job.batch == {"done": 0, "failed": 0, "cancelled": 0}
        assert batch.jobs == []


async def test_a_batch_made_in_a_turn_that_fails_is_not_made(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(clerk: Any, fail: bool) -> None:
            b = clerk.ctx.get(desk.Clerk, "b")
            await clerk.jobs.batch([JobSpec(b.work, (1,)), JobSpec(clerk.work, (2,))], then=JobSpec(b.work, ("end",)))
            if fail:
                raise ValueError("on purpose")

        with pytest.raises(ValueError, match="on purpose"):
            await desk.do(lambda clerk: body(clerk, True))
        await world.advance(seconds=5)
        assert (desk.labels, await world.due()) == ([], [])
        await desk.do(lambda clerk: body(clerk, False))
        await world.advance(seconds=5)
        assert (sorted(map(str, desk.labels)), desk.labels[-1]) == (["1", "2", "end"], "end")


async def test_what_a_batch_can_not_have(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        end = JobSpec(desk.at("end").work, ("end",))
        with pytest.raises(errors.BadOption, match=r"jobs\[1\]: key"):
            await desk.jobs.batch([end, JobSpec(desk.at().work, key="k")], then=end)
        with pytest.raises(errors.BadOption, match="then must be"):
            await desk.jobs.batch([end], then=JobSpec(desk.at().work, key="k"))
        assert await world.due() == []


async def test_a_turn_that_cancels_members_of_its_own_batch_leaves_it_whole(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(clerk: Any) -> Any:
            b = clerk.ctx.get(desk.Clerk, "b")
            specs = [JobSpec(b.work, (1,)), JobSpec(clerk.work, (2,)), JobSpec(b.work, (3,)), JobSpec(clerk.work, (4,))]
            batch = await clerk.jobs.batch(specs, then=JobSpec(b.work, ("end",)))
            return [await clerk.jobs.cancel(job) for job in (batch.jobs[0], batch.jobs[1], batch.jobs[1])]

        assert await desk.do(body) == [True, True, False]
        await world.advance(seconds=5)
        assert sorted(map(str, desk.labels)) == ["3", "4", "end"]
        assert desk.seen[-1].job.batch == {"done": 2, "failed": 0, "cancelled": 2}
        assert await world.due() == []
