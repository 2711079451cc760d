"""`ctx.storage.sql` and `ctx.storage.kv`, beyond what is compared with workerd in tests/workerd."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import load
from wakeful.compat.workers.failures import JsRangeError
from wakeful.compat.workers.sync_storage import PRAGMAS as THEIRS
from wakeful.sql import feature
from wakeful.sql.connection import ImageConnection
from wakeful.sql.guard import PRAGMAS
from wakeful.sql.paged_connection import PagedConnection
from wakeful.values.errors import ConstraintFailed

CODE = """
    import asyncio, json
    import js
    from pyodide.ffi import JsException
    from workers import DurableObject

    def failing(work):
        try:
            return work()
        except Exception as error:
            return [type(error).__name__, isinstance(error, JsException), str(error)]

    class Sample(DurableObject):
        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            self.sql = ctx.storage.sql
            self.sql.exec("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, qty INTEGER)")
            self.made = ctx.storage.kv.get("made")
            ctx.storage.kv.put("made", 1)

        def add(self, *names):
            for name in names:
                self.sql.exec("INSERT INTO items (name, qty) VALUES (?, ?)", name, len(name))
            return self.names()

        def names(self):
            return [row.name for row in self.sql.exec("SELECT name FROM items ORDER BY id")]

        def woken(self):
            return [self.made, self.names()]

        def rows(self):
            cursor = self.sql.exec("SELECT id, name, qty AS items FROM items")
            row = cursor.toArray()[0]
            return [
                row.name, row["name"], row.to_py(), json.loads(json.dumps(row)), row == {"id": 1, "name": "a", "items": 1},
                cursor.columnNames.to_py(), cursor.rowsRead, cursor.rowsWritten,
                getattr(js.Array, "from")(self.sql.exec("SELECT name FROM items")).to_py(),
                self.sql.exec("SELECT id FROM items").raw().toArray().to_py(),
                self.sql.exec("SELECT name FROM items").one().name,
                [done for done in iter(lambda: self.sql.exec("SELECT 1 WHERE 0").next().done, True)],
            ]

        def errors(self):
            return [
                failing(lambda: self.sql.exec("INSERT INTO items (name) VALUES ('a')")),
                failing(lambda: self.sql.exec("SELECT ?", [1])),
                failing(lambda: self.sql.exec("PRAGMA page_count")),
                failing(lambda: self.sql.exec("SELECT 1 WHERE 0").one()),
                failing(lambda: self.sql.exec("BEGIN")),
            ]

        def asked_size(self):
            before = self.sql.databaseSize
            return [before % 4096, before > 0, failing(lambda: self.sql.exec("PRAGMA page_count"))[0]]

        async def bookmark(self, name=None):
            if name:
                self.add(name)
            return await self.ctx.storage.getCurrentBookmark()

        async def bookmark_for(self, time):
            return await self.ctx.storage.getBookmarkForTime(time)

        async def restore(self, bookmark, how="ends"):
            await self.ctx.storage.put("how", how)
            undo = await self.ctx.storage.onNextSessionRestoreBookmark(bookmark)
            await self.ctx.storage.put("undo", undo)
            if how == "aborts":
                self.ctx.abort("to go back")
            if how == "raises":
                raise ValueError("after it")
            return undo

        def in_one(self, name, fails):
            def closure():
                self.sql.exec("INSERT INTO items (name) VALUES (?)", name)
                self.ctx.storage.kv.put("last", name)
                if fails:
                    raise ValueError(name)
                return name
            try:
                return [self.ctx.storage.transactionSync(closure), self.names(), self.ctx.storage.kv.get("last")]
            except ValueError:
                return [None, self.names(), self.ctx.storage.kv.get("last")]

        def given_up(self):
            self.ctx.storage.kv.put("before", 1)
            self.sql.exec("INSERT INTO items (name) VALUES ('b')")
            failing(lambda: self.sql.exec("INSERT OR ROLLBACK INTO items (name) VALUES ('a')"))
            raise KeyError("after it")

        async def late(self):
            async def later():
                await asyncio.sleep(1)
                self.ctx.storage.kv.put("k", 1)
                self.sql.exec("INSERT INTO items (name) VALUES ('late')")
                self.ctx.storage.transactionSync(lambda: self.ctx.storage.kv.put("t", 2))
            self.ctx.waitUntil(later())

        def kept(self):
            return [self.sql.exec("SELECT name FROM items").one().name, *map(self.ctx.storage.kv.get, ("k", "t"))]

        def loosen(self):
            self.sql.exec("INSERT INTO items (name) VALUES ('a')")
            return [
                self.sql.exec("PRAGMA foreign_keys = ON").toArray().to_py(),
                failing(lambda: self.sql.exec("PRAGMA foreign_keys = OFF"))[0],
            ]

        async def everything(self):
            await self.ctx.storage.deleteAll()
            return [self.sql.exec("SELECT count(*) AS n FROM sqlite_master").one().n, list(self.ctx.storage.kv.list())]

        async def fill(self, count, size):
            await self.ctx.storage.put({f"k{n:04}": "x" * size for n in range(count)})

        def look(self, key):
            kv = self.ctx.storage.kv
            pairs = [key for key, _ in kv.list(prefix="k")]
            return [len(kv.get(key) or ""), len(pairs), pairs[:1], kv.delete(key), kv.get(key)]
