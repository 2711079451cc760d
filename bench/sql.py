"""What does a turn with SQL cost beside a `put` of the same bytes, and waking an object that has a database?

`python -m bench.one sql --store URL`. Bare SQLite, in memory and in the same process, is the floor under all of it;
workerd, asked over HTTP by the same client, is a peer.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable

from bench.http import ask_callers
from bench.measures import Measure, median
from bench.program import fall_asleep
from bench.sizes import Sizes
from wakeful import App, DurableObject
from wakeful.runtime.node import Node
from wakeful.server import serving
from wakeful.values.commits import PAGE_BYTES

SCHEMA = "CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, qty INTEGER)"
INSERT = "INSERT INTO items (name, qty) VALUES (?, ?)"
FILL = 200  # rows of a database of about 20 KiB
MANY = 1_000  # statements in one turn
MILLION = 1_000_000
PIECE = 1_000  # rows that are read at once, as docs/sql.md says
HTTP_S = 3.0
Work = Callable[[int], Awaitable[object]]


class Shop(DurableObject):
    """Keeps the same things in a table, or in rows of as many bytes as the pages that an INSERT changes."""

    number: int | None = None  # of the last of `more`

    async def make(self, count: int) -> int:
        self.sql(SCHEMA)
        for number in range(self.sql("SELECT count(*) FROM items").value(), count):
            self.sql(INSERT, f"{number * 7919 % 10007} item {number}", number)
        return self.sql.size

    async def insert(self, number: int) -> None:
        self.sql(INSERT, f"{number * 7919 % 100003} another {number}", number)

    async def more(self) -> None:
        """As `insert`, of whatever comes next."""
        if self.number is None:
            self.number = self.sql("SELECT count(*) FROM items").value()
        self.number += 1
        await self.insert(self.number)

    async def many(self, first: int) -> float:
        """The time of one statement of many in one turn."""
        began = time.perf_counter()
        for number in range(first, first + MANY):
            self.sql(INSERT, f"{number * 7919 % 100003} another {number}", number)
        return (time.perf_counter() - began) * 1e6 / MANY

    async def fill(self, first: int, last: int) -> int:
        self.sql("CREATE TABLE IF NOT EXISTS numbers (id INTEGER PRIMARY KEY, n INTEGER)")
        self.sql(
            "WITH RECURSIVE counted (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < ?) "
            "INSERT INTO numbers SELECT n, n % 100 FROM counted",
            *(first, last),
        )
        return self.sql.size

    async def scan(self) -> int:
        """All rows, in pieces, with others in between."""
        count, last = 0, -1
        while rows := self.sql("SELECT id, n FROM numbers WHERE id > ? ORDER BY id LIMIT ?", last, PIECE).raw():
            count, last = count + len(rows), rows[-1][0]
            await asyncio.sleep(0)
        return count

    async def find(self, number: int) -> object:
        return self.sql("SELECT n FROM numbers WHERE id = ?", number).value()

    async def point(self) -> object:
        return self.sql("SELECT qty FROM items WHERE id = 5").value()

    async def put(self, number: int) -> None:
        await self.storage.put_many({"a": self.page(number), "b": self.page(number)})

    async def small(self, number: int) -> None:
        await self.storage.put("a", number)

    async def idle(self) -> None:
        """Only wakes."""

    def page(self, number: int) -> bytes:
        """Of other bytes each time, as pages are."""
        return number.to_bytes(4, "big") * (PAGE_BYTES // 4)


class PastShop(Shop):
    """The same, with an undo image in each commit."""

    history = "30d"


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`sql.insert`, `sql.put` (the same bytes), `sql.small` (one small row), `sql.select`: µs of one caller, one turn
    after the other; `sql.wake` and `sql.wake.plain`: of a sleeping object, with a database and without, and
    `sql.wake.query` with its first query; `sql.pages`, `sql.bytes`: written by one INSERT; `sql.many`: one statement of
    a thousand in one turn; `sql.http`: an INSERT by one caller over HTTP; `sql.scan`: for how long the loop was held at
    most while a million rows were read; `sql.wake.large`: waking an object with those rows, and its first query;
    `sql.bare`: SQLite alone. With `.history`:
    the same turn of a class that has one.
    """
    app = App(idle="10m")
    app.object(Shop)
    app.object(PastShop)
    count = max(100, sizes.wake_count // 5)
    async with app.run(url) as node:
        shop, plain = app.get(Shop, "sql"), app.get(Shop, "plain")
        size = await shop.make(FILL)
        await plain.put(0)
        await plain.small(0)
        past, past_plain = app.get(PastShop, "sql"), app.get(PastShop, "plain")
        await past.make(FILL)
        await past_plain.small(0)
        works: dict[str, Work] = {
            "sql.insert": shop.insert,
            "sql.put": plain.put,
            "sql.small": plain.small,
            "sql.select": lambda _: shop.point(),
            "sql.insert.history": past.insert,
            "sql.small.history": past_plain.small,
        }
        measures = [Measure(name, length, "µs") for name, length in (await _medians(count, works)).items()]
        measures.append(Measure("sql.size", size / 1024, "KiB", "when it began"))
        measures += await _wakes(app, node, count)
        measures += await _pages(app, node)
        measures.append(Measure("sql.many", await shop.many(2_000_000), "µs", f"of {MANY:,} in one turn"))
        measures.append(await _over_http(app, node))
        measures += await _million(app, node)
    return [*measures, Measure("sql.bare", _bare(count), "µs", "BEGIN, INSERT, COMMIT in memory")]


async def _medians(count: int, works: dict[str, Work]) -> dict[str, float]:
    """Of each, in turns, so that a slow moment of the machine falls on all of them."""
    lengths: dict[str, list[float]] = {name: [] for name in works}
    for number in range(count):
        for name, work in works.items():
            began = time.perf_counter()
            await work(number)
            lengths[name].append((time.perf_counter() - began) * 1e6)
    return {name: median(found) for name, found in lengths.items()}


async def _wakes(app: App, node: Node, count: int) -> list[Measure]:
    for number in range(count):
        await app.get(Shop, f"p{number}").small(number)
        await app.get(Shop, f"w{number}").make(FILL)
        await app.get(Shop, f"q{number}").make(FILL)
    await fall_asleep(node)
    works: dict[str, Work] = {
        "sql.wake.plain": lambda number: app.get(Shop, f"p{number}").idle(),
        "sql.wake": lambda number: app.get(Shop, f"w{number}").idle(),
        "sql.wake.query": lambda number: app.get(Shop, f"q{number}").point(),
    }
    return [Measure(name, length, "µs") for name, length in (await _medians(count, works)).items()]


async def _over_http(app: App, node: Node) -> Measure:
    await app.get(Shop, "http").make(0)
    async with serving(app, node, "127.0.0.1:0") as server:
        said = await ask_callers(server.port, "inserter", 1, HTTP_S)
    return Measure("sql.http", said["p50_ms"] * 1000, "µs", f"one caller over HTTP, {said['statuses']}")


async def _million(app: App, node: Node) -> list[Measure]:
    large = app.get(Shop, "large")
    for first in range(0, MILLION, 200 * PIECE):
        size = await large.fill(first, first + 200 * PIECE)
    held = Held()
    watching = asyncio.create_task(held.watch())
    began = time.perf_counter()
    assert await large.scan() == MILLION
    length = time.perf_counter() - began
    watching.cancel()
    lengths = []
    for number in range(20):
        await fall_asleep(node)
        began = time.perf_counter()
        await large.find(number * 40_009)
        lengths.append((time.perf_counter() - began) * 1e6)
    note = (
        f"{MILLION:,} rows in pieces of {PIECE:,}: {length:.1f} s in all, at most {held.cpu_ms:.1f} ms of CPU at a time"
    )
    return [
        Measure("sql.scan", held.ms, "ms", note),
        Measure("sql.wake.large", median(lengths), "µs", f"{size / 1024:,.0f} KiB, with its first query"),
    ]


class Held:
    """For how long others could not run."""

    def __init__(self) -> None:
        self.ms = self.cpu_ms = 0.0

    async def watch(self) -> None:
        while True:
            at, cpu_at = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0)
            self.ms = max(self.ms, (time.perf_counter() - at) * 1000)
            self.cpu_ms = max(self.cpu_ms, (time.thread_time() - cpu_at) * 1000)


