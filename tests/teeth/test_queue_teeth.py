"""Each mistake of `broken_queues.py` is caught by the suites named beside it, which pass when nothing is broken."""

from typing import Any

import pytest

from tests.conformance import test_queues as queues
from tests.model import test_queue_admission as model
from tests.teeth import broken_queues
from tests.teeth.catching import Catcher, Teeth, run_test


class _Stage:
    url = "memory:"


def _run(test: Any) -> None:
    run_test(test, _Stage())


def limit() -> None:
    """tests/conformance: no more at once."""
    _run(queues.test_no_more_run_at_once_than_the_queue_allows_and_as_many_as_it_does)


def turns() -> None:
    """tests/conformance: keys take turns."""
    _run(queues.test_keys_take_turns_so_what_waits_of_one_does_not_hold_up_another)


def rate() -> None:
    """tests/conformance: any stretch of a rate."""
    _run(queues.test_never_more_start_in_any_stretch_than_the_rate_says)


def newest() -> None:
    """tests/conformance: debounce."""
    _run(queues.test_debounce_runs_the_newest_once_it_has_been_quiet_for_so_long)


def killed() -> None:
    """tests/conformance: killed at each trip to disk."""
    _run(queues.test_killed_at_each_trip_to_disk_no_limit_is_passed_and_no_place_lost)


def life() -> None:
    """tests/model: a random life beside the oracle."""
    run_test(model.test_a_random_life_of_a_queue_is_that_of_the_oracle, "memory:", 1)


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "a_place_is_not_given_back": (limit, life),
    "a_place_is_given_back_late": (limit, life),
    "one_key_goes_until_it_is_empty": (turns,),
    "told_after_the_commit": (killed,),
    "a_rate_counts_the_last_start_alone": (rate,),
    "the_older_one_stays": (newest,),
}
TEETH = Teeth(broken_queues, BROKEN, beside={"timers_slot"}, shown=(limit, turns, rate, newest, killed, life))


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_it_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_suite() -> None:
    TEETH.check_complete()
