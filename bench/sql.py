"""What does a turn with SQL cost beside a `put` of the same bytes, and waking an object that has a database?

`python -m bench.one sql --store URL`. Bare SQLite, in memory and in the same process, is the floor under all of it.
"""

import sqlite3
import time
from collections.abc import Awaitable, Callable

from bench.measures import Measure, median
from bench.program import fall_asleep
from bench.sizes import Sizes
from wakeful import App, DurableObject
from wakeful.runtime.node import Node
from wakeful.values.commits import PAGE_BYTES

SCHEMA = "CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, qty INTEGER)"
INSERT = "INSERT INTO items (name, qty) VALUES (?, ?)"
FILL = 200  # rows of a database of about 20 KiB
Work = Callable[[int], Awaitable[object]]


class Shop(DurableObject):
    """Keeps the same things in a table, or in rows of as many bytes as the pages that an INSERT changes."""

    async def make(self, count: int) -> int:
        self.sql(SCHEMA)
        for number in range(count):
            self.sql(INSERT, f"{number * 7919 % 10007} item {number}", number)
        return self.sql.size

    async def insert(self, number: int) -> None:
        self.sql(INSERT, f"{number * 7919 % 100003} another {number}", number)

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
    `sql.wake.query` with its first query; `sql.pages`: written by one INSERT; `sql.bare`: SQLite alone. With `.history`:
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
        measures.append(await _pages(app, node))
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


async def _pages(app: App, node: Node) -> Measure:
    """Pages that one INSERT changes, as the store is given them."""
    written = 0
    commit = node.store.commit

    async def counting(name: str, commits: list[object]) -> object:
        nonlocal written
        written += sum(len(one.puts) for one in commits)  # type: ignore[attr-defined]
        return await commit(name, commits)  # type: ignore[arg-type]

    node.committer._store.commit = counting  # type: ignore[method-assign, assignment]
    for number in range(100):
        await app.get(Shop, "sql").insert(1_000_000 + number)
    node.committer._store.commit = commit  # type: ignore[method-assign]
    return Measure(
        "sql.pages", written / 100, "pages", f"of {PAGE_BYTES} bytes, by one INSERT into a table with an index"
    )


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
