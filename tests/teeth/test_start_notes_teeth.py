"""Each mistake of `broken_start_notes.py` is caught by the suites named beside it, which pass when nothing is broken."""

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance import test_alarms_failing as alarms
from tests.conformance import test_forget as forgotten
from tests.conformance import test_migrations as migrated
from tests.conformance.conftest import staging
from tests.teeth import broken_start_notes
from tests.teeth.catching import Catcher, Teeth, run_test
from tests.unit import test_start_notes as notes


def _run(test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    with staging("memory:") as stage:
        run_test(test, stage)


def deaths() -> None:
    """tests/conformance: three deaths of one handler."""
    _run(alarms.test_a_handler_that_kills_its_process_three_times_is_parked)


def commits() -> None:
    """tests/unit: a death at the commit."""
    _run(notes.test_who_dies_at_the_commit_of_what_it_ran_dies_of_it)


def innocents() -> None:
    """tests/unit: what ran before."""
    _run(notes.test_what_ran_before_is_blamed_for_nothing)


def crowds() -> None:
    """tests/unit: more than there are places."""
    _run(notes.test_more_than_there_are_places_are_noted_all)


def long_runs() -> None:
    """tests/unit: one that goes on for a while."""
    _run(notes.test_one_that_goes_on_for_a_while_is_seen_from_outside_and_gives_its_place_back)


def clean_ends() -> None:
    """tests/unit: a clean end."""
    _run(notes.test_who_ends_cleanly_leaves_no_marks)


def whole_store() -> None:
    """tests/conformance: a search of the whole store for one that was forgotten."""
    run_test(forgotten.test_an_object_forgets_itself_with_its_turn, SimpleNamespace(url="memory:"))


def waiting() -> None:
    """tests/conformance: timers of newer objects."""
    run_test(migrated.test_its_timers_wait_for_a_program_that_knows_it, migrated.Deploys("memory:"), "alarm")


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "marks_that_nobody_reads": (deaths, commits),
    "a_mark_goes_when_its_handler_ends": (commits,),
    "a_mark_is_of_whatever_has_the_name": (innocents,),
    "what_has_no_place_begins_without_a_note": (crowds,),
    "who_lingers_is_never_noted": (long_runs,),
    "marks_outlive_a_clean_end": (clean_ends,),
    "marks_name_what_was_forgotten": (whole_store,),
    "who_waits_for_another_program_has_begun": (waiting,),
}
TEETH = Teeth(
    broken_start_notes,
    BROKEN,
    shown=(deaths, commits, innocents, crowds, long_runs, clean_ends, whole_store, waiting),
)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
