"""Ten thousand objects with a database each, all asked at once: half of them can be awake, and twenty databases open."""

import asyncio
from collections.abc import Sequence

import pytest

from wakeful import App, DurableObject, Limits
from wakeful.runtime.hibernation import Hibernation

COUNT = 10_000


async def test_ten_thousand_objects_have_a_database_each() -> None:
    app = App(limits=Limits(sql_open=20, awake_objects=COUNT // 2, call_deadline_ms=600_000))

    @app.object
    class Cell(DurableObject):
        async def add(self, number: int) -> None:
            self.sql("CREATE TABLE t (n)")
            self.sql("INSERT INTO t VALUES (?)", number)

        async def all(self) -> list[int]:
            return [row["n"] for row in self.sql("SELECT n FROM t")]

    async with app.run("memory:"):
        await asyncio.gather(*(app.get(Cell, f"c{number}").add(number) for number in range(COUNT)))
        some = range(0, COUNT, 10)
        assert await asyncio.gather(*(app.get(Cell, f"c{number}").all() for number in some)) == [[n] for n in some]


async def test_while_all_are_busy_nobody_is_looked_for_who_could_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    idle = Hibernation._idle

    def count(self: Hibernation, most: int) -> Sequence[object]:  # type: ignore[type-arg]
        looks.append(most)
        return idle(self, most)

    monkeypatch.setattr(Hibernation, "_idle", count)
    app = App(limits=Limits(awake_objects=10))
    go = asyncio.Event()

    @app.object
    class Slow(DurableObject):
        async def wait(self) -> str:
            await go.wait()
            return self.ctx.key

    async with app.world() as world:
        calls = [asyncio.create_task(app.get(Slow, f"s{number}").wait()) for number in range(300)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(world.node.awake) == 300
        go.set()
        assert await asyncio.gather(*calls) == [f"s{number}" for number in range(300)]
        assert len(world.node.awake) == 10
        assert len(looks) < 20  # each goes through all of them
        assert await app.get(Slow, "other").wait() == "other"
        assert len(world.node.awake) == 10
