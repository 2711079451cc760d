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
KEEP = "INSERT INTO kept (key, value) VALUES ($1, 'x') ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"


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
        await pool.execute("CREATE TABLE kept (key bigint PRIMARY KEY, value bytea NOT NULL)")
    for writes in (False, True):  # a worker closes the pool it was given
        async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
            measures.append(await _fire(pool, sizes.fire_count, writes=writes))  # fast enough for as many as ours
    return measures


async def _bulk(queries: Any, entrypoint: str, count: int, after: timedelta) -> Measure:
    began = time.perf_counter()
    for first in range(0, count, 5_000):
        size = min(5_000, count - first)
        await queries.enqueue([entrypoint] * size, [None] * size, [0] * size, [after] * size)
    return Measure("schedule.bulk", count / (time.perf_counter() - began), "/s", "lists of 5,000")


async def _fire(pool: Any, count: int, *, writes: bool) -> Measure:
    """The worker is running when they fall due; it polls, so the time counts from the first run on: that favours it."""
    from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries

    queries = Queries(AsyncpgPoolDriver(pool))
    worker = PgQueuer(AsyncpgPoolDriver(pool))
    ran, started = 0, False
    began = time.perf_counter()

    @worker.entrypoint("fire")
    async def fire(job: Any) -> None:
        nonlocal ran, began, started
        if not started:
            started = True
            began = time.perf_counter()
        if writes:
            await pool.execute(KEEP, job.id)
        ran += 1

    lead_s = 2 + count / 5_000
    due = time.time() + lead_s
    await _bulk(queries, "fire", count, timedelta(seconds=lead_s))
    task = asyncio.create_task(worker.run(dequeue_timeout=timedelta(seconds=0.1), batch_size=BATCH))
    while ran < count or await pool.fetchval("SELECT count(*) FROM pgqueuer"):
        await asyncio.sleep(0.005)
        if task.done():
            task.result()
    length, since_due = time.perf_counter() - began, time.time() - due
    worker.shutdown.set()
    await asyncio.wait([task], timeout=5)
    if ran != count:
        raise AssertionError(f"{ran} runs of {count} jobs")
    handler = "writes a row" if writes else "does nothing"
    note = f"{count:,} due at once, handler {handler}, batches of {BATCH}, from the first run on; {count / since_due:,.0f}/s from due"
    return Measure("fire.write" if writes else "fire.rate", count / length, "/s", note)
