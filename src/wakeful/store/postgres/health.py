"""Layer 2. How is the server itself: who holds things up, and do notifications get through?"""

import asyncio
from typing import Any

import asyncpg
from msgspec import Struct

from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import Target
from wakeful.store.postgres.wire import ServerWire
from wakeful.values.errors import StoreDown

LONG_MS = 5_000  # Wakeful's own transactions take milliseconds
HEARD_S = 1.0
QUERY_CHARS = 80

_STATE = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'"
# Sessions of this database that have been in one transaction, or have waited for a lock, for long; or that hold a whole
# table of ours, which we never do for a second. Which of them hold
# locks on our tables is what makes one dangerous rather than only untidy. Of other roles' sessions a role without
# `pg_read_all_stats` sees who they are and which locks they wait for, and else NULL.
_SESSIONS = f"""
WITH waits AS (SELECT pid, min(waitstart) AS since FROM pg_locks WHERE NOT granted GROUP BY pid)
SELECT a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
    (extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, w.since)) * 1000)::bigint AS age_ms,
    a.wait_event_type = 'Lock' OR a.backend_type IS NULL AS is_waiting,
    CASE WHEN a.wait_event_type = 'Lock' OR a.backend_type IS NULL THEN pg_blocking_pids(a.pid) ELSE '{{}}' END AS blockers,
    EXISTS (
        SELECT 1 FROM pg_locks AS l
        JOIN pg_class AS c ON c.oid = l.relation
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE l.pid = a.pid AND n.nspname = $1 AND l.granted
    ) AS touches,
    left(regexp_replace(coalesce(a.query, ''), '\\s+', ' ', 'g'), {QUERY_CHARS})
FROM pg_stat_activity AS a LEFT JOIN waits AS w ON w.pid = a.pid
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND CASE WHEN a.backend_type IS NULL THEN w.since < clock_timestamp() - interval '1 second'
        ELSE a.backend_type = 'client backend' AND a.xact_start IS NOT NULL
            AND (a.xact_start < clock_timestamp() - $2::bigint * interval '1 millisecond'
                OR (a.wait_event_type = 'Lock' AND a.query_start < clock_timestamp() - interval '1 second')
                OR (a.xact_start < clock_timestamp() - interval '1 second' AND EXISTS (
                    SELECT 1 FROM pg_locks AS l
                    JOIN pg_class AS c ON c.oid = l.relation
                    JOIN pg_namespace AS n ON n.oid = c.relnamespace
                    WHERE l.pid = a.pid AND n.nspname = $1 AND l.granted
                        AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))))
        END
ORDER BY age_ms DESC
LIMIT 20
"""
# What is hidden and has a role and a database is somebody's session: the server's own processes lack one or the other.
_CONNECTIONS = """
SELECT count(*), current_setting('max_connections')::bigint,
    count(*) FILTER (WHERE backend_type IS NULL AND datname = current_database())
FROM pg_stat_activity
WHERE backend_type = 'client backend' OR (backend_type IS NULL AND datid IS NOT NULL AND usesysid IS NOT NULL)
"""


class LongSession(Struct, frozen=True):
    """A session of the database that is in a transaction for long, or waits for a lock.

    Of one that may not be looked into there is no state, and its age is that of the wait.
    """

    pid: int
    user: str
    application: str
    state: str
    age_ms: int
    is_waiting: bool
    blockers: list[int]
    touches: bool  # holds a lock on a table of this store
    query: str


class Health(Struct, frozen=True):
    """What can be known; None where the server does not say."""

    is_standby: bool | None
    is_read_only: bool | None
    connections: int | None
    connections_max: int | None
    hidden: int | None  # sessions of this database that the role may not look into
    sessions: list[LongSession] | None
    hears: bool | None  # a notification to ourselves came back
    encoding: str | None = None


class _Ears(ServerWire):
    """A connection that can listen."""

    async def hears_itself(self) -> bool:
        """Whether a notification arrives: behind a pooler of transactions it does not, and some relatives have none."""
        if self.is_pooled:
            return False
        heard = asyncio.Event()

        def note(*_: Any) -> None:
            heard.set()

        try:
            await self._connection.add_listener("wakeful_doctor", note)
            await self._connection.execute("NOTIFY wakeful_doctor")
            async with asyncio.timeout(HEARD_S):
                await heard.wait()
            await self._connection.remove_listener("wakeful_doctor", note)
        except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        return True


async def health(target: Target, *, long_ms: int = LONG_MS) -> Health:
    """How the server is now. A relative of PostgreSQL that lacks one of the views leaves that open."""
    wire = await _Ears.connect(target)
    assert isinstance(wire, _Ears)
    try:
        state = await _try(wire, Statement(_STATE, ()))
        used = await _try(wire, Statement(_CONNECTIONS, ()))
        sessions = await _try(wire, Statement(_SESSIONS, ("schema", "long_ms")), target.schema, long_ms)
        hears = await wire.hears_itself()
        encoding = wire.encoding
    finally:
        await wire.close()
    is_standby, is_read_only = state[0] if state else (None, None)
    connections, connections_max, hidden = used[0] if used else (None, None, None)
    return Health(
        is_standby=is_standby,
        is_read_only=is_read_only,
        connections=connections,
        connections_max=connections_max,
        hidden=hidden,
        sessions=None if sessions is None else [_session(row) for row in sessions],
        hears=hears,
        encoding=encoding,
    )


async def _try(wire: ServerWire, statement: Statement, *args: object) -> list[Any] | None:
    try:
        return await wire.run(statement, args)
    except StoreDown:
        if wire.is_closed:
            raise
        return None


def _session(row: Any) -> LongSession:
    pid, user, application, state, age_ms, is_waiting, blockers, touches, query = row
    return LongSession(pid, user, application, state, age_ms, bool(is_waiting), list(blockers), touches, query)
