"""Runs that fail: tried again, given up, parked, redriven, and never in the schedule's way; on every store."""

import asyncio
from datetime import timedelta
from typing import Any

from tests.conformance.rota import Rota, after, effects, failing, fates, since, timers, verdicts
from wakeful import RetryPolicy, Run, exponential, fixed


async def test_a_failing_run_is_tried_five_times_with_growing_waits_by_default(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing()
        await rota.on().add("0 * * * *", "tick", name="s", start_at=after(0))
        await world.crash()
        await world.restart(after="3600s")
        await world.advance(seconds=45)
        assert [run.attempt for run in rota.began] == [0, 1, 2, 3, 4]
        assert len({run.id for run in rota.began}) == 1
        waits = [b - a for a, b in zip(rota.times, rota.times[1:], strict=False)]
        for wait, least in zip(waits, (2, 4, 8, 16), strict=True):
            assert least <= wait <= least * 1.25
        [parked] = await world.parked()
        assert (parked.attempts, parked.reason, parked.run_id) == (5, "failed", rota.began[0].id)
        assert "on purpose" in parked.error
        assert [run.verdict for run in await world.ledger(rota.Clock, "a", "s")] == ["failed"] * 5
        counters = (await rota.on().get("s")).counters
        assert (counters.failures, counters.retries, counters.runs, counters.occurrences) == (1, 4, 0, 1)


async def test_the_schedule_goes_on_beside_what_it_parked(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(1)
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(1))
        await world.advance(seconds=32)
        assert await fates(world, rota) == {10: "failed", 20: "run", 30: "run"}
        assert await timers(world, rota) == {"schedule:s": 40}
        [parked] = await world.parked()
        assert parked.timer.name.startswith("run:s@p")


async def test_waits_and_attempts_are_as_the_policy_says(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing()
        policy = RetryPolicy(max_attempts=4, backoff=exponential("1s", factor=3, max="4s"))
        await rota.on().add(after(1), "tick", name="s", retry=policy)
        await world.advance(seconds=20)
        waits = [b - a for a, b in zip(rota.times, rota.times[1:], strict=False)]
        for wait, least in zip(waits, (1, 3, 4), strict=True):
            assert least <= wait <= least * 1.25
        assert len(await world.parked()) == 1
        assert (await rota.on().get("s")).state == "done"


async def test_only_the_errors_that_the_policy_names_are_tried_again(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        policy = RetryPolicy(3, fixed("1s"), on=(LookupError, TimeoutError))
        for name, error in (("base", KeyError), ("itself", TimeoutError), ("other", ValueError)):
            rota.handlers[name] = failing(1, error)
            await rota.on().add(after(1), "tick", name=name, retry=policy)
        await world.advance(seconds=5)
        assert await fates(world, rota, "base") == {1: "run"}
        assert await fates(world, rota, "itself") == {1: "run"}
        assert await fates(world, rota, "other") == {1: "failed"}
        [parked] = await world.parked()
        assert "ValueError" in parked.error


async def test_redrive_runs_that_occurrence_again_and_leaves_the_schedule_alone(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(1)
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(1))
        await world.advance(seconds=25)
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.settle()
        assert (rota.nominal, rota.times) == ([10, 20, 10], [10, 20, 25])
        assert rota.began[2].id == rota.began[0].id
        assert (rota.began[2].attempt, rota.began[2].is_backfill) == (0, False)
        assert await fates(world, rota) == {10: "run", 20: "run"}
        assert await timers(world, rota) == {"schedule:s": 30}
        assert await world.parked() == []
        counters = (await rota.on().get("s")).counters
        assert (counters.runs, counters.failures, counters.occurrences) == (2, 0, 2)


async def test_a_redriven_run_that_fails_again_is_parked_again_as_often_as_it_takes(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(6)
        await rota.on().add(after(1), "tick", name="s", retry=RetryPolicy(2, fixed("1s")))
        await world.advance(seconds=4)
        names = set()
        for _ in range(2):
            [parked] = await world.parked()
            names.add(parked.timer.name)
            await world.node.redrive(parked)
            await world.advance(seconds=3)
        [parked] = await world.parked()
        assert len({*names, parked.timer.name}) == 1
        counters = (await rota.on().get("s")).counters
        assert (counters.failures, counters.runs) == (1, 0)
        await world.node.redrive(parked)
        await world.settle()
        assert await fates(world, rota) == {1: "run"}
        assert (await rota.on().get("s")).counters.occurrences == 1


async def test_a_nameless_schedule_that_failed_for_good_can_be_redriven_and_goes_then(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        made = await rota.on().add(after(1), "tick", "x", retry=RetryPolicy(1))
        rota.handlers[made.name] = failing(1)
        await world.advance(seconds=2)
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.settle()
        assert rota.given == [(("x",), {})] * 2
        assert await fates(world, rota, made.name) == {1: "run"}
        assert await rota.on().list() == []


async def test_triggered_and_backfilled_runs_are_parked_and_redriven_as_themselves(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        fails = {-7200: 1, -3600: 0, 2: 1}  # nominal time: how often

        async def moody(clock: Any, run: Run) -> None:
            at = int(since(run.nominal_at))
            fails[at] -= 1
            if fails[at] >= 0:
                raise ValueError("on purpose")

        rota.handlers["s"] = moody
        await rota.on().add("0 * * * *", "tick", name="s", retry=RetryPolicy(1))
        await world.advance(seconds=2)
        [id] = await rota.on().trigger("s")
        await rota.on().backfill("s", after(-7200), after(0))
        await world.settle()
        assert await fates(world, rota) == {-7200: "failed", -3600: "run", 2: "failed"}
        parked = await world.parked()
        assert id in {one.run_id for one in parked}
        for one in parked:
            await world.node.redrive(one)
        await world.settle()
        assert await fates(world, rota) == {-7200: "run", -3600: "run", 2: "run"}  # under the ids they had
        assert await timers(world, rota) == {"schedule:s": 3600}


async def test_a_cancelled_schedules_parked_run_comes_to_nothing(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(1)
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(1))
        await world.advance(seconds=12)
        await rota.on().cancel("s")
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.advance(seconds=20)
        assert rota.times == [10]
        assert await timers(world, rota) == {}


async def test_cancel_while_a_retry_waits_gives_the_occurrence_its_last_word(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing()
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(5, fixed("8s")))
        await world.advance(seconds=12)
        await rota.on().cancel("s")
        await world.advance(seconds=20)
        assert await verdicts(world, rota) == [(10, "failed"), (10, "skipped")]
        assert len(rota.began) == 1


def killing(world: Any, at: int) -> Any:
    """A handler whose run of that second kills the process."""

    async def killer(clock: Any, run: Run) -> None:
        if run.nominal_at == after(at):
            world.kill()
            await asyncio.sleep(0)

    return killer


async def test_a_run_that_kills_the_process_three_times_is_parked_and_the_schedule_goes_on(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = killing(world, 10)
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=10)
        for _ in range(3):
            await world.restart(after="1s")
            await world.settle()
        assert len(rota.began) == 3
        [parked] = await world.parked()
        assert (parked.reason, parked.run_id) == ("crashed", rota.began[0].id)
        assert "died 3 times" in parked.error
        await world.advance(seconds=20)
        assert await fates(world, rota) == {10: "failed", 20: "run", 30: "run"}
        assert (await rota.on().get("s")).counters.failures == 1
        rota.handlers.clear()
        await world.node.redrive(parked)
        await world.settle()
        assert (await fates(world, rota))[10] == "run"


async def test_deaths_of_a_run_are_counted_on_when_its_schedule_is_added_anew(stage: Any) -> None:
    """A program may do so at each start: a run that kills it is parked all the same."""
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = killing(world, 10)
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=10)
        for length in (20, 30, 40):
            world.faults.lag_once("timers", "late", 500)  # so that the program comes first
            await world.restart(after="1s")
            await rota.on().add(f"every {length}s", "tick", name="s")
            await world.advance(seconds=1)
        assert [since(run.nominal_at) for run in rota.began] == [10, 10, 10]
        [parked] = await world.parked()
        assert parked.reason == "crashed"


async def test_what_was_committed_before_the_failure_stays_and_the_run_is_tried_again(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def half(clock: Any, run: Run) -> None:
            await clock.storage.put(f"half:{run.attempt}", True)
            await clock.ctx.commit()
            await clock.storage.put(f"whole:{run.attempt}", True)
            if run.attempt < 2:
                raise ValueError("after the commit")

        rota.handlers["s"] = half
        await rota.on().add(
            "every 10s", "tick", name="s", grace="2s", catch_up="latest", retry=RetryPolicy(3, fixed("1s"))
        )
        await world.crash()
        await world.restart(after="35s")  # so that there are verdicts to commit with it
        await world.advance(seconds=4)
        rows = await world.rows(rota.Clock, "a")
        assert {name for name in rows if name[0] != "e"} == {"half:0", "half:1", "half:2", "whole:2"}
        assert await verdicts(world, rota) == [
            (10, "skipped"), (20, "skipped"), (30, "failed"), (30, "failed"), (30, "run"),
        ]  # fmt: skip
        counters = (await rota.on().get("s")).counters
        assert (counters.skipped, counters.runs, counters.retries) == (2, 1, 2)


async def test_a_crash_after_a_commit_in_the_run_leaves_one_verdict(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def dies(clock: Any, run: Run) -> None:
            await clock.ctx.commit()
            if len(rota.began) == 1:
                world.kill()
                await asyncio.sleep(0)

        rota.handlers["s"] = dies
        await rota.on().add("every 10s", "tick", name="s", grace="2s", catch_up="latest")
        await world.crash()
        await world.restart(after="35s")
        await world.restart(after="1s")
        await world.settle()
        assert await verdicts(world, rota) == [(10, "skipped"), (20, "skipped"), (30, "run")]
        assert rota.nominal == [30, 30]
        assert rota.began[1].missed == rota.began[0].missed == 3


async def test_a_wake_that_fails_is_a_failed_attempt_of_the_occurrence(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(
            "every 10s", "tick", name="s", catch_up="latest", grace="2s", retry=RetryPolicy(4, fixed("1s"))
        )
        fails = [True, True]

        async def wakes(clock: Any) -> None:
            if fails:
                fails.pop()
                raise ValueError("can't get up")

        rota.on_wake = wakes
        await world.crash()
        await world.restart(after="35s")
        await world.advance(seconds=4)
        # The occurrence is chosen, and named in the ledger, although its handler was never reached.
        assert await verdicts(world, rota) == [
            (10, "skipped"), (20, "skipped"), (30, "failed"), (30, "failed"), (30, "run"),
        ]  # fmt: skip
        assert [run.attempt for run in rota.began] == [2]
        ids = {run.id for run in await world.ledger(rota.Clock, "a", "s") if run.nominal_at == after(30)}
        assert len(ids) == 1


async def test_a_wake_that_fails_for_good_parks_one_occurrence_after_the_other(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(1))
        await world.sleep_all()

        async def broken(clock: Any) -> None:
            raise ValueError("can't get up")

        rota.on_wake = broken
        await world.advance(seconds=25)
        assert len(await world.parked()) == 2
        rota.on_wake = None
        for parked in await world.parked():
            await world.node.redrive(parked)
        await world.advance(seconds=7)
        assert await fates(world, rota) == {10: "run", 20: "run", 30: "run"}


async def test_a_wake_that_fails_with_nothing_to_run_is_no_verdict(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s")
        await rota.on().pause("s")
        await world.sleep_all()

        async def broken(clock: Any) -> None:
            raise ValueError("can't get up")

        rota.on_wake = broken
        await world.advance(seconds=25)
        rota.on_wake = None
        assert await verdicts(world, rota) == [(10, "paused"), (20, "paused")]
        assert (await rota.on().get("s")).counters.occurrences == 2
        assert await world.parked() == []


async def test_a_run_past_its_deadline_is_a_failed_attempt(stage: Any) -> None:
    rota = Rota(stage)
    limits = rota.app.deployment.limits.__class__(alarm_deadline_ms=5_000)
    async with rota.world(limits=limits) as world:

        async def slow_once(clock: Any, run: Run) -> None:
            await asyncio.sleep(60 if run.attempt == 0 else 0)

        rota.handlers["s"] = slow_once
        await rota.on().add(after(1), "tick", name="s", retry=RetryPolicy(2, fixed("1s")))
        await world.advance(seconds=9)
        first, second = await world.ledger(rota.Clock, "a", "s")
        assert (first.verdict, second.verdict) == ("failed", "run")
        assert "longer than 5000 ms" in str(first.error)
        assert first.finished_at - first.fired_at == timedelta(seconds=5)
        assert set((await effects(world, rota)).values()) == {1}


async def test_a_store_that_is_away_is_not_the_handlers_fault(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(1))
        await world.advance(seconds=5)
        world.faults.is_down = True
        await world.advance(seconds=12)
        world.faults.is_down = False
        await world.advance(seconds=10)
        assert set((await fates(world, rota)).values()) == {"run"}
        assert 10 in await fates(world, rota)
        assert await world.parked() == []
