"""In which order and when jobs run; on every store."""

import asyncio
import random
from typing import Any

from tests.conformance.desk import Desk, at
from wakeful import JobSpec, Limits


async def test_jobs_run_in_order_of_due_time_not_of_insertion(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        seconds = list(range(1, 40))
        random.Random(1).shuffle(seconds)
        for second in seconds:
            await desk.jobs.schedule(desk.at().work, second, at=at(second))
        await world.crash()
        await world.restart(after="60s")
        await world.settle()
        assert desk.labels == sorted(seconds)


async def test_at_equal_due_time_higher_priority_first_then_insertion(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        asked = [(priority, n) for n, priority in enumerate([0, 5, -3, 5, 0, 9, -3, 0])]
        for priority, n in asked:
            await desk.jobs.schedule(desk.at().work, n, at=at(5), priority=priority)
        await desk.jobs.schedule_many([JobSpec(desk.at().work, (n,), at=at(5)) for n in (100, 101, 102)])
        await world.advance(seconds=5)
        expected = [n for _, n in sorted(asked, key=lambda one: -one[0])]
        place = expected.index(2)
        assert desk.labels == [*expected[:place], 100, 101, 102, *expected[place:]]


async def test_priority_never_overtakes_an_earlier_due_time(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, "late but important", at=at(6), priority=1000)
        await desk.jobs.schedule(desk.at().work, "early", at=at(5), priority=-1000)
        await world.crash()
        await world.restart(after="30s")
        await world.settle()
        assert desk.labels == ["early", "late but important"]


async def test_never_before_its_due_time(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        due = [0.001, 0.0015, 1, 1.999, 2, 59.9999]
        for second in due:
            await desk.jobs.schedule(desk.at(str(second)).work, second, at=at(second))
        for _ in range(70):
            await world.advance(seconds=1)
        assert sorted(desk.labels) == due
        for seen in desk.seen:
            assert seen.label <= seen.at <= seen.label + 0.001


async def test_enqueueing_at_the_instant_that_is_drained_loses_and_doubles_nothing(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def more(clerk: Any, job: Any) -> None:
            for n in range(3):  # while it is drained, from inside and from outside the turn
                await clerk.jobs.schedule(clerk.work, f"own {job.metadata['n']} {n}", at=at(5))
                await clerk.jobs.schedule(clerk.ctx.get(desk.Clerk, "b").work, f"b {job.metadata['n']} {n}", at=at(5))

        for n in range(5):
            desk.handlers[n] = more
            await desk.jobs.schedule(desk.at().work, n, at=at(5), metadata={"n": n})
        await world.advance(seconds=5)
        await desk.jobs.schedule(desk.at().work, "after", at=at(5))  # and when it is over
        await world.settle()
        expected = [*range(5), "after", *(f"{who} {n} {m}" for who in ("own", "b") for n in range(5) for m in range(3))]
        assert sorted(map(str, desk.labels)) == sorted(map(str, expected))
        assert set(desk.times) == {5}


async def test_schedulers_and_the_dispatcher_side_by_side_lose_and_double_nothing(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def one(n: int) -> None:
            for m in range(10):
                await desk.jobs.schedule(desk.at(str(n % 3)).work, f"{n}-{m}", after=0.001 * (m % 3))

        await asyncio.gather(*(one(n) for n in range(20)))
        await world.advance(seconds=1)
        assert sorted(desk.labels) == sorted(f"{n}-{m}" for n in range(20) for m in range(10))


async def test_a_waiting_node_wakes_on_the_insert_of_an_earlier_job(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, "late", at=at(1000))
        await world.advance(seconds=10)
        await desk.jobs.schedule(desk.at().work, "early", at=at(20))
        await world.advance(seconds=30)
        assert (desk.labels, desk.times) == (["early"], [20])


async def test_many_due_at_one_instant_drain_with_little_memory_in_order_within_each_object(stage: Any) -> None:
    desk = Desk(stage)
    limits = Limits(near_timers=200, concurrent_turns=50)
    async with desk.world(limits=limits) as world:
        most = 0
        await desk.jobs.schedule_many([JobSpec(desk.at(str(n % 40)).work, (n,), at=at(5)) for n in range(3_000)])
        while len(desk.seen) < 3_000 and world.now() < at(60):
            await world.advance("500ms")
            most = max(most, len(world.node.queue) + len(world.node.queue.running))
        by_object: dict[str, list[int]] = {}
        for seen in desk.seen:
            by_object.setdefault(seen.object, []).append(seen.label)
        assert {key: labels for key, labels in by_object.items() if labels != sorted(labels)} == {}
        assert sorted(desk.labels) == list(range(3_000))
        assert most <= 200 + 4 * 50


async def test_none_overtakes_one_whose_start_is_still_on_its_way_to_disk(stage: Any) -> None:
    """The starts of many are noted in several trips. Meanwhile their object is busy, so that the next of its jobs needs none."""
    desk = Desk(stage)
    # So that sixteen are handed out at first, two in a trip: 15 is on its way when 1 runs, 0 is done, and 16 comes.
    async with desk.world(limits=Limits(concurrent_turns=4, group_commits=2)) as world:
        desk.handlers[1] = lambda clerk, job: world.node.clock.sleep(1_000)
        keys = ["first", "busy", *(f"o{n}" for n in range(13)), *["busy"] * 10]
        specs = [JobSpec(desk.at(key).work, (n,), at=at(5)) for n, key in enumerate(keys)]
        for key in keys[:15]:  # else each would be read first, in trips of their own
            await desk.at(key).work("awake")
        await desk.jobs.schedule_many(specs)
        await world.advance(seconds=10)
        busy = [seen.label for seen in desk.seen if seen.object == "busy"]
        assert busy == ["awake", 1, *range(15, 25)]
