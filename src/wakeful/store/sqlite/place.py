"""Layer 2. Is the open file still the one that its name leads to?

A file that was removed, renamed or replaced stays open and takes every write, and nobody will find them there: SQLite
does not look, so we do, before each transaction.
"""

import os
from contextlib import suppress

from wakeful.values.errors import StoreDown

Identity = tuple[int, int]  # device and inode
PRIVATE = 0o600  # of every file that is made: values and tokens' records are nobody else's to read


def identity_of(path: str) -> Identity | None:
    """Which file the name leads to; None when to none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_private(path: str) -> None:
    """A file that is not there yet is made so that only its user reads it; SQLite gives its log and index the same mode.

    Never one that is there: its mode is somebody's wish, and to close it would take the locks of this process away.
    """
    with suppress(OSError):  # it is there, or can't be made: then SQLite says why
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))


def check_file(path: str, opened: Identity | None) -> None:
    """Pass only while the database that was opened has its name."""
    if identity_of(path) != opened:
        raise StoreDown(
            f"{path} was removed, renamed or replaced while it was open; put the very file back and it goes on "
            f"(what was removed can be copied from /proc/{os.getpid()}/fd until this process ends)",
            code="store.moved",
        )


class Place:
    """Where a connection's database, its log and the lock of its owner were when it was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self._owner = f"{path}-owner"
        self.file = identity_of(path)
        self._opened_log = identity_of(self._log)
        self._opened_owner = identity_of(self._owner)

    def anew(self) -> "Place":
        """For a new connection: the lock is still the one that was taken, and must have its name."""
        place = Place(self._path)
        place._opened_owner = self._opened_owner
        return place

    def check(self) -> None:
        """Pass only while all have their names; about 4 µs."""
        check_file(self._path, self.file)
        if identity_of(self._owner) != self._opened_owner:
            raise StoreDown(
                f"{self._owner} was removed, so another process may own the database; it is locked anew unless one does",
                code="store.moved",
            )
        if identity_of(self._log) != self._opened_log:
            raise StoreDown(
                f"{self._log} was removed while it was open; the database is opened anew", code="store.moved"
            )
