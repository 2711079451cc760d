"""A few buckets that several processes take from each other; `make sim-bucket` has a thousand."""

import pytest

from tests.sim.bucket_life import run_bucket_life
from tests.sim.simulation import run_seed

SEEDS = range(20)


@pytest.mark.parametrize("first", SEEDS[::10])
def test_whoever_takes_over_whom_nothing_that_was_acknowledged_is_lost(first: int) -> None:
    lives = [run_bucket_life(seed) for seed in range(first, first + 10)]
    assert sum(life.takes for life in lives) > 20
    assert sum(life.fenced for life in lives) > 20
    assert sum(len(life.acknowledged) for life in lives) > 20


@pytest.mark.parametrize("seed", range(3))
def test_every_promise_holds_on_a_bucket_that_loses_answers_refuses_and_lists_late(seed: int) -> None:
    """More of them: `python -m tests.sim.simulation --store bucket`."""
    run_seed(seed, store="bucket")
