"""Schedules of APScheduler and of Celery beat, read without running anything of theirs, and taken in or none."""

import pickle
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.unit import cli_stage
from wakeful.importers import pickles
from wakeful.importers.apscheduler import read_store
from wakeful.importers.celery import read_beat
from wakeful.importers.schedule_import import ImportPlan
from wakeful.values.errors import BadValue

VECTORS = Path(__file__).parents[2] / "vectors" / "moving"
JOBS, BEAT = VECTORS / "jobs.sqlite", VECTORS / "celerybeat-schedule"
wakeful = pytest.fixture(cli_stage.make_stage)

PROGRAM = """
from wakeful import App, DurableObject

app = App()

@app.object
class Cron(DurableObject):
    async def report(self, *args, to=None, run=None):
        pass

    async def clean(self, deep=False):
        pass
"""
SETTINGS = """
from datetime import timedelta
from celery import Celery
from celery.schedules import crontab, solar
import secrets

raise SystemExit("this is read, not run")
app = Celery("shop")
app.conf.timezone = "Asia/Tokyo"
app.conf.beat_schedule = {
    "a": {"task": "shop.report", "schedule": crontab(minute=0, hour="*/2"), "args": (1, "x")},
    "b": {"task": "shop.report", "schedule": 60 * 5},
    "c": {"task": "shop.report", "schedule": timedelta(days=1), "kwargs": {"to": "y"}},
    "d": {"task": "shop.report", "schedule": solar("sunset", -37, 144)},
    "e": {"task": "shop.report", "schedule": crontab(hour=secrets.randbelow(24))},
    "f": {"schedule": 5.0},
    "g": {"task": "shop.report", "schedule": crontab(minute="99")},
    "h": {"task": "shop.report", "schedule": 0.1},
}
"""


def specs(plan: ImportPlan) -> dict[str, str]:
    return {wish.name: wish.spec for wish in plan.wishes}


def test_jobs_of_apscheduler_are_schedules_with_its_rules() -> None:
    plan = read_store(JOBS)
    assert specs(plan) == {
        "cron": "cron 30 7 * * mon-fri in Europe/Berlin",
        "either": "(every 1h from 2098-12-31T23:00:00+00:00) or (cron 30 7 * * mon-fri in Europe/Berlin)",
        "every-other": "cron 0 0 * * mon,wed,fri,sun in Europe/Berlin",
        "extra": "cron 30 7 * * mon-fri in Europe/Berlin",
        "interval": "every 2h from 2099-01-01T00:00:00+00:00",
        "last-day": "cron 0 9 L * * in UTC",
        "moved": "every 2h from 2099-01-01T00:20:00+00:00",
        "once": "at 2099-01-01T09:00:00+00:00",
        "positions": "cron 0 9 * * fri#2,monL in UTC",
        "resting": "cron 30 7 * * mon-fri in Europe/Berlin",
        "seconds": "cron 15 * */3 * 1-6/2 * in UTC",
    }
    wishes = {wish.name: wish for wish in plan.wishes}
    cron, seconds = wishes["cron"], wishes["seconds"]
    assert (cron.task, cron.args, cron.kwargs, cron.changes) == ("make.report", [1], {"to": "x"}, [])
    assert cron.options == {"catch_up": "latest", "catch_up_window": "3600s"}
    assert seconds.options == {"catch_up": "latest", "catch_up_window": "365d", "parallel": 3}
    assert wishes["last-day"].options["jitter"] == "120s"
    assert [name for name, wish in wishes.items() if wish.is_paused] == ["resting"]
    assert wishes["extra"].changes == [
        "its next run was set to 2099-01-01T01:20:00+01:00, and here it goes by its times alone"
    ]
    left = dict(plan.left)
    assert set(left) == {"and", "both-days", "object", "year"}
    assert left["object"] == "it holds make.Order, which is no plain data"
    assert left["and"] == "AndTrigger is not known here"
    assert "one of the two is enough" in left["both-days"]


def test_entries_of_beats_shelf() -> None:
    plan = read_beat(BEAT)
    assert specs(plan) == {
        "later": "every 2h from 2026-11-15T18:21:57.468+00:00",  # a length after its last run
        "morning": "cron 30 7 * * mon-fri in Europe/Berlin",
        "often": "every 30s from 2026-11-15T16:22:27.468+00:00",
        "some": "cron 0,20,40 */4 * * * in Europe/Berlin",
        "sundays": "cron 0 9 * * sun in Europe/Berlin",  # `sunday` there
    }
    morning = next(wish for wish in plan.wishes if wish.name == "morning")
    assert (morning.task, morning.args) == ("shop.report", [16])
    assert morning.options == {"catch_up": "latest", "catch_up_window": "600s", "overlap": "queue_one"}
    assert morning.changes == ["without queue"]
    assert set(dict(plan.left)) == {"both-days", "celery.backend_cleanup"}


@pytest.mark.parametrize("form", ["app.conf.beat_schedule =", "CELERY_BEAT_SCHEDULE =", "beat_schedule: dict ="])
def test_a_schedule_that_is_written_down_is_read_and_not_run(form: str, tmp_path: Path) -> None:
    file = tmp_path / "celeryconfig.py"
    file.write_text(SETTINGS.replace("app.conf.beat_schedule =", form))
    plan = read_beat(file)
    assert specs(plan) == {"a": "cron 0 */2 * * * in Asia/Tokyo", "b": "every 5m", "c": "every 1d"}
    assert [(wish.args, wish.kwargs) for wish in plan.wishes] == [([1, "x"], {}), ([], {}), ([], {"to": "y"})]
    left = dict(plan.left)
    assert left["d"] == "solar times are not known here"
    assert "only a run of the file would tell" in left["e"]
    assert left["f"] == "it names no task"
    assert "99" in left["g"]
    assert "shortest interval" in left["h"]


