"""Layer 2. How is the server spoken to, and what do its failures mean here?"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from wakeful.store.postgres.packing import PACKERS
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import Target
from wakeful.values.errors import BadUrl, OutcomeUnknown, StoreDown

Row = Any  # an asyncpg.Record: values by name or number

CONNECT_TIMEOUT_S = 5.0
# Long enough for a bulk insert on a busy server, short enough that a network that swallows packets is noticed.
STATEMENT_TIMEOUT_S = 30.0
RETRIES_MAX = 8

# Plans must not depend on how full the tables were when they were made: each statement is planned once, for
# index probes. Compiling them would cost more than running them.
_SETTINGS = (
    "SET plan_cache_mode = force_generic_plan",
    "SET jit = off",
    "SET enable_seqscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
)
# An acknowledged write is on disk, whatever the server's default is.
_DURABLE = """SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)"""

_LOST = ("08", "57P01", "57P02", "40003")  # the session ended, perhaps after it committed
_AGAIN = ("40001", "40P01")  # rolled back for the sake of another transaction
_INVALID = ("22", "23", "54")  # the data itself can't be stored


class Invalid(Exception):
    """The server is fine and nothing was written: these values can't be."""


class Wire:
    """One connection. Everything it raises is ours."""

    def __init__(self, connection: Any, where: str, can_be_lazy: bool) -> None:
        self._connection = connection
        self._where = where
        self.can_be_lazy = can_be_lazy

    @classmethod
    async def connect(cls, target: Target, *, packed: bool = False, readonly: bool = False) -> "Wire":
        """A connection that is ready for our statements; `packed` ones take arrays fast and can't return any."""
        options: dict[str, Any] = {}
        if target.statement_cache_size is not None:
            options["statement_cache_size"] = target.statement_cache_size
        if not target.names_itself:
            options["server_settings"] = {"application_name": "wakeful"}
        where = target.shown
        try:
            connection = await asyncpg.connect(target.dsn, timeout=CONNECT_TIMEOUT_S, **options)
        except (asyncpg.exceptions.ClientConfigurationError, ValueError) as error:
            raise BadUrl(f"{where}: {_line(error)}") from None
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            raise StoreDown(f"{where} refuses us: {_line(error)}", code="store.auth") from None
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise StoreDown(f"{where} can't be reached: {_line(error)}") from None
        wire = cls(connection, where, False)
        try:
            await wire._prepare(packed, readonly)
        except BaseException:
            wire.drop()
            raise
        return wire

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def run(self, statement: Statement, args: Sequence[object] = (), *, writes: bool = False) -> list[Row]:
        """The rows that it returns. `writes`: a connection lost on the way leaves the outcome unknown."""
        for _ in range(RETRIES_MAX):
            try:
                rows: list[Row] = await self._connection.fetch(statement.text, *args, timeout=STATEMENT_TIMEOUT_S)
                return rows
            except asyncpg.PostgresError as error:
                if not (error.sqlstate or "").startswith(_AGAIN):
                    raise self._meaning(error, writes) from None
                last = error
            except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
                raise self._meaning(error, writes) from None
        raise StoreDown(f"{self._where}: gave up after {RETRIES_MAX} tries: {_line(last)}")

    async def script(self, sql: str) -> None:
        """Run several statements without arguments."""
        try:
            await self._connection.execute(sql, timeout=STATEMENT_TIMEOUT_S)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            raise self._meaning(error, writes=False) from None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """All statements in it, or none; the end of it is a write whose outcome can be unknown."""
        await self.script("BEGIN")
        try:
            yield
        except BaseException:
            if not self.is_closed:
                with suppress(Exception):
                    await self._connection.execute("ROLLBACK", timeout=CONNECT_TIMEOUT_S)
            raise
        await self.run(Statement("COMMIT", ()), writes=True)

    async def close(self) -> None:
        try:
            await self._connection.close(timeout=CONNECT_TIMEOUT_S)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self.drop()

    def drop(self) -> None:
        """Close without a word."""
        self._connection.terminate()

    async def _prepare(self, packed: bool, readonly: bool) -> None:
        for setting in _SETTINGS:
            # A relative of PostgreSQL may lack one: it is then slower, not wrong.
            with suppress(asyncpg.PostgresError):
                await self._connection.execute(setting)
        try:
            await self._connection.execute(_DURABLE)
            self.can_be_lazy = True
            if readonly:
                await self._connection.execute("SET default_transaction_read_only = on")
        except asyncpg.PostgresError:
            self.can_be_lazy = False
        except (asyncpg.InterfaceError, OSError) as error:
            raise StoreDown(f"{self._where} can't be reached: {_line(error)}") from None
        if packed:
            self._pack()

    def _pack(self) -> None:
        """Teach the connection to write arrays fast; without it they are only slower.

        asyncpg has the means and no public name for it: `set_type_codec` refuses arrays.
        """
        with suppress(AttributeError, TypeError):
            settings = self._connection._protocol.get_settings()
            for oid, name, encode in PACKERS:
                settings.add_python_codec(oid, name, "pg_catalog", [], "scalar", encode, bytes, "binary")

    def _meaning(self, error: Exception, writes: bool) -> Exception:
        """Our error for the driver's; a connection that is no longer good is dropped."""
        if isinstance(error, asyncpg.PostgresError):
            state = error.sqlstate or ""
            if state.startswith(_INVALID):
                return Invalid(_line(error))
            if not state.startswith(_LOST):
                return StoreDown(f"{self._where}: {_line(error)} ({state})")
        elif isinstance(error, asyncpg.DataError | asyncpg.exceptions.UnsupportedClientFeatureError):
            return Invalid(_line(error))
        self.drop()
        if writes:
            return OutcomeUnknown(f"{self._where} was lost while committing: {_line(error)}; retry with a request key")
        return StoreDown(f"{self._where} was lost: {_line(error)}")


def _line(error: BaseException) -> str:
    """The error in one line."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return " ".join(str(error).split()) or type(error).__name__
