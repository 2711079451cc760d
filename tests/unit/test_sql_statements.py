"""What a text of SQL is taken for before SQLite sees it, what values become, and when a statement ends."""

import asyncio
import enum
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from wakeful import App, DurableObject, Limits
from wakeful.sql import connection, feature, paged_connection
from wakeful.sql.bindings import bind
from wakeful.sql.connection import ImageConnection
from wakeful.sql.guard import PRAGMAS
from wakeful.sql.paged_connection import PagedConnection
from wakeful.sql.result import SqlRows
from wakeful.sql.statement import TEXT_CHARS_MAX, split
from wakeful.values.errors import BadSql, BadValue, DeadlineExceeded, LimitExceeded

TRIGGER = "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; DELETE FROM b; END"


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        (" ; SELECT 1;; -- done; really\n", ["SELECT 1"]),
        (
            "SELECT ';'; SELECT \"a;b\", [c;d], `e;f`, 'it''s;'",
            ["SELECT ';'", "SELECT \"a;b\", [c;d], `e;f`, 'it''s;'"],
        ),
        (f"{TRIGGER}; SELECT 2", [TRIGGER, "SELECT 2"]),
        ("/* a; */ SELECT 1 /* b */; SELECT 2", ["/* a; */ SELECT 1 /* b */", "SELECT 2"]),
        ("SELECT 'no end; SELECT 2", ["SELECT 'no end; SELECT 2"]),
    ],
)
def test_a_text_is_cut_where_sqlite_would(text: str, statements: list[str]) -> None:
    assert [one.sql for one in split(text)] == statements


@pytest.mark.parametrize("text", ["", " ;; ", "-- nothing", 5, "SELECT 1\0; DROP TABLE a"])
def test_what_is_no_statement_is_refused(text: Any) -> None:
    with pytest.raises(BadSql):
        split(text)


def test_a_text_has_a_limit() -> None:
    assert len(split("SELECT 1" + " " * (TEXT_CHARS_MAX - 8))) == 1
    with pytest.raises(LimitExceeded):
        split("SELECT 1" + " " * TEXT_CHARS_MAX)


@pytest.mark.parametrize(
    ("text", "only_reads"),
    [
        ("select 1", True),
        ("VALUES (1)", True),
        ("EXPLAIN DELETE FROM a", True),
        ("WITH a AS (SELECT replace('x', 'y', 'INSERT')) SELECT * FROM a", True),
        ("WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a", False),
        ("with a as (select 1) replace into b select * from a", False),
        ("PRAGMA table_info(a)", True),
        ("PRAGMA main.defer_foreign_keys = ON", False),
        ("PRAGMA optimize", False),
        ("REINDEX", False),
        ("CREATE TABLE a (x)", False),
        ("VACUUM", False),
    ],
)
def test_who_only_reads_is_known(text: str, only_reads: bool) -> None:
    assert split(text)[0].only_reads is only_reads


class Colour(enum.Enum):
    RED = "red"


class Name(str):
    pass


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, None),
        (True, 1),
        (2**63 - 1, 2**63 - 1),
        (1.5, 1.5),
        ("é", "é"),
        (Name("ann"), "ann"),
        (b"\0", b"\0"),
        (bytearray(b"ab"), b"ab"),
        (datetime(2026, 3, 29, 9, tzinfo=UTC), "2026-03-29T09:00:00+00:00"),
        (date(2026, 3, 29), "2026-03-29"),
        (timedelta(days=1, hours=2), "P1DT7200S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
    ],
)
def test_values_become_what_sqlite_has(given: Any, stored: Any) -> None:
    assert bind((given,), {}) == (stored,)
    assert bind((), {"n": given}) == {"n": stored}


@pytest.mark.parametrize("given", [2**63, -(2**63) - 1, float("nan"), [1], {"a": 1}, object(), "\ud800"])
def test_values_that_it_has_not_are_refused(given: Any) -> None:
    with pytest.raises(BadValue, match="argument 1"):
        bind((given,), {})


def test_arguments_are_by_place_or_by_name() -> None:
    with pytest.raises(BadSql):
        bind((1,), {"n": 2})


@dataclass
class StockedItem:
    name: str
    at: datetime
    is_new: bool


class Packed(msgspec.Struct):
    name: str


ROWS = SqlRows(
    ["name", "at", "is_new"], [("cup", "2026-03-29T09:00:00+00:00", 1), ("pot", "2026-03-29T10:00:00Z", 0)], 0
)


def test_rows_become_values_of_types() -> None:
    first, second = ROWS.all(StockedItem)
    assert first == StockedItem("cup", datetime(2026, 3, 29, 9, tzinfo=UTC), True)
    assert second.is_new is False
    assert ROWS.all(Packed) == [Packed("cup"), Packed("pot")]
    assert (ROWS.value(), ROWS.read, len(ROWS), ROWS.written) == ("cup", 2, 2, 0)
    assert ROWS.first() == {"name": "cup", "at": "2026-03-29T09:00:00+00:00", "is_new": 1}
    assert ROWS.first(Packed) == Packed("cup")
    with pytest.raises(BadSql, match="there are 2"):
        ROWS.one()
    with pytest.raises(BadValue, match="StockedItem"):
        SqlRows(["name"], [("cup",)], 0).all(StockedItem)
    none = SqlRows(["name"], [], 0)
    assert (none.first(), none.value(), none.all(), none.first(Packed)) == (None, None, [], None)
    assert SqlRows(["name"], [("cup",)], 0).one(Packed) == Packed("cup")


