"""Jobs that are scheduled: when they run, what comes back, what they are called; on every store."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance.desk import Desk, at, failing
from wakeful import JobSpec, errors
from wakeful.store.protocol import Query


async def test_a_job_due_in_the_past_runs_at_once(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at().work, at=at(-3600))
        await world.settle()
        assert (desk.times, await desk.state(job)) == ([0], "done")


async def test_a_job_due_now_runs_once_without_the_clock_having_to_move(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, at=world.now())
        await desk.jobs.schedule(desk.at().work, after=0)
        await world.settle()
        assert (desk.times, await desk.effects(world)) == ([0, 0], {"w": 2})
        await world.advance(days=1)
        assert len(desk.seen) == 2


async def test_scheduling_returns_after_the_commit(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at().work, after="10s", metadata={"a": "b"})
        world.kill()  # the very next thing that happens
        await world.restart()
        again = await desk.jobs.get(job.id)
        assert again == job
        assert (again.due_at, again.metadata, again.state, again.name) == (at(10), {"a": "b"}, "scheduled", "work")
        await world.advance(seconds=10)
        assert desk.times == [10]


METADATA = [
    None,
    {},
    {
        "a key with spaces": "x",
        "a/slash\\back": "y",
        "sym%&=?#'\"": "",
        "schlüssel 键 🗝": "wert 值 🎁",
        "n": 5,
        "b": True,
    },
]


@pytest.mark.parametrize("metadata", METADATA)
async def test_metadata_comes_back_as_it_was_also_after_takeover(stage: Any, metadata: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at().work, after="5s", metadata=metadata)
        assert job.metadata == metadata
        await world.crash()
        await world.restart()
        assert (await desk.jobs.get(job.id)).metadata == metadata
        await world.advance(seconds=5)
        [seen] = desk.seen
        assert seen.job.metadata == metadata
        assert (await desk.jobs.get(job.id)).metadata == metadata


async def test_twenty_concurrent_schedules_are_twenty_jobs_and_twenty_runs(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = await asyncio.gather(*(desk.jobs.schedule(desk.at().work, n, after=1) for n in range(20)))
        assert len({job.id for job in jobs}) == 20
        await world.advance(seconds=2)
        assert sorted(desk.labels) == list(range(20))
        assert await desk.effects(world) == {str(n): 1 for n in range(20)}
        assert {await desk.state(job) for job in jobs} == {"done"}


async def test_three_jobs_of_one_name_are_three_jobs(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = [await desk.jobs.schedule(desk.at().work, after=5) for _ in range(3)]
        assert len({job.id for job in jobs}) == 3
        await world.advance(seconds=5)
        assert desk.times == [5, 5, 5]


async def test_an_object_schedules_onto_another_and_targets_see_only_their_own(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(self: Any) -> Any:
            return await self.jobs.schedule(self.ctx.get(desk.Clerk, "b").work, "from a", after="3s")

        job = await desk.do(body, "a")
        mine = await desk.jobs.schedule(desk.at("a").work, "own", after="3s")
        assert job.target == ("Clerk", "b")
        assert [one.id for one in await desk.jobs.list(cls=desk.Clerk, key="b")] == [job.id]
        assert [one.id for one in await desk.jobs.list(cls=desk.Clerk, key="a")] == [mine.id]
        await world.advance(seconds=3)
        assert sorted((seen.object, seen.label) for seen in desk.seen) == [("a", "own"), ("b", "from a")]


async def test_what_a_turn_schedules_happens_only_if_the_turn_does(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(self: Any) -> None:
            await self.jobs.schedule(self.work, "own")
            await self.jobs.schedule(self.ctx.get(desk.Clerk, "b").work, "other")
            await self.jobs.schedule(self.ctx.get(desk.Clerk, "b").work, "keyed", key="k")
            await desk.jobs.schedule(desk.at("b").work, "by the app")
            raise ValueError("on purpose")

        with pytest.raises(ValueError, match="on purpose"):
            await desk.do(body)
        await world.advance(seconds=60)
        assert desk.seen == []
        assert await world.store.find_timers(Query(limit=10)) == []


async def test_what_a_transaction_schedules_is_dropped_with_it(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(self: Any) -> None:
            await self.jobs.schedule(self.ctx.get(desk.Clerk, "b").work, "kept")
            with suppress(ValueError):
                async with self.storage.transaction():
                    await self.jobs.schedule(self.ctx.get(desk.Clerk, "b").work, "dropped")
                    await self.jobs.schedule(self.work, "dropped too")
                    raise ValueError("on purpose")

        await desk.do(body)
        await world.settle()
        assert desk.labels == ["kept"]


async def test_what_a_turn_schedules_survives_a_crash_right_after_its_answer(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(self: Any) -> list[Any]:
            b = self.ctx.get(desk.Clerk, "b")
            return [
                await self.jobs.schedule(self.work, "own", after=2),
                await self.jobs.schedule(b.work, "other", after=2),
                await self.jobs.schedule(b.work, "keyed", after=2, key="k"),
            ]

        jobs = await desk.do(body)
        world.kill()
        await world.restart()
        assert [await desk.state(job) for job in jobs] == ["scheduled"] * 3
        await world.advance(seconds=3)
        assert sorted(desk.labels) == ["keyed", "other", "own"]
        assert [await desk.state(job) for job in jobs] == ["done"] * 3


@pytest.mark.parametrize("days", [49.7, 50, 365.25 * 50])
async def test_a_job_far_ahead_fires_at_the_right_time(stage: Any, days: float) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        when = world.now() + timedelta(days=days)
        await desk.jobs.schedule(desk.at().work, at=when)
        await world.crash()  # fifty years of upkeep would take a while
        await world.restart(after=timedelta(days=days, seconds=-100))
        await world.advance(seconds=99)
        assert desk.seen == []
        await world.advance(seconds=1)
        assert [seen.at for seen in desk.seen] == [days * 86_400]


async def test_a_node_that_lives_through_fifty_days_fires_a_job_at_their_end() -> None:
    """In memory only: the upkeep of fifty days takes a while on a disk, and it is the node's own clockwork that is asked."""
    desk = Desk(SimpleNamespace(url="memory:"))
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, after=timedelta(days=50))
        await world.advance(days=49, hours=23, minutes=59, seconds=59)
        assert desk.seen == []
        await world.advance(seconds=1)
        assert desk.times == [50 * 86_400]


