"""What the live tests share: children that can't be left behind, a book of what was said, and the checks at the end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.yardstick import PATIENCE_S
from wakeful.store import Store, open_url
from wakeful.store.protocol import Query, Range
from wakeful.values.codec import decode
from wakeful.values.commits import SYSTEM, USER, Info
from wakeful.values.timers import Entry, Parked, Timer

# `make live` asks for the long form; `make test` runs the short one.
IS_LONG = os.environ.get("WAKEFUL_LIVE", "") not in ("", "0")
PROGRAMS = Path(__file__).parent / "programs"
PAGE = 500


class Book:
    """What the outside world was told, over all lives of a program: the truth that the store is held to."""

    def __init__(self) -> None:
        self.tried: dict[str, str] = {}  # id → key
        self.acked: dict[str, int] = {}  # id → answer
        self.seen: dict[str, tuple[str, int]] = {}  # id → key and number, as a reader told it
        self.fired: dict[str, int] = {}  # run id → how often its handler began
        self.refused: dict[str, int] = {}  # code → how often
        self.unarmed: dict[str, str] = {}  # key → what a turn found instead of its alarm
        self.parked: list[list[Any]] = []
        self.wrong: list[str] = []

    def note(self, kind: str, *what: Any) -> None:
        """Hear one report of a child (or of a load in this process)."""
        if kind == "try":
            self.tried[what[1]] = what[0]
        elif kind in ("ack", "echo"):
            if self.acked.setdefault(what[1], what[2]) != what[2]:
                self.wrong.append(f"{what[0]} {what[1]}: answered {self.acked[what[1]]}, then {what[2]}")
        elif kind == "seen":
            if self.seen.setdefault(what[1], (what[0], what[2])) != (what[0], what[2]):
                self.wrong.append(f"read {what[1]} as {what[0]} {what[2]}, before as {self.seen[what[1]]}")
        elif kind == "fired":
            self.fired[what[1]] = self.fired.get(what[1], 0) + 1
        elif kind == "refused":
            self.refused[what[3]] = self.refused.get(what[3], 0) + 1
        elif kind == "unarmed":
            self.unarmed[what[0]] = what[1]
        elif kind == "parked":
            self.parked.append(list(what))
        elif kind == "broken":
            self.wrong.append(str(what[0]))

    @property
    def pending(self) -> list[tuple[str, str]]:
        """Key and id of what was tried and never answered."""
        return [(key, id) for id, key in self.tried.items() if id not in self.acked]

    def some_acked(self, count: int) -> list[tuple[str, str]]:
        """The last few that were answered, to be asked again."""
        return [(self.tried[id], id) for id in list(self.acked)[-count:] if id in self.tried]


class Child:
    """A process of `programs/`, in a group of its own, that dies with us."""

    def __init__(
        self,
        command: Sequence[str],
        book: Book,
        config: dict[str, Any] | None = None,
        *,
        env: dict[str, str] | None = None,
    ) -> None:
        self.book = book
        self.events: list[list[Any]] = []
        self._heard = threading.Condition()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the child)
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            env=None if env is None else {**os.environ, **env},
        )
        self.pid = self._process.pid
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        if config is not None:
            self.order(config)

    def order(self, words: Any) -> None:
        """Send one line to its stdin."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()

    def wait_for(self, kind: str, *what: Any, timeout_s: float = PATIENCE_S) -> list[Any]:
        """The first report of that kind (and beginning), waiting for it."""
        wanted = [kind, *what]

        def found() -> list[Any] | None:
            return next((event for event in self.events if event[: len(wanted)] == wanted), None)

        with self._heard:
            self._heard.wait_for(lambda: found() or not self._thread.is_alive(), timeout_s)
            event = found()
        assert event is not None, f"no {wanted} from {self.pid} (exit code {self._process.poll()}): {self.tail()}"
        return event

    def until(self, is_so: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        """Wait until it is so, looking again at every report."""
        with self._heard:
            assert self._heard.wait_for(is_so, timeout_s), f"waited in vain: {self.tail()}"

    def count(self, kind: str) -> int:
        with self._heard:
            return sum(event[0] == kind for event in self.events)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and everything it said until then."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Its exit code, once it has ended and was heard to the end."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {self.pid} does not end: {self.tail()}") from None
        self._thread.join(timeout_s)
        return code

    def tail(self) -> str:
        """The end of what it wrote on stderr and said last."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - 4000))
        return f"last reports {self.events[-5:]}, stderr:\n{self._stderr.read().decode(errors='replace')}"

    def close(self) -> None:
        """Nothing of it is left."""
        self.kill()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith(b"["):
                continue  # `wakeful run` talks to people as well
            event = json.loads(line)
            with self._heard:
                self.events.append(event)
                self.book.note(*event)
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()


@contextmanager
def child(book: Book, **config: Any) -> Iterator[Child]:
    """`programs/tally.py` with that configuration, gone at the end whatever happens."""
    made = Child([str(PROGRAMS / "tally.py")], book, config)
    try:
        yield made
    finally:
        made.close()


def settle(url: str, book: Book) -> None:
    """One more life, calm and clean: asks for all that was never answered, waits until nothing is due, stops."""
    with child(book, url=url, run="last", calm=True, pending=book.pending, again=book.some_acked(50)) as last:
        last.wait_for("up")
        last.order(["settle"])
        last.wait_for("settled")
        last.order(["stop"])
        last.wait_for("stopped")
        assert last.wait() == 0, last.tail()


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[Store]:
    """The store read-only, as `wakeful ls` opens it."""
    store = open_url(url)
    await store.open(now=time.time_ns() // 1_000_000, readonly=True)
    try:
        yield store
    finally:
        await store.close()


class Sums:
    """What a check has counted, for the message of a test and for people."""

    def __init__(self) -> None:
        self.ids = self.runs = self.objects = self.crashed = 0

    def __str__(self) -> str:
        return f"{self.objects} objects, {self.ids} ids, {self.runs} alarm runs, {self.crashed} parked as crashed"


def check(url: str, book: Book, *, allow_platform_failures: bool = False) -> Sums:
    """Everything that must hold after `settle`: nothing acknowledged is lost, nothing is doubled, nothing is stuck."""
    return asyncio.run(check_async(url, book, allow_platform_failures=allow_platform_failures))


async def check_async(url: str, book: Book, *, allow_platform_failures: bool = False) -> Sums:
    sums = Sums()
    assert not book.wrong, book.wrong[:10]
    assert not book.pending, f"never acknowledged: {book.pending[:10]}"
    now = time.time_ns() // 1_000_000
    async with looking(url) as store:
        assert all(row.owner is None for row in await store.owners()), "shards were not released"
        infos: list[Info] = await _all(store.find_objects, lambda info: (info.id.cls, info.id.key))
        timers: list[Timer] = await _all(store.find_timers, lambda timer: timer.sort_key)
        parked: list[Parked] = await _all(store.find_parked, lambda row: (row.number,))
        entries = [entry for _, entry in await _all(store.find_entries, lambda row: (row[0],))]
        by_key = {timer.id.key: timer for timer in timers}
        assert len(by_key) == len(timers), "an object has two alarms"
        for row in parked:
            assert row.reason == "crashed", row
            assert "died 3 times" in row.error, row
            sums.crashed += 1
        failed = [entry for entry in entries if "died 3 times" in (entry.error or "")]
        _check_entries(entries, allow_platform_failures)
        placed: dict[str, tuple[str, int]] = {}
        for info in infos:
            await _check_object(store, info, by_key.get(info.id.key), entries, placed, sums)
        for timer in timers:
            assert timer.due_at > now, f"overdue: {timer}"
            assert (timer.started, timer.crashes) == (0, 0), f"a ghost: {timer}"
    gone = {key: text for key, text in book.unarmed.items() if key not in {row.id.key for row in failed}}
    assert not gone, f"lost in the middle, and not because it was parked: {gone}"
    _check_book(book, placed, entries)
    return sums


def _check_entries(entries: list[Entry], allow_platform_failures: bool) -> None:
    for entry in entries:
        if entry.verdict == "run":
            continue
        text = entry.error or ""
        is_ours = allow_platform_failures and text.startswith("not counted:")
        assert entry.verdict == "failed", entry
        assert is_ours or "died 3 times" in text, entry


async def _check_object(
    store: Store,
    info: Info,
    timer: Timer | None,
    entries: list[Entry],
    placed: dict[str, tuple[str, int]],
    sums: Sums,
) -> None:
    """One object's rows agree with each other, with its timer, with the ledger and with what the store counts."""
    rows = await store.scan(info.id, USER, Range())
    hidden = await store.scan(info.id, SYSTEM, Range())
    size = sum(len(key.encode()) + len(value) for key, value in (*rows, *hidden))
    assert (info.rows, info.bytes) == (len(rows) + len(hidden), size), f"{info} holds {len(rows)} rows, {size} bytes"
    values = {key: decode(value) for key, value in rows}
    ids = [value for key, value in values.items() if key.startswith("id:")]
    runs = [value for key, value in values.items() if key.startswith("run:")]
    assert values.get("count", 0) == values.get("mirror", 0) == len(ids), f"{info.id}: half a turn"
    assert values.get("runs", 0) == len(runs), f"{info.id}: half a run"
    for number, id in enumerate(ids, 1):
        assert values[f"id:{number:08}"] == id
        assert id not in placed, f"{id} happened twice: {placed[id]} and {info.id.key} {number}"
        placed[id] = (info.id.key, number)
    ledger = [entry.run_id for entry in reversed(entries) if entry.id == info.id and entry.verdict == "run"]
    assert len(set(runs)) == len(runs), f"{info.id}: an alarm's effect happened twice"
    assert runs == ledger, f"{info.id}: {len(runs)} runs in its rows, {len(ledger)} in the ledger"
    if "armed" in values:
        assert timer is not None, f"{info.id}: its alarm is lost"
        # A redriven alarm would keep its old nominal time, but it has run since: every run sets the next.
        assert timer.nominal_at == values["armed"], f"{info.id}: armed for {values['armed']}, {timer}"
    sums.objects += 1
    sums.ids += len(ids)
    sums.runs += len(runs)


def _check_book(book: Book, placed: dict[str, tuple[str, int]], entries: list[Entry]) -> None:
    """What was said outside is what is on disk."""
    for id, answer in book.acked.items():
        if id in book.tried:
            assert placed.get(id) == (book.tried[id], answer), f"acknowledged {id} as {answer}: {placed.get(id)}"
    for id, place in book.seen.items():
        assert placed.get(id) == place, f"a reader saw {id} at {place}, it is at {placed.get(id)}"
    assert set(placed) <= set(book.tried), "something happened that nobody asked for"
    never = [entry for entry in entries if entry.verdict == "run" and entry.run_id not in book.fired]
    assert not never, f"in the ledger, but the handler never began: {never[:3]}"


async def _all(find: Any, cursor: Any) -> list[Any]:
    """Every page of one of the store's finds."""
    found: list[Any] = []
    while True:
        after = cursor(found[-1]) if found else None
        page = await find(Query(limit=PAGE, after=after))
        found += page
        if len(page) < PAGE:
            return found
