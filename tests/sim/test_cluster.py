"""The short form of `make sim-cluster`: seeds of three to five nodes, and moments set up by hand."""

import asyncio
import os
import subprocess
import sys

import pytest

from tests.sim import cluster_simulation
from tests.sim.cluster_scenarios import LEASES, SCENARIOS, Scenario
from tests.sim.cluster_simulation import failure, main, run_cluster_seed
from tests.sim.invariants import Violation

SEEDS = 60
PARTS = 6  # so that several workers can share them


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_of_a_cluster_holds_on_every_seed(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        try:
            run_cluster_seed(seed)
        except Violation as violation:
            pytest.fail(failure(seed, violation))


@pytest.mark.parametrize("scenario", [pytest.param(one, id=one.__name__) for one in (*SCENARIOS, *LEASES)])
def test_the_moment(scenario: Scenario) -> None:
    asyncio.run(scenario())


def test_a_seed_of_a_cluster_replays_exactly() -> None:
    for seed in (3, 4):
        assert run_cluster_seed(seed) == run_cluster_seed(seed)


def test_a_seed_of_a_cluster_replays_exactly_in_another_process() -> None:
    code = "from tests.sim.cluster_simulation import run_cluster_seed; print(run_cluster_seed(5).trace)"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == run_cluster_seed(5).trace


def test_the_seeds_of_a_cluster_are_worth_running() -> None:
    """Together they see deaths, takeovers, fences and jobs; a workload that stopped doing anything would pass everything."""
    reports = [run_cluster_seed(seed) for seed in range(10, 20)]
    assert sum(report.deaths for report in reports) > 5
    assert sum(report.jobs for report in reports) > 100
    assert sum(report.done for report in reports) > 80
    assert sum(report.claims for report in reports) > 5_000
    assert sum(report.fenced for report in reports) > 0
    assert sum(report.ticks for report in reports) > 50
    assert {report.nodes for report in reports} > {3}


def test_a_failing_seed_of_a_cluster_prints_itself_and_how_to_replay_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int, store: str = "memory") -> None:
        raise Violation("the moon is missing")

    monkeypatch.setattr(cluster_simulation, "run_cluster_seed", broken)
    assert main(["--seeds", "1", "--from", "41"]) == 1
    printed = capsys.readouterr().out
    assert "seed 41: the moon is missing" in printed
    assert "make sim-cluster SEEDS=1 FROM=41" in printed
