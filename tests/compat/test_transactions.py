"""Transactions of one event that run at once: each undoes what is its own, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker

CODE = """
    import asyncio
    from workers import DurableObject

    class Sample(DurableObject):
        def step(self, name, seconds, *, fails=False, inner=None):
            async def closure(txn=None):
                await self.ctx.storage.put(name + "1", 1)
                await asyncio.sleep(seconds)
                await self.ctx.storage.put(name + "2", 1)
                if inner is not None:
                    await asyncio.gather(*inner, return_exceptions=True)
                if fails:
                    raise ValueError(name)
                return name
            return closure

        def txn(self, *args, **kwargs):
            return self.ctx.storage.transaction(self.step(*args, **kwargs))

        async def told(self, *promises):
            answers = await asyncio.gather(*promises, return_exceptions=True)
            return [[str(one) for one in answers], sorted(await self.ctx.storage.list())]

        async def first_ends_first(self):
            return await self.told(self.txn("a", 1), self.txn("b", 5, fails=True))

        async def first_fails(self):
            return await self.told(self.txn("a", 1, fails=True), self.txn("b", 5))

        async def inside_one(self):
            inner = [self.txn("x", 1, fails=True), self.txn("y", 2)]
            return await self.told(self.txn("a", 1, inner=inner), self.txn("b", 1, fails=True))

        async def outlived(self):
            async def closure(txn):
                self.left = asyncio.create_task(self.left_behind())
                await txn.put("a", 1)
            await self.ctx.storage.transaction(closure)
            await self.left
            return sorted(await self.ctx.storage.list())

        async def left_behind(self):
            await asyncio.sleep(1)
            await self.txn("late", 1)

        async def beside_a_block(self):
            block = self.ctx.blockConcurrencyWhile(self.step("b", 2))
            return await self.told(self.txn("a", 1, fails=True), block)

        async def awaited_by_two(self):
            promise = self.txn("a", 5)
            await asyncio.gather(promise, asyncio.wait_for(promise, 1), return_exceptions=True)
            return await promise, sorted(await self.ctx.storage.list())
"""


@pytest.mark.parametrize(
    ("method", "answers", "keys"),
    [
        ("first_ends_first", ["a", "b"], ["a1", "a2"]),
        ("first_fails", ["a", "b"], ["b1", "b2"]),
        ("inside_one", ["a", "b"], ["a1", "a2", "y1", "y2"]),
        ("beside_a_block", ["a", "b"], ["b1", "b2"]),
    ],
)
async def test_transactions_at_once_are_one_after_the_other(
    tmp_path: Path, method: str, answers: list[Any], keys: list[str]
) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        assert await getattr(worker.env.SAMPLE.getByName("x"), method)() == [answers, keys]


async def test_one_that_begins_after_the_one_it_was_begun_in(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        assert await worker.env.SAMPLE.getByName("x").outlived() == ["a", "late1", "late2"]


async def test_who_stops_waiting_does_not_stop_it_for_others(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        assert await worker.env.SAMPLE.getByName("x").awaited_by_two() == ("a", ["a1", "a2"])
