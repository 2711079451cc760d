"""The short form of `make sim`: a crash at every probe of one workload, and a hundred seeds of everything at once."""

import os
import subprocess
import sys

import pytest

from tests.sim import simulation
from tests.sim.invariants import Violation
from tests.sim.simulation import failure, main, run_probe, run_seed

SEEDS = 100
PARTS = 10  # so that several workers can share them


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_holds_on_every_seed(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        try:
            run_seed(seed)
        except Violation as violation:
            pytest.fail(failure(seed, violation))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_holds_when_the_process_dies_at_any_probe(part: int) -> None:
    probes = run_probe().busy_probes
    assert probes > 100
    for probe in range(1 + part, probes + 1, PARTS):
        try:
            run_probe(probe)
        except Violation as violation:
            pytest.fail(f"probe {probe}: {violation}; replay: python -m tests.sim.simulation --probe {probe}")


def test_every_promise_holds_on_sqlite() -> None:
    for seed in range(6):
        run_seed(seed, store="sqlite")
    for probe in range(10, 150, 20):
        run_probe(probe, store="sqlite")


def test_a_seed_replays_exactly() -> None:
    for seed in (3, 4, 5, 6):
        first, second = run_seed(seed), run_seed(seed)
        assert first == second
    assert len({run_seed(seed).trace for seed in range(4)}) == 4


def test_a_seed_replays_exactly_in_another_process() -> None:
    code = "from tests.sim.simulation import run_seed; print(run_seed(5).trace)"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == run_seed(5).trace


def test_the_seeds_are_worth_running() -> None:
    """Together they see deaths, alarms and many calls; a workload that stopped doing anything would pass everything."""
    reports = [run_seed(seed) for seed in range(12)]
    assert sum(report.deaths for report in reports) > 12
    assert sum(report.runs for report in reports) > 100
    assert sum(report.calls for report in reports) > 200
    assert sum(report.scheduled for report in reports) > 100


def test_a_failing_seed_prints_itself_and_how_to_replay_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int, *, store: str = "memory") -> None:
        raise Violation("the moon is missing")

    monkeypatch.setattr(simulation, "run_seed", broken)
    assert main(["--seeds", "1", "--from", "41"]) == 1
    printed = capsys.readouterr().out
    assert "seed 41: the moon is missing" in printed
    assert "make sim SEEDS=1 FROM=41" in printed


def test_clean_seeds_exit_with_nothing_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--from", "2"]) == 0
    assert "failed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "seed",
    [
        60379,  # a clean stop beside a commit of unknown outcome left a start note, which counted as a crash
    ],
)
def test_every_promise_holds_on_seeds_that_once_failed(seed: int) -> None:
    run_seed(seed)
