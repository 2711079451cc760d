"""Layer 5. What is in the database of an object? Read from its pages in the store, without waking it."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple, TypedDict, TypeVar

from wakeful.sql.connection import ImageConnection
from wakeful.sql.statement import SqlStatement, short, split
from wakeful.store.protocol import Range, Store
from wakeful.values.commits import FIRST_PAGE, PAGE_BYTES, PAGES
from wakeful.values.errors import BadSql, LimitExceeded, Undecodable, UnknownObject
from wakeful.values.ids import ObjectId
from wakeful.views.plain import plain
from wakeful.views.view import View

T = TypeVar("T")
Now = Callable[[], int]  # milliseconds of a clock that goes on while a statement runs

# Steps between two looks at the clock: a stranger's statement may make a value of a megabyte in every tenth of them.
TICK_STEPS = 1_000
TABLES_MAX = 500  # that are listed
BLOB_SHOWN = 32  # bytes of a blob that people see
_TABLES = (
    "SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'view', 'virtual') "
    "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
)
_COLUMNS = "SELECT name, type FROM pragma_table_xinfo(?)"


class LookBounds(NamedTuple):
    """How much a look may take."""

    rows: int
    bytes: int  # of texts and blobs; one row is shown whatever it has
    ms: int
    database_bytes: int | None = None  # a larger one is not read


class SqlAnswer(NamedTuple):
    """The first rows of a result."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    is_cut: bool

    def plain(self) -> "PlainAnswer":
        """In the terms of JSON."""
        return {"columns": self.columns, "rows": plain(self.rows), "is_cut": self.is_cut}


class PlainAnswer(TypedDict):
    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool


class TableColumn(TypedDict):
    name: str
    type: str


class TableInfo(TypedDict):
    name: str
    type: str  # table, view or virtual
    columns: list[TableColumn]
    rows: int | None  # None: of a view, which would have to be run, and of what could not be counted in time


class TableList(NamedTuple):
    """The first tables, and how many there are."""

    tables: list[TableInfo]
    total: int


async def size_of(store: Store, id: ObjectId) -> int:
    """The bytes of its database; 0 when it has none."""
    space, name = FIRST_PAGE
    page = (await store.read(id, space, [name])).get(name)
    return 0 if page is None else _count(page) * PAGE_BYTES


async def pages_of(view: View, id: ObjectId, bytes_max: int | None = None) -> list[bytes]:
    """All pages, of one moment since they come in one read; `UnknownObject` when there are none."""
    store = view.store_of(id)
    if bytes_max is not None and (size := await size_of(store, id)) > bytes_max:
        raise LimitExceeded(
            f"{id}: its database has {size} bytes, and up to {bytes_max} are looked into here; "
            "wakeful sql and wakeful export --sql take it as it is",
            code="limit.sql_bytes",
        )
    pages = [page for _, page in await store.scan(id, PAGES, Range())]
    if not pages:
        await view.info(id)  # perhaps there is not even the object
        raise UnknownObject(f"{id} has no database: nothing of it has used sql(…) yet", code="sql.none")
    if len(pages) != (count := _count(pages[0])):
        raise Undecodable(f"{id}: its database has {count} pages, and {len(pages)} of them are there")
    return pages


def _count(first: bytes) -> int:
    return int.from_bytes(first[28:32], "big")


