"""Layer 2. The store as one SQLite file: which verb goes where?"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl

from wakeful.policy.lease import USUAL
from wakeful.store.protocol import (
    ASIDE,
    NO_GUARDS,
    REWALK_MS,
    WALKS_MAX,
    Guard,
    Hint,
    NodeRow,
    Obstacle,
    Outcome,
    Query,
    Range,
    Receipt,
    RunMarks,
    ShardRow,
    Swap,
    Table,
    TableLock,
)
from wakeful.store.sqlite import schema
from wakeful.store.sqlite.apply import Fences
from wakeful.store.sqlite.finds import Finder
from wakeful.store.sqlite.gather import groups
from wakeful.store.sqlite.insert import insert
from wakeful.store.sqlite.marks import MarkFile
from wakeful.store.sqlite.owner import FileOwnership, Identity, check_file, identity_of, make_private
from wakeful.store.sqlite.reads import FileReader
from wakeful.store.sqlite.statements import SQL
from wakeful.store.sqlite.writer import SqliteWriter, WriteRefused, down
from wakeful.store.table_copy import Copying
from wakeful.values.commits import Commit, Info, Loaded, Remembered
from wakeful.values.errors import BadUrl, Fenced, StoreDown, StoreError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer, TimerKey

# Which rows of the ledger are past keeping, without reading the same ones again and again?


class Pruned(NamedTuple):
    """How far pruning has come in the ledger."""

    settled_to: int = 0  # rows up to this number are old and stay
    behind: int = 0  # of those behind the first ones, rows up to this number were looked at
    is_walking: bool = False  # all that it passed were old, so there may be more


def prune_ledger(db: sqlite3.Connection, pruned: Pruned, before: int, limit: int) -> tuple[int, Pruned]:
    """Drop the old ones among the first rows, and among so many further on: behind those of a clock that was ahead are others.

    How many went, and how far it came.
    """
    gone, (settled_to, behind, is_walking) = _look(db, pruned, before, limit) if before > 0 else (0, pruned)
    [end] = db.execute(SQL["ledger_end"]).fetchone()
    # A number that was the last comes again when its row is gone.
    return gone, Pruned(min(settled_to, end or 0), behind, is_walking and before > 0)


def _look(db: sqlite3.Connection, pruned: Pruned, before: int, limit: int) -> tuple[int, Pruned]:
    count, front = 1000 + 2 * limit, pruned.settled_to
    [first] = db.execute(SQL["prune_end"], (front, count)).fetchone()
    if first is None:
        return 0, pruned._replace(is_walking=False)
    gone = db.execute(SQL["prune_ledger"], (front, first, before, limit)).rowcount
    if gone >= limit:
        return gone, pruned._replace(is_walking=False)  # there may be more of them here
    [young] = db.execute(SQL["prune_young"], (front, first, before)).fetchone()
    if young is None:
        return gone, pruned._replace(settled_to=first, is_walking=True)
    behind = max(pruned.behind, first)
    [last] = db.execute(SQL["prune_end"], (behind, count)).fetchone()
    gone += db.execute(SQL["prune_ledger"], (behind, last or behind, before, limit - gone)).rowcount
    if gone >= limit:
        last = pruned.behind  # there may be more of them here
    return gone, Pruned(young - 1, last or 0)  # none: that was the end, from the front again


T = TypeVar("T")

# About 5 ms of rows: more than that would hold up the loop and goes to the writer thread whole.
BULK_ROWS = 4000


class SqliteStore:
    """One file with everything in it, owned by one process at a time; others may read.

    `synchronous="FULL"` (the default) keeps every acknowledged write through a power cut.
    `"NORMAL"` is faster on slow disks and risks exactly this: after a power cut or a crash of the
    operating system the last moments of acknowledged writes may be gone (never half a turn, and
    never after a mere crash of the process).
    """

    shared = False
    rhythm = USUAL
    keeps_time = False
    listens = tells = needs_looks = shows_locks = False
    local = True

    def __init__(self, path: str, *, synchronous: str = "FULL", url: str | None = None) -> None:
        self.path = str(Path(path).resolve())
        self.url = url or f"sqlite:{path}"
        self._synchronous = synchronous
        self._ownership: FileOwnership | None = None
        self._owned: Identity | None = None  # the file, once it was opened to be written
        self._open_writer: SqliteWriter | None = None
        self._open_reader: FileReader | None = None
        self._marks: MarkFile | None = None
        self._fences = Fences()
        self._pruned = Pruned()
        self._walked_at = 0  # when what stays in the ledger was last looked at

    @classmethod
    def of_url(cls, url: str) -> "SqliteStore":
        """The store of `sqlite:PATH` or `sqlite:///ABSOLUTE/PATH`, with `?synchronous=NORMAL` if wished; not opened."""
        hint = "write sqlite:PATH or sqlite:///ABSOLUTE/PATH, and ?synchronous=NORMAL or FULL if wished"
        scheme, _, rest = url.partition(":")
        path, _, options = rest.partition("?")
        if path.startswith("//"):
            if not path.startswith("///"):
                raise BadUrl(f"{url!r} names a host, and SQLite is a file; {hint}")
            path = path[2:]
        if scheme != "sqlite" or not path.strip("/"):
            raise BadUrl(f"{url!r} is not an SQLite store; {hint}")
        if path.startswith(":") or "\0" in path or "#" in path:
            raise BadUrl(f"{url!r} has no usable path; {hint}, or memory: for a store that forgets")
        synchronous = "FULL"
        for name, value in parse_qsl(options, keep_blank_values=True) if options else ():
            if name != "synchronous" or value.upper() not in ("NORMAL", "FULL"):
                raise BadUrl(f"{url!r} has the unknown option {name}={value}; {hint}")
            synchronous = value.upper()
        return cls(path, synchronous=synchronous, url=url)

    @property
    def place(self) -> str:
        return self.path

    async def open_copying(self, *, now: int, writes: bool) -> Copying:
        """`FileOwned` when somebody runs it."""
        from wakeful.store.sqlite.table_copy import SqliteCopying

        return SqliteCopying(self.path, writes=writes, now=now)

    @property
    def run_marks(self) -> RunMarks | None:
        return self._marks

    @property
    def identity(self) -> str:
        return ":".join(map(str, identity_of(self.path) or ()))

    # open, close, migrate

    async def open(self, *, now: int, readonly: bool = False) -> None:
        """As the protocol says; opened again, after a failure, it makes new connections and stays the owner of the file."""
        if readonly:
            await self.close()
        is_ours = self._ownership is not None
        if self._owned is not None:
            check_file(self.path, self._owned)  # before anything is closed: what has no name any more would be gone
        await self._disconnect()
        schema.check_header(self.path)
        try:
            if readonly:
                self._open_readonly()
            else:
                self._open_owned(now)
        except BaseException as error:
            await (self._disconnect() if is_ours else self.close())
            raise (down(error) if isinstance(error, sqlite3.Error) else error) from None

    def _open_readonly(self) -> None:
        if not Path(self.path).exists():
            raise StoreError(f"{self.path} does not exist; start the program that owns it once, which makes it")
        try:
            self._open_reader = FileReader(self.path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            raise StoreError(
                f"{self.path} was being made when its process died; start the program that owns it once, which makes it"
            ) from None
        schema.check_version(self._open_reader.db, self.path)

    def _open_owned(self, now: int) -> None:
        if self._ownership is not None and not self._ownership.is_whole():
            self._ownership.release()  # others may have locked another file of that name
            self._ownership = None
        if self._ownership is None:
            self._ownership = FileOwnership(self.path, now=now)
        _prepare(self.path, now=now, only_if_empty=True)
        self._open_writer = SqliteWriter(self.path, synchronous=self._synchronous)
        if not self._ownership.is_whole():
            raise StoreDown(f"{self.path}-owner was removed just now; try again", code="store.moved")
        self._owned = self._open_writer.place.file
        self._open_reader = FileReader(self.path)
        schema.check_version(self._open_reader.db, self.path)
        self._open_marks()

    def _open_marks(self) -> None:
        """Once: what is marked stays so when the database is opened anew."""
        if self._marks is None:
            with suppress(OSError):  # then each start gets a note in the database
                self._marks = MarkFile(self.path)

    async def close(self) -> None:
        await self._disconnect()
        marks, self._marks = self._marks, None
        if marks is not None:
            marks.close()
        ownership, self._ownership, self._owned = self._ownership, None, None
        if ownership is not None:
            ownership.release()

    async def _disconnect(self) -> None:
        self._fences.forget()
        reader, self._open_reader = self._open_reader, None
        if reader is not None:
            reader.close()
        if self._open_writer is not None:
            await self._open_writer.close()  # cancelled before it is closed, it stays ours to be closed
            self._open_writer = None

    async def migrate(self, *, now: int) -> list[str]:
        if self._open_reader is not None:
            return []  # open() lets nothing pass that has migrations pending
        schema.check_header(self.path)
        ownership = FileOwnership(self.path, now=now)
        try:
            return _prepare(self.path, now=now, only_if_empty=False)
        except sqlite3.Error as error:
            raise down(error) from None
        finally:
            ownership.release()

    # nodes and shards

    async def join(self, row: NodeRow) -> None:
        values = (
            row.node,
            row.address,
            row.joined_at,
            row.lease_until,
            row.about,
            row.cluster,
            row.version,
            row.lease_ms,
        )
        # Not synced: after a power cut nobody is there, whatever the table says.
        await self._writer.write(lambda db: db.execute(SQL["join"], values) and None, sync=False)
        if self._ownership is not None:
            self._ownership.tell_address(row.address)

    async def leave(self, node: str) -> None:
        await self._writer.write(lambda db: db.execute(SQL["leave"], (node,)) and None, sync=False)

    async def nodes(self) -> list[NodeRow]:
        return self._reader.nodes()

    async def drain(self, node: str, is_draining: bool) -> bool:
        return await self._writer.write(lambda db: db.execute(SQL["drain"], (is_draining, node)).rowcount > 0)

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        def work(db: sqlite3.Connection) -> dict[int, int]:
            self._fences.forget()
            wanted = [(node, shard, None if seen is None else seen.get(shard, -1)) for shard in shards]
            won = [one[1] for one in wanted if db.execute(SQL["claim"], one).rowcount > 0]
            epochs = {shard: epoch for shard, _, epoch in db.execute(SQL["all_shards"]).fetchall()}
            return {shard: epochs[shard] for shard in won}

        return await self._writer.write(work)

    async def release(self, node: str, epochs: Mapping[int, int]) -> None:
        def work(db: sqlite3.Connection) -> None:
            self._fences.forget()
            for shard, epoch in epochs.items():
                db.execute(SQL["release"], (shard, node, epoch))

        await self._writer.write(work)

    async def owners(self) -> list[ShardRow]:
        return self._reader.owners()

    # the one write

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        writer = self._writer
        if not commits:
            return []
        gathered = groups(commits)
        bulk = sum(group.size() for group in gathered) > BULK_ROWS
        sync = bulk or any(group.objects for group in gathered)  # a bare start note touches no object

        together, one_by_one = self._fences.together, self._fences.one_by_one
        try:
            return await writer.write(lambda db: together(db, node, commits, gathered), sync=sync, bulk=bulk)
        except WriteRefused:
            return await writer.write(lambda db: one_by_one(db, node, commits), bulk=bulk)

    async def insert(
        self,
        timers: Sequence[Timer],
        *,
        now: int,
        receipt: Receipt | None = None,
        guards: Mapping[int, Guard] = NO_GUARDS,
        each: bool = False,
    ) -> list[Obstacle]:
        writer = self._writer
        if not timers:
            return []
        bulk = 2 * len(timers) > BULK_ROWS
        return await writer.write(lambda db: insert(db, timers, now, receipt, guards, each), bulk=bulk)

    async def forget(self, receipts: Sequence[str], *, at: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            for id in receipts:
                db.execute(SQL["forget_receipt"], (at, id))

        await self._writer.write(work, sync=False)

    async def erase(self, node: str, id: ObjectId, epoch: int, *, now: int, limit: int) -> bool:
        def work(db: sqlite3.Connection) -> tuple[bool | Fenced, int]:
            return self._fences.erase(db, node, id, epoch, now, limit), db.execute(SQL["ledger_end"]).fetchone()[0] or 0

        is_done, end = await self._writer.write(work, bulk=True)
        if isinstance(is_done, Fenced):
            raise is_done
        # A number that was the last comes again when its row is gone.
        self._pruned = self._pruned._replace(settled_to=min(self._pruned.settled_to, end))
        return is_done

    # an object's rows, and timers

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        return self._reader.load(ids)

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        return self.read_now(id, space, keys)

    def read_now(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        return self._reader.read(id, space, keys)

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        return self._reader.scan(id, space, range)

    async def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        return self._reader.recall(id, key, now=now)

    async def find_answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        return await self._find(lambda finder: finder.answers(query, now=now), is_wide=query.key is None)

    async def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        return self._reader.timers(shards, after=after, until=until, limit=limit)

    # for people

    async def find_objects(self, query: Query) -> list[Info]:
        return await self._find(lambda finder: finder.objects(query), is_wide=query.key is None)

    async def find_timers(self, query: Query) -> list[Timer]:
        return await self._find(lambda finder: finder.timers(query), is_wide=query.key is None)

    async def find_entries(self, query: Query) -> list[tuple[int, Entry]]:
        return await self._find(lambda finder: finder.entries(query), is_wide=query.key is None)

    async def find_parked(self, query: Query) -> list[Parked]:
        return await self._find(lambda finder: finder.parked(query), is_wide=query.key is None)

    async def count(self, what: Table, *, cls: str | None = None, key_prefix: str | None = None) -> int:
        return await self._find(lambda finder: finder.count(what, cls=cls, key_prefix=key_prefix), is_wide=True)

    async def _find(self, ask: Callable[[Finder], T], *, is_wide: bool) -> T:
        """In the loop's thread, but for wide looks of people, which take 100 ms among a million rows."""
        if is_wide and ASIDE.get():
            return await asyncio.to_thread(self._find_aside, ask)
        return ask(Finder(self._reader))

    def _find_aside(self, ask: Callable[[Finder], T]) -> T:
        """On a connection of its own, which costs a third of a millisecond."""
        reader = FileReader(self.path)
        try:
            return ask(Finder(reader))
        finally:
            reader.close()

    async def known_classes(self) -> list[str]:
        return Finder(self._reader).known_classes()

    # upkeep

    async def prune(
        self, *, now: int, entries_before: int, crowded: Sequence[tuple[ObjectId, str, int]], limit: int
    ) -> int:
        def others(db: sqlite3.Connection) -> int:
            gone = db.execute(SQL["prune_requests"], (now, limit)).rowcount
            db.execute(SQL["prune_receipts"], (now,))
            for id, name, keep in crowded:
                gone += db.execute(SQL["prune_crowded"], (*id, name, keep)).rowcount
            return gone

        if entries_before > 0 and now - self._walked_at >= REWALK_MS:
            self._walked_at, self._pruned = now, self._pruned._replace(settled_to=0)
        gone = aged = 0
        for walk in range(WALKS_MAX):  # each a transaction of its own: commits go on between them

            def work(
                db: sqlite3.Connection, is_first: bool = walk == 0, left: int = limit - aged
            ) -> tuple[int, int, Pruned]:
                some = others(db) if is_first else 0
                return some, *prune_ledger(db, self._pruned, entries_before, left)

            some, more, self._pruned = await self._writer.write(work, bulk=True)
            gone, aged = gone + some, aged + more
            if aged >= limit or not self._pruned.is_walking:
                break
        return gone + aged

    async def swap(self, swaps: Sequence[Swap]) -> int:
        return await self._writer.write(lambda db: swap(db, swaps), bulk=len(swaps) > BULK_ROWS) if swaps else 0

    # between nodes: there is only one, the process that owns the file

    async def locks(self) -> list[TableLock]:
        return []

    async def time(self) -> int | None:
        return None

    async def tell(self, hints: Sequence[Hint]) -> None:
        pass

    async def look(self) -> None:
        pass

    def watch(self, heard: Callable[[Sequence[Hint]], None]) -> None:
        pass

    # inside

    @property
    def _reader(self) -> FileReader:
        if self._open_reader is None:
            raise StoreDown(f"the SQLite store {self.path} is closed")
        return self._open_reader

    @property
    def _writer(self) -> SqliteWriter:
        if self._open_writer is None:
            if self._open_reader is not None:
                raise StoreError(f"{self.path} is open read-only; write through the process that owns it")
            raise StoreDown(f"the SQLite store {self.path} is closed")
        return self._open_writer


