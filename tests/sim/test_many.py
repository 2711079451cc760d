"""Seeds on several cores: one that fails, dies or does not end is one failure, and the others go on."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.sim import cluster_simulation, simulation
from tests.sim.invariants import Violation
from tests.sim.many import run_many, verdict

PROGRAM = """
import os, sys, time
from tests.sim.many import run_many, verdict

def run(item):
    if item == "seed 3":
        return "seed 3: the moon is missing"
    if item == "seed 5":
        raise ValueError("five")
    if item == "seed 7":
        os._exit(9)
    while item == "seed 9":
        pass
    os.write(1, f"did {item}\\n".encode())  # at once: three processes and their parent write there

if __name__ == "__main__":
    items = [f"seed {n}" for n in range(int(sys.argv[1]))]
    sys.exit(verdict(len(items), 0, run_many(run, items, 3, patience_s=float(sys.argv[2])), time.monotonic()))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    path = tmp_path / "seeds.py"
    path.write_text(PROGRAM)
    return str(path)


def test_all_that_fail_are_listed_at_the_end_and_the_others_run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, program, "14", "5"], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 1, done.stderr
    did = {line for line in done.stdout.splitlines() if line.startswith("did")}
    assert did == {f"did seed {number}" for number in range(14) if number not in (3, 5, 7, 9)}
    for problem in (
        "seed 3: the moon",
        "seed 5: ValueError('five')",
        "seed 7: its process died (9)",
        "seed 9: does not",
    ):
        assert problem in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith("14 seeds from 0: 4 failed (seed 3, seed 5, seed 7, seed 9), ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_one_that_started_them(program: str, number: signal.Signals) -> None:
    command = [sys.executable, program, "12", "1000"]  # of which one never ends
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as started:
        try:
            assert started.stdout is not None
            while b"did seed 11" not in started.stdout.readline():
                assert started.poll() is None
            workers = psutil.Process(started.pid).children(recursive=True)
            assert workers
            os.kill(started.pid, number)
            assert started.wait(60) != 0
            gone, left = psutil.wait_procs(workers, timeout=60)
            assert not left, f"{left} outlived it, unlike {gone}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def test_one_alone_runs_in_this_process() -> None:
    seen: list[int] = []

    def run(item: str) -> str | None:
        seen.append(os.getpid())
        return None

    assert run_many(run, ["seed 1"]) == []
    assert seen == [os.getpid()]


def test_an_error_that_is_no_violation_does_not_end_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int, store: str = "memory") -> None:
        raise KeyError(seed) if seed % 2 else Violation(f"no {seed}")

    monkeypatch.setattr(simulation, "run_seed", broken)
    monkeypatch.setattr(cluster_simulation, "run_cluster_seed", broken)
    attempts: list[tuple[str, Callable[[Any], str | None]]] = [
        ("seed", lambda item: simulation._attempt(item, "memory")),
        ("memory", cluster_simulation._attempt),  # the store is part of what is to be run
    ]
    for word, run in attempts:
        assert run_many(run, [f"{word} 4", f"{word} 5"], 1) == [f"{word} 4", f"{word} 5"]
        printed = capsys.readouterr().out
        assert "seed 4: no 4\n  replay: make sim" in printed
        assert f"{word} 5: KeyError(5)" in printed


def test_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(10, 5, [], time.monotonic()) == 0
    assert capsys.readouterr().out == "10 seeds from 5: clean, 0 s\n"
