"""How the files beside this one were made: by APScheduler 3.11 and Celery 5 themselves. Run it where they are installed.

python make.py apscheduler · python make.py celery
"""

import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

HERE = Path(__file__).parent


def report(*args, **kwargs):  # type: ignore[no-untyped-def]
    """What the jobs call; nobody does."""


class Order:
    """Something that no plain data is."""


def apscheduler() -> None:
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler
    from apscheduler.triggers.combining import AndTrigger, OrTrigger
    from apscheduler.triggers.cron import CronTrigger
    from apscheduler.triggers.date import DateTrigger
    from apscheduler.triggers.interval import IntervalTrigger

    path = HERE / "jobs.sqlite"
    path.unlink(missing_ok=True)
    scheduler = BackgroundScheduler(timezone="Europe/Berlin")
    scheduler.add_jobstore(SQLAlchemyJobStore(f"sqlite:///{path}"))
    scheduler.start(paused=True)
    berlin = ZoneInfo("Europe/Berlin")
    add = scheduler.add_job
    weekdays = CronTrigger.from_crontab("30 7 * * mon-fri", berlin)
    add(report, weekdays, id="cron", args=[1], kwargs={"to": "x"}, coalesce=True, misfire_grace_time=3600)
    add(
        report,
        CronTrigger(hour="*/3", second="15", month="1-6/2", timezone="UTC"),
        id="seconds",
        max_instances=3,
        misfire_grace_time=None,
    )
    add(report, CronTrigger(day="2nd fri,last mon", hour=9, timezone="UTC"), id="positions")
    add(report, CronTrigger(day="last", hour=9, jitter=120, timezone="UTC"), id="last-day")
    add(report, CronTrigger(day_of_week="*/2", timezone=berlin), id="every-other")
    add(report, CronTrigger(day="1-7", day_of_week="mon", timezone="UTC"), id="both-days")
    add(report, CronTrigger(year="2099"), id="year")
    add(report, IntervalTrigger(hours=2, start_date=datetime(2099, 1, 1, 1, tzinfo=berlin)), id="interval")
    by_hand = datetime(2099, 1, 1, 1, 20, tzinfo=berlin)  # as people do who want a first run now
    add(
        report,
        IntervalTrigger(hours=2, start_date=datetime(2099, 1, 1, 3, tzinfo=berlin)),
        id="moved",
        next_run_time=by_hand,
    )
    add(report, weekdays, id="extra", next_run_time=by_hand)
    add(report, DateTrigger(datetime(2099, 1, 1, 10, tzinfo=berlin)), id="once")
    times = [IntervalTrigger(hours=1, start_date=datetime(2099, 1, 1, tzinfo=berlin)), weekdays]
    add(report, OrTrigger(times), id="either")
    add(report, AndTrigger([weekdays, weekdays]), id="and")
    add(report, weekdays, id="object", args=[Order()])
    add(report, weekdays, id="resting")
    scheduler.pause_job("resting")
    scheduler.shutdown()


def celery() -> None:
    import dbm
    import dbm.dumb

    from celery import Celery
    from celery.beat import PersistentScheduler
    from celery.schedules import crontab

    dbm._defaultmod = dbm.dumb  # type: ignore[attr-defined]  # which every Python can read
    os.chdir(HERE)
    for path in HERE.glob("celerybeat-schedule*"):
        path.unlink()
    app = Celery("shop", broker="memory://")
    app.conf.timezone = "Europe/Berlin"
    options = {"expires": 600, "queue": "slow"}
    app.conf.beat_schedule = {
        "morning": {"task": "shop.report", "schedule": crontab(30, 7, "mon-fri"), "args": (16,), "options": options},
        "often": {"task": "shop.sweep", "schedule": 30.0, "kwargs": {"deep": True}},
        "later": {"task": "shop.sweep", "schedule": timedelta(hours=2), "relative": True},
        "both-days": {"task": "shop.sweep", "schedule": crontab(0, 0, 1, "1-7")},
        "sundays": {"task": "shop.sweep", "schedule": crontab(0, 9, "sunday")},
        "some": {"task": "shop.sweep", "schedule": crontab(minute={0, 20, 40}, hour="*/4")},
    }
    scheduler = PersistentScheduler(app=app, schedule_filename="celerybeat-schedule", lazy=False)
    scheduler.sync()
    scheduler.close()


if __name__ == "__main__":
    from tests.vectors.moving import make  # by its name, which the jobs keep of what they call

    {"apscheduler": make.apscheduler, "celery": make.celery}[sys.argv[1]]()
