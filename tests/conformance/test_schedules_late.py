"""Late and missed occurrences: the five policies, window, limit, grace, and a clock that is set; on every store."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.rota import Rota, after, failing, fates, since, timers, verdicts
from wakeful import RetryPolicy, Run, any_of, fixed, spread
from wakeful.policy import plan as planning

GRACE = "2s"  # short, so that an outage need not be long


async def outage(rota: Any, world: Any, seconds: float, **options: Any) -> None:
    """Add a schedule of every 10 s at the start, and be away until then."""
    await rota.on().add("every 10s", "tick", name="s", **{"grace": GRACE, **options})
    await world.crash()
    await world.restart(after=timedelta(seconds=seconds))
    await world.settle()


async def test_skip_runs_none_of_the_missed_ones_and_tells_the_next_run(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 35, catch_up="skip")
        assert rota.began == []
        assert await fates(world, rota) == {10: "skipped", 20: "skipped", 30: "skipped"}
        await world.advance(seconds=20)
        assert [(run.missed, run.first_at) for run in rota.began] == [(3, after(10)), (0, None)]
        assert await verdicts(world, rota) == [
            (10, "skipped"), (20, "skipped"), (30, "skipped"), (40, "run"), (50, "run"),
        ]  # fmt: skip


async def test_skip_still_runs_one_that_is_merely_late(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 31, catch_up="skip")
        assert (rota.nominal, rota.times) == ([30], [31])
        assert await fates(world, rota) == {10: "skipped", 20: "skipped", 30: "run"}
        assert (rota.began[0].missed, rota.began[0].first_at) == (2, after(10))


async def test_latest_runs_only_the_most_recent(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 35, catch_up="latest")
        assert (rota.nominal, rota.times) == ([30], [35])
        [run] = rota.began
        assert (run.missed, run.first_at, run.is_backfill) == (3, after(10), False)  # itself included
        assert run.lateness == timedelta(seconds=5)
        assert await fates(world, rota) == {10: "skipped", 20: "skipped", 30: "run"}


async def test_latest_takes_one_that_is_merely_late_for_all_that_were_missed(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 31, catch_up="latest")
        assert rota.nominal == [30]
        assert (rota.began[0].missed, rota.began[0].first_at) == (2, after(10))
        assert await fates(world, rota) == {10: "skipped", 20: "skipped", 30: "run"}


@pytest.mark.parametrize("bound", [1, 2, 3])
async def test_one_run_answers_for_an_outage_that_is_judged_in_parts(
    stage: Any, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the cut is: also among those that are merely late, who would all run if nothing had been missed."""
    monkeypatch.setattr(planning, "JUDGED_MAX", bound)
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 45, catch_up="latest", grace="25s")
        assert rota.nominal == [40]
        assert (rota.began[0].missed, rota.began[0].first_at) == (3, after(10))
        assert await fates(world, rota) == {10: "skipped", 20: "skipped", 30: "skipped", 40: "run"}


async def test_all_runs_each_oldest_first(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 41, catch_up="all")
        assert (rota.nominal, rota.times) == ([10, 20, 30, 40], [41] * 4)
        assert [run.missed for run in rota.began] == [1, 1, 1, 0]
        assert not any(run.is_backfill for run in rota.began)
        await world.advance(seconds=10)
        assert rota.nominal[4:] == [50]


async def test_all_runs_at_most_max_catch_up_the_most_recent_ones(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 55, catch_up="all", max_catch_up=2)
        assert rota.nominal == [40, 50]
        assert await fates(world, rota) == {10: "skipped", 20: "skipped", 30: "skipped", 40: "run", 50: "run"}
        assert [(run.missed, run.first_at) for run in rota.began] == [(4, after(10)), (1, after(50))]


async def test_coalesce_is_one_run_that_is_told_the_count_the_first_and_the_last(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 45, catch_up="coalesce")
        [run] = rota.began
        assert (run.missed, run.first_at, since(run.nominal_at)) == (4, after(10), 40)
        assert await fates(world, rota) == {10: "coalesced", 20: "coalesced", 30: "coalesced", 40: "run"}
        await world.advance(seconds=6)
        assert rota.began[1].missed == 0


async def test_backfill_runs_each_with_its_own_time_and_says_that_it_does(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 31, catch_up="backfill", max_catch_up=10)
        assert rota.nominal == [10, 20, 30]
        assert [run.is_backfill for run in rota.began] == [True, True, False]  # 30 is merely late
        assert [run.is_backfill for run in await world.ledger(rota.Clock, "a", "s")] == [True, True, False]


@pytest.mark.parametrize("policy", ["all", "latest", "coalesce", "backfill"])
async def test_nothing_is_owed_from_before_the_window(stage: Any, policy: str) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 45, catch_up=policy, catch_up_window="20s")
        found = await fates(world, rota)
        assert (found[10], found[20], found[40]) == ("too_late", "too_late", "run")
        assert found[30] == {"latest": "skipped", "coalesce": "coalesced"}.get(policy, "run")
        assert rota.began[0].missed == {"latest": 4, "coalesce": 4}.get(policy, 3)
        assert rota.began[0].first_at == after(10)


