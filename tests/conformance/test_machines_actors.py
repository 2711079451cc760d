"""Methods that a chart invokes: they run beside turns, and their result is applied once, whatever dies."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from wakeful import App, Machine, RetryPolicy, assign, errors, fixed
from wakeful.policy.limits import Limits
from wakeful.testing import World


class Yard:
    """An app with one machine whose invoked method does what the test says."""

    def __init__(self, **options: Any) -> None:
        self.app = App(limits=Limits(stop_deadline_ms=5_000))
        self.began: list[Any] = []
        self.work: Callable[[Any, Any, Any], Any] = _instant
        yard = self

        class Ship(Machine):
            chart = {
                "initial": "idle",
                "context": {"tries": 0, "got": None, "pings": 0},
                "on": {"PING": {"actions": "ping"}},
                "states": {
                    "idle": {"on": {"GO": "sailing", "BAD": "bad"}},
                    "sailing": {
                        "invoke": {
                            "id": "sail",
                            "src": "sail",
                            "input": {"port": "Brest"},
                            "onDone": {"target": "there", "actions": "keep"},
                            "onError": {"target": "wrecked", "actions": "keep"},
                        },
                        "on": {"BACK": "idle", "AGAIN": {"target": "sailing", "reenter": True}},
                    },
                    "bad": {"invoke": {"src": "sail", "onDone": {"target": "there", "actions": "explode"}}},
                    "there": {},
                    "wrecked": {},
                },
            }

            @assign
            def keep(self, context: Any, event: Any) -> Any:
                return {"got": event.get("output", event.get("error")), "tries": context["tries"] + 1}

            @assign
            def ping(self, context: Any, event: Any) -> Any:
                return {"pings": context["pings"] + 1}

            @assign
            def explode(self, context: Any, event: Any) -> Any:
                yard.began.append("explode")
                raise ValueError("can't take it")

            async def sail(self, context: Any, event: Any, input: Any) -> Any:
                assert self.ctx.run is not None
                yard.began.append((event["type"], input, self.ctx.run.id))
                return await yard.work(self, context, len(yard.began))

        for name, value in options.items():
            setattr(Ship, name, value)
        self.Ship: Any = self.app.object(Ship)


async def _instant(ship: Any, context: Any, count: int) -> Any:
    return "done"


async def _slow(ship: Any, context: Any, count: int) -> Any:
    await asyncio.sleep(60)
    return f"run {count}"


async def _failing(ship: Any, context: Any, count: int) -> Any:
    raise OSError("no boat")


async def test_its_result_comes_back_as_an_event(store_url: str) -> None:
    yard = Yard()
    async with yard.app.world(store=store_url) as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.settle()
        snapshot = await ship.snapshot()
        assert (snapshot.value, snapshot.context["got"]) == ("there", "done")
        assert [one[:2] for one in yard.began] == [("GO", {"port": "Brest"})]
        assert await world.due() == []
        runs = await world.ledger(yard.Ship, "s")
        assert [(run.name, run.verdict) for run in runs] == [("machine.event", "run"), ("machine-run:sail", "run")]
        assert runs[1].id == yard.began[0][2]


async def test_its_error_comes_back_as_an_event(store_url: str) -> None:
    yard = Yard()
    yard.work = _failing
    async with yard.app.world(store=store_url) as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.settle()
        snapshot = await ship.snapshot()
        assert (snapshot.value, snapshot.context["got"]) == ("wrecked", {"name": "OSError", "message": "no boat"})
        [run] = await world.ledger(yard.Ship, "s", "machine-run:sail")
        assert (run.verdict, run.error) == ("failed", "OSError: no boat")
        assert len(yard.began) == 1  # whether to try again is the chart's to say


@pytest.mark.parametrize("answer", [object(), "x" * 2_000_000])
async def test_a_result_that_cannot_be_kept_is_an_error(answer: Any) -> None:
    yard = Yard()

    async def work(ship: Any, context: Any, count: int) -> Any:
        return answer

    yard.work = work
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.settle()
        snapshot = await ship.snapshot()
        assert snapshot.value == "wrecked"
        assert "answer of Ship/s.sail" in snapshot.context["got"]["message"]


async def test_other_events_do_not_wait_for_it_and_the_object_may_sleep() -> None:
    yard = Yard()
    yard.work = _slow
    async with yard.app.world(sleep_after_turn=True) as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        for count in range(1, 4):
            assert (await ship.send("PING")).context["pings"] == count
        await world.advance(seconds=61)
        assert (await ship.snapshot()).context == {"tries": 1, "got": "run 1", "pings": 3}


async def test_it_is_stopped_when_the_state_is_left_and_its_result_dropped() -> None:
    yard = Yard()
    stopped: list[bool] = []

    async def stubborn(ship: Any, context: Any, count: int) -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise
        return count

    yard.work = stubborn
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.settle()
        assert (await ship.send("BACK")).value == "idle"
        await world.settle()
        assert stopped == [True]
        assert await world.due() == []
        await world.advance(minutes=5)
        assert (await ship.snapshot()).context["tries"] == 0


async def test_a_step_that_is_undone_does_not_stop_it() -> None:
    yard = Yard()
    yard.work = _slow

    @yard.app.object(name="Careful")
    class Careful(yard.Ship):  # type: ignore[misc, name-defined]
        async def back_and_fail(self) -> None:
            await self.send("BACK")
            await asyncio.sleep(1)
            raise ValueError("not after all")

    async with yard.app.world() as world:
        ship = world.get(Careful, "s")
        await ship.send("GO")
        await world.settle()
        with pytest.raises(ValueError, match="not after all"):
            await ship.back_and_fail()
        await world.advance(minutes=2)
        assert (len(yard.began), (await ship.snapshot()).value) == (1, "there")


async def test_a_state_entered_anew_has_a_run_of_its_own() -> None:
    yard = Yard()
    yard.work = _slow
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.advance(seconds=30)
        await ship.send("AGAIN")
        await world.advance(seconds=59)
        assert (await ship.snapshot()).value == "sailing"  # the first run's answer would have come 29 s ago
        await world.advance(seconds=2)
        assert (await ship.snapshot()).context["got"] == "run 2"
        assert len({one[2] for one in yard.began}) == 2


async def test_after_a_crash_it_runs_again_with_the_same_id(store_url: str) -> None:
    yard = Yard()
    yard.work = _slow
    async with yard.app.world(store=store_url) as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.advance(seconds=30)
        await world.crash()
        await world.restart(after="1h")
        await world.advance(seconds=61)
        assert (await ship.snapshot()).context == {"tries": 1, "got": "run 2", "pings": 0}
        assert [one[2] for one in yard.began] == [yard.began[0][2]] * 2


async def test_after_a_crash_it_is_an_error_when_the_class_says_so(store_url: str) -> None:
    yard = Yard(on_crash="error")
    yard.work = _slow
    async with yard.app.world(store=store_url) as world:
        ship, well = world.get(yard.Ship, "s"), world.get(yard.Ship, "well")
        await ship.send("GO")
        await world.advance(seconds=30)
        await world.crash()
        await world.restart()
        await well.send("GO")
        await world.advance(seconds=61)
        snapshot = await ship.snapshot()
        assert (snapshot.value, snapshot.context["got"]["name"]) == ("wrecked", "Crashed")
        assert (await well.snapshot()).value == "there"
        assert len(yard.began) == 2


async def test_one_that_kills_its_process_three_times_is_an_error_for_the_chart() -> None:
    yard = Yard()
    async with yard.app.world() as world:

        async def deadly(ship: Any, context: Any, count: int) -> Any:
            world.kill()
            await asyncio.sleep(1)

        yard.work = deadly
        ship = world.get(yard.Ship, "s")
        await asyncio.gather(ship.send("GO"), return_exceptions=True)
        await world.advance(seconds=1)
        for _ in range(3):
            await world.restart()
            await world.advance(seconds=1)
        assert len(yard.began) == 3
        snapshot = await ship.snapshot()
        assert snapshot.value == "wrecked"
        assert snapshot.context["got"]["name"] == "Crashed"
        assert await world.parked() == []
        assert await world.due() == []


@pytest.mark.parametrize("length", [1, 30])
async def test_those_beside_one_that_kills_are_not_blamed(length: int) -> None:
    yard = Yard()
    async with yard.app.world() as world:

        async def mixed(ship: Any, context: Any, count: int) -> Any:
            if ship.ctx.key == "killer":
                await asyncio.sleep(0.5)
                world.kill()
            await asyncio.sleep(length)
            return "well"

        yard.work = mixed
        keys = [f"good-{number}" for number in range(5)]
        for key in [*keys[:3], "killer", *keys[3:]]:
            await asyncio.gather(world.get(yard.Ship, key).send("GO"), return_exceptions=True)
        for _ in range(12):
            await world.advance(seconds=20)
            if world._node is None:
                await world.restart()
        await world.advance(minutes=5)
        assert (await world.get(yard.Ship, "killer").snapshot()).value == "wrecked"
        found = [await world.get(yard.Ship, key).snapshot() for key in keys]
        assert [(one.value, one.context["got"]) for one in found] == [("there", "well")] * 5


@pytest.mark.parametrize("away_s", [5, 120])
async def test_a_store_that_is_away_does_not_make_it_run_twice(away_s: int) -> None:
    yard = Yard()
    yard.work = _slow
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.advance(seconds=10)
        world.faults.is_down = True
        with pytest.raises(errors.Unavailable):
            await ship.send("PING")
        await world.advance(seconds=away_s)  # it runs still, or has ended meanwhile and can't say so
        world.faults.is_down = False
        await world.advance(seconds=150)
        assert (await ship.snapshot()).context["got"] == "run 1"
        assert len(yard.began) == 1


async def test_a_stop_waits_for_it_and_its_answer_counts() -> None:
    yard = Yard()

    async def work(ship: Any, context: Any, count: int) -> Any:
        await asyncio.sleep(3)
        return "in time"

    yard.work = work
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.restart()
        assert (await ship.snapshot()).context["got"] == "in time"
        assert len(yard.began) == 1


async def test_a_stop_that_cannot_wait_hands_it_back_uncounted() -> None:
    yard = Yard()
    yard.work = _slow
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        for _ in range(4):  # a crash would be counted, and three are too many
            await world.advance(seconds=1)
            await world.restart()
        await world.advance(seconds=61)
        assert (await ship.snapshot()).context["got"] == "run 5"


async def test_an_answer_that_the_chart_cannot_take_is_parked_and_not_lost() -> None:
    yard = Yard(retry=RetryPolicy(2, fixed("1s")))
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("BAD")
        await world.advance(seconds=10)
        assert [one for one in yard.began if one == "explode"] == [
            "explode"
        ] * 3  # by the answer, then twice as a timer
        assert len(yard.began) == 4  # and the method ran once
        [parked] = await world.parked()
        assert "can't take it" in parked.error
        assert (await ship.snapshot()).value == "bad"


async def test_it_has_no_way_to_the_storage() -> None:
    yard = Yard()

    async def work(ship: Any, context: Any, count: int) -> Any:
        with pytest.raises(errors.TurnOver, match="call the object again"):
            await ship.storage.put("x", 1)
        with pytest.raises(errors.TurnOver):
            await ship.send("PING")
        return (await ship.ctx.get(yard.Ship, "other").send("PING")).context["pings"]

    yard.work = work
    async with yard.app.world() as world:
        ship = world.get(yard.Ship, "s")
        await ship.send("GO")
        await world.settle()
        assert (await ship.snapshot()).context["got"] == 1


async def test_callers_cannot_call_it() -> None:
    yard = Yard()
    async with yard.app.world() as world:
        with pytest.raises(errors.UnknownMethod, match="internal"):
            await world.get(yard.Ship, "s").sail({}, {"type": "X"})


async def test_it_moves_with_its_object_and_is_applied_once() -> None:
    yard = Yard()
    yard.work = _slow
    async with yard.app.world(nodes=2) as world:
        keys = [f"s{number}" for number in range(20)]
        for key in keys:
            await world.get(yard.Ship, key).send("GO")
        await world.advance(seconds=10)
        await world.nodes(3)  # shards move; what runs beside turns must not keep them
        counts = [len(member.node.epochs) for member in world.members if member.node]
        assert max(counts) - min(counts) <= 1
        await world.members[0].crash()
        await world.advance(seconds=90)
        found = [await world.get(yard.Ship, key).snapshot() for key in keys]
        assert {(one.value, one.context["tries"]) for one in found} == {("there", 1)}
        assert len(yard.began) > len(keys)
        assert len({one[2] for one in yard.began}) == len(keys)
        assert _left(await world.due()) == []


def _left(timers: Any) -> list[str]:
    return [timer.name for timer in timers if timer.name.startswith("machine")]


async def test_looking_does_not_disturb(store_url: str) -> None:
    yard = Yard()
    async with yard.app.world(store=store_url) as world:
        await _quiet(world, yard)


async def _quiet(world: World, yard: Yard) -> None:
    ship = world.get(yard.Ship, "s")
    for _ in range(3):
        await ship.snapshot()
        await ship.can("GO")
    assert await world.ledger(yard.Ship, "s") == []
    assert await world.info(yard.Ship, "s") is None
