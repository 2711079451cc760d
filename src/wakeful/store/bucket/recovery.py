"""Layer 2. How does a local file come to hold what the bucket holds: after a kill, a takeover, or because it was deleted?

From the newest snapshot, or from what the file has already, through the log of every session since, each to its seal. What
is missing on the way has been covered by a newer snapshot meanwhile; so then all begins anew.
"""

import os
import sqlite3
from contextlib import suppress
from typing import NamedTuple

from wakeful.store.bucket import log
from wakeful.store.bucket.keys import owner_key
from wakeful.store.bucket.log import SealedLog
from wakeful.store.bucket.owners import newest_owner, read_owner
from wakeful.store.bucket.position import Position, check_schema, make, move, position_of
from wakeful.store.bucket.recorder import replay
from wakeful.store.bucket.snapshots import MissingChunk, StoredSnapshot, download, newest_snapshot
from wakeful.store.bucket.storage import Patient
from wakeful.store.sqlite import schema
from wakeful.store.sqlite.owner import make_private
from wakeful.values.errors import StoreDown, StoreError

_TRIES = 8  # so often a snapshot may be replaced while it is read


class Recovered(NamedTuple):
    """What was found: where the sessions since the snapshot ended, and how much was read to get there."""

    snapshot: StoredSnapshot | None
    ends: dict[int, int]
    records: int


def recover(
    storage: Patient, session: int, path: str, token: str, *, now: int, is_migrating: bool = False
) -> Recovered:
    """Bring the file to what all sessions before this one wrote, after ending each of them."""
    missing = ""
    for _ in range(_TRIES):
        snapshot = newest_snapshot(storage, session - 1)
        try:
            ends = _end_all(storage, snapshot, session, token)
            # Its owner may have lived, made another and removed what that covers: what looked like the end was a gap.
            if newest_snapshot(storage, session - 1) != snapshot:
                continue
            records = _fill(storage, snapshot, ends, session, path, now, is_migrating)
            _check_owner(storage, session)
            return Recovered(snapshot, ends, records)
        except (MissingChunk, log.MissingSlot) as error:
            missing = str(error)
            storage.wait(0.2)
    raise _gap_error(storage, missing or "a snapshot that stays")


def _end_all(storage: Patient, snapshot: StoredSnapshot | None, session: int, token: str) -> dict[int, int]:
    """Where the seals of the sessions before this one are, from that of the snapshot on."""
    ends: dict[int, int] = {}
    first = snapshot.manifest.session if snapshot else 1
    for number in range(first, session):
        after = snapshot.manifest.slot if snapshot and number == first else 0
        ends[number] = log.seal(storage, number, after, token)
    if snapshot is None and any(end > 1 for end in ends.values()):
        raise MissingChunk("a snapshot")  # there is one before anything is written
    return ends


def _check_owner(storage: Patient, session: int) -> None:
    """Nobody came after us meanwhile, who may have written more, and removed what we were to read."""
    if storage.get(owner_key(session + 1)) is not None:
        raise SealedLog(f"another process has taken over {storage.storage.place} while this one read what is there")


def look(storage: Patient, path: str) -> str:
    """Bring the file to what the bucket holds now, and change nothing there; the prefix's own name."""
    missing = ""
    for _ in range(_TRIES):
        owner = newest_owner(storage)
        if owner is None:
            raise StoreError(
                f"{storage.storage.place} holds nothing of Wakeful; start the program that owns it once, which makes it"
            )
        snapshot = newest_snapshot(storage, owner.number)
        if snapshot is None:
            raise StoreDown(f"{storage.storage.place} is being made just now; try again", code="store.bucket")
        try:
            _restore(storage, snapshot, path)
            check_schema(path, storage.storage.place)
            _apply(storage, path, snapshot.manifest.session, snapshot.manifest.slot, None)
            for number in range(snapshot.manifest.session + 1, owner.number + 1):
                _apply(storage, path, number, 0, None)
            if newest_snapshot(storage, owner.number) == snapshot:
                return snapshot.manifest.birth  # else what looked like the end may have been a gap
        except (MissingChunk, log.MissingSlot) as error:
            missing = str(error)
        storage.wait(0.2)
    raise _gap_error(storage, missing or "a snapshot that stays")


def _gap_error(storage: Patient, missing: str) -> StoreError:
    return StoreError(
        f"{storage.storage.place}: {missing} is missing, which Wakeful did not remove; bring the older versions of the prefix "
        "back (versioning, soft delete), or restore a backup",
        code="store.gap",
    )


def _fill(
    storage: Patient,
    snapshot: StoredSnapshot | None,
    ends: dict[int, int],
    session: int,
    path: str,
    now: int,
    is_migrating: bool,
) -> int:
    birth = read_owner(storage, 1).token
    at = _usable(position_of(path), birth, snapshot, ends)
    if at is None:
        remove_file(path)
        if snapshot is None:
            _make(path, birth, now)
            at = Position(birth, 1, 0)
        else:
            _restore(storage, snapshot, path)
            at = Position(birth, snapshot.manifest.session, snapshot.manifest.slot)
    if not is_migrating:
        check_schema(path, storage.storage.place)
    count = 0
    for number in range(at.session, session):
        count += _apply(storage, path, number, at.slot if number == at.session else 0, ends[number])
    _settle(path, session)
    return count


def _usable(at: Position | None, birth: str, snapshot: StoredSnapshot | None, ends: dict[int, int]) -> Position | None:
    """What the file has, if that is a beginning of what the bucket has: it is written only after the bucket was."""
    if at is None or at.birth != birth or at.session not in ends or at.slot >= ends[at.session]:
        return None
    if snapshot is not None and (at.session, at.slot) < (snapshot.manifest.session, snapshot.manifest.slot):
        return None
    return at


def _make(path: str, birth: str, now: int) -> None:
    """A new file, of a prefix in which nobody wrote anything yet."""
    make_private(path)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        schema.apply(db, *schema.MIGRATIONS, now=now)
        make(db, Position(birth, 1, 0))
    finally:
        db.close()


def _restore(storage: Patient, snapshot: StoredSnapshot, path: str) -> None:
    remove_file(path)
    make_private(path)
    download(storage, snapshot, path)
    found = position_of(path)
    if found is None or found[1:] != (snapshot.manifest.session, snapshot.manifest.slot):
        raise StoreError(
            f"{storage.storage.place}: the snapshot of session {snapshot.manifest.session} is not what its manifest says"
        )


def _apply(storage: Patient, path: str, session: int, after: int, end: int | None) -> int:
    """What that session wrote after that slot; how many records."""
    count = 0
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536")
        for slot, statements in log.read(storage, session, after, end):
            db.execute("BEGIN IMMEDIATE")
            replay(db, statements, f"slot {slot} of session {session}")
            move(db, session, slot)
            db.execute("COMMIT")
            count += 1
    finally:
        db.close()
    return count


def _settle(path: str, session: int) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        move(db, session, 0)
    finally:
        db.close()


def remove_file(path: str) -> None:
    """The database with its log and index; nobody has it open."""
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(name)
