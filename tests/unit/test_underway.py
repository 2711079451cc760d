"""A look at what is under way costs what it shows, not what waits; and only calls of the object that is named are stopped."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject, errors, in_thread
from wakeful.operations.acts import Acts
from wakeful.operations.call_looks import CANCEL
from wakeful.runtime.underway import _Look, calls_of
from wakeful.testing.world import World
from wakeful.values.ids import ObjectId
from wakeful.views import calls
from wakeful.views.view import View

WAITING = 300
app = App()


@app.object
class Desk(DurableObject):
    async def hang(self, seconds: float = 30) -> None:
        await asyncio.sleep(seconds)

    async def ask(self) -> None:
        """Nothing."""

    async def plan(self, count: int) -> None:
        for number in range(count):
            await self.schedules.add(f"after {1 + number}ms", self.ask, name=f"ask{number}")


class CountedLine(deque[Any]):
    """A mailbox that knows how often somebody went through it."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        self.walks += 1
        return super().__iter__()


def counted(world: World, key: str) -> CountedLine:
    activation = world.node.awake[ObjectId("Desk", key)]
    activation._mailbox = line = CountedLine(activation._mailbox or ())
    return line


def count_rows(patch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []
    make = _Look.row

    def row(self: _Look, one: Any) -> Any:
        made.append(one)
        return make(self, one)

    patch.setattr(_Look, "row", row)
    return made


async def test_many_that_wait_for_one_object_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with app.world() as world:
        desk = world.get(Desk, "a")
        asked = [asyncio.ensure_future(desk.hang())]
        await world.advance(seconds=1)
        asked += [asyncio.ensure_future(desk.ask()) for _ in range(WAITING)]
        await world.advance(seconds=1)
        line, made = counted(world, "a"), count_rows(monkeypatch)
        rows = calls_of(world.node).rows(5)
        assert [row["method"] for row in rows] == ["hang", *["ask"] * 4]
        assert [row["wait"].get("ahead") for row in rows] == [None, 0, 1, 2, 3]
        assert (len(line), line.walks, len(made)) == (WAITING, 1, 5)
        await world.advance(seconds=60)
        await asyncio.gather(*asked)


async def test_due_timers_that_wait_for_one_object_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with app.world() as world:
        desk = world.get(Desk, "a")
        await desk.plan(50)
        asked = asyncio.ensure_future(desk.hang())
        await world.advance(timedelta(seconds=2))
        line, made = counted(world, "a"), count_rows(monkeypatch)
        rows = calls_of(world.node).rows(5)
        assert len(line) == 50
        assert [row["kind"] for row in rows].count("timer") >= 4
        assert (line.walks, len(made)) == (1, 5)
        await world.advance(seconds=60)
        await asked


async def test_a_call_is_stopped_by_the_name_of_its_own_object_only() -> None:
    async with app.world() as world:
        asked = asyncio.ensure_future(world.get(Desk, "acme/1").hang())
        await world.advance(seconds=1)
        [row] = calls_of(world.node).rows(10)
        sent = world.node.send(ObjectId("Desk", "evil/1"), CANCEL, (row["name"],), {})
        [refusal] = await asyncio.gather(sent, return_exceptions=True)
        await world.advance(seconds=60)
        assert await asyncio.gather(asked, return_exceptions=True) == [None]
        assert isinstance(refusal, errors.Conflict)
        assert refusal.code == "call.ended"


async def test_code_of_a_turn_that_is_over_is_seen_while_its_object_waits_for_it() -> None:
    entered, leave = threading.Event(), threading.Event()
    program = App()

    @program.object
    class Slow(DurableObject):
        @in_thread
        def block(self) -> None:
            entered.set()
            leave.wait(30)

        async def ask(self) -> None:
            """Nothing."""

    async with program.run("memory:") as node:
        view, acts = View.of_node(node), Acts.of_node(node, "tester")
        blocking = asyncio.ensure_future(program.get(Slow, "a").block())
        await asyncio.to_thread(entered.wait)
        [running] = (await calls.page(view)).rows
        await acts.cancel_call(running["id"] or "")
        [outcome] = await asyncio.gather(blocking, return_exceptions=True)
        found = (await calls.page(view)).rows
        asked = asyncio.ensure_future(program.get(Slow, "a").ask())
        await asyncio.sleep(0)
        waiting = [row["waits_for"] for row in (await calls.page(view)).rows if row["method"] == "ask"]
        [refusal] = await asyncio.gather(acts.cancel_call(running["id"] or ""), return_exceptions=True)
        leave.set()
        await asked
        left = (await calls.page(view)).rows
    assert isinstance(outcome, errors.CallCancelled)
    assert [(row["method"], row["state"], row["id"], row["waits_for"]) for row in found] == [
        ("block", "lingering", None, "code of a turn that is over, which could not be stopped")
    ]
    assert waiting == ["its turn, behind block"]
    assert isinstance(refusal, errors.Conflict)
    assert refusal.message.startswith("the call had ended; nothing was done; code of a turn that is over still runs")
    assert left == []
