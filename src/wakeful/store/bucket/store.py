"""Layer 2. The store as a bucket: which of it is the SQLite store's, and what is done otherwise?

Verbs, tables and reads are those of the SQLite store, on a local file that can be thrown away. What is written goes into
the bucket first (`writer.py`), and who may write is decided there (`owners.py`, `log.py`).
"""

import asyncio
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from wakeful.store.bucket.recovery import look
from wakeful.store.bucket.session import OwnerSession
from wakeful.store.bucket.storage import ObjectStorage, Patient
from wakeful.store.bucket.url import BucketUrl, parse_url
from wakeful.store.bucket.writer import BucketWriter
from wakeful.store.sqlite import schema
from wakeful.store.sqlite.owner import FileOwnership
from wakeful.store.sqlite.reads import FileReader
from wakeful.store.sqlite.store import Pruned, SqliteStore
from wakeful.store.sqlite.writer import down
from wakeful.store.table_copy import Copying
from wakeful.values.errors import StoreDown, StoreError

T = TypeVar("T")


class BucketStore(SqliteStore):
    """A prefix of a bucket, owned by one process at a time; others may read.

    An acknowledged write is in the bucket. The local file (`cache`) is only what makes reads quick: it may be deleted at
    any time, and is brought back from the bucket.

    >>> from wakeful.store import open_url
    >>> open_url("s3://acme/wakeful?region=eu-central-1").url
    's3://acme/wakeful?region=eu-central-1'
    """

    def __init__(self, where: BucketUrl, *, url: str, storage: ObjectStorage | None = None) -> None:
        super().__init__(where.cache, url=url)
        self._where = where
        self._storage = storage
        self._session: OwnerSession | None = None
        self._own: set[str] = set()  # tokens of sessions of this store that are over
        self._last = 0  # the number of the last session
        self._is_probed = False
        self._identity = ""
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of a reader's copy
        self._turn = threading.Lock()  # one thread at a time touches the local file from outside its writer

    @classmethod
    def of_url(cls, url: str) -> "BucketStore":
        """The store of `s3://…`, `az://…`, `gs://…` or `bucket:FOLDER`; nothing is asked of it yet."""
        return cls(parse_url(url), url=url)

    @property
    def place(self) -> str:
        return self._where.place

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def storage(self) -> ObjectStorage:
        """The storage itself, connected when it is first asked for."""
        if self._storage is None:
            self._storage = self._where.open()
        return self._storage

    # open, close, migrate

    async def open(self, *, now: int, readonly: bool = False) -> None:
        """Take the prefix over, or raise `FileOwned` with the name of who has it; opened again, after a failure, it begins a new session.

        `readonly` makes a copy of its own, of what the bucket holds now.
        """
        if readonly:
            await self.close()
            await self._open_copy()
            return
        is_ours = self._ownership is not None
        await self._disconnect()
        try:
            self._lock_cache(now)
            session = await self._begin(now=now)
            assert session.log is not None
            self._open_writer = BucketWriter(self.path, session.log, session.on_written)
            self._open_reader = FileReader(self.path)
            session.on_lost = self._on_lost
            if session.number != self._last + 1:
                self._pruned = Pruned()  # others have written since
            self._last = session.number
        except BaseException as error:
            await (self._disconnect() if is_ours else self.close())
            raise (down(error) if isinstance(error, sqlite3.Error) else error) from None

    async def _begin(self, *, now: int, is_migrating: bool = False) -> OwnerSession:
        probe = sqlite3.connect(":memory:")
        token: str = probe.execute("SELECT lower(hex(randomblob(16)))").fetchone()[0]  # a name that nobody else has
        probe.close()
        session = self._session = OwnerSession(self.storage, self.path, token, lease_s=self._where.lease_s)
        own = frozenset(self._own)
        self._own.add(token)

        def begin() -> None:
            with self._turn:
                session.begin(own, now=now, is_probed=self._is_probed, is_migrating=is_migrating)

        await self._in_thread(begin, session)
        self._is_probed, self._identity = True, f"{self.place} {session.birth}"
        return session

    async def _in_thread(self, work: Callable[[], T], session: OwnerSession) -> T:
        """In a thread; cancelled, it ends the session, so that the thread does not go on for nobody."""
        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            session.stop()
            raise

    def _lock_cache(self, now: int) -> None:
        """Have the local file for this process; the folder is made."""
        if self._ownership is not None and not self._ownership.is_whole():
            self._ownership.release()
            self._ownership = None
        if self._ownership is None:
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise StoreError(
                    f"{Path(self.path).parent}: {error.strerror}; give another with ?cache=FOLDER"
                ) from None
            self._ownership = FileOwnership(self.path, now=now)

    async def _open_copy(self) -> None:
        folder = self._folder = tempfile.TemporaryDirectory(prefix="wakeful-bucket-")
        path = str(Path(folder.name) / "copy.db")
        closed = threading.Event()

        def wait(seconds: float) -> None:
            if closed.wait(seconds):
                raise StoreDown("the bucket store is closed")

        try:
            birth = await asyncio.to_thread(look, Patient(self.storage, wait), path)
            self._identity = f"{self.place} {birth}"
            self._open_reader = FileReader(path)
            self.path = path
        except BaseException as error:
            closed.set()
            await self.close()
            raise (down(error) if isinstance(error, sqlite3.Error) else error) from None

    def _on_lost(self) -> None:
        """Another process is the owner: nothing is written, and nothing read that may be old."""
        writer = self._open_writer
        if isinstance(writer, BucketWriter):
            writer.broken = writer.broken or _loss_error(self.place)

    @property
    def _reader(self) -> FileReader:
        if self._session is not None and self._session.lost:
            raise _loss_error(self.place)
        return super()._reader

    async def close(self) -> None:
        is_sound = isinstance(self._open_writer, BucketWriter) and self._open_writer.broken is None
        await self._disconnect(is_end=is_sound)
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()
            self.path = self._where.cache
        ownership, self._ownership = self._ownership, None
        if ownership is not None:
            ownership.release()

    async def _disconnect(self, *, is_end: bool = False) -> None:
        await super()._disconnect()
        session, self._session = self._session, None
        if session is not None:
            await asyncio.to_thread(session.end if is_end else session.cut)

    async def migrate(self, *, now: int) -> list[str]:
        if self._open_reader is not None:
            return []  # open() lets nothing pass that has migrations pending
        try:
            self._lock_cache(now)
            session = await self._begin(now=now, is_migrating=True)
            return await asyncio.to_thread(self._migrate, session, now)
        except sqlite3.Error as error:
            raise down(error) from None
        finally:
            await self.close()

    def _migrate(self, session: OwnerSession, now: int) -> list[str]:
        db = sqlite3.connect(self.path, isolation_level=None)
        try:
            steps = schema.pending(db, self.place)
            if steps:
                schema.apply(db, *steps, now=now)
            schema.check_version(db, self.place)  # it may be newer than this program
        finally:
            db.close()
        if steps:
            session.snapshot()
        session.end()
        return [step.name for step in (steps if session.found_something else schema.MIGRATIONS)]

    async def open_copying(self, *, now: int, writes: bool) -> Copying:
        """`FileOwned` when somebody runs it."""
        from wakeful.store.bucket.table_copy import BucketCopying

        try:
            self._lock_cache(now)
            session = await self._begin(now=now)
            return BucketCopying(session, self.close, writes=writes, now=now)
        except BaseException:
            await self.close()
            raise


def _loss_error(place: str) -> StoreDown:
    return StoreDown(f"another process has taken over {place}; it is waited for", code="store.sealed")
