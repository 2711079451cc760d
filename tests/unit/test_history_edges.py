"""Points in time where something else goes on: busy objects, turns that end early, clocks that go back, low limits."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject, Limits, errors, reader
from wakeful.history.images import bookmark, is_bookmark
from wakeful.store.memory import MemoryStore
from wakeful.store.protocol import Query, Range
from wakeful.values.codec import decode
from wakeful.values.commits import HISTORY, SYSTEM
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer
from wakeful.views import history
from wakeful.views.view import View

HOUR = timedelta(hours=1)


def make(keep: str = "30d", **limits: int) -> tuple[App, Any]:
    app = App(limits=Limits(**limits))

    @app.object
    class Work(DurableObject):
        history = keep

        async def put(self, key: str, value: Any = 1) -> None:
            await self.storage.put(key, value)

        async def keys(self) -> list[str]:
            return sorted(await self.storage.list())

        @reader
        async def look(self) -> list[str]:
            return sorted(await self.storage.list())

        async def get(self, key: str) -> Any:
            return await self.storage.get(key)

        async def long(self) -> None:
            await asyncio.sleep(36_000)

        async def mark(self, at: Any = None) -> str:
            return await self.ctx.bookmark(at=at)

        async def mark_now(self) -> str:
            return await self.ctx.bookmark(at=self.ctx.now())

        async def back(self, mark: str) -> str:
            return await self.ctx.restore(mark)

        async def fails(self) -> None:
            async def fail() -> None:
                raise ValueError("no")

            await self.storage.put("n", 1)
            await self.schedules.add("0 * * * *", self.tick, name="s")
            await asyncio.gather(self.ctx.commit(), fail())

        async def tick(self, text: str = "") -> None:
            await self.storage.put("ticked", 1)

        async def plan(self) -> None:
            await self.schedules.add("0 * * * *", self.tick, "y" * 800, name="t")

    return app, Work


async def passes(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def images(world: Any, key: str) -> int:
    return len(await world.store.scan(ObjectId("Work", key), HISTORY, Range()))


@pytest.mark.parametrize("waiting", [0, 3])
async def test_an_object_that_is_busy_or_full_keeps_nobody_else_from_dropping_what_is_past(waiting: int) -> None:
    app, work = make("1h", mailbox=3)
    async with app.world() as world:
        for key in "abc":
            await app.get(work, key).put("x")
        calls = [asyncio.create_task(app.get(work, key, deadline="9h").long()) for key in ("a", "other")]
        await passes()
        calls += [asyncio.create_task(app.get(work, "a", deadline="9h").keys()) for _ in range(waiting)]
        await world.advance(2 * HOUR)
        assert [await images(world, key) for key in "abc"] == [1, 0, 0]
        assert world.node.state == "up"
        assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()


async def test_a_turn_that_ended_while_its_durable_point_was_prepared_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = MemoryStore.find_timers

    async def find_slowly(self: MemoryStore, query: Query) -> list[Timer]:
        await asyncio.sleep(0.01)  # as a server does
        return await find(self, query)

    monkeypatch.setattr(MemoryStore, "find_timers", find_slowly)
    app, work = make()
    async with app.world():
        one = app.get(work, "a")
        with pytest.raises(ValueError, match="no"):
            await one.fails()
        await one.put("n", 2)
        await asyncio.sleep(1)
        assert await one.get("n") == 2


async def test_an_operator_can_go_back_though_the_clock_did() -> None:
    app, work = make()
    async with app.world() as world:
        one, id = app.get(work, "a"), ObjectId("Work", "a")
        await one.put("a")
        await world.step_clock(HOUR)
        await one.put("b")
        mark = await one.mark()
        await world.step_clock(-HOUR)
        await one.put("wrong")
        assert (await history.preview(View.of_node(world.node), id, mark))["points"] == 1
        with pytest.raises(errors.UnknownPoint, match="still to come"):
            await history.preview(View.of_node(world.node), id, "02ffffffffff-0000")
        with pytest.raises(errors.BadInput, match="no bookmark"):  # past all times
            await one.back("ffffffffffff-0000")
        with pytest.raises(errors.BadInput, match="no bookmark"):
            history.mark_of("ffffffffffff-0000")


async def test_the_point_of_now_does_not_move_with_what_comes_in_this_millisecond() -> None:
    app, work = make()
    async with app.world():
        one = app.get(work, "a")
        await one.put("good")
        mark = await one.mark_now()
        await one.put("bad")
        assert mark < await one.mark()
        await one.back(mark)
        assert await one.keys() == ["good"]


async def test_of_who_called_an_image_keeps_the_class_and_no_key() -> None:
    app, work = make()

    @app.object
    class Person(DurableObject):
        async def act(self) -> None:
            await app.get(work, "all").put("x")

    async with app.world() as world:
        await app.get(Person, "ada@example.org").act()
        [point] = (await history.page(View.of_node(world.node), ObjectId("Work", "all"))).rows
        assert (point["by"], point["caller"]) == ("put", "Person")


async def test_a_schedule_runs_however_little_its_history_may_hold() -> None:
    app, work = make(history_bytes=600)
    async with app.world() as world:
        await app.get(work, "a").plan()
        await world.advance(3 * HOUR)
        assert await app.get(work, "a").keys() == ["ticked"]
        assert len(await world.ledger(work, "a")) == 3
        assert not world.node.queue.running
        await app.get(work, "a").put("big", "x" * 900)
        with pytest.raises(errors.LimitExceeded, match="history_bytes"):
            await app.get(work, "a").put("big", "y")


async def test_a_reader_whose_answer_is_remembered_leaves_the_beginning_as_it_is() -> None:
    app, work = make()
    async with app.world() as world:
        slot = (ObjectId("Work", "a"), SYSTEM, ["history"])
        assert await app.get(work, "a", request_key="first").look() == []
        await app.get(work, "a").put("x")
        begun = await world.store.read(*slot)
        assert is_bookmark(decode(begun["history"]))  # since that answer: what was before it nobody noted
        world.node.hibernation.sleep_all()
        assert await app.get(work, "a", request_key="second").look() == ["x"]
        await app.get(work, "a").put("y")
        assert await world.store.read(*slot) == begun


async def test_who_looks_is_told_when_nothing_would_be_left() -> None:
    app, work = make()
    async with app.world() as world:
        await world.advance(HOUR)
        await app.get(work, "a").put("x")
        first = await app.get(work, "a").mark()
        await app.get(work, "a").put("y")
        view, id = View.of_node(world.node), ObjectId("Work", "a")
        plans = [await history.preview(view, id, mark) for mark in (bookmark(5, 0), first)]
        assert [plan["leaves_nothing"] for plan in plans] == [True, False]
