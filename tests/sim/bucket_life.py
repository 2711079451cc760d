"""Several nodes that write to one prefix, are killed, stand still and go on, from a seed.

They are threads of which one runs at a time, and which one is next is drawn whenever one of them asks the bucket for
something; a second passes with each request. Slots are removed soon here, so that who stood still meets places that are
free again. Each has a clock of its own, which goes at its own rate from anywhere, and jumps ahead as that of a machine that
slept; answers come long after what they say was done, creates arrive when others have long gone on, and lists lag behind.

    python -m tests.sim.bucket_life --seeds 1000
"""

import argparse
import multiprocessing
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from tests.sim.many import add_options, run_many, verdict
from wakeful.store.bucket import shared_log, snapshots
from wakeful.store.bucket.bootstrap import bring, remove_file
from wakeful.store.bucket.position import move
from wakeful.store.bucket.recorder import Recorder
from wakeful.store.bucket.replica import Replica
from wakeful.store.bucket.shared_log import FellBehind, SharedLog
from wakeful.store.bucket.snapshots import Snapshots
from wakeful.store.bucket.storage import ObjectStorage, Patient
from wakeful.testing.buckets import EmulatedBucket
from wakeful.values.errors import OutcomeUnknown, StoreDown

A = TypeVar("A")
T = TypeVar("T")
ROUNDS = 5  # lives of each node
STEPS_MAX = 120_000
PROOF_S, KEPT_S = 20.0, 150  # instead of 15 s and an hour
# What may be left out, to see that it is what a mistake is found by.
FAULTS = frozenset({"clocks", "late answers", "late creates", "late lists"})
RATES = (0.18, 0.18, 1.0, 2.0)  # of a clock: to be as wrong as `KEPT_S` to `PROOF_S` would be too much


class Killed(BaseException):
    """As by kill -9: nothing of the process runs on."""


class Baton:
    """Lets one thread run at a time, and draws which."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._turns: dict[threading.Thread, threading.Semaphore] = {}
        self._main = threading.Semaphore(0)
        self.steps = 0
        self._asleep: dict[threading.Thread, int] = {}  # until which step

    def sleep(self, steps: int) -> None:
        """Stand still, while the others go on."""
        self._asleep[threading.current_thread()] = self.steps + steps

    def run(self, lives: Mapping[str, Callable[[], None]]) -> None:
        for name, life in lives.items():
            thread = threading.Thread(target=self._live, args=(life,), name=name, daemon=True)
            self._turns[thread] = threading.Semaphore(0)
            thread.start()
        while self._turns:
            self.steps += 1
            assert self.steps < STEPS_MAX, "they go round in circles"
            awake = [one for thread, one in self._turns.items() if self._asleep.get(thread, 0) <= self.steps]
            if not awake:
                continue
            self._dice.choice(awake).release()
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


class Clock:
    """A machine's own, which is never set back; `dice` make it wrong."""

    def __init__(self, true_s: Callable[[], int], dice: random.Random | None) -> None:
        self._true_s = true_s
        self._dice = dice
        self._rate = dice.choice(RATES) if dice is not None else 1.0

    def begin(self) -> Callable[[], float]:
        """As one process has it, from anywhere on. Now and then it says that the machine slept."""
        ahead = self._dice.uniform(0, 10**6) if self._dice is not None else 0.0

        def seconds() -> float:
            nonlocal ahead
            if self._dice is not None and self._dice.random() < 0.001:
                ahead += 3 * KEPT_S
            return ahead + self._true_s() * self._rate

        return seconds


class OneByOne(Patient):
    """A process has one thread here, and asks in any order."""

    def __init__(self, storage: ObjectStorage, wait: Callable[[float], object], dice: random.Random) -> None:
        super().__init__(storage, wait, tries=60)
        self._dice = dice

    def each(self, ask: Callable[[A], T], what: Sequence[A]) -> list[T]:
        found: dict[int, T] = {}
        for n in self._dice.sample(range(len(what)), len(what)):
            found[n] = ask(what[n])
        return [found[n] for n in range(len(what))]


