"""The test kit itself: time that jumps, disks that outlive crashes, faults on request, one seed."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvloop

from wakeful import AlarmInfo, App, Context, DurableObject, Unavailable
from wakeful.values.errors import BadInput, BadOption, NotRunning, OutcomeUnknown, StoreDown

pytest_plugins = ["pytester"]

app = App()
MINUTE = timedelta(minutes=1)


@app.object
class Metronome(DurableObject):
    """Ticks every minute, for ever."""

    async def start(self, every: timedelta = MINUTE) -> None:
        await self.storage.put("every", every)
        await self.storage.set_alarm(every)

    async def alarm(self, info: AlarmInfo) -> None:
        await self.storage.put("ticks", await self.storage.get("ticks", 0) + 1)
        await self.storage.set_alarm(info.scheduled_at + await self.storage.get("every"))


@app.object
class Forgetful(DurableObject):
    """Keeps its count in memory, which is a mistake."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self.count = 0

    async def add(self) -> int:
        self.count += 1
        await self.storage.put("x", self.count)
        return self.count


@app.object
class Careful(DurableObject):
    async def add(self) -> int:
        count: int = await self.storage.get("count", 0) + 1
        await self.storage.put("count", count)
        return count

    async def wait(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    async def wait_for(self, seconds: float) -> str:
        try:
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "never"


@app.object
class Unlucky(DurableObject):
    async def start(self) -> None:
        await self.storage.set_alarm(timedelta(seconds=1))

    async def alarm(self) -> None:
        raise ValueError("always")


async def test_time_starts_where_it_is_told_and_stands_still() -> None:
    async with app.world(start="2026-03-28T12:00Z") as world:
        assert world.now() == datetime(2026, 3, 28, 12, tzinfo=UTC)
        for _ in range(50):
            await world.get(Careful, "a").add()
        assert world.now() == datetime(2026, 3, 28, 12, tzinfo=UTC)
    async with app.world() as world:
        assert world.now() == datetime(2026, 1, 1, tzinfo=UTC)


async def test_time_jumps_over_everything_that_waits() -> None:
    began = time.monotonic()
    async with app.world() as world:
        start = world.now()
        careful = world.get(Careful, "a", deadline=timedelta(days=400))
        assert await careful.wait(86_400 * 30) == "waited"
        assert world.now() == start + timedelta(days=30)
        assert await careful.wait_for(86_400 * 30) == "timed out"
        await asyncio.sleep(3_600)
        assert world.now() == start + timedelta(days=60, hours=1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 60)
        assert world.now() == start + timedelta(days=60, hours=1, minutes=1)
    assert time.monotonic() - began < 1_000, "it waited for real"


async def test_advance_lets_exactly_that_much_time_pass_and_runs_what_falls_due_in_it() -> None:
    async with app.world() as world:
        start = world.now()
        await world.get(Metronome, "m").start()
        await world.advance(seconds=59, milliseconds=999)
        assert await world.ledger(Metronome, "m") == []
        await world.advance(milliseconds=1)
        assert len(await world.ledger(Metronome, "m")) == 1
        await world.advance("9m")
        assert len(await world.ledger(Metronome, "m")) == 10
        await world.advance(timedelta(minutes=5))
        await world.advance(300)
        assert world.now() == start + 20 * MINUTE
        assert await world.rows(Metronome, "m") == {"every": MINUTE, "ticks": 20}


async def test_due_and_ledger_and_info_look_without_waking() -> None:
    async with app.world() as world:
        start = world.now()
        await world.get(Metronome, "b").start(timedelta(hours=2))
        await world.get(Metronome, "a").start(timedelta(hours=1))
        await world.sleep_all()
        assert [(timer.id.key, timer.name) for timer in await world.due()] == [("a", "alarm"), ("b", "alarm")]
        assert [timer.id.key for timer in await world.due(limit=1)] == ["a"]
        await world.advance(hours=2)
        runs = await world.ledger(Metronome, "a")
        assert [run.nominal_at for run in runs] == [start + timedelta(hours=1), start + timedelta(hours=2)]
        assert [run.verdict for run in runs] == ["run", "run"]
        assert await world.ledger(Metronome, "a", "alarm") == runs
        assert await world.ledger(Metronome, "a", "other") == []
        info = await world.info(Metronome, "a")
        assert info is not None
        assert info.rows == 2
        assert await world.info(Metronome, "nobody") is None
        assert await world.parked() == []


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_a_crash_keeps_the_disk_and_loses_the_rest(store: str, tmp_path: Any) -> None:
    url = store if store == "memory:" else f"sqlite:{tmp_path}/w.db"
    async with app.world(store=url) as world:
        start = world.now()
        assert await world.get(Careful, "a").add() == 1
        running = asyncio.create_task(world.get(Careful, "a").wait(30))
        await world.settle()
        await world.crash()
        with pytest.raises(NotRunning):
            await running
        with pytest.raises(NotRunning, match=r"call world\.restart"):
            _ = world.node
        with pytest.raises(NotRunning):
            await world.get(Careful, "a").add()
        await world.restart(after="3h")
        assert world.now() == start + timedelta(hours=3)
        assert await world.get(Careful, "a").add() == 2


async def test_a_restart_without_a_crash_is_a_clean_stop_and_start() -> None:
    async with app.world() as world:
        waiting = asyncio.create_task(world.get(Careful, "a").wait(3))
        await world.settle()
        await world.restart()
        assert await waiting == "waited"
        assert await world.get(Careful, "a").add() == 1


async def test_a_world_may_end_while_it_is_crashed_or_its_store_is_away() -> None:
    async with app.world() as world:
        await world.get(Careful, "a").add()
        await world.crash()
    async with app.world() as world:
        world.faults.is_down = True
        with pytest.raises(StoreDown):
            await world.get(Careful, "a").add()
    assert app.deployment.node is None


async def test_forced_sleep_after_every_turn_catches_a_class_that_relies_on_memory() -> None:
    async with app.world() as world:
        assert [await world.get(Forgetful, "f").add() for _ in range(3)] == [1, 2, 3]
    async with app.world(sleep_after_turn=True) as world:
        assert [await world.get(Forgetful, "f").add() for _ in range(3)] == [1, 1, 1]
        assert [await world.get(Careful, "c").add() for _ in range(3)] == [1, 2, 3]
        assert not world.node.awake


async def test_sleep_all_puts_every_idle_object_to_sleep() -> None:
    async with app.world() as world:
        for key in "abc":
            await world.get(Careful, key).add()
        waiting = asyncio.create_task(world.get(Careful, "d").wait(5))
        await world.sleep_all()
        assert [id.key for id in world.node.awake] == ["d"]
        await waiting


async def test_the_nth_commit_fails_before_or_after() -> None:
    async with app.world() as world:
        careful = world.get(Careful, "a")
        world.faults.fail_commit(2, when="before")
        assert [await careful.add(), await careful.add()] == [1, 2]
        with pytest.raises(StoreDown):
            await careful.add()
        await world.advance(seconds=5)
        assert await careful.add() == 3
        world.faults.fail_commit(when="after")
        with pytest.raises(OutcomeUnknown):
            await careful.add()
        await world.advance(seconds=5)
        assert await careful.add() == 5


async def test_every_trip_to_the_store_is_a_probe_where_the_process_can_die() -> None:
    names: list[str] = []
    async with app.world() as world:
        world.faults.on_probe = lambda name, number: names.append(name)
        await world.get(Careful, "a").add()
        assert {"load.before", "load.after", "commit.before", "commit.after"} <= set(names)

        def die(name: str, number: int) -> None:
            if name == "commit.after":
                world.faults.on_probe = None
                world.kill()

        world.faults.on_probe = die
        with pytest.raises(Unavailable):
            await world.get(Careful, "a").add()
        await world.restart()
        assert await world.get(Careful, "a").add() == 3  # it was on disk, and nobody was told


async def seeded(seed: int) -> list[Any]:
    """What a world of that seed does: jittered retries, crashes at chosen moments."""
    dice = random.Random(seed)
    seen: list[Any] = []
    async with app.world(seed=seed) as world:
        for n in range(4):
            await world.get(Unlucky, f"u{n}").start()
        for _ in range(5):
            await world.advance(seconds=dice.randrange(1, 30))
            await world.crash()
            await world.restart(after=dice.randrange(1, 5))
        await world.advance(minutes=10)
        for n in range(4):
            seen += [(run.fired_at, run.attempt, run.id) for run in await world.ledger(Unlucky, f"u{n}")]
        seen += [(timer.due_at, timer.seq) for timer in await world.due()]
        seen.append(len(await world.parked()))
    return seen


async def test_a_seed_repeats_exactly_and_another_does_not() -> None:
    first = await seeded(42)
    assert await seeded(42) == first
    assert await seeded(43) != first
    assert first[-1] == 4


async def test_a_failing_world_prints_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError):
        async with app.world(seed=77):
            raise RuntimeError
    assert "77" in capsys.readouterr().out


