"""Looking at schedules from the command line: what they are, why each occurrence ran or not, what comes. Nothing wakes."""

import asyncio
import json
import sqlite3
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.cli_stage import Answer, Stage, make_stage
from wakeful.cli.program import TellingStore
from wakeful.cli.terminal_log import Say
from wakeful.values.commits import Commit
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Timer

wakeful = pytest.fixture(make_stage)


async def spring(world: Any, call: Any) -> None:
    """Over the night of 29 March 2026, on which Berlin has no 02:30."""
    await call("heal")
    await world.advance(days=3)


async def outage(world: Any, call: Any) -> None:
    """Three days down, so three nights are missed."""
    await call("heal")
    await world.crash()
    await world.restart(after=timedelta(days=3, hours=2))
    await world.settle()


def verdicts(answer: Answer) -> list[tuple[str, str]]:
    return [(row["verdict"], row["why"]) for row in answer.json["verdicts"]]


def test_why_says_that_a_time_does_not_exist(wakeful: Stage) -> None:
    wakeful.past(spring, start="2026-03-27T12:00:00+00:00")
    answer = wakeful("why", "Report", "eu", "nightly", "--json")
    assert answer.code == 0
    assert verdicts(answer) == [
        ("run", "on time"),
        ("gap", '02:30 does not exist on 2026-03-29 in Europe/Berlin; gap="shift" would run it at 03:00'),
        ("run", "on time"),
    ]
    found = answer.json
    assert (found["state"], found["zone"], found["handler"]) == ("active", "Europe/Berlin", "nightly")
    assert found["spec"] == "cron 30 2 * * * in Europe/Berlin gap=skip"
    assert found["words"].startswith("at 02:30 every day, Europe/Berlin time")
    assert found["next"][0] == "2026-03-31T00:30:00.000Z"
    assert (found["counters"]["runs"], found["counters"]["gap"]) == (2, 1)
    assert [row["local"] for row in found["verdicts"]][::2] == [
        "2026-03-30T02:30:00+02:00",
        "2026-03-28T02:30:00+01:00",
    ]


