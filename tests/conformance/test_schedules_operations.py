"""What can be done to schedules: list, pause, resume, trigger, cancel, backfill, history, by tag; on every store."""

import asyncio
from typing import Any

import pytest

from tests.conformance.rota import Rota, after, effects, failing, fates, since, timers, verdicts
from wakeful import RetryPolicy, Run, fixed
from wakeful.values.errors import BadOption, UnknownSchedule


async def test_list_finds_by_tag_and_by_state_in_the_order_of_names(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="c", tags=["red", "big"])
        await on.add("every 10s", "tick", name="a", tags=["red"])
        await on.add(after(1), "tick", name="b", tags=["big"])
        await on.pause("a")
        await world.advance(seconds=2)

        async def names(**by: Any) -> list[str]:
            return [one.name for one in await on.list(**by)]

        assert await names() == ["a", "b", "c"]
        assert await names(tag="red") == ["a", "c"]
        assert await names(tag="big") == ["b", "c"]
        assert await names(state="paused") == ["a"]
        assert await names(state="done") == ["b"]
        assert await names(tag="red", state="active") == ["c"]
        assert await names(tag="blue") == []
        with pytest.raises(BadOption, match="state 'asleep'"):
            await on.list(state="asleep")


async def test_a_paused_schedule_gives_every_occurrence_its_verdict_and_no_run(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="s")
        await world.advance(seconds=12)
        assert await on.pause("s", note="the printer is broken") == 1
        found = await on.get("s")
        assert (found.state, found.note, found.paused_until) == ("paused", "the printer is broken", None)
        assert await on.next("s", 3) == []
        await world.advance(seconds=30)
        assert await on.resume("s") == 1
        assert await on.resume("s") == 0
        assert (await on.get("s")).note == ""
        await world.advance(seconds=10)
        assert await verdicts(world, rota) == [
            (10, "run"), (20, "paused"), (30, "paused"), (40, "paused"), (50, "run"),
        ]  # fmt: skip
        assert rota.times == [10, 50]


async def test_a_pause_ends_by_itself_at_its_end_time(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="s")
        await on.pause("s", until=after(30))
        assert (await on.get("s")).paused_until == after(30)
        assert await on.next("s", 2) == [after(30), after(40)]
        await world.advance(seconds=15)
        await world.crash()
        await world.restart(after="1s")
        await world.advance(seconds=20)
        assert await verdicts(world, rota) == [(10, "paused"), (20, "paused"), (30, "run")]
        assert (await on.get("s")).state == "active"
        with pytest.raises(BadOption, match="not after now"):
            await on.pause("s", until=after(30))


async def test_what_fell_due_in_a_pause_and_an_outage_was_paused(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="s", catch_up="all", grace="1s")
        await on.pause("s", until=after(25))
        await world.crash()
        await world.restart(after="42s")
        await world.settle()
        assert await fates(world, rota) == {10: "paused", 20: "paused", 30: "run", 40: "run"}


async def test_trigger_runs_it_now_beside_its_own_times_paused_or_not(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="s")
        await on.pause("s")
        await world.advance(seconds=4)
        [first] = await on.trigger("s")
        [second] = await on.trigger("s")
        await world.settle()
        assert rota.times == [4, 4]
        assert [run.id for run in rota.began] == [first, second]
        assert first != second
        assert await timers(world, rota) == {"schedule:s": 10}
        await on.resume("s")
        await world.advance(seconds=7)
        assert await verdicts(world, rota) == [(4, "run"), (4, "run"), (10, "run")]
        with pytest.raises(UnknownSchedule):
            await on.trigger("nobody")


async def test_cancel_leaves_nothing_but_the_ledger(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="s")
        await world.advance(seconds=12)
        await on.trigger("s")
        await world.settle()
        assert await on.cancel("s") is True
        assert await on.cancel("s") is False
        assert await timers(world, rota) == {}
        assert await on.list() == []
        with pytest.raises(UnknownSchedule):
            await on.get("s")
        await world.advance(seconds=30)
        assert rota.times == [10, 12]
        assert [run.verdict for run in await on.history("s")] == ["run", "run"]


