"""Where the database of an object can be used, what a crash at any moment leaves of it, and how many there may be."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from wakeful import AlarmInfo, App, DurableObject, Limits, Machine, Run, Socket, action, reader
from wakeful.store import Store
from wakeful.values.errors import Unavailable

SCHEMA = "CREATE TABLE IF NOT EXISTS said (n INTEGER PRIMARY KEY, what TEXT)"


pytestmark = pytest.mark.usefixtures("engine")


class Diary(DurableObject):
    """Writes down what happens to it."""

    async def on_wake(self) -> None:
        self.sql(SCHEMA)

    def note(self, what: str) -> None:
        self.sql("INSERT INTO said (what) VALUES (?)", what)

    async def begin(self) -> None:
        await self.storage.set_alarm(timedelta(seconds=1))
        await self.schedules.add("every 1m", self.tick, name="tick")
        await self.jobs.schedule(self.ctx.get(Diary, self.ctx.key).work, after="2s")

    async def alarm(self, info: AlarmInfo) -> None:
        self.note("alarm")

    async def tick(self, run: Run) -> None:
        self.note("tick")

    async def work(self) -> None:
        self.note("job")

    async def on_message(self, socket: Socket, message: str | bytes) -> None:
        self.note(f"message {message!r}")
        await socket.send(str(self.sql("SELECT count(*) FROM said").value()))

    @reader
    async def said(self) -> list[str]:
        return [row["what"] for row in self.sql("SELECT what FROM said ORDER BY n")]


class Door(Machine):
    chart = {
        "initial": "shut",
        "states": {"shut": {"on": {"OPEN": {"target": "open", "actions": "note"}}}, "open": {}},
    }

    @action
    async def note(self, *_: Any) -> None:
        self.sql("CREATE TABLE opened (at TEXT); INSERT INTO opened VALUES ('now')")

    @reader
    async def opened(self) -> int:
        return int(self.sql("SELECT count(*) FROM opened").value())


async def test_alarms_schedules_jobs_sockets_and_actions_of_machines_use_it(store_url: str) -> None:
    app = App()
    app.object(Diary)
    app.object(Door)
    async with app.world(store=store_url) as world:
        diary = world.get(Diary, "a")
        await diary.begin()
        await world.advance(seconds=61)
        assert sorted(await diary.said()) == ["alarm", "job", "tick"]
        client = await world.connect(Diary, "a")
        await client.send("hi")
        assert await client.receive() == "4"
        await world.get(Door, "front").send("OPEN")
        await world.settle()
        await world.crash()
        await world.restart()
        assert (await diary.said())[-1] == "message 'hi'"
        assert await world.get(Door, "front").opened() == 1


class Cell(DurableObject):
    """Counts in a row and in a table."""

    async def add(self, op: int) -> None:
        self.sql("CREATE TABLE IF NOT EXISTS ops (op INTEGER PRIMARY KEY, pad TEXT)")
        self.sql("INSERT INTO ops VALUES (?, ?)", op, "x" * 1500)
        await self.storage.put(f"op:{op}", 1)
        if op % 3 == 0:
            await self.ctx.commit()
            self.sql("UPDATE ops SET pad = 'after' WHERE op = ?", op)
            await self.storage.put(f"op:{op}", 2)

    async def both(self) -> tuple[list[int], list[int]]:
        rows = [int(key[3:]) for key in await self.storage.list(prefix="op:")]
        if not self.sql("SELECT 1 FROM sqlite_schema WHERE name = 'ops'"):
            return rows, []
        assert self.sql("PRAGMA integrity_check").value() == "ok"
        return sorted(rows), [op for (op,) in self.sql("SELECT op FROM ops ORDER BY op").raw()]


async def _live(store: str, crash_at: int | None) -> int:
    """Six turns, the process killed at that trip to the store; how many trips there were."""
    app = App()
    app.object(Cell)
    async with app.world(store=store) as world:
        acknowledged: list[int] = []

        def probe(name: str, number: int) -> None:
            if number - first == crash_at:
                world.kill()

        first = world.faults.probes
        world.faults.on_probe = probe
        for op in range(1, 7):
            try:
                await app.get(Cell, "a", deadline="5s").add(op)
                acknowledged.append(op)
            except (Unavailable, asyncio.CancelledError, TimeoutError):
                break
        probes = world.faults.probes - first
        world.faults.on_probe = None
        await world.restart()
        rows, table = await app.get(Cell, "a").both()
        assert rows == table
        assert set(acknowledged) <= set(rows)
        return probes


async def test_a_crash_at_every_trip_to_the_store_leaves_rows_and_pages_together() -> None:
    probes = await _live("memory:", None)
    assert probes >= 6
    for number in range(probes + 1):
        await _live("memory:", number)


async def test_many_objects_have_a_database_each(new_store: Callable[[], Store]) -> None:
    """Ten thousand at once, in memory, are in test_sql_many.py; on SQLite and PostgreSQL by hand, 28 s each."""
    count = 300
    app = App(limits=Limits(sql_open=20, awake_objects=count // 2))
    app.object(Cell)
    async with app.run(new_store()):
        await asyncio.gather(*(app.get(Cell, f"c{number}").add(number) for number in range(count)))
        found = await asyncio.gather(*(app.get(Cell, f"c{number}").both() for number in range(count)))
        assert found == [([number], [number]) for number in range(count)]
