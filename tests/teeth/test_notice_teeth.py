"""Each mistake of `broken_notices.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.conformance import test_notices as notices
from tests.sim import notice_life
from tests.teeth import broken_notices
from tests.teeth.catching import Catcher, Teeth


def _run(test: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    asyncio.run(test(notices.Office(), *args))


def killed() -> None:
    """tests/conformance: killed at every trip to disk."""
    asyncio.run(notices.test_killed_at_every_trip_to_disk_each_parked_timer_is_told_of_under_one_id())


def undelivered() -> None:
    """tests/conformance: what can't be delivered."""
    _run(notices.test_what_can_t_be_delivered_is_parked_without_a_notice_about_it)


def flood() -> None:
    """tests/conformance: many at once."""
    _run(notices.test_a_flood_is_one_notice_with_a_count_and_the_first_few)


def forgotten() -> None:
    """tests/conformance: a search of the whole store."""
    _run(notices.test_what_was_not_delivered_of_a_forgotten_object_is_nowhere, "each")


def forgotten_in_a_flood() -> None:
    """tests/conformance: the same where they are counted."""
    _run(notices.test_what_was_not_delivered_of_a_forgotten_object_is_nowhere, "at most")


def retried() -> None:
    """tests/conformance: a handler that fails."""
    _run(notices.test_a_handler_that_fails_is_tried_again_under_the_same_id)


def lives() -> None:
    """tests/sim: a life with troubles, from a seed."""
    asyncio.run(notice_life.live(0))


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "told_outside_the_commit": (killed, lives),
    "a_notice_about_a_notice": (undelivered,),
    "a_flood_is_a_flood": (flood,),
    "what_is_forgotten_is_told": (forgotten, forgotten_in_a_flood),
    "the_first_try_is_the_last": (retried, undelivered, lives),
}
TEETH = Teeth(
    broken_notices,
    BROKEN,
    shown=(killed, undelivered, flood, forgotten, forgotten_in_a_flood, retried, lives),
)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_it_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_suite() -> None:
    TEETH.check_complete()