def test_settings_given_to_update(tmp_path: Path) -> None:
    file = tmp_path / "tasks.py"
    file.write_text('app.conf.update(timezone="UTC", beat_schedule={"a": {"task": "t.report", "schedule": 10}})\n')
    assert specs(read_beat(file)) == {"a": "every 10s"}


class Evil:
    """Would write a file if it were ever made."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_of_a_pickle_is_run(protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "owned"
    for value in (Evil(str(target)), [1, {"a": Evil(str(target))}], datetime(2026, 1, 1, tzinfo=UTC).strftime, eval):
        with pytest.raises(BadValue):
            pickles.read(pickle.dumps(value, protocol), "x", ("apscheduler.",))
    assert not target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x80", b"cos\nsystem\n(S'true'\ntR.", b"cbuiltins\neval\n(S'1'\ntR.", b"\x80\x04N", b"garbage",
        b"cbuiltins\ngetattr\n(cdatetime\ndatetime\nS'now'\ntR.", b"cbuiltins\ngetattr\n(S'x'\nS'__class__'\ntR.",
        b"capscheduler.triggers.cron\nCronTrigger.__init__.__globals__\n(tR.", b"\x80\x02Pabc\n.",
    ],
)  # fmt: skip
def test_pickles_by_hand_that_reach_for_more(data: bytes) -> None:
    try:
        found = pickles.read(data, "x", ("apscheduler.triggers.",))
    except BadValue:
        return
    assert isinstance(found, pickles.Thing)  # a name that begins well is only ever a name


def test_plain_data_comes_through_in_every_protocol() -> None:
    value = {
        "at": datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), "set": {1, 2}, "t": (1, None), "b": b"x", "u": UTC,
    }  # fmt: skip
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickles.read(pickle.dumps(value, protocol), "x", ()) == value


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "no.sqlite").write_bytes(b"hello")
    empty = tmp_path / "empty.sqlite"
    with sqlite3.connect(empty) as db:
        db.execute("CREATE TABLE other (id TEXT)")
    db.close()
    (tmp_path / "x.py").write_text("def")
    (tmp_path / "y.py").write_text("a = 1")
    for read, name in (
        (read_store, "no.sqlite"), (read_store, "empty.sqlite"), (read_store, "missing"), (read_beat, "missing"),
        (read_beat, "no.sqlite"), (read_beat, "x.py"), (read_beat, "y.py"), (read_beat, "missing.py"),
    ):  # fmt: skip
        with pytest.raises(BadValue) as caught:
            read(tmp_path / name)
        assert name in str(caught.value)


def common(wakeful: cli_stage.Stage, file: Path, form: str) -> tuple[str, ...]:
    (wakeful.path / "app.py").write_text(PROGRAM)
    return ("import", str(file), "--as", form, "--class", "Cron", "--key", "all", "--app", "app.py")


def test_from_apscheduler_by_command(wakeful: cli_stage.Stage) -> None:
    command = common(wakeful, JOBS, "apscheduler")
    dry = wakeful(*command, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "would import 11 schedules into Cron/all, 3 of them changed, and left 4 behind" in dry.words
    assert "of all of them: a run may begin 60 s late" in dry.words
    assert "Cron" not in wakeful("ls", "--json").out
    real = wakeful(*command, "--json")
    assert real.code == 0
    [report] = real.json["objects"]
    assert (len(report["taken"]), len(report["changed"]), len(report["left"])) == (8, 3, 4)
    rows = {row["schedule"]: row for row in _schedules(wakeful)}
    assert set(rows) == {one["name"] for how in ("taken", "changed") for one in report[how]}
    assert (rows["resting"]["state"], rows["cron"]["handler"]) == ("paused", "report")
    again = wakeful(*command)
    assert (again.code, "[import.exists]" in again.err) == (1, True)
    assert wakeful(*command, "--replace").code == 0


def test_from_celery_by_command_with_other_names_and_all_or_nothing(wakeful: cli_stage.Stage) -> None:
    command = common(wakeful, BEAT, "celery")
    some = wakeful(*command, "--dry-run", "--json").json["objects"][0]
    assert {one["name"] for one in some["changed"]} == {"morning"}
    assert "has no method 'sweep'" in next(one["note"] for one in some["left"] if one["name"] == "often")
    both = wakeful(*command, "--map", "shop.sweep=clean")
    assert both.code == 0
    assert "imported 5 schedules into Cron/all, 2 of them changed, and left 2 behind" in both.words
    assert {row["schedule"]: row["handler"] for row in _schedules(wakeful)} == {
        "later": "clean",
        "morning": "report",
        "often": "clean",
        "some": "clean",
        "sundays": "clean",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--key", "a"), "--class"),
        (("--class", "Cron"), "--key"),
        (("--class", "Cron", "--key", "a", "--map", "x"), "TASK=METHOD"),
        (("--class", "Cron", "--key", "a", "--no-delays"), "--no-delays"),
        (("--class", "Cron", "--key", "a", "--table", "t"), "--table"),
    ],
)
def test_options_that_do_not_fit(wakeful: cli_stage.Stage, options: tuple[str, ...], said: str) -> None:
    done = wakeful("import", str(BEAT), "--as", "celery", *options)
    assert (done.code, said in done.err) == (2, True)


def _schedules(wakeful: cli_stage.Stage) -> list[dict[str, Any]]:
    found = wakeful("schedules", "Cron", "all", "--json").json
    rows: list[dict[str, Any]] = found["schedules"] if isinstance(found, dict) and "schedules" in found else found
    return rows
