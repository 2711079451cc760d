"""Calls, alarms, background work and resets of hosted objects, beyond what is compared with workerd."""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import WRANGLER, played, write_worker
from wakeful.values.errors import BadName, Reentrancy

CODE = """
    import asyncio, time
    from workers import DurableObject

    class Sample(DurableObject):
        made = 0

        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            Sample.made += 1
            self.count = 0

        async def write_and_raise(self):
            self.ctx.storage.put("kept", 1)
            raise LookupError("on purpose")

        async def bad_answer(self):
            self.ctx.storage.put("kept", 2)
            return object()

        async def stored(self):
            return await self.ctx.storage.list()

        async def counted(self):
            self.count += 1
            return self.count

        async def later(self, seconds):
            async def work():
                await asyncio.sleep(seconds)
                self.ctx.storage.put("a", await self.ctx.storage.get("a") or 1)
                await self.ctx.storage.transaction(self.inside)
                await self.ctx.storage.setAlarm(time.time() * 1000 + 1000)
            self.ctx.waitUntil(work())
            return await self.counted()

        async def inside(self, txn):
            await txn.put("b", 2)

        async def ring(self, *, after):
            self.ctx.storage.setAlarm(time.time() * 1000 + after)

        async def called(self):
            return self.ctx.id.name

        async def call_back(self, other):
            return await self.env.SAMPLE.getByName(other).call_back(self.ctx.id.name)

        async def tell(self, other):
            self.env.SAMPLE.getByName(other).counted()

        async def slow_block(self):
            await self.ctx.blockConcurrencyWhile(lambda: asyncio.sleep(60))

        async def swallow(self):
            await self.ctx.storage.put("lost", 1)
            try:
                self.ctx.abort("enough")
            except Exception:
                pass

        async def abort_later(self):
            async def work():
                await asyncio.sleep(1)
                await self.ctx.storage.put("kept", 3)
                await self.ctx.storage.sync()
                await self.ctx.storage.put("lost", 3)
                self.ctx.abort("from behind")
            self.ctx.waitUntil(work())
            return await self.counted()

        async def block_and_raise(self):
            await self.ctx.storage.put("kept", 4)
            async def fail():
                await self.ctx.storage.put("lost", 1)
                raise LookupError("inside")
            self.ctx.blockConcurrencyWhile(fail)
            raise ValueError("after")

        async def gone(self):
            self.ctx.abort("gone", retryAlarm=False)

        @staticmethod
        def add(a, b):
            return a + b

        async def alarm(self):
            self.ctx.storage.put("rung", 1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE)


async def test_a_raise_keeps_the_writes_and_reaches_the_caller(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        with pytest.raises(LookupError, match="on purpose") as raised:
            await sample.write_and_raise()
        assert raised.value.remote  # type: ignore[attr-defined]
        await world.crash()
        await world.restart()
        assert await sample.stored() == {"kept": 1}


async def test_an_answer_that_is_no_data_keeps_the_writes(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        with pytest.raises(TypeError, match="bad_answer"):
            await sample.bad_answer()
        assert await sample.stored() == {"kept": 2}


async def test_work_after_the_answer_keeps_the_object_awake_and_may_write(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        assert await sample.later(40) == 1
        await world.advance("30s")
        assert await sample.counted() == 2, "it slept, though work was going on"
        assert await sample.stored() == {}
        await world.advance("12s")
        assert await sample.stored() == {"a": 1, "b": 2, "rung": 1}
        await world.advance("30s")
        assert await sample.counted() == 1


async def test_work_after_the_answer_ends_with_the_process(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.later(40)
        await world.restart()
        await world.advance("1m")
        assert await sample.stored() == {}


async def test_a_call_that_is_not_awaited_is_made(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.SAMPLE.getByName("x").tell("y")
        await world.settle()
        assert await worker.env.SAMPLE.getByName("y").counted() == 2


async def test_a_circle_of_calls_without_end_is_an_error_and_no_hang(folder: Path) -> None:
    async with played(folder) as (worker, _):
        with pytest.raises(Reentrancy):
            await worker.env.SAMPLE.getByName("x").call_back("y")


async def test_blocking_for_too_long_resets_the_object(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        assert await sample.counted() == 1
        before = world.now()
        with pytest.raises(Exception, match="longer than 30 s") as raised:
            await sample.slow_block()
        assert raised.value.durableObjectReset  # type: ignore[attr-defined]
        assert (world.now() - before).total_seconds() == 30
        assert await sample.counted() == 1


async def test_no_except_holds_an_abort(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        with pytest.raises(Exception, match="enough"):
            await sample.swallow()
        assert await sample.stored() == {}


async def test_the_name_of_a_long_named_object_outlives_its_sleep(folder: Path) -> None:
    async with played(folder) as (worker, world):
        name = "a name that does not fit into an id"
        sample = worker.env.SAMPLE.getByName(name)
        assert await sample.called() == name
        await sample.ring(after=60_000)
        await world.crash()
        await world.restart()
        await world.advance("2m")
        again = worker.env.SAMPLE.get(worker.env.SAMPLE.idFromString(sample.id.toString()))
        assert again.id.name is None, "an id from text has no name on the caller's side"
        assert await again.stored() == {"rung": 1}
        assert await again.called() == name
        with pytest.raises(BadName, match=str(sample.id)):
            await worker.app.get(worker.classes["Sample"], name).stored()


async def test_objects_can_be_called_from_outside_the_worker(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.SAMPLE.getByName("x").counted()
        stub: Any = world.get(worker.classes["Sample"], "x")
        assert await stub.counted() == 2
        assert await stub.add(1, b=2) == 3
        assert await world.rows(worker.classes["Sample"], "x") == {}


async def test_a_renamed_class_keeps_its_objects(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for one in (old, new):
        one.mkdir()
    write_worker(old, CODE)
    renamed = WRANGLER.replace('"Sample"', '"Better"') + (
        '[[migrations]]\ntag = "v1"\nnew_classes = ["Sample"]\n'
        '[[migrations]]\ntag = "v2"\nrenamed_classes = [{ from = "Sample", to = "Better" }]\n'
    )
    write_worker(new, CODE.replace("class Sample", "class Better").replace("Sample.made", "Better.made"), renamed)
    store = f"sqlite:{tmp_path}/objects.db"
    async with played(old, store=store) as (worker, world):
        with pytest.raises(LookupError):
            await worker.env.SAMPLE.getByName("x").write_and_raise()
        id = str(worker.env.SAMPLE.idFromName("x"))
    async with played(new, store=store) as (worker, world):
        assert str(worker.env.SAMPLE.idFromName("x")) == id
        assert await worker.env.SAMPLE.getByName("x").stored() == {"kept": 1}
        assert world.app.deployment.registry.knows("Sample")


async def test_a_task_of_its_own_can_reset_the_object(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        assert [await sample.abort_later(), await sample.counted()] == [1, 2]
        await world.advance("3s")
        assert [await sample.counted(), await sample.stored()] == [1, {"kept": 3}]


async def test_a_block_that_fails_behind_a_raise_resets_the_object(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        assert [await sample.counted(), await sample.counted()] == [1, 2]
        with pytest.raises(LookupError, match="inside"):
            await sample.block_and_raise()
        assert [await sample.counted(), await sample.stored()] == [1, {"kept": 4}]


async def test_a_reset_of_another_object_leaves_the_alarm_its_retries(tmp_path: Path) -> None:
    code = CODE.replace(
        'self.ctx.storage.put("rung", 1)',
        """runs = await self.ctx.storage.get("runs") or 0
            await self.ctx.storage.put("runs", runs + 1)
            if runs < 2:
                await self.env.SAMPLE.getByName("other").gone()""",
    )
    async with played(write_worker(tmp_path, code)) as (worker, world):
        await worker.env.SAMPLE.getByName("x").ring(after=1_000)
        await world.advance("1m")
        assert await worker.env.SAMPLE.getByName("x").stored() == {"runs": 3}
