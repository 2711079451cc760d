"""`wakeful export --sql`: the database of one object as a file for SQLite."""

import asyncio
import sqlite3

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful import App, DurableObject

wakeful = pytest.fixture(make_stage)


class Shelf(DurableObject):
    async def fill(self) -> None:
        self.sql("CREATE TABLE books (name TEXT UNIQUE)")
        self.sql("INSERT INTO books VALUES ('a'), ('b')")

    async def label(self) -> None:
        await self.storage.put("label", "oak")


async def _fill(url: str) -> None:
    app = App()
    app.object(Shelf)
    async with app.run(url):
        await app.get(Shelf, "oak").fill()
        await app.get(Shelf, "empty").label()


def test_the_file_is_the_database(wakeful: Stage) -> None:
    url = f"sqlite:{wakeful.path}/shelves.db"
    asyncio.run(_fill(url))
    done = wakeful("export", "Shelf", "oak", "--sql", "oak.db", "--store", url)
    assert (done.code, done.err) == (0, "")
    assert "the database of Shelf/oak" in done.words
    db = sqlite3.connect(wakeful.path / "oak.db")
    assert db.execute("SELECT name FROM books ORDER BY name").fetchall() == [("a",), ("b",)]
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    said = wakeful("export", "Shelf", "oak", "--sql", "oak.db", "--store", url, "--json").json
    assert said["bytes"] == (wakeful.path / "oak.db").stat().st_size


def test_an_object_without_one_says_so(wakeful: Stage) -> None:
    url = f"sqlite:{wakeful.path}/shelves.db"
    asyncio.run(_fill(url))
    done = wakeful("export", "Shelf", "empty", "--sql", "empty.db", "--store", url)
    assert done.code != 0
    assert "no database" in done.err
    assert not (wakeful.path / "empty.db").exists()
    assert wakeful("export", "Shelf", "oak", "--sql", "a.db", "-o", "b.jsonl", "--store", url).code != 0


def test_export_and_show_do_not_deny_it(wakeful: Stage) -> None:
    url = f"sqlite:{wakeful.path}/shelves.db"
    asyncio.run(_fill(url))
    done = wakeful("export", "Shelf", "oak", "-o", "oak.jsonl", "--store", url)
    assert "database pages" in done.words
    assert "nothing but its name" not in done.words
    said = wakeful("export", "Shelf", "oak", "-o", "oak.jsonl", "--store", url, "--json").json
    assert said["database"] > 1
    shown = wakeful("show", "Shelf", "oak", "--store", url).words
    assert "wakeful sql Shelf oak looks into it" in shown
    assert "nothing stored" not in shown
    assert "database" not in wakeful("show", "Shelf", "empty", "--store", url).words
