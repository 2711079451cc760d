"""Each mistake of `broken_watching.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio

import pytest

from tests.http import test_event_shapes, test_watch_sends
from tests.security import test_object_tokens
from tests.teeth import broken_watching
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_json_patch


def spelling() -> None:
    """tests/unit: 1 is not true."""
    test_json_patch.test_what_python_takes_for_equal_is_told_apart(1, True)


def names() -> None:
    """tests/unit: names with slashes and tildes."""
    test_json_patch.test_names_stay_what_they_are("~1")


def revoked() -> None:
    """tests/http: a token that is over."""
    asyncio.run(test_watch_sends.test_a_token_that_is_over_is_refused_at_once_and_its_socket_ends())


def repeated() -> None:
    """tests/http: an event that is sent again."""
    asyncio.run(test_watch_sends.test_an_event_that_is_sent_again_under_its_key_is_taken_once())


def others() -> None:
    """tests/security: another object."""
    asyncio.run(test_object_tokens.test_another_object_and_another_class_are_refused_without_a_word_about_them())


def forged() -> None:
    """tests/security: tokens that nobody signed."""
    asyncio.run(test_object_tokens.test_what_was_changed_or_signed_by_somebody_else_is_refused())


def routes() -> None:
    """tests/security: all the other routes."""
    asyncio.run(test_object_tokens.test_no_other_route_takes_it())


def shapes() -> None:
    """tests/http: an event without a field that it needs."""
    asyncio.run(test_event_shapes.test_what_fits_arrives_as_its_annotations_say())


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "equal_is_what_python_takes_for_equal": (spelling,),
    "names_go_into_a_path_as_they_are": (names,),
    "a_socket_that_is_open_may_send": (revoked,),
    "the_key_of_an_event_is_forgotten": (repeated,),
    "a_token_for_one_object_is_for_its_class": (others,),
    "what_a_token_says_is_believed": (forged,),
    "shapes_are_for_the_document_only": (shapes,),
    "every_route_takes_a_token_for_one_object": (routes,),
}
TEETH = Teeth(broken_watching, BROKEN, beside={"_OpenGate"})


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
