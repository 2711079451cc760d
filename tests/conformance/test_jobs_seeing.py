"""Jobs as people see them: get, list, filter, count; on every store."""

import asyncio
from typing import Any

import pytest

from tests.conformance.desk import Desk, at, failing
from wakeful import Again, JobSpec, Quotas, RetryPolicy, errors, fixed
from wakeful.jobs.queries import LISTED_RESULT_MAX
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer


async def test_every_state_is_seen(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(60)

        desk.handlers.update(slow=slow, bad=failing())
        jobs = {
            "scheduled": await desk.jobs.schedule(desk.at().work, after="1h"),
            "running": await desk.jobs.schedule(desk.at("r").work, "slow"),
            "done": await desk.jobs.schedule(desk.at().work),
            "failed": await desk.jobs.schedule(desk.at().work, "bad", retry=RetryPolicy(1)),
            "cancelled": await desk.jobs.schedule(desk.at().work, after="1h"),
        }
        jobs["waiting"] = await desk.jobs.schedule(desk.at().work, depends_on=[jobs["scheduled"]])
        await desk.jobs.cancel(jobs["cancelled"].id)
        await world.advance(seconds=1)
        for state, job in jobs.items():
            assert await desk.state(job) == state
            assert [one.id for one in await desk.jobs.list(state=state)] == [job.id], state
        assert {job.id for job in await desk.jobs.list()} == {job.id for job in jobs.values()}
        await world.crash()
        await world.restart()
        del jobs["running"]
        for state, job in jobs.items():
            assert await desk.state(job) == state
            assert (await desk.jobs.get(job.id)).name == "work"


async def test_an_unknown_job_is_an_error(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():
        for id in ("Clerk/a/work%3Anone", "Clerk/a/%3Dnone", "nonsense", "", "a/b", None, "no class/a/b"):
            with pytest.raises(errors.UnknownJob):
                await desk.jobs.get(id)  # type: ignore[arg-type]
        with pytest.raises(errors.UnknownJob):
            await desk.jobs.wait("Clerk/a/work%3Anone")


async def test_listing_by_target_method_state_tag_and_key_prefix(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        a = await desk.jobs.schedule(desk.at("a").work, after=5, key="x:1", tags=["red"])
        b = await desk.jobs.schedule(desk.at("b").work, after=4, key="x:2", tags=["red", "blue"])
        c = await desk.jobs.schedule(desk.at("a").other, after=3, tags=["blue"])
        d = await desk.jobs.schedule(desk.at("a").work, after=2, key="y:1")

        async def ids(**filters: Any) -> list[str]:
            return [job.id for job in await desk.jobs.list(**filters)]

        for _ in range(2):
            assert sorted(await ids()) == sorted([a.id, b.id, c.id, d.id])
            assert sorted(await ids(cls=desk.Clerk, key="a")) == sorted([a.id, c.id, d.id])
            assert sorted(await ids(cls="Clerk", name="work")) == sorted([a.id, b.id, d.id])
            assert await ids(name="other") == [c.id]
            assert sorted(await ids(tag="red")) == sorted([a.id, b.id])
            assert await ids(tag="red", cls="Clerk", key="b") == [b.id]
            assert sorted(await ids(key_prefix="x:")) == sorted([a.id, b.id])
            assert await ids(key_prefix="x:", tag="green") == []
            assert await ids(cls="Nothing") == []
            await world.advance(seconds=10)  # and the same when all of them are done
        for bad in ({"state": "nothing"}, {"key": "a"}, {"limit": 0}, {"after": "here"}, {"after": '["x", []]'}):
            with pytest.raises(errors.BadOption):
                await desk.jobs.list(**bad)


async def test_owed_jobs_are_listed_in_firing_order_page_by_page(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule_many([JobSpec(desk.at(str(n)).work, (n,), at=at(100 - n)) for n in range(25)])
        await desk.jobs.schedule_many([JobSpec(desk.at(str(n)).work, (n,), metadata={"n": n}) for n in range(7)])
        await world.settle()
        found, page = [], await desk.jobs.list(limit=10)
        while True:
            found += page
            assert len(page) <= 10
            if page.next is None:
                break
            page = await desk.jobs.list(limit=10, after=page.next)
        assert len(found) == len({job.id for job in found}) == 32
        assert [job.due_at for job in found[:25]] == [at(76 + n) for n in range(25)]
        assert {job.state for job in found[25:]} == {"done"}


async def test_counters_say_what_happened(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def again(clerk: Any, job: Any) -> Any:
            await asyncio.sleep(2)
            return Again(after=1) if desk.labels.count("again") < 3 else None

        desk.handlers.update(again=again, bad=failing())
        await desk.jobs.schedule(desk.at("1").work, "again")
        await desk.jobs.schedule(desk.at("2").work, "bad", retry=RetryPolicy(3, fixed("1s")))
        await desk.jobs.schedule_many([JobSpec(desk.at("3").work, (n,)) for n in range(4)])
        gone = await desk.jobs.schedule(desk.at("4").work, after="1h")
        await desk.jobs.cancel(gone.id)
        await world.advance(seconds=60)
        counters = desk.jobs.counters()
        wanted = {"scheduled": 7, "run": 5, "retried": 2, "rescheduled": 2, "parked": 1, "cancelled": 1}
        assert {name: counters[name] for name in wanted} == wanted
        assert (counters["lateness"]["count"], counters["duration"]["count"]) == (7, 7)
        assert counters["duration"]["sum_ms"] == 6_000
        assert counters["lateness"]["sum_ms"] == 0


async def test_a_tenants_quota_of_pending_jobs_is_refused_by_name(stage: Any) -> None:
    desk = Desk(stage, quotas=Quotas(jobs=3, tenants={"big": Quotas(jobs=100)}))
    async with desk.world() as world:
        for n in range(3):
            await desk.jobs.schedule(desk.at(f"acme/{n}").work, n, after=5)
        with pytest.raises(errors.QuotaExceeded, match="`jobs` is 3") as caught:
            await desk.jobs.schedule(desk.at("acme/x").work, after=5)
        assert caught.value.code == "quota.jobs"
        await desk.jobs.schedule_many([JobSpec(desk.at(f"big/{n}").work, (n,)) for n in range(50)])
        with pytest.raises(errors.QuotaExceeded):
            await desk.jobs.schedule_many([JobSpec(desk.at("other").work)] * 4)
        await desk.jobs.schedule(desk.at("acmecorp").work, after=5)  # another tenant
        await world.advance(seconds=10)
        await desk.jobs.schedule(desk.at("acme/x").work, "again", after=5)  # they have run
        await world.advance(seconds=10)
        assert "again" in desk.labels


async def test_a_tenants_rate_of_jobs_is_refused_by_name(stage: Any) -> None:
    desk = Desk(stage, quotas=Quotas(job_rate=2))
    async with desk.world() as world:
        for _ in range(2):
            await desk.jobs.schedule(desk.at("acme/1").work)
        with pytest.raises(errors.QuotaExceeded, match="job_rate"):
            await desk.jobs.schedule(desk.at("acme/2").work)
        await world.advance(seconds=60)
        await desk.jobs.schedule(desk.at("acme/2").work)
        await world.settle()
        assert len(desk.seen) == 3


async def test_a_job_that_this_version_cannot_read_is_parked_and_hides_nothing(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        odd = Timer(ObjectId("Clerk", "a"), "job:work:odd", 0, 0, 1 << 62, payload=b"\x93\x01\x02\x03")
        await world.node.add_timers([odd])
        job = await desk.jobs.schedule(desk.at().work, after=5)
        await world.settle()
        assert (await desk.jobs.get("Clerk/a/work%3Aodd")).state == "failed"
        assert {one.id for one in await desk.jobs.list()} == {job.id, "Clerk/a/work%3Aodd"}
        await world.advance(seconds=10)
        assert await desk.state(job) == "done"


async def test_without_a_running_app_there_are_no_jobs(stage: Any) -> None:
    desk = Desk(stage)
    with pytest.raises(errors.NotRunning):
        await desk.jobs.schedule(desk.at().work)
    with pytest.raises(errors.NotRunning):
        await desk.jobs.list()


async def test_a_list_leaves_out_large_results_and_says_so_and_get_has_them(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def answer(clerk: Any, job: Any) -> Any:
            return "x" * job.metadata["length"]

        desk.handlers.update(answer=answer)
        sizes = [10, LISTED_RESULT_MAX - 4, LISTED_RESULT_MAX - 3, 1_000_000]  # encoded, such a text has 4 bytes more
        for size in sizes:
            await desk.jobs.schedule(desk.at(f"{size:07}").work, "answer", metadata={"length": size})
        await desk.jobs.schedule(desk.at("none").work)
        await world.advance(seconds=1)
        page = await desk.jobs.list(state="done")
        seen = {job.target.key: (job.result, job.left_out) for job in page}
        assert seen["none"] == (None, 0)
        assert seen["0000010"] == ("x" * 10, 0)
        assert seen[f"{sizes[1]:07}"] == ("x" * sizes[1], 0)
        assert seen[f"{sizes[2]:07}"] == (None, LISTED_RESULT_MAX + 1)
        left_out = seen["1000000"][1]
        assert seen["1000000"] == (None, left_out)
        assert 1_000_000 < left_out < 1_000_010
        for job in page:
            whole = await desk.jobs.get(job.id)
            assert (len(whole.result or ""), whole.left_out) == (
                0 if job.target.key == "none" else int(job.target.key),
                0,
            )


async def test_pages_of_many_results_have_each_once(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def answer(clerk: Any, job: Any) -> Any:
            return "done"

        desk.handlers.update(answer=answer)
        made = await desk.jobs.schedule_many([JobSpec(desk.at(f"{n}").work, ["answer"]) for n in range(150)])
        await world.advance(seconds=1)
        for limit in (7, 64, 150, 1000):
            seen, after = [], None
            while True:
                page = await desk.jobs.list(state="done", limit=limit, after=after)
                seen += [job.id for job in page]
                after = page.next
                if after is None:
                    break
            assert sorted(seen) == sorted(job.id for job in made)