class BucketLife:
    """One seed."""

    def __init__(self, seed: int, folder: Path, faults: Collection[str] = FAULTS) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.folder = folder
        more = random.Random(f"{seed} more")
        if len(faults) > 1:  # each seed has some
            faults = {fault for fault in sorted(faults) if more.random() < 0.5}
        self.clocks = {
            name: Clock(lambda: self.baton.steps, more if "clocks" in faults else None)
            for name in ("a", "b", "c", "last")
        }
        self.late_odds = more.choice([0.1, 0.3]) if "late answers" in faults else 0.0
        self.tired: set[str] = set()  # whose answer came late: a machine that stands still does so more than once
        late_lists = more.choice([300, 600]) if "late lists" in faults else 0
        stray_max = more.choice([200, 600]) if "late creates" in faults else 11
        self.bucket = EmulatedBucket(
            seed=seed,
            refused=self.dice.choice([0.0, 0.03]),
            lost=max(0.1 if "late creates" in faults else 0.0, self.dice.choice([0.0, 0.03, 0.1])),
            late_lists=max(late_lists, self.dice.choice([0, 0, 40])),
            stray_max=stray_max,
        )
        self.baton = Baton(self.dice)
        self.bucket.clock = lambda: self.baton.steps * 1_000
        self.kill_odds = self.dice.choice([0.0, 0.001, 0.004])
        # Somebody who stands still, while others write and remove what is old; or hardly anybody.
        is_sleepy = self.dice.random() < 0.5
        self.freeze_odds = {"a": 0.04} if is_sleepy else dict.fromkeys("abc", self.dice.choice([0.0, 0.004]))
        self.snapshot_odds = 0.3 if is_sleepy else 0.05
        self.acknowledged: list[str] = []
        self.written: set[str] = set()  # whatever was tried
        self.refused: set[str] = set()  # of which it was said that it was not done
        self.failures: list[BaseException] = []
        self.late = 0  # answers
        self.starts = self.kills = self.freezes = self.snapshots = self.losses = self.behind = self.unknown = 0

    def run(self) -> "BucketLife":
        """To the end, and then what is left is looked at by one more."""
        self.bucket.on_request, self.bucket.on_answer = self._on_request, self._on_answer
        names = ["a", "b", "c"][: self.dice.choice([2, 3])]
        with mock.patch.object(shared_log, "PROOF_S", PROOF_S), mock.patch.object(snapshots, "KEPT_S", KEPT_S):
            self.baton.run({name: lambda name=name: self._process(name) for name in names})  # type: ignore[misc]
            self.bucket.on_request = self.bucket.on_answer = lambda verb, key: None
            if self.failures:
                raise self.failures[0]
            self.bucket.refused = self.bucket.lost = 0.0
            self._judge(self._start("last", "last")[0])
        return self

    def _on_request(self, verb: str, key: str) -> None:
        is_one_of_them = threading.current_thread() is not threading.main_thread()
        if is_one_of_them and self.dice.random() < self.freeze_odds.get(threading.current_thread().name, 0.0):
            self.freezes += 1
            self.baton.sleep(self.dice.choice([50, 400, 800]))
        elif threading.current_thread().name in self.tired:
            self.tired.discard(threading.current_thread().name)
            self.baton.sleep(self.dice.randint(5, 60))
        self.baton.rest()
        if is_one_of_them and self.kill_odds and self.dice.random() < self.kill_odds:
            raise Killed

    def _on_answer(self, verb: str, key: str) -> None:
        """It was done; the others go on before that is heard."""
        is_one_of_them = threading.current_thread() is not threading.main_thread()
        if is_one_of_them and self.late_odds and verb == "create" and self.dice.random() < self.late_odds:
            self.late += 1
            self.tired.add(threading.current_thread().name)
            self.baton.sleep(self.dice.randint(20, 2 * KEPT_S))
            self.baton.rest()

    def _process(self, name: str) -> None:
        try:
            for life in range(ROUNDS):
                try:
                    self._life(name, f"{name}-{life}")
                except Killed:
                    self.kills += 1
                except FellBehind:
                    self.behind += 1
                except OutcomeUnknown:
                    self.unknown += 1
                except StoreDown:
                    pass  # it begins anew
        except BaseException as error:
            self.failures.append(error)

    def _life(self, name: str, token: str) -> None:
        path, log, made = self._start(name, token)
        for n in range(self.dice.choice([1, 5, 15])):
            self._write(path, log, f"{token}-{n}")
            if self.dice.random() < self.snapshot_odds and made.make(path) is not None:
                self.snapshots += 1

    def _start(self, name: str, token: str) -> tuple[str, SharedLog, Snapshots]:
        storage = OneByOne(self.bucket, lambda seconds: self.baton.rest(), self.dice)
        path = str(self.folder / f"{name}.db")
        if self.dice.random() < 0.3:
            remove_file(path)
        before = list(self.acknowledged)
        found = bring(storage, path, token, self.clocks[name].begin(), now=0)
        self.starts += 1
        lost = [id for id in before if id not in self._rows(path)]
        assert not lost, f"seed {self.seed}: {token} lacks {lost}, which were acknowledged"
        return path, found.log, Snapshots(storage, token, found.snapshot.number)

    def _write(self, path: str, log: SharedLog, id: str) -> None:
        """As the store's writer does it: what is written depends on all that came before; then it is acknowledged."""
        self.written.add(id)
        with closing(sqlite3.connect(path, isolation_level=None)) as db, closing(Replica(path)) as replica:
            while True:
                recorder = Recorder(db)
                recorder.begin()
                recorder.open_piece()
                [place] = recorder.execute("SELECT count(*) FROM receipts").fetchone()
                recorder.execute(
                    "INSERT INTO receipts (id, number, answer, expires_at) VALUES (?, ?, NULL, 0)", (id, place)
                )
                recorder.keep_piece()
                try:
                    is_in = log.append(recorder.statements)
                except OutcomeUnknown:
                    raise
                except StoreDown:
                    self.refused.add(id)
                    raise
                if is_in:
                    move(db, log.slot)
                    db.execute("COMMIT")
                    break
                db.execute("ROLLBACK")
                self.losses += 1
                found, _ = log.read()
                replica.apply(found)
                log.advance(found)
        self.acknowledged.append(id)

    def _judge(self, path: str) -> None:
        there = self._rows(path)
        assert there.keys() <= self.written, f"seed {self.seed}: {there.keys() - self.written} were never written"
        assert not there.keys() & self.refused, (
            f"seed {self.seed}: {there.keys() & self.refused} are there, and were said not to be"
        )
        assert sorted(there.values()) == list(range(len(there))), (
            f"seed {self.seed}: somebody wrote without knowing what came before: {there}"
        )

    def _rows(self, path: str) -> dict[str, int]:
        with closing(sqlite3.connect(path)) as db:
            return dict(db.execute("SELECT id, number FROM receipts").fetchall())