"""


@pytest.fixture(params=[ImageConnection, PagedConnection], ids=["standard library", "apsw"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature, "connection_type", lambda: request.param)


@pytest.mark.usefixtures("engine")
async def test_rows_have_items_and_attributes(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        assert await sample.add("a") == ["a"]
        row = {"id": 1, "name": "a", "items": 1}
        told = ["a", "a", row, row, True, ["id", "name", "items"], 1, 0, [{"name": "a"}], [[1]], "a", []]
        assert await sample.rows() == told


@pytest.mark.usefixtures("engine")
async def test_it_sleeps_and_wakes_with_the_object(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        assert await sample.add("a", "bb") == ["a", "bb"]
        assert await sample.woken() == [None, ["a", "bb"]]
        await world.crash()
        await world.restart()
        assert await sample.woken() == [1, ["a", "bb"]]


@pytest.mark.usefixtures("engine")
async def test_errors_are_those_of_javascript(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.add("a")
        unique, value, pragma, one, begin = await sample.errors()
        assert unique[:2] == ["JsException", True]
        assert "UNIQUE constraint failed: items.name: SQLITE_CONSTRAINT" in unique[2]
        assert value[:2] == ["JsTypeError", True]
        assert "PRAGMA page_count is not on the list" in pragma[2]
        assert one == ["JsException", True, "Error: one() is for exactly one row, and there are none"]
        assert "a turn is the transaction" in begin[2]


@pytest.mark.usefixtures("engine")
async def test_asking_for_the_size_lets_no_pragma_in(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        assert await worker.env.SAMPLE.getByName("x").asked_size() == [0, True, "JsException"]


def test_the_list_of_pragmas_is_a_part_of_our_own() -> None:
    assert PRAGMAS > THEIRS
    assert len(THEIRS) == 19


@pytest.mark.usefixtures("engine")
async def test_a_transaction_is_of_sql_and_rows(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        assert await sample.in_one("a", False) == ["a", ["a"], "a"]
        assert await sample.in_one("b", True) == [None, ["a"], "a"]
        assert await sample.woken() == [None, ["a"]]


@pytest.mark.usefixtures("engine")
async def test_what_an_event_did_before_sqlite_gave_it_up_is_undone_even_when_it_raises(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.add("a")
        with pytest.raises(ConstraintFailed, match="UNIQUE"):
            await sample.given_up()
        assert await sample.names() == ["a"]
        assert await world.rows(worker.classes["Sample"], "x") == {"made": 1}


@pytest.mark.usefixtures("engine")
async def test_delete_all_empties_the_database(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.add("a")
        assert await sample.everything() == [0, []]


@pytest.mark.usefixtures("engine")
async def test_foreign_keys_may_be_told_to_be_what_they_are(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, _):
        assert await worker.env.SAMPLE.getByName("x").loosen() == [[], "JsException"]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("how", ["ends", "aborts", "raises"])
async def test_an_object_goes_back_when_the_event_ends_however_it_does(tmp_path: Path, how: str) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        first = await sample.bookmark("a")
        second = await sample.bookmark("b")
        assert first < second
        with suppress(Exception):
            await sample.restore(first, how)
        assert await sample.woken() == [1, ["a"]]
        await world.sleep_all()
        assert await sample.woken() == [1, ["a"]]
        await sample.restore(second)
        assert await sample.woken() == [1, ["a", "b"]]


async def test_the_answer_of_a_restore_undoes_it_and_a_time_is_a_bookmark(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        first = await sample.bookmark("a")
        await world.advance(hours=1)
        then = int(world.now().timestamp() * 1000)
        await world.advance(hours=1)
        await sample.bookmark("b")
        undo = await sample.restore(await sample.bookmark_for(then))
        assert undo > first
        assert (await sample.woken())[1] == ["a"]
        await sample.restore(undo)
        assert (await sample.woken())[1] == ["a", "b"]
        for refused in (sample.restore("x"), sample.bookmark_for("noon"), sample.bookmark_for(4_000_000_000_000)):
            with pytest.raises(Exception, match=r"bookmark|getBookmarkForTime|still to come"):
                await refused


async def test_a_task_that_outlived_its_event_reads_and_writes_at_once(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.late()
        await world.advance(seconds=2)
        await world.crash()
        await world.restart()
        assert await sample.kept() == ["late", 1, 2]


@pytest.mark.parametrize("count", [10, 1_200])
async def test_kv_finds_rows_that_did_not_come_with_the_object(tmp_path: Path, count: int) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.fill(count, 100)
        await world.crash()
        await world.restart()
        assert await sample.look("k0007") == [100, count, ["k0000"], True, None]
        assert await sample.look("k0007") == [0, count - 1, ["k0000"], False, None]


async def test_kv_says_when_an_object_has_too_many_rows(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE)) as (worker, world):
        sample = worker.env.SAMPLE.getByName("x")
        await sample.fill(30, 100_000)
        await world.crash()
        await world.restart()
        with pytest.raises(JsRangeError, match=r"Limits\(cache_bytes_per_object"):
            await sample.names()


async def test_rows_are_read_ahead_only_for_workers_that_speak_of_kv(tmp_path: Path) -> None:
    code = """
        from workers import DurableObject

        class Sample(DurableObject):
            async def fill(self):
                await self.ctx.storage.put({f"k{n}": n for n in range(100)})

            def count(self):
                import beside
                return beside.count(self.ctx.storage)
    """
    (tmp_path / "beside.py").write_text("def count(storage):\n    return len(list(storage.kv.list()))\n")
    worker: Any = load(write_worker(tmp_path, code))
    try:
        assert not worker.classes["Sample"]._hosted.uses("kv")
        async with worker.app.world():
            sample = worker.env.SAMPLE.getByName("x")
            await sample.fill()
            assert await sample.count() == 100
        assert worker.classes["Sample"]._hosted.uses("kv")
    finally:
        worker.unload()
