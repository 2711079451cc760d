"""Layer 2. What does a lasting connection give: to hear others at once, and to be missed when gone?

Nothing here is needed to be right, only to be quick. Where the server lacks it, or a pooler stands between
(which shows in the number of the process that answers), there is no session, and nodes scan and wait for leases.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from zlib import crc32

import msgspec

from wakeful.store.postgres.statements import Statement
from wakeful.store.postgres.url import Target
from wakeful.store.postgres.wire import Invalid, Row, ServerRefused, ServerWire
from wakeful.store.protocol import Hint
from wakeful.values.errors import Unavailable

# How long is a server asked again that was lost, or can't be reached?
#
# A server that restarts, fails over or stalls is away for seconds. Whoever asked waits for it as for a slow one, as long
# as one statement may take: `?timeout=`.

FIRST_S = 0.05
MOST_S = 1.0


class QuestionTime:
    """One question's time, with all that is tried for it."""

    __slots__ = ("_delay_s", "_until")

    def __init__(self, length_s: float) -> None:
        self._until = asyncio.get_running_loop().time() + length_s
        self._delay_s = FIRST_S

    async def waits(self) -> bool:
        """Wait a moment, to ask again; False when the time is over."""
        left_s = self._until - asyncio.get_running_loop().time()
        if left_s <= 0:
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), min(left_s, self._delay_s))
        self._delay_s = min(2 * self._delay_s, MOST_S)
        return True


log = logging.getLogger("wakeful.store")

Heard = Callable[[Sequence[Hint]], None]

# A node renews its lease past this connection, and waits for the lock no longer than its lease allows. The connection itself
# is as patient as any: to give it up because the server is slow would let go of the lock, and others would take this node
# for dead.
BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 1.0
# When the server restarts every session is gone for a moment; others are not missed until they had time to come back.
SETTLE_S = 3.0
# A payload must stay under 8,000 bytes; a hint has at most 40.
HINTS_MAX = 190
# First number of our advisory locks: "WAKE". The second is made of schema and node.
LOCK_CLASS = 0x57414B45

NOTIFY = Statement("SELECT count(pg_notify($1, payload)) FROM unnest($2::text[]) AS payload", ("channel", "payloads"))
_LOCK = Statement("SELECT pg_try_advisory_lock($1, $2)", ("class", "key"))
_ANYTHING = Statement("SELECT 1", ())
_UNLOCK = Statement("SELECT pg_advisory_unlock($1, $2)", ("class", "key"))
# Some relatives of PostgreSQL say that they locked, and didn't.
_HOLDS = Statement(
    """SELECT count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()
    AND classid = $1::bigint::oid AND objid = $2::bigint::oid""",
    ("class", "key"),
)
# A notification need not be on disk. The rest has the server miss a machine that lost its power within seconds.
_SETTINGS = (
    "SET synchronous_commit = off",
    "SET tcp_keepalives_idle = 2",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = 5000",
)


def lock_key(schema: str, node: str) -> int:
    """The second number of the node's advisory lock, as pg_locks shows it."""
    return crc32(f"{schema}\0{node}".encode())


def channel_of(schema: str) -> str:
    """The channel of that schema; PostgreSQL takes at most 63 bytes."""
    return f"wakeful:{schema}" if len(schema) <= 55 else f"wakeful:{crc32(schema.encode()):08x}:{schema[:46]}"


def payloads(hints: Sequence[Hint]) -> list[str]:
    """The notifications that say it; without hints the one which says that nodes or shards changed."""
    pages = [hints[n : n + HINTS_MAX] for n in range(0, len(hints), HINTS_MAX)] or [[]]
    return [msgspec.json.encode(page).decode() for page in pages]


