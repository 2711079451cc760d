"""Jobs with a key of the caller's own: one of them, whoever asks how often; on every store."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conformance.desk import Desk, at, failing
from wakeful import RetryPolicy, Stop, errors
from wakeful.jobs.payload import decode_kept, encode_kept
from wakeful.store.protocol import Query
from wakeful.views.ledger import plain_entry


async def test_a_key_used_twice_gives_the_same_job_not_two(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        first = await desk.jobs.schedule(desk.at().work, "x", at=at(5), key="welcome/böb 1")
        again = await desk.jobs.schedule(desk.at().work, "x", at=at(5), key="welcome/böb 1")
        assert (first.id, first.key) == (again.id, "welcome/böb 1")
        await world.advance(seconds=10)
        assert desk.times == [5]
        late = await desk.jobs.schedule(desk.at().work, "x", at=at(5), key="welcome/böb 1")
        await world.advance(seconds=10)
        assert (late.id, late.state, len(desk.seen)) == (first.id, "done", 1)


async def test_a_delay_is_compared_as_it_was_asked_not_by_when_it_ends(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        first = await desk.jobs.schedule(desk.at().work, after="10s", key="k")
        await world.advance(seconds=3)
        again = await desk.jobs.schedule(desk.at().work, after=10, key="k")
        assert again.due_at == first.due_at
        with pytest.raises(errors.KeyTaken):
            await desk.jobs.schedule(desk.at().work, at=first.due_at, key="k")
        await world.advance(seconds=20)
        assert desk.times == [10]


OTHERS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("x",), {"at": at(6)}),
    (("y",), {"at": at(5)}),
    (("x",), {"at": at(5), "metadata": {"a": "b"}}),
    (("x",), {"at": at(5), "more": 1}),
    (("x",), {"after": 5}),
    (("x",), {}),
]


async def test_a_key_used_for_another_time_or_payload_is_an_error(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, "x", at=at(5), key="k")
        for args, options in OTHERS:
            with pytest.raises(errors.KeyTaken) as caught:
                await desk.jobs.schedule(desk.at().work, *args, key="k", **options)
            assert caught.value.code == "job.key"
        with pytest.raises(errors.KeyTaken):
            await desk.jobs.schedule(desk.at().other, "x", at=at(5), key="k")
        await world.advance(seconds=10)
        with pytest.raises(errors.KeyTaken):  # also when it is over
            await desk.jobs.schedule(desk.at().work, "x", at=at(6), key="k")
        assert desk.labels == ["x"]


async def test_a_key_is_its_targets_own(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at("a").work, "x", key="k")
        await desk.jobs.schedule(desk.at("b").work, "y", key="k")
        await world.settle()
        assert sorted(desk.labels) == ["x", "y"]


async def test_replace_puts_the_new_one_in_place_of_the_old(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        first = await desk.jobs.schedule(desk.at().work, "old", at=at(5), key="k")
        second = await desk.jobs.schedule(desk.at().work, "new", at=at(8), key="k", replace=True)
        assert (first.id, second.due_at) == (second.id, at(8))
        assert (await desk.jobs.get(first.id)).due_at == at(8)
        await world.advance(seconds=20)
        assert list(zip(desk.labels, desk.times, strict=True)) == [("new", 8)]


async def test_replace_works_on_one_that_is_over_and_on_one_that_is_parked(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, "one", key="k")
        await world.settle()
        await desk.jobs.schedule(desk.at().work, "two", key="k", replace=True)
        await world.settle()
        desk.handlers["three"] = failing()
        job = await desk.jobs.schedule(desk.at().work, "three", key="k", replace=True, retry=RetryPolicy(1))
        await world.settle()
        assert await desk.state(job) == "failed"
        again = await desk.jobs.schedule(desk.at().work, "three", key="k")
        assert again.state == "failed"
        await desk.jobs.schedule(desk.at().work, "four", key="k", replace=True)
        await world.settle()
        assert desk.labels == ["one", "two", "three", "four"]
        assert (await desk.state(job), await world.parked()) == ("done", [])


async def test_replacing_a_running_one_lets_it_end_and_then_runs_the_new(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def slow(clerk: Any, job: Any) -> None:
            await asyncio.sleep(5)

        desk.handlers["old"] = slow
        await desk.jobs.schedule(desk.at().work, "old", key="k")
        await world.advance(seconds=1)
        await desk.jobs.schedule(desk.at().work, "new", key="k", replace=True)
        await world.advance(seconds=10)
        assert list(zip(desk.labels, desk.times, strict=True)) == [("old", 0), ("new", 5)]
        assert await desk.effects(world) == {"old": 1, "new": 1}


async def test_a_job_moved_while_its_instant_is_drained_yields_only_its_newest_version(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def move(clerk: Any, job: Any) -> None:
            await clerk.jobs.schedule(clerk.work, "moved", at=at(9), key="k", replace=True)

        desk.handlers["first"] = move
        await desk.jobs.schedule(desk.at().work, "first", at=at(5), priority=1)
        await desk.jobs.schedule(desk.at().work, "second", at=at(5), key="k")
        await world.advance(seconds=20)
        assert list(zip(desk.labels, desk.times, strict=True)) == [("first", 5), ("moved", 9)]


async def test_many_who_ask_for_one_key_at_once_get_one_run(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = await asyncio.gather(*(desk.jobs.schedule(desk.at().work, "x", key="k") for _ in range(20)))
        await world.advance(seconds=5)
        more = await asyncio.gather(*(desk.jobs.schedule(desk.at().work, "x", key="k") for _ in range(20)))
        await world.advance(seconds=5)
        assert len({job.id for job in jobs + more}) == 1
        assert desk.labels == ["x"]


async def test_a_key_is_kept_over_a_crash(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, "x", key="k")
        await world.settle()
        await world.crash()
        await world.restart()
        assert (await desk.jobs.schedule(desk.at().work, "x", key="k")).state == "done"
        await world.advance(seconds=5)
        assert desk.labels == ["x"]


async def test_a_key_is_free_again_when_its_record_has_expired(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        await desk.jobs.schedule(desk.at().work, "x", key="k")
        await world.settle()
        await world.crash()
        await world.restart(after="25h")
        job = await desk.jobs.schedule(desk.at().work, "y", key="k")
        assert job.state == "scheduled"
        await world.settle()
        assert desk.labels == ["x", "y"]


async def test_a_keyed_job_from_a_turn_onto_another_object(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def ask(clerk: Any) -> Any:
            b = clerk.ctx.get(desk.Clerk, "b")
            first = await clerk.jobs.schedule(b.work, "x", key="k", after=5)
            again = await clerk.jobs.schedule(b.work, "x", key="k", after=5)
            with pytest.raises(errors.KeyTaken):
                await clerk.jobs.schedule(b.work, "y", key="k", after=5)
            assert first.id == again.id
            return first

        job = await desk.do(ask)
        assert (await desk.jobs.get(job.id)).state == "scheduled"
        await world.advance(seconds=1)
        assert (await desk.do(ask)).id == job.id
        await world.advance(seconds=10)
        assert list(zip(desk.labels, desk.times, strict=True)) == [("x", 5)]

        async def replace(clerk: Any) -> Any:
            b = clerk.ctx.get(desk.Clerk, "b")
            return await clerk.jobs.schedule(b.work, "z", key="k", after=5, replace=True)

        await desk.do(replace)
        await world.advance(seconds=10)
        assert desk.labels == ["x", "z"]


async def test_a_job_that_schedules_itself_again_under_its_own_key(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def chain(clerk: Any, job: Any) -> None:
            if len(desk.seen) < 3:
                await clerk.jobs.schedule(clerk.work, "x", key="k", after=5, replace=True)

        desk.handlers["x"] = chain
        job = await desk.jobs.schedule(desk.at().work, "x", key="k")
        await world.advance(seconds=30)
        assert (desk.times, await desk.state(job)) == ([0, 5, 10], "done")


async def test_one_that_is_inserted_when_its_key_has_just_had_its_run_does_not_run(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at().work, "x", key="k", after=5)
        [timer] = await world.due()
        await world.advance(seconds=10)
        # Somebody else had looked before it ended, found the key free, and inserts only now.
        late = replace(timer, payload=encode_kept(replace(decode_kept(timer), token="another")))
        assert await world.node.add_timers([late]) == []
        await world.advance(seconds=10)
        assert (desk.labels, await world.due(), await desk.state(job)) == (["x"], [], "done")
        assert desk.jobs.counters()["duplicates"] == 1


async def test_a_job_whose_record_has_expired_still_says_its_method(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def stop(clerk: Any, job: Any) -> Any:
            return Stop("enough")

        desk.handlers.update(stop=stop)
        done = await desk.jobs.schedule(desk.at().work, key="done")
        colons = await desk.jobs.schedule(desk.at().other, key="a:b/c: d")
        stopped = await desk.jobs.schedule(desk.at().work, "stop", key="stopped")
        cancelled = await desk.jobs.schedule(desk.at().work, after="1h", key="cancelled")
        await desk.jobs.cancel(cancelled)
        await world.advance(seconds=1)
        before = {job.id: await desk.jobs.get(job.id) for job in (done, colons, stopped, cancelled)}
        await world.advance(hours=25)
        for job, method, state in (
            (done, "work", "done"),
            (colons, "other", "done"),
            (stopped, "work", "cancelled"),
            (cancelled, "work", "cancelled"),
        ):
            seen = await desk.jobs.get(job.id)
            assert (seen.name, seen.state, seen.key) == (method, state, job.key)
            assert seen.created_at is None  # so this is the ledger's word, not the record's
            if before[job.id].run_id is not None:
                assert seen.run_id == before[job.id].run_id
        rows = await world.store.find_entries(Query(cls="Clerk", key="a", limit=10))
        assert {plain_entry(entry, number)["words"] for number, entry in rows} == {
            "job 'done', work",
            "job 'a:b/c: d', other",
            "job 'stopped', work",
            "job 'cancelled', work",
        }
