"""Each mistake of `broken_migrations.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio

import pytest

from tests.conformance import test_migrations as suite
from tests.conformance.test_migrations import Deploys
from tests.model.test_migration_lives import SEEDS, live
from tests.teeth import broken_migrations
from tests.teeth.catching import Catcher, Teeth


def undone() -> None:
    """tests/conformance: an on_wake that raises."""
    asyncio.run(suite.test_an_on_wake_that_raises_undoes_them_too(Deploys("memory:")))


def together() -> None:
    """tests/conformance: what they wrote and their number."""
    asyncio.run(suite.test_they_see_what_those_before_them_wrote_and_commit_with_their_number(Deploys("memory:")))


def failing() -> None:
    """tests/conformance: a migration that raises."""
    deploys = Deploys("memory:")
    asyncio.run(suite.test_one_that_fails_is_named_and_nothing_is_kept_until_it_works(deploys, False))


def waiting() -> None:
    """tests/conformance: timers of newer objects."""
    asyncio.run(suite.test_its_timers_wait_for_a_program_that_knows_it(Deploys("memory:"), "alarm"))


def looks() -> None:
    """tests/conformance: readers of what is nowhere."""
    steps = [suite.first, suite.second]
    asyncio.run(suite.test_to_read_an_object_that_is_nowhere_does_not_make_it(Deploys("memory:"), steps))


def renames() -> None:
    """tests/conformance: a field of the state."""
    asyncio.run(suite.test_a_field_of_the_state_is_renamed_before_it_is_decoded(Deploys("memory:")))


def lives() -> None:
    """tests/model: random lives under programs that come and go."""
    for seed in range(SEEDS):
        asyncio.run(live(seed))


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "the_number_goes_by_a_commit_of_its_own": (undone, together, lives),
    "a_migration_that_failed_is_counted": (failing,),
    "an_older_program_takes_what_is_newer": (waiting, lives),
    "timers_of_newer_objects_are_tried_again_and_again": (waiting,),
    "a_timer_that_waits_was_begun": (waiting,),
    "to_look_makes_an_object": (looks,),
    "the_state_of_a_migration_is_lost": (renames,),
}
TEETH = Teeth(broken_migrations, BROKEN, beside={"_count_apart"}, shown=(lives,))


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