async def test_a_job_may_be_an_internal_method_of_the_object_itself_only(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def body(self: Any) -> None:
            await self.jobs.schedule(self.hidden, "mine")

        await desk.do(body)
        await world.settle()
        assert desk.labels == ["mine"]
        with pytest.raises(errors.UnknownMethod, match="internal"):
            await desk.jobs.schedule(desk.at().hidden)


BAD = [
    ({"at": datetime(2026, 1, 1)}, errors.BadTime, "time.naive"),
    ({"at": 5}, errors.BadTime, "time.type"),
    ({"after": -1}, errors.BadTime, "time.negative"),
    ({"after": "soon"}, errors.BadTime, "time.text"),
    ({"after": 1, "at": at(5)}, errors.BadOption, "job.when"),
    ({"after": timedelta(days=4_000_000)}, errors.BadTime, "time.late"),
    ({"metadata": {"a": object()}}, errors.BadOption, "job.metadata"),
    ({"metadata": {5: "x"}}, errors.BadOption, "job.metadata"),
    ({"metadata": "text"}, errors.BadOption, "job.metadata"),
    ({"key": ""}, errors.BadName, "name.job"),
    ({"key": 5}, errors.BadName, "name.job"),
    ({"key": "x" * 201}, errors.BadName, "name.job"),
    ({"key": "a\nb"}, errors.BadName, "name.job"),
    ({"priority": 1.5}, errors.BadOption, "job.priority"),
    ({"priority": 1001}, errors.BadOption, "job.priority"),
    ({"tags": "text"}, errors.BadOption, "job.tags"),
    ({"tags": ["a\nb"]}, errors.BadOption, "job.tags"),
    ({"tags": ["a", "\x00"]}, errors.BadOption, "job.tags"),
    ({"tags": ["\ud800"]}, errors.BadOption, "job.tags"),
    ({"retry": 5}, errors.BadOption, "job.retry"),
    ({"retry": lambda job, error: None}, errors.BadHandler, "job.retry"),
    ({"retry": "no_such"}, errors.BadHandler, "job.retry"),
    ({"depends_on": ["nonsense"]}, errors.UnknownJob, "job.unknown"),
    ({"depends_on": ["Clerk/a/work%3Anone"]}, errors.UnknownJob, "job.unknown"),
    ({"depends_on": "text"}, errors.BadOption, "job.depends"),
    ({"replace": True}, errors.BadOption, "job.replace"),
]


async def test_what_makes_no_sense_is_refused_with_a_reason_and_nothing_is_written(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        for options, kind, code in BAD:
            with pytest.raises(kind) as caught:
                await desk.jobs.schedule(desk.at().work, **options)
            assert caught.value.code == code, options
        for method in (desk.at(), print, "work", None, desk.Clerk.work):
            with pytest.raises(errors.BadHandler):
                await desk.jobs.schedule(method)
        with pytest.raises(errors.BadValue, match=r"Clerk/a\.work"):
            await desk.jobs.schedule(desk.at().work, object())
        with pytest.raises(errors.LimitExceeded):
            await desk.jobs.schedule(desk.at().work, "x" * 2_000_000)
        with pytest.raises(errors.BadHandler, match="too many positional"):
            await desk.jobs.schedule(desk.at().other, 1, 2)
        with pytest.raises(errors.UnknownMethod):
            await desk.jobs.schedule(desk.at().nothing)
        with pytest.raises(errors.UnknownMethod):
            await desk.jobs.schedule(desk.at().sync)
        assert await world.store.find_timers(Query(limit=10)) == []


# many at once


async def test_one_invalid_entry_among_many_fails_them_all_and_is_named(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        good = [JobSpec(desk.at(f"k{n}").work, (n,)) for n in range(5)]
        bad: list[tuple[Any, type[Exception], str]] = [
            (JobSpec(desk.at().work, (object(),)), errors.BadValue, r"jobs\[3\]: "),
            (JobSpec(desk.at().work, at=datetime(2026, 1, 1)), errors.BadTime, r"jobs\[3\]: "),
            (JobSpec("work"), errors.BadHandler, r"jobs\[3\]: "),
            ("no spec", errors.BadOption, r"jobs\[3\]: "),
            (JobSpec(desk.at().work, "text"), errors.BadOption, r"jobs\[3\]: args must be .* not 'text'"),  # type: ignore[arg-type]
            (JobSpec(desk.at().work, {"label": 1}), errors.BadOption, r"jobs\[3\]: args .*kwargs="),  # type: ignore[arg-type]
            (JobSpec(desk.at().work, 5), errors.BadOption, r"jobs\[3\]: args .*\(value,\)"),  # type: ignore[arg-type]
            (JobSpec(desk.at().work, kwargs=[1]), errors.BadOption, r"jobs\[3\]: kwargs must be a dict"),  # type: ignore[arg-type]
        ]
        for wrong, kind, text in bad:
            with pytest.raises(kind, match=text):
                await desk.jobs.schedule_many([*good[:3], wrong, *good[3:]])
        await world.settle()
        assert desk.seen == []
        await desk.jobs.schedule_many(good)
        await world.settle()
        assert sorted(desk.labels) == [0, 1, 2, 3, 4]


async def test_a_taken_key_among_many_fails_them_all_and_is_named(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        first = await desk.jobs.schedule(desk.at().work, "first", key="k", after=60)
        with pytest.raises(errors.KeyTaken, match=r"jobs\[1\]: "):
            await desk.jobs.schedule_many([JobSpec(desk.at().work), JobSpec(desk.at().work, ("second",), key="k")])
        same = JobSpec(desk.at().work, ("first",), key="k", after=60)
        jobs = await desk.jobs.schedule_many([JobSpec(desk.at().work, ("new",)), same, same])
        assert [job.id == first.id for job in jobs] == [False, True, True]
        await world.advance(seconds=60)
        assert desk.labels == ["new", "first"]


async def test_many_are_all_there_after_a_crash(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = await desk.jobs.schedule_many([JobSpec(desk.at(f"k{n % 7}").work, (n,), after=5) for n in range(300)])
        world.kill()
        await world.restart()
        await world.advance(seconds=6)
        assert sorted(desk.labels) == list(range(300))
        assert len(jobs) == len({job.id for job in jobs}) == 300


async def test_a_hundred_thousand_in_one_call_and_not_one_more(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        stub = desk.at("crowd")
        spec = JobSpec(stub.work, after="1h")
        with pytest.raises(errors.LimitExceeded):
            await desk.jobs.schedule_many([spec] * 100_001)
        assert len(await desk.jobs.schedule_many([spec] * 100_000)) == 100_000
        assert await world.store.count("timers") == 100_000


async def test_32_concurrent_single_schedules_make_fewer_commits_than_jobs_and_all_survive(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        before = world.node.inserter.groups
        await asyncio.gather(*(desk.jobs.schedule(desk.at(f"k{n}").work, n, after=5) for n in range(32)))
        assert 0 < world.node.inserter.groups - before < 32
        await world.crash()
        await world.restart()
        await world.advance(seconds=5)
        assert sorted(desk.labels) == list(range(32))


async def test_scheduling_while_the_store_is_away_says_so_and_nothing_is_half_done(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        world.faults.is_down = True
        with pytest.raises(errors.Unavailable):
            await desk.jobs.schedule(desk.at().work, "lost", after=1)
        world.faults.is_down = False
        await world.advance(seconds=30)
        assert desk.seen == []
        await desk.jobs.schedule(desk.at().work, "later", after=1)
        await world.advance(seconds=2)
        assert desk.labels == ["later"]


async def test_a_failing_job_of_another_is_nothing_to_the_rest(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["bad"] = failing()
        await desk.jobs.schedule_many([JobSpec(desk.at(f"k{n}").work, ("bad" if n == 3 else n,)) for n in range(8)])
        await world.settle()
        assert sorted(map(str, desk.labels)) == ["0", "1", "2", "4", "5", "6", "7", "bad"]
