"""Layer 3. Does somebody hold a lock on a table, so that what this node has to read or write there waits?

The store is asked who holds what, and not its tables for a row: that waits for no lock, so it can't become one more
session that is held up; it sees locks that only a write would meet, before one does; and it knows table and session.
"""

import asyncio
import logging

from wakeful.runtime.env import Env
from wakeful.store.protocol import TableLock
from wakeful.values.errors import Unavailable
from wakeful.values.times import Handle

log = logging.getLogger("wakeful.store")

LOOK_MS = 1_000  # between two looks; a node looks at the others more often than that
LONG_MS = 3_000  # what is held for so long is no hiccup: load balancers are told, and the log

Seen = tuple[str, str]  # table and transaction: a session that takes a lock again has not held it all the time


class LockWatch:
    """Looks now and then, while the store is there and while it is away; what was seen holds until the next look."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._handle: Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._since: dict[Seen, int] = {}
        self._long: dict[Seen, TableLock] = {}
        self._said: set[Seen] = set()  # of which the log has heard, and not yet that they are gone

    @property
    def held_ms(self) -> int:
        """For how long the first of them has been seen; 0 when there is none."""
        return max((self._env.clock.now() - self._since[one] for one in self._long), default=0)

    @property
    def held_lock(self) -> TableLock | None:
        """The lock that has been held for long, the first of them; None when nobody holds one, or that can't be known."""
        return next(iter(self._long.values()), None)

    @property
    def unreadable(self) -> TableLock | None:
        """The first of those that keep even readers out."""
        return next((lock for lock in self._long.values() if not lock.is_readable), None)

    def start(self) -> None:
        if self._env.is_clustered and self._env.store.shows_locks:
            self._later()

    def stop(self) -> None:
        for one in (self._handle, self._task):
            if one is not None:
                one.cancel()
        self._handle = self._task = None

    def _later(self) -> None:
        clock = self._env.clock
        self._handle = clock.call_at(clock.now() + LOOK_MS, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        try:
            self._note(await self._env.store.locks())
        except Unavailable:
            self._forget()  # others say that the store does not answer; who keeps it from that is not known
        except Exception:
            log.exception("looking for locks failed", extra={"code": "store.locked"})
            self._forget()
        self.start()

    def _forget(self) -> None:
        self._since, self._long = {}, {}

    def _note(self, locks: list[TableLock]) -> None:
        now = self._env.clock.now()
        seen = {(lock.table, lock.transaction): lock for lock in locks}
        self._since = {one: min(now, self._since.get(one, now)) for one in seen}  # min: the clock may be set back
        self._long = {one: seen[one] for one in seen if now - self._since[one] >= LONG_MS}
        for one in self._long.keys() - self._said:
            log.warning(
                "%s for %.0f s; wakeful doctor says by what",
                words(self._long[one]),
                (now - self._since[one]) / 1000,
                extra={"code": "store.locked"},
            )
        had_said, self._said = bool(self._said), (self._said & seen.keys()) | self._long.keys()
        if had_said and not self._said:
            log.warning("no table is locked any more", extra={"code": "store.locked"})


def words(lock: TableLock) -> str:
    """Which table, by whom, and what that keeps everybody from."""
    who = "a prepared transaction" if lock.pid is None else f"session {lock.pid} of the database"
    return f"the table {lock.table} is locked by {who}, and can't be {'written' if lock.is_readable else 'read'}"


def remedy(lock: TableLock) -> str:
    """What ends it."""
    ends = "end that in the program that began it"
    return ends if lock.pid is None else f"{ends}, or: SELECT pg_terminate_backend({lock.pid})"
