"""Layer 2. What does a process have of a prefix for as long as it has it open?

Everything here blocks and runs in threads: finding out what there is, and snapshots.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence

from wakeful.store.bucket.bootstrap import bring
from wakeful.store.bucket.keys import moved_home
from wakeful.store.bucket.position import move, position_of
from wakeful.store.bucket.records import Manifest, Record
from wakeful.store.bucket.replica import Replica
from wakeful.store.bucket.shared_log import SharedLog
from wakeful.store.bucket.snapshots import Snapshots, copy_file, remove_copy
from wakeful.store.bucket.storage import ObjectStorage, Patient, check_conditions
from wakeful.store.sqlite import schema
from wakeful.values.errors import Conflict, OutcomeUnknown, StoreDown, StoreError

log = logging.getLogger("wakeful.store")

# A snapshot is due when the log since the last one has so many slots (each is a request for whoever starts) or bytes,
# or half as many as the last snapshot has.
SLOTS_MAX = 4_000
BYTES_MIN = 16 * 1_048_576


class BucketSession:
    """From `begin` to `end`."""

    def __init__(self, storage: ObjectStorage, path: str, token: str, seconds: Callable[[], float]) -> None:
        self.token = token
        self.path = path
        self._seconds = seconds
        self._closing = threading.Event()
        self.storage = Patient(storage, self.wait)
        self.log: SharedLog | None = None
        self.is_new = False
        self._snapshots: Snapshots | None = None
        self._snapshotting: threading.Thread | None = None
        self._covered = (0, 0)  # slot and bytes of the log up to where a snapshot goes, or is being made

    def wait(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise StoreDown("the bucket store is closed")

    def begin(self, *, now: int, is_probed: bool, is_migrating: bool = False) -> None:
        """Bring the local file to what the bucket holds; or raise and have nothing."""
        try:
            if not is_probed:
                check_conditions(self.storage, self.token)
            self._begin(now, is_migrating)
        except OutcomeUnknown as error:  # of something that nobody asked for
            raise StoreDown(
                f"{self.storage.storage.place} does not answer: {error.message}", code="store.bucket"
            ) from None

    def begin_looking(self) -> None:
        """As `begin`, and nothing is changed in the bucket."""
        self._begin(None, False)

    def _begin(self, now: int | None, is_migrating: bool) -> None:
        found = bring(self.storage, self.path, self.token, self._seconds, now=now, is_migrating=is_migrating)
        self.log, self.is_new = found.log, found.is_new
        self._snapshots = Snapshots(self.storage, self.token, found.snapshot.number, self._closing.is_set)
        self._covered = (found.snapshot.manifest.slot, 0)
        if now is not None and found.records > SLOTS_MAX:
            self._begin_snapshot()

    @property
    def birth(self) -> str:
        at = position_of(self.path, is_checked=False)
        return "" if at is None else at.birth

    # snapshots

    def on_written(self, before: int) -> None:
        """A record of ours was written, before which the log had so many bytes: begin a snapshot when it is the one that makes one due.

        Each node counts what all of them wrote, so the others leave it to this one.
        """
        assert self.log is not None
        assert self._snapshots is not None
        slot, covered = self._covered
        slots, size = self.log.slot - slot, max(BYTES_MIN, self._snapshots.bytes // 2)
        if (
            slots // SLOTS_MAX > (slots - 1) // SLOTS_MAX
            or (self.log.bytes - covered) // size > (before - covered) // size
        ):
            self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        if self._snapshotting is not None and self._snapshotting.is_alive():
            return
        assert self.log is not None
        self._covered = (self.log.slot, self.log.bytes)
        self._snapshotting = threading.Thread(target=self._snapshot, name="wakeful-bucket-snapshot", daemon=True)
        self._snapshotting.start()

    def _snapshot(self) -> None:
        try:
            self.snapshot()
        except (StoreDown, StoreError, OSError, sqlite3.Error) as error:
            if not self._closing.is_set():
                log.warning("no snapshot was made: %s", error, extra={"code": "store.snapshot"})

    def snapshot(self) -> None:
        """Make one now."""
        assert self._snapshots is not None
        self._snapshots.make(self.path)

    # what is no group of writes

    def migrate(self, now: int) -> list[str]:
        """Give the tables what they lack, on all nodes: those that don't know it stop there."""
        assert self.log is not None
        while True:
            db = sqlite3.connect(self.path)
            try:
                names = [step.name for step in schema.pending(db, self.path)]
                if not names:
                    schema.check_version(db, self.storage.storage.place)  # it may be newer than this program
                    return [step.name for step in schema.MIGRATIONS] if self.is_new else []
            finally:
                db.close()
            if self.log.put(Record(self.token, 0, migrations=names, migrated_at=now)):
                self._apply([(self.log.slot, Record(self.token, 0, migrations=names, migrated_at=now))])
                return names
            found, _ = self.log.read()
            self._apply(found)
            self.log.advance(found)

    def move_in(self, path: str) -> None:
        """Let that file stand for all that is there; `Conflict` when it has become more since this session began."""
        assert self.log is not None
        assert self._snapshots is not None
        slot, copy = self.log.slot + 1, f"{path}-moved"
        try:
            copy_file(path, copy)
            db = sqlite3.connect(copy, isolation_level=None)
            move(db, slot)
            db.close()
            size, chunks = self._snapshots.send_chunks(copy, moved_home(slot, self.token))
        finally:
            remove_copy(copy)
        manifest = Manifest(self.birth, slot, 0, size, chunks)
        if not self.log.put(Record(self.token, 0, moved_in=manifest)):
            raise Conflict(
                f"somebody wrote to {self.storage.storage.place} meanwhile, so nothing was moved; stop it, then move again",
                code="move.target",
            )

    def _apply(self, found: Sequence[tuple[int, Record]]) -> None:
        replica = Replica(self.path)
        try:
            replica.apply(found)
        finally:
            replica.close()

    # the end

    def stop(self) -> None:
        """Whatever waits in a thread gives up."""
        self._closing.set()

    def end(self) -> None:
        self._closing.set()
        thread = self._snapshotting
        if thread is not None and thread is not threading.current_thread():
            thread.join()
