"""Jobs that go through a queue: its limits hold, its keys take turns, and no place is ever lost; on every store."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.desk import Desk, failing
from wakeful import Again, Job, JobSpec, Queue, RetryPolicy, Stop, errors, fixed
from wakeful.jobs import outcomes
from wakeful.jobs.job import ENDED


class Gauge:
    """How many jobs of a desk run at once, by what is said of each; and each lasts."""

    def __init__(self, desk: Desk, *, lasts_s: float = 1.0) -> None:
        self._desk = desk
        self._lasts_s = lasts_s
        self.now: Counter[Any] = Counter()
        self.most: Counter[Any] = Counter()

    def measure(self, label: Any, *groups: Any) -> None:
        async def handler(clerk: Any, job: Job) -> None:
            self.now.update(groups)
            self.most |= self.now
            try:
                await asyncio.sleep(self._lasts_s)
            finally:
                self.now.subtract(groups)

        self._desk.handlers[label] = handler


async def ended(desk: Desk, jobs: list[Job]) -> bool:
    return all([(await desk.state(job)) in ENDED for job in jobs])


async def test_no_more_run_at_once_than_the_queue_allows_and_as_many_as_it_does(stage: Any) -> None:
    desk = Desk(stage)
    gauge = Gauge(desk)
    async with desk.world() as world:
        for n in range(12):
            gauge.measure(n, "all")
        queue = Queue("mail", concurrency=3)
        jobs = [await desk.jobs.schedule(desk.at(f"o{n}").work, n, queue=queue) for n in range(12)]
        await world.advance(seconds=30)
        assert gauge.most["all"] == 3
        assert await ended(desk, jobs)
        info = await desk.app.queues.get("mail")
        assert (info.running, info.waiting, info.admitted, info.concurrency) == (0, 0, 12, 3)


async def test_a_limit_of_each_key_holds_beside_that_of_the_queue(stage: Any) -> None:
    desk = Desk(stage)
    gauge = Gauge(desk)
    async with desk.world() as world:
        jobs = []
        for n in range(12):
            key = "abc"[n % 3]
            gauge.measure(n, "all", key)
            queue = Queue("calls", concurrency=4, key_concurrency=2, key=key)
            jobs.append(await desk.jobs.schedule(desk.at(f"o{n}").work, n, queue=queue))
        await world.advance(seconds=30)
        assert dict(gauge.most) == {"all": 4, "a": 2, "b": 2, "c": 2}
        assert await ended(desk, jobs)


async def test_a_job_waits_in_its_queue_only_from_when_it_is_due(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("one", rate="1/h")
        later = await desk.jobs.schedule(desk.at("a").work, "later", after="2h", queue=queue)
        now = await desk.jobs.schedule(desk.at("b").work, "now", queue=queue)
        assert (await desk.state(later), later.queue, later.queue_key) == ("scheduled", "one", None)
        await world.advance(seconds=1)
        assert (await desk.state(later), await desk.state(now)) == ("scheduled", "done")
        third = await desk.jobs.schedule(desk.at("c").work, "third", queue=queue)
        await world.advance(seconds=1)
        found = await desk.jobs.get(third)
        assert (found.state, found.queue, found.due_at) == ("waiting", "one", third.due_at)
        await world.advance(hours=4)
        assert desk.labels == ["now", "third", "later"]
        assert [round(moment) for moment in desk.times] == [0, 3600, 7200]


async def test_never_more_start_in_any_stretch_than_the_rate_says(stage: Any) -> None:
    count, period = 3, 10
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("api", rate=f"{count}/{period}s")
        specs = [JobSpec(desk.at(f"o{n % 4}").work, [n], after=n * period / 100, queue=queue) for n in range(3 * count)]
        await desk.jobs.schedule_many(specs)
        await world.advance(seconds=6 * period)
        starts = sorted(round(moment, 3) for moment in desk.times)
        assert len(starts) == 3 * count
        assert all(late - early >= period - 1e-6 for early, late in zip(starts, starts[count:], strict=False))
        assert starts[-1] <= 3 * period  # and as fast as it may


async def test_keys_take_turns_so_what_waits_of_one_does_not_hold_up_another(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        many = [JobSpec(desk.at("big").work, [f"big{n}"], queue=Queue("q", rate="1/s", key="big")) for n in range(50)]
        await desk.jobs.schedule_many(many)
        await world.advance(seconds=3.5)
        for n in range(2):
            await desk.jobs.schedule(desk.at("small").work, f"small{n}", queue=Queue("q", rate="1/s", key="small"))
        await world.advance(seconds=4)
        assert [str(label)[:5] for label in desk.labels] == [
            "big0",
            "big1",
            "big2",
            "big3",
            "big4",
            "small",
            "big5",
            "small",
        ]


async def test_within_a_key_higher_priority_goes_first_then_who_came_first(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("q", rate="1/s", key="k")
        await desk.jobs.schedule(desk.at().work, "first", queue=queue)
        for label, priority in (("low", -1), ("a", 0), ("b", 0), ("high", 5)):
            await desk.jobs.schedule(desk.at().work, label, priority=priority, queue=queue)
        await world.advance(seconds=10)
        assert desk.labels == ["first", "high", "a", "b", "low"]


async def test_a_key_at_its_limit_does_not_stand_in_the_way_of_the_others(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        for n in range(3):
            for key in "ab":
                queue = Queue("q", concurrency=9, key_rate="1/m", key=key)
                await desk.jobs.schedule(desk.at(key).work, f"{key}{n}", queue=queue)
        await world.advance(seconds=1)
        assert sorted(desk.labels) == ["a0", "b0"]
        await world.advance(minutes=5)
        assert [(label, round(moment)) for label, moment in sorted(zip(desk.labels, desk.times, strict=True))] == [
            ("a0", 0), ("a1", 60), ("a2", 120), ("b0", 0), ("b1", 60), ("b2", 120),
        ]  # fmt: skip


# what goes wrong


async def test_a_place_is_given_back_however_the_job_ends(stage: Any) -> None:
    desk = Desk(stage)

    async def stop(clerk: Any, job: Job) -> Stop:
        return Stop("no use")

    desk.handlers |= {"fails": failing(), "stops": stop}
    async with desk.world() as world:
        queue = Queue("q", concurrency=1)
        for label in ("fails", "stops", "ends"):
            await desk.jobs.schedule(desk.at(label).work, label, queue=queue, retry=RetryPolicy(max_attempts=1))
        await world.advance(seconds=5)
        assert sorted(desk.labels) == ["ends", "fails", "stops"]
        assert (await desk.app.queues.get("q")).running == 0


async def test_who_is_tried_again_later_or_comes_again_waits_outside_and_joins_anew(stage: Any) -> None:
    desk = Desk(stage)

    async def again(clerk: Any, job: Job) -> Any:
        return Again(after="10s") if desk.labels.count("again") == 1 else None

    desk.handlers |= {"retried": failing(1), "again": again}
    async with desk.world() as world:
        queue, retry = Queue("q", concurrency=1), RetryPolicy(max_attempts=2, backoff=fixed("10s"))
        for label in ("retried", "again", "other"):
            await desk.jobs.schedule(desk.at(label).work, label, queue=queue, retry=retry)
        await world.advance(seconds=5)
        assert sorted(desk.labels) == ["again", "other", "retried"]  # nobody waits for who rests
        await world.advance(seconds=20)
        assert {label: desk.labels.count(label) for label in desk.labels} == {"retried": 2, "again": 2, "other": 1}
        assert {seen.label: seen.job.attempt for seen in desk.seen} == {"retried": 2, "again": 1, "other": 1}
        assert (await desk.app.queues.get("q")).admitted == 5


async def test_one_that_failed_for_good_joins_anew_when_it_is_redriven(stage: Any) -> None:
    desk = Desk(stage)
    desk.handlers["fails"] = failing(1)
    async with desk.world() as world:
        queue = Queue("q", rate="1/m")
        job = await desk.jobs.schedule(
            desk.at().work, "fails", queue=queue, retry=RetryPolicy(max_attempts=1), metadata={"a": "b"}
        )
        await world.advance(seconds=1)
        await desk.jobs.redrive(job)
        await world.advance(seconds=1)
        assert await desk.state(job) == "waiting"
        await world.advance(minutes=1)
        assert await desk.state(job) == "done"
        assert [round(moment) for moment in desk.times] == [0, 60]


async def test_who_is_cancelled_while_it_waits_or_runs_frees_its_place(stage: Any) -> None:
    desk = Desk(stage)
    gauge = Gauge(desk, lasts_s=600)
    async with desk.world() as world:
        gauge.measure("runs", "all")
        queue = Queue("q", concurrency=1)
        runs = await desk.jobs.schedule(desk.at("runs").work, "runs", queue=queue)
        await world.advance(seconds=1)
        waits = await desk.jobs.schedule(desk.at("waits").work, "waits", queue=queue)
        await world.advance(seconds=1)
        last = await desk.jobs.schedule(desk.at("last").work, "last", queue=queue)
        await world.advance(seconds=1)
        assert [await desk.state(job) for job in (runs, waits, last)] == ["running", "waiting", "waiting"]
        assert await desk.jobs.cancel(waits) is True
        await world.settle()
        assert (await desk.app.queues.get("q")).waiting == 1
        assert await desk.jobs.cancel(runs) is True
        await world.advance(seconds=1)
        assert [await desk.state(job) for job in (runs, waits, last)] == ["cancelled", "cancelled", "done"]
        info = await desk.app.queues.get("q")
        assert (info.running, info.waiting) == (0, 0)


async def test_who_is_replaced_under_its_key_leaves_the_queue_to_the_newer_one(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("q", rate="1/m")
        await desk.jobs.schedule(desk.at("x").work, "x", queue=queue)
        await world.advance(seconds=1)
        for n in range(3):
            await desk.jobs.schedule(desk.at().work, n, key="k", replace=True, queue=queue)
            await world.advance(seconds=1)
        assert (await desk.app.queues.get("q")).waiting == 1
        await world.advance(minutes=3)
        assert desk.labels == ["x", 2]
        assert (await desk.app.queues.get("q")).running == 0


async def test_an_object_that_is_forgotten_frees_what_it_held_in_queues(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("q", rate="1/m", key="acme")
        await desk.jobs.schedule(desk.at("gone").work, 0, queue=queue)
        await world.advance(seconds=10)
        assert desk.labels == [0]
        for n in (1, 2):
            await desk.jobs.schedule(desk.at("gone").work, n, queue=queue)
        await desk.jobs.schedule(desk.at("stays").work, "stays", queue=queue)
        await desk.app.forget(desk.Clerk, "gone")
        await world.advance(minutes=5)
        assert desk.labels == [0, "stays"]
        info = await desk.app.queues.get("q")
        assert (info.running, info.waiting) == (0, 0)


async def test_jobs_that_wait_for_others_and_batches_go_through_it_too(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("q", rate="1/m")
        first = await desk.jobs.schedule(desk.at("a").work, "first", queue=queue)
        await desk.jobs.schedule(desk.at("b").work, "second", depends_on=[first], queue=queue)
        specs = [JobSpec(desk.at("c").work, [n], queue=queue) for n in range(2)]
        await desk.jobs.batch(specs, then=JobSpec(desk.at("d").work, ["then"], queue=queue))
        await world.advance(minutes=10)
        assert sorted(map(str, desk.labels)) == ["0", "1", "first", "second", "then"]
        assert [round(moment) for moment in desk.times] == [0, 60, 120, 180, 240]


async def test_a_job_asked_for_in_a_turn_goes_through_it_and_not_if_the_turn_fails(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("q", concurrency=1, key="k")

        async def asks(clerk: Any) -> None:
            await clerk.jobs.schedule(clerk.work, "own", queue=queue)
            await clerk.jobs.schedule(desk.at("b").work, "other", queue=queue)

        async def fails(clerk: Any) -> None:
            await asks(clerk)
            raise ValueError("no")

        await desk.do(asks)
        with pytest.raises(ValueError, match="no"):
            await desk.do(fails)
        await world.advance(seconds=5)
        assert sorted(desk.labels) == ["other", "own"]
        assert (await desk.app.queues.get("q")).admitted == 2


# debounce, throttle


async def test_debounce_runs_the_newest_once_it_has_been_quiet_for_so_long(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = []
        for n in range(4):
            queue = Queue("index", debounce="5s", key="doc")
            jobs.append(await desk.jobs.schedule(desk.at().work, n, queue=queue))
            await world.advance(seconds=3)
        other = await desk.jobs.schedule(desk.at().work, "other", queue=Queue("index", debounce="5s", key="else"))
        await world.advance(seconds=60)
        assert desk.labels == [3, "other"]
        assert [round(moment) for moment in desk.times] == [14, 17]
        assert [await desk.state(job) for job in (*jobs, other)] == ["cancelled"] * 3 + ["done"] * 2
        assert "debounced" in ((await desk.jobs.get(jobs[0])).error or "")
        assert (await desk.app.queues.get("index")).replaced == 3


async def test_debounce_puts_it_off_no_longer_than_it_may(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("index", debounce="5s", debounce_most="12s", key="doc")
        for n in range(10):
            await desk.jobs.schedule(desk.at().work, n, queue=queue)
            await world.advance(seconds=3)
        await world.advance(seconds=60)
        assert [round(moment) for moment in desk.times] == [12, 24, 32]


async def test_who_still_waits_for_its_turn_after_the_debounce_is_replaced_too(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("index", debounce="1s", rate="1/m", key="doc")
        for n in range(4):
            await desk.jobs.schedule(desk.at().work, n, queue=queue)
            await world.advance(seconds=10)
        await world.advance(minutes=3)
        assert desk.labels == [0, 3]
        info = await desk.app.queues.get("index")
        assert (info.waiting, info.running, info.replaced) == (0, 0, 2)


async def test_throttle_drops_what_exceeds_it_and_says_so(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        jobs = []
        for n in range(4):
            queue = Queue("sync", throttle="2/m", key="acme")
            jobs.append(await desk.jobs.schedule(desk.at().work, n, queue=queue))
            await world.advance(seconds=1)
        jobs.append(await desk.jobs.schedule(desk.at().work, "x", queue=Queue("sync", throttle="2/m", key="else")))
        await world.advance(seconds=60)
        jobs.append(await desk.jobs.schedule(desk.at().work, "late", queue=Queue("sync", throttle="2/m", key="acme")))
        await world.advance(seconds=5)
        assert desk.labels == [0, 1, "x", "late"]
        with pytest.raises(errors.JobCancelled, match="throttled: 2/m"):
            await desk.jobs.wait(jobs[2])
        ledger = await world.ledger(desk.Clerk, "a")
        assert sum(run.verdict == "skipped" and "throttled" in (run.error or "") for run in ledger) == 2
        assert (await desk.app.queues.get("sync")).dropped == 2


# operating


async def test_a_paused_queue_lets_nobody_go_and_goes_on_where_it_was(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        queue = Queue("q", concurrency=2)
        with pytest.raises(errors.UnknownObject):
            await desk.app.queues.pause("q")
        await desk.jobs.schedule(desk.at().work, "first", queue=queue)
        await world.advance(seconds=1)
        assert await desk.app.queues.pause("q", "the provider is down") is True
        assert await desk.app.queues.pause("q") is False
        job = await desk.jobs.schedule(desk.at().work, "second", queue=queue)
        await world.crash()
        await world.restart(after="1h")
        assert await desk.state(job) == "waiting"
        info = await desk.app.queues.get("q")
        assert (info.waiting, info.note) == (1, "the provider is down")
        assert info.paused_at is not None
        assert await desk.app.queues.resume("q") is True
        assert await desk.app.queues.resume("q") is False
        await world.advance(seconds=1)
        assert desk.labels == ["first", "second"]


async def test_the_limits_that_were_said_last_hold_and_who_says_none_leaves_them(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        old = Queue("q", key_concurrency=1, key="k")
        await desk.jobs.schedule(desk.at("late").work, "late", after="1m", queue=old)
        for n in range(3):
            await desk.jobs.schedule(desk.at(f"o{n}").work, n, queue=Queue("q", key_rate="1/h", key="k"))
        await world.advance(seconds=1)
        assert len(desk.labels) == 1
        await desk.jobs.schedule(desk.at("x").work, "x", queue=Queue("q", key_rate="2/h", key="k"))
        await world.advance(seconds=1)
        assert len(desk.labels) == 2  # who waits does so under the newer ones
        await desk.jobs.schedule(desk.at("y").work, "y", queue=Queue("q", key="k"))
        await world.advance(minutes=2)
        info = await desk.app.queues.get("q")
        assert (info.key_rate, info.key_concurrency, len(desk.labels)) == ("2/h", None, 2)
        assert [one.name for one in await desk.app.queues.list()] == ["q"]


@pytest.mark.sources_only("it swaps leave_queue, which is called directly by what was compiled with it")
async def test_a_place_that_nobody_gave_back_is_found_by_asking(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(stage)
    gauge = Gauge(desk, lasts_s=840)
    async with desk.world() as world:
        gauge.measure("long", "all")
        queue = Queue("q", concurrency=2)
        await desk.jobs.schedule(desk.at("long").work, "long", queue=queue, key="k")
        with monkeypatch.context() as patch:  # as if its timer had been taken out of the store by hand
            patch.setattr(outcomes, "leave_queue", lambda *_: None)
            await desk.jobs.schedule(desk.at("lost").work, "lost", queue=queue)
            await world.advance(seconds=1)
        await desk.jobs.schedule(desk.at("next").work, "next", queue=queue)
        await world.advance(minutes=5)
        assert sorted(desk.labels) == ["long", "lost"]
        await world.advance(minutes=6)
        assert sorted(desk.labels) == ["long", "lost", "next"]
        assert (await desk.app.queues.get("q")).running == 1  # who runs so long keeps his
        await world.advance(minutes=30)
        assert (await desk.app.queues.get("q")).running == 0


# crashes


async def test_a_process_that_dies_while_they_run_loses_no_place(stage: Any) -> None:
    desk = Desk(stage)
    gauge = Gauge(desk, lasts_s=10)
    async with desk.world() as world:
        for n in range(5):
            gauge.measure(n, "all")
        jobs = [await desk.jobs.schedule(desk.at(f"o{n}").work, n, queue=Queue("q", concurrency=2)) for n in range(5)]
        await world.advance(seconds=5)
        world.kill()
        gauge.now.clear()
        await world.restart(after="5s")
        await world.advance(minutes=2)
        assert gauge.most["all"] == 2
        assert await ended(desk, jobs)
        info = await desk.app.queues.get("q")
        assert (info.running, info.waiting, info.admitted) == (0, 0, 5)


async def crashed_at_each_trip(desk_of: Callable[[], Desk]) -> None:
    """Killed at one trip to disk after the other: the limit holds, each effect is there once, no place is lost."""
    number = 0
    is_over = False
    while not is_over:
        number += 1
        desk = desk_of()
        gauge = Gauge(desk)
        async with desk.world() as world:
            for n in range(3):
                gauge.measure(n, "all")
            queue = Queue("q", concurrency=1, rate="2/10s")
            specs = [JobSpec(desk.at(f"o{n}").work, [n], queue=queue) for n in range(3)]
            jobs = await desk.jobs.schedule_many(specs)
            last = world.faults.probes + number

            def crash(name: str, at: int, world: Any = world, last: int = last, gauge: Gauge = gauge) -> None:
                if at == last:
                    world.kill()
                    gauge.now.clear()

            world.faults.on_probe = crash
            with suppress(errors.WakefulError):
                await world.advance(seconds=4)
            is_over = world.faults.probes < last
            world.faults.on_probe = None
            if not is_over:
                await world.restart(after="1s")
            await world.advance(minutes=2)
            assert gauge.most["all"] <= 1, number
            assert await ended(desk, jobs), number
            assert [await desk.effects(world, f"o{n}") for n in range(3)] == [{n: 1} for n in map(str, range(3))], (
                number
            )
            info = await desk.app.queues.get("q")
            assert (info.running, info.waiting, info.admitted) == (0, 0, 3), number
    assert number > 20


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)  # what differs between stores is in their own suites
async def test_killed_at_each_trip_to_disk_no_limit_is_passed_and_no_place_lost(stage: Any) -> None:
    await crashed_at_each_trip(lambda: Desk(stage))


@pytest.mark.parametrize("store_url", ["memory", "postgres"], indirect=True)  # a file, or a bucket, has one process
async def test_on_two_nodes_of_which_one_dies_the_limit_is_that_of_the_deployment(stage: Any) -> None:
    desk = Desk(stage)
    gauge = Gauge(desk)
    async with desk.world() as world:
        members = await world.nodes(2)
        for n in range(30):
            gauge.measure(n, "all")
        specs = [JobSpec(desk.at(f"o{n}").work, [n], queue=Queue("q", concurrency=3)) for n in range(30)]
        jobs = await desk.jobs.schedule_many(specs)
        await world.advance(seconds=3.5)
        assert gauge.most["all"] == 3
        members[1].kill()
        gauge.now.clear()
        await world.advance(minutes=3)
        assert gauge.most["all"] <= 4  # one may still be counted here that died with its node
        assert await ended(desk, jobs)
        info = await desk.app.queues.get("q")
        assert (info.running, info.waiting, info.admitted) == (0, 0, 30)


# what is refused


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0}, {"concurrency": True}, {"rate": "fast"}, {"rate": "0/m"}, {"rate": "5/100d"}, {"key_rate": 3},
        {"debounce": "0s"}, {"debounce_most": "5s"}, {"debounce": "5s", "debounce_most": "1s"},
        {"debounce": "5s", "throttle": "1/m"}, {"rate": "1/parsec"},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_where_it_is_written(options: dict[str, Any]) -> None:
    with pytest.raises((errors.BadOption, errors.BadTime)):
        Queue("q", **options)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, 5, None])
def test_a_name_or_key_must_be_one(name: Any) -> None:
    with pytest.raises(errors.BadName):
        Queue(name)
    if name is not None:
        with pytest.raises(errors.BadName):
            Queue("q", key=name)


async def test_a_queue_is_a_queue(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world():
        with pytest.raises(errors.BadOption, match="Queue"):
            await desk.jobs.schedule(desk.at().work, queue="mail")
