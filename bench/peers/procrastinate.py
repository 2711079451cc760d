"""Procrastinate: jobs in a PostgreSQL table, fetched one by one by functions in the database."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.measures import Measure, rate
from bench.peers import DAY_S, affordable
from bench.sizes import Sizes

DURABILITY = {"postgres": "synchronous_commit=on, a transaction per job"}
POOL = 16
CONCURRENCY = 32
PIECE = 5_000


async def run(url: str, sizes: Sizes) -> list[Measure]:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url, min_size=POOL, max_size=POOL))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        @app.task(name="ahead", queue="ahead")
        async def ahead() -> None:
            pass

        waiting = ahead.configure(schedule_in={"seconds": DAY_S})

        async def one(number: int) -> None:
            await waiting.defer_async()

        measures = [
            await rate("schedule.1", sizes.peer_count, 1, one),
            await rate("schedule.64", sizes.peer_count * 2, 64, one, note=f"pool of {POOL} connections"),
            await _bulk(waiting, sizes.peer_bulk_count),
        ]
        # Those that wait would be stepped over at every fetch.
        await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")
        return [*measures, await _fire(app, sizes.peer_fire_count, pace=measures[-1].value)]


async def _bulk(task: Any, count: int) -> Measure:
    began, used = time.perf_counter(), time.process_time()
    for first in range(0, count, PIECE):
        await task.batch_defer_async(*[{}] * min(PIECE, count - first))
    length, used = time.perf_counter() - began, time.process_time() - used
    return Measure("schedule.bulk", count / length, "/s", f"lists of {PIECE:,}", used / count * 1e6)


async def _fire(app: Any, count: int, *, pace: float) -> Measure:
    """The worker is running when they fall due; it polls, so the time counts from the first run on: that favours it."""
    ran, began = 0, 0.0

    @app.task(name="fire", queue="fire")  # type: ignore[untyped-decorator]
    async def fire() -> None:
        nonlocal ran, began
        began = began or time.perf_counter()
        ran += 1

    count, lead_s = affordable(count, pace)
    due = datetime.now(UTC) + timedelta(seconds=lead_s)
    await _bulk(fire.configure(schedule_at=due), count)
    if datetime.now(UTC) > due:
        raise AssertionError("scheduling took longer than planned")
    worker = asyncio.create_task(
        app.run_worker_async(
            queues=["fire"],
            concurrency=CONCURRENCY,
            fetch_job_polling_interval=0.05,
            install_signal_handlers=False,
        )
    )
    await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
    left = "SELECT count(*) AS n FROM procrastinate_jobs WHERE queue_name = 'fire' AND status <> 'succeeded'"
    while ran < count or (await app.connector.execute_query_one_async(left))["n"]:
        await asyncio.sleep(0.005)
        if worker.done():
            worker.result()
    length = time.perf_counter() - began
    worker.cancel()
    await asyncio.wait([worker], timeout=5)
    if ran != count:
        raise AssertionError(f"{ran} runs of {count} jobs")
    note = f"{count:,} due at once, handler does nothing, {CONCURRENCY} at a time, from the first run on"
    return Measure("fire.rate", count / length, "/s", note)
