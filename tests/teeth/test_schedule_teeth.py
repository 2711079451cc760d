"""Each mistake of `broken_schedules.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio
from typing import Any

import pytest

from tests.model import test_schedule_fates
from tests.model.schedule_life import run_case
from tests.sim.simulation import run_probe, run_seed
from tests.teeth import broken_schedules
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_plan, test_queue
from tests.unit.specs import test_spread
from wakeful.policy.plan import forget_specs

LIVES = (3, 10, 21, 38, 199)  # drift, retries, windows, and retries that outlast the interval


def simulation() -> None:
    """tests/sim: the seeds that have schedules."""
    for seed in (42, 100, 44, 54, 120, 684, 1698, *range(0, 120, 2)):  # first those that catch what few do
        run_seed(seed)


def probes() -> None:
    """tests/sim: a crash at every probe."""
    for probe in (214, *range(150, run_probe().busy_probes + 1)):
        run_probe(probe)


def lives() -> None:
    """tests/model: lives against the oracle that walks second by second."""
    for seed in LIVES:
        run_case(seed, 0.1 if seed == 199 else 0.2)


def fates() -> None:
    """tests/model: corners."""
    asyncio.run(test_schedule_fates.test_cancelling_after_a_very_long_outage_gives_every_occurrence_a_verdict())


def plans() -> None:
    """tests/unit: the pure function against the words."""
    test_plan.test_plan_does_what_the_words_say()
    test_plan.test_overlapped_does_what_the_words_say()


def bounds() -> None:
    """tests/unit: the same, judged in parts."""
    test_plan.test_any_bound_comes_to_the_same()


def queue() -> None:
    """tests/unit: the timer queue."""
    test_queue.test_a_page_that_tells_of_a_timer_before_its_commit_is_heard_of_does_not_hand_it_out_twice()


def spreads() -> None:
    """tests/unit/specs: spread."""
    test_spread.test_the_part_is_the_same_everywhere_and_for_ever()


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "next_is_counted_from_the_end_of_the_run": (lives, simulation),
    "record_not_in_the_runs_commit": (simulation,),
    "deaths_forgotten_when_added_anew": (simulation,),
    "verdicts_in_a_commit_of_their_own": (simulation,),
    "pending_dropped_when_a_run_fails": (simulation, lives),
    "reconciling_anchors_anew": (simulation,),
    "pausing_clears_the_timer": (simulation,),
    "catch_up_forgets_the_window": (plans, lives),
    "a_part_of_an_outage_forgets_the_one_before": (bounds,),
    "overlap_ends_with_the_first_attempt": (lives,),
    "spread_follows_the_moment": (spreads,),
    "triggering_takes_the_next_occurrence": (simulation, probes),
    "counters_keep_what_a_failed_turn_counted": (simulation, probes, lives),
    "redriving_makes_another_run_of_it": (simulation,),
    "older_verdicts_are_not_counted": (fates,),
    "a_timer_is_handed_out_twice": (queue,),
}
TEETH = Teeth(broken_schedules, BROKEN, beside={"both"}, shown=(simulation, probes, lives, plans, bounds))


@pytest.fixture(autouse=True)
def _afresh() -> Any:
    """No spec that was read under another rule is remembered."""
    forget_specs()
    yield
    forget_specs()


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
