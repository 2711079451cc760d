"""Layer 4. How does SQLite run over pages that are rows: with apsw, which asks for each page and tells which it writes?

The rows are the same as without it, so a program can change its mind at any time.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

import apsw

from wakeful.sql.bindings import Arguments
from wakeful.sql.connection import LIMITS, Changed, Columns, PageSequence, SqliteFailure
from wakeful.sql.guard import TICK_STEPS, StatementGuard
from wakeful.values.commits import PAGE_BYTES
from wakeful.values.errors import WakefulError

_VFS = "wakeful-pages"
_NAMES = count()
_FREE = bytes(PAGE_BYTES)
_OPENING: dict[str, "PageFile"] = {}  # by the name under which SQLite is about to open it


class PageFile:
    """What SQLite takes for a file: pages that are there, under those that it has written."""

    def __init__(self, pages: PageSequence) -> None:
        self._pages = pages
        self._written: dict[int, bytes] = {}
        self._size = len(pages) * PAGE_BYTES

    def take(self) -> tuple[dict[int, bytes], int]:
        """What was written since this was last asked, and how many pages there are. Whoever asks puts it among the pages."""
        if not self._size:
            return {}, 0
        total = int.from_bytes(self.xRead(4, 28), "big")
        # A page that came and went in one transaction is free and was never written, though it is counted.
        written = dict.fromkeys(range(len(self._pages), total), _FREE) | self._written
        self._written, self._size = {}, total * PAGE_BYTES
        return {number: page for number, page in written.items() if number < total}, total

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802, as SQLite calls it
        number, start = divmod(offset, PAGE_BYTES)
        if offset >= self._size:
            return b""
        page = self._written.get(number)
        if page is None:
            page = self._find(number)
        return page if amount == PAGE_BYTES else page[start : start + amount]

    def _find(self, number: int) -> bytes:
        """One that nobody has written; a transaction in which it can't be read is given up, whatever it did before."""
        try:
            return self._pages[number] if number < len(self._pages) else _FREE
        except WakefulError as error:
            raise apsw.IOError(str(error)) from error

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._written[offset // PAGE_BYTES] = data
        self._size = max(self._size, offset + len(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._size = newsize

    def xFileSize(self) -> int:  # noqa: N802
        return self._size

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return PAGE_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xLock(self, level: int) -> None:  # noqa: N802
        """There is nobody else."""

    xUnlock = xSync = xLock  # noqa: N815

    def xClose(self) -> None:  # noqa: N802
        """Nothing was opened."""


class _PageFiles(apsw.VFS):
    """A place with no files but those that are being opened."""

    def __init__(self) -> None:
        super().__init__(_VFS, base="")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        file = _OPENING.pop(str(name.filename() if isinstance(name, apsw.URIFilename) else name), None)
        if file is None:
            raise apsw.CantOpenError("an object has one database, its own")
        return file

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return False

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """There is none."""

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


_files = _PageFiles()  # for as long as the process lives


class PagedConnection:
    """SQLite on the pages themselves; it says which it has changed."""

    is_lazy: ClassVar = True

    def __init__(self, pages: PageSequence, now: Callable[[], int], pages_max: int, *, is_reader: bool = False) -> None:
        guard = self.guard = StatementGuard(now)
        self._file = PageFile(pages)
        self._columns: Columns = []
        name = f"object-{next(_NAMES)}"
        _OPENING[name] = self._file
        db = self._db = apsw.Connection(name, vfs=_VFS)
        for limit, most in LIMITS:
            db.limit(getattr(apsw, f"SQLITE_LIMIT_{limit}"), most)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
        db.execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY").fetchall()
        if is_reader:
            db.execute("PRAGMA query_only = ON").fetchall()
        self._pages_max = pages_max
        db.authorizer = guard.authorize
        db.set_progress_handler(guard.is_late, TICK_STEPS)
        db.exec_trace = self._note_columns

    def _note_columns(self, cursor: apsw.Cursor, sql: str, arguments: Any) -> bool:
        """Before the first step: after the last one apsw does not know them any more."""
        self._columns = [column[0] for column in cursor.get_description()]
        return True

    def execute(self, sql: str, arguments: Arguments = ()) -> tuple[Columns, Any]:
        cursor = self._db.execute(sql, arguments)
        return self._columns, cursor

    def arm(self) -> None:
        said = (
            f"page_size = {PAGE_BYTES}",
            f"max_page_count = {self._pages_max}",
            "journal_mode = MEMORY",
            "synchronous = OFF",
        )
        self._db.execute(";".join(f"PRAGMA {one}" for one in said)).fetchall()

    @property
    def is_open(self) -> bool:
        return self._db.in_transaction

    @property
    def changes(self) -> int:
        return self._db.total_changes()

    def find_changes(self, before: PageSequence) -> Changed:
        written, total = self._file.take()
        known = len(before)
        return Changed({n: page for n, page in written.items() if n >= known or page != before[n]}, total)

    def failure(self, error: Exception) -> SqliteFailure | None:
        if isinstance(error, apsw.Error):
            cause = error.__cause__ if isinstance(error.__cause__, WakefulError) else None
            return SqliteFailure(getattr(error, "result", apsw.SQLITE_ERROR), str(error), cause)
        if isinstance(error, KeyError):
            return SqliteFailure(apsw.SQLITE_ERROR, f"there is no argument for :{error.args[0]}")
        if isinstance(error, UnicodeDecodeError):
            return SqliteFailure(apsw.SQLITE_ERROR, f"a text that is not UTF-8: {error}")
        return None

    def close(self) -> None:
        self._db.close()
