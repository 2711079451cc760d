"""Layer 2. Which process owns the file, and how does a second one learn whom to ask?

An flock on `PATH-owner` beside the database: the kernel frees it when the owner dies, however it
dies. What is written in it is for people and for the command line, never for the decision.
"""

import fcntl
import json
import os
import sys
from contextlib import suppress
from typing import Any

from wakeful.values.errors import FileOwned, StoreDown, StoreError

# Is the open file still the one that its name leads to?
#
# A file that was removed, renamed or replaced stays open and takes every write, and nobody will find them there: SQLite
# does not look, so we do, before each transaction.

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


# A forked child shares its parent's lock and would keep it beyond the parent's death: it lets go at once.
_held: set[int] = set()


def _let_go() -> None:
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


class FileOwnership:
    """The right to write to one database file, held until released."""

    def __init__(self, path: str, *, now: int) -> None:
        """Take it, or raise `FileOwned` with the name of who has it."""
        self._path = f"{path}-owner"
        self._about: dict[str, Any] = {"pid": os.getpid(), "program": sys.argv[0] or sys.executable, "since": now}
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        except OSError as error:
            raise StoreError(
                f"{path}: can't be owned, {error.strerror}: {path}-owner; make the folder, and make it writable"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise _owned_error(path) from None
        except OSError as error:
            os.close(descriptor)
            raise StoreError(
                f"{path}: its file system has no locks ({error.strerror}); keep it on a local disk"
            ) from None
        _held.add(descriptor)
        self._descriptor = descriptor
        self._write(self._about)

    def is_whole(self) -> bool:
        """The file that is locked still has its name: else others can lock another one under it."""
        found = os.fstat(self._descriptor)
        return identity_of(self._path) == (found.st_dev, found.st_ino)

    def tell_address(self, address: str) -> None:
        """Let others find where this process takes calls."""
        self._tell("address", address)

    def tell_node(self, node: str) -> None:
        """Let whoever has the file next know which node died with this process; "" when it has left."""
        self._tell("node", node)

    def _tell(self, name: str, value: str) -> None:
        if value != self._about.get(name, ""):
            self._about[name] = value
            self._write(self._about)

    def release(self) -> None:
        """Let the next one have it. The file stays: removing a lock file lets two processes lock two of them.

        What it says stays too when the node did not get to leave: it is as dead then as by a kill.
        """
        if not self._about.get("node"):
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        _held.discard(self._descriptor)
        with suppress(OSError):
            os.close(self._descriptor)

    def _write(self, about: dict[str, Any]) -> None:
        # The lock is what counts; a full disk must not stop the owner from opening.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(about).encode(), 0)


def owner_of(path: str) -> dict[str, Any]:
    """What the owner of the database wrote about itself: pid, program, since, address; empty when it didn't."""
    try:
        with open(f"{path}-owner", encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _owned_error(path: str) -> FileOwned:
    about = owner_of(path)
    who = f"process {about['pid']} ({about['program']})" if "pid" in about and "program" in about else "another process"
    if about.get("pid") == os.getpid():
        who = f"another store of this process ({os.getpid()}, {about['program']})"
    return FileOwned(
        f"{path} is owned by {who}; stop it, use `wakeful call`, open the file read-only, or use PostgreSQL"
    )
