"""Layer 5. `env.DB`: what is a D1 database here?

One object, `D1Database/<database_name>`, with Wakeful's SQL: a statement, or a batch, is a turn of it, which commits as a
whole or not at all.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.compat.workers.bindings.calls import ObjectBinding
from wakeful.compat.workers.bindings.desk import DatabaseFiles, desk_of
from wakeful.compat.workers.failures import JsException, JsTypeError, Unsupported
from wakeful.compat.workers.sync_storage import PRAGMAS
from wakeful.compat.workers.values import Array, Record, option_of, text_of
from wakeful.objects import DurableObject
from wakeful.runtime.context import runtime_of
from wakeful.sql.statement import short, split
from wakeful.values.errors import BadSql, BadValue, ConstraintFailed, LimitExceeded, WakefulError

if TYPE_CHECKING:
    import asyncio

    from wakeful.app import App

CLASS = "D1Database"
_SESSIONS = ("first-primary", "first-unconstrained")


class D1Database(DurableObject):
    """The database of a D1 binding, with the migrations of its folder."""

    async def on_wake(self) -> None:
        files = desk_of(self.ctx).databases.get(self.ctx.id.key)
        if files is not None and files.migrations:
            self._migrate(files)

    async def run(self, queries: list[list[Any]]) -> dict[str, Any]:
        """What each of the statements gives, all in one transaction; or the `error` of the first that fails."""
        begun = self.ctx.now()
        given: list[dict[str, Any]] = []
        try:
            async with self.ctx.transaction():
                for sql, params in queries:
                    given.append(self._run_one(sql, params))
        except (BadSql, ConstraintFailed, LimitExceeded, BadValue) as error:
            return {"error": self._words(error, sql)}
        duration = (self.ctx.now() - begun).total_seconds() * 1000
        return {"results": given, "duration": duration}

    def _run_one(self, sql: str, params: list[Any]) -> dict[str, Any]:
        rows = self._sql(sql, *params)
        return {
            "columns": list(rows.columns),
            "rows": [list(row) for row in rows.raw()],
            "changes": rows.written,
            "last_row_id": self._sql("SELECT last_insert_rowid()").value(),
            "size_after": self._sql.size,
        }

    @property
    def _sql(self) -> Any:
        return runtime_of(self.ctx).node.features["sql"].of(runtime_of(self.ctx), PRAGMAS)

    def _words(self, error: WakefulError, sql: str) -> str:
        """What SQLite said, as it is there."""
        words = error.message
        for statement in split(sql):
            words = words.removeprefix(f"{self.ctx.id}: {short(statement.sql)}: ")
        if isinstance(error, ConstraintFailed):
            return f"{words}: SQLITE_CONSTRAINT"
        if isinstance(error, BadSql) and error.code == "sql":
            return f"{words}: SQLITE_ERROR"
        return words

    def _migrate(self, files: DatabaseFiles) -> None:
        table = '"{}"'.format(files.table.replace('"', '""'))
        self.sql(
            f"CREATE TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, "
            "applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)"
        )
        had = {row["name"] for row in self.sql(f"SELECT name FROM {table}")}
        for name, text in files.migrations:
            if name in had:
                continue
            try:
                if text.strip():
                    self._sql(text)
                self.sql(f"INSERT INTO {table} (name) VALUES (?)", name)
            except WakefulError as error:
                raise BadSql(f"{self.ctx.id}: migration {name}: {error.message}") from None


class _Queried(NamedTuple):
    columns: list[str]
    rows: list[list[Any]]
    meta: Record

    @property
    def result(self) -> Record:
        """As `all()` and `run()` give it."""
        rows = Array(Record(zip(self.columns, row, strict=True)) for row in self.rows)
        return Record(success=True, meta=self.meta, results=rows)


class D1Statement:
    """A statement, and what is bound to its parameters."""

    def __init__(self, binding: "D1Binding", sql: str, params: tuple[Any, ...] = ()) -> None:
        self._binding = binding
        self._sql = sql
        self._params = params

    def bind(self, *values: Any) -> "D1Statement":
        """The same statement with these for its parameters, in their order."""
        return D1Statement(self._binding, self._sql, tuple(_lower(value) for value in values))

    def first(self, column: Any = None) -> "asyncio.Task[Any]":
        """The first row, or that column of it; None when there is none."""
        return self._binding._begin(self._first(column), "first()")

    def all(self) -> "asyncio.Task[Record]":
        """`results`, `meta` and `success`."""
        return self._binding._begin(self._all(), "all()")

    run = all

    def raw(self, options: Any = None, **named: Any) -> "asyncio.Task[Array]":
        """The rows as arrays; with `columnNames` those of the columns before them."""
        return self._binding._begin(self._raw(option_of(options, named, "raw()")), "raw()")

    async def _first(self, column: Any) -> Any:
        [queried] = await self._binding._query([self])
        if not queried.rows:
            return None
        row = Record(zip(queried.columns, queried.rows[0], strict=True))
        if column is None:
            return row
        if column not in row:
            raise JsException(f"D1_ERROR: D1_COLUMN_NOTFOUND ({column})")
        return row[column]

    async def _all(self) -> Record:
        [queried] = await self._binding._query([self])
        return queried.result

    async def _raw(self, options: Mapping[str, Any]) -> Array:
        [queried] = await self._binding._query([self])
        rows = [queried.columns, *queried.rows] if options.get("columnNames") else queried.rows
        return Array(Array(row) for row in rows)


class D1Binding(ObjectBinding):
    """`prepare`, `batch`, `exec` and `withSession`."""

    def __init__(self, app: "App", key: str) -> None:
        super().__init__(app, CLASS, key)

    def prepare(self, sql: Any) -> D1Statement:
        """A statement, not run yet."""
        return D1Statement(self, text_of(sql, "prepare()"))

    def batch(self, statements: Any) -> "asyncio.Task[Array]":
        """Run them in their order, in one transaction; what each gives."""
        return self._begin(self._batch(statements), "batch()")

    def exec(self, sql: Any) -> "asyncio.Task[Record]":
        """Run the lines of a text, each a statement without parameters, in one transaction; their `count`."""
        return self._begin(self._exec(text_of(sql, "exec()")), "exec()")

    def withSession(self, constraint: Any = None) -> "D1Session":  # noqa: N802  the name there
        """There is one copy of the database, so every session sees what was written last."""
        if constraint is not None:
            text_of(constraint, "withSession()")
        return D1Session(self._app, self._stub.id.key, constraint)

    def dump(self) -> None:
        raise Unsupported("dump() of D1 is not here, nor for new databases there; `wakeful export --sql` writes a file")

    async def _batch(self, statements: Any) -> Array:
        given = list(statements)
        if not given:
            raise JsException("D1_ERROR: No SQL statements detected.")
        if not all(isinstance(one, D1Statement) for one in given):
            raise JsTypeError("batch() takes a list of statements that prepare() made")
        return Array(queried.result for queried in await self._query(given))

    async def _exec(self, sql: str) -> Record:
        lines = [[line, []] for line in sql.split("\n") if line.strip()]
        if not lines:
            raise JsException("D1_EXEC_ERROR: No SQL statements detected.")
        answer = await self._ask(self._stub.run(lines))
        return Record(count=len(lines), duration=answer["duration"])

    async def _query(self, statements: Sequence[D1Statement]) -> list[_Queried]:
        answer = await self._ask(self._stub.run([[one._sql, list(one._params)] for one in statements]))
        return [_of(one, answer["duration"]) for one in answer["results"]]

    async def _ask(self, call: Any) -> Any:
        try:
            answer = await call
        except WakefulError as error:
            raise JsException(f"D1_ERROR: {error.message}") from None
        if "error" in answer:
            raise JsException(f"D1_ERROR: {answer['error']}")
        return answer


class D1Session(D1Binding):
    """A database as one conversation sees it: no different from any other here."""

    def __init__(self, app: "App", key: str, constraint: Any) -> None:
        super().__init__(app, key)
        self._bookmark = None if constraint in (None, *_SESSIONS) else str(constraint)

    def getBookmark(self) -> str | None:  # noqa: N802  the name there
        """A text for `withSession`; None before anything was asked."""
        return self._bookmark

    async def _ask(self, call: Any) -> Any:
        answer = await super()._ask(call)
        self._bookmark = f"{self._now():016x}"
        return answer


def _of(given: Mapping[str, Any], duration: float) -> _Queried:
    changes = given["changes"]
    rows = [[Array(value) if isinstance(value, bytes) else value for value in row] for row in given["rows"]]
    meta = Record(
        served_by="wakeful",
        duration=duration,
        changes=changes,
        last_row_id=given["last_row_id"],
        changed_db=changes > 0,
        size_after=given["size_after"],
        rows_read=len(rows),
        rows_written=changes,
    )
    return _Queried(list(given["columns"]), rows, meta)


def _lower(value: Any) -> Any:
    """A value as SQLite has it."""
    if value is None or isinstance(value, str | int | float | bytes):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple) and all(isinstance(one, int) and 0 <= one <= 255 for one in value):
        return bytes(value)
    raise JsTypeError(f"D1_TYPE_ERROR: Type '{type(value).__name__}' not supported for value {value!r:.100}")
