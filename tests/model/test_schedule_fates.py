"""Corners in which an occurrence could get two verdicts, or none: each has exactly one, and the counters say the same."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject
from wakeful.policy import plan as planning
from wakeful.policy.limits import Limits
from wakeful.policy.plan import PausedSpan, Policy, Version
from wakeful.policy.retry import RetryPolicy
from wakeful.schedules.handlers import Missed, Next
from wakeful.schedules.records import Options, Record
from wakeful.schedules.steps import PAUSES_MAX, due_of, judge, settle
from wakeful.specs.interval import interval
from wakeful.testing.world import World
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Run, Timer

START = datetime(2026, 1, 1, tzinfo=UTC)
ROOMY = Limits(ledger_keep=10**9, ledger_keep_ms=10**14, call_deadline_ms=10**9)


async def verdicts(world: World, cls: type, key: str = "a", name: str = "s") -> list[str]:
    """The ledger of a schedule: minutes after the start, and what became of them."""
    found = []
    for run in await world.ledger(cls, key, name, limit=10**6):
        minute = f"{(run.nominal_at - START) / timedelta(minutes=1):g}"
        found.append(f"{minute} {run.verdict}" + (f" x{run.covers}" if run.covers > 1 else ""))
    return found


async def total(app: App, cls: type, key: str = "a") -> Counter[str]:
    counters = await app.counters(cls, key)
    words = ("skipped", "too_late", "coalesced", "overlap", "paused", "gap")
    return +Counter({w: getattr(counters, w) for w in words} | {"run": counters.runs, "failed": counters.failures})


async def test_a_handler_that_cancels_its_own_schedule_has_run_and_was_not_skipped() -> None:
    app = App()

    @app.object
    class Last(DurableObject):
        async def tick(self) -> None:
            await self.storage.put("done", True)
            await self.schedules.cancel("s")

    async with app.world(start=START) as world:
        await app.schedules(Last, "a").add(interval("1m"), "tick", name="s")
        await world.advance(minutes=3)
        assert await verdicts(world, Last) == ["1 run"]
        assert await total(app, Last) == {"run": 1}
        assert await world.due() == []


async def test_a_handler_that_cancels_while_more_are_owed_skips_the_others_only() -> None:
    app = App()

    @app.object
    class Last(DurableObject):
        async def tick(self) -> None:
            await self.schedules.cancel("s")

    async with app.world(start=START) as world:
        await app.schedules(Last, "a").add(interval("1m"), "tick", name="s", catch_up="all")
        await world.crash()
        await world.restart(after="3m")
        assert sorted(await verdicts(world, Last)) == ["1 run", "2 skipped", "3 skipped"]
        assert await total(app, Last) == {"run": 1, "skipped": 2}


async def test_a_lane_whose_handler_cancels_the_schedule_has_run_and_the_other_lanes_are_skipped() -> None:
    app = App()

    @app.object
    class Wide(DurableObject):
        async def tick(self, run: Run) -> None:
            if run.attempt == 0 and await self.storage.get("seen") is None and run.nominal_at.minute == 1:
                raise ValueError("later")
            await self.schedules.cancel("s")

    async with app.world(start=START) as world:
        retry = RetryPolicy(max_attempts=3)
        await app.schedules(Wide, "a").add(
            interval("1m"), "tick", name="s", catch_up="all", parallel=2, overlap="queue_all", retry=retry
        )
        await world.crash()
        await world.restart(after="4m")
        # The first failed and waits for its retry, the second cancels, two more wait for a lane.
        assert sorted(await verdicts(world, Wide)) == ["1 failed", "1 skipped", "2 run", "3 skipped", "4 skipped"]
        assert await total(app, Wide) == {"run": 1, "skipped": 3}
        await world.advance(minutes=5)
        assert await world.due() == []


async def test_what_is_owed_beyond_max_runs_is_skipped() -> None:
    app = App()

    @app.object
    class Twice(DurableObject):
        async def tick(self) -> None: ...

    async with app.world(start=START) as world:
        await app.schedules(Twice, "a").add(interval("1m"), "tick", name="s", catch_up="all", max_runs=2)
        await world.crash()
        await world.restart(after="5m")
        assert sorted(await verdicts(world, Twice)) == ["1 run", "2 run", "3 skipped", "4 skipped", "5 skipped"]
        assert await total(app, Twice) == {"run": 2, "skipped": 3}
        assert (await app.schedules(Twice, "a").get("s")).state == "done"


async def test_a_new_spec_counts_at_once_though_the_handler_had_asked_for_a_far_time() -> None:
    app = App()

    @app.object
    class Moving(DurableObject):
        async def tick(self) -> Next:
            return Next(after="30d")

    async with app.world(start=START) as world:
        schedules = app.schedules(Moving, "a")
        await schedules.add(interval("1m"), "tick", name="s")
        await world.advance(minutes=2)
        await schedules.reschedule("s", interval("1h"))
        assert (await schedules.get("s")).next_at == START + timedelta(minutes=62)
        await world.advance(hours=1)
        assert await verdicts(world, Moving) == ["1 run", "62 run"]


@pytest.mark.parametrize("spec", ["1m", "2m"])
async def test_a_schedule_that_ended_and_begins_again_owes_nothing_for_the_time_between(spec: str) -> None:
    app = App()

    @app.object
    class Again(DurableObject):
        async def tick(self) -> None: ...

    async with app.world(start=START) as world:
        schedules = app.schedules(Again, "a")
        await schedules.add(interval("1m", anchor=START), "tick", name="s", end_at=START + timedelta(seconds=150))
        await world.advance(minutes=10)
        assert (await schedules.get("s")).state == "done"
        await schedules.add(interval(spec, anchor=START), "tick", name="s")
        await world.advance(minutes=2)
        assert await verdicts(world, Again) == ["1 run", "2 run", *(["11 run"] if spec == "1m" else []), "12 run"]


async def test_cancelling_at_the_very_instant_of_an_occurrence_gives_it_a_verdict() -> None:
    app = App()

    @app.object
    class Exact(DurableObject):
        async def end(self, seconds: float) -> None:
            await asyncio.sleep(seconds)
            await self.schedules.cancel("s")

        async def tick(self) -> None: ...

    for late_ms in (0, 1, 2):
        async with app.world(start=START, limits=ROOMY) as world:
            await app.schedules(Exact, "a").add(interval("1m"), "tick", name="s")
            end = asyncio.create_task(world.get(Exact, "a").end(120 + late_ms / 1000))
            await world.advance(minutes=3)
            await end
            assert await verdicts(world, Exact) == ["1 skipped", "2 skipped"]
            assert await total(app, Exact) == {"skipped": 2}


async def test_cancelling_after_a_very_long_outage_gives_every_occurrence_a_verdict() -> None:
    app = App()

    @app.object
    class Old(DurableObject):
        async def on_wake(self) -> None:
            await self.schedules.cancel("s")

        async def tick(self) -> None: ...

    async with app.world(start=START, limits=ROOMY) as world:
        await app.schedules(Old, "a").add(interval("1m"), "tick", name="s", catch_up="skip")
        await world.crash()
        await world.restart(after="20d")
        await app.schedules(Old, "a").list()
        runs = await world.ledger(Old, "a", "s", limit=10**6)
        assert sum(run.covers for run in runs) == 20 * 1440
        assert sum((await total(app, Old)).values()) == 20 * 1440


async def test_a_cancel_that_is_undone_leaves_no_verdicts_behind() -> None:
    app = App()

    @app.object
    class Wavering(DurableObject):
        async def waver(self) -> None:
            await asyncio.sleep(90)
            try:
                async with self.storage.transaction():
                    await self.schedules.cancel("s")
                    raise ValueError("no, wait")
            except ValueError:
                pass

        async def tick(self) -> None: ...

    async with app.world(start=START, limits=ROOMY) as world:
        await app.schedules(Wavering, "a").add(interval("1m"), "tick", name="s")
        call = asyncio.create_task(world.get(Wavering, "a").waver())
        await world.advance(seconds=150)
        await call
        assert await verdicts(world, Wavering) == ["1 run", "2 run"]
        assert await total(app, Wavering) == {"run": 2}


@pytest.mark.parametrize("catch_up", ["latest", "skip"])
async def test_a_wake_that_fails_is_an_attempt_of_that_very_occurrence_or_of_none(catch_up: str) -> None:
    app = App()
    failing: list[bool] = []

    @app.object
    class Moody(DurableObject):
        async def on_wake(self) -> None:
            if failing and failing.pop():
                raise ValueError("not now")

        async def tick(self) -> None: ...

    async with app.world(start=START) as world:
        await app.schedules(Moody, "a").add(interval("1h"), "tick", name="s", catch_up=catch_up)
        await world.crash()
        failing.append(True)
        await world.restart(after="90m")
        await world.advance(minutes=5)
        found = await verdicts(world, Moody)
        runs = await world.ledger(Moody, "a", "s")
        if catch_up == "latest":
            assert found == ["60 failed", "60 run"]
            assert len({run.id for run in runs}) == 1
            assert [run.attempt for run in runs] == [0, 1]
        else:
            assert found == ["60 skipped"]
        assert sum((await total(app, Moody)).values()) == 1


async def test_a_run_that_killed_three_processes_is_failed_or_skipped_and_not_both() -> None:
    app = App()

    @app.object
    class Killer(DurableObject):
        async def tick(self, run: Run) -> None:
            if run.nominal_at == START + timedelta(minutes=1):
                world.kill()
                await asyncio.sleep(1)

    for catch_up, expected in (("latest", ["1 failed"]), ("skip", ["1 skipped"])):
        async with app.world(start=START) as world:
            await app.schedules(Killer, "a").add(interval("1h"), "tick", name="far")
            await app.schedules(Killer, "a").add(
                START + timedelta(minutes=1), "tick", name="s", catch_up=catch_up, grace="10s"
            )
            await world.advance(minutes=2)
            for _ in range(2):
                await world.restart()
                await asyncio.sleep(1)
            await world.restart(after="5m")
            assert await verdicts(world, Killer) == expected
            assert await total(app, Killer) == {expected[0].split()[1]: 1}


async def test_a_triggered_run_does_not_let_a_waiting_one_forget_what_it_waits_for() -> None:
    app = App()

    @app.object
    class Chain(DurableObject):
        async def first(self) -> None:
            await asyncio.sleep(120)

        async def second(self) -> None: ...

    async with app.world(start=START, limits=ROOMY) as world:
        schedules = app.schedules(Chain, "a")
        await schedules.add("cron 1 0 * * * in UTC", "first", name="one", priority=-5)
        await schedules.add("cron 1 0 * * * in UTC", "second", name="s", depends_on=["one"], priority=5)
        await world.advance(seconds=61)
        trigger = asyncio.create_task(schedules.trigger("s"))
        await world.advance(minutes=3)
        await trigger
        assert "1 run" in await verdicts(world, Chain)  # at once when the first is done, not ten minutes later


async def test_what_on_missed_writes_stays_though_the_run_after_it_fails() -> None:
    app = App()

    @app.object
    class Told(DurableObject):
        async def tick(self, run: Run) -> None:
            if run.attempt == 0:
                raise ValueError("not yet")

        async def missed(self, about: Missed) -> None:
            await self.storage.put("missed", await self.storage.get("missed", 0) + about.count)

    async with app.world(start=START) as world:
        await app.schedules(Told, "a").add(
            interval("1h"), "tick", name="s", catch_up="latest", on_missed="missed", retry=RetryPolicy()
        )
        await world.crash()
        await world.restart(after="210m")
        await world.advance(minutes=1)
        assert await verdicts(world, Told) == ["60 skipped", "120 skipped", "180 failed", "180 run"]
        assert await world.rows(Told, "a") == {"missed": 2}


async def test_pausing_and_resuming_for_ever_keeps_the_record_small() -> None:
    app = App()

    @app.object
    class Idle(DurableObject):
        async def tick(self) -> None: ...

    async with app.world(start=START) as world:
        schedules = app.schedules(Idle, "a")
        await schedules.add("cron 0 0 1 6 * in UTC", "tick", name="s")
        sizes: list[Any] = []
        for _ in range(2 * PAUSES_MAX):
            await schedules.pause("s")
            await world.advance(seconds=1)
            await schedules.resume("s")
            await world.advance(seconds=1)
            info = await world.info(Idle, "a")
            assert info is not None
            sizes.append(info.bytes)
        assert sizes[-1] <= sizes[-10] + 8  # the latest few are kept for those who ask why


def test_what_is_left_of_an_outage_after_a_run_is_no_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """So much was paused in the middle that it is judged in parts, and a run is over before the last of them."""
    monkeypatch.setattr(planning, "JUDGED_MAX", 2)
    second = 1_000
    record = Record(
        options=Options(handler="tick", policy=Policy(catch_up="all", grace_ms=2 * second)),
        versions=[Version(1, "", "every 10s", 0)],
        pauses=[PausedSpan(15 * second, 45 * second)],
        judged_to=0,
    )
    now, runs, left = 65 * second, [], list[tuple[int, str]]()
    while record.judged_to < now or record.pending:
        timer = Timer(ObjectId("Fates", "a"), "schedule:s", now, 0, 1)
        left += [(one.last_at // second, one.verdict) for one in judge(record, timer, now)]
        if record.pending:
            runs.append(due_of(record).nominal_at // second)
            record.pending = record.pending[1:]
            left += [(one.last_at // second, one.verdict) for one in settle(record, now)]
    assert runs == [10, 50, 60]
    assert left == [(20, "paused"), (30, "paused"), (40, "paused")]
