"""Layer 4. What is in the database of an awake object: after its finished turns, and for the turn that runs?

The pages of finished turns are kept here. A turn works on one connection over them, and what it changed becomes rows
of its commit. Whatever is undone goes with the connection; the pages never knew of it.
"""

import sqlite3
from itertools import islice
from typing import Any, NamedTuple, Protocol

from wakeful.policy.limits import Limits
from wakeful.runtime.turn import RefusedWrite, Turn
from wakeful.sql.bindings import Arguments, bind
from wakeful.sql.connection import SqliteConnection, SqliteFailure
from wakeful.sql.guard import OWN, PRAGMAS
from wakeful.sql.pages import DatabasePages
from wakeful.sql.result import SqlRows
from wakeful.sql.statement import SqlStatement, short, split
from wakeful.values.commits import PAGE_BYTES, Slot, page_slot
from wakeful.values.errors import (
    BadSql,
    ConstraintFailed,
    DeadlineExceeded,
    LimitExceeded,
    ReadOnly,
    WakefulError,
)
from wakeful.values.ids import ObjectId

_FETCH = 1_000


class DatabaseHome(Protocol):
    """Where databases are: the node of their objects."""

    @property
    def limits(self) -> Limits: ...

    def now(self) -> int: ...

    def connect(self, database: "Database", pages: DatabasePages, *, is_reader: bool) -> SqliteConnection: ...


class _Aside(NamedTuple):
    """The connection that a turn had before it emptied the database, for when that is undone."""

    depth: int  # savepoints of the turn then
    connection: SqliteConnection | None
    marks: int
    is_writing: bool
    is_wiped: bool


