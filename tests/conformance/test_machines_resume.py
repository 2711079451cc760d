"""What becomes of a delay when nobody was there: the three rules, over crashes, outages and moves."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from wakeful import App, Machine
from wakeful.testing import World


def app_with(rule: str, *, delay: str = "60s") -> tuple[App, Any]:
    app = App()

    @app.object
    class Wait(Machine):
        resume = rule
        chart = {
            "initial": "waiting",
            "states": {
                "waiting": {
                    "after": {delay: "over"},
                    "on": {"LOOK": {}, "LATER": {"actions": {"type": "raise", "event": {"type": "X"}, "delay": "90s"}}},
                },
                "over": {},
            },
        }

    return app, Wait


async def ended(world: World, cls: Any, key: str = "w", *, name: str = "machine:xstate.after.60s.Wait.waiting") -> Any:
    """How long after its start the delay fired, in seconds; exactly once."""
    [run] = await world.ledger(cls, key, name)
    assert run.verdict == "run"
    return (run.fired_at - await started(world, cls, key)).total_seconds()


async def started(world: World, cls: Any, key: str = "w") -> datetime:
    return (await world.ledger(cls, key, "machine.event"))[0].fired_at


async def begin(world: World, cls: Any, keys: tuple[str, ...] = ("w",)) -> None:
    for key in keys:
        await world.get(cls, key).start()


@pytest.mark.parametrize(
    ("rule", "down", "fires"),
    [
        ("deadline", "29s", 60),
        ("deadline", "3h", 10 + 3 * 3600),
        ("restart", "29s", 10 + 29 + 60),
        ("restart", "3h", 10 + 3 * 3600 + 60),
        ("pause_while_down", "29s", 60 + 29),
        ("pause_while_down", "3h", 60 + 3 * 3600),
        ("pause_while_down", "2s", 60),  # shorter than can be told from a missed beat
    ],
)
async def test_a_process_that_dies_and_comes_back(rule: str, down: str, fires: int, store_url: str) -> None:
    app, cls = app_with(rule)
    async with app.world(store=store_url) as world:
        await begin(world, cls)
        await world.advance(seconds=10)
        await world.crash()
        await world.restart(after=down)
        await world.advance(minutes=3)
        at = await ended(world, cls)
        # Beats are five seconds apart, so down time is known to that.
        assert 0 <= at - fires <= (5.1 if rule == "pause_while_down" and down != "2s" else 0)
        assert (await world.get(cls, "w").snapshot()).value == "over"
        assert not [timer for timer in await world.due() if timer.name.startswith("machine")]


@pytest.mark.parametrize(("rule", "fires"), [("deadline", 60), ("restart", 110), ("pause_while_down", 90)])
async def test_dying_twice(rule: str, fires: int) -> None:
    app, cls = app_with(rule)
    async with app.world() as world:
        await begin(world, cls)
        for _ in range(2):
            await world.advance(seconds=5)
            await world.crash()
            await world.restart(after="20s")
        await world.advance(minutes=5)
        assert 0 <= await ended(world, cls) - fires <= (10.1 if rule == "pause_while_down" else 0)


@pytest.mark.parametrize(("rule", "fires"), [("deadline", 60), ("restart", 60), ("pause_while_down", 60)])
async def test_sleep_is_no_absence(rule: str, fires: int) -> None:
    app, cls = app_with(rule)
    async with app.world(sleep_after_turn=True) as world:
        await begin(world, cls)
        for _ in range(5):
            await world.advance(seconds=10)
            await world.get(cls, "w").send("LOOK")
        await world.advance(minutes=5)
        assert await ended(world, cls) == fires


@pytest.mark.parametrize("rule", ["deadline", "restart", "pause_while_down"])
async def test_a_store_that_is_away(rule: str) -> None:
    app, cls = app_with(rule)
    async with app.world() as world:
        await begin(world, cls)
        await world.advance(seconds=10)
        world.faults.is_down = True
        await world.advance(seconds=100)
        world.faults.is_down = False
        await world.advance(minutes=10)
        at = await ended(world, cls)
        if rule == "deadline":
            assert 110 <= at <= 116  # as soon as the store is back
        elif rule == "restart":
            assert 170 <= at <= 176  # its whole length from there
        else:
            assert 155 <= at <= 172  # the fifty seconds that were left


@pytest.mark.parametrize("rule", ["deadline", "pause_while_down"])
async def test_a_node_that_dies_among_others_is_no_absence(rule: str) -> None:
    app, cls = app_with(rule)
    async with app.world(nodes=3) as world:
        keys = tuple(f"w{number}" for number in range(12))
        await begin(world, cls, keys)
        await world.advance(seconds=10)
        await world.members[0].crash()
        await world.advance(seconds=20)
        await world.members[1].restart(after="10s")
        await world.advance(minutes=5)
        for key in keys:
            assert await ended(world, cls, key) == 60


async def test_restart_begins_anew_where_the_object_comes_to() -> None:
    app, cls = app_with("restart")
    async with app.world(nodes=2) as world:
        keys = tuple(f"w{number}" for number in range(12))
        await begin(world, cls, keys)
        await world.advance(seconds=30)
        await world.members[0].stop()
        await world.advance(minutes=5)
        at = [await ended(world, cls, key) for key in keys]
        assert set(at) & {60}  # those that stayed
        moved = [one for one in at if one != 60]
        assert moved
        assert all(90 <= one <= 92 for one in moved)


async def test_the_quiet_after_an_outage_is_no_absence() -> None:
    app, cls = app_with("pause_while_down", delay="2h")
    async with app.world() as world:
        await begin(world, cls)
        world.faults.is_down = True
        await world.advance(seconds=100)
        world.faults.is_down = False
        await world.advance(hours=3)
        at = await ended(world, cls, name="machine:xstate.after.2h.Wait.waiting")
        assert 7_300 <= at <= 7_312


async def test_a_delay_set_after_the_absence_is_not_moved_by_it() -> None:
    app, cls = app_with("pause_while_down")
    async with app.world() as world:
        await begin(world, cls)
        await world.crash()
        await world.restart(after="30s")
        snapshot = await world.get(cls, "w").send("LATER")
        assert snapshot.due["xstate.delayed.1"] == world.now() + timedelta(seconds=90)
        await world.sleep_all()
        await world.advance(seconds=120)
        assert 90 <= await ended(world, cls) <= 95.1


async def test_a_reader_sees_when_it_is_due_now_and_writes_nothing() -> None:
    app, cls = app_with("restart")
    async with app.world() as world:
        await begin(world, cls)
        await world.crash()
        await world.restart(after="30s")
        began = await started(world, cls)
        seen = (await world.get(cls, "w").snapshot()).due["xstate.after.60s.Wait.waiting"]
        assert seen == began + timedelta(seconds=90)
        [timer] = [timer for timer in await world.due() if timer.name.startswith("machine:")]
        assert timer.due_at == int((began + timedelta(seconds=60)).timestamp() * 1000)


async def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(Exception, match="resume must be one of deadline, restart, pause_while_down"):
        app_with("sometimes")
