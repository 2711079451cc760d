"""Each mistake of `broken_history.py` is caught by the suites named beside it, which pass when nothing is broken."""

import pytest

from tests.conformance import test_history as history
from tests.teeth import broken_history
from tests.teeth.catching import Catcher, Teeth, run_test


def whole() -> None:
    """tests/conformance: rows, state, pages, timers and memory."""
    run_test(history.test_an_object_is_as_it_was_and_wakes_anew, "memory:")


def timed() -> None:
    """tests/conformance: timers that are left alone."""
    run_test(history.test_timers_are_left_alone_when_asked_and_a_restored_alarm_rings, "memory:")


def committed() -> None:
    """tests/conformance: a commit that fails."""
    run_test(history.test_the_image_is_in_the_commit_and_none_is_made_of_nothing, "memory:")


def unread() -> None:
    """tests/conformance: a row that is written and never read."""
    run_test(history.test_what_was_never_read_is_read_before_it_is_written, "memory:")


def pruned() -> None:
    """tests/conformance: points whose images are gone."""
    run_test(history.test_pruning_is_bounded_and_says_from_when_on_points_are_left, "memory:")


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "images_leave_out_pages": (whole,),
    "images_are_written_outside_the_commit": (committed,),
    "what_is_not_in_memory_is_taken_for_nothing": (unread,),
    "an_object_that_went_back_stays_awake": (whole,),
    "timers_go_back_though_they_should_not": (timed,),
    "the_beginning_stays_when_images_are_pruned": (pruned,),
}
TEETH = Teeth(broken_history, BROKEN, beside={"_write"})


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_suites_pass_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_a_mistake_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_its_suite() -> None:
    TEETH.check_complete()
