"""What a person meets first: a new project, help by theme, names that complete, and what was meant by a wrong one."""

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.unit.cli_stage import Stage, make_stage
from wakeful.cli import _COMMANDS, _THEMES, COMPLETE, known_names
from wakeful.cli.init import project
from wakeful.cli.known_names import meant
from wakeful.values.ids import ObjectId

wakeful = pytest.fixture(make_stage)
START = "2026-03-27T12:00:00+00:00"
KEYS = ("eu", "us/1:a", "us/1:b", "with space", "日本")


def seeded(stage: Stage) -> None:
    async def live(world: Any, call: Any) -> None:
        for key in KEYS:
            await world.node.send(ObjectId("Report", key), "heal", (), {})
        await world.advance(minutes=1)

    stage.past(live, start=START)


# help and guesses


def test_help_is_grouped_by_theme(wakeful: Stage) -> None:
    text = wakeful("--help").out
    places = [text.index(f"\n{theme}:") for theme in _THEMES]
    assert places == sorted(places)
    assert sum(map(len, _THEMES.values())) == len(_COMMANDS)


@pytest.mark.parametrize(
    ("word", "said"),
    [("shwo", "did you mean 'show'?"), ("SCHEDULES", "did you mean 'schedules'"), ("sched", "'schedules'"), ("qq", "")],
)
def test_a_command_that_there_is_not(wakeful: Stage, word: str, said: str) -> None:
    answer = wakeful(word)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert answer.err.startswith(f"error: there is no command '{word}'{', ' if said else ''}")
    assert said in answer.err


def test_a_class_a_key_and_a_schedule_that_there_are_not(wakeful: Stage) -> None:
    seeded(wakeful)
    assert "did you mean 'Report'?" in wakeful("show", "Raport", "eu").err
    assert "there are Report" in wakeful("show", "Xyz", "eu").err
    assert wakeful("ls", "Raport").out == "no objects of Raport, did you mean 'Report'?\n"
    assert wakeful("ls", "Xyz").out == "no objects of Xyz; there are Report\n"
    assert wakeful("jobs", "show", "x").out == "no jobs of show/x; there are Report\n"
    assert "did you mean 'us/1:a' or 'us/1:b'?" in wakeful("show", "Report", "us/1:").err
    assert "wakeful ls Report shows" in wakeful("show", "Report", "zzz").err
    for command in ("why", "schedules"):
        assert wakeful(command, "Report", "nobody", *["x"] * (command == "why")).code == 1
    assert "did you mean 'nightly'?" in wakeful("why", "Report", "eu", "nightli").err
    paused = wakeful("pause", "Report", "eu", "nightli", "--app", "app.py")
    assert "did you mean 'nightly'?" in paused.err
    dry = wakeful("backfill", "Report", "eu", "weakly", "--from", "2026-01-01", "--to", "2026-02-01", "--dry-run")
    assert "did you mean 'weekly'?" in dry.err


@pytest.mark.parametrize(
    ("args", "said", "none"),
    [
        (("schedules", "Raport"), "no schedules of Raport", None),
        (("schedules", "Raport", "--tag", "x"), "no schedules of Raport", "no schedules match"),
        (("jobs", "Raport"), "no jobs of Raport", "no jobs of Report"),
        (("due", "Raport"), "nothing of Raport is waiting", None),
        (("parked", "Raport"), "nothing of Raport is parked", "nothing is parked"),
        (("redrive", "--all", "--class", "Raport"), "nothing of Raport is parked", "nothing is parked"),
    ],
)
def test_a_list_of_a_class_that_there_is_not(
    wakeful: Stage, args: tuple[str, ...], said: str, none: str | None
) -> None:
    seeded(wakeful)
    answer = wakeful(*args)
    assert (answer.code, answer.out) == (0, f"{said}, did you mean 'Report'?\n")
    assert wakeful(*args, "--json").json in ([], {"jobs": [], "next": None})
    there = wakeful(*("Report" if arg == "Raport" else arg for arg in args)).out
    assert there == f"{none}\n" if none else "nightly" in there


