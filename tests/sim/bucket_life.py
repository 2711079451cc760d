"""Several processes that all want one prefix, take it from each other, are killed and go on, from a seed.

Nobody waits for anybody here: each takes over whoever lives, at any moment. So what is tested is not the lease but what
makes it safe to be wrong about it. They are threads of which one runs at a time, and which one is next is drawn whenever
one of them asks the bucket for something.

    python -m tests.sim.bucket_life --seeds 1000
"""

import argparse
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from wakeful.store.bucket import owners, recovery
from wakeful.store.bucket.log import SealedLog, SessionLog
from wakeful.store.bucket.position import move
from wakeful.store.bucket.recorder import Recorder
from wakeful.store.bucket.snapshots import Snapshots
from wakeful.store.bucket.storage import ObjectStorage, Patient
from wakeful.testing.buckets import EmulatedBucket
from wakeful.values.errors import FileOwned, StoreDown

A = TypeVar("A")
T = TypeVar("T")
ROUNDS = 7  # lives of each process
STEPS_MAX = 60_000


class Killed(BaseException):
    """As by kill -9: nothing of the process runs on."""


class Baton:
    """Lets one thread run at a time, and draws which."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._turns: dict[threading.Thread, threading.Semaphore] = {}
        self._main = threading.Semaphore(0)
        self.steps = 0

    def run(self, lives: Sequence[Callable[[], None]]) -> None:
        for life in lives:
            thread = threading.Thread(target=self._live, args=(life,), daemon=True)
            self._turns[thread] = threading.Semaphore(0)
            thread.start()
        while self._turns:
            self.steps += 1
            assert self.steps < STEPS_MAX, "they go round in circles"
            self._dice.choice(list(self._turns.values())).release()
            self._main.acquire()

    def rest(self) -> None:
        """Somebody else's turn, perhaps."""
        turn = self._turns.get(threading.current_thread())
        if turn is not None:
            self._main.release()
            turn.acquire()

    def _live(self, life: Callable[[], None]) -> None:
        me = threading.current_thread()
        self._turns[me].acquire()
        try:
            life()
        finally:
            del self._turns[me]
            self._main.release()


class OneByOne(Patient):
    """A process has one thread here, and asks in any order."""

    def __init__(self, storage: ObjectStorage, wait: Callable[[float], object], dice: random.Random) -> None:
        super().__init__(storage, wait, tries=40)
        self._dice = dice

    def each(self, ask: Callable[[A], T], what: Sequence[A]) -> list[T]:
        found: dict[int, T] = {}
        for n in self._dice.sample(range(len(what)), len(what)):
            found[n] = ask(what[n])
        return [found[n] for n in range(len(what))]


class BucketLife:
    """One seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.folder = folder
        self.bucket = EmulatedBucket(
            seed=seed,
            refused=self.dice.choice([0.0, 0.03]),
            lost=self.dice.choice([0.0, 0.03, 0.1]),
            late_lists=self.dice.choice([0, 0, 40]),
        )
        self.baton = Baton(self.dice)
        self.kill_odds = self.dice.choice([0.0, 0.001, 0.004])
        self.acknowledged: list[str] = []
        self.written: set[str] = set()  # whatever was tried
        self.seen: dict[int, set[str]] = {}  # what each session found when it had taken over
        self.failures: list[BaseException] = []
        self.takes = self.kills = self.snapshots = self.fenced = 0

    def run(self) -> "BucketLife":
        """To the end, and then what is left is looked at by one more."""
        self.bucket.on_request = self._on_request
        names = ["a", "b", "c"][: self.dice.choice([2, 3])]
        self.baton.run([lambda name=name: self._process(name) for name in names])  # type: ignore[misc]
        self.bucket.on_request = lambda verb, key: None
        if self.failures:
            raise self.failures[0]
        self.bucket.refused = self.bucket.lost = 0.0
        self._take("last", "last-0")
        return self

    def _on_request(self, verb: str, key: str) -> None:
        self.baton.rest()
        is_killable = self.kill_odds and threading.current_thread() is not threading.main_thread()
        if is_killable and self.dice.random() < self.kill_odds:
            raise Killed

    def _process(self, name: str) -> None:
        try:
            for life in range(ROUNDS):
                try:
                    self._life(name, f"{name}-{life}")
                except Killed:
                    self.kills += 1
                except SealedLog:
                    self.fenced += 1
                except (StoreDown, FileOwned):
                    pass  # it begins anew
        except BaseException as error:
            self.failures.append(error)

    def _life(self, name: str, token: str) -> None:
        path, log, snapshots = self._take(name, token)
        for n in range(self.dice.choice([0, 1, 5, 30])):
            self._write(path, log, f"{token}-{n}")
            if self.dice.random() < 0.15:
                snapshots.make(path)
                self.snapshots += 1

    def _take(self, name: str, token: str) -> tuple[str, SessionLog, Snapshots]:
        storage = OneByOne(self.bucket, lambda seconds: self.baton.rest(), self.dice)
        path = str(self.folder / f"{name}.db")
        if self.dice.random() < 0.3:
            recovery.remove_file(path)
        owner = owners.take(storage, token, now=0, lease_s=0)
        found = recovery.recover(storage, owner.number, path, token, now=0)
        before = list(self.acknowledged)  # by then: while it makes its first snapshot it may be overtaken itself
        snapshots = Snapshots(storage, owner.number)
        if found.snapshot is None:
            snapshots.make(path)
        self.takes += 1
        with closing(sqlite3.connect(path)) as db:
            there = {id for (id,) in db.execute("SELECT id FROM receipts")}
        lost = [id for id in before if id not in there]
        assert not lost, f"seed {self.seed}: session {owner.number} lacks {lost}, which were acknowledged"
        assert there <= self.written, f"seed {self.seed}: {there - self.written} were never written"
        self.seen[owner.number] = there
        return path, SessionLog(storage, owner.number, token), snapshots

    def _write(self, path: str, log: SessionLog, id: str) -> None:
        """As the store's writer does it: into the bucket, then into the file, then it is acknowledged."""
        self.written.add(id)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            recorder = Recorder(db)
            recorder.begin()
            recorder.open_piece()
            recorder.execute("INSERT INTO receipts (id, number, answer, expires_at) VALUES (?, ?, NULL, 0)", (id, 1))
            recorder.keep_piece()
            log.append(recorder.statements)
            move(db, log.session, log.slot)
            db.execute("COMMIT")
        for session, there in self.seen.items():
            assert session <= log.session or id in there, (
                f"seed {self.seed}: {id} was acknowledged in session {log.session} after session {session} had begun without it"
            )
        self.acknowledged.append(id)


def run_bucket_life(seed: int) -> BucketLife:
    with tempfile.TemporaryDirectory() as folder:
        return BucketLife(seed, Path(folder)).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    asked = parser.parse_args()
    totals: dict[str, int] = dict.fromkeys(("takes", "kills", "snapshots", "fenced", "acknowledged"), 0)
    failed: list[int] = []
    began = time.monotonic()
    for seed in range(asked.first, asked.first + asked.seeds):
        try:
            life = run_bucket_life(seed)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}")
            failed.append(seed)
            continue
        for name in totals:
            found = getattr(life, name)
            totals[name] += found if isinstance(found, int) else len(found)
    print(", ".join(f"{count:,} {name}" for name, count in totals.items()))
    ended = f"{len(failed)} failed ({', '.join(map(str, failed))})" if failed else "clean"
    print(f"{asked.seeds} seeds from {asked.first}: {ended}, {time.monotonic() - began:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
