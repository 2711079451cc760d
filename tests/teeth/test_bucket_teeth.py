"""Each mistake of `broken_buckets.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sim.bucket_life import run_bucket_life
from tests.teeth import broken_buckets
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_bucket as unit
from wakeful.store.bucket import storage


def life() -> None:
    """tests/sim: processes that take a bucket from each other."""
    for seed in (0, 1, 3):
        _judge(lambda seed=seed: run_bucket_life(seed))  # type: ignore[misc]


def frozen() -> None:
    """tests/unit: who was frozen for long."""
    _run(unit.test_who_was_frozen_for_long_still_meets_the_seal)


def killed() -> None:
    """tests/unit: killed at every request."""
    _run(unit.test_killed_at_every_request_nothing_that_was_acknowledged_is_lost, None)


def lost() -> None:
    """tests/unit: a create whose answer was lost."""
    _judge(unit.test_a_create_whose_answer_was_lost_finds_that_it_was_done)


def away() -> None:
    """tests/unit: a bucket that is away for a while."""
    _run(unit.test_a_bucket_that_is_away_is_said_to_be_and_comes_back, None)


def _run(test: Any, *more: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "REST_MAX_S", 0.002)
        patch.setattr(storage, "REST_S", 0.001)
        _judge(lambda: asyncio.run(test(Path(folder), *more)))


def _judge(test: Callable[[], Any]) -> None:
    """Whatever it says is that it failed."""
    try:
        test()
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"{error}") from error


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "no_seal": (life,),
    "a_trimmed_seal": (frozen,),
    "acknowledged_out_of_order": (life,),
    "a_blind_retry_of_a_create": (lost, life),
    "equal_bodies": (life,),
    "a_gap_is_taken_for_the_end": (life,),
    "a_late_owner_believes_what_it_read": (life,),
    "the_manifest_comes_first": (killed,),
    "the_log_is_cut_before_the_snapshot": (life,),
    "the_file_is_ahead": (away,),
}
TEETH = Teeth(broken_buckets, BROKEN, shown=(life, frozen, killed, lost, away))


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)
