"""Layer 2. The store as a bucket: which of it is the SQLite store's, and what is done otherwise?

Verbs, tables and reads are those of the SQLite store, on a local file that can be thrown away. What is written goes into
the bucket first, at the next slot of the one log that all nodes write (`writer.py`, `shared_log.py`), so each node's file
comes to hold what all of them wrote.
"""

import asyncio
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from wakeful.policy.lease import Rhythm
from wakeful.store.bucket.replica import LogNews
from wakeful.store.bucket.session import BucketSession
from wakeful.store.bucket.storage import ObjectStorage
from wakeful.store.bucket.url import BucketUrl, parse_url
from wakeful.store.bucket.writer import BucketWriter
from wakeful.store.protocol import Hint, NodeRow, Query, Range, ShardRow, Table
from wakeful.store.sqlite.owner import FileOwnership, owner_of
from wakeful.store.sqlite.reads import FileReader
from wakeful.store.sqlite.statements import SQL
from wakeful.store.sqlite.store import SqliteStore
from wakeful.store.sqlite.writer import down
from wakeful.store.table_copy import Copying
from wakeful.values.commits import Info, Loaded, Remembered
from wakeful.values.errors import FileOwned, StoreError
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry, Parked, Timer

T = TypeVar("T")
CACHES_MAX = 64  # processes of one machine on one prefix
# Who has the local file of a node that died says so to all: a lease that ended before its time is below zero. Should that
# node live nevertheless (the file is a copy, of another machine's), it renews its lease, and is believed.
_END_LEASE = "UPDATE nodes SET lease_until = -lease_until WHERE node = ? AND lease_until = ?"
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux has it


def suspended_s() -> float:
    """For how long this machine has slept since it was started, which the clock of an event loop does not count."""
    return time.clock_gettime(_BOOT) - time.clock_gettime(time.CLOCK_MONOTONIC)


