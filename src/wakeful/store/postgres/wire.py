"""Layer 2. How is the server spoken to, and what do its failures mean here?"""

import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import msgspec

from wakeful.store.postgres.arrays import PACKERS
from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import NoneServes, Target, dial
from wakeful.store.protocol import CANCELLED
from wakeful.values.errors import BadUrl, OutcomeUnknown, StoreDown

Row = Any  # an asyncpg.Record: values by name or number

CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 1.0
# A migration may build an index over everything.
SCRIPT_TIMEOUT_S = 600.0
RETRIES_MAX = 8
# So long may a network swallow what was sent, before the connection counts as lost: a server that only takes its time
# acknowledges it.
GONE_MS = 10_000
# The kernel looks after an idle connection: three unanswered probes, one a second, after three seconds.
_KEEPALIVES = (("TCP_KEEPIDLE", 3), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3))

# Plans must not depend on how full the tables were when they were made: each statement is planned once, for
# index probes. Compiling them would cost more than running them.
_SETTINGS = (
    "SET plan_cache_mode = force_generic_plan",
    "SET jit = off",
    "SET enable_seqscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
)
# What a role or a database has for other programs is not for this one: its statements are safe when each sees what is
# committed, and the URL's timeout is the one that they have.
_OWN = """SELECT set_config(name, CASE name WHEN 'default_transaction_isolation' THEN 'read committed' ELSE '0' END, false)
    FROM pg_catalog.pg_settings
    WHERE name IN ('default_transaction_isolation', 'statement_timeout', 'lock_timeout', 'transaction_timeout',
        'idle_in_transaction_session_timeout', 'idle_session_timeout')"""
# An acknowledged write is on disk, whatever the server's default is.
_DURABLE = """SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)"""

# How many a store may have: to read, to insert, to commit, to renew the lease, and the session.
CONNECTIONS = 9
STANDBY = "connect to the primary (with several hosts in the URL: target_session_attrs=read-write)"
READ_ONLY = (
    "default_transaction_read_only is on for this server, database or role, or in the URL: turn it off "
    "(SET default_transaction_read_only = off, then ALTER SYSTEM, DATABASE or ROLE … RESET default_transaction_read_only)"
)
MAKING = "let a role that may make it run `wakeful migrate`, or grant this one CREATE on the database"
RIGHTS = "the role needs USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on its tables, or to own them"

_LOST = ("08", "57P01", "57P02", "40003")  # the session ended, perhaps after it committed
_LACKING = ("0A", "42")  # the server has no such thing
_AGAIN = ("40001", "40P01")  # rolled back for the sake of another transaction
_CANCELLED = ("57014", "55P03")  # a timeout of the server's, or an operator, ended the statement
_INVALID = ("22", "23", "54")  # the data itself can't be stored


class Invalid(Exception):
    """The server is fine and nothing was written: these values can't be."""


class ServerRefused(StoreDown):
    """The server is there and lacks what was asked for, or the right to it: asking again won't help."""


class ServerLost(StoreDown):
    """The server was lost or can't be reached, and nothing that was asked for was written: it may be back in a moment."""


class Undone(StoreDown):
    """Nothing was written: the transaction was rolled back for the sake of another. The next try finds out what that did."""


class Taken(Invalid):
    """Nothing was written: a row with that key is there."""