def run_bucket_life(seed: int, faults: Collection[str] = FAULTS) -> BucketLife:
    with tempfile.TemporaryDirectory() as folder:
        return BucketLife(seed, Path(folder), faults).run()


COUNTED = ("starts", "kills", "freezes", "late", "snapshots", "losses", "behind", "unknown", "acknowledged")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many seeds; 1 when any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.bucket_life", description=__doc__)
    add_options(parser)
    given = parser.parse_args(arguments)
    began = time.monotonic()
    totals = multiprocessing.get_context("spawn").Array("q", len(COUNTED))  # all workers add to it
    failed = run_many(partial(_attempt, totals=totals), range(given.first, given.first + given.seeds), given.jobs)
    print(", ".join(f"{count:,} {name}" for name, count in zip(COUNTED, totals[:], strict=True)))
    return verdict(given.seeds, given.first, failed, began)


def _attempt(seed: int, totals: Any) -> str | None:
    """What to print about a seed that fails."""
    try:
        life = run_bucket_life(seed)
    except Exception as error:
        return f"seed {seed}: {type(error).__name__}: {error}\n  replay: make sim-bucket SEEDS=1 FROM={seed}"
    with totals.get_lock():
        for number, name in enumerate(COUNTED):
            found = getattr(life, name)
            totals[number] += found if isinstance(found, int) else len(found)
    return None


if __name__ == "__main__":
    sys.exit(main())
