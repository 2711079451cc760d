"""Machines: one event is one turn, and what follows from it is on disk with it; on every store."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from wakeful import App, Machine, RetryPolicy, action, assign, errors, fixed, guard
from wakeful.machines.records import ROW
from wakeful.values.codec import decode
from wakeful.values.ids import ObjectId


class Shop:
    """An app with one machine, and what its actions did."""

    def __init__(self) -> None:
        self.app = App()
        self.did: list[Any] = []
        self.fails = 0
        shop = self

        @self.app.object
        class Order(Machine):
            retry = RetryPolicy(3, fixed("2s"))
            chart = {
                "initial": "placed",
                "context": {"paid": 0},
                "states": {
                    "placed": {
                        "tags": "open",
                        "on": {
                            "PAY": {"target": "paid", "guard": "enough", "actions": ["book", "thank", "print"]},
                            "REMIND": {
                                "actions": {"type": "raise", "event": {"type": "NAG"}, "delay": "1h", "id": "nag"}
                            },
                            "HUSH": {"actions": {"type": "cancel", "sendId": "nag"}},
                            "NAG": {"actions": "thank"},
                        },
                        "after": {"24h": "expired", "patience": {"actions": "print"}},
                    },
                    "paid": {"on": {"SHIP": "done", "BOOM": {"actions": "break_down"}}},
                    "done": {"type": "final"},
                    "expired": {"type": "final"},
                },
                "output": {"paid": 1},
            }
            patience = "10h"

            @guard
            def enough(self, context: Any, event: Any) -> bool:
                return bool(event["amount"] >= 10)

            @assign
            def book(self, context: Any, event: Any) -> Any:
                return {"paid": context["paid"] + event["amount"]}

            @assign
            def break_down(self, context: Any, event: Any) -> Any:
                raise ValueError("on purpose")

            @action
            async def thank(self, context: Any, event: Any) -> None:
                assert self.ctx.run is not None
                shop.did.append(("thank", context["paid"], self.ctx.run.id))
                if shop.fails:
                    shop.fails -= 1
                    raise OSError("no mail today")

            @action
            async def print(self, context: Any, event: Any) -> None:
                await self.storage.put("printed", await self.storage.get("printed", 0) + 1)
                shop.did.append("print")

        self.Order = Order


async def test_an_event_answers_with_the_snapshot_after_all_that_follows(store_url: str) -> None:
    shop = Shop()
    async with shop.app.world(store=store_url) as world:
        order = world.get(shop.Order, "o")
        assert (await order.snapshot()).status == "new"
        assert await order.can("PAY", amount=10)
        first = await order.send("PAY", amount=1)
        assert (first.value, first.status, first.tags, first.context) == ("placed", "active", ("open",), {"paid": 0})
        assert first.matches("placed")
        assert first.can("PAY")
        assert not first.can("SHIP")
        assert (await order.can("PAY", amount=1), await order.can("PAY", amount=10)) == (False, True)
        paid = await order.send({"type": "PAY", "amount": 12})
        assert (paid.value, paid.context, paid.due) == ("paid", {"paid": 12}, {})
        assert await order.snapshot() == paid
        await world.settle()
        assert [one if one == "print" else one[:2] for one in shop.did] == [("thank", 12), "print"]
        assert await world.rows(shop.Order, "o") == {"printed": 1}
        done = await order.send("SHIP")
        assert (done.status, done.output, done.accepts) == ("done", {"paid": 1}, ())
        assert await order.send("PAY", amount=99) == done


async def test_delays_are_timers_with_the_ids_of_xstate_and_fire_at_their_instant(store_url: str) -> None:
    shop = Shop()
    async with shop.app.world(store=store_url) as world:
        order, began = world.get(shop.Order, "o"), world.now()
        snapshot = await order.start()
        assert snapshot.due == {
            "xstate.after.24h.Order.placed": began + timedelta(hours=24),
            "xstate.after.patience.Order.placed": began + timedelta(hours=10),
        }
        names = ["machine:xstate.after.patience.Order.placed", "machine:xstate.after.24h.Order.placed"]
        assert [timer.name for timer in await world.due()] == names
        await world.advance(hours=23, minutes=59)
        assert [timer.name for timer in await world.due()] == names[1:]
        await world.advance(minutes=1)
        assert (await order.snapshot()).value == "expired"
        assert await world.due() == []
        runs = await world.ledger(shop.Order, "o")
        assert [run.name for run in runs] == ["machine.event", names[0], "machine-do:print", names[1]]
        assert {run.verdict for run in runs} == {"run"}
        assert [run.lateness for run in runs] == [timedelta(0)] * 4


async def test_leaving_a_state_clears_its_delays_in_the_same_commit(store_url: str) -> None:
    shop = Shop()
    async with shop.app.world(store=store_url) as world:
        order = world.get(shop.Order, "o")
        await order.start()
        assert len(await world.due()) == 2
        await order.send("PAY", amount=10)
        assert [timer.name for timer in await world.due() if timer.name.startswith("machine:")] == []
        await world.advance(days=2)
        assert (await order.snapshot()).value == "paid"


async def test_a_delayed_raise_fires_once_and_a_cancelled_one_never(store_url: str) -> None:
    shop = Shop()
    async with shop.app.world(store=store_url) as world:
        nagged, hushed = world.get(shop.Order, "nagged"), world.get(shop.Order, "hushed")
        for order in (nagged, hushed):
            assert "nag" in (await order.send("REMIND")).due
        await world.advance(minutes=30)
        await nagged.send("REMIND")  # set anew: an hour from now
        assert "nag" not in (await hushed.send("HUSH")).due
        await world.advance(minutes=59)
        assert shop.did == []
        await world.advance(minutes=2)
        assert [one[0] for one in shop.did] == ["thank"]
        await world.advance(hours=3)
        assert len(shop.did) == 1


async def test_an_action_that_fails_is_tried_as_the_class_says_and_the_rest_waits_for_it(store_url: str) -> None:
    shop = Shop()
    shop.fails = 2
    async with shop.app.world(store=store_url) as world:
        await world.get(shop.Order, "o").send("PAY", amount=10)
        await world.advance(seconds=10)
        assert [one if one == "print" else one[0] for one in shop.did] == ["thank"] * 3 + ["print"]
        assert len({one[2] for one in shop.did if one != "print"}) == 1  # the run's id is the same at every try
        runs = await world.ledger(shop.Order, "o", "machine-do:thank")
        assert [(run.verdict, run.attempt) for run in runs] == [("failed", 0), ("failed", 1), ("run", 2)]


async def test_an_action_that_fails_for_good_is_parked_with_those_behind_it(store_url: str) -> None:
    shop = Shop()
    shop.fails = 3
    async with shop.app.world(store=store_url) as world:
        order = world.get(shop.Order, "o")
        await order.send("PAY", amount=10)
        await world.advance(seconds=60)
        [parked] = await world.parked()
        assert (parked.attempts, parked.error) == (3, "OSError: no mail today")
        assert "print" not in shop.did
        assert (await order.send("SHIP")).status == "done"  # the chart goes on
        await world.node.redrive(parked)
        await world.settle()
        assert [one if one == "print" else one[0] for one in shop.did] == ["thank"] * 4 + ["print"]


async def test_a_step_that_raises_changes_nothing(store_url: str) -> None:
    shop = Shop()
    async with shop.app.world(store=store_url) as world:
        order = world.get(shop.Order, "o")
        before = await order.send("PAY", amount=10)
        with pytest.raises(ValueError, match="on purpose"):
            await order.send("BOOM")
        assert await order.snapshot() == before
        await world.crash()
        await world.restart()
        assert await order.snapshot() == before


async def test_an_event_with_a_request_key_is_taken_once(store_url: str) -> None:
    shop = Shop()
    async with shop.app.world(store=store_url) as world:
        order = world.get(shop.Order, "o", request_key="pay-1")
        first = await order.send("PAY", amount=10)
        await world.crash()
        await world.restart()
        assert await order.send("PAY", amount=10) == first
        await world.settle()
        assert [run.name for run in await world.ledger(shop.Order, "o", "machine.event")] == ["machine.event"]


async def test_a_second_start_is_refused(store_url: str) -> None:
    shop = Shop()
    async with shop.app.world(store=store_url) as world:
        order = world.get(shop.Order, "o")
        await order.start({"who": "ann"})
        with pytest.raises(errors.Conflict, match="started already"):
            await order.start()


@pytest.mark.parametrize(
    ("event", "data"),
    [("", {}), ("*", {}), ({}, {}), ({"type": 5}, {}), (7, {}), ("xstate.done.actor.a", {}), ("PAY", {"type": "B"})],
)
async def test_what_is_no_event_is_refused_when_it_is_sent(event: Any, data: Any) -> None:
    shop = Shop()
    async with shop.app.world() as world:
        order = world.get(shop.Order, "o")
        with pytest.raises(errors.BadValue) as refused:
            await order.send(event, **data)
        assert refused.value.code == "chart.event"
        assert (await order.snapshot()).status == "new"


async def test_a_delay_of_a_state_can_be_cancelled_by_its_id(store_url: str) -> None:
    app = App()

    @app.object
    class Wait(Machine):
        hold = {"type": "cancel", "sendId": "xstate.after.1h.Wait.a"}
        chart = {"initial": "a", "states": {"a": {"on": {"HOLD": {"actions": hold}}, "after": {"1h": "b"}}, "b": {}}}

    async with app.world(store=store_url) as world:
        wait = world.get(Wait, "w")
        assert list((await wait.start()).due) == ["xstate.after.1h.Wait.a"]
        assert dict((await wait.send("HOLD")).due) == {}
        assert await world.due() == []
        await world.advance(hours=2)
        assert (await wait.snapshot()).value == "a"


async def test_a_state_may_be_gone_to_by_its_id_where_the_chart_lets_it() -> None:
    app = App()

    @app.object
    class Tour(Machine):
        chart = {"initial": "a", "states": {"a": {}, "b": {"id": "b", "route": {}}, "c": {"id": "c"}}}

    async with app.world() as world:
        tour = world.get(Tour, "t")
        assert (await tour.send({"type": "xstate.route", "to": "#c"})).value == "a"
        assert (await tour.send({"type": "xstate.route", "to": "#b"})).value == "b"


async def test_what_there_is_nothing_to_say_of_is_not_on_disk() -> None:
    app = App()

    @app.object
    class Nap(Machine):
        chart = {
            "initial": "a",
            "states": {"a": {"on": {"GO": "b"}, "after": {"24h": "b"}}, "b": {"invoke": {"src": "go"}}},
        }

        async def go(self, context: Any, event: Any) -> None:
            await asyncio.sleep(60)

    async with app.world() as world:
        nap = world.get(Nap, "n")
        first = await nap.start()
        found = decode((await world.store.read(ObjectId("Nap", "n"), ROW[0], [ROW[1]]))[ROW[1]])
        assert set(found) == {"version", "snapshot", "epoch"}
        assert set(found["snapshot"]) == {"value", "context", "status", "pending", "seq"}
        await world.sleep_all()
        assert await nap.snapshot() == first
        await nap.send("GO")
        found = decode((await world.store.read(ObjectId("Nap", "n"), ROW[0], [ROW[1]]))[ROW[1]])
        assert set(found) == {"version", "snapshot", "epoch", "actors", "running"}


async def test_what_is_too_large_is_refused_and_changes_nothing() -> None:
    app = App()

    @app.object
    class Big(Machine):
        chart = {
            "initial": "a",
            "context": {"data": ""},
            "states": {
                "a": {"on": {"GROW": {"actions": "grow"}, "LONG": "b"}},
                "b": {"id": "x" * 2_000, "after": {"1h": "a"}},
            },
        }

        @assign
        def grow(self, context: Any, event: Any) -> Any:
            return {"data": "x" * event["size"]}

    async with app.world() as world:
        big = world.get(Big, "b")
        before = await big.send("GROW", size=1_000)
        for event, data, code in (("GROW", {"size": 3_000_000}, "limit.machine"), ("LONG", {}, "limit.machine_id")):
            with pytest.raises(errors.LimitExceeded) as refused:
                await big.send(event, **data)
            assert refused.value.code == code
        assert await big.snapshot() == before


async def test_what_a_method_changes_in_place_stays_with_its_machine() -> None:
    app = App()

    @app.object
    class Cart(Machine):
        chart = {
            "context": {"items": [], "by": {"kind": []}},
            "on": {
                "ADD": {"actions": "add"},
                "CLEAR": {"actions": {"type": "assign", "assignment": {"items": ["fresh"]}}},
            },
        }

        @assign
        def add(self, context: Any, event: Any) -> Any:
            context["by"]["kind"].append(event["item"])
            context["items"].append(event["item"])
            return {"items": context["items"]}

    async with app.world() as world:
        mine, theirs = world.get(Cart, "a"), world.get(Cart, "b")
        await mine.send("ADD", item="secret")
        assert (await theirs.start()).context == {"items": [], "by": {"kind": []}}
        await mine.send("CLEAR")
        assert (await mine.send("ADD", item="more")).context["items"] == ["fresh", "more"]
        assert (await theirs.send("CLEAR")).context["items"] == ["fresh"]
