"""Operating schedules from the command line: through the node that runs the store, and what happens without one."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from tests.yardstick import PATIENCE_S
from wakeful.cli.session import actor

wakeful = pytest.fixture(make_stage)

START = "2024-05-01T12:30:00+00:00"


async def seeded(world: Any, call: Any) -> None:
    """The declared schedules, and one that failed for good."""
    await call("add", "0 15 1 5 *", "broken", "broken")
    await world.advance(hours=1)
    await call("heal")


def soon(look: Callable[[], Any], wanted: Any) -> None:
    """It becomes so."""
    until = time.monotonic() + PATIENCE_S
    while (found := look()) != wanted and time.monotonic() < until:
        time.sleep(0.05)
    assert found == wanted


@pytest.fixture
def stage(wakeful: Stage) -> Stage:
    wakeful.past(seeded, start=START)
    wakeful.monkeypatch.undo()  # real time from here on
    wakeful.monkeypatch.delenv("WAKEFUL_STORE", raising=False)
    wakeful.monkeypatch.chdir(wakeful.path)
    wakeful.monkeypatch.setenv("COLUMNS", "100")
    return wakeful


def now() -> str:
    return datetime.now(UTC).isoformat()


def state(stage: Stage, name: str) -> dict[str, Any]:
    return next(row for row in stage("schedules", "Report", "eu", "--json").json if row["schedule"] == name)


def test_pause_and_resume_through_the_running_node(stage: Stage) -> None:
    with stage.running():
        answer = stage("pause", "Report", "eu", "nightly", "--note", "disk is full", "--until", "2100-01-01")
        assert (answer.code, answer.out) == (0, "Report/eu nightly paused, until 2100-01-01 00:00 (Europe/Berlin)\n")
        found = state(stage, "nightly")
        assert (found["state"], found["note"], found["paused_until"]) == (
            "paused",
            "disk is full",
            "2099-12-31T23:00:00.000Z",
        )
        assert stage("resume", "Report", "eu", "nightly").out == "Report/eu nightly resumed\n"
        assert state(stage, "nightly")["state"] == "active"
        assert stage("resume", "Report", "eu", "nightly", "--json").json == {"resumed": 0}
        assert "was not paused" in stage("resume", "Report", "eu", "nightly").out
        assert stage("pause", "Report", "eu", "nightly", "--until", "2h", "--json").json["paused"] == 1
        assert state(stage, "nightly")["paused_until"] is not None


def test_a_call_that_hangs_is_seen_and_cancelled(stage: Stage) -> None:
    assert stage("calls", "--json").json == {"calls": [], "mute": []}
    assert "no process runs this store" in stage("calls").out
    with stage.running():
        assert "nothing is under way" in stage("calls").out
        command = [sys.executable, "-m", "wakeful.cli", "call", "Report", "eu", "slow", "--json"]
        with subprocess.Popen(
            command, cwd=stage.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as hanging:
            soon(lambda: [row["method"] for row in stage("calls", "--json").json["calls"]], ["slow"])
            [row] = stage("calls", "Report", "eu", "--json").json["calls"]
            assert (row["state"], row["kind"], row["waits_for"]) == (
                "running",
                "call",
                "its own code, or what that awaits outside",
            )
            assert stage("calls", "Other", "--json").json["calls"] == []
            assert "Report/eu@" in stage("calls").words
            done = stage("calls", "cancel", row["id"], "--json")
            assert (done.code, done.json[0]["cancelled"], done.json[0]["method"]) == (0, True, "slow")
            said, _ = hanging.communicate(timeout=PATIENCE_S)
        assert json.loads(said.splitlines()[0])["error"]["code"] == "call.cancelled"
        again = stage("calls", "cancel", row["id"])
        assert (again.code, "the call had ended" in again.words) == (1, True)
        assert stage("calls", "cancel", "nonsense").code == 2
        assert [one["act"] for one in stage("audit", "--json").json["rows"] if one["outcome"] == "done"] == [
            "call.cancel"
        ]


def test_many_at_once_by_tag(stage: Stage) -> None:
    with stage.running():
        assert "tag office: 2 schedules paused" in stage("pause", "Report", "eu", "--tag", "office").out
        assert len(stage("schedules", "Report", "eu", "--state", "paused", "--json").json) == 2
        assert stage("resume", "Report", "eu", "--tag", "office", "--json").json == {"resumed": 2}
        assert len(stage("fire", "Report", "eu", "--tag", "office", "--json").json["runs"]) == 2


def test_fire_runs_it_once_beside_its_times(stage: Stage) -> None:
    with stage.running():
        soon(lambda: state(stage, "nightly")["next_at"] > now(), True)  # it has caught up
        before = state(stage, "nightly")["next_at"]
        [run_id] = stage("fire", "Report", "eu", "nightly", "--json").json["runs"]

        def ran() -> list[str]:
            rows = stage("why", "Report", "eu", "nightly", "--json").json["verdicts"]
            return [row["why"] for row in rows if row["run_id"] == run_id]

        soon(ran, ["triggered by hand, or asked for with Next"])
        assert state(stage, "nightly")["next_at"] == before
        assert "wakeful why Report eu nightly" in stage("fire", "Report", "eu", "nightly").out


def test_cancel_ends_a_schedule_for_good_and_keeps_its_past(stage: Stage) -> None:
    with stage.running():
        soon(lambda: state(stage, "nightly")["next_at"] > now(), True)  # it has caught up
        answer = stage("cancel", "Report", "eu", "nightly")
        said = "Report/eu nightly cancelled, which runs no more\n"
        assert (answer.code, answer.out.partition("what the program declares")[0]) == (0, said)
        again = stage("cancel", "Report", "eu", "nightly")
        assert (again.code, again.out) == (2, "")
        assert "Report/eu has no schedule 'nightly'; it has broken, weekly [schedule.unknown]" in again.err
        assert stage("call", "Report", "eu", "schedules.history", "nightly").json != []
        assert stage("cancel", "Report", "eu", "--tag", "office", "--json").json == {"cancelled": 1}
        assert acts(stage)[0] == ("schedule.cancel", "Report/eu nightly", "done")
    with stage.running():  # declared as before, so a restart does not bring it back
        assert [row["schedule"] for row in stage("schedules", "Report", "eu", "--json").json] == ["broken"]


def test_cancel_ends_a_function_on_the_clock(stage: Stage) -> None:
    with stage.running():
        assert stage("cancel", "wakeful.Function", "cleanup", "cleanup", "--json").json == {"cancelled": 1}
        assert stage("schedules", "wakeful.Function", "cleanup", "--json").json == []


def test_backfill_lists_first_and_then_runs(stage: Stage) -> None:
    range = ("Report", "eu", "nightly", "--from", "2024-03-30", "--to", "2024-04-02")
    listed = stage("backfill", *range, "--dry-run", "--json").json  # no node needed, nothing woken
    assert [(row["local"], row["verdict"], row["why"]) for row in listed] == [
        ("2024-03-30T02:30:00+01:00", None, "before the schedule was made"),
        ("2024-04-01T02:30:00+02:00", None, "before the schedule was made"),
    ]
    assert "2 occurrences would run; without --dry-run they do" in stage("backfill", *range, "--dry-run").out
    with stage.running():
        answer = stage("backfill", *range, "--yes")
        assert answer.out == (
            "Report/eu nightly: 2 occurrences from 2024-03-30 02:30 to 2024-04-01 02:30 in Europe/Berlin run now, "
            "oldest first\n"
        )
        soon(
            lambda: [(row["verdict"], row["why"]) for row in stage("backfill", *range, "--dry-run", "--json").json],
            [("run", "backfilled"), ("run", "backfilled")],
        )
        empty = ("Report", "eu", "nightly", "--from", "2024-03-30T03:00", "--to", "2024-03-31")
        assert "has no occurrence in that range" in stage("backfill", *empty).out
        assert stage("backfill", *empty, "--json").json == {"runs": 0, "was_under_way": False}
        assert "has no occurrence in that range" in stage("backfill", *empty, "--dry-run").out


def test_backfill_leaves_out_what_is_still_to_come(stage: Stage) -> None:
    today = datetime.now(UTC)
    days = [f"{today + timedelta(days=more):%Y-%m-%d}" for more in (-3, -1, 3, 5)]
    range = ("Report", "eu", "nightly", "--from", days[0], "--to", days[2])
    listed = stage("backfill", *range, "--dry-run", "--json").json
    assert 2 <= len(listed) <= 4
    assert max(row["nominal_at"] for row in listed) <= now()
    words = stage("backfill", *range, "--dry-run").words
    assert "without --dry-run they do; what is still to come will run by itself" in words
    ahead = stage("backfill", "Report", "eu", "nightly", "--from", days[2], "--to", days[3], "--dry-run").words
    assert "has no occurrence in that range until now; what is still to come will run by itself" in ahead
    with stage.running():
        answer = stage("backfill", *range, "--yes").out
        assert f"{len(listed)} occurrences from" in answer


def test_a_program_that_runs_for_a_backfill_runs_all_of_it(stage: Stage) -> None:
    range = ("Report", "eu", "nightly", "--from", "2024-03-01", "--to", "2024-03-21")
    answer = stage("backfill", *range, "--yes", "--app", "app.py")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("20 occurrences from 2024-03-01 02:30 to 2024-03-20 02:30 in Europe/Berlin are over\n")
    rows = stage("backfill", *range, "--dry-run", "--json").json
    assert [row["why"] for row in rows] == ["backfilled"] * 20
    again = stage("backfill", *range, "--yes", "--app", "app.py", "--json")
    assert (again.json, again.err) == ({"runs": 20, "was_under_way": False}, "")


def test_a_backfill_is_watched_on_a_terminal(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.cli.output.is_watched", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    range = ("Report", "eu", "nightly", "--from", "2024-03-01", "--to", "2024-03-11", "--yes")
    with stage.running():
        answer = stage("backfill", *range)
        assert "are over" in answer.out
        assert "10/10" in answer.err
        assert stage("backfill", *range, "--json").err == ""


def test_backfill_asks_on_a_terminal(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def confirm(text: str) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    range = ("Report", "eu", "nightly", "--from", "2024-03-30", "--to", "2024-04-02")
    answer = stage("backfill", *range)
    assert (answer.code, asked) == (1, ["run them?"])
    assert "nothing was done [backfill.declined]" in answer.err
    assert stage("backfill", *range, "--yes").code == 3  # not asked; but no process runs the store
    assert len(asked) == 1


def test_a_parked_occurrence_is_redriven(stage: Stage) -> None:
    assert [row["schedule"] for row in stage("parked", "--json").json] == ["broken"]
    with stage.running():
        assert stage("redrive", "1").out == "1  Report/eu run of broken: due now\n"

        def rows() -> list[tuple[str, str]]:
            at = ("--at", "2024-05-01T15:00", "--json")
            [one] = stage("why", "Report", "eu", "broken", *at).json["occurrences"]
            return [(row["verdict"], row["why"].partition(":")[0]) for row in one["verdicts"]]

        soon(lambda: rows()[0][0], "run")
        assert [verdict for verdict, _ in rows()] == ["run", "failed", "failed"]
        assert stage("parked", "--json").json == []


def test_parked_occurrences_are_dropped_by_number_or_by_what_they_say(stage: Stage, monkeypatch: Any) -> None:
    assert stage("parked", "drop").code == 2
    assert "go with --all" in stage("parked", "drop", "1", "--error", "x").err
    assert [row["number"] for row in stage("parked", "drop", "1", "--dry-run", "--json").json] == [1]
    assert stage("parked", "drop", "--all", "--error", "no such text", "--dry-run").out.strip() == "nothing is parked"
    assert stage("parked", "drop", "--all", "--older-than", "1000w", "--yes", "--json").json == []
    assert stage("parked", "drop", "1").code == 3  # no process runs the store
    with stage.running():
        refused = stage("parked", "drop", "--all")
        assert (refused.code, "say --yes" in refused.err) == (2, True)
        asked: list[str] = []
        with monkeypatch.context() as at_terminal:
            at_terminal.setattr("click.confirm", lambda text: asked.append(text))
            at_terminal.setattr("sys.stdin.isatty", lambda: True, raising=False)
            at_terminal.setattr("sys.stdout.isatty", lambda: True, raising=False)
            assert "nothing was done [confirm.declined]" in stage("parked", "drop", "--all").err
        assert asked == ["drop 1 parked timer for good?"]
        assert len(stage("parked", "--json").json) == 1
        filters = ("--prefix", "e", "--error", "BROKEN", "--older-than", "1s")
        assert [row["number"] for row in stage("parked", "Report", *filters, "--json").json] == [1]
        assert stage("parked", "--prefix", "nobody").out == "nothing that is parked fits\n"
        assert stage("parked", "--older-than", "1000w", "--json").json == []
        all_of_it = ("--all", "--class", "Report", "--prefix", "e", "--error", "BROKEN", "--older-than", "1s", "--yes")
        assert stage("parked", "drop", *all_of_it).out == "1  Report/eu run of broken: dropped: it never runs\n"
        assert stage("parked", "--json").json == []
        assert stage("parked", "drop", "1").code == 1
        assert [(act, outcome) for act, _, outcome in acts(stage)] == [("drop", "done"), ("drop", "nothing")]


def test_a_parked_occurrence_is_redriven_without_a_process(stage: Stage) -> None:
    assert "no process runs this store; they fire when one starts" in stage("redrive", "--all").out
    [timer] = [row for row in stage("due", "--json").json if row["kind"] == "redrive"]
    assert (timer["schedule"], timer["nominal_at"]) == ("broken", "2024-05-01T13:00:00.000Z")
    assert "run of broken" in stage("due").out
    with stage.running():
        soon(lambda: state(stage, "broken")["counters"]["runs"] > 0, True)


def test_operations_are_calls_and_only_those_there_are(stage: Stage) -> None:
    with stage.running():
        assert len(stage("call", "Report", "eu", "schedules.next", "nightly", "3").json) == 3
        answer = stage("call", "Report", "eu", "schedules.nope")
        assert (answer.code, "[method.unknown]" in answer.err) == (2, True)
        assert stage("call", "Report", "eu", "schedules._records").code == 2


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("pause", "Report", "eu", "nope"), 2, "it has broken, nightly, weekly [schedule.unknown]"),
        (("pause", "Report", "us", "nightly"), 1, "wakeful ls Report"),
        (("pause", "Report", "eu"), 2, "say which"),
        (("pause", "Report", "eu", "nightly", "--tag", "office"), 2, "say which"),
        (("pause", "Report", "eu", "--tag", "none"), 2, "has the tag 'none'; there are office [schedule.tag]"),
        (("pause", "Report", "eu", "nightly", "--until", "2020-01-01"), 2, "[schedule.until]"),
        (("pause", "Report", "eu", "nightly", "--until", "later"), 2, "[time.text]"),
        (("pause", "Report", "eu", "nightly", "--until", "99999999h"), 2, "is past the year 9999 in UTC [time.late]"),
        (("pause", "Report", "eu", "nightly", "--until", "99999999999999h"), 2, "[time.late]"),
        (("pause", "Report", "eu", "nightly", "--until", "0001-01-01"), 2, "is before the year 1 in UTC [time.early]"),
        (("fire", "Report", "eu", "nope"), 2, "[schedule.unknown]"),
        (("resume", "No pe", "eu", "x"), 2, "[name.class]"),
        (("cancel", "Report", "eu", "nigthly"), 2, "did you mean 'nightly'? [schedule.unknown]"),
        (("cancel", "Report", "us", "nightly"), 1, "wakeful ls Report"),
        (("cancel", "Report", "eu"), 2, "say which"),
        (("cancel", "Report", "eu", "--tag", "none"), 2, "[schedule.tag]"),
        (("backfill", "Report", "eu", "nope", "--from", "2026-01-01", "--to", "2026-01-02"), 2, "[schedule.unknown]"),
        (("backfill", "Report", "eu", "nightly", "--from", "2026-01-02", "--to", "2026-01-01"), 2, "is not after"),
        (
            ("backfill", "wakeful.Function", "cleanup", "cleanup", "--from", "2020-01-01", "--to", "2024-01-01"),
            2,
            "would be 35064",
        ),
        (("backfill", "Report", "eu", "nightly", "--from", "2026-01-02"), 2, "[usage]"),
    ],
)
def test_what_cannot_be_done(stage: Stage, args: tuple[str, ...], code: int, word: str) -> None:
    with stage.running():
        answer = stage(*args)
    assert (answer.code, answer.out) == (code, "")
    assert word in answer.err
    assert answer.err.count("\n") == 1
    assert [row["key"] for row in stage("ls", "Report", "--json").json] == ["eu"]  # a slip of the pen made no object


@pytest.mark.parametrize(
    "args",
    [
        ("pause", "Report", "eu", "nightly"),
        ("resume", "Report", "eu", "nightly"),
        ("fire", "Report", "eu", "nightly"),
        ("cancel", "Report", "eu", "nightly"),
        ("backfill", "Report", "eu", "nightly", "--from", "2024-03-30", "--to", "2024-04-02"),
    ],
)
def test_without_a_process_the_remedy_is_said(stage: Stage, args: tuple[str, ...]) -> None:
    answer = stage(*args)
    assert answer.code == 3
    assert "no process runs sqlite:wakeful.db; start it (wakeful run …), or give --app" in answer.err
    assert stage(*args, "--json").json["error"]["code"] == "owner.none"
    assert stage(*args, "--app", "app.py").code == 0


# who did it


def acts(stage: Stage) -> list[tuple[str, str, str]]:
    """What the audit rows say, oldest first."""
    rows = stage("audit", "--json").json["rows"]
    assert {row["actor"] for row in rows} <= {actor()}
    return [(row["act"], row["target"], row["outcome"]) for row in reversed(rows)]


def test_every_act_through_a_node_leaves_an_audit_row_with_who_did_it(stage: Stage) -> None:
    assert actor().startswith("cli:")
    assert "@" in actor()
    with stage.running():
        stage("pause", "Report", "eu", "nightly", "--note", "dust")
        stage("resume", "Report", "eu", "nightly")
        stage("fire", "Report", "eu", "weekly")
        assert stage("pause", "Report", "eu", "nope").code == 2
        stage("backfill", "Report", "eu", "nightly", "--from", "2024-05-02", "--to", "2024-05-03", "--yes")
        stage("backfill", "Report", "eu", "nightly", "--from", "2024-05-02", "--to", "2024-05-03", "--dry-run")
        [parked] = stage("parked", "--json").json
        assert stage("redrive", "--all").code == 0
        assert stage("jobs", "cancel", "Report/eu/tick%3Aabc").code == 1
        stage("ls")
        stage("show", "Report", "eu")
    assert acts(stage) == [
        ("schedule.pause", "Report/eu nightly", "done"),
        ("schedule.resume", "Report/eu nightly", "done"),
        ("schedule.trigger", "Report/eu weekly", "done"),
        ("schedule.pause", "Report/eu nope", "failed"),
        ("schedule.backfill", "Report/eu nightly", "done"),
        ("redrive", "all parked", "done"),
        ("job.cancel", "Report/eu/tick%3Aabc", "nothing"),
    ]
    assert parked["number"] == 1


def test_a_redrive_without_a_process_leaves_its_row_too(stage: Stage) -> None:
    assert stage("redrive", "1").code == 0
    assert acts(stage) == [("redrive", "parked 1", "done")]
    assert stage("redrive", "--all", "--json").json == []
    assert len(acts(stage)) == 1, "nothing was done, so nothing is to be said"


def test_a_program_that_is_run_for_a_command_writes_the_row(stage: Stage) -> None:
    assert stage("pause", "Report", "eu", "nightly", "--app", "app.py").code == 0
    assert acts(stage) == [("schedule.pause", "Report/eu nightly", "done")]


def test_an_object_is_forgotten_and_the_log_does_not_say_which(stage: Stage) -> None:
    assert (stage("forget").code, stage("forget", "Report").code, stage("forget", "wakeful.Audit", "all").code) == (
        2,
        2,
        2,
    )
    dry = stage("forget", "Report", "eu", "--dry-run", "--json").json
    assert (dry["dry_run"], dry["forgotten"], dry["held"]["objects"], dry["held"]["parked"]) == (True, 0, 1, 1)
    assert "ledger rows" in stage("forget", "Report", "eu", "--dry-run").out
    assert stage("forget", "Report", "eu").code == 3  # no process runs the store
    assert "nothing like that" in stage("forget", "Report", "nobody").out
    with stage.running():
        assert "say --yes" in stage("forget", "--prefix", "e").err
        stage("pause", "Report", "eu", "nightly", "--note", "secret")
        assert stage("forget", "Report", "eu").out.startswith("forgot 1 object\n")
        assert stage("forget", "--prefix", "e", "--yes", "--json").json["forgotten"] == 0
        assert "eu" not in [row["key"] for row in stage("ls", "--json").json]
        assert stage("export", "Report", "eu").code == 1
        found = stage("audit", "--json")
        assert ("forget" in found.out, "Report/eu" in found.out, "secret" in found.out) == (True, False, False)


def test_a_second_run_takes_the_name_out_of_the_log_when_the_first_was_cut_off_before(
    stage: Stage, monkeypatch: Any
) -> None:
    async def cut(*_: Any) -> None:
        raise ConnectionError("cut off")

    with stage.running():
        stage("pause", "Report", "eu", "nightly", "--note", "secret")
        with monkeypatch.context() as dying:
            dying.setattr("wakeful.operations.forgets._redact", cut)
            assert stage("forget", "Report", "eu").code != 0
        assert "eu" not in [row["key"] for row in stage("ls", "--json").json]  # the object itself is gone
        assert "Report/eu" in stage("audit", "--json").out
        assert "nothing like that" in stage("forget", "Report", "eu").out
        assert "Report/eu" not in stage("audit", "--json").out
