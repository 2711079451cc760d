"""A test that waits for real and failed beside the others is run again alone, and nothing else is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_look import deserving

ROOT = Path(__file__).parents[2]
LIVE, OTHER = "tests/live", "tests/unit"

# Fails in those of its runs that are named.
PROGRAM = """
from pathlib import Path


def test_it():
    count = Path(__file__).with_suffix(".count")
    runs = int(count.read_text()) if count.exists() else 0
    count.write_text(str(runs + 1))
    assert runs not in {fails}
"""


def _run(folder: Path, place: str, fails: set[int], *options: str) -> tuple[int, int, str]:
    """The exit code, how often the test ran, and what was printed."""
    file = folder / place / "test_moody.py"
    file.parent.mkdir(parents=True)
    file.write_text(PROGRAM.replace("{fails}", str(fails or "()")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.second_look", *options, f"{place}/test_moody.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, int(file.with_suffix(".count").read_text()), done.stdout


def test_one_that_passes_alone_lets_the_run_pass_and_is_named(tmp_path: Path) -> None:
    code, runs, said = _run(tmp_path, LIVE, {0}, "--second-look")
    assert (code, runs) == (0, 4)
    assert said.index("failed: tests/live/test_moody.py::test_it") < said.index("alone, 1 of 3")
    assert "failed beside the others, passed alone" in said
    assert "tests/live/test_moody.py::test_it: passed 3 of 3 times" in said
    assert "assert 0 not in {0}" in said, "why it failed"


@pytest.mark.parametrize(
    ("place", "fails", "options", "runs"),
    [
        (LIVE, {0, 1}, ["--second-look"], 2),
        (LIVE, {0, 3}, ["--second-look"], 4),  # the third time alone
        (OTHER, {0}, ["--second-look"], 1),
        (LIVE, {0}, [], 1),
    ],
)
def test_every_other_failure_is_one(tmp_path: Path, place: str, fails: set[int], options: list[str], runs: int) -> None:
    assert _run(tmp_path, place, fails, *options)[:2] == (1, runs)


def test_what_passes_runs_once(tmp_path: Path) -> None:
    assert _run(tmp_path, LIVE, set(), "--second-look")[:2] == (0, 1)


def test_many_that_fail_are_no_accident() -> None:
    some = [f"tests/live/test_a.py::test_{n}" for n in range(3)]
    assert deserving(some[:2]) == some[:2]
    assert deserving(some) == []
    assert deserving(["tests/live/test_a.py (not collected)", "tests/tidy/test_b.py::test_c"]) == []
