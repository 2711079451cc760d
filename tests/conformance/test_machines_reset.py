"""A machine that is over can begin anew, by its own code or by an operator; nothing of its life before goes on."""

import asyncio
from typing import Any

import pytest

from wakeful import App, Machine, action, errors
from wakeful.operations.acts import Acts
from wakeful.security import audit
from wakeful.values.ids import ObjectId


class Trip:
    """An app with a machine that may end in several ways."""

    def __init__(self) -> None:
        self.app = App()
        self.did: list[Any] = []
        trip = self

        @self.app.object
        class Leg(Machine):
            chart = {"initial": "on", "states": {"on": {"on": {"STOP": "off"}}, "off": {"type": "final"}}}

        @self.app.object
        class Tour(Machine):
            chart = {
                "id": "tour",
                "initial": "out",
                "context": {"$call": "born"},
                "states": {
                    "out": {
                        "entry": "wave",
                        "invoke": [{"src": "Leg", "id": "leg"}, {"src": "walk", "id": "walk"}],
                        "after": {"1h": "lost"},
                        "on": {"HOME": "home", "FALL": "hurt", "FAR": "far"},
                    },
                    "far": {
                        "invoke": [{"src": "Leg", "id": "boat"}, {"src": "walk", "id": "swim"}],
                        "after": {"2h": "lost"},
                    },
                    "home": {"type": "final", "output": {"how": "well"}},
                    "hurt": {"invoke": {"src": "cry"}},
                    "lost": {"type": "final"},
                },
            }

            def born(self, context: Any, event: Any) -> Any:
                return {"with": event["input"]}

            @action
            async def wave(self, context: Any, event: Any) -> None:
                trip.did.append(("wave", context["with"]))

            async def walk(self, context: Any, event: Any) -> None:
                trip.did.append("walk")
                try:
                    await asyncio.sleep(100_000)
                except asyncio.CancelledError:
                    trip.did.append("halt")
                    raise

            async def cry(self, context: Any, event: Any) -> None:
                raise OSError("ouch")

            async def over(self) -> Any:
                return (await self.reset("itself")).value

        self.Tour: Any = Tour
        self.Leg: Any = Leg


async def test_one_that_is_done_begins_anew(store_url: str) -> None:
    trip = Trip()
    async with trip.app.world(store=store_url) as world:
        tour = world.get(trip.Tour, "t")
        await tour.start("ann")
        done = await tour.send("HOME")
        assert done.status == "done"
        snapshot = await tour.reset("bob")
        assert (snapshot.value, snapshot.status, snapshot.context, snapshot.output) == (
            "out",
            "active",
            {"with": "bob"},
            None,
        )
        await world.settle()
        assert [one for one in trip.did if one[0] == "wave"] == [("wave", "ann"), ("wave", "bob")]
        runs = [(run.name, run.verdict) for run in await world.ledger(trip.Tour, "t") if run.name == "machine.reset"]
        assert runs == [("machine.reset", "run")]
        await world.advance("61m")
        assert (await tour.snapshot()).value == "lost"


async def test_one_that_failed_begins_anew() -> None:
    trip = Trip()
    async with trip.app.world() as world:
        tour = world.get(trip.Tour, "t")
        await tour.send("FALL")
        await world.settle()
        failed = await tour.snapshot()
        assert (failed.status, failed.error["message"]) == ("error", "ouch")
        assert (await tour.reset()).status == "active"
        assert (await tour.snapshot()).error is None


async def test_one_that_is_active_is_left_alone_unless_it_is_forced() -> None:
    trip = Trip()
    async with trip.app.world() as world:
        tour = world.get(trip.Tour, "t")
        await tour.start("ann")
        await world.advance("30m")
        with pytest.raises(errors.Conflict, match="is active") as refused:
            await tour.reset()
        assert refused.value.code == "machine.active"
        before = (await tour.snapshot()).due["xstate.after.1h.tour.out"]
        snapshot = await tour.reset("bob", force=True)
        await world.settle()
        assert (snapshot.due["xstate.after.1h.tour.out"] - before).total_seconds() == 1_800
        walked = [one for one in trip.did if one in ("walk", "halt")]
        assert walked == ["walk", "halt", "walk"]  # the one of the life before was stopped, another begun
        due = [timer.name for timer in await world.due() if timer.name.startswith("machine:")]
        assert due == ["machine:xstate.after.1h.tour.out"]
        assert (await world.get(trip.Leg, "t/leg").snapshot()).status == "active"  # the one of the new life
        await world.advance("40m")
        assert (await tour.snapshot()).value == "out"  # the delay of the life before has gone
        await world.advance("21m")
        assert (await tour.snapshot()).value == "lost"


