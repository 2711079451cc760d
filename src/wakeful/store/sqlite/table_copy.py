"""Layer 2. How do whole tables get out of an SQLite file, and into one?

The indexes and triggers are dropped before rows come in and made again after: the same SQL, in the same transaction.
A million timers then cost one sort instead of a million descents into a tree larger than the cache.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from wakeful.store.sqlite import schema
from wakeful.store.sqlite.owner import FileOwnership
from wakeful.store.sqlite.statements import ENTRY, PARKED, TIMER
from wakeful.store.sqlite.writer import down, refusal
from wakeful.store.table_copy import Marks, Pages, Row, clean_text
from wakeful.values.errors import StoreError
from wakeful.values.ids import ObjectId, shard_of

# Of each table: what it is called here, and its columns in the order of the plain rows.
_TABLES = {
    "objects": ("objects", "class, key, created_at, active_at, rows, bytes"),
    "storage": ("kv", "class, key, space, name, value"),
    "timers": ("timers", f"class, key, name, {TIMER}"),
    "ledger": ("ledger", f"number, {ENTRY}"),
    "parked": ("parked", f"number, {PARKED}"),
    "requests": ("requests", "class, key, request, fingerprint, answer, expires_at"),
    "receipts": ("receipts", "id, number, answer, expires_at"),
}
_WITH_SHARD = ("objects", "timers")
_RANK = {"timers": 9, "parked": 10}  # where `rank` stands, which is minus the priority


class SqliteCopying:
    """The file, owned for as long as the copy lasts."""

    def __init__(self, path: str, *, writes: bool, now: int) -> None:
        """Take the file, or `FileOwned` with the name of who has it."""
        self._writes = writes
        self._dropped: list[str] = []
        if not Path(path).exists():
            raise StoreError(f"{path} does not exist; name the file of a store")
        schema.check_header(path)
        self._ownership = FileOwnership(path, now=now)
        try:
            self._db = self._connect(path)
        except BaseException as error:
            self._ownership.release()
            raise (down(error) if isinstance(error, sqlite3.Error) else error) from None

    def _connect(self, path: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None)
        try:
            schema.check_version(db, path)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA cache_size = -65536")  # 64 MiB; what has no room in it goes to the log already
            db.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
        except BaseException:
            db.close()
            raise
        return db

    async def marks(self) -> Marks:
        epochs = tuple(epoch for (epoch,) in self._ask("SELECT epoch FROM shards ORDER BY shard"))
        [(ledger,)] = self._ask("SELECT coalesce(max(number), 0) FROM ledger")
        [(parked,)] = self._ask("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'parked'")
        return Marks(epochs, ledger, parked)

    async def count(self, table: str) -> int:
        [(found,)] = self._ask(f"SELECT count(*) FROM {_TABLES[table][0]}")
        return int(found)

    async def read(self, table: str) -> AsyncIterator[list[Row]]:
        name, columns = _TABLES[table]
        plain = _PLAIN.get(table)
        pages = Pages(table)
        try:
            cursor = self._db.execute(f"SELECT {columns} FROM {name}")
            while rows := cursor.fetchmany(pages.rows):
                pages.on_page(rows)
                yield rows if plain is None else [plain(row) for row in rows]
        except sqlite3.Error as error:
            raise down(error) from None

    async def write(self, table: str, rows: Sequence[Row]) -> None:
        name, columns = _TABLES[table]
        if not self._dropped:
            self._drop_extras()
        own: Sequence[Row] = rows
        if table in _RANK:
            at = _RANK[table]
            own = [(*row[:at], -row[at], *row[at + 1 :]) for row in own]
        if table in _WITH_SHARD:
            columns += ", shard"
            own = [(*row, shard_of(ObjectId(row[0], row[1]))) for row in own]
        marks = ", ".join("?" * (columns.count(",") + 1))
        try:
            self._db.executemany(f"INSERT INTO {name} ({columns}) VALUES ({marks})", own)
        except Exception as error:
            raise _name_error(error) from None

    async def finish(self, marks: Marks) -> None:
        try:
            for sql in self._dropped:
                self._db.execute(sql)
            self._dropped = []
            self._db.executemany("UPDATE shards SET epoch = max(epoch, ?) WHERE shard = ?", _number(marks.epochs))
            [(last,)] = self._ask("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'parked'")
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = 'parked'")
            self._db.execute("INSERT INTO sqlite_sequence VALUES ('parked', ?)", (max(last, marks.parked_last),))
        except sqlite3.Error as error:
            raise _name_error(error) from None

    async def commit(self) -> None:
        try:
            self._db.execute("COMMIT")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise down(error) from None

    async def close(self) -> None:
        self._db.close()  # which rolls back what was not committed
        self._ownership.release()

    def _ask(self, sql: str) -> list[Row]:
        try:
            return self._db.execute(sql).fetchall()
        except sqlite3.Error as error:
            raise down(error) from None

    def _drop_extras(self) -> None:
        """Indexes that are no primary key's, and triggers; their SQL is kept for `finish`."""
        for kind, name, sql in self._ask(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY rowid"
        ):
            self._db.execute(f'DROP {kind} "{name}"')
            self._dropped.append(sql)


def _number(epochs: Sequence[int]) -> list[tuple[int, int]]:
    return [(epoch, shard) for shard, epoch in enumerate(epochs)]


def _name_error(error: Exception) -> Exception:
    refused = refusal(error)
    if refused is not None:
        return refused
    return down(error) if isinstance(error, sqlite3.Error) else error


def _plain_timer(row: Row) -> Row:
    return (*row[:9], -row[9], row[10])


def _plain_entry(row: Row) -> Row:
    return (*row[:11], clean_text(row[11]), row[12], bool(row[13]), *row[14:])


def _plain_parked(row: Row) -> Row:
    return (*row[:10], -row[10], *row[11:15], *map(clean_text, row[15:]))


_PLAIN: dict[str, Callable[[Any], Row]] = {"timers": _plain_timer, "ledger": _plain_entry, "parked": _plain_parked}
