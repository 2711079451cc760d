"""Layer 2. How do whole tables come out of a bucket, and into one?

Rows go into a copy of the local file, whose chunks are put into the bucket; one record that names them is what commits.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from wakeful.store.bucket.bootstrap import remove_file
from wakeful.store.bucket.session import BucketSession
from wakeful.store.sqlite.table_copy import SqliteCopying
from wakeful.store.table_copy import Marks, Row


class BucketCopying:
    """A copy of what the prefix held when this began."""

    def __init__(self, session: BucketSession, close: Callable[[], Awaitable[None]], *, writes: bool, now: int) -> None:
        self._close = close
        self._session = session
        self._path = f"{session.path}-copying"
        remove_file(self._path)
        source, target = sqlite3.connect(session.path), sqlite3.connect(self._path)
        try:
            source.backup(target)
        finally:
            target.close()
            source.close()
        self._inner = SqliteCopying(self._path, writes=writes, now=now)

    async def marks(self) -> Marks:
        return await self._inner.marks()

    async def count(self, table: str) -> int:
        return await self._inner.count(table)

    def read(self, table: str) -> AsyncIterator[list[Row]]:
        return self._inner.read(table)

    async def write(self, table: str, rows: Sequence[Row]) -> None:
        await self._inner.write(table, rows)

    async def finish(self, marks: Marks) -> None:
        await self._inner.finish(marks)

    async def commit(self) -> None:
        """The record is the commit: before it the bucket holds what it held. It is refused when anybody wrote meanwhile."""
        await self._inner.commit()
        await asyncio.to_thread(self._session.move_in, self._path)
        remove_file(self._session.path)  # it has not what came in

    async def close(self) -> None:
        await self._inner.close()
        remove_file(self._path)
        remove_file(f"{self._path}-owner")
        await self._close()