class Database:
    """The database of one awake object. It does not hold the activation, which holds it."""

    __slots__ = (
        "__weakref__",
        "_asides",
        "_connection",
        "_home",
        "_id",
        "_is_wiped",
        "_is_writing",
        "_limits",
        "_marks",
        "_pages",
        "_pending",
        "_snapshot",
        "_stored",
    )

    def __init__(self, home: DatabaseHome, id: ObjectId, pages: DatabasePages, stored: int) -> None:
        """`stored` is how many pages it has; of one that is too large none are given."""
        self._id = id
        self._home = home
        self._limits = home.limits
        self._pages = pages  # as finished turns left them
        self._stored = stored
        self._pending: tuple[dict[int, bytes], int] | None = None  # what the commit that is being made changes in them
        self._connection: SqliteConnection | None = None  # where turns work, made when first needed
        self._snapshot: SqliteConnection | None = None  # where readers look while a turn has changed something
        self._is_writing = False  # a turn has changed something since the last durable point
        self._is_wiped = False  # and emptied it
        self._marks = 0  # savepoints of the turn that SQLite knows of
        self._asides: list[_Aside] = []

    def __del__(self) -> None:
        self.close()

    # what the object's code asks

    def run(
        self,
        turn: Turn,
        query: object,
        positional: tuple[Any, ...],
        named: dict[str, Any],
        pragmas: frozenset[str] | None = None,
    ) -> SqlRows:
        """Run the statements of a text in their order; the rows of the last, which has the arguments."""
        *first, last = split(query)
        arguments = bind(positional, named)
        for statement in first:
            self._run(turn, statement, (), pragmas)
        return self._run(turn, last, arguments, pragmas)

    def size(self, turn: Turn) -> int:
        """In bytes, as the turn sees it."""
        if self._connection is None and not self._is_wiped:
            return self._stored * PAGE_BYTES
        return int(self._run(turn, split(f"{OWN}PRAGMA page_count")[0], ()).value()) * PAGE_BYTES

    def _run(
        self, turn: Turn, statement: SqlStatement, arguments: Arguments, pragmas: frozenset[str] | None = None
    ) -> SqlRows:
        if statement.refusal is not None:
            raise BadSql(f"{self._id}: {statement.verb}: {statement.refusal}", code="sql.refused")
        if not statement.only_reads:
            turn.check_writable()
        connection = self._connection_for(turn)
        guard = connection.guard
        guard.until, guard.refusal = min(turn.deadline_at, self._home.now() + self._limits.sql_ms), None
        guard.is_reader, guard.is_writing, guard.pragmas = turn.is_reader, self._is_writing, pragmas or PRAGMAS
        before = connection.changes
        try:
            if not statement.only_reads:
                self._prepare(turn, connection, statement)
            columns, cursor = connection.execute(statement.sql, arguments)
            rows = self._fetch(cursor) if columns else []
        except Exception as error:
            failed = self._error(turn, connection, statement, error)
            if failed is None:
                raise
            raise failed from None
        finally:
            guard.is_vacuum = False
        if guard.has_settings:
            turn.sql_writes += 1  # so that its end sees to them
        return SqlRows(columns, rows, connection.changes - before)

    def _prepare(self, turn: Turn, connection: SqliteConnection, statement: SqlStatement) -> None:
        """The turn is about to change something: open its transaction, and the savepoints that it is in."""
        turn.sql_writes += 1
        if not connection.guard.is_armed:
            connection.guard.is_ours = connection.guard.is_armed = True
            connection.arm()
            connection.guard.is_ours = False
        if statement.verb == "VACUUM":
            if self._is_writing:
                raise BadSql(f"{self._id}: VACUUM comes before whatever else its turn changes", code="sql.refused")
            connection.guard.is_vacuum = True
            return
        if not self._is_writing:
            self._own(connection, "BEGIN")
            self._is_writing = True
        while self._marks < len(turn.saved):
            self._own(connection, f"SAVEPOINT mark_{self._marks}")
            self._marks += 1

    def _fetch(self, cursor: Any) -> list[tuple[Any, ...]]:
        """All rows, as far as the limits let them."""
        rows: list[tuple[Any, ...]] = []
        size = 0
        try:
            while some := list(islice(cursor, _FETCH)):
                rows += some
                size += sum([len(value) for row in some for value in row if isinstance(value, str | bytes)])
                self._check_result(len(rows), size)
        finally:
            cursor.close()
        return rows

    def _check_result(self, rows: int, size: int) -> None:
        for name, found in (("sql_rows", rows), ("sql_result_bytes", size)):
            most = getattr(self._limits, name)
            if found > most:
                raise LimitExceeded(
                    f"{self._id}: a result of more than {most} {'rows' if name == 'sql_rows' else 'bytes'}; "
                    f"read it in parts (WHERE … LIMIT), or raise Limits({name}=…)",
                    code=f"limit.{name}",
                )

    # connections

    def _connection_for(self, turn: Turn) -> SqliteConnection:
        if self._stored > len(self._pages) and not self._is_wiped:
            raise self._too_large(self._stored * PAGE_BYTES)
        is_beside = (
            turn.is_reader and turn.base is None
        )  # else it is in the turn of migrations, and sees what they made
        if is_beside and (self._is_writing or self._is_wiped or self._is_set):
            if self._snapshot is None:
                self._snapshot = self._open(self._pages, is_reader=True)
            return self._snapshot
        if self._connection is None:
            self._connection = self._open(DatabasePages([]) if self._is_wiped else self._pages)
        return self._connection

    @property
    def _is_set(self) -> bool:
        return self._connection is not None and self._connection.guard.has_settings

    def _open(self, pages: DatabasePages, *, is_reader: bool = False) -> SqliteConnection:
        return self._home.connect(self, pages, is_reader=is_reader)

    def rest(self) -> bool:
        """Let go of connections that no turn is using; whether that could be."""
        if not self._is_idle:
            return False
        self.close()
        return True

    @property
    def _is_idle(self) -> bool:
        return not (self._is_writing or self._is_wiped or self._is_set)

    def close(self) -> None:
        """Without its connections: nothing that was not collected is left of what a turn did."""
        connections = [self._connection, self._snapshot, *(aside.connection for aside in self._asides)]
        self._connection = self._snapshot = None
        self._asides = []
        self._is_writing = self._is_wiped = False
        self._marks = 0
        for connection in connections:
            if connection is not None:
                connection.close()

    # what the turn asks

    def collect(self) -> dict[Slot, bytes | None]:
        """The turn ends, or comes to a durable point: the rows that its changes come to."""
        changes: dict[int, bytes] = {}
        count = 0
        if self._connection is not None:
            if self._is_writing:
                self._commit(self._connection)
            changes, count = self._connection.find_changes(self._pages)
        elif not self._is_wiped:
            count = self._stored
        if 0 in changes and self._pages.is_first_same(changes[0]):
            del changes[0]
        rows: dict[Slot, bytes | None] = {page_slot(number + 1): page for number, page in changes.items()}
        rows.update({page_slot(number + 1): None for number in range(count, self._stored)})
        self._pending = (changes, count)
        if not rows:
            self.adopt()  # there may be no commit, and nobody else would
        return rows

    def former(self, slot: Slot) -> bytes | None:
        """A page of those rows as finished turns left it; None: there was none."""
        number = int(slot[1], 16)
        if number > self._stored:
            return None
        if number > len(self._pages):
            raise self._too_large(self._stored * PAGE_BYTES)  # none of it is here
        return self._pages[number - 1]

    def _commit(self, connection: SqliteConnection) -> None:
        try:
            self._own(connection, "COMMIT")
        except Exception as error:
            failed = connection.failure(error)
            if failed is None:
                raise
            raise self._judge(failed, "the end of the turn", connection.guard.refusal) from None

    def _own(self, connection: SqliteConnection, sql: str) -> None:
        """A statement of Wakeful's own, which objects may not give. It has its own time: FTS5 writes at such moments."""
        guard = connection.guard
        until, guard.until, guard.is_ours = guard.until, self._home.now() + self._limits.sql_ms, True
        try:
            connection.execute(OWN + sql)[1].close()
        finally:
            guard.until, guard.is_ours = until, False

    def adopt(self) -> None:
        """The turn ended well, or came to a durable point: its pages are what the next one starts from."""
        if self._pending is None:
            return
        (changes, count), self._pending = self._pending, None
        self._pages.adopt(changes, count)
        self._stored = count
        # One that was opened on nothing, because all was deleted, does not know of these pages.
        is_good = not self._is_set and not self._is_wiped
        connection, self._connection = self._connection, None
        self.close()  # what readers looked at is no more
        if is_good:
            self._connection = connection
        elif connection is not None:
            connection.close()

    def undo(self) -> None:
        """The turn failed: the next one meets the pages as they were, and how many there were."""
        self._pending = None
        self.close()

    def wipe(self, depth: int) -> None:
        """Empty it; `depth` is in how many savepoints the turn is, out of which this may be undone."""
        self._asides.append(_Aside(depth, self._connection, self._marks, self._is_writing, self._is_wiped))
        self._connection, self._marks, self._is_writing, self._is_wiped = None, 0, False, True

    def clear(self, turn: Turn) -> None:
        """Delete all rows of its tables. These stay: migrations made them, and would not make them again."""
        tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
        names = [row["name"] for row in self._run(turn, split(tables)[0], ()) if not row["name"].startswith("sqlite_")]
        deletes = [split('DELETE FROM "{}"'.format(name.replace('"', '""')))[0] for name in names]
        if deletes:
            connection = self._connection_for(turn)
            self._prepare(turn, connection, deletes[0])
            self._own(connection, "PRAGMA defer_foreign_keys = ON")  # until the end of the transaction
        for delete in deletes:
            self._run(turn, delete, ())

    def go_back(self, depth: int) -> None:
        """Undo what was done since the turn had one savepoint more than these."""
        while self._asides and self._asides[-1].depth > depth:
            if self._connection is not None:
                self._connection.close()
            _, self._connection, self._marks, self._is_writing, self._is_wiped = self._asides.pop()
        if self._marks > depth and self._connection is not None and self._connection.is_open:
            self._own(self._connection, f"ROLLBACK TO mark_{depth}")
        self.keep(depth)

    def keep(self, depth: int) -> None:
        """The turn leaves a savepoint, and what was done in it stays."""
        self._asides = [aside._replace(depth=min(aside.depth, depth)) for aside in self._asides]
        if self._marks > depth and self._connection is not None and self._connection.is_open:
            self._own(self._connection, f"RELEASE mark_{depth}")
        self._marks = min(self._marks, depth)

    # errors

    def _error(
        self, turn: Turn, connection: SqliteConnection, statement: SqlStatement, error: Exception
    ) -> WakefulError | None:
        """What the object's code is told; None: as it is. A transaction that SQLite gave up takes the turn with it."""
        failed = connection.failure(error)
        if failed is None:
            return None
        told = self._judge(failed, statement.sql, connection.guard.refusal)
        if turn.deadline_at <= self._home.now() and isinstance(told, LimitExceeded) and told.code == "limit.sql_ms":
            told = DeadlineExceeded(
                f"{self._id}: a statement ran past the deadline of its call: {short(statement.sql)}"
            )
        if self._is_writing and not turn.is_reader and not connection.is_open:
            RefusedWrite(turn, told)
        return told

    def _judge(self, failed: SqliteFailure, sql: str, refusal: str | None) -> WakefulError:
        if failed.cause is not None:
            return failed.cause
        code, place = failed.code & 0xFF, f"{self._id}: {short(sql)}"
        if code == sqlite3.SQLITE_AUTH or refusal is not None:
            return BadSql(f"{place}: {refusal or failed.words}", code="sql.refused")
        if code == sqlite3.SQLITE_CONSTRAINT:
            return ConstraintFailed(f"{place}: {failed.words}")
        if code == sqlite3.SQLITE_FULL:
            return self._too_large(self._limits.sql_bytes + PAGE_BYTES)
        if code == sqlite3.SQLITE_INTERRUPT:
            return LimitExceeded(
                f"{place}: ran for more than {self._limits.sql_ms} ms, in which nobody else could; give it an index or "
                "less to do, or raise Limits(sql_ms=…)",
                code="limit.sql_ms",
            )
        if code == sqlite3.SQLITE_TOOBIG:
            return LimitExceeded(f"{place}: {failed.words}", code="limit.sql_value")
        if code == sqlite3.SQLITE_READONLY:
            return ReadOnly(f"{place}: a @reader can't write; drop @reader from the method")
        return BadSql(f"{place}: {failed.words}")

    def _too_large(self, size: int) -> LimitExceeded:
        most = self._limits.sql_bytes
        return LimitExceeded(
            f"{self._id}: its database would have {size} bytes, {size - most} more than the limit of {most}; delete "
            "something, spread it over several objects, or raise Limits(sql_bytes=…)",
            code="limit.sql_bytes",
        )
