"""Transactions, line by line as the specification says it, on every store."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from wakeful.values.errors import BadTime, BadValue, LimitExceeded

SECOND = timedelta(seconds=1)


class Expected(Exception):
    pass


@dataclass
class Box:
    items: list[int] = field(default_factory=list)


async def test_alarm_and_keys_commit_together(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        groups = world.faults.groups

        async def body(self: Any) -> None:
            await self.storage.put("x", 1)
            await self.storage.set_alarm(at)
            await self.storage.put("y", 2)
            await asyncio.sleep(5)
            assert await world.due() == []
            assert await world.rows(stage.Bell, "a") == {}

        await stage.do(body)
        assert world.faults.groups == groups + 1
        assert await world.rows(stage.Bell, "a") == {"x": 1, "y": 2}
        assert [timer.name for timer in await world.due()] == ["alarm"]


async def test_alarm_and_keys_roll_back_together(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.put("x", 1)
            await self.storage.set_alarm(SECOND)
            raise Expected

        with pytest.raises(Expected):
            await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}
        assert await world.due() == []
        assert await world.info(stage.Bell, "a") is None
        await world.advance(minutes=1)
        assert stage.fired == []


async def test_a_rolled_back_set_leaves_the_alarm_that_was_there(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)

        async def body(self: Any) -> None:
            await self.storage.set_alarm(SECOND)
            raise Expected

        with pytest.raises(Expected):
            await stage.do(body)
        assert await stage.get_alarm() == at
        await world.advance(minutes=2)
        assert stage.times() == [at]


async def test_a_rolled_back_delete_leaves_the_alarm_that_was_there(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + timedelta(minutes=1)
        await stage.set_alarm(at)

        async def by_delete(self: Any) -> None:
            await self.storage.delete_alarm()
            raise Expected

        async def by_delete_all(self: Any) -> None:
            await self.storage.delete_all()
            raise Expected

        for body in (by_delete, by_delete_all):
            with pytest.raises(Expected):
                await stage.do(body)
            assert await stage.get_alarm() == at
        await world.advance(minutes=2)
        assert stage.times() == [at]


async def test_a_rolled_back_delete_all_leaves_every_key(stage: Any) -> None:
    async with stage.world() as world:

        async def fill(self: Any) -> None:
            await self.storage.put_many({"a": 1, "b": 2})

        async def wipe(self: Any) -> None:
            await self.storage.delete_all()
            await self.storage.put("c", 3)
            raise Expected

        async def look(self: Any) -> Any:
            return await self.storage.list()

        await stage.do(fill)
        with pytest.raises(Expected):
            await stage.do(wipe)
        assert await stage.do(look) == await world.rows(stage.Bell, "a") == {"a": 1, "b": 2}


async def test_raising_inside_a_transaction_and_catching_outside_drops_only_its_writes(stage: Any) -> None:
    async with stage.world() as world:
        before = world.now() + timedelta(minutes=1)

        async def body(self: Any) -> list[Any]:
            await self.storage.put("kept", 1)
            await self.storage.put("changed", "before")
            await self.storage.set_alarm(before)
            with pytest.raises(Expected):  # noqa: PT012
                async with self.storage.transaction():
                    await self.storage.put("changed", "inside")
                    await self.storage.put("dropped", 1)
                    await self.storage.delete("kept")
                    await self.storage.set_alarm(SECOND)
                    raise Expected
            seen = [await self.storage.list(), await self.storage.get_alarm()]
            await self.storage.put("after", 1)
            return seen

        assert await stage.do(body) == [{"changed": "before", "kept": 1}, before]
        assert await world.rows(stage.Bell, "a") == {"after": 1, "changed": "before", "kept": 1}
        await world.advance(minutes=2)
        assert stage.times() == [before]


async def test_a_transaction_that_ends_well_keeps_its_writes(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            async with self.storage.transaction() as storage:
                await storage.put("x", 1)
                await storage.delete_alarm()
            with pytest.raises(Expected):  # noqa: PT012
                async with self.storage.transaction():
                    await self.storage.delete_all()
                    raise Expected

        await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {"x": 1}


async def test_a_transaction_that_ended_well_is_undone_with_its_turn(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            async with self.storage.transaction():
                await self.storage.put("x", 1)
            raise Expected

        with pytest.raises(Expected):
            await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}


async def test_nested_transactions_are_savepoints_too(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> Any:
            put = self.storage.put
            async with self.storage.transaction():
                await put("one", 1)
                with pytest.raises(Expected):  # noqa: PT012
                    async with self.storage.transaction():
                        await put("two", 2)
                        async with self.storage.transaction():
                            await put("three", 3)
                            await self.storage.delete("one")
                        raise Expected
                async with self.storage.transaction():
                    await put("four", 4)
            with pytest.raises(Expected):  # noqa: PT012
                async with self.storage.transaction():
                    async with self.storage.transaction():
                        await put("five", 5)
                    raise Expected
            return await self.storage.list()

        assert await stage.do(body) == {"four": 4, "one": 1}
        assert await world.rows(stage.Bell, "a") == {"four": 4, "one": 1}


async def test_delete_all_in_a_transaction_that_raises_deletes_nothing(stage: Any) -> None:
    async with stage.world() as world:

        async def fill(self: Any) -> None:
            await self.storage.put_many({"a": 1, "b": 2})
            await self.storage.set_alarm(timedelta(minutes=1))

        async def body(self: Any) -> Any:
            await self.storage.put("c", 3)
            with pytest.raises(Expected):  # noqa: PT012
                async with self.storage.transaction():
                    await self.storage.delete_all()
                    assert await self.storage.list() == {}
                    await self.storage.put("d", 4)
                    raise Expected
            return await self.storage.list(), await self.storage.get_alarm()

        await stage.do(fill)
        at = world.now() + timedelta(minutes=1)
        assert await stage.do(body) == ({"a": 1, "b": 2, "c": 3}, at)
        assert await world.rows(stage.Bell, "a") == {"a": 1, "b": 2, "c": 3}


class Unencodable:
    pass


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda storage: storage.put("x", Unencodable()), BadValue),
        (lambda storage: storage.put_many({"x": 1, "y": Unencodable()}), BadValue),
        (lambda storage: storage.put("x", b"." * (2 * 1_048_576)), LimitExceeded),
        (lambda storage: storage.put("k" * 2_049, 1), LimitExceeded),
        (lambda storage: storage.set_alarm(0), BadTime),
        (lambda storage: storage.delete("k" * 2_049), LimitExceeded),
    ],
    ids=["put", "put_many", "too large", "long key", "set_alarm", "delete"],
)
async def test_an_unawaited_write_that_fails_to_encode_fails_the_turn(stage: Any, write: Any, error: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> str:
            self.storage.put("before", 1)
            write(self.storage)
            return "done"

        with pytest.raises(error):
            await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}
        assert await world.due() == []


async def test_an_awaited_write_that_fails_and_is_caught_does_not_fail_the_turn(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            await self.storage.put("before", 1)
            with pytest.raises(BadValue, match=r"'x'.*value\['a'\]\[1\]"):
                await self.storage.put("x", {"a": [1, Unencodable()]})

        await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {"before": 1}


async def test_an_unawaited_write_that_succeeds_is_in_the_turn(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            self.storage.put("x", 1)
            self.storage.put("gone", 1)
            self.storage.delete("gone")
            self.storage.set_alarm(timedelta(minutes=1))

        await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        assert len(await world.due()) == 1


async def test_put_many_with_one_wrong_entry_writes_none(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            with pytest.raises(BadValue):
                await self.storage.put_many({"a": 1, "b": Unencodable(), "c": 3})

        await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}


async def test_values_are_copied_when_stored_and_when_read(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> list[Any]:
            value = {"list": [1], "box": Box([1])}
            await self.storage.put("x", value)
            value["list"].append(2)
            value["box"].items.append(2)
            first = await self.storage.get("x")
            first["list"].append(3)
            first["box"].items.append(3)
            listed = (await self.storage.list())["x"]
            listed["list"].append(4)
            many = (await self.storage.get_many(["x"]))["x"]
            many["list"].append(5)
            return await self.storage.get("x")

        assert await stage.do(body) == {"list": [1], "box": Box([1])}

        async def again(self: Any) -> Any:
            (await self.storage.get("x"))["list"].append(6)
            return await self.storage.get("x")

        assert await stage.do(again) == {"list": [1], "box": Box([1])}
        assert await world.rows(stage.Bell, "a") == {"x": {"list": [1], "box": Box([1])}}


async def test_a_transaction_may_wait_and_holds_nothing_open_meanwhile(stage: Any) -> None:
    async with stage.world() as world:

        async def body(self: Any) -> None:
            async with self.storage.transaction():
                await self.storage.put("x", 1)
                await asyncio.sleep(5)
                await stage.do(other, "b")  # another object commits while the transaction is open

        async def other(self: Any) -> None:
            await self.storage.put("y", 1)

        await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {"x": 1}
        assert await world.rows(stage.Bell, "b") == {"y": 1}
