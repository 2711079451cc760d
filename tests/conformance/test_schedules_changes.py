"""Schedules that are changed, ended or held at awkward moments: nothing lost, nothing invented; on every store."""

from typing import Any

import pytest

from tests.conformance.rota import Rota, after, failing, fates, timers, verdicts
from tests.conformance.test_schedules_declared import Program, Ran, base, first, on
from wakeful import App, DurableObject, Limits, Next, Quotas, RetryPolicy, Run, every
from wakeful.values.errors import LimitExceeded, QuotaExceeded


def nothing(ran: Ran) -> type:
    return base(ran)


async def test_a_class_that_loses_all_its_declarations_and_gets_them_back_has_them_again(stage: Any) -> None:
    program = Program(stage)
    async with program.world(first) as world:
        await program.wake(world)
        await world.advance(seconds=15)
        await program.deploy(world, nothing)
        await world.advance(seconds=30)
        assert {one.name: one.state for one in await on(world).list()} == {"sweep": "retired", "report": "retired"}
        await program.deploy(world, first)
        await program.wake(world)
        assert {one.name: (one.state, one.version) for one in await on(world).list()} == {
            "sweep": ("active", 2), "report": ("active", 2),
        }  # fmt: skip
        before = len(program.ran)
        await world.advance(seconds=25)
        assert len(program.ran) == before + 3


async def test_a_deploy_that_changes_one_declaration_leaves_the_others_as_they_were_made_at_run_time(
    stage: Any,
) -> None:
    def second(ran: Ran) -> type:
        class Desk(first(ran)):  # type: ignore[misc]
            @every("1h")
            async def more(self) -> None: ...

        return Desk

    program = Program(stage)
    async with program.world(first) as world:
        await program.wake(world)
        await on(world).reschedule("sweep", "every 7s")
        await on(world).cancel("report")
        await program.deploy(world, second)
        await program.wake(world)
        assert {one.name: one.version for one in await on(world).list()} == {"sweep": 2, "more": 1}


