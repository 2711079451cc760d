"""Layer 2. Up to where does a local copy go, and of which prefix?

It stands in the file itself and is written in the transaction of what it is about, so that a copy of the file, taken at
whatever moment, says of itself what it holds.
"""

import sqlite3
from typing import NamedTuple
from urllib.parse import quote

from wakeful.store.sqlite import schema
from wakeful.values.errors import StoreError, Undecodable

_MAKE = """CREATE TABLE IF NOT EXISTS bucket (
  only INTEGER PRIMARY KEY CHECK (only = 1), birth TEXT NOT NULL, slot INTEGER NOT NULL
)"""


class Position(NamedTuple):
    """All that the log has up to that slot. `birth` is the prefix's own name."""

    birth: str
    slot: int


def make(db: sqlite3.Connection, position: Position) -> None:
    db.execute(_MAKE)
    db.execute("REPLACE INTO bucket VALUES (1, ?, ?)", position)


def move(db: sqlite3.Connection, slot: int) -> None:
    db.execute("UPDATE bucket SET slot = ?", (slot,))


def position_of(path: str, *, is_checked: bool = True) -> Position | None:
    """None of a file that is not there, is damaged, or is no copy of a bucket."""
    try:
        db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    except sqlite3.Error:
        return None
    try:
        if is_checked and db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            return None
        found = db.execute("SELECT birth, slot FROM bucket").fetchone()
        return None if found is None else Position(*found)
    except sqlite3.Error:
        return None
    finally:
        db.close()


def check_schema(path: str, shown: str) -> None:
    """Pass a copy with the tables of this version and nothing else: a trigger more would run with our rights."""
    db = sqlite3.connect(path)
    try:
        schema.check_version(db, shown)
        if _objects(db) != _own_objects():
            raise _foreign(shown)
    finally:
        db.close()


def check_code(path: str, shown: str) -> None:
    """Pass a file that was fetched just now, before anything of it is asked, if nothing runs in it that is not ours.

    A view that never ends would hold up whoever reads it; whether all else is as it should be, `check_schema` says.
    """
    db = sqlite3.connect(path)
    try:
        views, triggers = _objects(db, "type = 'view'"), _objects(db, "type = 'trigger'")
        if not views and triggers <= _own_objects():
            return
        if not views:
            schema.check_version(db, shown)  # a newer Wakeful may have other triggers
    except sqlite3.DatabaseError as error:
        raise Undecodable(f"{shown}: the newest snapshot is no database ({error}); restore an older version") from None
    finally:
        db.close()
    raise _foreign(shown)


def _foreign(shown: str) -> StoreError:
    return StoreError(
        f"{shown} has tables or triggers that Wakeful did not make; restore it from a backup", code="store.foreign"
    )


def _own_objects() -> set[tuple[str, str]]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        schema.apply(db, *schema.MIGRATIONS, now=0)
        make(db, Position("", 0))
        return _objects(db)
    finally:
        db.close()


def _objects(db: sqlite3.Connection, which: str = "TRUE") -> set[tuple[str, str]]:
    rows = db.execute(f"SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND {which}")
    return {(name, sql or "") for name, sql in rows}