async def _pages(app: App, node: Node) -> list[Measure]:
    """Pages that one INSERT changes, as the store is given them."""
    written = size = 0
    commit = node.store.commit

    async def counting(name: str, commits: list[object]) -> object:
        nonlocal written, size
        written += sum(len(one.puts) for one in commits)  # type: ignore[attr-defined]
        size += sum(len(page) for one in commits for page in one.puts.values())  # type: ignore[attr-defined]
        return await commit(name, commits)  # type: ignore[arg-type]

    node.committer._store.commit = counting  # type: ignore[method-assign, assignment]
    for number in range(100):
        await app.get(Shop, "sql").insert(1_000_000 + number)
    node.committer._store.commit = commit  # type: ignore[method-assign]
    note = f"of {PAGE_BYTES} bytes, by one INSERT into a table with an index"
    return [Measure("sql.pages", written / 100, "pages", note), Measure("sql.bytes", size / 100, "bytes", "of these")]


def _bare(count: int) -> float:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(SCHEMA)
    lengths = []
    for number in range(count):
        began = time.perf_counter()
        db.execute("BEGIN")
        db.execute(INSERT, (f"{number * 7919 % 100003} item {number}", number))
        db.execute("COMMIT")
        lengths.append((time.perf_counter() - began) * 1e6)
    db.close()
    return median(lengths)
