"""A look at what is under way costs what it shows, not what waits; and only calls of the object that is named are stopped."""

import asyncio
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject, errors
from wakeful.operations.call_looks import CANCEL
from wakeful.runtime.underway import _Look, calls_of
from wakeful.testing.world import World
from wakeful.values.ids import ObjectId

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
