"""Named schedules: reconciled by name, versions with their time in force, and what moves the next occurrence; on every store."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.rota import Rota, after, effects, failing, fates, since, timers, verdicts
from wakeful import Next, Quotas, RetryPolicy, Run, any_of, cron, except_for, fixed, sharded, spread
from wakeful.values.errors import UnknownSchedule


async def test_a_schedule_runs_its_handler_at_the_times_of_its_spec_with_its_arguments(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        made = await rota.on().add("every 10s", "tick", 1, name="s", kwargs={"b": [2]})
        assert (made.name, made.handler, made.state) == ("s", "tick", "active")
        assert made.next_at == after(10)
        await world.advance(seconds=35)
        assert rota.times == rota.nominal == [10, 20, 30]
        assert rota.given == [((1,), {"b": [2]})] * 3
        assert await verdicts(world, rota) == [(10, "run"), (20, "run"), (30, "run")]
        assert (await rota.on().get("s")).next_at == after(40)


async def test_a_name_added_again_with_the_same_spec_keeps_its_next_occurrence_and_takes_the_options(
    stage: Any,
) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=7)
        again = await rota.on().add("every 10s", "tick", name="s", tags=["x"], overlap="queue_all")
        assert (again.next_at, again.version, again.tags) == (after(10), 1, ("x",))
        assert await timers(world, rota) == {"schedule:s": 10}
        await world.advance(seconds=5)
        assert rota.times == [10]


async def test_a_name_added_again_with_another_spec_gets_a_version_from_now_on(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=25)
        made = await rota.on().add("every 4s", "tick", name="s")
        assert [(v.number, since(v.since), v.until and since(v.until)) for v in made.versions] == [
            (1, 0, 25),
            (2, 25, None),
        ]
        assert made.versions[0].text == f"every 10s after {after(0).isoformat()}"
        assert made.text == made.versions[1].text == f"every 4s after {after(25).isoformat()}"
        await world.advance(seconds=10)
        assert rota.times == [10, 20, 29, 33]
        assert await timers(world, rota) == {"schedule:s": 37}


async def test_reschedule_gives_a_version_and_keeps_every_option_that_is_not_named(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        options: dict[str, Any] = {"tags": ["x"], "metadata": {"of": 1}, "catch_up": "all", "on_missed": "missed"}
        await rota.on().add("every 10s", "tick", 7, name="s", overlap="queue_all", **options)
        made = await rota.on().reschedule("s", "every 5s", grace="3s")
        assert (made.version, made.tags, made.metadata, made.catch_up) == (2, ("x",), {"of": 1}, "all")
        await world.crash()
        await world.restart(after="12s")
        assert rota.nominal == [5, 10]  # still `all`, with the arguments
        assert rota.given == [((7,), {})] * 2
        assert rota.began[0].missed == 1  # 5 is later than the new grace
        with pytest.raises(UnknownSchedule, match="has no schedule 'other'; it has s"):
            await rota.on().reschedule("other", "every 5s")


MONTHLY = "0 9 1 * *"
LATER = "0 10 1 * *"
IN_NEW_YORK = "(cron 0 10 1 * * in America/New_York gap=skip fold=both) spread 10m"


@pytest.mark.parametrize(
    ("spec", "options", "wanted"),
    [
        (LATER, {}, IN_NEW_YORK),
        (cron(LATER), {}, IN_NEW_YORK),
        (LATER, {"tags": ["y"]}, IN_NEW_YORK),
        (cron(LATER, "Asia/Tokyo"), {}, IN_NEW_YORK.replace("America/New_York", "Asia/Tokyo")),
        (LATER, {"zone": "Asia/Tokyo"}, IN_NEW_YORK.replace("America/New_York", "Asia/Tokyo")),
        (LATER, {"zone": None}, IN_NEW_YORK.replace("America/New_York", "Europe/Paris")),  # the app's
        (LATER, {"gap": "shift", "fold": "first"}, "(cron 0 10 1 * * in America/New_York) spread 10m"),
        (LATER, {"jitter": "1h"}, IN_NEW_YORK.replace("10m", "1h")),
        (LATER, {"jitter": None}, IN_NEW_YORK.removeprefix("(").removesuffix(") spread 10m")),
        (spread(LATER, "1h"), {}, IN_NEW_YORK.replace("10m", "1h")),
        ("every 1h", {}, "(every 1h after 2026-01-01T00:00:00+00:00) spread 10m"),
    ],
)  # fmt: skip
async def test_reschedule_keeps_zone_gap_fold_and_jitter_that_neither_spec_nor_option_names(
    stage: Any, spec: Any, options: dict[str, Any], wanted: str
) -> None:
    rota = Rota(stage, default_zone="Europe/Paris")
    given: dict[str, Any] = {"zone": "America/New_York", "gap": "skip", "fold": "both", "jitter": "10m"}
    async with rota.world():
        shards = rota.app.schedules(rota.Clock, sharded("acme", 3))
        await rota.do(lambda clock: clock.schedules.add(MONTHLY, clock.tick, name="s", **given))
        await rota.do(lambda clock: clock.schedules.reschedule("s", spec, **options))
        for view, name in ((rota.on(), "t"), (shards, "u")):
            await view.add(MONTHLY, "tick", name=name, **given)
            await view.reschedule(name, spec, **options)
        for found in (await rota.on().get("s"), await rota.on().get("t"), await shards.get("u")):
            assert found.text.partition(" seed ")[0] == wanted


async def test_a_zone_stays_through_an_interval_and_for_each_of_several_times(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world():
        await rota.on().add(MONTHLY, "tick", name="s", zone="America/New_York")
        await rota.on().reschedule("s", "every 1h")
        found = await rota.on().reschedule("s", any_of(cron("0 9 * * *"), cron("30 18 * * *", "Asia/Tokyo")))
        assert found.text == "(cron 0 9 * * * in America/New_York) or (cron 30 18 * * * in Asia/Tokyo)"
        same = await rota.on().reschedule("s", found.spec, tags=["x"])
        assert (same.version, same.tags) == (found.version, ("x",))
        either = await rota.on().reschedule("s", MONTHLY)
        assert either.text == "cron 0 9 1 * * in UTC"  # there were two zones, and so none to keep


async def test_the_zone_that_stays_is_that_of_the_latest_version_also_behind_exceptions(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world():
        await rota.on().add("0 9 * * *", "tick", name="s", zone="Europe/Paris")
        there = cron("0 10 * * *", "America/New_York")
        await rota.on().reschedule("s", except_for(there, cron("0 10 * * 1", "America/New_York")))
        assert (await rota.on().reschedule("s", "0 11 * * *")).text == "cron 0 11 * * * in America/New_York"


async def test_a_schedule_without_a_name_gets_one_of_its_own_and_goes_when_it_is_done(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        one = await rota.on().add(5, "tick", "x")
        two = await rota.on().add(timedelta(seconds=5), "tick", "y")
        assert one.name != two.name
        await world.advance(seconds=6)
        assert rota.given == [(("x",), {}), (("y",), {})]
        assert await rota.on().list() == []
        assert await timers(world, rota) == {}
        assert [run.verdict for run in await rota.on().history(one.name)] == ["run"]


async def test_a_named_schedule_that_is_done_says_so(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(after(5), "tick", name="s")
        await world.advance(seconds=6)
        found = await rota.on().get("s")
        assert (found.state, found.next_at, found.counters.runs) == ("done", None, 1)
        again = await rota.on().add(after(9), "tick", name="s")
        assert (again.state, again.version) == ("active", 2)
        await world.advance(seconds=6)
        assert rota.times == [5, 9]


@pytest.mark.parametrize("delay", ["after 10s", timedelta(seconds=10), spread("after 10s", "1ms")])
async def test_a_delay_counts_from_now_when_it_is_rescheduled_and_stays_when_it_is_added(
    stage: Any, delay: Any
) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(delay, "tick", name="s")
        await world.advance(seconds=4)
        assert (await rota.on().add(delay, "tick", name="s")).next_at == after(10)
        moved = await rota.on().reschedule("s", delay)  # still to come
        assert (moved.next_at, moved.version, len(moved.versions)) == (after(14), 2, 1)
        await world.advance(seconds=16)
        assert (await rota.on().add(delay, "tick", name="s")).state == "done"
        again = await rota.on().reschedule("s", delay)
        assert (again.state, again.next_at, again.version, len(again.versions)) == ("active", after(30), 3, 1)
        await world.advance(seconds=20)
        assert rota.times == [14, 30]
        await rota.do(lambda clock: clock.schedules.cancel("s"))
        await rota.on().add(delay, "tick", name="s")
        await world.advance(seconds=20)
        assert rota.times == [14, 30, 50]


@pytest.mark.parametrize("answer", [Next(at=after(-1e6)), Next(at=after(10)), Next(after=0), Next(after="10ms")])
@pytest.mark.parametrize("spec", ["every 1h", "after 10s"])
async def test_a_next_that_is_past_comes_a_second_after_the_run(stage: Any, spec: str, answer: Next) -> None:
    rota = Rota(stage)

    async def slow(clock: Any, run: Run) -> Next:
        await asyncio.sleep(0.5)
        return answer

    rota.handlers["s"] = slow
    async with rota.world() as world:
        await rota.on().add(spec, "tick", name="s", start_at=after(10))
        await world.advance(seconds=3600 if spec == "every 1h" else 10)
        began = rota.times[0]
        await world.advance(seconds=5)
        assert rota.times == rota.nominal == [began, began + 1.5, began + 3, began + 4.5]


async def test_a_handler_may_put_itself_off_again_and_again(stage: Any) -> None:
    rota = Rota(stage)

    async def put_off(clock: Any, run: Run) -> None:
        if since(run.nominal_at) < 30:
            await clock.schedules.reschedule("s", "after 10s")

    rota.handlers["s"] = put_off
    async with rota.world() as world:
        await rota.on().add("after 10s", "tick", name="s")
        await world.advance(seconds=60)
        assert rota.times == [10, 20, 30]
        assert (await rota.on().get("s")).state == "done"


async def test_a_handler_that_cancels_its_own_frees_name_and_quota(stage: Any) -> None:
    rota = Rota(stage, quotas=Quotas(schedules=1))

    async def once(clock: Any, run: Run) -> None:
        if not await clock.schedules.next("s", 1):
            await clock.schedules.cancel("s")

    rota.handlers["s"] = once
    async with rota.world() as world:
        for start in (0, 20):
            await rota.on("acme/1").add("after 10s", "tick", name="s")
            await world.advance(seconds=20)
            assert rota.times[-1] == start + 10
        assert await rota.on("acme/1").list() == []


async def test_an_instant_that_is_past_is_run_at_once_and_once(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world(start=after(100)) as world:
        await rota.on().add(after(90), "tick", name="s")
        await world.advance(seconds=5)
        assert (rota.times, rota.nominal) == ([100], [90])
        assert (await rota.on().get("s")).state == "done"


async def test_a_handler_may_reschedule_itself(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def faster(clock: Any, run: Run) -> None:
            if len(rota.began) == 2:
                await clock.schedules.reschedule("s", "every 3s")

        rota.handlers["s"] = faster
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=27)
        assert rota.times == [10, 20, 23, 26]
        assert (await rota.on().get("s")).version == 2


async def test_a_run_that_waits_for_its_retry_survives_a_new_version(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing(1)
        await rota.on().add("every 10s", "tick", name="s", retry=RetryPolicy(3, fixed("8s")))
        await world.advance(seconds=12)
        await rota.on().reschedule("s", "every 3s")
        await world.advance(seconds=12.5)
        assert [run.attempt for run in rota.began] == [0, 1, 0, 0]
        [retried] = [since(run.fired_at) for run in rota.began if run.attempt]
        assert 18 <= retried <= 20
        # What fell due under the new version while it waited was overlapped.
        assert await fates(world, rota) == {10: "run", 15: "overlap", 18: "overlap", 21: "run", 24: "run"}


async def test_options_that_move_its_bounds_move_its_next_occurrence(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        on = rota.on()
        made = await on.add("every 10s", "tick", name="s", start_at=after(15), end_at=after(60), max_runs=2)
        assert made.next_at == after(20)
        assert await on.next("s", 9) == [after(20), after(30)]
        await world.advance(seconds=32)
        assert (await on.get("s")).state == "done"  # twice
        await world.advance(seconds=10)
        made = await on.add("every 10s", "tick", name="s", start_at=after(15), end_at=after(60), max_runs=4)
        assert (made.state, made.next_at, made.version) == ("active", after(50), 1)
        await world.advance(seconds=30)
        assert rota.times == [20, 30, 50]  # 60 is the end, and not in it
        assert (await on.get("s")).state == "done"


async def test_next_is_what_the_handler_says_and_the_spec_goes_on_after_it(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        answers = {10: Next(after="25s"), 35: Next(at=after(36)), 36: Next(after=0), 50: Next(at=after(20))}

        async def answer(clock: Any, run: Run) -> Next | None:
            return answers.get(since(run.nominal_at))

        rota.handlers["s"] = answer
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=12)
        assert (await rota.on().get("s")).next_at == after(35)
        assert await rota.on().next("s", 2) == [after(35), after(40)]
        await world.advance(seconds=50)
        # "At once" and a time that is past mean as soon as can be: a second after the run.
        assert rota.nominal == [10, 35, 36, 37, 40, 50, 51, 60]


async def test_next_from_a_long_run_leaves_no_occurrence_without_a_verdict(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def slow(clock: Any, run: Run) -> Next:
            await asyncio.sleep(25)
            return Next(after="10s")

        rota.handlers["s"] = slow
        await rota.on().add("every 10s", "tick", name="s")
        await world.advance(seconds=46)
        assert await fates(world, rota) == {10: "run", 20: "overlap", 30: "overlap"}
        assert rota.nominal == [10, 45]


async def test_the_fluent_form_adds_to_the_object_and_says_what_it_means(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def body(clock: Any) -> list[Any]:
            made = [
                await clock.every(5).seconds(clock.tick, name="five"),
                await clock.every.day.at("6pm", zone="Europe/Berlin")(clock.tick, name="six"),
                await clock.every("every monday at 9am")(clock.tick, name="monday"),
                await clock.schedules.add(cron("0 12 * * *"), clock.tick, name="noon"),
            ]
            return [(one.name, one.text, one.next_at) for one in made]

        found = {name: (text, since(next_at)) for name, text, next_at in await rota.do(body)}
        assert found["six"] == ("cron 0 18 * * * in Europe/Berlin", 17 * 3600)
        assert found["monday"] == ("cron 0 9 * * 1 in UTC", 4 * 86400 + 9 * 3600)  # from a Thursday
        assert found["noon"][1] == 12 * 3600
        await world.advance(seconds=11)
        assert rota.times == [5, 10]


async def test_schedules_are_as_the_turn_left_them_and_a_turn_that_fails_leaves_none(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add("every 10s", "tick", name="kept")

        async def fails(clock: Any) -> None:
            await clock.schedules.add("every 10s", clock.tick, name="new")
            await clock.schedules.cancel("kept")
            await clock.schedules.trigger("new")
            assert [one.name for one in await clock.schedules.list()] == ["new"]
            raise ValueError("after all")

        with pytest.raises(ValueError, match="after all"):
            await rota.do(fails)
        assert [one.name for one in await rota.on().list()] == ["kept"]
        assert await timers(world, rota) == {"schedule:kept": 10}
        await world.advance(seconds=11)
        assert rota.times == [10]


async def test_objects_with_schedules_sleep_between_their_runs(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world(sleep_after_turn=True) as world:
        await rota.on().add("every 10s", "tick", name="s")
        await rota.on("b").add("every 10s", "tick", name="s")
        await world.advance(seconds=21)
        assert rota.times == [10, 10, 20, 20]
        assert set((await effects(world, rota)).values()) == {1}


async def test_jitter_is_stable_within_its_window(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        offsets = []
        for key in ("a", "b", "c"):
            made = await rota.on(key).add("0 9 * * *", "tick", name="s", jitter="10m")
            offsets.append(since(made.next_at) - 9 * 3600)
            assert made.text.startswith("(cron 0 9 * * * in UTC) spread 10m seed")
        assert all(0 <= offset < 600 for offset in offsets)
        assert len(set(offsets)) == 3
        await world.crash()
        await world.restart()
        again = await rota.on("a").add("0 9 * * *", "tick", name="s", jitter="10m")
        assert (since(again.next_at) - 9 * 3600, again.version) == (offsets[0], 1)
