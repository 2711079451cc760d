"""APScheduler 3: a scheduler in the process, jobs pickled into a table through SQLAlchemy."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from bench import next_run
from bench.measures import Measure, timed
from bench.peers import DAY_S, Tally, affordable, sqlalchemy_url
from bench.sizes import Sizes

TALLY = Tally()
DURABILITY = {
    "sqlite": "WAL, synchronous=FULL, a transaction per job",
    "postgres": "synchronous_commit=on, a transaction per job",
}


def job() -> None:
    """Found again by its name, as every handler of a persistent job must be."""
    TALLY.hit()


def run(url: str, sizes: Sizes) -> list[Measure]:
    url = sqlalchemy_url(url)
    tomorrow = datetime.now(UTC) + timedelta(seconds=DAY_S)
    scheduler = _scheduler(url, "ahead")
    scheduler.start()
    measures = [timed("schedule.1", sizes.peer_count, lambda: _add(scheduler, sizes.peer_count, tomorrow))]
    scheduler.shutdown()

    scheduler = _scheduler(url, "bulk")
    _add(scheduler, sizes.peer_count, tomorrow)  # held in memory until the start
    measures.append(timed("schedule.bulk", sizes.peer_count, scheduler.start, note="added before start()"))
    scheduler.shutdown()
    pace = measures[1].value
    return [
        *measures,
        _fire(url, sizes.peer_fire_count, pace=pace),
        _cron(url, sizes.peer_fire_count, pace=pace),
        *next_run.peer(_next_after, sizes),
    ]


def _next_after(text: str, zone: ZoneInfo) -> Callable[[datetime], Any]:
    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(text, timezone=zone)
    return lambda start: trigger.get_next_fire_time(None, start)


def _cron(url: str, count: int, *, pace: float) -> Measure:
    """Cron jobs that are due at one second; each is written back with its next time."""
    scheduler = _scheduler(url, "cron")
    count, lead_s = affordable(count, pace)
    TALLY.expect(count)
    at = (datetime.now(UTC) + timedelta(seconds=lead_s + 1)).replace(microsecond=0)
    for _ in range(count):
        scheduler.add_job(job, "cron", second=at.second, minute=at.minute)
    scheduler.start()
    if datetime.now(UTC) > at:
        raise AssertionError("scheduling took longer than planned")
    TALLY.wait(50)
    length = (datetime.now(UTC) - at).total_seconds()
    TALLY.check()
    scheduler.shutdown()
    return Measure("cron.rate", count / length, "/s", f"{count:,} due at one second, handler does nothing, 20 threads")


def _fire(url: str, count: int, *, pace: float) -> Measure:
    scheduler = _scheduler(url, "fire")
    count, lead_s = affordable(count, pace)
    TALLY.expect(count)
    at = datetime.now(UTC) + timedelta(seconds=lead_s)
    _add(scheduler, count, at)
    scheduler.start()
    if datetime.now(UTC) > at:
        raise AssertionError("scheduling took longer than planned")
    TALLY.wait(50)
    store = scheduler._lookup_jobstore("default")
    while store.get_all_jobs():
        time.sleep(0.005)
    length = (datetime.now(UTC) - at).total_seconds()
    TALLY.check()
    scheduler.shutdown()
    return Measure("fire.rate", count / length, "/s", f"{count:,} due at once, handler does nothing, 20 threads")


def _scheduler(url: str, table: str) -> Any:
    from apscheduler.executors.pool import ThreadPoolExecutor
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=url, tablename=table)},
        executors={"default": ThreadPoolExecutor(20)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )


def _add(scheduler: Any, count: int, at: datetime) -> None:
    for _ in range(count):
        scheduler.add_job(job, "date", run_date=at)
