"""`wakeful sql`: looking into the database of an object that sleeps, and having its owner change it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful import App, DurableObject
from wakeful.cli.app_loader import load
from wakeful.cli.session import actor
from wakeful.store.protocol import Range, Store
from wakeful.values.commits import PAGES
from wakeful.values.errors import BadSql, LimitExceeded, Undecodable, UnknownObject
from wakeful.values.ids import ObjectId
from wakeful.views import databases
from wakeful.views.view import View

wakeful = pytest.fixture(make_stage)

PROGRAM = """
from wakeful import App, DurableObject

app = App()

@app.object
class Shelf(DurableObject):
    async def on_wake(self):
        await self.storage.put("wakes", await self.storage.get("wakes", 0) + 1)

    async def fill(self):
        self.sql("CREATE TABLE books (id INTEGER PRIMARY KEY, name TEXT UNIQUE, cover BLOB)")
        self.sql("CREATE VIEW names AS SELECT name FROM books")
        self.sql("CREATE VIRTUAL TABLE found USING fts5(name)")
        self.sql("INSERT INTO books (name, cover) VALUES ('a', x'00ff'), ('b', NULL), ('c', zeroblob(40))")

    async def label(self):
        await self.storage.put("label", "oak")
"""
OAK = ObjectId("Shelf", "oak")
BOUNDS = databases.LookBounds(rows=100, bytes=1_000_000, ms=1_000)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
def stage(wakeful: Stage) -> Stage:
    (wakeful.path / "app.py").write_text(PROGRAM)
    return wakeful


def fill(stage: Stage) -> None:
    async def do() -> None:
        app = load(str(stage.path / "app.py")).app
        async with app.run(f"sqlite:{stage.path}/wakeful.db") as node:
            await node.send(OAK, "fill", (), {})
            await node.send(ObjectId("Shelf", "empty"), "label", (), {})

    asyncio.run(do())


def wakes(stage: Stage) -> Any:
    return stage("show", "Shelf", "oak", "--json").json["storage"]["wakes"]


# looking


def test_a_query_is_a_table_and_wakes_nothing(stage: Stage) -> None:
    fill(stage)
    done = stage("sql", "Shelf", "oak", "SELECT id, name, cover FROM books WHERE id < 3")
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()[2:]] == [["1", "a", "X'00ff'"], ["2", "b", "NULL"]]
    said = stage("sql", "Shelf", "oak", "SELECT id, cover, id FROM books LIMIT 1", "--json").json
    assert said == {"columns": ["id", "cover", "id"], "rows": [[1, "AP8=", 1]], "is_cut": False}
    assert stage("sql", "Shelf", "oak", "SELECT 1 WHERE 0").words == "no rows"
    assert wakes(stage) == 1
    assert stage("audit", "--json").json["rows"] == []


def test_without_a_query_the_tables_are_listed(stage: Stage) -> None:
    fill(stage)
    tables = {table["name"]: table for table in stage("sql", "Shelf", "oak", "--json").json}
    assert {name: (table["type"], table["rows"]) for name, table in tables.items()} == {
        "books": ("table", 3),
        "found": ("virtual", 0),
        "names": ("view", None),
    }
    assert tables["books"]["columns"][1] == {"name": "name", "type": "TEXT"}
    assert "id INTEGER, name TEXT, cover BLOB" in stage("sql", "Shelf", "oak").words


def test_it_looks_beside_the_process_that_runs_the_store(stage: Stage) -> None:
    fill(stage)
    with stage.running():
        assert stage("sql", "Shelf", "oak", "SELECT count(*) AS n FROM books", "--json").json["rows"] == [[3]]
    assert wakes(stage) == 1


def test_a_long_result_is_cut_and_says_so(stage: Stage) -> None:
    fill(stage)
    done = stage("sql", "Shelf", "oak", "SELECT name FROM books", "-n", "2")
    assert done.words.endswith("the first 2 rows; -n shows more")
    assert stage("sql", "Shelf", "oak", "SELECT name FROM books", "-n", "2", "--json").json["is_cut"] is True


def test_names_of_columns_are_safe_for_a_terminal(stage: Stage) -> None:
    fill(stage)
    assert "\x1b" not in stage("sql", "Shelf", "oak", 'SELECT 1 AS "\x1b[31mred"').out


def test_a_sealed_store_is_opened_with_its_keys(stage: Stage) -> None:
    stage.monkeypatch.setenv("WAKEFUL_KEYS", stage("keys", "new").out.split()[-1])
    fill(stage)
    assert stage("sql", "Shelf", "oak", "SELECT name FROM books", "--json").json["rows"] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELEKT 1", "sql"),
        ("SELECT * FROM nowhere", "sql"),
        ("", "sql.text"),
        ("SELECT '\udcff'", "sql.text"),
        ("SELECT 1; SELECT 2", "sql.text"),
        ("BEGIN", "sql.refused"),
        ("ATTACH 'x.db' AS x", "sql.refused"),
        ("PRAGMA query_only = OFF", "sql.refused"),
        ("PRAGMA foreign_keys = OFF", "sql.refused"),
        ("DELETE FROM books", "sql.read_only"),
        ("WITH n AS (SELECT 1) INSERT INTO books (id) SELECT * FROM n", "sql.read_only"),
        ("CREATE TABLE t (x)", "sql.read_only"),
        ("VACUUM", "sql.refused"),
    ],
)
def test_what_is_wrong_or_would_write_is_refused(stage: Stage, query: str, code: str) -> None:
    fill(stage)
    done = stage("sql", "Shelf", "oak", query, "--json")
    assert (done.code, json.loads(done.out)["error"]["code"]) == (2, code)
    assert stage("sql", "Shelf", "oak", "SELECT count(*) FROM books", "--json").json["rows"] == [[3]]


def test_what_is_not_there_says_so(stage: Stage) -> None:
    fill(stage)
    none, unknown = stage("sql", "Shelf", "empty"), stage("sql", "Shelf", "oka", "SELECT 1")
    assert (none.code, unknown.code) == (1, 1)
    assert "[sql.none]" in none.err
    assert "did you mean 'oak'" in unknown.err
    assert stage("sql", "Shelf", "oak", "SELECT 1", "--app", "app.py").code == 2
    assert stage("sql", "Shelf", "oak", "--write").code == 2


# the bounds


@asynccontextmanager
async def view_of_oak() -> AsyncIterator[tuple[View, Store]]:
    app = App()

    class Shelf(DurableObject):
        async def fill(self) -> None:
            self.sql("CREATE TABLE books (name TEXT)")
            self.sql("INSERT INTO books VALUES (?), (?)", "x" * 600, "y" * 600)

    app.object(Shelf)
    async with app.world() as world:
        await world.get(Shelf, "oak").fill()
        view = View.of_node(world.node)
        yield view, view.store_of(OAK)


async def test_a_statement_without_an_end_is_ended() -> None:
    ticks = count(step=100)  # each look at the clock is a tenth of a second later
    async with view_of_oak() as (view, _):
        with pytest.raises(LimitExceeded, match="more than 1000 ms") as ended:
            await (await databases.look_into(view, OAK, now=lambda: next(ticks), bounds=BOUNDS)).query(ENDLESS)
    assert ended.value.code == "limit.sql_ms"


async def test_rows_and_bytes_are_bounded_but_one_row_is_shown() -> None:
    async with view_of_oak() as (view, _):
        for bounds in (BOUNDS._replace(bytes=1_000), BOUNDS._replace(bytes=1), BOUNDS._replace(rows=1)):
            answer = await (await databases.look_into(view, OAK, now=view.now, bounds=bounds)).query(
                "SELECT name FROM books"
            )
            assert (answer.rows, answer.is_cut) == ([("x" * 600,)], True)
        rest = await (await databases.look_into(view, OAK, now=view.now, bounds=BOUNDS)).rows_of("books", offset=1)
        assert (rest.rows, rest.is_cut) == ([("y" * 600,)], False)


async def test_a_database_past_the_bound_is_not_read() -> None:
    async with view_of_oak() as (view, store):
        size = await databases.size_of(store, OAK)
        assert size == 4_096 * len(await store.scan(OAK, PAGES, Range()))
        for most in (size, size - 1):
            bounds = BOUNDS._replace(database_bytes=most)
            look = databases.look_into(view, OAK, now=view.now, bounds=bounds)
            if most == size:
                assert [table["name"] for table in (await (await look).tables()).tables] == ["books"]
            else:
                with pytest.raises(LimitExceeded, match="export --sql"):
                    await look
        with pytest.raises(UnknownObject):
            await databases.look_into(view, ObjectId("Shelf", "none"), now=view.now, bounds=BOUNDS)


async def test_sqlite_runs_in_a_thread_of_its_own() -> None:
    threads = set[int]()

    def now() -> int:
        threads.add(threading.get_ident())
        return 0

    async with view_of_oak() as (view, _):
        await (await databases.look_into(view, OAK, now=now, bounds=BOUNDS)).query("SELECT 1")
    assert threads
    assert threading.get_ident() not in threads


async def test_pages_that_are_no_database_are_an_error_with_a_name() -> None:
    class Torn:
        def __init__(self, pages: list[bytes]) -> None:
            self.pages = pages

        async def scan(self, *_: Any) -> list[tuple[str, bytes]]:
            return [(f"{number:08x}", page) for number, page in enumerate(self.pages, 1)]

    noise = bytes(28) + (1).to_bytes(4, "big") + b"\xff" * 4_064
    for pages, error in (([noise], BadSql), ([noise, noise], Undecodable)):
        store: Any = Torn(pages)
        with pytest.raises(error):
            await (await databases.look_into(View.of_store(store, 0), OAK, now=lambda: 0, bounds=BOUNDS)).tables()


# writing


def test_writing_goes_through_the_running_node_and_leaves_a_row(stage: Stage) -> None:
    fill(stage)
    with stage.running():
        query = "UPDATE books SET name = name || '!' WHERE id < 3; DELETE FROM books WHERE id = 3 RETURNING id"
        done = stage("sql", "Shelf", "oak", query, "--write", "--json")
        assert done.json == {"columns": ["id"], "rows": [[3]], "is_cut": False, "written": 3}
        failed = stage("sql", "Shelf", "oak", "DELETE FROM books; INSERT INTO nowhere VALUES (1)", "--write")
        assert (failed.code, "no such table" in failed.err) == (2, True)
        assert stage("sql", "Shelf", "oka", "DELETE FROM books", "--write").code == 1
    assert stage("sql", "Shelf", "oak", "SELECT name FROM books", "--json").json["rows"] == [["a!"], ["b!"]]
    rows = stage("audit", "--json").json["rows"]
    assert [(row["actor"], row["act"], row["target"], row["outcome"]) for row in rows] == [
        (actor(), "sql.write", "Shelf/oak", "failed"),
        (actor(), "sql.write", "Shelf/oak", "done"),
    ]
    assert rows[1]["detail"] == {"query": query}


def test_writing_without_a_process_wants_the_program(stage: Stage) -> None:
    fill(stage)
    insert = "INSERT INTO books (name) VALUES ('d')"
    refused = stage("sql", "Shelf", "oak", insert, "--write")
    assert (refused.code, "--app" in refused.err) == (3, True)
    done = stage("sql", "Shelf", "oak", insert, "--write", "--app", "app.py")
    assert (done.code, done.words) == (0, "Shelf/oak: 1 row written")
    assert stage("sql", "Shelf", "oak", "SELECT count(*) FROM books", "--json").json["rows"] == [[4]]


def test_what_writes_is_not_called_past_the_audit(stage: Stage) -> None:
    fill(stage)
    with stage.running():
        refused = stage("call", "Shelf", "oak", "sql.write", "DELETE FROM books")
        assert (refused.code, "wakeful sql --write" in refused.err) == (2, True)
    assert stage("sql", "Shelf", "oak", "SELECT count(*) FROM books", "--json").json["rows"] == [[3]]


def test_a_list_of_tables_that_is_not_whole_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(stage)
    monkeypatch.setattr(databases, "TABLES_MAX", 2)
    assert "the first 2 of 3 tables" in stage("sql", "Shelf", "oak").out
    assert len(stage("sql", "Shelf", "oak", "--json").json) == 2
