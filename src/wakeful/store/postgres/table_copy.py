"""Layer 2. How do whole tables get out of PostgreSQL, and into it?

Out by a cursor in one snapshot, in by COPY in one transaction. Both hold the tables that a node must write to in
EXCLUSIVE mode, so that none can start meanwhile; where the server has no such lock, the mover looks again at the end.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from wakeful.store.postgres.migrations import check_version, version_of
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.url import Target
from wakeful.store.postgres.wire import Invalid, ServerWire
from wakeful.store.table_copy import TABLES, Marks, Pages, Row
from wakeful.values.errors import BadValue, Conflict
from wakeful.values.ids import ObjectId, shard_of

# A page takes milliseconds; a server that does not take one in that time is not there.
PAGE_TIMEOUT_S = 120.0
# Sums over whole tables, and the end of a large transaction.
WHOLE_TIMEOUT_S = 600.0

_LOCK = "LOCK TABLE wakeful.nodes, wakeful.shards, wakeful.timers IN EXCLUSIVE MODE"
_SEQUENCE = "SELECT pg_get_serial_sequence($1, 'number')"
_RAISE = """UPDATE wakeful.shards AS s SET epoch = greatest(s.epoch, w.epoch)
    FROM unnest($1::smallint[], $2::bigint[]) AS w (shard, epoch) WHERE s.shard = w.shard"""

_FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


class Bulk(ServerWire):
    """A connection for much at once."""

    async def pages(self, sql: str, pages: Pages) -> AsyncIterator[list[Row]]:
        """The rows of a query in pages, inside a transaction."""
        try:
            cursor = await self._connection.cursor(sql, timeout=WHOLE_TIMEOUT_S)
            while rows := await cursor.fetch(pages.rows, timeout=PAGE_TIMEOUT_S):
                found = [tuple(row) for row in rows]
                pages.on_page(found)
                yield found
        except _FAILURES as error:
            raise self._meaning(error, writes=False) from None

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        """What is read in it is as of one moment, and nothing is written."""
        await self.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            if not self.is_closed:
                await self.script("ROLLBACK")

    async def some(self, sql: str, pages: "int | Pages", args: Sequence[object]) -> AsyncIterator[list[Row]]:
        """The rows of a query in pages, of so many or as `pages` finds them fit, inside a transaction."""
        try:
            cursor = await self._connection.cursor(sql, *args, timeout=WHOLE_TIMEOUT_S)
            while True:
                most = pages if isinstance(pages, int) else pages.rows
                rows = [tuple(row) for row in await cursor.fetch(most, timeout=PAGE_TIMEOUT_S)]
                if not rows:
                    return
                if not isinstance(pages, int):
                    pages.on_page(rows)
                yield rows
        except _FAILURES as error:
            raise self._meaning(error, writes=False) from None

    async def copy(self, schema: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        try:
            await self._connection.copy_records_to_table(
                table, schema_name=schema, columns=columns, records=rows, timeout=PAGE_TIMEOUT_S
            )
        except _FAILURES as error:
            raise self._meaning(error, writes=False) from None

    async def ask(self, sql: str, *args: object) -> list[Any]:
        try:
            rows: list[Any] = await self._connection.fetch(sql, *args, timeout=WHOLE_TIMEOUT_S)
            return rows
        except _FAILURES as error:
            raise self._meaning(error, writes=False) from None

    async def end(self) -> None:
        try:
            await self._connection.execute("COMMIT", timeout=WHOLE_TIMEOUT_S)
        except _FAILURES as error:
            raise self._meaning(error, writes=True) from None

    async def lock(self, sql: str) -> None:
        """Hold the tables; `Conflict` when somebody else does. A server that has no such locks is none the worse."""
        await self.script("SET LOCAL lock_timeout = '2s'; SAVEPOINT locking")
        try:
            await self._connection.execute(sql, timeout=PAGE_TIMEOUT_S)
        except asyncpg.PostgresError as error:
            if error.sqlstate == "55P03":
                raise Conflict(
                    f"{self._where}: somebody is writing to it; see `wakeful doctor`, end what writes, then move",
                    code="move.busy",
                ) from None
            await self.script("ROLLBACK TO SAVEPOINT locking")
        except (asyncpg.InterfaceError, OSError) as error:
            raise self._meaning(error, writes=False) from None


class PostgresCopying:
    """The tables of one schema, in one transaction."""

    def __init__(self, wire: Bulk, statements: Statements) -> None:
        self._wire = wire
        self._statements = statements

    @classmethod
    async def open(cls, target: Target) -> "PostgresCopying":
        """Begin the transaction. Nobody may be writing; whether nodes live is the caller's to look at."""
        wire = await Bulk.connect(target)
        assert isinstance(wire, Bulk)
        statements = Statements(target.schema)
        try:
            # The server's own choice of plans: here it is whole tables that are read.
            await wire.script("SET plan_cache_mode = auto; SET enable_seqscan = on; SET synchronous_commit = on")
            check_version(await version_of(wire, statements), target.shown)
            await wire.script("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await wire.lock(statements.qualify(_LOCK))
        except BaseException:
            await wire.close()
            raise
        return cls(wire, statements)

    async def marks(self) -> Marks:
        epochs = await self._ask("SELECT epoch FROM wakeful.shards ORDER BY shard")
        return Marks(tuple(row[0] for row in epochs), await self._last("ledger"), await self._last("parked"))

    async def count(self, table: str) -> int:
        [(found,)] = await self._ask(f"SELECT count(*) FROM wakeful.{table}")
        return int(found)

    async def read(self, table: str) -> AsyncIterator[list[Row]]:
        plain = _PLAIN.get(table)
        sql = self._statements.qualify(f"SELECT {', '.join(TABLES[table])} FROM wakeful.{table}")
        async for rows in self._wire.pages(sql, Pages(table)):
            yield rows if plain is None else [plain(row) for row in rows]

    async def write(self, table: str, rows: Sequence[Row]) -> None:
        columns, own = TABLES[table], rows
        if table == "storage":
            own = [(cls, key, space, name.encode(), value) for cls, key, space, name, value in rows]
        elif table == "requests":
            own = [(cls, key, request.encode(), *rest) for cls, key, request, *rest in rows]
        elif table == "timers":
            columns, own = (*columns, "shard"), [(*row, shard_of(ObjectId(row[0], row[1]))) for row in rows]
        try:
            await self._wire.copy(self._statements.schema, table, columns, own)
        except Invalid as error:
            raise BadValue(f"a row of {table} can't be stored in PostgreSQL: {error}", code="value.store") from None

    async def finish(self, marks: Marks) -> None:
        await self._ask(_RAISE, list(range(len(marks.epochs))), list(marks.epochs))
        for table, last in (("ledger", marks.ledger_last), ("parked", marks.parked_last)):
            most = max(last, await self._last(table))
            if most:
                await self._ask("SELECT setval($1::regclass, $2::bigint)", await self._sequence(table), most)

    async def commit(self) -> None:
        await self._wire.end()

    async def close(self) -> None:
        await self._wire.close()  # which rolls back what was not committed

    async def _ask(self, sql: str, *args: object) -> list[Any]:
        return await self._wire.ask(self._statements.qualify(sql), *args)

    async def _sequence(self, table: str) -> str:
        [(name,)] = await self._ask(_SEQUENCE, f'"{self._statements.schema}".{table}')
        return str(name)

    async def _last(self, table: str) -> int:
        """The largest number that was ever given."""
        [(given,)] = await self._ask(
            f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {await self._sequence(table)}"
        )
        [(largest,)] = await self._ask(f"SELECT coalesce(max(number), 0) FROM wakeful.{table}")
        return max(int(given), int(largest))


def _plain_storage(row: Row) -> Row:
    cls, key, space, name, value = row
    return (cls, key, space, name.decode(), value)


def _plain_request(row: Row) -> Row:
    return (*row[:2], row[2].decode(), *row[3:])


_PLAIN: dict[str, Callable[[Row], Row]] = {"storage": _plain_storage, "requests": _plain_request}