def test_rows_become_pydantic_models() -> None:
    pydantic = pytest.importorskip("pydantic")
    model: Any = pydantic.create_model("Model", name=(str, ...), at=(datetime, ...))
    assert ROWS.all(model)[0].at == datetime(2026, 3, 29, 9, tzinfo=UTC)


class Shop(DurableObject):
    async def run(self, query: str, *arguments: Any) -> Any:
        return self.sql(query, *arguments).raw()

    async def name(self, query: str) -> Any:
        return self.sql("SELECT :query", query=query).value()

    async def lacks(self) -> Any:
        return self.sql("SELECT :n, :m", n=1).value()

    async def broken(self) -> Any:
        return self.sql("SELECT CAST(x'ff' AS TEXT)").value()


FOREVER = "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture(params=[ImageConnection, PagedConnection])
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setattr(feature, "connection_type", lambda: request.param)
    app = App(limits=Limits(sql_ms=5_000))
    app.object(Shop)
    return app


async def test_a_runaway_statement_ends_at_its_limit_or_the_deadline_of_its_call(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.world() as world:
        databases = world.node.features["sql"]
        clock, ticks = databases.now, iter(range(10**9))
        monkeypatch.setattr(databases, "now", lambda: clock() + 100 * next(ticks))  # each look takes 100 ms
        with pytest.raises(LimitExceeded) as caught:
            await world.get(Shop, "a").run(FOREVER)
        assert caught.value.code == "limit.sql_ms"
        ticks = iter(range(10**9))
        with pytest.raises(DeadlineExceeded):
            await world.get(Shop, "b", deadline="1s").run(FOREVER)
        ticks = iter(range(10**9))
        await world.get(Shop, "c").run("CREATE TABLE t (x)")
        with pytest.raises(LimitExceeded):
            await world.get(Shop, "c").run(f"INSERT INTO t {FOREVER}")
        assert await world.get(Shop, "c").run("SELECT * FROM t") == []


@pytest.mark.parametrize(
    "query",
    [
        "BEGIN",
        "begin immediate",
        "COMMIT",
        "END",
        "ROLLBACK",
        "SAVEPOINT a",
        "/* */ -- x\n RELEASE a",
        "SELECT 1; COMMIT",
        "EXPLAIN COMMIT",
        "ATTACH ':memory:' AS x",
        "DETACH main",
        "VACUUM INTO 'x.db'",
        "SELECT load_extension('x')",
        "CREATE TEMP TABLE x (y)",
        "CREATE TEMPORARY VIEW x AS SELECT 1",
        "CREATE TABLE _cf_x (y)",
        'CREATE TABLE "_WAKEFUL_x" (y)',
        "CREATE TABLE a (b); ALTER TABLE a RENAME TO _cf_a",
        "CREATE TABLE a (b); CREATE INDEX _cf_i ON a (b)",
        "CREATE VIRTUAL TABLE _cf_f USING fts5 (x)",
        "PRAGMA journal_mode = WAL",
        "PRAGMA writable_schema = ON",
        "PRAGMA max_page_count = 10000000",
        "SELECT * FROM pragma_database_list",
        "PRAGMA query_only = OFF",
    ],
)
async def test_what_is_refused(app: App, query: str) -> None:
    async with app.world() as world:
        with pytest.raises(BadSql) as caught:
            await world.get(Shop, "a").run(query)
        assert caught.value.code == "sql.refused"
        assert await world.get(Shop, "a").run("SELECT 1") == [(1,)]


async def test_what_sqlite_does_not_understand_says_so(app: App) -> None:
    async with app.world() as world:
        for query in ("SELEC", "SELECT * FROM nothing", "SELECT ?", "SELECT :n", "SELECT 'a"):
            with pytest.raises(BadSql, match="Shop/a") as caught:
                await world.get(Shop, "a").run(query)
            assert caught.value.code == "sql"
        for act in (world.get(Shop, "a").lacks, world.get(Shop, "a").broken):
            with pytest.raises(BadSql, match="Shop/a"):
                await act()
        assert await world.get(Shop, "a").name("any name will do") == "any name will do"
        with pytest.raises(LimitExceeded):
            await world.get(Shop, "a").run("SELECT zeroblob(3000000)")
        with pytest.raises((LimitExceeded, BadSql)):
            await world.get(Shop, "a").run("SELECT 'x' LIKE ?", "%a" * 60)


def test_the_page_names_every_pragma() -> None:
    from tests.tidy import tidy_source as source

    page = (source.ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    assert [name for name in PRAGMAS if f"`{name}`" not in page] == []


async def test_answers_of_queries_travel(app: App) -> None:
    async with app.world() as world:
        assert await world.get(Shop, "a").run("SELECT json(?)", json.dumps({"a": [1]})) == [('{"a":[1]}',)]


class Library(DurableObject):
    async def add(self, pause: float) -> int:
        self.sql("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text)")
        async with self.ctx.transaction():
            self.sql("INSERT INTO words VALUES ('a book')")
            await asyncio.sleep(pause)
        return int(self.sql("SELECT count(*) FROM words WHERE words MATCH 'book'").value())


async def test_what_is_written_when_a_block_ends_has_time_of_its_own(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """FTS5 writes when a savepoint is released: long after the time of the last statement was over."""
    for module in (connection, paged_connection):
        monkeypatch.setattr(module, "TICK_STEPS", 1)
    app.object(Library)
    async with app.world() as world:
        assert await world.get(Library, "a").add(20) == 1
        assert await world.get(Library, "a").add(20) == 2