def test_a_list_of_a_key_that_there_is_not(wakeful: Stage) -> None:
    seeded(wakeful)
    hint = "did you mean 'us/1:a' or 'us/1:b'?"
    assert wakeful("jobs", "Report", "us/1:").out == f"no jobs of Report/us/1:, {hint}\n"
    assert wakeful("jobs", "Report", "eu").out == "no jobs of Report/eu\n"
    assert wakeful("parked", "Report", "us/1:").out == f"nothing of Report/us/1: is parked, {hint}\n"
    redriven = wakeful("redrive", "--all", "--class", "Report", "--key", "us/1:")
    assert redriven.out == f"nothing of Report/us/1: is parked, {hint}\n"
    assert wakeful("redrive", "--all", "--class", "Report", "--key", "eu").out == "nothing is parked\n"


def test_what_is_meant_is_close_or_begins_so() -> None:
    assert meant("ab", ["abc", "abd", "x"]) == ", did you mean 'abc' or 'abd'?"
    assert meant("a", ["xyz"]) == meant("", ["abc"]) == ""
    assert len(meant("ab", [f"ab{n}" for n in range(99)]).split(" or ")) == 3


# a new project


def test_init_writes_a_project_whose_test_passes_and_overwrites_nothing(wakeful: Stage) -> None:
    made = wakeful("init", "My Café", "--json").json
    assert made["files"] == [".gitignore", "README.md", "app.py", "pyproject.toml", "test_app.py"]
    folder = wakeful.path / "My Café"
    assert 'name = "my-caf"' in (folder / "pyproject.toml").read_text()
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    (folder / "test_app.py").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    again = wakeful("init", "My Café")
    assert (again.code, "[init.exists]" in again.err) == (2, True)
    assert "app.py" in again.err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_init_writes_a_worker_whose_test_passes(wakeful: Stage) -> None:
    made = wakeful("init", "--workers", "to do", "--json").json
    assert made["files"] == [
        *(".gitignore", "README.md", "pyproject.toml", "src/entry.py", "tests/test_entry.py", "wrangler.jsonc")
    ]
    folder = wakeful.path / "to do"
    assert '"name": "to-do"' in (folder / "wrangler.jsonc").read_text()
    assert "wakeful dev --workers ." in wakeful("init", "--workers", "other").out
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    again = wakeful("init", "--workers", "to do")
    assert (again.code, "src/entry.py" in again.err) == (2, True)


def test_init_into_a_folder_that_is_there_and_where_it_can_t(wakeful: Stage) -> None:
    (wakeful.path / "here").mkdir()
    (wakeful.path / "here" / "notes.txt").write_text("mine")
    said = wakeful("init", "here").out
    assert "cd here && wakeful dev app.py" in said
    assert (wakeful.path / "here" / "notes.txt").read_text() == "mine"
    (wakeful.path / "file").write_text("")
    assert wakeful("init", "file/below").code == 1


def test_the_project_s_program_runs_as_its_readme_says(wakeful: Stage) -> None:
    for name, text in project("x").items():
        (wakeful.path / name).write_text(text)
    assert wakeful("call", "Tab", "ada", "order", "tea", "2.5", "--app", "app.py").json == 2.5
    assert wakeful("show", "Tab", "ada", "--json").json["storage"]["total"] == 2.5
    assert {row["schedule"] for row in wakeful("due", "Tab", "--json").json} >= {"close"}
    assert wakeful("why", "Tab", "ada", "close").code == 0


# completion


def completed(stage: Stage, line: str) -> list[str]:
    """What bash is offered for the line, cursor at its end."""
    stage.monkeypatch.setenv(COMPLETE, "bash_complete")
    stage.monkeypatch.setenv("COMP_LINE", line)
    stage.monkeypatch.setenv("COMP_WORDBREAKS", " \t\n\"'><=;|&(:")
    answer = stage()
    stage.monkeypatch.delenv(COMPLETE)
    assert (answer.code, answer.err) == (0, "")
    return [item.partition(",")[2] for item in answer.out.splitlines()]


