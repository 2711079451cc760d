"""An answer that was lost doubles nothing: what was written, has run and is gone is not written again."""

from typing import Any

import pytest

from tests.conformance.desk import Desk
from wakeful import JobSpec, errors
from wakeful.store.protocol import Query, receipt_prefix
from wakeful.values.errors import OutcomeUnknown, StoreDown
from wakeful.values.ids import ObjectId, shard_of


def lose_next_insert(node: Any, length_ms: int = 5_000, *, times: int = 1) -> None:
    """The next inserts of that node's store are written; so much later the connection is called lost."""
    store, insert, left = node.inserter._store, node.inserter._store.insert, [times]

    async def broken(timers: Any, **options: Any) -> Any:
        met = await insert(timers, **options)
        if left[0]:
            left[0] -= 1
            await node.clock.sleep(length_ms)
            raise OutcomeUnknown("the connection was lost (the test says so)")
        return met

    store.insert = broken


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("kind", ["late", "lost", "stray"])
async def test_a_job_whose_insert_was_not_answered_in_time_runs_once(stage: Any, key: str | None, kind: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        world.faults.lag_once("insert", kind, 5_000)
        job = await desk.jobs.schedule(desk.at().work, "x", key=key)
        await world.advance(seconds=60)
        assert desk.labels == ["x"]
        assert await desk.state(job) == "done"
        assert await world.due() == []


async def test_two_answers_lost_and_a_crash_between_them(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        lose_next_insert(world.node, times=2)
        await desk.jobs.schedule(desk.at().work, "x")
        world.kill()
        await world.restart()
        await world.advance(seconds=60)
        assert desk.labels == ["x"]


@pytest.mark.parametrize("count", [3, 6_000])
async def test_many_whose_insert_was_not_answered_run_once_each(stage: Any, count: int) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        lose_next_insert(world.node)
        # The first are due now, and have run and are gone before the insert is sent again.
        specs = [
            JobSpec(desk.at().work, (n,), after=0 if n < 3 else "1d", key=f"k{n}" if n == 1 else None)
            for n in range(count)
        ]
        jobs = await desk.jobs.schedule_many(specs)
        await world.advance(seconds=60)
        assert sorted(desk.labels) == [0, 1, 2]
        assert len({job.id for job in jobs}) == count
        assert await world.store.count("timers") == count - 3


async def test_a_batch_whose_insert_was_not_answered_is_one(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        lose_next_insert(world.node)
        await desk.jobs.batch(
            [JobSpec(desk.at().work, (n,)) for n in range(3)], then=JobSpec(desk.at().work, ("then",))
        )
        await world.advance(seconds=60)
        assert sorted(map(str, desk.labels)) == ["0", "1", "2", "then"]


async def test_one_under_a_key_that_ran_while_its_answer_was_lost_is_not_another_s(stage: Any) -> None:
    """It found the record of its own run and took it for somebody else's."""
    desk = Desk(stage)
    async with desk.world() as world:
        lose_next_insert(world.node)
        await desk.jobs.schedule(desk.at().work, "x", key="k")
        with pytest.raises(errors.KeyTaken):
            await desk.jobs.schedule(desk.at().work, "other", key="k")
        again = await desk.jobs.schedule(desk.at().work, "x", key="k")
        assert again.state == "done"
        assert desk.labels == ["x"]


async def test_an_errand_into_another_store_whose_answer_was_lost_brings_its_job_once(stage: Any) -> None:
    desk = Desk(stage, stores={"eu/": "memory:"})
    async with desk.world() as world:
        there = world.node.home(ObjectId("Clerk", "eu/1"))
        lose_next_insert(there, times=3)
        await desk.do(lambda clerk: clerk.jobs.schedule(desk.at("eu/1").work, "x"))
        await world.advance(seconds=120)
        assert desk.labels == ["x"]


async def test_an_errand_that_comes_again_when_its_job_has_run_brings_nothing(stage: Any) -> None:
    """The sender's store could not note that the job is there: every try found it gone."""
    desk = Desk(stage, stores={"eu/": "memory:"})
    async with desk.world() as world:
        store, commit, is_away = world.node.store, world.node.store.commit, [True]

        async def refuses(node: str, commits: Any) -> Any:
            is_end = any(name.startswith("forward:") for one in commits for name, _ in one.clears)
            if is_end and is_away[0]:
                raise StoreDown("the errand's end can't be written (the test says so)")
            return await commit(node, commits)

        store.commit = refuses
        await desk.do(lambda clerk: clerk.jobs.schedule(desk.at("eu/1").work, "x"))
        await world.advance(seconds=3)  # some seventy tries
        assert desk.labels == ["x"]
        is_away[0] = False
        await world.advance(minutes=1)
        assert desk.labels == ["x"]
        assert await world.store.find_timers(Query(limit=10)) == []  # no errand is left


async def test_an_errand_is_known_again_when_its_class_has_become_one_of_several_servers(stage: Any) -> None:
    """Its receipt names the slot from the first, on any store, so that it is the same then, and goes along with it."""
    desk = Desk(stage, stores={"eu/": "memory:"})
    async with desk.world() as world:
        target = ObjectId("Clerk", "eu/1")
        await desk.do(lambda clerk: clerk.jobs.schedule(desk.at("eu/1").work, "x"))
        await world.advance(seconds=3)
        assert desk.labels == ["x"]
        [receipt] = [id for id in world.node.home(target).store.inner.disk.receipts if "forward:" in id]
        assert receipt.startswith(receipt_prefix(shard_of(target)))


async def test_receipts_do_not_grow(stage: Any) -> None:
    desk = Desk(stage, stores={"eu/": "memory:"})
    async with desk.world() as world:
        there = world.node.home(ObjectId("Clerk", "eu/1"))
        for n in range(20):
            await desk.jobs.schedule(desk.at("eu/1").work, n)
            await desk.jobs.schedule_many([JobSpec(desk.at("eu/1").work, (n,))])
            await desk.do(lambda clerk, n=n: clerk.jobs.schedule(desk.at("eu/1").work, n))
        await world.advance(minutes=1)
        disk = there.store.inner.disk
        assert len(disk.receipts) == 22  # two lanes, and an errand each until they are forgotten
        await world.advance(hours=2)
        assert len(disk.receipts) == 2
