"""Machines that a machine starts: objects of their own, started and stopped with it, talking both ways."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.house import CHILD, PARENT, House, row, there
from wakeful import App, Machine, assign, errors
from wakeful.machines.mail import Mail
from wakeful.machines.node_machines import MAIL
from wakeful.machines.records import GONE
from wakeful.testing import World
from wakeful.values.codec import encode
from wakeful.values.timers import Timer
from wakeful.values.times import from_datetime


async def test_a_child_is_an_object_that_is_started_and_stopped_with_its_parent(store_url: str) -> None:
    house = House()
    async with house.app.world(store=store_url) as world:
        parent = world.get(house.Parent, "p")
        await parent.send("GO")
        await world.settle()
        assert await there(world) == ["Parent", "Child", "Pet"]
        assert (await world.get(house.Child, "p/kid").snapshot()).context == {"count": 0, "most": 3}
        assert (await parent.send("BACK")).value == "idle"
        await world.settle()
        assert await there(world) == ["Parent"]  # the child, and the child's own
        assert await world.due() == []
        names = [run.name for run in await world.ledger(house.Child, "p/kid")]
        assert names == ["machine-mail:start", "machine-mail:stop"]


async def test_they_talk_both_ways_and_the_end_comes_back(store_url: str) -> None:
    house = House()
    async with house.app.world(store=store_url) as world:
        parent = world.get(house.Parent, "p")
        await parent.send("GO", most=3)
        for _ in range(3):
            await parent.send("TELL")
        await world.settle()
        snapshot = await parent.snapshot()
        assert (snapshot.value, snapshot.context["got"], snapshot.context["heard"]) == ("idle", 3, 2)
        assert snapshot.context["seen"] == [0, 1, 2]
        assert await there(world) == ["Parent"]
        assert await world.due() == []


async def test_a_child_ends_by_its_own_delay(store_url: str) -> None:
    house = House()
    async with house.app.world(store=store_url) as world:
        parent = world.get(house.Parent, "p")
        await parent.send("GO")
        await world.advance(minutes=30)
        await world.crash()
        await world.restart(after="20m")
        await world.advance(minutes=11)
        assert ((await parent.snapshot()).value, (await parent.snapshot()).context["got"]) == ("idle", 0)


async def test_a_child_that_cannot_start_is_an_error_for_its_parent() -> None:
    house = House()
    async with house.app.world() as world:
        parent = world.get(house.Parent, "p")
        await parent.send("GO", most="broken")
        await parent.send("TELL")
        await world.advance(seconds=30)
        snapshot = await parent.snapshot()
        assert snapshot.value == "failed"
        assert snapshot.context["got"] == {"name": "ValueError", "message": "can't begin"}
        assert await world.parked() == []
        assert await world.due() == []


async def test_a_state_entered_anew_has_a_child_of_its_own() -> None:
    house = House()
    async with house.app.world() as world:
        parent = world.get(house.Parent, "p")
        await parent.send("GO", most=9)
        await parent.send("TELL")
        await world.settle()
        first = (await row(world, CHILD))["parent"]
        await parent.send("AGAIN")
        await parent.send("TELL")
        await parent.send("TELL")
        await world.settle()
        second = await row(world, CHILD)
        assert (second["snapshot"]["context"]["count"], second["parent"][3] > first[3]) == (2, True)
        assert await there(world) == ["Parent", "Child", "Pet"]


class Slow:
    """Letters of one kind to the child come late, as if its node had been away."""

    def __init__(self, world: World, kind: str) -> None:
        self._mail: Any = Mail
        self._run = Mail.run
        self._kind = kind
        self.held = 0
        slow = self

        async def late(self: Any, turn: Any, bound: Any, timer: Any) -> bool:
            if self.occurrence(timer).name == f"machine-mail:{slow._kind}" and timer.attempt == 0:
                slow.held += 1
                node = turn.activation.node
                turn.set_timer(timer.later(due_at=node.clock.now() + 10_000, attempt=1))
                return False
            return await slow._run(self, turn, bound, timer)

        self._late = late

    def __enter__(self) -> "Slow":
        self._mail.run = self._late
        return self

    def __exit__(self, *exc: object) -> None:
        self._mail.run = self._run


async def test_a_stop_that_comes_before_the_start_holds() -> None:
    house = House()
    async with house.app.world() as world:
        with Slow(world, "start") as slow:
            parent = world.get(house.Parent, "p")
            await parent.send("GO")
            await parent.send("TELL")
            await parent.send("BACK")
            await world.settle()
            assert (slow.held, await row(world, CHILD), await row(world, CHILD, GONE) is not None) == (1, None, True)
            await world.advance(seconds=30)
        assert await there(world) == ["Parent"]
        assert await world.due() == []


async def test_a_start_that_overtakes_the_stop_of_the_one_before_counts() -> None:
    house = House()
    async with house.app.world() as world:
        parent = world.get(house.Parent, "p")
        await parent.send("GO")
        await parent.send("TELL")
        await world.settle()
        with Slow(world, "stop") as slow:
            await parent.send("AGAIN")
            await parent.send("TELL")
            await parent.send("TELL")
            await world.advance(seconds=30)
            assert slow.held >= 1
        assert await there(world) == ["Parent", "Child", "Pet"]
        assert (await row(world, CHILD))["snapshot"]["context"]["count"] == 2
        assert await there(world) == ["Parent", "Child", "Pet"]
        await parent.send("TELL")
        await world.settle()
        assert (await parent.snapshot()).context["got"] == 3


async def test_what_the_parent_says_waits_for_the_start() -> None:
    house = House()
    async with house.app.world() as world:
        with Slow(world, "start"):
            parent = world.get(house.Parent, "p")
            await parent.send("GO", most=2)
            await parent.send("TELL")
            await parent.send("TELL")
            await world.advance(seconds=60)
        assert (await parent.snapshot()).context["got"] == 2


async def _tell(house: House) -> int:
    """A story of all that can pass between them; how many of its events were heard to be taken."""
    parent = house.app.get(house.Parent, "p")
    taken = 0
    with suppress(errors.Unavailable, asyncio.CancelledError):
        for event in ("GO", "TELL", "AGAIN", "TELL", "TELL", "BACK", "GO", "TELL", "TELL"):
            await parent.send(event)
            taken += 1
    return taken


async def _probes() -> int:
    house = House()
    async with house.app.world() as world:
        before = world.faults.probes
        await _tell(house)
        await world.advance(seconds=5)
        assert (await row(world, CHILD))["snapshot"]["context"]["count"] == 2
        return world.faults.probes - before


@pytest.mark.parametrize("start", range(3))
async def test_a_crash_at_every_probe_leaves_parent_and_child_agreed(start: int) -> None:
    for number in range(1 + start, await _probes() + 20, 3):
        house = House()
        async with house.app.world() as world:
            last = world.faults.probes + number

            def crash(name: str, at: int, world: World = world, last: int = last) -> None:
                if at == last:
                    world.kill()

            world.faults.on_probe = crash
            telling = asyncio.ensure_future(_tell(house))
            await world.advance(seconds=5)
            world.faults.on_probe = None
            await world.restart()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            await world.advance(seconds=60)
            parent = await row(world, PARENT)
            child = await row(world, CHILD)
            if parent is not None and parent["snapshot"]["value"] == "busy":
                assert child is not None, number
                assert child["parent"][3] == parent["actors"]["kid"], number
                assert await there(world) == ["Parent", "Child", "Pet"], number
                # Of what the parent heard, the child knows exactly as much.
                heard = child["snapshot"]["context"]["count"]
                assert parent["snapshot"]["context"]["seen"][-1] == heard, number
            else:
                assert await there(world) in ([], ["Parent"]), number
            assert [timer.name for timer in await world.due() if timer.name.startswith("machine-mail")] == []
            assert await world.parked() == []


async def test_a_delayed_send_to_a_child_and_to_itself_by_their_ids(store_url: str) -> None:
    app = App()

    @app.object
    class Kid(Machine):
        chart = {"initial": "quiet", "states": {"quiet": {"on": {"HI": "loud"}}, "loud": {}}}

    def later(to: str, id: str) -> dict[str, Any]:
        return {"type": "sendTo", "to": to, "event": {"type": "HI"}, "delay": "10s", "id": id}

    @app.object
    class Home(Machine):
        chart = {
            "initial": "in",
            "states": {
                "in": {
                    "invoke": {"src": "Kid", "id": "kid"},
                    "on": {
                        "CALL": {"actions": [later("kid", "call"), later("#_internal", "note")]},
                        "HUSH": {"actions": {"type": "cancel", "sendId": "call"}},
                        "HI": {"actions": {"type": "assign", "assignment": {"heard": True}}},
                    },
                }
            },
        }

    async with app.world(store=store_url) as world:
        loud, hushed = world.get(Home, "loud"), world.get(Home, "hushed")
        for home in (loud, hushed):
            assert set((await home.send("CALL")).due) == {"call", "note"}
        assert set((await hushed.send("HUSH")).due) == {"note"}
        await world.advance(seconds=9)
        assert (await world.get(Kid, "loud/kid").snapshot()).value == "quiet"
        await world.advance(seconds=2)
        assert [(await world.get(Kid, f"{key}/kid").snapshot()).value for key in ("loud", "hushed")] == [
            "loud",
            "quiet",
        ]
        assert [(await home.snapshot()).context for home in (loud, hushed)] == [{"heard": True}] * 2
        assert [timer.name for timer in await world.due()] == []


def relatives(log: list[Any]) -> tuple[App, Any]:
    """A machine that sends to its child, late, and starts it anew; the child says what it got, and is listened to."""
    app = App()

    @app.object
    class Kid(Machine):
        chart = {
            "initial": "here",
            "context": {"got": 0},
            "states": {"here": {"on": {"HI": {"actions": "hear"}}}},
        }

        @assign
        def hear(self, context: Any, event: Any) -> Any:
            return {"got": context["got"] + 1}

    late = {"type": "sendTo", "to": "k", "event": {"type": "HI"}, "delay": 10_000}

    @app.object
    class Top(Machine):
        chart = {
            "initial": "on",
            "states": {
                "off": {"on": {"ON": "on"}},
                "on": {
                    "invoke": {"id": "k", "src": "Kid", "onSnapshot": {"actions": "seen"}},
                    "on": {
                        "LATE": {"actions": late},
                        "ODD": {"actions": {"type": "sendTo", "to": "k", "event": {"type": "ODD"}}},
                        "OFF": "off",
                        "STOP": {"actions": {"type": "stopChild", "id": {"$call": "nobody"}}},
                    },
                },
            },
        }

        def nobody(self, context: Any, event: Any) -> Any:
            return None

        @assign
        def seen(self, context: Any, event: Any) -> Any:
            log.append(event["snapshot"]["context"]["got"])
            return {}

    return app, Top


@pytest.mark.parametrize("is_anew", [False, True])
async def test_a_delayed_message_reaches_the_child_it_was_meant_for_or_nobody(is_anew: bool) -> None:
    log: list[Any] = []
    app, top = relatives(log)
    async with app.world() as world:
        one = world.get(top, "t")
        await one.send("LATE")
        if is_anew:
            await one.send("OFF")
            await one.send("ON")
        await world.advance(seconds=5)
        await world.crash()
        await world.restart()
        await world.advance(seconds=20)
        assert log[-1] == (0 if is_anew else 1)
        await one.send("LATE")  # and the new one gets its own
        await world.advance(seconds=20)
        assert log[-1] == (1 if is_anew else 2)


async def test_snapshots_of_a_child_are_told_for_every_event_and_stopping_nobody_does_nothing() -> None:
    log: list[Any] = []
    app, top = relatives(log)
    async with app.world() as world:
        one = world.get(top, "t")
        await one.send("ODD")
        await one.send("ODD")
        await world.settle()
        assert log == [0, 0, 0]  # its first, and one for each event, though nothing changed
        await one.send("STOP")
        await one.send("ODD")
        await world.settle()
        assert log == [0, 0, 0, 0]


async def test_what_is_said_to_a_parent_is_for_the_start_that_it_was_said_to() -> None:
    house = House()
    async with house.app.world() as world:
        await world.get(house.Parent, "p").send("GO")
        await world.settle()
        number = (await row(world, CHILD))["actors"]["pet"]
        for said_by, count in ((1, 0), (number, 1)):  # a pet of a child that is no more, and the one that there is
            now = from_datetime(world.now())
            letter = encode(["up", "pet", said_by, {"type": "ADD"}])
            assert (
                await world.store.insert([Timer(CHILD, f"{MAIL}:{count}", now, now, 1, payload=letter)], now=now) == []
            )
            await world.crash()
            await world.restart()
            await world.settle()
            assert (await world.get(house.Child, "p/kid").snapshot()).context["count"] == count