async def test_a_handler_that_cancels_its_own_schedule_has_run_for_the_last_time(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def cancels(clock: Any, run: Run) -> None:
            if run.nominal_at == after(20):
                assert await clock.schedules.cancel("s")

        rota.handlers["s"] = cancels
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=45)
        assert await fates(world, rota) == {10: "run", 20: "run"}
        assert await timers(world, rota) == {}
        counters = await rota.app.counters(rota.Clock, "a")
        assert (counters.runs, counters.occurrences) == (2, 2)


async def test_an_occurrence_that_was_given_up_uses_up_max_runs_and_its_redrive_does_not(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(1)
        await rota.on().add("every 10s", "tick", name="s", max_runs=3, retry=RetryPolicy(1))
        await world.advance(seconds=12)
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.advance(seconds=33)
        assert rota.nominal == [10, 10, 20, 30]
        assert (await rota.on().get("s")).state == "done"


async def test_triggered_runs_do_not_use_up_max_runs(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", max_runs=2)
        await rota.on().trigger("s")
        await rota.on().trigger("s")
        await world.advance(seconds=35)
        assert rota.times == [0, 0, 10, 20]


async def test_backfill_runs_a_range_under_the_versions_that_were_in_force(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="s")
        await world.advance(seconds=25)
        await on.reschedule("s", "every 4s")
        await world.advance(seconds=10)
        rota.began.clear()
        # The first version stands for the time before the schedule was made; `end` is not in it.
        wanted = [10, 20, 29, 33]
        preview = await on.backfill("s", after(5), after(37), dry_run=True)
        assert [since(at) for at in preview] == wanted
        await world.settle()
        assert rota.began == []
        assert await on.backfill("s", after(5), after(37)) == preview
        await world.settle()
        assert rota.nominal == wanted
        assert {since(run.fired_at) for run in rota.began} == {35}
        assert all(run.is_backfill for run in rota.began)
        assert await timers(world, rota) == {"schedule:s": 37}  # its own times are not touched
        rows = [run for run in await world.ledger(rota.Clock, "a", "s") if run.is_backfill]
        assert [(since(run.nominal_at), run.verdict) for run in rows] == [(at, "run") for at in wanted]


async def test_a_backfill_survives_crashes_and_runs_each_once(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def slow(clock: Any, run: Run) -> None:
            await asyncio.sleep(1)

        rota.handlers["s"] = slow
        await rota.on().add("0 * * * *", "tick", name="s", parallel=2)
        await rota.on().backfill("s", after(-5 * 3600), after(0))
        for _ in range(3):
            await world.advance(seconds=1.5)
            await world.crash()
            await world.restart()
        await world.advance(seconds=10)
        assert sorted(await fates(world, rota)) == [-5 * 3600 + n * 3600 for n in range(5)]
        assert set((await effects(world, rota)).values()) == {1}
        assert await timers(world, rota) == {"schedule:s": 3600}
        assert (await rota.on().get("s")).counters.runs == 5


async def test_history_is_oldest_first_and_the_latest_that_were_asked_for(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(1)
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(2, fixed("1s")))
        await world.advance(seconds=32)
        history = await rota.on().history("s")
        assert [(since(run.nominal_at), run.verdict, run.attempt) for run in history] == [
            (10, "failed", 0), (10, "run", 1), (20, "run", 0), (30, "run", 0),
        ]  # fmt: skip
        assert history[0].error == "ValueError: on purpose"
        assert history[0].id == history[1].id
        assert await rota.on().history("s", 2) == history[2:]
        assert await rota.on().history("nobody") == []


async def test_operations_on_many_at_once_by_tag(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        for n in range(4):
            await on.add("every 10s", "tick", name=f"s{n}", tags=["odd" if n % 2 else "even"])
        assert await on.pause(tag="odd", note="later") == 2
        assert [one.note for one in await on.list()] == ["", "later", "", "later"]
        assert len(await on.trigger(tag="odd")) == 2
        await world.settle()
        assert sorted(run.name for run in rota.began) == ["schedule:s1", "schedule:s3"]
        assert await on.resume(tag="odd") == 2
        assert await on.cancel(tag="even") is True
        assert await on.cancel(tag="even") is False
        assert [one.name for one in await on.list()] == ["s1", "s3"]
        for wrong in ({}, {"name": "s1", "tag": "odd"}):
            with pytest.raises(BadOption, match="say which"):
                await on.pause(**wrong)