ONCE = [after(10), "after 10s", timedelta(seconds=10), spread(after(10), "1ms"), any_of(after(10), after(5))]


@pytest.mark.parametrize("spec", ONCE)
async def test_what_happens_once_runs_however_late(stage: Any, spec: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(spec, "tick", name="s")
        await world.crash()
        await world.restart(after="400d")
        assert rota.nominal == [10]
        assert (await fates(world, rota))[10] == "run"


@pytest.mark.parametrize(("window", "verdict"), [("1d", "too_late"), ("1h", "too_late"), ("3d", "run")])
async def test_what_happens_once_has_the_window_that_it_is_given(stage: Any, window: str, verdict: str) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(after(10), "tick", name="s", catch_up_window=window)
        await world.crash()
        await world.restart(after="2d")
        assert await fates(world, rota) == {10: verdict}


async def test_the_window_goes_by_the_spec_that_a_schedule_has_when_it_is_late(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every day at 00:00:10", "tick", name="once")
        await rota.on().reschedule("once", after(10))
        await rota.on().add(after(10), "tick", name="daily")
        await rota.on().reschedule("daily", "10 0 1 1 *")  # every year
        await world.crash()
        await world.restart(after="2d")
        assert await fates(world, rota, "once") == {10: "run"}
        assert await fates(world, rota, "daily") == {600: "too_late"}


async def test_within_the_grace_nothing_is_missed_and_each_runs(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 45, catch_up="skip", grace="1m")
        assert rota.nominal == [10, 20, 30, 40]
        assert {run.missed for run in rota.began} == {0}
        assert (await rota.on().get("s")).counters.missed == 0


async def test_the_defaults_are_skip_for_intervals_and_latest_for_calendars(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        assert (await rota.on().add("every 90m", "tick", name="i")).catch_up == "skip"
        assert (await rota.on().add("0 * * * *", "tick", name="c")).catch_up == "latest"
        await world.crash()
        await world.restart(after="3h5m")
        await world.settle()
        assert await fates(world, rota, "i") == {5400: "skipped", 10800: "skipped"}
        assert await fates(world, rota, "c") == {3600: "skipped", 7200: "skipped", 10800: "run"}


async def test_a_long_outage_shares_ledger_rows_beyond_a_hundred(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 15_005, catch_up="latest", catch_up_window="5000s")
        rows = await world.ledger(rota.Clock, "a", "s")
        assert sum(row.covers for row in rows) == 1500
        assert len(rows) == 103
        assert [(row.verdict, row.covers, row.first_at, since(row.nominal_at)) for row in rows[:2]] == [
            ("too_late", 1000, after(10), 10_000),
            ("skipped", 399, after(10_010), 13_990),
        ]
        assert rota.began[0].missed == 1500


async def test_on_missed_is_told_of_those_that_do_not_run(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 35, catch_up="latest", on_missed="missed")
        [told] = rota.told
        assert (told.count, told.first_at, told.last_at) == (2, after(10), after(20))
        assert rota.nominal == [30]
        await world.advance(seconds=20)
        assert len(rota.told) == 1


async def test_on_missed_is_told_when_nothing_runs_at_all(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await outage(rota, world, 35, catch_up="skip", on_missed="missed")
        assert (rota.began, [told.count for told in rota.told]) == ([], [3])
        assert (await world.rows(rota.Clock, "a"))["told"] == 3


async def test_what_on_missed_wrote_is_there_once_although_the_run_after_it_failed(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(2)
        await outage(rota, world, 35, catch_up="latest", on_missed="missed")
        await world.advance(seconds=10)
        assert (await world.rows(rota.Clock, "a"))["told"] == 2
        assert (await fates(world, rota))[30] == "run"


async def test_on_missed_that_fails_is_tried_again_and_leaves_the_verdicts_alone(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        fails = [True, True, False]

        async def moody(clock: Any, about: Any) -> None:
            if fails.pop(0):
                raise ValueError("not now")

        rota.on_missed = moody
        await outage(rota, world, 34, catch_up="skip", on_missed="missed")
        await world.advance(seconds=30)
        assert fails == []
        assert (await world.rows(rota.Clock, "a"))["told"] == 3
        found = await fates(world, rota)
        assert {at: found[at] for at in (10, 20, 30)} == {10: "skipped", 20: "skipped", 30: "skipped"}
        assert "failed" not in found.values()
        rows = await world.ledger(rota.Clock, "a", "missed:s")
        assert [(row.verdict, row.attempt) for row in rows] == [("failed", 0), ("failed", 1)]


async def test_on_missed_that_fails_for_good_is_given_up_and_the_schedule_goes_on(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def broken(clock: Any, about: Any) -> None:
            raise ValueError("never")

        rota.on_missed = broken
        retry = RetryPolicy(2, fixed("1s"))
        await outage(rota, world, 35, catch_up="skip", on_missed="missed", retry=retry)
        await world.advance(seconds=17)
        assert len(rota.told) == 2
        assert await world.parked() == []
        assert rota.nominal == [40, 50]


async def test_on_missed_that_fails_for_good_is_given_up_and_the_run_that_waits_goes_on(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def broken(clock: Any, about: Any) -> None:
            raise ValueError("never")

        rota.on_missed = broken
        await outage(rota, world, 35, catch_up="latest", on_missed="missed", retry=RetryPolicy(2, fixed("1s")))
        await world.advance(seconds=17)
        assert await fates(world, rota) == {10: "skipped", 20: "skipped", 30: "run", 40: "run", 50: "run"}
        assert await world.parked() == []
        assert len(rota.told) == 2


async def test_on_missed_is_told_although_the_run_after_it_was_given_up(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(2)
        await outage(rota, world, 35, catch_up="latest", on_missed="missed", retry=RetryPolicy(2, fixed("1s")))
        await world.advance(seconds=6)
        assert (await fates(world, rota))[30] == "failed"
        assert (await world.rows(rota.Clock, "a"))["told"] == 2  # with the next run


async def test_what_falls_due_in_a_second_outage_is_judged_when_that_is_over(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def dies(clock: Any, run: Run) -> None:
            if len(rota.began) == 2:
                world.kill()

        rota.handlers["s"] = dies
        await outage(rota, world, 35, catch_up="all")
        assert rota.nominal == [10, 20]  # 10 is done; it dies in 20
        await world.restart(after="25s")
        await world.settle()
        assert await fates(world, rota) == dict.fromkeys((10, 20, 30, 40, 50, 60), "run")
        assert rota.nominal == [10, 20, 20, 30, 40, 50, 60]
        assert await timers(world, rota) == {"schedule:s": 70}


async def test_a_clock_that_is_set_back_fires_nothing_twice(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=35)
        await world.step_clock(timedelta(seconds=-22))
        assert since(world.now()) == 13
        await world.advance(seconds=20)
        assert rota.nominal == [10, 20, 30]
        await world.advance(seconds=8)
        assert rota.nominal == [10, 20, 30, 40]
        assert await fates(world, rota) == dict.fromkeys((10, 20, 30, 40), "run")
        assert world.node.clock_steps == {"back": 1}


async def test_a_clock_that_is_set_back_between_two_processes_fires_nothing_twice(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", catch_up="all")
        await world.advance(seconds=35)
        await world.crash()
        await world.step_clock(timedelta(seconds=-20))
        await world.restart()
        await world.advance(seconds=30)
        assert await fates(world, rota) == dict.fromkeys((10, 20, 30, 40), "run")
        assert rota.nominal == [10, 20, 30, 40]


async def test_a_clock_that_jumps_ahead_is_an_outage(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", catch_up="coalesce", grace=GRACE)
        await world.advance(seconds=12)
        await world.step_clock(timedelta(seconds=43))
        await world.settle()
        assert await fates(world, rota) == {10: "run", 20: "coalesced", 30: "coalesced", 40: "coalesced", 50: "run"}
        assert (rota.began[-1].missed, rota.began[-1].first_at) == (4, after(20))
        assert world.node.clock_steps == {"ahead": 1}
        await world.advance(seconds=6)
        assert rota.nominal == [10, 50, 60]


async def test_a_time_that_the_clocks_jump_over_gets_its_own_verdict(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world(start="2026-03-29T00:59:50+00:00") as world:  # ten seconds before 02:00 becomes 03:00
        options = {"zone": "Europe/Berlin"}
        await rota.on().add("30 2 * * *", "tick", name="skips", gap="skip", **options)
        await rota.on().add("30 2 * * *", "tick", name="shifts", gap="shift", **options)
        await world.advance(seconds=15)
        [row] = await world.ledger(rota.Clock, "a", "skips")
        assert (row.verdict, row.nominal_at.isoformat()) == ("gap", "2026-03-29T01:00:00+00:00")
        assert (await rota.on().get("skips")).counters.gap == 1
        assert (await rota.on().get("skips")).next_at.isoformat() == "2026-03-30T00:30:00+00:00"
        assert [run.name for run in rota.began] == ["schedule:shifts"]


async def test_a_long_outage_that_is_not_judged_to_its_end_is_none_of_overlap(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def slow(clock: Any, run: Run) -> None:
            await asyncio.sleep(10)

        rota.handlers["s"] = slow
        options: dict[str, Any] = {"overlap": "queue_all", "catch_up": "all", "max_catch_up": 50}
        await rota.on().add("every 1s", "tick", name="s", **options)
        await world.advance(seconds=15)
        await world.crash()
        await world.restart(after="5h")
        await world.advance(seconds=4)
        busy = asyncio.ensure_future(rota.do(lambda clock: asyncio.sleep(3)))  # so the next begins late
        await world.advance(seconds=60)
        await busy
        assert (await rota.on().get("s")).counters.overlap == 0
