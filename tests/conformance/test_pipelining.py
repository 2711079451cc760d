"""Pipelining: turns share trips to the disk, and no answer leaves before its own; on every store."""

import asyncio
from typing import Any

import pytest

from tests.conformance.acts import SECOND, Expected, Gate, add_one, get, put, sleep
from wakeful import AlarmInfo
from wakeful.values.errors import (
    OutcomeUnknown,
    StoreDown,
)


async def test_many_concurrent_calls_of_one_object_share_groups(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        groups, commits = world.node.committer.groups, world.node.committer.commits
        assert await asyncio.gather(*(stage.do(add_one) for _ in range(200))) == list(range(2, 202))
        assert world.node.committer.commits - commits == 200
        assert world.node.committer.groups - groups <= 20
        assert await world.rows(stage.Bell, "a") == {"count": 201}


async def test_concurrent_calls_of_many_objects_share_groups(stage: Any) -> None:
    async with stage.world() as world:
        groups = world.node.committer.groups
        await asyncio.gather(*(stage.do(add_one, f"k{n}") for n in range(200)))
        assert world.node.committer.groups - groups <= 60


async def test_no_answer_leaves_before_its_turn_is_on_disk(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:
            tasks = [asyncio.create_task(stage.do(body)) for body in (add_one, add_one, get("count"), add_one)]
            await world.settle()
            assert len(gate.groups) == 1
            assert not any(task.done() for task in tasks)
            assert await world.rows(stage.Bell, "a") == {"count": 1}
            gate.open()
            assert await asyncio.gather(*tasks) == [2, 3, 3, 4]


async def test_an_error_that_rests_on_an_unsaved_turn_waits_for_it_too(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:

            async def refuse(self: Any) -> None:
                raise Expected(await self.storage.get("count"))

            tasks = [asyncio.create_task(stage.do(body)) for body in (add_one, refuse)]
            await world.settle()
            tasks.append(asyncio.create_task(stage.do(refuse)))
            await world.settle()
            assert not any(task.done() for task in tasks)
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown] * 3


async def test_a_failed_commit_fails_every_turn_built_on_it_and_the_object_wakes_from_disk(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        with Gate(world) as gate:
            tasks = [asyncio.create_task(stage.do(add_one)) for _ in range(5)]
            await world.settle()
            running = asyncio.create_task(stage.do(sleep(30)))
            waiting = asyncio.create_task(stage.do(add_one))
            await world.settle()
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(*tasks, running, waiting, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown] * 7
            await world.advance(seconds=10)
            assert await world.rows(stage.Bell, "a") == {"count": 1}
            assert await stage.do(add_one) == 2
            assert stage.news == ["a", "a"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_that_fails_before_is_not_there_and_one_that_fails_after_is(stage: Any, when: Any) -> None:
    async with stage.world() as world:
        await stage.do(add_one)
        world.faults.fail_commit(when=when)
        with pytest.raises(StoreDown if when == "before" else OutcomeUnknown):
            await stage.do(add_one)
        await world.advance(seconds=10)
        assert await stage.do(get("count")) == (1 if when == "before" else 2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", [0, 1])
async def test_an_alarms_effect_happens_exactly_once_whichever_of_its_commits_fails(
    stage: Any, when: Any, n: int
) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            assert info.retry_count == 0
            await add_one(self)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        world.faults.fail_commit(n, when=when)
        await world.advance(minutes=1)
        assert await world.rows(stage.Bell, "a") == {"count": 1}
        assert await world.due() == []
        assert [run.verdict for run in await world.ledger(stage.Bell, "a")] == ["run"]


async def test_a_nested_call_waits_until_what_its_caller_knows_is_on_disk(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        with Gate(world) as gate:

            async def tell(self: Any) -> None:
                value = await self.storage.get("x")
                await self.ctx.get(stage.Bell, "b").do(stage.act(put("heard", value)))

            write = asyncio.create_task(stage.do(put("x", 2)))
            await world.settle()
            told = asyncio.create_task(stage.do(tell))
            await world.settle()
            assert stage.news == ["a"]  # b has not been called
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(write, told, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown, StoreDown]
            await world.advance(seconds=10)
            assert await world.rows(stage.Bell, "b") == {}