class BucketStore(SqliteStore):
    """A prefix of a bucket, which several nodes share.

    An acknowledged write is in the bucket. The local file (`cache`) is only what makes reads quick: it may be deleted at
    any time, and is brought back from the bucket. Reads of what this node owns come from it at once; reads of anything
    else look first whether others have written.

    >>> from wakeful.store import open_url
    >>> open_url("s3://acme/wakeful?region=eu-central-1").url
    's3://acme/wakeful?region=eu-central-1'
    """

    shared = True
    rhythm = Rhythm(lease_ms=15_000, round_ms=2_000)  # a look is a request, and a renewal is one that writes
    listens = tells = needs_looks = True  # what others write is heard of by whoever reads it

    def __init__(self, where: BucketUrl, *, url: str, storage: ObjectStorage | None = None) -> None:
        super().__init__(where.cache, url=url)
        self._where = where
        self._storage = storage
        self._session: BucketSession | None = None
        self._follower: BucketWriter | None = None  # of a process that only looks
        self._is_probed = False
        self._identity = ""
        self._names: set[str] = set()  # nodes that claimed through this store
        self._dead: set[str] = set()  # nodes whose local file is ours now: they died, and the others do not know it yet
        self._has_looked = False
        self._mine: frozenset[int] | None = None  # the shards that are theirs; None when it must be looked up
        self._heard: Callable[[Sequence[Hint]], None] | None = None
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
        """Bring the local file to what the bucket holds. `readonly` has a file of its own, and changes nothing in the bucket."""
        if readonly:
            await self.close()
            await self._open_copy()
            return
        is_ours = self._ownership is not None
        await self._disconnect()
        try:
            self._lock_cache(now)
            session = await self._begin(now=now)
            self._open_writer = BucketWriter(session, self._on_moved)
            self._open_reader = FileReader(self.path)
        except BaseException as error:
            await (self._disconnect() if is_ours else self.close())
            raise (down(error) if isinstance(error, sqlite3.Error) else error) from None

    async def _begin(self, *, now: int, is_migrating: bool = False) -> BucketSession:
        session = self._make_session()

        def begin() -> None:
            with self._turn:
                session.begin(now=now, is_probed=self._is_probed, is_migrating=is_migrating)

        await self._in_thread(begin, session)
        self._is_probed, self._identity = True, f"{self.place} {session.birth}"
        return session

    def _make_session(self) -> BucketSession:
        probe = sqlite3.connect(":memory:")
        token: str = probe.execute("SELECT lower(hex(randomblob(16)))").fetchone()[0]  # a name that nobody else has
        probe.close()
        loop_s = asyncio.get_running_loop().time
        self._session = BucketSession(self.storage, self.path, token, lambda: loop_s() + suspended_s())
        return self._session

    async def _in_thread(self, work: Callable[[], T], session: BucketSession) -> T:
        """In a thread; cancelled, it ends the session, so that the thread does not go on for nobody."""
        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            session.stop()
            raise

    def _lock_cache(self, now: int) -> None:
        """Have a local file for this process: the first that no other has. The folder is made."""
        if self._ownership is not None and not self._ownership.is_whole():
            self._ownership.release()
            self._ownership = None
        if self._ownership is not None:
            return
        first = Path(self._where.cache)
        try:
            first.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{first.parent}: {error.strerror}; give another with ?cache=FOLDER") from None
        for number in count(1):
            self.path = str(first if number == 1 else first.with_name(f"{first.stem}-{number}{first.suffix}"))
            last = owner_of(self.path).get("node")
            try:
                self._ownership = FileOwnership(self.path, now=now)
                if isinstance(last, str) and last not in self._names:
                    self._dead.add(last)  # its process has not let go of the file by itself
                return
            except FileOwned:
                if number == CACHES_MAX:
                    raise

    async def _open_copy(self) -> None:
        folder = self._folder = tempfile.TemporaryDirectory(prefix="wakeful-bucket-")
        self.path = str(Path(folder.name) / "copy.db")
        try:
            session = self._make_session()
            await self._in_thread(session.begin_looking, session)
            self._identity = f"{self.place} {session.birth}"
            self._ownership = FileOwnership(self.path, now=0)
            self._follower = BucketWriter(session, self._on_moved)
            self._open_reader = FileReader(self.path)
        except BaseException as error:
            await self.close()
            raise (down(error) if isinstance(error, sqlite3.Error) else error) from None

    async def close(self) -> None:
        await self._disconnect()
        ownership, self._ownership = self._ownership, None
        if ownership is not None:
            ownership.release()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()
            self.path = self._where.cache

    async def _disconnect(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            await follower.close()
        await super()._disconnect()
        session, self._session = self._session, None
        if session is not None:
            await asyncio.to_thread(session.end)

    async def migrate(self, *, now: int) -> list[str]:
        if self._open_reader is not None:
            return []  # open() lets nothing pass that has migrations pending
        try:
            self._lock_cache(now)
            session = await self._begin(now=now, is_migrating=True)
            return await self._in_thread(lambda: session.migrate(now), session)
        except sqlite3.Error as error:
            raise down(error) from None
        finally:
            await self.close()

    async def open_copying(self, *, now: int, writes: bool) -> Copying:
        from wakeful.store.bucket.table_copy import BucketCopying

        try:
            self._lock_cache(now)
            session = await self._begin(now=now)
            return BucketCopying(session, self.close, writes=writes, now=now)
        except BaseException:
            await self.close()
            raise

    # what others write

    def _on_moved(self, news: LogNews) -> None:
        self._mine = None
        if self._open_reader is not None:
            # A number that was the last comes again when its row is gone, whoever removed it.
            end: int = self._open_reader.ask(SQL["ledger_end"])[0][0] or 0
            self._pruned = self._pruned._replace(settled_to=min(self._pruned.settled_to, end))
        if self._heard is not None and (news.hints or news.is_about_nodes):
            loop = asyncio.get_running_loop()
            if news.hints:
                loop.call_soon(self._heard, news.hints)
            if news.is_about_nodes:
                loop.call_soon(self._heard, [])

    def watch(self, heard: Callable[[Sequence[Hint]], None]) -> None:
        self._heard = heard

    async def look(self) -> None:
        await self._catch_up()

    async def _catch_up(self) -> None:
        """See what others have written by now."""
        follower = self._follower or self._open_writer
        if isinstance(follower, BucketWriter):
            await follower.look()

    # nodes and shards

    async def join(self, row: NodeRow) -> None:
        self._names.add(row.node)
        if self._ownership is not None:
            self._ownership.tell_node(row.node)
        await super().join(row)

    async def leave(self, node: str) -> None:
        await super().leave(node)
        if node in self._names and self._ownership is not None:
            self._ownership.tell_node("")

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        self._names.add(node)
        try:
            return await super().claim(node, shards, now=now, seen=seen)
        finally:
            self._mine = None

    async def release(self, node: str, epochs: Mapping[int, int]) -> None:
        try:
            await super().release(node, epochs)
        finally:
            self._mine = None

    async def nodes(self) -> list[NodeRow]:
        await self._catch_up()
        self._has_looked = True
        asyncio.get_running_loop().call_soon(self._forget_look)
        rows = await super().nodes()
        dead = [(row.node, row.lease_until) for row in rows if row.node in self._dead and row.lease_until > 0]
        if dead:
            await self._writer.write(lambda db: [db.execute(_END_LEASE, one) for one in dead] and None)
            rows = await super().nodes()
        self._dead.clear()
        return [
            replace(row, lease_until=-row.lease_until, is_here=False) if row.lease_until < 0 else row for row in rows
        ]

    async def owners(self) -> list[ShardRow]:
        """Asked right after `nodes`, in the same pass of the event loop, one look is enough for both."""
        if not self._has_looked:
            await self._catch_up()
        self._has_looked = False
        return await super().owners()

    def _forget_look(self) -> None:
        self._has_looked = False

    # reads: of what is this node's nobody else can have written anything that counts

    async def _see(self, *ids: ObjectId) -> None:
        mine = self._mine
        if mine is None:
            mine = self._mine = frozenset(row.shard for row in self._reader.owners() if row.owner in self._names)
        if not all(shard_of(id) in mine for id in ids):
            await self._catch_up()

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        await self._see(*ids)
        return await super().load(ids)

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        await self._see(id)
        return await super().read(id, space, keys)

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        await self._see(id)
        return await super().scan(id, space, range)

    async def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        await self._see(id)
        return await super().recall(id, key, now=now)

    async def find_answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        await self._catch_up()
        return await super().find_answers(query, now=now)

    async def find_objects(self, query: Query) -> list[Info]:
        await self._catch_up()
        return await super().find_objects(query)

    async def find_timers(self, query: Query) -> list[Timer]:
        await self._catch_up()
        return await super().find_timers(query)

    async def find_entries(self, query: Query) -> list[tuple[int, Entry]]:
        await self._catch_up()
        return await super().find_entries(query)

    async def find_parked(self, query: Query) -> list[Parked]:
        await self._catch_up()
        return await super().find_parked(query)

    async def count(self, what: Table, *, cls: str | None = None, key_prefix: str | None = None) -> int:
        await self._catch_up()
        return await super().count(what, cls=cls, key_prefix=key_prefix)

    async def known_classes(self) -> list[str]:
        await self._catch_up()
        return await super().known_classes()