class ServerWire:
    """One connection. Everything it raises is ours."""

    def __init__(self, connection: Any, where: str, timeout_s: float) -> None:
        self._connection = connection
        self._where = where
        self.timeout_s = timeout_s
        self.can_be_lazy = False
        self.has_others = False  # the URL names several hosts: the next connection may find the one that takes writes
        self.is_pooled = False  # a pooler is between: what is set here, somebody else has

    @classmethod
    async def connect(cls, target: Target, *, packed: bool = False, readonly: bool = False) -> "ServerWire":
        """A connection that is ready for our statements; `packed` ones take arrays fast and can't return any."""
        options: dict[str, Any] = {"command_timeout": target.timeout_ms / 1000}
        if target.statement_cache_size is not None:
            options["statement_cache_size"] = target.statement_cache_size
        if not target.names_itself:
            options["server_settings"] = {"application_name": "wakeful"}
        where = target.shown
        try:
            timeout_s = min(CONNECT_TIMEOUT_S, target.timeout_ms / 1000)
            connection = await dial(target.servers, timeout_s=timeout_s, **options)
        except (asyncpg.exceptions.ClientConfigurationError, ValueError) as error:
            raise BadUrl(f"{where}: {_line(error)}") from None
        except NoneServes as error:
            raise ServerLost(
                f"{where} can't be reached, or takes no writes: {error}; does one of them run as the primary?"
            ) from None
        except asyncpg.exceptions.TargetServerAttributeNotMatched:
            raise StoreDown(
                f"{where} is not what its target_session_attrs asks for; {STANDBY}", code="store.readonly"
            ) from None
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise refusal(error, where) from None
        wire = cls(connection, where, target.timeout_ms / 1000)
        wire.has_others = len(target.servers) > 1
        try:
            wire.is_pooled = not await wire._is_direct()
            if wire.is_pooled and target.statement_cache_size is None:
                await wire.close()
                target = msgspec.structs.replace(target, statement_cache_size=0)
                return await cls.connect(target, packed=packed, readonly=readonly)
            await wire._prepare(packed, readonly)
        except BaseException:
            wire.drop()
            raise
        return wire

    @property
    def encoding(self) -> str | None:
        """How the database keeps text; None where the server does not say."""
        return getattr(self._connection.get_settings(), "server_encoding", None)

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def run(
        self,
        statement: Statement,
        args: Sequence[object] = (),
        *,
        writes: bool = False,
        timeout_s: float | None = None,
    ) -> list[Row]:
        """The rows that it returns. `writes`: a connection lost on the way leaves the outcome unknown.

        One that does not answer within the timeout (the URL's, unless given) is lost.
        """
        for _ in range(RETRIES_MAX):
            try:
                return await self._run_once(statement, args, writes, timeout_s)
            except Undone as error:
                if self._connection.is_in_transaction():
                    raise  # with all that was done in it: whoever began it has to begin again
                last = error
        raise StoreDown(f"gave up after {RETRIES_MAX} tries: {last.message}")

    async def _run_once(
        self, statement: Statement, args: Sequence[object], writes: bool, timeout_s: float | None
    ) -> list[Row]:
        try:
            rows: list[Row] = await self._connection.fetch(statement.text, *args, timeout=timeout_s or self.timeout_s)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            raise self._meaning(error, writes) from None
        return rows

    async def copy_in(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[Row], timeout_s: float
    ) -> None:
        """Add rows to a table, all or none; inside of a transaction."""
        try:
            await self._connection.copy_records_to_table(
                table, schema_name=schema, columns=columns, records=rows, timeout=timeout_s
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            raise self._meaning(error, writes=False) from None

    async def script(self, sql: str, *, timeout_s: float = SCRIPT_TIMEOUT_S) -> None:
        """Run several statements without arguments."""
        try:
            await self._connection.execute(sql, timeout=timeout_s)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            raise self._meaning(error, writes=False) from None

    @asynccontextmanager
    async def transaction(self, *, timeout_s: float | None = None) -> AsyncIterator[None]:
        """All statements in it, or none; the end of it is a write whose outcome can be unknown."""
        await self.run(Statement("BEGIN", ()))
        try:
            yield
        except BaseException:
            if not self.is_closed:
                with suppress(Exception):
                    await self._connection.execute("ROLLBACK", timeout=CONNECT_TIMEOUT_S)
            raise
        # Once: after one that failed there is nothing left to commit, and a second would say that all is well.
        await self._run_once(Statement("COMMIT", ()), (), writes=True, timeout_s=timeout_s)

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """All statements in it or none, and the transaction around it goes on."""
        await self.run(Statement("SAVEPOINT attempt", ()))
        try:
            yield
        except Undone:
            raise  # with the transaction around it, and some servers can't go back to a part of that
        except BaseException:
            if not self.is_closed:
                await self.script("ROLLBACK TO SAVEPOINT attempt", timeout_s=self.timeout_s)
            raise
        await self.run(Statement("RELEASE SAVEPOINT attempt", ()))

    async def close(self) -> None:
        try:
            await self._connection.close(timeout=CLOSE_TIMEOUT_S)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self.drop()

    def drop(self) -> None:
        """Close without a word."""
        self._connection.terminate()

    async def _is_direct(self) -> bool:
        """Whether what we speak to is the server's own process for us, not a pooler.

        In words that need no prepared statement, which a pooler may not keep. A relative that can't say is taken for one.
        """
        own = int(self._connection.get_server_pid())
        try:
            return bool(await self._connection.execute(f"SELECT 1 WHERE pg_backend_pid() = {own}") == "SELECT 1")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            if isinstance(meaning := self._meaning(error, writes=False), ServerRefused):
                return False
            raise meaning from None

    async def uptime_s(self) -> float:
        """How long the server has been up."""
        text = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8"
        [(found,)] = await self.run(Statement(text, ()))
        return float(found)

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Call `heard(payload)` for what other connections notify on the channel."""
        own = self._connection.get_server_pid()

        def on_notify(_connection: Any, pid: int, _channel: str, payload: str) -> None:
            if pid != own:
                heard(payload)

        try:
            await self._connection.add_listener(channel, on_notify)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            raise self._meaning(error, writes=False) from None

    def on_loss(self, lost: Callable[[], None]) -> None:
        """Call it once the connection has ended, whoever ended it."""
        self._connection.add_termination_listener(lambda _: lost())

    def _watch_over(self) -> None:
        """Have the kernel notice a peer that is gone without a word; asyncpg has no name for the socket."""
        with suppress(AttributeError, OSError):
            peer = self._connection._transport.get_extra_info("socket")
            if peer.family == socket.AF_UNIX:
                return
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVES:
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            gone_ms = min(GONE_MS, int(self.timeout_s * 1000))
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, gone_ms)

    async def _prepare(self, packed: bool, readonly: bool) -> None:
        self._watch_over()
        if packed:
            self._pack()
        if self.is_pooled:
            return  # it is slower so, not wrong; and nobody else finds the server read-only, or lazy
        try:
            await self.prefer(_SETTINGS)
            with suppress(asyncpg.PostgresError):
                await self._connection.execute(_OWN)
            with suppress(asyncpg.PostgresError):
                await self._connection.execute(_DURABLE)
                self.can_be_lazy = True
            if readonly:
                with suppress(asyncpg.PostgresError):
                    await self._connection.execute("SET default_transaction_read_only = on")
        except (asyncpg.InterfaceError, OSError) as error:
            raise ServerLost(f"{self._where} can't be reached: {_line(error)}") from None

    async def prefer(self, settings: Sequence[str]) -> None:
        """Apply what the server knows of these; a relative of PostgreSQL may lack one, and is then slower, not wrong."""
        with suppress(asyncpg.PostgresError):
            await self._connection.execute("; ".join(settings))
            return
        for setting in settings:
            with suppress(asyncpg.PostgresError):
                await self._connection.execute(setting)

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
            if state == "23505":
                return Taken(_line(error))
            if state.startswith(_INVALID):
                return Invalid(_line(error))
            if state == "25006":
                remedy = self._read_only_remedy()
                self.drop()
                if self.has_others:  # nothing was written, and the next connection finds the primary
                    return ServerLost(f"{self._where} was lost: {_line(error)}, so the primary is another one now")
                return StoreDown(f"{self._where} can't be written now: {_line(error)}; {remedy}", code="store.readonly")
            if state == "42501":
                return ServerRefused(f"{self._where}: {_line(error)}; {RIGHTS}", code="store.rights")
            if state in _CANCELLED:
                said = f"{_line(error)} ({state})"
                return StoreDown(f"{self._where} ended the statement, nothing of it is written: {said}", code=CANCELLED)
            if state.startswith(_AGAIN):
                return Undone(f"{self._where}: {_line(error)} ({state})")
            if state.startswith(_LACKING):
                return ServerRefused(f"{self._where}: {_line(error)} ({state})")
            if not state.startswith(_LOST):
                return StoreDown(f"{self._where}: {_line(error)} ({state})")
        elif isinstance(error, asyncpg.DataError | asyncpg.exceptions.UnsupportedClientFeatureError):
            return Invalid(_line(error))
        self.drop()
        if writes:
            return OutcomeUnknown(f"{self._where} was lost while committing: {_line(error)}; retry with a request key")
        return ServerLost(f"{self._where} was lost: {_line(error)}")

    def _read_only_remedy(self) -> str:
        """By what the server said of itself; a relative of PostgreSQL, or a pooler, may not say it."""
        said = None if self.is_closed else getattr(self._connection.get_settings(), "in_hot_standby", None)
        if said is None:
            return f"{STANDBY}; or {READ_ONLY}"
        return STANDBY if said == "on" else READ_ONLY


def refusal(error: Exception, where: str) -> StoreDown:
    """What a failed attempt to connect means, and what to do about it."""
    said = _line(error)
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return StoreDown(
            f"{where} refuses us: {said}; check user and password in the URL (or PGPASSWORD, ~/.pgpass) and pg_hba.conf",
            code="store.auth",
        )
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return StoreDown(
            f"{where} can't be used: {said}; create it with createdb, or correct the URL", code="store.database"
        )
    if isinstance(error, asyncpg.UndefinedObjectError):  # a parameter of the URL that is none of the server's
        return StoreDown(f"{where} refuses us: {said}; correct the options in the URL", code="store.option")
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return StoreDown(
            f"{where} has no connection left: {said}; every node takes up to {CONNECTIONS}: raise max_connections "
            "(or the role's CONNECTION LIMIT), run fewer nodes, or put a pooler in between",
            code="store.connections",
        )
    remedy = "; does it run, and do host and port of the URL lead to it?" if isinstance(error, OSError) else ""
    return ServerLost(f"{where} can't be reached: {said}{remedy}")


def _line(error: BaseException) -> str:
    """The error in one line."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    if isinstance(error, asyncpg.InternalClientError) and "another operation" in str(error):
        return "the connection broke while it was in use"  # asyncpg speaks of its own states then
    return " ".join(str(error).split()) or type(error).__name__
