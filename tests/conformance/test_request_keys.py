"""Request keys: a repeat gets the first answer and does not run again; on every store."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.acts import Expected, Gate, add_one, put
from wakeful import DurableObject, Limits, Unavailable
from wakeful.values.errors import (
    KeyTaken,
    OutcomeUnknown,
)


async def test_a_repeat_with_the_same_request_key_does_not_run_again(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(add_one)

        def call(key: str = "r1", object: str = "a") -> Any:
            return stage.app.get(stage.Bell, object, request_key=key).do(name)

        assert [await call(), await call(), await call("r2"), await call(), await call("r2")] == [1, 1, 2, 1, 2]
        assert await call(object="b") == 1  # a key belongs to its object
        await world.sleep_all()
        assert await call() == 1
        await world.crash()
        await world.restart()
        assert await call() == 1
        assert await world.rows(stage.Bell, "a") == {"count": 2}


async def test_a_repeat_while_the_first_is_not_yet_on_disk_waits_for_it(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        name = stage.act(add_one)
        with Gate(world) as gate:
            tasks = [asyncio.create_task(stage.app.get(stage.Bell, "a", request_key="r").do(name)) for _ in range(3)]
            await world.settle()
            assert not any(task.done() for task in tasks)
            gate.open()
            assert await asyncio.gather(*tasks) == [1, 1, 1]
            assert (await world.rows(stage.Bell, "a"))["count"] == 1


async def test_a_repeat_of_a_call_whose_commit_failed_runs(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        world.faults.fail_commit(when="before")
        with pytest.raises(Unavailable):
            await stub.do(name)
        await world.advance(seconds=10)
        assert await stub.do(name) == 1
        assert await stub.do(name) == 1


async def test_a_repeat_after_an_unknown_outcome_gives_the_first_answer(stage: Any) -> None:
    async with stage.world() as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        world.faults.fail_commit(when="after")
        with pytest.raises(OutcomeUnknown):
            await stub.do(name)
        await world.advance(seconds=10)
        assert await stub.do(name) == 1
        assert await world.rows(stage.Bell, "a") == {"count": 1}


async def test_another_call_with_a_used_request_key_is_an_error(stage: Any) -> None:
    async with stage.world() as world:
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        await stub.do(stage.act(add_one))
        with pytest.raises(KeyTaken, match="'r' was used for another method or other arguments"):
            await stub.do(stage.act(add_one))
        assert await world.rows(stage.Bell, "a") == {"count": 1}


async def test_a_request_key_is_kept_for_its_time_and_then_free(stage: Any) -> None:
    async with stage.world(limits=Limits(request_keep_ms=600_000)) as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        assert await stub.do(name) == 1
        await world.advance(seconds=599)
        assert await stub.do(name) == 1
        await world.advance(seconds=2)
        assert await stub.do(name) == 2


async def test_a_request_key_is_kept_for_a_day_by_default(stage: Any) -> None:
    assert Limits().request_keep_ms == 24 * 3_600_000
    async with stage.world() as world:
        name = stage.act(add_one)
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        assert await stub.do(name) == 1
        await world.crash()
        await world.restart(after=timedelta(hours=23, minutes=59))
        assert await stub.do(name) == 1
        await world.crash()
        await world.restart(after=timedelta(minutes=2))
        assert await stub.do(name) == 2


async def test_a_failed_call_is_not_remembered(stage: Any) -> None:
    async with stage.world() as world:

        async def fail_once(self: Any) -> int:
            await self.storage.put("x", 1)
            if not world.faults.is_down and not seen:
                seen.append(1)
                raise Expected
            return 7

        seen: list[int] = []
        stub = stage.app.get(stage.Bell, "a", request_key="r")
        name = stage.act(fail_once)
        with pytest.raises(Expected):
            await stub.do(name)
        assert await stub.do(name) == 7


class Echo(DurableObject):
    async def echo(self, *args: Any, **options: Any) -> int:
        return await add_one(self)


async def test_equal_arguments_are_the_same_call_in_whatever_order_they_are_named(stage: Any) -> None:
    stage.app.object(Echo)
    async with stage.world():
        stub = stage.app.get(Echo, "a", request_key="r")
        assert await stub.echo({"x": 1}, b=2, a={"p", "q"}) == 1
        assert await stub.echo({"x": 1}, a={"q", "p"}, b=2) == 1
        with pytest.raises(KeyTaken):
            await stub.echo({"x": 1}, a={"q", "p"}, b=3)