def test_uvloop_is_refused_with_a_clear_error() -> None:
    async def body() -> None:
        with pytest.raises(BadOption, match="needs asyncio's own event loop, not uvloop; run the test without uvloop"):
            async with app.world():
                raise AssertionError("never here")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(body())
    assert app.deployment.node is None


async def test_one_world_at_a_time_on_a_loop() -> None:
    other = App()
    async with app.world():
        with pytest.raises(BadOption, match="leave it first"):
            async with other.world():
                raise AssertionError("never here")


async def test_time_is_real_again_after_the_world() -> None:
    loop = asyncio.get_running_loop()
    async with app.world() as world:
        await world.advance(days=40)
    before = time.monotonic()
    assert before - 1 < loop.time() < time.monotonic() + 1
    began = time.monotonic()
    await asyncio.sleep(0.02)
    assert time.monotonic() - began >= 0.015


async def test_a_week_of_alarms_every_minute_fires_each_of_them_once() -> None:
    """A year (525,600, a minute long) is the same 52 times over."""
    async with app.world(start="2026-01-01T00:00Z") as world:
        await world.get(Metronome, "m").start()
        await world.advance(days=7)
        assert (await world.rows(Metronome, "m"))["ticks"] == 7 * 24 * 60 == 10_080
        assert world.now() == datetime(2026, 1, 8, tzinfo=UTC)
        [timer] = await world.due()
        assert timer.due_at == (datetime(2026, 1, 8, tzinfo=UTC) + MINUTE).timestamp() * 1_000


