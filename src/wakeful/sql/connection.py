"""Layer 4. How does SQLite run over pages that are rows: with the standard library alone?"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

from wakeful.policy.limits import VALUE_BYTES_MAX
from wakeful.sql.bindings import Arguments
from wakeful.sql.guard import OWN, TICK_STEPS, StatementGuard
from wakeful.sql.statement import TEXT_CHARS_MAX
from wakeful.values.commits import PAGE_BYTES
from wakeful.values.errors import WakefulError

LIKE_BYTES_MAX = 100  # nobody can stop a LIKE, and the time that it takes may grow with every % in it
Columns = list[str]
LIMITS = (
    ("LENGTH", VALUE_BYTES_MAX),  # of one value, and of one row
    ("SQL_LENGTH", 4 * TEXT_CHARS_MAX),
    ("LIKE_PATTERN_LENGTH", LIKE_BYTES_MAX),
)


class PageSequence(Protocol):
    """Pages by number from 0: a list, or some that are read when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> bytes: ...

    def __iter__(self) -> Iterator[bytes]: ...


class Changed(NamedTuple):
    """Pages that are not as they were, by number from 0, and how many there are in all."""

    pages: dict[int, bytes]
    total: int


class SqliteFailure(NamedTuple):
    """An error of SQLite: its code and its words, and why a page could not be read, if it is that."""

    code: int
    words: str
    cause: WakefulError | None = None


class SqliteConnection(Protocol):
    """A connection to SQLite over the pages of one object. Nothing that it does is on disk before somebody takes its pages."""

    guard: StatementGuard
    is_lazy: ClassVar[bool]  # it asks only for the pages that it needs

    def __init__(
        self, pages: PageSequence, now: Callable[[], int], pages_max: int, *, is_reader: bool = False
    ) -> None: ...

    def execute(self, sql: str, arguments: Arguments = ()) -> tuple[Columns, Any]:
        """Begin a statement: its columns, and a cursor to take its rows from and to close."""
        ...

    def arm(self) -> None:
        """It is about to be written to for the first time. Those that only read do without what that needs."""
        ...

    @property
    def is_open(self) -> bool:
        """A transaction is open."""
        ...

    @property
    def changes(self) -> int:
        """SqlRows written since it was made."""
        ...

    def find_changes(self, before: PageSequence) -> Changed:
        """What is not as in these pages any more, while no transaction is open."""
        ...

    def failure(self, error: Exception) -> SqliteFailure | None:
        """What an error of `execute` says; None: it is none of SQLite's."""
        ...

    def close(self) -> None: ...


class ImageConnection:
    """SQLite on a copy of all pages in memory; what has changed is found by comparing."""

    is_lazy: ClassVar = False

    def __init__(
        self,
        pages: PageSequence,
        now: Callable[[], int],
        pages_max: int,
        *,
        is_reader: bool = False,
        tick_steps: int = TICK_STEPS,
    ) -> None:
        guard = self.guard = StatementGuard(now)
        db = self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if pages:
            db.deserialize(b"".join(pages))
        else:
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        for name, most in LIMITS:
            db.setlimit(getattr(sqlite3, f"SQLITE_LIMIT_{name}"), most)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA temp_store = MEMORY")
        if is_reader:
            db.execute("PRAGMA query_only = ON")
        db.set_authorizer(guard.authorize)
        db.set_progress_handler(guard.is_late, tick_steps)
        self._is_empty = not pages
        self._pages_max = pages_max

    def execute(self, sql: str, arguments: Arguments = ()) -> tuple[Columns, Any]:
        cursor = self._db.execute(sql, arguments)
        return [column[0] for column in cursor.description or ()], cursor

    def arm(self) -> None:
        self._db.execute(f"PRAGMA max_page_count = {self._pages_max}")

    @property
    def is_open(self) -> bool:
        return self._db.in_transaction

    @property
    def changes(self) -> int:
        return self._db.total_changes

    def find_changes(self, before: PageSequence) -> Changed:
        data = self._image()
        count = len(data) // PAGE_BYTES
        pages = {}
        for number in range(count):
            page = data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
            if number >= len(before) or page != before[number]:
                pages[number] = page
        return Changed(pages, count)

    def _image(self) -> bytes:
        self.guard.is_ours = True  # SQLite asks it for the number of pages
        try:
            if self._is_empty and self._db.execute(f"{OWN}PRAGMA page_count").fetchone()[0] == 0:
                return b""  # SQLite refuses to write down what has no page
            self._is_empty = False
            return self._db.serialize()
        finally:
            self.guard.is_ours = False

    def failure(self, error: Exception) -> SqliteFailure | None:
        if isinstance(error, sqlite3.Error):
            return SqliteFailure(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR), str(error))
        return None

    def close(self) -> None:
        self._db.close()
