"""PgQueuer: jobs in a PostgreSQL table, taken with SKIP LOCKED in batches."""

import asyncio
import time
from datetime import timedelta
from typing import Any

from bench.measures import Measure, rate
from bench.peers import DAY_S
from bench.sizes import Sizes

DURABILITY = {"postgres": "all tables logged (durable), synchronous_commit=on"}
BATCH = 100
POOL = 16
AHEAD = timedelta(seconds=DAY_S)


async def run(url: str, sizes: Sizes) -> list[Measure]:
    import asyncpg
    from pgqueuer import AsyncpgPoolDriver, Queries

    async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()

        async def one(number: int) -> None:
            await queries.enqueue("ahead", None, execute_after=AHEAD)

        measures = [
            await rate("schedule.1", sizes.peer_count * 2, 1, one),
            await rate("schedule.64", sizes.peer_count * 4, 64, one, note=f"pool of {POOL} connections"),
            await _bulk(queries, "ahead", sizes.peer_bulk_count, AHEAD),
        ]
        await queries.clear_queue("ahead")
        measures.append(await _fire(pool, queries, sizes.peer_fire_count))
    return measures


async def _bulk(queries: Any, entrypoint: str, count: int, after: timedelta) -> Measure:
    began = time.perf_counter()
    for first in range(0, count, 5_000):
        size = min(5_000, count - first)
        await queries.enqueue([entrypoint] * size, [None] * size, [0] * size, [after] * size)
    return Measure("schedule.bulk", count / (time.perf_counter() - began), "/s", "lists of 5,000")


async def _fire(pool: Any, queries: Any, count: int) -> Measure:
    """It polls for delayed jobs, so the time counts from when the first ran: that favours it."""
    from pgqueuer import AsyncpgPoolDriver, PgQueuer

    worker = PgQueuer(AsyncpgPoolDriver(pool))
    ran = 0
    began = time.perf_counter()

    @worker.entrypoint("fire")
    async def fire(job: Any) -> None:
        nonlocal ran, began
        if not ran:
            began = time.perf_counter()
        ran += 1

    await _bulk(queries, "fire", count, timedelta(seconds=1))
    await asyncio.sleep(1.2)
    task = asyncio.create_task(worker.run(dequeue_timeout=timedelta(seconds=0.2), batch_size=BATCH))
    while ran < count or await pool.fetchval("SELECT count(*) FROM pgqueuer"):
        await asyncio.sleep(0.01)
        if task.done():
            task.result()
    length = time.perf_counter() - began
    worker.shutdown.set()
    await asyncio.wait([task], timeout=5)
    if ran != count:
        raise AssertionError(f"{ran} runs of {count} jobs")
    note = f"{count:,} overdue, handler does nothing, batches of {BATCH}, from the first run on"
    return Measure("fire.rate", count / length, "/s", note)
