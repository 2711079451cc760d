"""Is what a database gets what a reader reads, and is a file of another version told apart?"""

import os
import re
import sqlite3
from pathlib import Path

import pytest

from wakeful.store.sqlite import SqliteStore, schema
from wakeful.values.errors import NotADatabase, SchemaTooNew, SchemaTooOld, StoreError

NOW = 1_760_000_000_000
SQLITE = Path(schema.__file__).parent


def shape(db: sqlite3.Connection) -> dict[str, str]:
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    # ALTER TABLE leaves other spaces around the commas and brackets than a person does.
    return {name: re.sub(r"\s+(?=[,)])|(?<=\()\s+", "", re.sub(r"\s+", " ", sql)) for name, sql in rows}


def change(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


async def made(path: Path) -> None:
    store = SqliteStore(str(path))
    await store.open(now=NOW)
    await store.close()


def test_the_sqlite_schema_equals_its_migrations() -> None:
    read, given = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    read.executescript((SQLITE / "schema.sql").read_text())
    for step in schema.MIGRATIONS:
        schema.apply(given, step, now=NOW)
    assert shape(read) == shape(given)
    read.close()
    given.close()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [step.number for step in schema.MIGRATIONS] == list(range(1, len(schema.MIGRATIONS) + 1))
    assert all(re.fullmatch(r"\d{4}_[a-z_]+", step.name) for step in schema.MIGRATIONS)


async def test_a_missing_or_empty_file_gets_the_schema(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    for name in ("missing.db", "empty.db"):
        await made(tmp_path / name)
        db = sqlite3.connect(tmp_path / name)
        assert db.execute("PRAGMA user_version").fetchone()[0] == schema.MIGRATIONS[-1].number
        assert db.execute("SELECT name, applied_at FROM migrations").fetchall() == [
            (step.name, NOW) for step in schema.MIGRATIONS
        ]
        assert db.execute("SELECT count(*), min(shard), max(shard) FROM shards").fetchone() == (256, 0, 255)
        db.close()


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    await made(tmp_path / "x.db")
    change(tmp_path / "x.db", "PRAGMA user_version = 99")
    for readonly in (False, True):
        with pytest.raises(SchemaTooNew, match=r"has schema 99, .*upgrade Wakeful"):
            await SqliteStore(str(tmp_path / "x.db")).open(now=NOW, readonly=readonly)
    with pytest.raises(SchemaTooNew, match=r"has schema 99, .*upgrade Wakeful"):
        await SqliteStore(str(tmp_path / "x.db")).migrate(now=NOW)


async def test_an_older_schema_is_refused_until_it_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.db"
    await made(path)
    latest = schema.MIGRATIONS[-1].number
    step = schema.Migration(latest + 1, f"{latest + 1:04}_more", "CREATE TABLE more (x INTEGER);")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    store = SqliteStore(str(path))
    for readonly in (False, True):
        with pytest.raises(SchemaTooOld, match="wakeful migrate"):
            await store.open(now=NOW, readonly=readonly)
    assert await store.migrate(now=NOW + 1) == [step.name]
    assert await store.migrate(now=NOW + 2) == []
    await store.open(now=NOW)
    assert await store.count("objects") == 0
    await store.close()


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.db"
    await made(path)
    db = sqlite3.connect(path)
    before = shape(db)
    bad = schema.Migration(99, "0099_bad", "CREATE TABLE more (x INTEGER); INSERT INTO nowhere VALUES (1);")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, bad))
    with pytest.raises(Exception, match="nowhere"):
        await SqliteStore(str(path)).migrate(now=NOW)
    assert shape(db) == before
    assert db.execute("PRAGMA user_version").fetchone()[0] == schema.MIGRATIONS[-2].number
    db.close()


async def test_what_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes, and not a database at all.")
    for call in (
        lambda store: store.open(now=NOW),
        lambda store: store.open(now=NOW, readonly=True),
        lambda store: store.migrate(now=NOW),
    ):
        with pytest.raises(NotADatabase, match=r"notes\.txt is not an SQLite database; name another file"):
            await call(SqliteStore(str(path)))
    assert os.listdir(tmp_path) == ["notes.txt"]
    with pytest.raises(NotADatabase, match="is a folder"):
        await SqliteStore(str(tmp_path)).open(now=NOW)


async def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(NotADatabase, match="restore it"):
        await SqliteStore(str(path)).open(now=NOW)


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    change(path, "CREATE TABLE theirs (x)")
    with pytest.raises(NotADatabase, match="another program's"):
        await SqliteStore(str(path)).open(now=NOW)
    with pytest.raises(NotADatabase, match="another program's"):
        await SqliteStore(str(path)).migrate(now=NOW)
    db = sqlite3.connect(path)
    assert shape(db) == {"theirs": "CREATE TABLE theirs (x)"}
    db.close()


async def test_a_file_that_is_missing_or_empty_cannot_be_opened_read_only(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        await SqliteStore(str(tmp_path / "missing.db")).open(now=NOW, readonly=True)
    assert os.listdir(tmp_path) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="is empty"):
        await SqliteStore(str(tmp_path / "empty.db")).open(now=NOW, readonly=True)
