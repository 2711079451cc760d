"""Layer 2. How does a group of writes get into the bucket and into the local file, in that order?

All that wait while a request is under way share the next one: they run one after the other in one transaction of the
file, what they did becomes one record, and only when the bucket has it is the transaction committed. So the file is never
ahead of the bucket, and who reads it sees nothing that could still be lost.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextvars import Context
from typing import Any, NamedTuple, TypeVar, cast

from wakeful.store.bucket.log import SessionLog
from wakeful.store.bucket.position import move
from wakeful.store.bucket.recorder import Recorder
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
    """The writer of the local file, whose commits go through the log of a session.

    After a failure it writes nothing any more: whether the record arrived is found out by the next session, which ends
    this one. `on_written` hears after each record.
    """

    def __init__(self, path: str, session_log: SessionLog, on_written: Callable[[], None]) -> None:
        super().__init__(path, synchronous="NORMAL")  # nothing rests on this file
        self.log = session_log
        self.broken: Unavailable | None = None
        self._on_written = on_written
        self._recorder: Recorder | None = None
        self._pieces: list[_Piece] = []
        self._flushing: asyncio.Task[None] | None = None

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

    async def _flush(self) -> None:
        try:
            while self._pieces:
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
        for piece, (result, failure) in zip(pieces, done, strict=True):
            if failure is None:
                piece.outcome.set_result(result)
            else:
                piece.outcome.set_exception(failure)

    async def _write_group(self, pieces: list[_Piece]) -> list[_Done]:
        if self._closed:
            raise StoreDown("the bucket store is closed")
        if self.broken is not None:
            raise StoreDown(self.broken.message, code=self.broken.code)
        if any(piece.is_bulk for piece in pieces):
            done = await self._in_thread(lambda: self._run(pieces))
        else:
            done = self._run(pieces)
        assert self._recorder is not None
        if self._recorder.statements:
            await self._in_thread(self._publish)
            self._on_written()
        else:
            self._recorder.db.execute("COMMIT")
        return done

    def _run(self, pieces: list[_Piece]) -> list[_Done]:
        """What each of them does, in one transaction; one that fails leaves nothing."""
        try:
            if self.db is None:
                raise StoreDown("the local copy of the bucket is broken; it is made anew")
            self.place.check()
            recorder = self._recorder
            if recorder is None or recorder.db is not self.db:
                recorder = self._recorder = Recorder(self.db)
            recorder.begin()
            return [self._run_one(recorder, piece.work) for piece in pieces]
        except BaseException as error:
            self._undo()
            raise self._break(error) from None

    def _run_one(self, recorder: Recorder, work: Work[Any]) -> _Done:
        recorder.open_piece()
        try:
            result = work(cast("sqlite3.Connection", recorder))  # which does what of it the store's verbs use
        except BaseException as error:
            recorder.drop_piece()
            if refusal(error) is None and isinstance(error, sqlite3.Error):
                raise
            return None, self._name_error(error)
        recorder.keep_piece()
        return result, None

    def _publish(self) -> None:
        """In the writer's thread: first into the bucket, then into the file."""
        assert self._recorder is not None
        is_there = False
        try:
            self.log.append(self._recorder.statements)
            is_there = True
            move(self._recorder.db, self.log.session, self.log.slot)
            self._recorder.db.execute("COMMIT")
        except BaseException as error:
            self._undo()
            if is_there:  # the disk of the copy is full, say: it is written, and can't be read here
                error = OutcomeUnknown(f"it is in the bucket, and the local copy can't be written ({error}); ask again")
            raise self._break(error) from None

    def _break(self, error: BaseException) -> BaseException:
        """Nothing is written any more until the store is opened again."""
        named = self._name_error(error)
        self.broken = self.broken or (
            named
            if isinstance(named, Unavailable)
            else StoreDown(f"the bucket store failed: {type(named).__name__}: {named}")
        )
        return named
