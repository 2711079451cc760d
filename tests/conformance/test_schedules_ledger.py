"""What the ledger and the counters say of schedules, and that they agree; on every store."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.rota import MISSED, Rota, after, failing, fates, since, verdicts
from wakeful import Limits, RetryPolicy, Run, fixed
from wakeful.store.protocol import Query
from wakeful.values.errors import BadOption, NotRunning
from wakeful.values.ids import ObjectId
from wakeful.views.schedules import page, show
from wakeful.views.view import View


async def live_through(rota: Any, world: Any, name: str, key: str = "a") -> None:
    """Every verdict that a schedule of every 10 s can get but `gap`: about 150 s of them."""
    options: dict[str, Any] = {"catch_up": "coalesce", "catch_up_window": "35s", "grace": "2s"}

    async def moody(clock: Any, run: Run) -> None:
        if run.nominal_at == after(70) or (run.nominal_at == after(90) and run.attempt == 0):
            raise ValueError("on purpose")

    rota.handlers[name] = moody
    await rota.on(key).add("every 10s", "tick", name=name, retry=RetryPolicy(2, fixed("12s")), **options)
    await world.crash()
    await world.restart(after="65s")  # 10, 20 too late; 30, 40, 50 coalesced; 60 runs, late
    await world.advance(seconds=22)  # 70 fails for good about 83; 80 is overlapped
    await world.advance(seconds=18)  # 90 fails once, and runs about 103; 100 is overlapped
    await rota.on(key).pause(name, until=after(125))  # 110, 120
    await world.advance(seconds=26)  # 130
    await rota.on(key).trigger(name)  # 131
    await world.settle()


async def test_every_occurrence_has_exactly_one_final_verdict(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await live_through(rota, world, "s")
        assert await fates(world, rota) == {
            10: "too_late", 20: "too_late", 30: "coalesced", 40: "coalesced", 50: "coalesced", 60: "run",
            70: "failed", 80: "overlap", 90: "run", 100: "overlap", 110: "paused", 120: "paused", 130: "run", 131: "run",
        }  # fmt: skip


async def test_counters_equal_the_sums_of_the_ledger(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await live_through(rota, world, "s")
        counters = (await rota.on().get("s")).counters
        sums = Counter((await fates(world, rota)).values())
        assert counters.occurrences == sums.total() == 14
        assert counters.runs == sums["run"]
        assert counters.failures == sums["failed"]
        assert counters.missed == sum(sums[verdict] for verdict in MISSED) == 5
        for name in ("too_late", "coalesced", "skipped", "overlap", "paused"):
            assert getattr(counters, name) == sums[name], name
        rows = await world.ledger(rota.Clock, "a", "s")
        assert counters.retries == len([row for row in rows if row.verdict == "failed"]) - 1 == 2


async def test_counters_know_the_last_run_its_duration_and_how_late_runs_were(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def slow(clock: Any, run: Run) -> None:
            await asyncio.sleep(1.5)

        rota.handlers["s"] = slow
        await rota.on().add("every 10s", "tick", name="s", catch_up="latest", grace="1s")
        await world.crash()
        await world.restart(after="24s")
        await world.advance(seconds=30)
        counters = (await rota.on().get("s")).counters
        rows = [row for row in await world.ledger(rota.Clock, "a", "s") if row.verdict == "run"]
        assert [since(row.fired_at) for row in rows] == [24, 30, 40, 50]
        assert counters.last_run_at == int(after(50).timestamp() * 1000)
        assert counters.last_duration_ms == 1500
        assert counters.last_missed_at == int(after(10).timestamp() * 1000)
        late = [row.lateness / timedelta(milliseconds=1) for row in rows]
        assert counters.average_lateness_ms == sum(late) / 4 == 1000
        assert counters.p99_lateness_ms is not None
        assert 4000 <= counters.p99_lateness_ms < 8000  # to within a factor of two
        assert counters.percentile_ms(50) == 0


async def test_an_objects_counters_are_the_sums_of_what_it_has_and_had(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await on.add("every 10s", "tick", name="s")
        await on.add("every 5s", "tick", name="gone")
        await on.add(3, "tick")  # it goes by itself
        await world.advance(seconds=11)
        await on.cancel("gone")
        counters = await rota.app.counters(rota.Clock, "a")
        assert (counters.runs, counters.occurrences) == (4, 4)
        await world.advance(seconds=10)
        assert (await rota.app.counters(rota.Clock, "a")).runs == 5
        assert (await rota.app.counters(rota.Clock, "never")).runs == 0


async def test_a_tenants_counters_are_the_sums_of_its_objects_and_wake_none(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        for key in ("acme", "acme/a", "acme/b/c", "acme2", "other/acme"):
            await rota.on(key).add("every 10s", "tick", name="s")
        await world.advance(seconds=12)
        await rota.on("acme/a").pause("s")
        await world.advance(seconds=10)
        await world.sleep_all()
        awake = len(rota.began)
        counters = await rota.app.counters(tenant="acme")
        assert (counters.runs, counters.paused) == (5, 1)
        assert (await rota.app.counters(tenant="acme2")).runs == 2
        assert (await rota.app.counters(tenant="nobody")).occurrences == 0
        assert len(rota.began) == awake
        with pytest.raises(BadOption, match="counters of what"):
            await rota.app.counters(rota.Clock, tenant="acme")
    with pytest.raises(NotRunning):
        await rota.app.counters(tenant="acme")


async def test_the_ledger_keeps_the_newest_rows_of_each_schedule_and_the_counters_all(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world(limits=Limits(ledger_keep=10)) as world:
        await rota.on().add("every 1s", "tick", name="busy")
        await rota.on().add("every 100s", "tick", name="calm")
        await world.advance(seconds=60.5)
        await rota.on().cancel("calm")
        await rota.on().pause("busy")
        await world.advance(seconds=0.2)
        await rota.on().cancel("busy")
        assert len(await world.ledger(rota.Clock, "a", "busy")) == 60
        await world.node.upkeep.prune()
        rows = await world.ledger(rota.Clock, "a", "busy")
        assert [since(row.nominal_at) for row in rows] == list(range(51, 61))
        assert (await rota.app.counters(rota.Clock, "a")).runs == 60


async def test_the_ledger_keeps_rows_for_so_long(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world(limits=Limits(ledger_keep_ms=30_000)) as world:
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=55)
        await world.node.upkeep.prune()
        assert [at for at, _ in await verdicts(world, rota)] == [30, 40, 50]
        assert (await rota.on().get("s")).counters.runs == 5


async def test_a_row_says_when_it_was_due_began_and_ended_and_who_ran_it(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(1)
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(2, fixed("2s")))
        await world.advance(seconds=14)
        first, second = await world.ledger(rota.Clock, "a", "s")
        assert (first.attempt, first.verdict, first.error) == (0, "failed", "ValueError: on purpose")
        assert (second.attempt, second.verdict, second.error) == (1, "run", None)
        assert first.id == second.id == rota.began[0].id
        assert first.nominal_at == second.nominal_at == after(10)
        assert timedelta(seconds=2) <= second.lateness <= timedelta(seconds=2.5)
        assert rota.began[0].verdict is rota.began[0].finished_at is None  # while it runs
        assert {entry.node for _, entry in await world.store.find_entries(Query(limit=9))} == {"node-1"}


async def test_a_timer_that_is_handed_out_again_does_not_run_its_occurrence_again(stage: Any) -> None:
    """The record of the schedule is the second lock: it knows which setting of the timer is the one that counts."""
    rota = Rota(stage)
    may_end = asyncio.Event()

    async def wait(clock: Any, run: Run) -> None:
        await may_end.wait()

    rota.handlers["s"] = wait
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s")
        await rota.on().trigger("s")
        [run] = [timer for timer in await world.due() if timer.name.startswith("run:")]
        [first] = [timer for timer in await world.due() if timer.name == "schedule:s"]
        may_end.set()
        await world.advance(seconds=12)
        assert len(rota.began) == 2
        for stale in (first, run):
            world.node.activation(stale.id).fire(stale)
        await world.advance(seconds=1)
        assert len(rota.began) == 2
        await world.advance(seconds=10)
        assert await verdicts(world, rota) == [(0, "run"), (10, "run"), (20, "run")]


async def test_the_newest_verdict_of_a_schedule_is_there_however_long_ago_it_was(stage: Any) -> None:
    rota = Rota(stage)
    # An hour for a week: sixty days take minutes on PostgreSQL, whose node looks around all the time.
    async with rota.world(limits=Limits(ledger_keep_ms=3_600_000)) as world:
        rota.handlers["invoice"] = failing(1)
        await rota.on().add("every 20h", "tick", name="invoice", retry=RetryPolicy(2, fixed("2s")))
        await rota.on().add("after 10m", "tick", name="once")
        await rota.on().add("every 40m", "tick", name="dropped")
        await world.advance(minutes=50)
        await rota.on().cancel("dropped")
        await world.advance(hours=39)
        view = View.of_node(world.node)
        shown = await show(view, ObjectId("Clock", "a"), "invoice")
        assert [row["verdict"] for row in shown["verdicts"]] == ["run", "failed"]
        assert shown["last"]["verdict"] == "run"
        lasts = {row["schedule"]: row["last"] for row in (await page(view, "Clock", "a")).rows}
        assert lasts["invoice"] == shown["last"]
        assert lasts["once"]["verdict"] == "run"
        assert await world.ledger(rota.Clock, "a", "dropped") == []
        await world.advance(hours=10)  # the second came, and what there was of the first has gone
        rows = await world.ledger(rota.Clock, "a", "invoice")
        assert [(since(row.nominal_at), row.verdict) for row in rows] == [(40 * 3_600, "run")]