def test_why_for_people_fits_the_terminal(wakeful: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wakeful.past(spring, start="2026-03-27T12:00:00+00:00")
    for width in (80, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        answer = wakeful("why", "Report", "eu", "nightly")
        assert max(map(len, answer.out.splitlines())) <= width
        assert "02:30 does not exist on 2026-03-29 in Europe/Berlin" in " ".join(
            line[49:].strip() for line in answer.out.splitlines()
        )
        assert "2026-03-30 02:30" in answer.out
        assert "2 runs, 0 failed, 0 retried, 0 missed, 1 gap" in answer.out


def test_why_one_occurrence(wakeful: Stage) -> None:
    wakeful.past(spring, start="2026-03-27T12:00:00+00:00")

    def at(time: str) -> Any:
        [one] = wakeful("why", "Report", "eu", "nightly", "--at", time, "--json").json["occurrences"]
        return one["verdicts"][0]["verdict"] if one["verdicts"] else one["fate"]

    assert at("2026-03-28T02:30") == at("2026-03-28T01:30Z") == "run"
    assert at("2026-03-29T02:30") == "gap"
    assert at("2026-03-28T02:31") == (
        "not an occurrence: version 1 is in force, at 02:30 every day, Europe/Berlin time; left out when the clocks jump "
        "over it; the nearest are 2026-03-28 02:30 and 2026-03-30 02:30"
    )
    assert at("2026-03-31T02:30") == "still to come, in 12 hours and 30 minutes"
    assert at("2026-03-20T02:30") == "not an occurrence: the schedule was made at 2026-03-27 13:00"
    answer = wakeful("why", "Report", "eu", "nightly", "--at", "2026-03-31T02:30")
    assert "Report/eu nightly, 2026-03-31 02:30 in Europe/Berlin" in answer.out
    assert "does not exist" in wakeful("why", "Report", "eu", "nightly", "--at", "2026-03-29T02:30").words
    wrong = wakeful("why", "Report", "eu", "nightly", "--at", "soon")
    assert (wrong.code, "[time.text]" in wrong.err) == (2, True)


def test_why_one_occurrence_by_the_time_that_is_shown(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await world.advance("250ms")
        await call("add", "every 10s", "tick", "ticking")
        await world.advance("45s")

    wakeful.past(live, start="2026-05-01T12:00:00+00:00")
    shown = wakeful("why", "Report", "eu", "ticking", "--json").json
    at = shown["verdicts"][0]["nominal_at"]
    assert not at.endswith(".000Z")
    for time, verdict in ((at[:19] + "Z", ["run"]), (at, ["run"]), (shown["next"][0][:19] + "Z", [])):
        [one] = wakeful("why", "Report", "eu", "ticking", "--at", time, "--json").json["occurrences"]
        assert [row["verdict"] for row in one["verdicts"]] == verdict
        assert verdict or one["fate"].startswith("still to come")
    [none] = wakeful("why", "Report", "eu", "ticking", "--at", at[:19] + ".001Z", "--json").json["occurrences"]
    assert none["fate"].startswith("not an occurrence")


def test_why_of_an_outage_says_which_policy_skipped(wakeful: Stage) -> None:
    wakeful.past(outage, start="2026-05-01T12:00:00+00:00")
    assert verdicts(wakeful("why", "Report", "eu", "nightly", "--json")) == [
        ("run", "13 hours and 30 minutes late; it answers for 3 missed, the first of 2026-05-02 02:30"),
        ("too_late", "1 day and 13 hours late, more than catch_up_window=1 day"),
        ("too_late", "2 days and 13 hours late, more than catch_up_window=1 day"),
    ]


def test_why_of_a_long_outage_is_told_in_stretches(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await call("add", "* * * * *", "tick", "minutely", {"catch_up": "coalesce", "catch_up_window": "10d"})
        await world.crash()
        await world.restart(after=timedelta(hours=5))
        await world.settle()

    wakeful.past(live, start="2026-05-01T12:00:30+00:00")
    found = wakeful("why", "Report", "eu", "minutely", "-n", "500", "--json").json["verdicts"]
    assert found[0]["why"] == "30 seconds late; it answers for 299 missed, the first of 14:01"
    assert (found[0]["verdict"], found[1]["verdict"], found[1]["why"]) == (
        "run",
        "coalesced",
        "the run of 19:00 answered for it",
    )
    [stretch] = [row for row in found if row["covers"] > 1]
    assert (stretch["covers"], stretch["first_at"]) == (199, "2026-05-01T12:01:00.000Z")
    assert stretch["why"] == "each of 199: the run of 19:00 answered for it"
    assert "2026-05-01 14:01 … 2026-05-01 17:19 (199)" in wakeful("why", "Report", "eu", "minutely", "-n", "500").out
    one = wakeful("why", "Report", "eu", "minutely", "--at", "2026-05-01T15:00", "--json").json["occurrences"][0]
    assert [row["verdict"] for row in one["verdicts"]] == ["coalesced"]


def test_why_of_overlap_and_pause(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await call("add", "* * * * *", "tick", "ticking")
        await call("schedules.pause", "ticking", note="disk is full")
        await call("add", "* * * * *", "slow", "slow")
        await world.advance(minutes=4)

    wakeful.past(live, start="2026-05-01T12:00:30+00:00")
    slow = verdicts(wakeful("why", "Report", "eu", "slow", "--json"))
    assert ("overlap", "the run of 14:01 was still at it") in slow
    ticking = wakeful("why", "Report", "eu", "ticking", "--json").json
    assert (ticking["state"], ticking["note"], ticking["next"]) == ("paused", "disk is full", [])
    assert ticking["paused_since"] is not None
    assert {row["verdict"] for row in ticking["verdicts"]} == {"paused"}
    assert ticking["verdicts"][0]["why"].endswith(": 'disk is full'")
    text = wakeful("why", "Report", "eu", "ticking").words
    assert "paused since 2026-05-01 14:" in text
    assert "until it is resumed: 'disk is full'" in text


def test_why_of_failures_names_the_attempt_and_the_remedy(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await call("add", "0 * * * *", "broken", "broken")
        await world.advance(hours=1)

    wakeful.past(live, start="2026-05-01T12:30:00+00:00")
    assert verdicts(wakeful("why", "Report", "eu", "broken", "--json")) == [
        ("failed", "attempt 2 of 2: ValueError: it is broken; given up and parked, wakeful redrive 1 runs it again"),
        ("failed", "attempt 1 of 2: ValueError: it is broken; tried again"),
    ]


def test_why_shows_versions_and_what_is_gone(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await call("add", "0 * * * *", "tick", "often")
        await call("add", "0 * * * *", "tick", "gone")
        await world.advance(hours=1)
        await call("again", "often", "30 * * * *")
        await call("cancel", "gone")

    wakeful.past(live, start="2026-05-01T12:30:00+00:00")
    found = wakeful("why", "Report", "eu", "often", "--json").json
    assert [(version["number"], version["spec"], version["until"] is None) for version in found["versions"]] == [
        (1, "cron 0 * * * * in Europe/Berlin", False),
        (2, "cron 30 * * * * in Europe/Berlin", True),
    ]
    assert "versions" in wakeful("why", "Report", "eu", "often").out
    gone = wakeful("why", "Report", "eu", "gone", "--json").json
    assert (gone["state"], [row["verdict"] for row in gone["verdicts"]]) == ("gone", ["run"])
    assert "gone: it was cancelled" in wakeful("why", "Report", "eu", "gone").out


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("why", "Report", "eu", "nope"), 2, "it has nightly, weekly [schedule.unknown]"),
        (("why", "Report", "us", "nightly"), 1, "wakeful ls Report"),
        (("why", "Report", "eu"), 2, "[usage]"),
        (("schedules", "Report", "us"), 1, "[object.unknown]"),
        (("schedules", "Report", "eu", "--state", "odd"), 2, "[usage]"),
    ],
)
def test_what_is_not_there(wakeful: Stage, args: tuple[str, ...], code: int, word: str) -> None:
    wakeful.past(spring, start="2026-03-27T12:00:00+00:00")
    answer = wakeful(*args)
    assert (answer.code, answer.out) == (code, "")
    assert word in answer.err
    assert answer.err.count("\n") == 1


def test_schedules_are_listed_with_state_next_and_sums(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await spring(world, call)
        await call("schedules.pause", "weekly")

    wakeful.past(live, start="2026-03-27T12:00:00+00:00")
    nightly, weekly = wakeful("schedules", "Report", "eu", "--json").json
    assert (nightly["schedule"], nightly["state"], nightly["last"]["verdict"]) == ("nightly", "active", "run")
    assert (nightly["next_at"], nightly["counters"]["runs"]) == ("2026-03-31T00:30:00.000Z", 2)
    assert (weekly["schedule"], weekly["state"], weekly["counters"]["runs"]) == ("weekly", "paused", 1)
    text = wakeful("schedules", "Report", "eu").out
    assert "cron 30 2 * * * in Europe/B…" in text
    assert "in 12 h" in text
    assert [row["schedule"] for row in wakeful("schedules", "Report", "eu", "--state", "paused", "--json").json] == [
        "weekly"
    ]
    assert len(wakeful("schedules", "Report", "eu", "--tag", "office", "--json").json) == 2
    assert "no schedules match" in wakeful("schedules", "Report", "eu", "--tag", "none").out
    assert "the first 1 of 2 schedules" in wakeful("schedules", "Report", "eu", "-n", "1").out


def test_ended_schedules_of_many_objects_are_looked_for_when_asked(
    wakeful: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million objects without a schedule it took minutes, with nothing on the screen."""

    async def live(world: Any, call: Any) -> None:
        await world.node.send(ObjectId("Report", "a"), "heal", (), {})
        await call("add", "at 2026-03-28T00:00:00Z", "tick", "once")
        await world.advance(days=3)

    wakeful.past(live, start="2026-03-27T12:00:00+00:00")
    note = "those without a next time were looked for in the first 1 objects, --all looks on"
    assert "once" in {row["schedule"] for row in wakeful("schedules", "--json").json}
    assert note not in wakeful("schedules").words
    monkeypatch.setattr("wakeful.views.schedules.OBJECTS_MAX", 1)
    monkeypatch.setattr("wakeful.views.schedules.READS_MAX", 1)
    some = wakeful("schedules", "--json")
    assert ({row["schedule"] for row in some.json}, note in some.err) == ({"nightly", "weekly", "cleanup"}, True)
    assert note in wakeful("schedules").words
    assert f"no schedules match; {note}" in wakeful("schedules", "--tag", "none").words
    for asked in (("--all",), ("--state", "done")):
        answer = wakeful("schedules", *asked)
        assert ("once" in answer.out, note in answer.words) == (True, False)


def test_show_lists_the_schedules_too(wakeful: Stage) -> None:
    wakeful.past(spring, start="2026-03-27T12:00:00+00:00")
    found = wakeful("show", "Report", "eu", "--json").json
    assert [(row["schedule"], row["state"]) for row in found["schedules"]] == [
        ("nightly", "active"),
        ("weekly", "active"),
    ]
    assert found["ledger"][0]["schedule"] in ("nightly", "weekly")
    text = wakeful("show", "Report", "eu").words
    assert "schedules schedule spec state next last" in text
    assert "schedule nightly run 1" in text


def test_due_and_parked_name_schedules(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await call("add", "0 * * * *", "broken", "broken")
        await call("schedules.pause", "weekly")
        await world.advance(hours=1)

    wakeful.past(live, start="2026-05-01T12:30:00+00:00")
    timers = {row["timer"]: row for row in wakeful("due", "--json").json}
    assert (timers["schedule:broken"]["schedule"], timers["schedule:broken"]["kind"]) == ("broken", "schedule")
    assert (timers["schedule:weekly"]["held_by"], timers["schedule:nightly"]["held_by"]) == ("paused", None)
    text = wakeful("due").words
    assert "schedule weekly paused" in text
    assert "wakeful.Function/cleanup schedule cleanup" in text
    [parked] = wakeful("parked", "--json").json
    assert (parked["schedule"], parked["nominal_at"]) == ("broken", "2026-05-01T13:00:00.000Z")
    assert "Report/eu run of broken 2026-05-01 13:00" in wakeful("parked").words
    assert "run of broken" in wakeful("parked", "--full").out


def test_ls_hides_what_wakeful_keeps_itself(wakeful: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        await spring(world, call)

    wakeful.past(live, start="2026-03-27T12:00:00+00:00")
    assert [row["class"] for row in wakeful("ls", "--json").json] == ["Report"]
    assert [row["class"] for row in wakeful("ls", "--all", "--json").json] == ["Report", "wakeful.Function"]
    assert [row["key"] for row in wakeful("ls", "wakeful.Function", "--json").json] == ["cleanup"]
    assert "schedule nightly" in wakeful("ls").out
    assert "more" not in wakeful("ls", "-n", "1").out


def test_ls_finds_classes_after_the_reserved_ones(wakeful: Stage) -> None:
    text = (wakeful.path / "app.py").read_text()
    more = "\n@app.object(name='zebra')\nclass Zebra:\n    async def go(self):\n        pass\n"
    more += "\n@app.object(name='wakefulness')\nclass Odd(Report):\n    pass\n"
    (wakeful.path / "app.py").write_text(text + more)

    async def live(world: Any, call: Any) -> None:
        from wakeful.values.ids import ObjectId

        await call("heal")
        await world.node.send(ObjectId("wakefulness", "a"), "heal", (), {})
        await world.node.send(ObjectId("wakefulness", "b"), "heal", (), {})

    wakeful.past(live, start="2026-03-27T12:00:00+00:00")
    assert [row["class"] for row in wakeful("ls", "--json").json] == ["Report", "wakefulness", "wakefulness"]
    answer = wakeful("ls", "-n", "2")
    assert "the first 2 of 3 objects; -n shows more" in answer.out


class Accepting:
    """A store that takes every commit."""

    async def commit(self, node: str, commits: list[Commit]) -> list[None]:
        return [None] * len(commits)


def test_dev_tells_what_did_not_run_and_does_not_call_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    id = ObjectId("Report", "eu")

    def entry(verdict: Any, **more: Any) -> Entry:
        times = {"nominal_at": 1_000, "fired_at": 9_000, "finished_at": 9_000, "attempt": 0}
        return Entry(id=id, name="schedule:nightly", run_id="r", verdict=verdict, node="n", **(times | more))

    again = Timer(id, "schedule:nightly", 12_000, 1_000, 7, attempt=1)
    following = Timer(id, "schedule:nightly", 86_400_000, 86_400_000, 8)
    entries = [entry("overlap", covers=3), entry("run", missed=4), entry("failed", error="ValueError: no")]
    for sets in ([again], [following]):
        commit = Commit(id=id, shard=1, epoch=1, now=10_000, sets=sets, entries=entries)
        store: Any = TellingStore(Accepting(), Say(as_json=True))  # type: ignore[arg-type]
        asyncio.run(store.commit("n", [commit]))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["text"]) for line in lines] == [
        ("overlap", "Report/eu schedule nightly (8.0 s late, 3 of them)"),
        ("ran", "Report/eu schedule nightly (8.0 s late, for 4 missed)"),
        ("failed", "Report/eu schedule nightly (attempt 1, again in 2.0 s): ValueError: no"),
        ("overlap", "Report/eu schedule nightly (8.0 s late, 3 of them)"),
        ("ran", "Report/eu schedule nightly (8.0 s late, for 4 missed)"),
        ("failed", "Report/eu schedule nightly (attempt 1): ValueError: no"),
    ]


def test_the_last_run_of_a_monthly_schedule_is_shown_when_the_ledger_keeps_a_week(wakeful: Stage) -> None:
    async def a_season(world: Any, call: Any) -> None:
        await call("add", "0 9 1 * *", "tick", "invoice")
        await world.advance(days=20)

    wakeful.past(a_season, start="2026-03-27T12:00:00+00:00")
    assert verdicts(wakeful("why", "Report", "eu", "invoice", "--json")) == [("run", "on time")]
    answer = wakeful("why", "Report", "eu", "invoice")
    assert "none" not in answer.words
    rows = {row["schedule"]: row["last"] for row in wakeful("schedules", "--json").json}
    at = "2026-04-01T07:00:00.000Z"
    assert rows["invoice"] == {"nominal_at": at, "fired_at": at, "verdict": "run", "is_backfill": False}


def test_of_verdicts_that_are_kept_no_more_it_is_not_said_that_none_has_come_yet(wakeful: Stage) -> None:
    async def a_day(world: Any, call: Any) -> None:
        await call("heal")
        await world.advance(days=1)

    wakeful.past(a_day, start="2026-03-27T12:00:00+00:00")
    with sqlite3.connect(wakeful.path / "wakeful.db") as db:
        db.execute("DELETE FROM ledger")
    db.close()
    assert "none kept" in wakeful("why", "Report", "eu", "nightly").words
    assert "none yet" in wakeful("why", "Report", "eu", "weekly").words
