"""DBOS: durable workflows; a delayed one waits in a queue of its system database."""

import time
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
PIECE = 500


def run(url: str, sizes: Sizes) -> list[Measure]:
    place = f"sqlite:///{make_wal(url)}" if url.startswith("sqlite:") else url
    dbos = _launch(place)
    try:
        count = sizes.peer_count
        measures = [timed("schedule.1", count, lambda: _enqueue(dbos, count, DAY_S))]
        bulk = min(sizes.peer_bulk_count, 2_000)
        measures.append(timed("schedule.bulk", bulk, lambda: _bulk(place, bulk), note=f"{PIECE} in a transaction"))
        return [*measures, _fire(dbos, place, sizes.peer_fire_count, pace=measures[0].value)]
    finally:
        dbos.destroy()


def _launch(place: str) -> Any:
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": place, "run_admin_server": False, "log_level": "ERROR"})

    @DBOS.workflow(name="job")
    def job() -> None:
        TALLY.hit()

    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=0.1)
    return DBOS


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
