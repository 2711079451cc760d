"""No two events of a hosted object wait for each other for ever, and nothing that was undone counts as done."""

import asyncio
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.testing.faults import Lag

CODE = textwrap.dedent("""
    import asyncio
    from js import ReadableStream
    from workers import DurableObject, Response

    RINGS = []

    class Sample(DurableObject):
        async def fill(self, count):
            await self.ctx.storage.put({f"k{n}": "x" * 100 for n in range(count)})

        async def read(self, key):
            return await self.ctx.storage.get(key)

        async def look(self):
            await self.ctx.storage.list(prefix="n")
            return "looked"

        async def transact(self):
            async def work(txn):
                await txn.put("t", 1)
                await asyncio.sleep(0)
            await self.ctx.storage.transaction(work)
            return "done"

        async def tables(self):
            self.ctx.storage.sql.exec(
                "CREATE TABLE a (id INTEGER PRIMARY KEY);"
                "CREATE TABLE b (a INTEGER REFERENCES a(id) DEFERRABLE INITIALLY DEFERRED)"
            )
            RINGS.clear()
            await self.ctx.storage.setAlarm(1)

        async def alarm(self, info=None):
            RINGS.append(1)
            self.ctx.storage.put("rang", len(RINGS))
            if len(RINGS) == 1:
                self.ctx.storage.sql.exec("INSERT INTO b VALUES (7)")

        async def rings(self):
            return len(RINGS)

        async def fetch(self, request):
            def start(controller):
                self.controller = controller
            return Response(ReadableStream.new(start=start))

        async def push_and_abort(self):
            self.ctx.storage.put("paid", 1)
            self.controller.enqueue(b"you have paid")
            self.ctx.abort("undone")
""")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE)


async def test_a_transaction_and_a_read_that_begin_together_both_end(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.fill(1_200)
        await world.crash()
        await world.restart()
        await sample.read("k0")
        world.faults.lag = lambda verb: Lag("late", 5, 0) if verb == "scan" else None
        transacting, looking = sample.transact(), sample.look()
        await world.advance("10m")
        assert await asyncio.wait_for(asyncio.gather(transacting, looking), 60) == ["done", "looked"]
        assert await asyncio.wait_for(sample.read("t"), 60) == 1


async def test_an_alarm_whose_writes_can_not_be_kept_rings_again(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.tables()
        await world.advance("1h")
        assert (await sample.rings(), await sample.read("rang")) == (2, 2)


async def test_a_stream_of_an_object_that_was_reset_says_nothing_that_was_undone(folder: Path) -> None:
    async with played(folder) as (worker, _world):
        sample: Any = worker.env.SAMPLE.getByName("x")
        reader = (await sample.fetch("http://x/events")).body.getReader()
        with pytest.raises(Exception, match="undone"):
            await sample.push_and_abort()
        assert await sample.read("paid") is None
        with pytest.raises(Exception, match="undone"):
            await reader.read()
