"""Arguments of a command line become what the method takes, by its annotations; the owner of the object does it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject, errors, internal, reader
from wakeful.operations.text_calls import CALL
from wakeful.values.ids import ObjectId

BOB = ObjectId("Reminders", "bob")


@dataclass
class Tea:
    kind: str
    cups: int = 1


class Reminders(DurableObject):
    async def add(self, what: str, at: datetime) -> list[Any]:
        await self.storage.put(what, at)
        return [what, at]

    async def take(self, *rest: int) -> list[int]:
        return list(rest)

    async def brew(self, tea: Tea, length: timedelta, note: str | None = None) -> list[Any]:
        return [tea, length, note]

    async def anything(self, value: Any, other=None) -> list[Any]:  # type: ignore[no-untyped-def]
        return [value, other]

    @reader
    async def look(self) -> int:
        return len(await self.storage.list())

    @internal
    async def hidden(self) -> None: ...


@asynccontextmanager
async def calling() -> AsyncIterator[Any]:
    app = App()
    app.object(Reminders)
    async with app.world() as world:
        yield lambda method, *texts: world.node.send(BOB, CALL, (method, texts), {})


CASES = [
    ("add", ["call home", "2030-01-01T09:00:00+00:00"], ["call home", datetime.fromisoformat("2030-01-01T09:00Z")]),
    ("add", ["3", '"2030-01-01T09:00:00Z"'], ["3", datetime.fromisoformat("2030-01-01T09:00Z")]),
    ("add", ['"3"', "2030-01-01T09:00:00Z"], ["3", datetime.fromisoformat("2030-01-01T09:00Z")]),
    ("add", ["null", "2030-01-01T09:00:00Z"], ["null", datetime.fromisoformat("2030-01-01T09:00Z")]),
    ("add", ["no seconds", "2030-01-01T09:00+00:00"], ["no seconds", datetime.fromisoformat("2030-01-01T09:00Z")]),
    ("take", ["1", "2"], [1, 2]),
    ("take", [], []),
    ("brew", ['{"kind": "green"}', "5m"], [Tea("green"), timedelta(minutes=5), None]),
    ("brew", ['{"kind": "green"}', "300", "null"], [Tea("green"), timedelta(minutes=5), None]),
    ("brew", ['{"kind": "green"}', "300", "3"], [Tea("green"), timedelta(minutes=5), "3"]),
    ("anything", ["3", "three"], [3, "three"]),
    ("anything", ['{"a": [1]}'], [{"a": [1]}, None]),
    ("look", [], 0),
]


@pytest.mark.parametrize(("method", "texts", "answer"), CASES)
async def test_each_text_becomes_what_the_method_takes(method: str, texts: list[str], answer: Any) -> None:
    async with calling() as call:
        assert await call(method, *texts) == answer


@pytest.mark.parametrize(
    ("method", "texts", "code", "words"),
    [
        ("add", ["tea", "soon"], "arguments.type", "'at'"),
        ("add", ["tea"], "arguments.missing", "'at' is missing"),
        ("add", ["tea", "2030-01-01T09:00:00Z", "x"], "arguments.many", "3 were given"),
        ("take", ["1", "two"], "arguments.type", "'rest'"),
        ("brew", ['{"cups": 2}', "5m"], "arguments.type", "'tea'"),
        ("look", ["1"], "arguments.many", "no arguments"),
        ("hidden", [], "method.unknown", "@internal"),
        ("nope", [], "method.unknown", "does not exist"),
        ("alarm", [], "method.unknown", "alarm"),
    ],
)
async def test_what_does_not_fit_is_refused_and_nothing_is_written(
    method: str, texts: list[str], code: str, words: str
) -> None:
    async with calling() as call:
        with pytest.raises(errors.WakefulError, match=words) as raised:
            await call(method, *texts)
        assert raised.value.code == code
        assert await call("look") == 0


async def test_a_text_that_is_no_time_is_told_how_one_is_written() -> None:
    async with calling() as call:
        with pytest.raises(
            errors.BadValue, match="argument 'at': it is no datetime in ISO 8601, like 2030-01-01T09:00:00"
        ):
            await call("add", "call home", "tomorrow")


async def test_a_reader_stays_one_and_makes_no_object() -> None:
    app = App()

    @app.object
    class Shop(DurableObject):
        migrations = ["CREATE TABLE items (name TEXT)"]

        @reader
        async def look(self, least: int) -> int:
            return int(self.sql("SELECT count(*) + ? FROM items", least).value())

    async with app.world() as world:
        assert await world.node.send(ObjectId("Shop", "a"), CALL, ("look", ("3",)), {}) == 3
        assert await app.count(Shop) == 0


async def test_the_owner_converts_for_another_node() -> None:
    app = App()
    app.object(Reminders)
    async with app.world(nodes=2) as world:
        for member in world.members:
            answer = await member.node.send(BOB, CALL, ("add", ("3", "2030-01-01T09:00:00Z")), {})
            assert answer == ["3", datetime.fromisoformat("2030-01-01T09:00Z")]
