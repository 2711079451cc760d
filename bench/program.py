"""Which program is measured? One class with a trivial handler, as a user would write it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from wakeful import AlarmInfo, App, DurableObject, Limits, ObjectId, in_process, in_thread, reader
from wakeful.runtime.node import Node
from wakeful.store import Store, open_url
from wakeful.values.timers import ALARM, Timer

CLASS = "Bench"
DAY_MS = 86_400_000
CLOCKS_MS = 2.0  # what two clocks of one machine may differ by when one is measured over a connection
# One bulk insert is one transaction: a million timers go in pieces.
PIECE = 50_000

# What else is done to every app that is measured: telemetry, when its cost is.
PREPARE: list[Callable[[App], object]] = []

Heard = Callable[[float], None]  # of a run, as its handler starts: when it was due, in milliseconds


def run_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """On the event loop that `wakeful run` takes: uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)


def make_app(heard: Heard | None = None, *, limits: Limits | None = None) -> tuple[App, type["Bench"]]:
    """An app with the class; `heard` is told of every alarm and job as its handler starts."""
    app = App(limits=limits, idle="10m")
    hears = staticmethod(heard or _ignore)

    class Own(Bench):
        heard = hears

    app.object(name=CLASS)(Own)
    for prepare in PREPARE:
        prepare(app)
    return app, Own


def _ignore(due_ms: float) -> None:
    pass


class Bench(DurableObject):
    """Counts in one key, and is woken by its alarm or a job to write another."""

    heard: Heard

    async def arm(self, at_ms: int) -> None:
        await self.storage.set_alarm(at_ms)

    async def add(self) -> int:
        count: int = await self.storage.get("n", 0) + 1
        await self.storage.put("n", count)
        return count

    @in_thread
    def add_in_thread(self) -> int:
        count: int = self.blocking.storage.get("n", 0) + 1
        self.blocking.storage.put("n", count)
        return count

    @in_process
    def add_in_process(self) -> int:
        count: int = self.blocking.storage.get("n", 0) + 1
        self.blocking.storage.put("n", count)
        return count

    @reader
    async def look(self) -> int:
        found: int = await self.storage.get("n", 0)
        return found

    async def alarm(self, info: AlarmInfo) -> None:
        self.heard(info.scheduled_at.timestamp() * 1000)
        await self.storage.put("fired", 1)

    async def job(self, due_ms: int) -> None:
        self.heard(due_ms)
        await self.storage.put("fired", 1)


class Countdown:
    """Tells when the last of `count` runs has started, and by how much each was late."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.late_ms: list[float] = []
        self.all_started = asyncio.Event()

    def heard(self, due_ms: float) -> None:
        self.late_ms.append(time.time() * 1000 - due_ms)
        self.left -= 1
        if self.left <= 0:
            self.all_started.set()


def check_not_early(node: Node, late_ms: Sequence[float]) -> None:
    """None ran before its time. A node of a shared store goes by the store's clock, which is measured, not ours."""
    if min(late_ms) < (-CLOCKS_MS if node.store.shared else 0):
        raise AssertionError(f"one started {-min(late_ms):.3f} ms early")


async def committed(node: Node) -> None:
    """Wait until every run that was handed out is on disk."""
    while node.queue.running or node.committer.backlog:  # noqa: ASYNC110 - the node owes benchmarks no event
        await asyncio.sleep(0.001)


async def check_fired(node: Node, count: int) -> None:
    """Nothing lost, nothing doubled: a benchmark that did not do the work is worth nothing."""
    entries, parked = await node.store.count("entries"), await node.store.count("parked")
    if (entries, parked) != (count, 0):
        raise AssertionError(f"{count} were due, {entries} runs are in the ledger, {parked} are parked")


def timers(count: int, at_ms: Callable[[int], int], *, prefix: str) -> Iterator[Timer]:
    """Alarms on so many new objects, as `store.insert` takes them."""
    for number in range(count):
        due_at = at_ms(number)
        yield Timer(ObjectId(CLASS, f"{prefix}{number}"), ALARM, due_at, due_at, number + 1)


async def fall_asleep(node: Node) -> None:
    """Every object sleeps, so that what follows has to wake it."""
    while node.awake:
        node.hibernation.sleep_all()
        await asyncio.sleep(0.001)


async def fill(store: Store, some: Sequence[Timer]) -> None:
    """Put timers into the store in pieces."""
    for first in range(0, len(some), PIECE):
        await store.insert(some[first : first + PIECE], now=now_ms())


async def fill_closed(url: str, some: Sequence[Timer]) -> None:
    """The same, into a store that no node has open."""
    store = open_url(url)
    await store.open(now=now_ms())
    try:
        await fill(store, some)
    finally:
        await store.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000
