"""Waiting for a state of a machine, and sending it events, through a watch: in virtual time, through crashes and moves."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from wakeful import App, Machine, assign, errors
from wakeful.machines.snapshot import Snapshot


def make() -> tuple[App, type[Machine]]:
    app = App()

    @app.object
    class Order(Machine):
        chart = {
            "initial": "placed",
            "context": {"secret": 7, "seen": 0},
            "states": {
                "placed": {"on": {"PAY": {"target": "paid", "actions": ["count"]}, "DROP": "dropped"}},
                "paid": {"after": {"1h": "sent"}},
                "sent": {"after": {"1h": "over"}},
                "dropped": {"type": "final"},
                "over": {"type": "final"},
            },
        }

        @assign
        def count(self, context: Any, event: Any) -> Any:
            return {"seen": context["seen"] + 1}

        def visible(self, caller: Any, snapshot: Snapshot) -> Snapshot | None:
            if caller == "stranger":
                return None
            return snapshot if caller == "owner" else replace(snapshot, context={})

    return app, Order


async def test_a_state_is_waited_for_in_virtual_time_and_an_event_is_sent_on_the_way() -> None:
    app, cls = make()
    async with app.world() as world, app.watch(cls, "o", caller="owner") as order:
        answer = await order.send("PAY")
        assert answer is not None
        assert (answer.value, answer.context["seen"]) == ("paid", 1)
        assert await order.wait_for("paid") == answer  # it is so already
        began = world.now()
        assert (await order.wait_for("sent", timeout="2h")).value == "sent"
        assert (world.now() - began).total_seconds() == 3600
        found = await order.wait_for(lambda snapshot: snapshot.status == "done", timeout="1d")
        assert (found.value, order.snapshot) == ("over", found)


async def test_what_is_not_so_in_time_is_an_error_and_the_watch_goes_on() -> None:
    app, cls = make()
    async with app.world() as world, app.watch(cls, "o") as order:
        await world.get(cls, "o").start()
        with pytest.raises(
            errors.DeadlineExceeded, match=r"Order/o was not 'paid' within 5s; it is 'placed'"
        ) as failure:
            await order.wait_for("paid", timeout="5s")
        assert failure.value.code == "watch.timeout"
        await world.get(cls, "o").send("PAY")
        assert (await order.wait_for("paid", timeout="5s")).value == "paid"


async def test_a_machine_that_has_ended_otherwise_is_not_waited_for() -> None:
    app, cls = make()
    async with app.world() as world, app.watch(cls, "o") as order:
        waiting = asyncio.ensure_future(order.wait_for("paid"))
        await world.settle()
        await world.get(cls, "o").send("DROP")
        with pytest.raises(errors.Conflict, match="it is 'dropped'") as failure:
            await waiting
        assert failure.value.code == "watch.ended"
        assert (await order.wait_for("dropped")).status == "done"


async def test_a_state_that_is_left_at_once_is_seen_by_all_who_wait() -> None:
    app, cls = make()
    async with app.world() as world, app.watch(cls, "o") as order:
        seen: list[Any] = []

        async def look() -> None:
            async for news in order:
                assert isinstance(news, Snapshot)
                seen.append(news.value)
                await asyncio.sleep(600)  # it is busy while others read on

        looking = asyncio.ensure_future(look())
        waiting = [asyncio.ensure_future(order.wait_for(state)) for state in ("paid", "sent", "over")]
        await world.settle()
        await world.get(cls, "o").send("PAY")
        await world.advance(hours=3)
        assert [task.result().value for task in waiting] == ["paid", "sent", "over"]
        await world.advance(hours=3)
        assert seen == [None, "placed", "paid", "sent", "over"]
        looking.cancel()


async def test_one_who_gives_up_takes_nothing_from_the_others() -> None:
    app, cls = make()
    async with app.world() as world, app.watch(cls, "o") as order:
        one, other = (asyncio.ensure_future(order.wait_for("paid")) for _ in range(2))
        await world.settle()
        one.cancel()
        await world.settle()
        await world.get(cls, "o").send("PAY")
        assert (await other).value == "paid"
        later = asyncio.ensure_future(order.wait_for("over"))
        await world.settle()
        later.cancel()  # nobody reads any more
        await world.advance(hours=3)
        assert (await order.wait_for("over", timeout="1s")).value == "over"


async def test_a_watch_that_is_closed_ends_the_loop_and_refuses_to_wait() -> None:
    app, cls = make()
    async with app.world() as world:
        order = app.watch(cls, "o")
        waiting = asyncio.ensure_future(order.wait_for("paid"))
        await world.settle()
        await order.aclose()
        with pytest.raises(errors.NotRunning, match="closed"):
            await waiting
        assert [news async for news in order] == []


async def test_what_is_sent_is_answered_as_the_caller_may_see_it() -> None:
    app, cls = make()
    async with app.world():
        async with app.watch(cls, "o", caller="guest") as guest:
            answer = await guest.send("PAY")
            assert answer is not None
            assert (answer.value, answer.context) == ("paid", {})
        async with app.watch(cls, "p", caller="stranger") as stranger:
            assert await stranger.send("PAY") is None
            with pytest.raises(errors.DeadlineExceeded, match="nothing is known of it"):
                await stranger.wait_for("paid", timeout="1m")


async def test_it_is_waited_for_while_the_object_moves_to_another_node() -> None:
    app, cls = make()
    async with app.world() as world:
        await world.get(cls, "o").start()
        await world.nodes(3)
        await world.balance()
        for key in [f"k{n}" for n in range(6)]:
            await world.get(cls, key).send("PAY")
        watches = {key: app.watch(cls, key) for key in [f"k{n}" for n in range(6)]}
        waiting = {key: asyncio.ensure_future(watch.wait_for("sent", timeout="1d")) for key, watch in watches.items()}
        await world.advance(minutes=10)
        await world.nodes(1)
        await world.balance()
        await world.advance(hours=1, minutes=5)
        assert {task.result().value for task in waiting.values()} == {"sent"}
        for watch in watches.values():
            await watch.aclose()
