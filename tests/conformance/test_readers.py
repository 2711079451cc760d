"""Readers: beside other turns, never resting on what could be undone; and looking without waking anything."""

import asyncio
import contextvars
from typing import Any

import pytest

from tests.conformance.acts import MINUTE, SECOND, Expected, Gate, get, put
from wakeful.store.protocol import Query
from wakeful.values.errors import (
    ReadOnly,
    StoreDown,
)

# Readers


async def test_readers_run_beside_each_other_and_beside_a_waiting_turn(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        start = world.now()

        async def slow_write(self: Any) -> None:
            await self.storage.put("x", 2)
            await asyncio.sleep(30)

        async def slow_read(self: Any) -> Any:
            await asyncio.sleep(5)
            return await self.storage.get("x")

        turn = asyncio.create_task(stage.do(slow_write))
        await asyncio.sleep(1)
        assert await asyncio.gather(*(stage.peek(slow_read) for _ in range(5))) == [1] * 5
        assert world.now() == start + 6 * SECOND
        await turn
        assert await stage.peek(get("x")) == 2


async def test_a_reader_never_sees_writes_that_are_undone(stage: Any) -> None:
    async with stage.world():
        await stage.do(put("x", 1))
        seen: list[Any] = []

        async def fails(self: Any) -> None:
            await self.storage.put("x", 2)
            seen.append(await stage.peek(get("x")))
            raise Expected

        with pytest.raises(Expected):
            await stage.do(fails)
        seen.append(await stage.peek(get("x")))
        assert seen == [1, 1]


async def test_a_reader_sees_what_a_turn_made_durable_midway(stage: Any) -> None:
    async with stage.world():
        seen: list[Any] = []

        async def body(self: Any) -> None:
            await self.storage.put("x", 1)
            await self.ctx.commit()
            await self.storage.put("x", 2)
            seen.append(await stage.peek(get("x")))

        await stage.do(body)
        assert seen == [1]


@pytest.mark.parametrize("raises", [False, True])
async def test_a_readers_answer_waits_for_the_writes_it_rests_on(stage: Any, raises: bool) -> None:
    async with stage.world() as world:
        await stage.do(put("x", 1))
        with Gate(world) as gate:

            async def look(self: Any) -> Any:
                found = await self.storage.get("x")
                if raises and found == 2:
                    raise Expected("it is two")
                return found

            write = asyncio.create_task(stage.do(put("x", 2)))
            await world.settle()
            read = asyncio.create_task(stage.peek(look))
            await world.settle()
            assert not write.done()
            assert not read.done()
            world.faults.fail_commit()
            gate.open()
            results = await asyncio.gather(write, read, return_exceptions=True)
            assert [type(result) for result in results] == [StoreDown, StoreDown]
            await world.advance(seconds=10)
            assert await stage.peek(get("x")) == 1


async def test_a_readers_listing_is_of_one_moment_though_turns_end_while_it_is_read(stage: Any) -> None:
    async with stage.world() as world:
        await stage.do(put("zero", 0))
        store = world.node.store
        real = store.scan

        async def listing(self: Any) -> Any:
            return await self.storage.list()

        async def put_both(self: Any) -> None:
            await self.storage.put_many({"a": 2, "b": 2})

        with Gate(world) as gate:
            first = asyncio.create_task(stage.do(put("a", 1)))
            await world.settle()

            async def slow_scan(*args: Any) -> Any:
                store.scan = real
                gate.open()
                await first
                # In a context of its own: it is not the reader that calls.
                await asyncio.create_task(stage.do(put_both), context=contextvars.Context())
                return await real(*args)

            store.scan = slow_scan
            found = await stage.peek(listing)
        assert found in ({"a": 1, "zero": 0}, {"a": 2, "b": 2, "zero": 0})


async def test_a_reader_in_a_reader_can_not_write_through_a_call(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.put("x", 1)

        with pytest.raises(ReadOnly):
            await stage.peek(body)
        assert await world.rows(stage.Bell, "a") == {}


# Looking without waking


async def test_objects_are_listed_and_inspected_without_waking_them(stage: Any) -> None:
    async with stage.world() as world:
        keys = ["acme/eu", "acme/us", "bob", "zoë"]
        for key in keys:
            await stage.do(put("x", key), key)
            await stage.set_alarm(MINUTE, key)
        await world.advance(seconds=30)
        assert not world.node.awake
        made = len(stage.news)
        store = world.store
        found = await store.find_objects(Query(cls="Bell"))
        assert [info.id.key for info in found] == keys
        assert [info.id.key for info in await store.find_objects(Query(key_contains="acme"))] == keys[:2]
        assert await store.count("objects") == 4
        assert await store.known_classes() == ["Bell"]
        assert await world.rows(stage.Bell, "bob") == {"x": "bob"}
        assert len(await world.due()) == 4
        info = await world.info(stage.Bell, "bob")
        assert info is not None
        assert info.rows == 1
        assert len(stage.news) == made
        assert not world.node.awake
