"""A user's program with plain `def` methods: what both type checkers are to know of it."""

from datetime import timedelta
from typing import assert_type

from wakeful import App, DurableObject, Job, Schedule, in_process, in_thread, reader

app = App()


@app.object
class Mill(DurableObject):
    @in_thread
    def grind(self, grain: int, *, times: int = 1) -> float:
        self.blocking.storage.put("flour", grain)
        self.blocking.storage.put(1, grain)  # refused
        assert_type(self.blocking.storage.count("a"), int)
        self.blocking.storage.counts("a")  # refused
        assert_type(self.blocking.schedules.add(timedelta(1), self.grind, 1, name="a"), Schedule)
        self.blocking.schedules.add(timedelta(1), self.grind, 1, catch_up="everything")  # refused
        assert_type(self.blocking.wait(self.ctx.get(Mill, "b").grind(3)), float)
        assert_type(self.blocking.sql("SELECT 1").value(), object)  # refused
        return 1.5

    @in_process
    def compute(self, below: int) -> list[int]:
        return [below]

    @reader
    @in_thread
    def look(self) -> str:
        return ""

    async def both(self) -> float:
        self.grind(1).upper()  # refused
        return await self.grind(1, times=2)


async def use() -> None:
    mill = app.get(Mill, "a")
    assert_type(await mill.grind(3), float)
    assert_type(await mill.compute(3), list[int])
    assert_type(await mill.look(), str)
    await mill.grind("3")  # refused
    await mill.compute()  # refused
    assert_type(await app.jobs.schedule(mill.grind, 3), Job[float])
    await app.jobs.schedule(mill.grind, "3")  # refused
