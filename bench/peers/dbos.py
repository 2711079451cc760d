"""DBOS: durable workflows; a delayed one waits in a queue of its system database."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy

from bench.measures import Measure, timed
from bench.peers import DAY_S, Tally, affordable, make_wal
from bench.sizes import Sizes

TALLY = Tally()
DURABILITY = {
    "sqlite": "WAL, synchronous=FULL, a transaction per step of a workflow",
    "postgres": "synchronous_commit=on, a transaction per step of a workflow",
}
QUEUE = "bench"
STEPS, CALLERS = 10, 64  # as in bench/workflows.py
FLOWS: dict[str, Callable[[], Any]] = {}
PIECE = 500


def run(url: str, sizes: Sizes) -> list[Measure]:
    place = f"sqlite:///{make_wal(url)}" if url.startswith("sqlite:") else url
    dbos = _launch(place)
    try:
        count = sizes.peer_count
        measures = [timed("schedule.1", count, lambda: _enqueue(dbos, count, DAY_S))]
        bulk = min(sizes.peer_bulk_count, 2_000)
        measures.append(timed("schedule.bulk", bulk, lambda: _bulk(place, bulk), note=f"{PIECE} in a transaction"))
        measures.append(_fire(dbos, place, sizes.peer_fire_count, pace=measures[0].value))
        return [*measures, _flows(sizes.peer_flow_count)]
    finally:
        dbos.destroy()


def _launch(place: str) -> Any:
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": place, "run_admin_server": False, "log_level": "ERROR"})

    @DBOS.workflow(name="job")
    def job() -> None:
        TALLY.hit()

    _declare_flows(DBOS)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=0.1)
    return DBOS


def _flows(count: int) -> Measure:
    """Workflows of ten steps that do nothing, called by 64 at once: by threads, and by tasks; the better of the two."""
    by_threads = _flows_by(lambda: _in_threads(count), count, "threads")
    by_tasks = _flows_by(lambda: asyncio.run(_in_tasks(count)), count, "tasks")
    return max(by_threads, by_tasks, key=lambda measure: measure.value)


def _flows_by(work: Callable[[], None], count: int, what: str) -> Measure:
    return timed(
        f"workflows.{CALLERS}", count, work, note=f"of {STEPS} steps, by {CALLERS} {what}, the better way of two"
    )


def _in_threads(count: int) -> None:
    with ThreadPoolExecutor(CALLERS) as pool:
        found = list(pool.map(lambda _: FLOWS["threads"](), range(count)))
    _check_flows(found, count)


async def _in_tasks(count: int) -> None:
    numbers, found = iter(range(count)), []

    async def caller() -> None:
        for _ in numbers:
            found.append(await FLOWS["tasks"]())

    await asyncio.gather(*[caller() for _ in range(CALLERS)])
    _check_flows(found, count)


def _check_flows(found: list[int], count: int) -> None:
    if found != [STEPS * (STEPS - 1) // 2] * count:
        raise AssertionError("a workflow came to something else")


def _declare_flows(dbos: Any) -> None:
    @dbos.step(name="one")
    def one(number: int) -> int:
        return number

    @dbos.workflow(name="flow")
    def flow() -> int:
        return sum([one(number) for number in range(STEPS)])

    @dbos.step(name="one_async")
    async def one_async(number: int) -> int:
        return number

    @dbos.workflow(name="flow_async")
    async def flow_async() -> int:
        return sum([await one_async(number) for number in range(STEPS)])

    FLOWS.update(threads=flow, tasks=flow_async)


def _enqueue(dbos: Any, count: int, delay_s: float) -> None:
    for _ in range(count):
        dbos.enqueue_workflow_with_options(
            {
                "workflow_name": "job",
                "queue_name": QUEUE,
                "delay_seconds": delay_s,
                "app_version": dbos.application_version,
            }
        )


def _bulk(place: str, count: int) -> None:
    from dbos import DBOSClient

    client = DBOSClient(system_database_url=place)
    options = {"workflow_name": "job", "queue_name": QUEUE, "delay_seconds": DAY_S}
    engine = client._sys_db.engine
    for first in range(0, count, PIECE):
        with engine.begin() as connection:
            for _ in range(min(PIECE, count - first)):
                client.enqueue_in_transaction(connection, options)
    client.destroy()


def _fire(dbos: Any, place: str, count: int, *, pace: float) -> Measure:
    """It polls, so the time counts from when the first ran: that favours it."""
    count, lead_s = affordable(count, pace)
    TALLY.expect(count)
    due = time.time() + lead_s
    for _ in range(count):
        _enqueue(dbos, 1, due - time.time())
    if time.time() > due:
        raise AssertionError("scheduling took longer than planned")
    while not TALLY.ran:
        time.sleep(0.001)
    began = time.perf_counter()
    TALLY.wait(50)
    _all_succeeded(place, count)
    length = time.perf_counter() - began
    TALLY.check()
    note = f"{count:,} due at once, handler does nothing, from the first run on"
    return Measure("fire.rate", count / length, "/s", note)


def _all_succeeded(place: str, count: int) -> None:
    """Wait until the last outcome is in the database."""
    engine = sqlalchemy.create_engine(place.replace("postgresql://", "postgresql+psycopg://", 1))
    table = "workflow_status" if place.startswith("sqlite") else "dbos.workflow_status"
    sql = sqlalchemy.text(f"SELECT count(*) FROM {table} WHERE status = 'SUCCESS'")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while connection.execute(sql).scalar_one() < count:
            time.sleep(0.01)
    engine.dispose()
