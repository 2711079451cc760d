"""D1 databases of a Worker: statements, batches, errors, migrations; on disk and over nodes."""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker

CODE = """
    from workers import DurableObject, WorkerEntrypoint

    class Sample(DurableObject):
        async def count(self):
            return await self.env.DB.prepare("SELECT count(*) AS n FROM items").first("n")

    class Default(WorkerEntrypoint):
        pass
"""
WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-03-01"

[[durable_objects.bindings]]
name = "SAMPLE"
class_name = "Sample"

[[d1_databases]]
binding = "DB"
database_name = "shop"
database_id = "x"
"""
FIRST = (
    "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, qty);\nCREATE INDEX by_qty ON items (qty);"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "0001_items.sql").write_text(FIRST)
    return write_worker(tmp_path, CODE, WRANGLER)


def cls_of(worker: Any) -> Any:
    return worker.app.deployment.registry.by_name("D1Database").cls


async def test_statements_give_rows_and_what_they_changed(folder: Path) -> None:
    async with played(folder) as (worker, _):
        db = worker.env.DB
        put = db.prepare("INSERT INTO items (name, qty) VALUES (?, ?)")
        done = await put.bind("cup", 3).run()
        assert (done.success, done.meta.changes, done.meta.last_row_id, done.meta.changed_db) == (True, 1, 1, True)
        assert done.results.to_py() == []
        await put.bind("pot", None).run()
        found = await db.prepare("SELECT name, qty FROM items WHERE id >= ?1 ORDER BY id").bind(1).all()
        assert found.results.to_py() == [{"name": "cup", "qty": 3}, {"name": "pot", "qty": None}]
        assert (found.results[0].name, found.meta.changes, found.meta.rows_read) == ("cup", 0, 2)
        one = db.prepare("SELECT * FROM items WHERE name = ?")
        assert (await one.bind("pot").first()).to_py() == {"id": 2, "name": "pot", "qty": None}
        assert await one.bind("cup").first("qty") == 3
        assert await one.bind("none").first() is None
        assert await one.bind("none").first("qty") is None
        with pytest.raises(Exception, match="D1_COLUMN_NOTFOUND"):
            await one.bind("cup").first("colour")
        raw = db.prepare("SELECT name, 1 AS name, x'00ff' FROM items LIMIT 1")
        assert (await raw.raw()).to_py() == [["cup", 1, [0, 255]]]
        assert (await raw.raw(columnNames=True)).to_py()[0] == ["name", "name", "x'00ff'"]
        kinds = db.prepare("SELECT typeof(?1) AS a, typeof(?2) AS b, typeof(?3) AS c, typeof(?4) AS d")
        assert (await kinds.bind(True, 1.5, b"\0", "x").first()).to_py() == {
            "a": "integer", "b": "real", "c": "blob", "d": "text"
        }  # fmt: skip
        with pytest.raises(TypeError, match="D1_TYPE_ERROR: Type 'dict' not supported"):
            one.bind({"a": 1})
        assert await worker.env.SAMPLE.getByName("o").count() == 2


async def test_a_batch_is_one_transaction(folder: Path) -> None:
    async with played(folder) as (worker, _):
        db = worker.env.DB
        put = db.prepare("INSERT INTO items (name) VALUES (?)")
        both = await db.batch([put.bind("a"), db.prepare("SELECT count(*) AS n FROM items")])
        assert (both[0].meta.changes, both[1].results[0].n) == (1, 1)
        with pytest.raises(Exception, match=r"D1_ERROR: UNIQUE constraint failed: items\.name: SQLITE_CONSTRAINT"):
            await db.batch([put.bind("b"), put.bind("a"), put.bind("c")])
        names = await db.prepare("SELECT name FROM items").raw()
        assert names.to_py() == [["a"]], "of a batch that failed nothing is there"
        with pytest.raises(Exception, match="No SQL statements"):
            await db.batch([])
        with pytest.raises(TypeError, match="prepare"):
            await db.batch(["SELECT 1"])


async def test_a_batch_that_sqlite_gave_up_leaves_nothing(folder: Path) -> None:
    async with played(folder) as (worker, _):
        db = worker.env.DB
        await db.prepare("INSERT INTO items (name) VALUES ('a')").run()
        rolls = db.prepare("INSERT OR ROLLBACK INTO items (name) VALUES ('a')")
        with pytest.raises(Exception, match="D1_ERROR"):
            await db.batch([db.prepare("INSERT INTO items (name) VALUES ('b')"), rolls])
        assert await db.prepare("SELECT count(*) AS n FROM items").first("n") == 1


@pytest.mark.parametrize(
    ("sql", "params", "words"),
    [
        ("SELECT * FROM absent", (), "D1_ERROR: no such table: absent: SQLITE_ERROR"),
        ("SELEC 1", (), 'D1_ERROR: near "SELEC": syntax error'),
        ("SELECT ?", (), "D1_ERROR"),
        ("BEGIN", (), "D1_ERROR"),
        ("PRAGMA journal_mode = OFF", (), "D1_ERROR"),
        ("SELECT ?", ("x" * 2_100_000,), "D1_ERROR"),
    ],
)
async def test_what_sqlite_does_not_take_is_an_error_of_d1(folder: Path, sql: str, params: Any, words: str) -> None:
    async with played(folder) as (worker, _):
        with pytest.raises(Exception, match=words):
            await worker.env.DB.prepare(sql).bind(*params).run()
        assert await worker.env.DB.prepare("SELECT 1 AS n").first("n") == 1


async def test_exec_and_sessions(folder: Path) -> None:
    async with played(folder) as (worker, _):
        db = worker.env.DB
        assert (
            await db.exec("INSERT INTO items (name) VALUES ('a');\nINSERT INTO items (name) VALUES ('b')")
        ).count == 2
        with pytest.raises(Exception, match="UNIQUE"):
            await db.exec("INSERT INTO items (name) VALUES ('c');\nINSERT INTO items (name) VALUES ('a')")
        session = db.withSession("first-primary")
        assert session.getBookmark() is None
        assert await session.prepare("SELECT count(*) AS n FROM items").first("n") == 2, "an exec is one transaction"
        assert db.withSession(session.getBookmark()).getBookmark() == session.getBookmark() is not None
        with pytest.raises(NotImplementedError, match="dump"):
            db.dump()


async def test_migrations_are_had_once_and_one_that_fails_is_named(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'd1.db'}"
    async with played(folder, store=url) as (worker, _):
        await worker.env.DB.prepare("INSERT INTO items (name) VALUES ('a')").run()
    (folder / "migrations" / "0002_colour.sql").write_text("ALTER TABLE items ADD COLUMN colour TEXT DEFAULT 'red';")
    async with played(folder, store=url) as (worker, world):
        assert await worker.env.DB.prepare("SELECT colour FROM items").first("colour") == "red"
        applied = await worker.env.DB.prepare("SELECT name FROM d1_migrations ORDER BY id").raw()
        assert applied.to_py() == [["0001_items.sql"], ["0002_colour.sql"]]
        await world.crash()
        await world.restart()
        assert await worker.env.DB.prepare("SELECT count(*) AS n FROM d1_migrations").first("n") == 2
    (folder / "migrations" / "0003_wrong.sql").write_text("CREATE TABLE more (a);\nALTER TABLE absent ADD COLUMN x;")
    async with played(folder, store=url) as (worker, _):
        with pytest.raises(Exception, match=r"D1_ERROR: .*migration 0003_wrong.sql: .*no such table: absent"):
            await worker.env.DB.prepare("SELECT 1").run()
    (folder / "migrations" / "0003_wrong.sql").unlink()
    async with played(folder, store=url) as (worker, _):
        tables = await worker.env.DB.prepare("SELECT name FROM sqlite_schema WHERE name = 'more'").all()
        assert tables.results == [], "of a migration that failed nothing is there"


async def test_a_database_crosses_nodes_and_is_seen(folder: Path) -> None:
    async with played(folder, nodes=2) as (worker, world):
        for number in range(3):
            await worker.env.DB.prepare("INSERT INTO items (name) VALUES (?)").bind(str(number)).run()
            await world.crash()
            await world.restart()
        assert await worker.env.DB.prepare("SELECT count(*) AS n FROM items").first("n") == 3
        assert [info.key async for info in worker.app.objects(cls_of(worker))] == ["shop"]


def test_a_folder_of_migrations_that_is_not_there_is_named(folder: Path) -> None:
    from wakeful.compat.workers import load

    (folder / "wrangler.toml").write_text(WRANGLER + '\nmigrations_dir = "elsewhere"\n')
    with pytest.raises(Exception, match=r"DB has its migrations in .*elsewhere, which is no folder"):
        load(folder)