async def test_nothing_of_the_life_before_goes_on(store_url: str) -> None:
    trip = Trip()
    async with trip.app.world(store=store_url) as world:
        tour = world.get(trip.Tour, "t")
        await tour.send("FAR")
        await world.settle()
        assert (await world.get(trip.Leg, "t/boat").snapshot()).status == "active"
        await tour.reset(force=True)
        await world.settle()
        due = [timer.name for timer in await world.due() if not timer.name.startswith("machine-run:walk")]
        assert due == ["machine:xstate.after.1h.tour.out"]
        assert (await world.get(trip.Leg, "t/boat").snapshot()).status == "new"
        assert [one for one in trip.did if one in ("walk", "halt")] == ["walk", "halt", "walk"]


async def test_a_reset_survives_a_crash_or_has_not_happened(store_url: str) -> None:
    trip = Trip()
    async with trip.app.world(store=store_url) as world:
        tour = world.get(trip.Tour, "t")
        await tour.start("ann")
        await tour.send("HOME")
        await tour.reset("bob")
        await world.crash()
        await world.restart()
        assert (await tour.snapshot()).context == {"with": "bob"}


async def test_the_objects_own_code_and_an_operator_may_do_it_and_the_latter_leaves_a_row() -> None:
    trip = Trip()
    async with trip.app.world() as world:
        tour = world.get(trip.Tour, "t")
        await tour.send("HOME")
        assert await tour.over() == "out"
        assert (await tour.snapshot()).context == {"with": "itself"}
        acts = Acts.of_node(world.node, "cli:ann")
        with pytest.raises(errors.Conflict):
            await acts.reset(ObjectId("Tour", "t"))
        await acts.reset(ObjectId("Tour", "t"), "ann", force=True)
        assert (await tour.snapshot()).context == {"with": "ann"}
        rows, _ = await audit.page(world.node.store, limit=10)
        assert [(row["actor"], row["act"], row["target"], row["outcome"]) for row in rows] == [
            ("cli:ann", "machine.reset", "Tour/t", "done"),
            ("cli:ann", "machine.reset", "Tour/t", "failed"),
        ]


async def test_a_watcher_sees_it_begin_anew() -> None:
    trip = Trip()
    seen: list[Any] = []

    async def look() -> None:
        async for news in trip.app.watch(trip.Tour, "t"):
            seen.append((news.value, news.status))

    async with trip.app.world() as world:
        tour = world.get(trip.Tour, "t")
        await tour.send("HOME")
        watching = asyncio.ensure_future(look())
        await world.settle()
        await tour.reset()
        await world.settle()
        watching.cancel()
        assert seen == [("home", "done"), ("out", "active")]


async def test_a_child_that_begins_anew_still_talks_to_its_parent_which_heard_its_end_once() -> None:
    trip = Trip()
    async with trip.app.world() as world:
        await world.get(trip.Tour, "t").start()
        await world.settle()
        leg = world.get(trip.Leg, "t/leg")
        await leg.send("STOP")
        await leg.reset()
        await leg.send("STOP")
        await world.settle()
        assert (await world.get(trip.Tour, "t").snapshot()).status == "active"
        await world.get(trip.Tour, "t").send("HOME")
        await world.settle()
        assert (await leg.snapshot()).status == "new"  # stopped with the state that it was for


async def test_who_waits_with_an_end_in_mind_hears_of_the_new_life() -> None:
    trip = Trip()
    async with trip.app.world() as world, trip.app.watch(trip.Tour, "t") as watch:
        await watch.send("HOME")
        assert (await watch.wait_for("home")).status == "done"
        await world.get(trip.Tour, "t").reset()
        assert (await watch.wait_for("out", timeout="5s")).status == "active"
        assert (await watch.send("HOME")).status == "done"  # as it was at the first end
        with pytest.raises(errors.Conflict) as ended:
            await watch.wait_for("far", timeout="5s")
        assert ended.value.code == "watch.ended"
        await world.get(trip.Tour, "t").reset()
        waiting = asyncio.ensure_future(watch.wait_for("far", timeout="5s"))
        await world.settle()
        await world.get(trip.Tour, "t").send("FAR")
        assert (await waiting).value == "far"