def test_commands_options_classes_keys_schedules_and_numbers_are_completed(wakeful: Stage) -> None:
    seeded(wakeful)
    assert completed(wakeful, "wakeful sh") == ["show"]
    assert completed(wakeful, "wakeful show --st") == ["--store"]
    assert completed(wakeful, "wakeful show R") == ["Report"]
    assert completed(wakeful, "wakeful show wakeful.F") == ["wakeful.Function"]
    assert completed(wakeful, "wakeful show Report ") == ["eu", "us/1:a", "us/1:b", "'with space'", "'日本'"]
    assert completed(wakeful, "wakeful show Report us/1:") == ["a", "b"]  # bash replaces what is behind the colon
    assert completed(wakeful, "wakeful why Report eu n") == ["nightly"]
    assert completed(wakeful, "wakeful pause Report eu ") == ["nightly", "weekly"]
    assert set(completed(wakeful, "wakeful jobs ")) == {"list", "get", "cancel"}
    assert completed(wakeful, "wakeful jobs Rep") == []
    assert completed(wakeful, "wakeful drain ") == []


def test_completing_makes_nothing_says_nothing_and_does_not_hang(wakeful: Stage) -> None:
    assert completed(wakeful, "wakeful show --store sqlite:nope.db R") == []
    assert completed(wakeful, "wakeful show --store nonsense:// R") == []
    assert completed(wakeful, "wakeful why A b ") == []
    assert completed(wakeful, "") == completed(wakeful, "wakeful ")
    assert sorted(path.name for path in wakeful.path.iterdir()) == ["app.py"]
    wakeful.monkeypatch.setattr(known_names, "PATIENCE_S", 0.05)

    async def frozen(*args: Any) -> list[str]:
        await asyncio.sleep(60)
        return ["never"]

    wakeful.monkeypatch.setattr(known_names, "_look_up", frozen)
    began = time.monotonic()
    assert completed(wakeful, "wakeful show R") == []
    assert time.monotonic() - began < 50, "it waited for what is frozen"


def test_completing_wakes_nobody_and_works_beside_a_process(wakeful: Stage) -> None:
    seeded(wakeful)
    with wakeful.running():
        assert completed(wakeful, "wakeful show Report e") == ["eu"]
        [node] = completed(wakeful, "wakeful drain ")
        assert node == wakeful("nodes", "--json").json["nodes"][0]["node"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(wakeful: Stage, shell: str) -> None:
    script = wakeful("completion", shell).out
    assert COMPLETE in script
    assert wakeful("completion", shell, "--json").json == {"shell": shell, "script": script.removesuffix("\n")}
    wakeful.monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert wakeful("completion").out == script
    wakeful.monkeypatch.setenv("SHELL", "/bin/csh")
    assert wakeful("completion").code == 2


# search, and lists of everything


def test_search_and_schedules_of_all_objects(wakeful: Stage) -> None:
    seeded(wakeful)
    assert [hit["title"] for hit in wakeful("search", "us/1", "--json").json if hit["kind"] == "object"] == [
        "Report/us/1:a",
        "Report/us/1:b",
    ]
    assert "schedule   Report/eu nightly" in wakeful("search", "nightly").out
    nothing = wakeful("search", "xyzzy")
    assert (nothing.code, nothing.out) == (1, "nothing is called like that\n")
    rows = wakeful("schedules", "--json").json
    assert {(row["class"], row["schedule"]) for row in rows} == {
        ("Report", "nightly"),
        ("Report", "weekly"),
        ("wakeful.Function", "cleanup"),
    }
    assert len(rows) == 11
    assert len(wakeful("schedules", "Report", "--contains", "week", "--json").json) == 5
    assert "the first 3; -n shows more" in wakeful("schedules", "-n", "3").out
    assert json.loads(wakeful("schedules", "Report", "eu", "--json").out)[0]["key"] == "eu"
