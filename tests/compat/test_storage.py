"""`ctx.storage`, beyond what is compared with workerd in tests/workerd."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import WRANGLER, played, write_worker

CODE = """
    import asyncio, math
    from datetime import UTC, datetime
    from pyodide.ffi import JsException, to_js
    from workers import DurableObject

    async def failing(work):
        try:
            return await work
        except (TypeError, ValueError) as error:
            return [type(error).__name__, error.name, isinstance(error, JsException)]

    class Sample(DurableObject):
        async def options(self):
            storage = self.ctx.storage
            await storage.put({"a": 1, "b": 2, "c": 3})
            return [
                list(await storage.list(start="b")),
                list(await storage.list({"start": "b"})),
                list(await storage.list(to_js({"start": "b", "limit": 1}))),
                list(await storage.list({"start": "b"}, reverse=True)),
                (await storage.get(["a", "c"], noCache=True)).to_py(),
            ]

        async def values(self):
            storage = self.ctx.storage
            await storage.put("record", to_js({"name": "x", "parts": [{"n": 1}]}))
            record = await storage.get("record")
            record.name = "y"
            await storage.put("record", record)
            again = await storage.get("record")
            every = await storage.list()
            return [
                record.parts[0].n, again["name"], type(again.to_py()).__name__, again == {"name": "y", "parts": [{"n": 1}]},
                every.size, every.has("record"), every.entries()[0][0], every.get("none"),
            ]

        async def unawaited(self):
            self.ctx.storage.put("bad", lambda: 1)
            self.ctx.storage.setAlarm("soon")
            self.ctx.storage.put("good", 1)
            self.ctx.storage.delete("none")
            self.ctx.storage.get("good")
            self.ctx.storage.transaction(self.inside)
            return list(await self.ctx.storage.list())

        async def inside(self, txn):
            await txn.put("inside", 1)

        async def stored(self):
            return await self.ctx.storage.list()

        async def wrong(self):
            storage = self.ctx.storage
            return [
                await failing(storage.put({"a": 1}, "text")),
                await failing(storage.get(None)),
                await failing(storage.list(5)),
                await failing(storage.put("k", object())),
                await failing(storage.put("k" * 3000, 1)),
                await failing(storage.get("k" * 3000)),
            ]

        async def itself(self):
            value = []
            value.append(value)
            self.ctx.storage.put("unawaited", value)
            return await failing(self.ctx.storage.put("k", value))

        async def loosely(self):
            storage = self.ctx.storage
            await storage.put({"a": 1, 2.0: memoryview(b"m")})
            return [
                dict(await storage.get({"a": 1, "b": 2}.keys())), list(await storage.list(limit=None, prefix=None)),
                await storage.get("2"), await failing(storage.delete(b"a")), await failing(storage.list({"limit": None})),
            ]

        async def too_large(self):
            try:
                await self.ctx.storage.put("k", "x" * 3_000_000)
            except ValueError as error:
                return error.name

        async def gathered(self):
            storage = self.ctx.storage
            await asyncio.gather(storage.put("x", 1), storage.put("y", 2), storage.setAlarm(9e12))
            return await asyncio.gather(storage.get("x"), storage.get("y"), storage.getAlarm())

        async def twice(self):
            read = self.ctx.storage.get("x")
            return [await read, await read]

        def now(self):
            self.ctx.storage.transactionSync(lambda: self.ctx.storage.put("sync", 1))
            try:
                self.ctx.storage.transactionSync(self.fail)
            except ValueError:
                pass

        def fail(self):
            self.ctx.storage.put("lost", 1)
            raise ValueError("no")

        async def dates(self):
            await self.ctx.storage.setAlarm(datetime(2027, 1, 1, tzinfo=UTC))
            first = await self.ctx.storage.getAlarm()
            await self.ctx.storage.setAlarm(first + 0.7)
            return [first, await self.ctx.storage.getAlarm()]

        async def cleared(self):
            self.ctx.storage.setAlarm(9e12)
            await self.ctx.storage.put("k", 1)
            await self.ctx.storage.deleteAll()
            return await self.ctx.storage.getAlarm()

        async def alarm(self):
            pass
"""


async def asked(tmp_path: Path, method: str, *args: Any) -> Any:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        return await getattr(worker.env.SAMPLE.getByName("x"), method)(*args)


async def test_options_are_keywords_or_a_mapping(tmp_path: Path) -> None:
    assert await asked(tmp_path, "options") == [["b", "c"], ["b", "c"], ["b"], ["c", "b"], {"a": 1, "c": 3}]


async def test_values_are_dicts_and_javascript_objects_at_once(tmp_path: Path) -> None:
    assert await asked(tmp_path, "values") == [1, "y", "dict", True, 1, True, "record", None]


async def test_what_is_not_awaited_is_done_and_its_error_is_nobodys(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        assert await worker.env.SAMPLE.getByName("x").unawaited() == ["good"]
        assert await worker.env.SAMPLE.getByName("x").stored() == {"good": 1, "inside": 1}


async def test_errors_are_those_of_javascript_and_of_python(tmp_path: Path) -> None:
    answers = await asked(tmp_path, "wrong")
    assert answers == [
        *[["JsTypeError", "TypeError", True]] * 3,
        ["DataCloneError", "DataCloneError", True],
        *[["JsRangeError", "RangeError", True]] * 2,
    ]


async def test_a_value_that_contains_itself_is_no_data(tmp_path: Path) -> None:
    assert await asked(tmp_path, "itself") == ["DataCloneError", "DataCloneError", True]


async def test_keys_and_options_may_be_of_many_kinds(tmp_path: Path) -> None:
    refused = ["JsTypeError", "TypeError", True]
    assert await asked(tmp_path, "loosely") == [{"a": 1}, ["2", "a"], b"m", refused, refused]


async def test_too_large_a_value_is_a_range_error(tmp_path: Path) -> None:
    assert await asked(tmp_path, "too_large") == "RangeError"


async def test_writes_can_be_gathered(tmp_path: Path) -> None:
    assert await asked(tmp_path, "gathered") == [1, 2, 9_000_000_000_000]


async def test_an_answer_can_be_awaited_twice(tmp_path: Path) -> None:
    assert await asked(tmp_path, "twice") == [None, None]


async def test_a_synchronous_transaction_rolls_back(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        await worker.env.SAMPLE.getByName("x").now()
        assert await worker.env.SAMPLE.getByName("x").stored() == {"sync": 1}


async def test_an_alarm_takes_dates_and_drops_fractions(tmp_path: Path) -> None:
    at = round(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert await asked(tmp_path, "dates") == [at, at]


@pytest.mark.parametrize(("date", "alarm"), [("2026-02-23", 9_000_000_000_000), ("2026-02-24", None)])
async def test_whether_delete_all_takes_the_alarm_is_a_matter_of_the_date(
    tmp_path: Path, date: str, alarm: int | None
) -> None:
    folder = write_worker(tmp_path, CODE, WRANGLER.replace("2026-03-01", date))
    async with played(folder) as (worker, _):
        assert await worker.env.SAMPLE.getByName("x").cleared() == alarm