class NodeSession:
    """One connection that stays: it listens, holds the node's lock, and comes back when it was lost."""

    def __init__(self, target: Target, heard: Heard) -> None:
        self._target = target
        self._heard = heard
        self._channel = channel_of(target.schema)
        self._busy = asyncio.Lock()
        self._wire: ServerWire | None = None
        self._since = 0.0  # of the event loop's clock
        self._lost = asyncio.Event()
        self._closing = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._flush: asyncio.Task[None] | None = None
        self._locking: asyncio.Task[None] | None = None
        self._pending: dict[int, Hint] = {}
        self._has_news = False
        self._told = asyncio.Event()  # of the notification that takes with it what is pending now
        self._node: str | None = None
        self._is_locked = False
        self.listens = target.listen
        self.locks = target.session_lock

    @property
    def is_alive(self) -> bool:
        return self._wire is not None and not self._wire.is_closed

    @property
    def is_settled(self) -> bool:
        """Whether others who have no session now can be called gone."""
        return self.is_alive and asyncio.get_running_loop().time() - self._since >= SETTLE_S

    async def open(self) -> None:
        """Connect, and find out what the server can do."""
        await self._connect()
        if self._wire is not None:
            self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        self._closing.set()
        for task in (self._keeper, self._flush, self._locking):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def lock(self, node: str, wait_ms: int) -> bool:
        """Whether the node's lock is held here; takes it when it is not and that is possible so soon."""
        if not self.locks:
            return False
        if self._node is not None and self._node != node:
            await self.unlock(self._node)
        self._node = node
        if not self._is_locked:
            if self._locking is None or self._locking.done():
                self._locking = asyncio.create_task(self._take_lock())
            await asyncio.wait([self._locking], timeout=wait_ms / 1000)
        return self._is_locked and self.is_alive

    async def unlock(self, node: str) -> None:
        if node != self._node:
            return
        self._node = None
        if self._is_locked:
            self._is_locked = False
            with suppress(Unavailable):
                await self.run(_UNLOCK, [LOCK_CLASS, _to_signed(lock_key(self._target.schema, node))])

    async def tell(self, hints: Sequence[Hint]) -> None:
        """Send them with whatever else waits to be sent; kept, one a shard, while the connection is away."""
        self._gather(hints, not hints)
        if not self.is_alive:
            return
        if self._flush is None or self._flush.done():
            self._flush = asyncio.create_task(self._send())
        await self._told.wait()

    async def catch_up(self) -> None:
        """Wait until everything was heard that others had told before: the server answers a session behind its notifications."""
        if self.is_alive:
            await self.run(_ANYTHING, [])

    async def _send(self) -> None:
        """Notify of what is pending, and of what comes while that is under way."""
        try:
            while (self._pending or self._has_news) and self.is_alive:
                await self._send_pending()
        except (Unavailable, Invalid) as error:
            # They go with the next, or when the connection is back.
            log.info("%s: hints wait: %s", self._target.shown, error, extra={"code": "store.session"})
        finally:
            self._told.set()
            self._told = asyncio.Event()

    async def _send_pending(self) -> None:
        hints, self._pending = list(self._pending.values()), {}
        has_news, self._has_news = self._has_news, False
        told, self._told = self._told, asyncio.Event()  # those who come from here on wait for the next round
        texts = [*payloads(hints), *payloads([])] if hints and has_news else payloads(hints)
        try:
            await self.run(NOTIFY, [self._channel, texts])
        except BaseException:
            self._gather(hints, has_news)
            raise
        finally:
            told.set()

    def _gather(self, hints: Sequence[Hint], has_news: bool) -> None:
        self._has_news = self._has_news or has_news
        for hint in hints:
            known = self._pending.get(hint.shard)
            self._pending[hint.shard] = hint if known is None else _merge(known, hint)

    async def run(self, statement: Statement, args: Sequence[object]) -> list[Row]:
        """What the server answers on this connection. Nothing that takes long: who tells others waits behind it."""
        async with self._busy:
            if self._wire is None:
                raise Unavailable("no session")
            return await self._wire.run(statement, args)

    async def _take_lock(self) -> None:
        """Try it; somebody else may have it: a connection of ours that the server has not missed yet."""
        if self._node is None or not self.is_alive:
            return
        key = lock_key(self._target.schema, self._node)
        try:
            [(got,)] = await self.run(_LOCK, [LOCK_CLASS, _to_signed(key)])
            if got:
                [(found,)] = await self.run(_HOLDS, [LOCK_CLASS, key])
                self.locks = self._is_locked = bool(found)
        except ServerRefused:
            self.locks = False  # this server has no such locks
        except Unavailable:
            pass  # the next join tries again

    async def _connect(self) -> None:
        """A connection that listens; none, with both abilities off, where there can be no session."""
        wire = await ServerWire.connect(self._target)
        try:
            if wire.is_pooled:
                self.listens = self.locks = False
            else:
                await wire.prefer(_SETTINGS)
            if self.listens:
                self.listens = await self._listen(wire)
            # A first session of a server that has long been up has seen no restart: who is not here is gone.
            age_s = min(SETTLE_S, await wire.uptime_s()) if self._since == 0.0 else 0.0
        except BaseException:
            wire.drop()
            raise
        if not (self.listens or self.locks):
            await wire.close()
            return
        self._lost.clear()
        self._is_locked = False
        wire.on_loss(self._lost.set)
        self._wire = wire
        self._since = asyncio.get_running_loop().time() - age_s
        await self._take_lock()

    async def _listen(self, wire: ServerWire) -> bool:
        try:
            await wire.listen(self._channel, self._receive)
        except ServerRefused:
            return False
        return True

    def _receive(self, payload: str) -> None:
        try:
            hints = msgspec.json.decode(payload, type=list[Hint])
        except (msgspec.DecodeError, ValueError):
            hints = []  # not one of ours: look at everything
        self._heard(hints)

    async def _keep(self) -> None:
        """Connect again whenever the connection was lost, until closed."""
        while not self._closing.is_set():
            await self._lost.wait()
            self._is_locked = False
            delay_s = BACKOFF_FIRST_S
            while not self.is_alive:
                if self._closing.is_set() or not (self.listens or self.locks):
                    return
                try:
                    await self._connect()
                except Exception as error:  # whatever it is: nobody else would try again
                    log.info("no session with %s: %s", self._target.shown, error, extra={"code": "store.session"})
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._closing.wait(), delay_s)
                    delay_s = min(2 * delay_s, BACKOFF_MAX_S)
            self._heard([])  # anything may have been missed
            if self._flush is None or self._flush.done():
                self._flush = asyncio.create_task(self._send())


def _merge(one: Hint, other: Hint) -> Hint:
    return Hint(one.shard, min(one.first_at, other.first_at), max(one.last_at, other.last_at))


def _to_signed(number: int) -> int:
    """The same 32 bits as PostgreSQL's integer."""
    return number - 2**32 if number >= 2**31 else number
