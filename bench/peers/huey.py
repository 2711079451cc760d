"""Huey: a small task queue; its SQLite storage, with fsync turned on."""

import time
from datetime import datetime, timedelta
from typing import Any

from bench.measures import Measure, timed
from bench.peers import DAY_S, Tally, affordable
from bench.sizes import Sizes

TALLY = Tally()
DURABILITY = {"sqlite": "WAL, synchronous=FULL (fsync=True; Huey's default is off), results not stored"}
WORKERS = 4


def run(url: str, sizes: Sizes) -> list[Measure]:
    path = url.removeprefix("sqlite:")
    _, ahead = _huey(path, "ahead")

    def schedule() -> None:
        for _ in range(sizes.peer_count * 3):
            ahead.schedule(delay=DAY_S)

    measure = timed("schedule.1", sizes.peer_count * 3, schedule)
    return [measure, _fire(path, sizes.peer_fire_count, pace=measure.value)]


def _fire(path: str, count: int, *, pace: float) -> Measure:
    """Its scheduler looks once a second, so the time counts from when the first ran: that favours it."""
    huey, task = _huey(path, "fire")
    count, lead_s = affordable(count, pace)
    TALLY.expect(count)
    at = datetime.now() + timedelta(seconds=lead_s)
    for _ in range(count):
        task.schedule(eta=at)
    if datetime.now() > at:
        raise AssertionError("scheduling took longer than planned")
    consumer = huey.create_consumer(workers=WORKERS, periodic=False, initial_delay=0.001, backoff=1.0, max_delay=0.001)
    consumer.start()
    while not TALLY.ran:
        time.sleep(0.001)
    began = time.perf_counter()
    TALLY.wait(50)
    length = time.perf_counter() - began
    TALLY.check()
    consumer.stop(graceful=True)
    if huey.scheduled_count() or huey.pending_count():
        raise AssertionError("jobs are left in the queue")
    note = f"{count:,} due at once, handler does nothing, {WORKERS} threads, from the first run on"
    return Measure("fire.rate", count / length, "/s", note)


def _huey(path: str, name: str) -> tuple[Any, Any]:
    from huey import SqliteHuey

    huey = SqliteHuey(name, filename=path, fsync=True, results=False, utc=False)

    @huey.task(name=name)
    def job() -> None:
        TALLY.hit()

    return huey, job
