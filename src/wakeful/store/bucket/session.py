"""Layer 2. What does a process have of the prefix for as long as it owns it?

Everything here blocks and runs in threads: taking the prefix over, the beat that says that its owner lives, snapshots.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable

from wakeful.store.bucket import owners
from wakeful.store.bucket.keys import beat_key, owner_key
from wakeful.store.bucket.log import SessionLog
from wakeful.store.bucket.owners import PrefixOwner
from wakeful.store.bucket.position import position_of
from wakeful.store.bucket.recovery import Recovered, recover
from wakeful.store.bucket.snapshots import Snapshots
from wakeful.store.bucket.storage import ObjectStorage, Patient, check_conditions
from wakeful.values.errors import OutcomeUnknown, StoreDown, StoreError

log = logging.getLogger("wakeful.store")

# A snapshot is due when the log since the last one has so many slots (each is a request for whoever recovers) or bytes,
# or half as many as the last snapshot has.
SLOTS_MAX = 4_000
BYTES_MIN = 16 * 1_048_576


class OwnerSession:
    """One owner's time with the prefix: from `begin` to `end`, or to its death."""

    def __init__(self, storage: ObjectStorage, path: str, token: str, *, lease_s: float) -> None:
        self.token = token
        self.path = path
        self._lease_s = lease_s
        self._closing = threading.Event()
        self.storage = Patient(storage, self._wait)
        self.owner: PrefixOwner | None = None
        self.log: SessionLog | None = None
        self.lost = False  # somebody else is the owner by now
        self.on_lost: Callable[[], None] = lambda: None
        self._beat: threading.Thread | None = None
        self._snapshots: Snapshots | None = None
        self._snapshotting: threading.Thread | None = None
        self._tried = (0, 0)  # slot and bytes of the log when a snapshot was last begun
        self._recovered: Recovered | None = None

    def _wait(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise StoreDown("the bucket store is closed")

    def begin(self, own: frozenset[str], *, now: int, is_probed: bool, is_migrating: bool = False) -> None:
        """Become the owner, end every session before, and bring the local file to what they wrote; or raise and have nothing."""
        try:
            self._begin(own, now, is_probed, is_migrating)
        except OutcomeUnknown as error:  # of something that nobody asked for
            raise StoreDown(
                f"{self.storage.storage.place} does not answer: {error.message}", code="store.bucket"
            ) from None

    def _begin(self, own: frozenset[str], now: int, is_probed: bool, is_migrating: bool) -> None:
        if not is_probed:
            check_conditions(self.storage, self.token)
        self.owner = owners.take(self.storage, self.token, now=now, own=own, dead=self._dead(), lease_s=self._lease_s)
        self._beat = threading.Thread(target=self._beats, name="wakeful-bucket-beat", daemon=True)
        self._beat.start()  # before anything that takes long: a silent owner is taken for dead
        number = self.owner.number
        self._recovered = recover(self.storage, number, self.path, self.token, now=now, is_migrating=is_migrating)
        self.log = SessionLog(self.storage, number, self.token)
        self._snapshots = Snapshots(self.storage, number, self._closing.is_set)
        if self._recovered.snapshot is None:
            self._snapshots.make(self.path)  # before the first turn: the log is for tables that are there
        elif self._recovered.records > SLOTS_MAX or len(self._recovered.ends) > SLOTS_MAX // 500:
            self._begin_snapshot()

    def _dead(self) -> int:
        """The number of a session that can't live: the local file is of it, and is locked by us; 0 when there is none."""
        at = position_of(self.path, is_checked=False)
        try:
            is_ours = at is not None and owners.read_owner(self.storage, 1).token == at.birth
        except StoreError:
            is_ours = False
        return at.session if at is not None and is_ours else 0

    @property
    def number(self) -> int:
        """Which session of the prefix it is; 0 before it owns it."""
        return 0 if self.owner is None else self.owner.number

    @property
    def found_something(self) -> bool:
        """The prefix was not made by this very session."""
        return self._recovered is not None and self._recovered.snapshot is not None

    @property
    def birth(self) -> str:
        at = position_of(self.path, is_checked=False)
        return "" if at is None else at.birth

    # the beat

    def _beats(self) -> None:
        assert self.owner is not None
        storage, count = self.storage.storage, 0
        while not self._closing.is_set():
            count += 1
            try:
                storage.put(beat_key(self.owner.number), owners.beat(self.owner, count))
                if storage.get(owner_key(self.owner.number + 1)) is not None:
                    self.lost = True
                    self.on_lost()
                    return
            except StoreDown:
                pass  # the next one tells, or it is a rival's to find out
            self._closing.wait(min(owners.BEAT_S, max(0.05, self._lease_s / 3)))

    # snapshots

    def on_written(self) -> None:
        """A record was written: begin a snapshot when one is due."""
        assert self.log is not None
        assert self._snapshots is not None
        slots, size = self.log.slot - self._tried[0], self.log.bytes - self._tried[1]
        if slots >= SLOTS_MAX or size >= max(BYTES_MIN, self._snapshots.bytes // 2):
            self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        if self._snapshotting is not None and self._snapshotting.is_alive():
            return
        assert self.log is not None
        self._tried = (self.log.slot, self.log.bytes)
        self._snapshotting = threading.Thread(target=self._snapshot, name="wakeful-bucket-snapshot", daemon=True)
        self._snapshotting.start()

    def _snapshot(self) -> None:
        try:
            self.snapshot()
        except (StoreDown, StoreError, OSError, sqlite3.Error) as error:
            if not self._closing.is_set():
                log.warning("no snapshot was made: %s", error, extra={"code": "store.snapshot"})

    def snapshot(self, path: str | None = None) -> None:
        """Make one now, of the local file or of one that is to stand for it."""
        assert self._snapshots is not None
        self._snapshots.make(path or self.path)

    # the end

    def stop(self) -> None:
        """Whatever waits in a thread gives up."""
        self._closing.set()

    def cut(self) -> None:
        """End without a word, as after a failure: the next session finds out what this one wrote."""
        self._closing.set()
        for thread in (self._snapshotting, self._beat):
            if thread is not None and thread is not threading.current_thread():
                thread.join()

    def end(self) -> None:
        """End cleanly: whoever comes next need not wait."""
        self.cut()
        if self.owner is not None and not self.lost:
            try:
                self.storage.storage.put(beat_key(self.owner.number), owners.end_of(self.owner))
            except StoreDown as error:
                log.info("the end was not said: %s", error, extra={"code": "store.snapshot"})
