"""A few buckets that several nodes write to at once; `make sim-bucket` has a thousand."""

import pytest

from tests.sim.bucket_life import run_bucket_life
from tests.sim.cluster_simulation import failure, run_cluster_seed
from tests.sim.invariants import Violation
from tests.sim.simulation import run_seed


def test_whoever_dies_or_stands_still_nothing_that_was_acknowledged_is_lost() -> None:
    lives = [run_bucket_life(seed) for seed in range(10)]
    assert sum(life.losses for life in lives) > 20
    assert sum(life.kills for life in lives) > 5
    assert sum(life.snapshots for life in lives) > 20
    assert sum(life.freezes for life in lives) > 20
    assert sum(len(life.acknowledged) for life in lives) > 100


@pytest.mark.parametrize("seed", range(3))
def test_every_promise_holds_on_a_bucket_that_loses_answers_refuses_and_lists_late(seed: int) -> None:
    """More of them: `python -m tests.sim.simulation --store bucket`."""
    run_seed(seed, store="bucket")


@pytest.mark.parametrize("seed", [3, 5])
def test_every_promise_of_a_cluster_holds_on_a_bucket_that_loses_answers_refuses_and_lists_late(seed: int) -> None:
    """More of them: `python -m tests.sim.cluster_simulation --store bucket`."""
    try:
        run_cluster_seed(seed, "bucket")
    except Violation as violation:
        pytest.fail(failure(seed, violation, "bucket"))