class DatabaseLook(NamedTuple):
    """A copy of an object's pages, and what may be asked of it."""

    id: ObjectId
    pages: list[bytes]
    now: Now
    bounds: LookBounds

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.pages) * PAGE_BYTES

    async def query(self, sql: str) -> SqlAnswer:
        """The first rows of what one statement reads; `BadSql` for one that is wrong, or would write."""
        statement = _reading(self.id, sql)
        return await self._ask(statement.sql, lambda db: _first(db, statement.sql, self.bounds))

    async def rows_of(self, table: str, *, offset: int) -> SqlAnswer:
        """The rows of a table or view in its own order, from that many on."""
        return await self.query(f"SELECT * FROM {_quote(table)} LIMIT -1 OFFSET {offset}")

    async def tables(self) -> TableList:
        """Its tables and views by name, with columns and how many rows; SQLite's own and those behind FTS5 are left out."""
        return await self._ask("the list of tables", _tables)

    async def _ask(self, what: str, ask: Callable[[ImageConnection], T]) -> T:
        """What is answered in a thread: whatever is asked, the loop goes on."""
        now, bounds, pages = self.now, self.bounds, self.pages

        def run() -> T:
            guard = None
            try:
                connection = ImageConnection(pages, now, len(pages), is_reader=True, tick_steps=TICK_STEPS)
                with closing(connection):
                    guard = connection.guard
                    guard.is_reader, guard.until = True, now() + bounds.ms
                    return ask(connection)
            except sqlite3.Error as error:
                raise _failure(self.id, what, error, None if guard is None else guard.refusal, bounds) from None

        return await asyncio.to_thread(run)


async def look_into(view: View, id: ObjectId, *, now: Now, bounds: LookBounds) -> DatabaseLook:
    """Its pages as finished turns left them, read once; the object sleeps on."""
    return DatabaseLook(id, await pages_of(view, id, bounds.database_bytes), now, bounds)


def _reading(id: ObjectId, sql: str) -> SqlStatement:
    """The only statement of the text. That it reads is seen to by SQLite, which knows what is a statement at all."""
    statement, *others = split(sql)
    if others:
        raise BadSql(f"{id}: one statement at a time; here are {1 + len(others)}", code="sql.text")
    if statement.refusal is not None:
        raise BadSql(f"{id}: {statement.verb}: {statement.refusal}", code="sql.refused")
    return statement


def _failure(
    id: ObjectId, sql: str, error: sqlite3.Error, refusal: str | None, bounds: LookBounds
) -> BadSql | LimitExceeded:
    code, place = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF, f"{id}: {short(sql)}"
    if code == sqlite3.SQLITE_INTERRUPT:
        return LimitExceeded(
            f"{place}: took more than {bounds.ms} ms, which is all that a look has; ask for less, or write it into a "
            "file with wakeful export --sql and ask sqlite3",
            code="limit.sql_ms",
        )
    if code == sqlite3.SQLITE_READONLY:
        return BadSql(
            f"{place}: this is a look, and it would write; wakeful sql --write has the object do it",
            code="sql.read_only",
        )
    if code == sqlite3.SQLITE_TOOBIG:
        return LimitExceeded(f"{place}: {error}", code="limit.sql_value")
    return BadSql(f"{place}: {refusal or error}", code="sql.refused" if refusal else "sql")


def _first(connection: ImageConnection, sql: str, bounds: LookBounds) -> SqlAnswer:
    columns, cursor = connection.execute(sql)
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in islice(cursor, bounds.rows + 1):
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) == bounds.rows or (rows and size > bounds.bytes):
            return SqlAnswer(columns, rows, True)
        rows.append(row)
    return SqlAnswer(columns, rows, False)


def _tables(connection: ImageConnection) -> TableList:
    names = connection.execute(_TABLES)[1].fetchall()
    tables: list[TableInfo] = [
        {"name": name, "type": kind, "columns": _columns(connection, name), "rows": _rows(connection, name, kind)}
        for name, kind in names[:TABLES_MAX]
    ]
    return TableList(tables, len(names))


def _columns(connection: ImageConnection, table: str) -> list[TableColumn]:
    return [{"name": name, "type": kind} for name, kind in connection.execute(_COLUMNS, (table,))[1]]


def _rows(connection: ImageConnection, table: str, kind: str) -> int | None:
    if kind == "view":
        return None
    try:
        count: int = connection.execute(f"SELECT count(*) FROM {_quote(table)}")[1].fetchone()[0]
    except sqlite3.Error:  # out of time, or of a kind that this SQLite does not have: the others can still be listed
        return None
    return count


def _quote(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def literal(value: Any) -> str:
    """A value of a column for people: as SQL writes it where text could be meant."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value[:BLOB_SHOWN].hex()}{'…' if len(value) > BLOB_SHOWN else ''}'"
    return str(value)
