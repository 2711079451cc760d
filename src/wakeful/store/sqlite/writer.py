"""Layer 2. How does a transaction get to disk without the event loop waiting for the disk?

Statements run in the loop's own thread, where they take microseconds; the COMMIT, which waits for the
disk, runs in the one writer thread (measured: a hand-over costs 70 µs, so once per group). Only what
would hold up the loop (thousands of rows) runs in the writer thread as a whole.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar, cast

from wakeful.store.protocol import ALONE
from wakeful.store.sqlite.owner import Place, check_file
from wakeful.store.sqlite.statements import SQL
from wakeful.values.errors import OutcomeUnknown, StoreDown, StoreError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

# How long to wait for a lock that somebody else's tool holds on the file; the loop waits with us.
BUSY_S = 0.25
# Above 16 MiB of log the commit that passed it also moves the log into the database (measured: 4 MiB costs a tenth).
CHECKPOINT_PAGES = 4000

# What sqlite3 raises when a value can't be stored; everything else means that the database can't work now.
_REFUSALS = (
    sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError,
    UnicodeEncodeError,
)  # fmt: skip


class WriteRefused(StoreError):
    """What was to be written can't be; nothing of it was."""

    default_code = "store.refused"


def refusal(error: BaseException) -> WriteRefused | None:
    """The error as `Refused` when it is the data's fault."""
    return WriteRefused(f"SQLite does not take it: {error}") if isinstance(error, _REFUSALS) else None


def down(error: sqlite3.Error) -> StoreDown:
    return StoreDown(f"SQLite can't do it now: {error}")


def _may_stay(error: BaseException) -> bool:
    """The COMMIT that failed so may have written all of itself. One whose write failed lacks its last page: it is nothing.

    (Unless the log, which is written in a circle, had the very same page in the very same place: then it lacks nothing.)
    """
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF == sqlite3.SQLITE_IOERR and code != sqlite3.SQLITE_IOERR_WRITE


class SqliteWriter:
    """The only connection that writes to the file, and the thread that waits for the disk."""

    def __init__(self, path: str, *, synchronous: str) -> None:
        self._path = path
        # Assigning PRAGMAs act when they are compiled, so a cached statement would do nothing: only `executescript`.
        self._strict = f"PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"
        # A checkpoint waits for the disk: it is left to the next commit in the writer thread.
        self._relaxed = "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0"
        self._is_log_left = False
        self._lock = asyncio.Lock()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="wakeful-sqlite", daemon=True)
        self.db: sqlite3.Connection | None = self._connect()
        self.place = Place(path)
        self._closed = False
        self._thread.start()

    async def write(self, work: Work[T], *, sync: bool = True, bulk: bool = False) -> T:
        """Run `work` in a transaction of its own and commit it: durable on return, or undone and raised.

        SQLite publishes a commit (in the index of its log) only after the write and the fsync succeeded; what
        failed is rolled back here, under the same lock, so nobody can have seen it and the next commit writes over
        it. But if the write was whole and only what came after it failed, as an fsync does on a dying disk, and this
        process ends before that next commit, whoever opens the log then finds the commit in it and takes it for
        good: so that is `OutcomeUnknown`.
        `sync=False` survives the death of the process but not a power cut.
        """
        async with self._lock:
            if self._closed:
                raise StoreDown("the SQLite store is closed")
            if bulk:
                return await self._in_thread(partial(self._transact, work))
            if not sync:
                return self._transact_relaxed(work)
            if ALONE.get():
                self._leave_log(True)
                return self._transact(work)
            self._leave_log(False)
            result = self._begin(work)
            await self._in_thread(self._commit)
            return result

    async def close(self) -> None:
        """Finish what is under way, move the log into the database, end the thread."""
        async with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                await self._in_thread(self._close)
            finally:
                self._jobs.put(None)
                self._thread.join()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA cache_size = -16384")  # 16 MiB: the inner pages of millions of rows
            db.executescript(self._strict)
            self._is_log_left = False
        except BaseException:
            db.close()
            raise
        return db

    def _begin(self, work: Work[T]) -> T:
        try:
            if self.db is None:
                check_file(self._path, self.place.file)  # to connect would make an empty one
                self.db = self._connect()
                self.place = self.place.anew()
            self.place.check()
            self.db.execute(SQL["begin"])
            return work(self.db)
        except BaseException as error:
            self._undo()
            raise self._name_error(error) from None

    def _commit(self) -> None:
        assert self.db is not None
        try:
            self.db.execute("COMMIT")
        except BaseException as error:
            self._undo()
            if _may_stay(error):
                raise OutcomeUnknown(
                    f"SQLite wrote it and can't say that it stays ({error}); ask again with a request key, and look at the disk"
                ) from None
            raise self._name_error(error) from None

    def _transact(self, work: Work[T]) -> T:
        result = self._begin(work)
        self._commit()
        return result

    def _leave_log(self, is_left: bool) -> None:
        """Commits in the loop's thread leave the log as it is: to move it into the database takes longer than a commit."""
        if is_left != self._is_log_left and self.db is not None:
            try:
                self.db.executescript(f"PRAGMA wal_autocheckpoint = {0 if is_left else CHECKPOINT_PAGES}")
            except sqlite3.Error as error:
                raise down(error) from None
            self._is_log_left = is_left

    def _transact_relaxed(self, work: Work[T]) -> T:
        try:
            if self.db is not None:
                self.db.executescript(self._relaxed)
            return self._transact(work)
        except sqlite3.Error as error:
            raise down(error) from None
        finally:
            if self.db is not None:
                self.db.executescript(self._strict)
                self._is_log_left = False

    def _undo(self) -> None:
        """No transaction is open after this, whatever state the failure left."""
        try:
            if self.db is not None and self.db.in_transaction:
                self.db.execute("ROLLBACK")
        except sqlite3.Error:
            # A connection that can't roll back is dropped, which rolls back; the next write makes a new one.
            broken, self.db = self.db, None
            with suppress(sqlite3.Error):
                if broken is not None:
                    broken.close()

    def _name_error(self, error: BaseException) -> BaseException:
        refused = refusal(error)
        if refused is not None:
            return refused
        return down(error) if isinstance(error, sqlite3.Error) else error

    def _close(self) -> None:
        if self.db is not None:
            with suppress(sqlite3.Error):
                self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.db.close()
            self.db = None

    async def _in_thread(self, job: Callable[[], T]) -> T:
        """Run it in the writer thread, and stay until it is done even when cancelled: the connection is not free before."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        outcome: list[tuple[T, None] | tuple[None, BaseException]] = []

        def run() -> None:
            try:
                outcome.append((job(), None))
            except BaseException as error:
                outcome.append((None, error))
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(tell)

        def tell() -> None:
            if not ended.done():
                ended.set_result(None)

        self._jobs.put(run)
        cancelled: asyncio.CancelledError | None = None
        while not outcome:  # a shield would do, at the price of another future for every commit
            try:
                await ended
            except asyncio.CancelledError as error:
                cancelled, ended = error, loop.create_future()
        if cancelled is not None:
            raise cancelled
        result, failure = outcome[0]
        if failure is not None:
            raise failure
        return cast("T", result)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