# The pytest plugin

SUITE = """
    from datetime import timedelta
    from wakeful import App, DurableObject

    app = App()

    @app.object
    class Bell(DurableObject):
        async def set(self):
            await self.storage.set_alarm(timedelta(hours=1))
        async def alarm(self):
            await self.storage.put("rang", True)

    def test_rings(world):
        async def body(world):
            await world.get(Bell, "b").set()
            await world.advance(hours=2)
            assert world.seed == {seed}
            return await world.rows(Bell, "b")
        assert world(app, body) == {{"rang": True}}

    def test_elsewhere(world, tmp_path):
        async def body(world):
            assert world.now().year == 2030
            await world.get(Bell, "b").set()
            await world.restart(after="2h")
            await world.settle()
            return await world.rows(Bell, "b")
        assert world(app, body, start="2030-01-01T00:00Z", store=f"sqlite:{{tmp_path}}/b.db") == {{"rang": True}}

    def test_fails(world):
        async def body(world):
            assert False
        world(app, body)
"""


def test_the_plugin_gives_a_world_and_prints_the_seed_of_one_that_failed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE.format(seed=5))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--world-seed=5")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*world seed: 5*"])


async def test_half_a_year_passes_without_the_clock_losing_its_grain() -> None:
    """Past 194 days a float of seconds is coarser than asyncio's nanosecond, and the loop once stood still there."""
    app = App()

    @app.object
    class Monthly(DurableObject):
        async def begin(self) -> None:
            await self.storage.set_alarm(timedelta(days=30))

        async def alarm(self) -> None:
            await self.storage.put("n", await self.storage.get("n", 0) + 1)
            await self.storage.set_alarm(timedelta(days=30))

    async with app.world() as world:
        await world.get(Monthly, "a").begin()
        await world.advance(days=30 * 8)
        assert await world.rows(Monthly, "a") == {"n": 8}
        assert {run.lateness for run in await world.ledger(Monthly, "a")} == {timedelta()}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"days": -1}, "advance by .* is negative"),
        ({"amount": "-5s"}, "advance by"),
        ({}, "advance by how much"),
        ({"amount": "5s", "days": 1}, "advance by how much"),
        ({"months": 1}, r"advance\(months=…\): parts are weeks, days"),
        ({"days": "two"}, r"advance\(days=…\): parts are"),
    ],
)
async def test_time_moves_by_an_amount_that_there_is(given: dict[str, Any], said: str) -> None:
    async with app.world() as world:
        before = world.now()
        with pytest.raises(BadInput, match=said):
            await world.advance(**given)
        await world.advance(0)
        await world.advance(seconds=0)
        assert world.now() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": "yesterday"}, "start='yesterday': give an aware datetime, or text like"),
        ({"start": 5}, "start=5: give"),
        ({"start": "2026-01-01"}, "no time zone"),
        ({"nodes": 0}, "nodes=0: a world has one or more"),
        ({"nodes": True}, "nodes=True"),
    ],
)
def test_a_world_that_can_not_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        app.world(**options)


async def test_a_world_keeps_a_node() -> None:
    async with app.world(nodes=2) as world:
        with pytest.raises(BadOption, match="nodes=0"):
            await world.nodes(0)


@pytest.mark.parametrize("name", ["limits", "quotas"])
def test_options_of_an_app_are_of_their_kind(name: str) -> None:
    with pytest.raises(BadOption, match=rf"{name} must be {name.title()}\(…\), not 5"):
        App(**{name: 5})  # type: ignore[arg-type]
