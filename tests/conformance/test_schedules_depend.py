"""Schedules that wait for others of their object; on every store."""

import asyncio
from typing import Any

import pytest

from tests.conformance.rota import Rota, after, failing, fates, timers
from wakeful import RetryPolicy, Run, fixed
from wakeful.values.errors import BadOption, Conflict


async def two(rota: Any, spec: str = "every 10s", **options: Any) -> None:
    await rota.on().add(spec, "tick", name="first", retry=RetryPolicy(2, fixed("4s")))
    await rota.on().add(spec, "tick", name="second", depends_on=["first"], **options)


def names(rota: Any) -> list[str]:
    return [run.name.partition(":")[2] for run in rota.began]


async def test_it_runs_after_the_other_ran_for_the_same_occurrence(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="z")
        await rota.on().add("every 10s", "tick", name="a", depends_on=["z"])
        await world.advance(seconds=31)
        assert names(rota) == ["z", "a"] * 3
        assert (await rota.on().get("a")).depends_on == ("z",)


async def test_it_waits_until_the_others_retries_are_through(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing(1)
        await two(rota)
        await world.advance(seconds=12)
        waiting = await rota.on().get("second")
        assert (waiting.state, waiting.waits_for) == ("waiting", "first")
        assert names(rota) == ["first"]
        await world.advance(seconds=4)
        assert names(rota) == ["first", "first", "second"]
        assert rota.times[1] == rota.times[2]  # at once when the other is done
        assert (await rota.on().get("second")).state == "active"


async def test_an_earlier_occurrence_of_the_other_is_enough_when_it_has_none_now(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 30s", "tick", name="first")
        await rota.on().add("every 10s", "tick", name="second", depends_on=["first"])
        await world.advance(seconds=41)
        assert [(name, at) for name, at in zip(names(rota), rota.nominal, strict=True)] == [
            ("second", 10), ("second", 20), ("first", 30), ("second", 30), ("second", 40),
        ]  # fmt: skip


async def test_it_waits_on_when_the_other_was_given_up_until_it_is_redriven(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing(2)
        await rota.on().add(after(10), "tick", name="first", retry=RetryPolicy(2, fixed("1s")))
        await rota.on().add(after(10), "tick", name="second", depends_on=["first"])
        await world.advance(seconds=20)
        assert names(rota) == ["first", "first"]
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.settle()
        assert names(rota) == ["first"] * 3 + ["second"]


async def test_a_trigger_of_the_other_is_enough(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing(1)
        await rota.on().add(after(10), "tick", name="first", retry=RetryPolicy(1))
        await rota.on().add(after(10), "tick", name="second", depends_on=["first"])
        await world.advance(seconds=12)
        await rota.on().trigger("first")
        await world.settle()
        assert names(rota) == ["first", "first", "second"]


async def test_a_trigger_of_its_own_does_not_end_the_waiting(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing(1)
        await two(rota)
        await world.advance(seconds=11)
        await rota.on().trigger("second")
        await world.settle()
        assert names(rota) == ["first", "second"]
        assert (await rota.on().get("second")).waits_for == "first"
        await world.advance(seconds=5)
        assert names(rota) == ["first", "second", "first", "second"]
        assert (await fates(world, rota, "second"))[10] == "run"


async def test_waiting_outlives_a_crash(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing(1)
        await two(rota)
        await world.advance(seconds=12)
        await world.crash()
        await world.restart(after="1s")
        await world.advance(seconds=3)
        assert names(rota) == ["first", "first", "second"]


async def test_what_waits_longer_than_its_window_is_too_late(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing()
        await rota.on().add(after(10), "tick", name="first", retry=RetryPolicy(1))
        await rota.on().add(after(10), "tick", name="second", depends_on=["first"], catch_up_window="5m")
        await world.advance(seconds=11)
        await world.crash()
        await world.restart(after="11m")
        await world.settle()
        assert await fates(world, rota, "second") == {10: "too_late"}
        assert (await rota.on().get("second")).state == "done"


async def test_those_that_fall_due_while_it_waits_are_overlapped(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing(1)
        await rota.on().add(after(10), "tick", name="first", retry=RetryPolicy(2, fixed("22s")))
        await rota.on().add("every 10s", "tick", name="second", depends_on=["first"])
        await world.advance(seconds=51)
        assert await fates(world, rota, "second") == {10: "run", 20: "overlap", 30: "overlap", 40: "run", 50: "run"}


async def test_parallel_ones_wait_too_and_go_at_once(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing(1)
        await two(rota, "every 20s", parallel=3)
        await world.advance(seconds=22)
        assert names(rota) == ["first"]
        await world.advance(seconds=4)
        assert names(rota) == ["first", "first", "second"]
        assert rota.times[1] == rota.times[2]


async def test_a_chain_runs_in_order_through_a_slow_link(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def slow(clock: Any, run: Run) -> None:
            await asyncio.sleep(2)

        rota.handlers["b"] = slow
        for name, before in (("c", []), ("b", ["c"]), ("a", ["b", "c"])):
            await rota.on().add("every 10s", "tick", name=name, depends_on=before)
        await world.advance(seconds=25)
        assert names(rota) == ["c", "b", "a"] * 2
        assert rota.times == [10, 10, 12, 20, 20, 22]


async def test_an_unknown_one_a_circle_and_itself_are_refused_and_nothing_is_made(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        await two(rota)
        with pytest.raises(BadOption, match="'third' depends on 'nobody', which is not there"):
            await on.add("every 10s", "tick", name="third", depends_on=["first", "nobody"])
        with pytest.raises(BadOption, match="'first' would wait for itself, by way of 'second'"):
            await on.add("every 10s", "tick", name="first", depends_on=["second"])
        with pytest.raises(BadOption, match="depends on 'own', which is not there"):
            await on.add("every 10s", "tick", name="own", depends_on=["own"])
        assert [one.name for one in await on.list()] == ["first", "second"]
        assert (await on.get("first")).depends_on == ()
        assert sorted(await timers(world, rota)) == ["schedule:first", "schedule:second"]
        await on.cancel("second")
        await on.cancel("first")  # nobody was left behind as its dependent


async def test_one_that_others_wait_for_can_only_be_cancelled_with_them(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world():
        on = rota.on()
        await two(rota, tags=["all"])
        with pytest.raises(Conflict, match="'second' depends on 'first'; cancel that one first"):
            await on.cancel("first")
        await on.add("every 10s", "tick", name="first", tags=["all"])
        assert await on.cancel(tag="all") is True
        assert await on.list() == []


async def test_a_dependency_that_is_dropped_no_longer_holds(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing()
        await two(rota)
        await rota.on().add("every 10s", "tick", name="second")
        await world.advance(seconds=11)
        assert names(rota) == ["first", "second"]
        assert await rota.on().cancel("first") is True


async def test_a_dependency_that_is_dropped_while_it_waits_lets_it_go(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["first"] = failing()
        await two(rota)
        await world.advance(seconds=11)
        assert (await rota.on().get("second")).state == "waiting"
        await rota.on().add("every 10s", "tick", name="second")
        await world.settle()
        assert names(rota) == ["first", "second"]
