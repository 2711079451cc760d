"""How fast do the same rows go into SQLite with nothing around it?"""

import asyncio
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

from bench.measures import Measure
from bench.program import now_ms
from bench.raw import BULKS, Group, Pair, schedule
from bench.sizes import Sizes
from wakeful.store import open_url

OBJECT = "INSERT INTO objects (class, key, shard, created_at, active_at) VALUES (?, ?, ?, ?, ?)"
TIMER = (
    "REPLACE INTO timers (class, key, name, shard, due_at, nominal_at, seq, attempt, crashes, started, rank, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, ?)"
)


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """Group commit from asyncio through one writer thread, WAL and fsync at each commit; and one bulk transaction."""
    store = open_url(url)
    await store.open(now=now_ms())  # for its schema
    await store.close()
    db = sqlite3.connect(url.removeprefix("sqlite:"), isolation_level=None, check_same_thread=False)
    db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000")

    def write(rows: list[Pair]) -> None:
        db.execute("BEGIN IMMEDIATE")
        # Numbered parameters would not need these copies, and some versions of Python 3.12 warn of them.
        db.executemany(OBJECT, [(*row, row[-1]) for row, _ in rows])
        db.executemany(TIMER, [(*row[:5], *row[4:]) for _, row in rows])
        db.execute("COMMIT")

    with ThreadPoolExecutor(1) as thread:
        loop = asyncio.get_running_loop()

        async def write_in_thread(rows: list[Pair]) -> None:
            await loop.run_in_executor(thread, write, rows)

        measures = await schedule(Group(write_in_thread), sizes)
        for name, make in BULKS.items():
            some = [make(name, number) for number in range(sizes.bulk_count)]
            began = time.perf_counter()
            await write_in_thread(some)
            measures.append(Measure(name, len(some) / (time.perf_counter() - began), "/s", "executemany"))
    db.close()
    return measures
