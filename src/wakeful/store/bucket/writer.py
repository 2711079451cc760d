"""Layer 2. How does a group of writes get into the bucket and into the local file, in that order?

All that wait while a request is under way share the next one: they run one after the other in one transaction of the
file, what they did becomes one record, and only when the bucket has it is the transaction committed. So the file is never
ahead of the bucket, and who reads it sees nothing that could still be lost.

When another node had the next slot, the transaction is undone, what that node wrote comes into the file, and everybody runs
again: what they decide, they decide on all that came before. A group that wrote nothing asks whether it knew everything.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, NamedTuple, TypeVar, cast

from wakeful.store.bucket.position import move
from wakeful.store.bucket.recorder import Recorder
from wakeful.store.bucket.records import Record
from wakeful.store.bucket.replica import LogNews, MovedIn, Replica
from wakeful.store.bucket.session import BucketSession
from wakeful.store.bucket.shared_log import FellBehind
from wakeful.store.sqlite.writer import SqliteWriter, Work, refusal
from wakeful.values.errors import OutcomeUnknown, StoreDown, Unavailable

T = TypeVar("T")
# So long who gives up waits for what is on its way: a bucket may take as long as it likes.
GRACE_S = 5.0


class _Piece(NamedTuple):
    """What one caller writes."""

    work: Work[Any]
    is_bulk: bool
    outcome: "asyncio.Future[Any]"


_Done = tuple[Any, BaseException | None]


class BucketWriter(SqliteWriter):
    """The writer of the local file, whose commits go through the log.

    After a failure it writes nothing any more: what became of it is found out when the store is opened again. `on_moved`
    hears in the loop, before anything else runs on the file, that others wrote.
    """

    def __init__(self, session: BucketSession, on_moved: Callable[[LogNews], None]) -> None:
        super().__init__(session.path, synchronous="NORMAL")  # nothing rests on this file
        assert session.log is not None
        self.log = session.log
        self.broken: Unavailable | None = None
        self._session = session
        self._on_moved = on_moved
        self._replica = Replica(session.path)
        self._recorder: Recorder | None = None
        self._pieces: list[_Piece] = []
        self._flushing: asyncio.Task[None] | None = None

    async def look(self) -> None:
        """Everything is in the file that was in the bucket when this was called."""
        await self.write(lambda db: None)

    async def write(self, work: Work[T], *, sync: bool = True, bulk: bool = False) -> T:
        """Run `work` and have what it wrote in the bucket: durable on return, or undone and raised.

        `sync` makes no difference: the local file may be gone with the process, so what has to outlive that goes there too.
        """
        piece = _Piece(work, bulk, asyncio.get_running_loop().create_future())
        self._pieces.append(piece)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(), context=Context())
        try:
            await asyncio.wait([piece.outcome])
        except asyncio.CancelledError:
            if piece in self._pieces:
                self._pieces.remove(piece)  # nothing of it was begun
            else:  # it is on its way, and whoever comes next should find it done
                await asyncio.wait([piece.outcome], timeout=GRACE_S)
                piece.outcome.add_done_callback(lambda done: done.exception())  # nobody else hears it
            raise
        return cast("T", piece.outcome.result())

    async def close(self) -> None:
        while self._flushing is not None:
            await asyncio.wait([self._flushing])
        await super().close()
        self._replica.close()

    async def _flush(self) -> None:
        try:
            while self._pieces:
                gap_s = self.log.gap_s()
                if gap_s:
                    with suppress(StoreDown):  # who closes meanwhile hears it from what comes next
                        await self._in_thread(lambda gap_s=gap_s: self._session.wait(gap_s))  # type: ignore[misc]
                pieces, self._pieces = self._pieces, []
                await self._write_all(pieces)
        finally:
            self._flushing = None

    async def _write_all(self, pieces: list[_Piece]) -> None:
        async with self._lock:
            try:
                done = await self._write_group(pieces)
            except BaseException as error:
                done = [(None, error)] * len(pieces)
        self._pieces[:0] = pieces[len(done) :]
        for piece, (result, failure) in zip(pieces, done, strict=False):
            if failure is None:
                piece.outcome.set_result(result)
            else:
                piece.outcome.set_exception(failure)

    async def _write_group(self, pieces: list[_Piece]) -> list[_Done]:
        while True:
            if self._closed:
                raise StoreDown("the bucket store is closed")
            if self.broken is not None:
                raise StoreDown(self.broken.message, code=self.broken.code)
            if any(piece.is_bulk for piece in pieces):
                done = await self._in_thread(lambda: self._run(pieces))
            else:
                done = self._run(pieces)
            assert self._recorder is not None
            before = self.log.bytes
            has_written = bool(self._recorder.statements)
            news = await self._in_thread(self._publish if has_written else self._confirm)
            if news is None:
                if has_written:
                    self._session.on_written(before)
                return done
            self._on_moved(news)

    def _run(self, pieces: list[_Piece]) -> list[_Done]:
        """What each of them does, in one transaction; one that fails leaves nothing. Those that come when it is full are left."""
        try:
            if self.db is None:
                raise StoreDown("the local copy of the bucket is broken; it is made anew")
            self._check_place()
            recorder = self._recorder
            if recorder is None or recorder.db is not self.db:
                recorder = self._recorder = Recorder(self.db)
            recorder.begin()
            done: list[_Done] = []
            for piece in pieces:
                if done and recorder.is_full:
                    break
                done.append(self._run_one(recorder, piece.work))
            return done
        except BaseException as error:
            self._undo()
            raise self._break(error) from None

    def _check_place(self) -> None:
        try:
            self.place.check()
        except StoreDown as error:
            raise StoreDown(
                f"the local copy of the bucket was removed, renamed or replaced ({self._session.path}); it is brought back from the "
                "bucket, which has everything",
                code=error.code,
            ) from None

    def _run_one(self, recorder: Recorder, work: Work[Any]) -> _Done:
        recorder.open_piece()
        try:
            result = work(cast("sqlite3.Connection", recorder))  # which does what of it the store's verbs use
            recorder.check_piece()
        except BaseException as error:
            recorder.drop_piece()
            if refusal(error) is None and isinstance(error, sqlite3.Error):
                raise
            return None, self._name_error(error)
        recorder.keep_piece()
        return result, None

    def _publish(self) -> LogNews | None:
        """In the writer's thread: first into the bucket, then into the file; or what others wrote there instead."""
        assert self._recorder is not None
        is_there = False
        try:
            if not self.log.append(self._recorder.statements):
                return self._move()
            is_there = True
            move(self._recorder.db, self.log.slot)
            self._recorder.db.execute("COMMIT")
        except BaseException as error:
            self._undo()
            if is_there:  # the disk of the copy is full, say: it is written, and can't be read here
                error = OutcomeUnknown(f"it is in the bucket, and the local copy can't be written ({error}); ask again")
            raise self._break(error) from None
        return None

    def _confirm(self) -> LogNews | None:
        """In the writer's thread: nobody has written since, or what."""
        assert self._recorder is not None
        try:
            found, _ = self.log.read()
            if found:
                return self._move(found)
            self._recorder.db.execute("COMMIT")
        except BaseException as error:
            self._undo()
            raise self._break(error) from None
        return None

    def _move(self, slots: Sequence[tuple[int, Record]] | None = None) -> LogNews:
        """Undo what was tried, and have what others wrote instead."""
        self._undo()
        if slots is None:
            slots, _ = self.log.read()
        try:
            news = self._replica.apply(slots)
        except MovedIn:
            raise FellBehind("a whole store was moved in here; the local copy is made anew") from None
        self.log.advance(slots)
        return news

    def _break(self, error: BaseException) -> BaseException:
        """Nothing is written any more until the store is opened again."""
        named = self._name_error(error)
        if isinstance(named, StoreDown):  # other nodes, to which it may go, know no kinds of it
            named = StoreDown(named.message, code=named.code)
        self.broken = self.broken or (
            named
            if isinstance(named, Unavailable)
            else StoreDown(f"the bucket store failed: {type(named).__name__}: {named}")
        )
        return named
