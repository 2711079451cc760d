"""Layer 4. How do databases of objects join the nodes of a program?"""

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import Turn, running_turn
from wakeful.store.protocol import WAKE_PAGES, LocalStore, Range
from wakeful.values.commits import PAGE_BYTES, PAGES, Loaded, page_slot
from wakeful.values.errors import BadInput, Unavailable, Undecodable
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:  # the rest is loaded when an object first asks for a database: most programs have none
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node
    from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime
    from wakeful.sql.connection import SqliteConnection
    from wakeful.sql.database import Database
    from wakeful.sql.pages import DatabasePages
    from wakeful.sql.result import SqlRows

FEATURE = "sql"
WRITE = "sql.write"
WRITTEN_ROWS_MAX = 1_000  # that an operator's statement gives back


class SqlFeature(Feature):
    """A database for every object."""

    def equip(self, node: "Node") -> None:
        node.features[FEATURE] = NodeDatabases(node)
        node.operations[WRITE] = write

    async def erase(self, turn: Turn) -> None:
        """Nothing more: pages are rows of the object."""


async def write(context: "Context", query: str) -> dict[str, Any]:
    """Run an operator's statements in a turn of the object; how many rows they wrote, and the first rows of the last."""
    from wakeful.sql.statement import split

    written, rows = 0, None
    for statement in split(query):
        rows = context.sql(statement.sql)
        written += rows.written
    assert rows is not None
    found = rows.raw()
    some = [list(row) for row in found[:WRITTEN_ROWS_MAX]]
    return {"columns": list(rows.columns), "rows": some, "is_cut": len(some) < len(found), "written": written}


def connection_type() -> "type[SqliteConnection]":
    """How SQLite is run here: with apsw where the extra `wakeful[sql]` is installed, else with the standard library."""
    try:
        from wakeful.sql.paged_connection import PagedConnection
    except ImportError:
        from wakeful.sql.connection import ImageConnection

        return ImageConnection
    return PagedConnection


class NodeDatabases:
    """The databases of the objects that are awake on one node."""

    def __init__(self, node: "NodeRuntime") -> None:
        self._node = node
        self.limits = node.limits
        self.now = node.clock.now
        self._connect: type[SqliteConnection] | None = None
        self._open: deque[ref[Database]] = deque()  # those that may have a connection, the oldest first

    def of(self, activation: "ObjectRuntime", pragmas: frozenset[str] | None = None) -> "Sql":
        """What `ctx.sql` is; with a list of its own of the pragmas that are allowed, if one is given."""
        return Sql(activation, self, pragmas)

    async def load(self, activation: "ObjectRuntime", loaded: Loaded) -> Loaded:
        """The object wakes and has a database: bring its pages; what came with it without them."""
        from wakeful.sql.pages import DatabasePages

        rows = {slot: value for slot, value in loaded.rows.items() if slot[0] != PAGES}
        first = [loaded.rows[slot] for slot in sorted(loaded.rows) if slot[0] == PAGES]
        id = activation.id
        count = int.from_bytes(first[0][28:32], "big")
        if count * PAGE_BYTES > self.limits.sql_bytes:
            pages = DatabasePages([])  # whoever uses it is told; the rest of the object is as good as ever
        elif self._is_lazy:
            pages = DatabasePages(first, count, partial(self._fetch, id))
        else:
            pages = DatabasePages(first + await self._read_on(id) if count > len(first) else first)
        if pages and len(pages) != count:
            raise Undecodable(f"{id}: its database has {count} pages, and {len(pages)} of them are there")
        activation.sql = self._make(activation, pages, count)
        return Loaded(loaded.info, loaded.alarm, rows, loaded.complete)

    @property
    def _is_lazy(self) -> bool:
        """SQLite asks for pages one by one, and the store answers at once, for this process alone."""
        store = self._node.store
        return store.local and not store.shared and self._connection_type.is_lazy

    async def _read_on(self, id: ObjectId) -> list[bytes]:
        """The pages that did not come with the object."""
        after = Range(first=page_slot(WAKE_PAGES + 1)[1])
        return [page for _, page in await self._node.reading(self._node.store.scan(id, PAGES, after))]

    def _fetch(self, id: ObjectId, number: int) -> bytes:
        """A page that SQLite asks for."""
        name = page_slot(number + 1)[1]
        try:
            rows = cast("LocalStore", self._node.store).read_now(id, PAGES, [name])
        except Unavailable as error:
            self._node.store_failed(error)
            raise
        if name not in rows:
            raise Undecodable(f"{id}: page {number + 1} of its database is not there")
        return rows[name]

    def database(self, activation: "ObjectRuntime") -> "Database":
        """That of the object, made when it is first asked for."""
        if activation.sql is None:
            from wakeful.sql.pages import DatabasePages

            activation.sql = self._make(activation, DatabasePages([]), 0)
        return cast("Database", activation.sql)

    def _make(self, activation: "ObjectRuntime", pages: "DatabasePages", stored: int) -> "Database":
        from wakeful.sql.database import Database

        return Database(self, activation.id, pages, stored)

    def connect(self, database: "Database", pages: "DatabasePages", *, is_reader: bool) -> "SqliteConnection":
        """A connection for it; when there are too many, the oldest that nobody is using let go of theirs."""
        self._make_room()
        self._open.append(ref(database))
        pages_max = max(1, self.limits.sql_bytes // PAGE_BYTES)
        return self._connection_type(pages, self.now, pages_max, is_reader=is_reader)

    @property
    def _connection_type(self) -> "type[SqliteConnection]":
        if self._connect is None:
            self._connect = connection_type()
        return self._connect

    def _make_room(self) -> None:
        for _ in range(len(self._open) + 1 - self.limits.sql_open):
            oldest = self._open.popleft()
            found = oldest()
            if found is not None and not found.rest():
                self._open.append(oldest)


def _check_on_loop(turn: Turn) -> None:
    """Its pages come from the store, which is no other thread's to read."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise BadInput(
            f"{turn.activation.id}: self.sql(…) in a method that runs in a thread; write self.blocking.sql(…)",
            code="blocking.sql",
        ) from None


class Sql:
    """`self.sql(query, …)`: the object's own database, seen through the running turn.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Notes(DurableObject):
    ...     async def add(self, text: str) -> int:
    ...         self.sql("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT)")
    ...         self.sql("INSERT INTO notes (text) VALUES (?)", text)
    ...         return self.sql("SELECT count(*) FROM notes").value()
    >>> async with app.world() as world:
    ...     await world.get(Notes, "a").add("milk")
    ...     print(await world.get(Notes, "a").add("bread"))
    2
    """

    __slots__ = ("_activation", "_databases", "_pragmas")

    def __init__(
        self, activation: "ObjectRuntime", databases: NodeDatabases, pragmas: frozenset[str] | None = None
    ) -> None:
        self._activation = activation
        self._databases = databases
        self._pragmas = pragmas

    def __call__(self, query: str, /, *positional: Any, **named: Any) -> "SqlRows":
        """Run it now, in the running turn; several statements are run in order, and arguments go to the last."""
        turn = running_turn(self._activation, "sql")
        _check_on_loop(turn)
        return self._databases.database(self._activation).run(turn, query, positional, named, self._pragmas)

    @property
    def size(self) -> int:
        """The bytes of its pages."""
        turn = running_turn(self._activation, "sql")
        return self._databases.database(self._activation).size(turn)
