"""Layer 2. How does a local file come to hold what the bucket holds: at the start, after a failure, or because it was deleted?

From the newest snapshot, or from what the file has already, through the slots since. What is missing on the way has been
removed because a newer snapshot covers it, and then all begins anew; or somebody else removed it, and then nothing starts.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from wakeful.store.bucket.keys import SLOTS, SNAPSHOTS, is_ours, number_of, slot_key, snapshot_key
from wakeful.store.bucket.position import Position, check_code, check_schema, make, position_of
from wakeful.store.bucket.records import Manifest
from wakeful.store.bucket.replica import MovedIn, Replica
from wakeful.store.bucket.shared_log import FellBehind, SharedLog
from wakeful.store.bucket.snapshots import MissingChunk, Snapshots, StoredSnapshot, download, newest_snapshot
from wakeful.store.bucket.storage import Patient
from wakeful.store.bucket.takeover import is_old, take_over
from wakeful.store.sqlite import schema
from wakeful.store.sqlite.owner import make_private
from wakeful.values.errors import StoreError

_TRIES = 8  # so often a snapshot may be replaced while it is read
_SLOTS_MAX = 4_000  # a file that is further behind than that is made anew
_REST_S = 0.2


class Brought(NamedTuple):
    """Where the file is now in the log, from which snapshot on, and how many records were read to get there."""

    log: SharedLog
    snapshot: StoredSnapshot
    records: int
    is_new: bool  # the prefix was made just now


def bring(
    storage: Patient,
    path: str,
    token: str,
    seconds: Callable[[], float],
    *,
    now: int | None,
    is_migrating: bool = False,
) -> Brought:
    """Bring the file to what the bucket holds now; an empty prefix is made, unless `now` is None: then nothing is changed there."""
    missing, is_new = "", False
    for _ in range(_TRIES):
        began = seconds()
        snapshot = newest_snapshot(storage)
        if snapshot is None:
            _check_empty(storage)
            if now is None:
                raise StoreError(
                    f"{storage.storage.place} holds nothing of Wakeful as it is now; start the program once, which makes it"
                )
            if is_old(storage):
                remove_file(path)
                take_over(storage, path, token)
            else:
                is_new = _make(storage, path, token, now)
            continue
        try:
            log, records = _fill(storage, snapshot, path, token, seconds, began)
            _check_whole(storage, snapshot, log)
        except (MissingChunk, FellBehind) as error:
            missing = str(error)
            storage.wait(_REST_S)
            continue
        if not is_migrating:
            check_schema(path, storage.storage.place)
        return Brought(log, snapshot, records, is_new)
    raise _gap_error(storage, missing or "a snapshot that stays")


def _make(storage: Patient, path: str, token: str, now: int) -> bool:
    """A new file, and the first snapshot of it, of whoever is quickest: before the first record its tables are there."""
    remove_file(path)
    make_private(path)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        schema.apply(db, *schema.MIGRATIONS, now=now)
        make(db, Position(token, 0))
    finally:
        db.close()
    return Snapshots(storage, token, 0).make(path) is not None


def _fill(
    storage: Patient, snapshot: StoredSnapshot, path: str, token: str, seconds: Callable[[], float], began: float
) -> tuple[SharedLog, int]:
    manifest = snapshot.manifest
    at = _usable(storage, position_of(path), manifest)
    if at is None:
        restore(storage, manifest, path)
        at = Position(manifest.birth, manifest.slot)
    log = SharedLog(storage, token, at.slot, seconds=seconds, proven_at=began, known=snapshot.number)
    if at.slot < manifest.slot:
        log.proven_at = float("-inf")  # what comes next in the file was long there
    count, is_end = 0, False
    replica = Replica(path)
    try:
        while not is_end:
            slots, is_end = log.read()
            try:
                replica.apply(slots)
            except MovedIn as moved:
                replica.close()
                restore(storage, moved.manifest, path)
                replica = Replica(path)
                slots, is_end = [one for one in slots if one[0] <= moved.slot], False
            log.advance(slots)
            count += len(slots)
    finally:
        replica.close()
    return log, count


def _usable(storage: Patient, at: Position | None, manifest: Manifest) -> Position | None:
    """What the file has, if that is a beginning of what the bucket has: it is written only after the bucket was."""
    if at is None or at.birth != manifest.birth or at.slot < max(manifest.floor, manifest.slot - _SLOTS_MAX):
        return None
    if at.slot > manifest.slot and storage.get(slot_key(at.slot)) is None:
        raise _gap_error(storage, slot_key(at.slot))
    return at


def restore(storage: Patient, manifest: Manifest, path: str) -> None:
    """The file as it was when that snapshot was made."""
    remove_file(path)
    make_private(path)
    download(storage, manifest, path)
    check_code(path, storage.storage.place)
    if position_of(path) != Position(manifest.birth, manifest.slot):
        raise StoreError(f"{storage.storage.place}: a snapshot of slot {manifest.slot} is not what its manifest says")


# Something else removes objects here, a rule of the bucket perhaps, when there is something behind what seems to be the
# end. A list is the witness: late as it may be, it shows nothing that never was.


def _check_whole(storage: Patient, snapshot: StoredSnapshot, log: SharedLog) -> None:
    behind = [key for key in storage.keys(SLOTS, after=slot_key(log.slot)) if is_ours(key)]
    if behind and storage.get(slot_key(log.slot + 1)) is None:
        log.read()  # `FellBehind` when it was removed because a snapshot has it
        raise _gap_error(storage, slot_key(log.slot + 1))
    newer = [key for key in storage.keys(SNAPSHOTS, after=snapshot_key(snapshot.number)) if is_ours(key)]
    if newer and storage.get(snapshot_key(snapshot.number + 1)) is None:
        raise _gap_error(storage, snapshot_key(snapshot.number + 1))


def _check_empty(storage: Patient) -> None:
    for folder in (SNAPSHOTS, SLOTS):
        there = [key for key in storage.keys(folder) if is_ours(key)]
        if there and newest_snapshot(storage) is None:
            raise _gap_error(storage, snapshot_key(max(1, number_of(there[0]) - 1)))


def _gap_error(storage: Patient, missing: str) -> StoreError:
    return StoreError(
        f"{storage.storage.place}: {missing} is missing, which Wakeful did not remove; bring the older versions of the prefix "
        "back (versioning, soft delete), or restore a backup",
        code="store.gap",
    )


def remove_file(path: str) -> None:
    """The database with its log and index; nobody has it open."""
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(name)
