"""Each mistake of `broken_fairness.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio

import pytest

from tests.http import test_fairness as fairness
from tests.http import test_pace as pace
from tests.http import test_sockets_frames as frames
from tests.teeth import broken_fairness
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_shares as shares


def long_calls() -> None:
    """tests/http: 530 calls of a quarter of an hour."""
    asyncio.run(fairness.test_530_calls_of_a_quarter_of_an_hour_take_only_the_places_of_who_makes_them())


def newcomers() -> None:
    """tests/unit: whoever comes new finds some."""
    shares.test_whoever_comes_new_finds_some_though_nobody_gives_any_back()


def rounds() -> None:
    """tests/http: one before many."""
    asyncio.run(pace.test_one_of_another_begins_before_the_many_that_wait())


def fresh() -> None:
    """tests/http: few of one while others are about."""
    asyncio.run(pace.test_while_others_are_about_few_of_one_are_fresh_and_all_when_they_are_gone())


def known() -> None:
    """tests/unit: who is known."""
    shares.test_a_token_is_known_once_it_was_let_in_and_nobody_is_taken_for_its_owner()


def ready() -> None:
    """tests/http: readyz."""
    asyncio.run(fairness.test_when_really_all_is_taken_readyz_says_so())


def pieces() -> None:
    """tests/http: fragments of a byte."""
    asyncio.run(frames.test_fragments_of_a_byte_are_taken_at_a_pace_and_come_whole())


def bare() -> None:
    """tests/http: frames that carry nothing."""
    ping = frames.frame(frames.PING, b"")
    asyncio.run(frames.test_100_000_frames_that_carry_nothing_end_their_socket_after_some(b"", ping))


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "one_may_have_all_places": (long_calls, newcomers),
    "first_come_first_served": (rounds,),
    "all_of_a_flood_goes_on_together": (fresh,),
    "a_token_is_known_by_its_name": (known,),
    "ready_though_nobody_finds_a_place": (ready,),
    "frames_beside_messages_are_free": (pieces, bare),
    "a_burst_is_read_in_one_go": (pieces,),
}
TEETH = Teeth(broken_fairness, BROKEN)


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
