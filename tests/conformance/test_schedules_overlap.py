"""Occurrences that fall due while a run is under way, its retries included; on every store."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.rota import Rota, after, effects, failing, fates, since, timers, verdicts
from wakeful import RetryPolicy, Run, fixed


def slow(*seconds: float) -> Any:
    """A handler whose runs take so long, one after the other; those beyond take no time."""
    left = list(seconds)

    async def handler(clock: Any, run: Run) -> None:
        await asyncio.sleep(left.pop(0) if left else 0)

    return handler


async def test_a_run_longer_than_its_interval_swallows_those_meanwhile(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = slow(25)
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=51)
        assert rota.times == [10, 40, 50]
        assert await verdicts(world, rota) == [
            (10, "run"), (20, "overlap"), (30, "overlap"), (40, "run"), (50, "run"),
        ]  # fmt: skip
        assert (await rota.on().get("s")).counters.overlap == 2


async def test_an_occurrence_at_the_very_end_of_a_run_is_swallowed_too(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = slow(20)
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=41)
        assert await fates(world, rota) == {10: "run", 20: "overlap", 30: "overlap", 40: "run"}


async def test_queue_one_runs_the_first_of_them_afterwards(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = slow(35)
        await rota.on().add("every 10s", "tick", name="s", overlap="queue_one")
        await world.advance(seconds=51)
        assert (rota.nominal, rota.times) == ([10, 20, 50], [10, 45, 50])
        assert await fates(world, rota) == {10: "run", 20: "run", 30: "overlap", 40: "overlap", 50: "run"}


async def test_queue_all_runs_all_of_them_afterwards_in_order(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = slow(35)
        await rota.on().add("every 10s", "tick", name="s", overlap="queue_all")
        await world.advance(seconds=51)
        assert (rota.nominal, rota.times) == ([10, 20, 30, 40, 50], [10, 45, 45, 45, 50])
        assert set((await fates(world, rota)).values()) == {"run"}
        assert {run.missed for run in rota.began} == {0}


async def test_what_is_queued_outlives_a_crash(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = slow(35, 5)
        await rota.on().add("every 10s", "tick", name="s", overlap="queue_all")
        await world.advance(seconds=47)
        assert rota.nominal == [10, 20]
        await world.crash()
        await world.restart()
        await world.advance(seconds=4)
        assert rota.nominal == [10, 20, 20, 30, 40, 50]
        assert await fates(world, rota) == dict.fromkeys((10, 20, 30, 40, 50), "run")
        assert set((await effects(world, rota)).values()) == {1}


async def test_a_run_that_waits_for_its_retry_is_under_way(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(2)
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(3, fixed("12s")))
        await world.advance(seconds=55)
        # 10 fails at 10 and about 23, and runs between 34 and 40.
        assert [run.attempt for run in rota.began] == [0, 1, 2, 0, 0]
        assert await fates(world, rota) == {10: "run", 20: "overlap", 30: "overlap", 40: "run", 50: "run"}
        counters = (await rota.on().get("s")).counters
        assert (counters.runs, counters.retries, counters.failures, counters.overlap) == (3, 2, 0, 2)


async def test_a_run_that_is_given_up_is_over_when_it_is_parked(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(2)
        options: dict[str, Any] = {"retry": RetryPolicy(2, fixed("15s")), "overlap": "queue_one"}
        await rota.on().add("every 10s", "tick", name="s", **options)
        await world.advance(seconds=41)
        assert await fates(world, rota) == {10: "failed", 20: "run", 30: "run", 40: "run"}


async def test_a_pause_holds_what_fell_due_during_a_run(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = slow(25)
        await rota.on().add("every 10s", "tick", name="s", overlap="queue_all")
        await world.advance(seconds=5)
        await rota.on().pause("s", until=after(7))
        await world.advance(seconds=6)
        pause = asyncio.create_task(rota.on().pause("s"))  # waits behind the run
        await world.advance(seconds=25)
        assert await pause == 1
        assert (await fates(world, rota)) == {10: "run", 20: "paused", 30: "paused"}  # they had not begun
        await world.advance(seconds=5)
        assert (await fates(world, rota))[40] == "paused"


async def test_parallel_lets_so_many_be_under_way_at_once(stage: Any) -> None:
    """One turn at a time holds still: what is under way beside it waits for its retry."""
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(3)
        await rota.on().add("every 10s", "tick", name="s", parallel=2, retry=RetryPolicy(3, fixed("24s")))
        await world.advance(seconds=32)
        assert rota.nominal == [10, 20]  # both wait; a third would be one too many
        assert await fates(world, rota) == {10: "failed", 20: "failed", 30: "overlap"}
        await world.advance(seconds=50)
        found = await fates(world, rota)
        assert (found[10], found[20], found[30]) == ("run", "run", "overlap")
        assert set(found) == {10, 20, 30, 40, 50, 60, 70, 80}
        assert set((await effects(world, rota)).values()) == {1}
        counters = (await rota.on().get("s")).counters
        assert counters.occurrences == 8
        assert (await rota.on().get("s")).next_at == after(90)


@pytest.mark.parametrize("overlap", ["queue_one", "queue_all"])
async def test_parallel_with_a_queue_gives_the_next_free_lane_to_those_that_wait(stage: Any, overlap: str) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def first_two_fail(clock: Any, run: Run) -> None:
            if since(run.nominal_at) <= 20 and run.attempt == 0:
                raise ValueError

        rota.handlers["s"] = first_two_fail
        retry = RetryPolicy(2, fixed("35s"))
        await rota.on().add("every 10s", "tick", name="s", parallel=2, overlap=overlap, retry=retry)
        await world.advance(seconds=71)
        found = await fates(world, rota)
        assert [found[at] for at in (10, 20, 30, 60, 70)] == ["run"] * 5
        assert found[40] == ("overlap" if overlap == "queue_one" else "run")
        assert set(found) == {10, 20, 30, 40, 50, 60, 70}


async def test_parallel_catches_up_in_order_on_all_its_lanes(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", parallel=3, catch_up="all", grace="1s")
        await world.crash()
        await world.restart(after="75s")
        await world.settle()
        assert rota.nominal == [10, 20, 30, 40, 50, 60, 70]
        assert [run.missed for run in rota.began] == [1] * 7
        assert await fates(world, rota) == dict.fromkeys(range(10, 80, 10), "run")
        assert await timers(world, rota) == {"schedule:s": 80}


async def test_parallel_lanes_outlive_a_crash(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(2)
        await rota.on().add("every 10s", "tick", name="s", parallel=2, retry=RetryPolicy(2, fixed("30s")))
        await world.advance(seconds=22)
        await world.crash()
        await world.restart(after="5s")
        await world.advance(seconds=40)
        found = await fates(world, rota)
        assert (found[10], found[20], found[30]) == ("run", "run", "overlap")
        assert set((await effects(world, rota)).values()) == {1}


async def test_parallel_runs_no_more_than_max_runs(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        options: dict[str, Any] = {"parallel": 5, "max_runs": 2, "catch_up": "all", "grace": "1s"}
        await rota.on().add("every 10s", "tick", name="s", **options)
        await world.crash()
        await world.restart(after="55s")
        await world.advance(timedelta(seconds=10))
        assert rota.nominal == [10, 20]
        assert (await rota.on().get("s")).state == "done"
        assert await timers(world, rota) == {}


@pytest.mark.parametrize(
    ("overlap", "then"),
    [
        ("skip", ["run", "run", "run", "run", "overlap", "overlap"]),
        ("queue_one", ["run", "run", "run", "run", "run", "overlap"]),
        ("queue_all", ["run", "run", "run", "run", "run", "run"]),
    ],
)
async def test_what_falls_due_while_a_lane_holds_the_object_is_on_time(
    stage: Any, overlap: str, then: list[str]
) -> None:
    """Two lanes, runs of 150 s each minute: the object is busy, but nothing was missed."""
    rota = Rota(stage)
    rota.handlers["s"] = slow(*[150] * 20)
    async with rota.world() as world:
        await rota.on().add("* * * * *", "tick", name="s", parallel=2, overlap=overlap)
        await world.advance(minutes=26)
        found = await fates(world, rota)
        assert [found[60 * minute] for minute in range(1, 7)] == then
        assert not set(found.values()) & {"skipped", "too_late"}


@pytest.mark.parametrize(("overlap", "last"), [("skip", "overlap"), ("queue_one", "run"), ("queue_all", "run")])
async def test_what_falls_due_while_a_backlog_stands_still_is_late_and_not_overlapping(
    stage: Any, overlap: str, last: str
) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = slow(*[1] * 30)
        await rota.on().add("every 10s", "tick", name="s", overlap=overlap)
        await world.advance(seconds=15)
        await world.crash()
        await world.restart(after="50s")  # five are late, and run one after the other
        await world.advance("1500ms")
        await world.crash()
        await world.restart(after="40s")  # within the grace too: the four of this time are late as well
        await world.advance(seconds=15)
        found = await fates(world, rota)
        assert [found[at] for at in range(10, 110, 10)] == ["run"] * 10
        assert found[110] == last  # this one fell due while others ran
        assert found[120] == "run"


async def test_what_falls_due_while_a_schedule_waits_for_another_is_overlapping(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 1h", "tick", name="first")
        await rota.on().add("every 1h", "tick", name="s", depends_on=["first"], catch_up="all", start_at=after(300))
        await rota.on().pause("first")
        await world.advance(hours=3, minutes=30)
        await rota.on().resume("first")
        await world.advance(hours=1)
        assert list((await fates(world, rota)).values())[:4] == ["run", "overlap", "overlap", "overlap"]
