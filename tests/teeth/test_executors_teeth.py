"""Each mistake of `broken_executors.py` is caught by the suites named beside it, which pass when nothing is broken."""

import pytest

from tests.teeth import broken_executors
from tests.teeth.catching import Catcher, Teeth, run_test
from tests.unit import test_executors as executors


def ended() -> None:
    """tests/unit: a deadline that passes while a thread computes."""
    run_test(executors.test_a_turn_past_its_deadline_is_over_for_its_caller_and_the_next_waits_for_its_code)


def bounded() -> None:
    """tests/unit: more calls than threads."""
    run_test(executors.test_no_more_run_at_once_than_there_may)


def nested() -> None:
    """tests/unit: more calls than threads, each of which calls another."""
    run_test(executors.test_those_who_wait_for_others_of_them_never_wait_for_ever)


def in_line() -> None:
    """tests/unit: a call that stands before one of somebody with a thread."""
    run_test(executors.test_what_stands_before_a_question_of_one_with_a_place_has_one_at_once)


def apart() -> None:
    """tests/unit: a message of a process that can't be read."""
    run_test(executors.test_what_one_method_left_in_a_pipe_is_never_anothers_answer, "ask_far")


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "objects_do_not_wait_for_code_that_lingers": (ended,),
    "code_of_a_turn_that_is_over_is_still_answered": (ended,),
    "threads_have_no_bound": (bounded,),
    "those_who_are_waited_for_wait_in_line": (nested,),
    "what_can_not_be_read_ends_the_conversation": (apart,),
    "who_stands_before_one_of_them_waits_on": (in_line,),
}
TEETH = Teeth(broken_executors, BROKEN, beside={"_both", "_a_process_in_the_middle_of_a_method_is_taken_for_free"})


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_suites_pass_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_a_mistake_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_its_suite() -> None:
    TEETH.check_complete()