def _prepare(path: str, *, now: int, only_if_empty: bool) -> list[str]:
    """Give the database the migrations it lacks, or only if it has none at all; their names."""
    make_private(path)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        if only_if_empty and schema.version_of(db, path) is not None:
            return []
        steps = schema.pending(db, path)
        if steps:
            db.execute("PRAGMA journal_mode = WAL")
            schema.apply(db, *steps, now=now)
        schema.check_version(db, path)  # it may be newer than this program
        return [step.name for step in steps]
    finally:
        db.close()


# `IS` also finds a payload that is NULL. Rows of ledger and parked never change, so their number is enough.
_SWAPS = {
    "storage": "UPDATE kv SET value = ? WHERE class = ? AND key = ? AND space = ? AND name = ? AND value IS ?",
    "timers": "UPDATE timers SET payload = ? WHERE class = ? AND key = ? AND name = ? AND payload IS ?",
    "requests": (
        "UPDATE requests SET fingerprint = ?, answer = ? "
        "WHERE class = ? AND key = ? AND request = ? AND fingerprint IS ? AND answer IS ?"
    ),
    "ledger": "UPDATE ledger SET error = ? WHERE number = ?",
    "parked": "UPDATE parked SET payload = ?, error = ?, traceback = ? WHERE number = ?",
}
_BY_NUMBER = ("ledger", "parked")


def swap(db: sqlite3.Connection, swaps: Sequence[Swap]) -> int:
    """Inside a transaction; how many were still as they were."""
    done = 0
    for one in swaps:
        old = () if one.table in _BY_NUMBER else one.old
        done += db.execute(_SWAPS[one.table], (*one.new, *one.where, *old)).rowcount
    return done