async def test_a_time_that_has_passed_is_owed_once_also_under_a_name_that_was_used(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        for second in (0, 5, 3):  # now, now, and a while ago
            await rota.on().add(after(second), "tick", name="s")
            await world.advance(seconds=5)
        assert sorted(await verdicts(world, rota)) == [(0, "run"), (3, "run"), (5, "run")]
        assert (await rota.on().get("s")).state == "done"


@pytest.mark.parametrize(
    ("change", "then"),
    [
        ({"start_at": after(500)}, {20: "run", 30: "run", 40: "run"}),
        ({"end_at": after(25)}, {20: "run", 30: "run", 40: "run"}),
        ({"max_runs": 1}, {20: "skipped", 30: "skipped", 40: "skipped"}),
    ],
)
async def test_what_fell_due_before_its_bounds_were_changed_has_its_verdict(
    stage: Any, change: dict[str, Any], then: dict[int, str]
) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", catch_up="all", grace="1s")
        await world.advance(seconds=12)
        held: dict[str, Any] = {}

        async def late(clock: Any) -> None:  # the change comes before the schedule's own timer
            held["made"] = await clock.schedules.add(
                "every 10s", clock.tick, name="s", catch_up="all", grace="1s", **change
            )

        rota.on_wake = late
        await world.crash()
        await world.restart(after="30s")
        await world.settle()
        found = await fates(world, rota)
        assert {at: found[at] for at in (10, 20, 30, 40)} == {10: "run", **then}


async def test_the_end_of_a_done_schedule_invents_no_verdicts(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s", max_runs=1)
        await world.advance(seconds=95)
        assert await rota.on().cancel("s")
        assert await verdicts(world, rota) == [(10, "run")]
        assert (await rota.app.counters(rota.Clock, "a")).missed == 0


async def test_next_does_not_go_past_the_end(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def again(clock: Any, run: Run) -> Next:
            return Next(after="5s")

        rota.handlers["s"] = again
        await rota.on().add("every 10s", "tick", name="s", end_at=after(22))
        await world.advance(seconds=60)
        assert rota.times == [10, 15, 20]
        assert (await rota.on().get("s")).state == "done"


async def test_a_dependency_that_has_no_more_occurrences_is_met_by_its_last(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="a", max_runs=1)
        await rota.on().add("every 15s", "tick", name="b", depends_on=["a"])
        await world.advance(seconds=61)
        assert await verdicts(world, rota, "b") == [(15, "run"), (30, "run"), (45, "run"), (60, "run")]


async def test_a_dependency_whose_next_was_moved_owes_nothing_until_then(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def far(clock: Any, run: Run) -> Next:
            return Next(after="1h")

        rota.handlers["a"] = far
        await rota.on().add("every 10s", "tick", name="a")
        await rota.on().add("every 15s", "tick", name="b", depends_on=["a"])
        await world.advance(seconds=46)
        assert await verdicts(world, rota, "b") == [(15, "run"), (30, "run"), (45, "run")]


async def test_a_schedule_without_a_name_goes_although_it_never_ran(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(after(10), "tick", catch_up_window="1m")
        held = await rota.on().add(after(4000), "tick")
        await rota.on().pause(held.name)
        await world.crash()
        await world.restart(after="1h")
        await world.advance(hours=1)
        assert await rota.on().list() == []
        assert await timers(world, rota) == {}


async def test_a_parked_run_of_a_cancelled_schedule_stays_parked_when_it_is_redriven(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing()
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(1))
        await world.advance(seconds=11)
        await rota.on().cancel("s")
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.settle()
        [again] = await world.parked()
        assert "no schedule 's' any more" in again.error
        assert len(rota.began) == 1


async def test_a_pause_stops_a_catch_up_that_is_under_way(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def holds(clock: Any, run: Run) -> None:
            if len(rota.began) == 3:
                await clock.schedules.pause("s", note="enough")

        rota.handlers["s"] = holds
        await rota.on().add("every 10s", "tick", name="s", catch_up="all", grace="1s")
        await world.crash()
        await world.restart(after="65s")
        await world.advance(seconds=1)
        assert list((await fates(world, rota)).values()) == ["run", "run", "run", "paused", "paused", "paused"]


async def test_what_is_still_to_come_is_not_backfilled(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("cron */10 * * * * *", "tick", name="s")
        await world.advance(seconds=25)
        assert await rota.on().backfill("s", after(5), after(100)) == [after(10), after(20)]
        await world.advance(seconds=10)
        assert sorted(await verdicts(world, rota)) == [
            (10, "run"), (10, "run"), (20, "run"), (20, "run"), (30, "run"),
        ]  # fmt: skip


async def test_large_arguments_are_refused_in_a_turn_too(stage: Any) -> None:
    rota = Rota(stage, limits=Limits(arguments_bytes=10_000))
    async with rota.world():

        async def add(clock: Any) -> None:
            await clock.schedules.add("every 10s", clock.tick, name="s", kwargs={"x": "y" * 20_000})

        with pytest.raises(LimitExceeded, match=r"arguments of a schedule of Clock/a: 200.. bytes"):
            await rota.do(add)
        assert await rota.on().list() == []


async def test_what_a_class_declares_is_counted_but_never_refused(stage: Any) -> None:
    app = App(quotas=Quotas(schedules=1))

    @app.object
    class Desk(DurableObject):
        @every("1h")
        async def one(self) -> None: ...

        @every("1h")
        async def two(self) -> None: ...

        async def hello(self) -> str:
            return "hello"

    async with app.world(store=stage.url):
        assert await app.get(Desk, "acme").hello() == "hello"
        with pytest.raises(QuotaExceeded, match="`schedules` is 1"):
            await app.schedules(Desk, "acme").add("every 1h", "hello", name="three")
