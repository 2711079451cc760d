"""Each mistake of `broken_holding.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio

import pytest

from tests.http import test_odd_connections as connections
from tests.http import test_refusals_in_turn as refusals
from tests.http import test_sockets_frames as frames
from tests.http import test_too_much as too_much
from tests.security import test_held as held
from tests.teeth import broken_holding
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_shares as shared


def models() -> None:
    """tests/security: rows that become models."""
    held.check_heavy("checked: some rows")


def lists() -> None:
    """tests/security: lists in lists."""
    held.check_heavy("echo: lists")


def long_bodies() -> None:
    """tests/http: several long bodies at once."""
    asyncio.run(too_much.test_of_several_long_bodies_one_is_read_at_a_time())


def long_line() -> None:
    """tests/http: a long body behind many of a neighbour's."""
    asyncio.run(too_much.test_a_long_body_waits_for_one_of_a_neighbours_and_not_for_all())


def moved() -> None:
    """tests/unit: what was a stranger's becomes a token's."""
    shared.test_what_becomes_anothers_does_not_give_it_more_than_its_share()


def colours() -> None:
    """tests/http: numbers that become members of an enum."""
    asyncio.run(too_much.test_arguments_are_weighed_again_as_what_they_became())


def some_trailers() -> None:
    """tests/http: trailers that nobody gets."""
    asyncio.run(connections.test_some_trailers_are_taken_and_nobody_gets_them())


def trailers() -> None:
    """tests/http: trailers without end."""
    asyncio.run(connections.test_one_trailer_without_end_is_cut_off())


def early_answers() -> None:
    """tests/http: an answer before the body."""
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(connections.test_what_still_comes_of_a_body_that_is_answered_is_not_parsed_and_bounded(patch))


def refused_behind() -> None:
    """tests/http: garbage behind a request that is being answered."""
    asyncio.run(refusals.test_what_is_refused_behind_a_request_takes_its_answer_from_nobody("no request"))


def odd_heads() -> None:
    """tests/http: a body in two codings."""
    asyncio.run(connections.test_who_is_refused_before_there_is_a_request_gets_a_problem_too("gzip and chunks"))


def refused_within() -> None:
    """tests/http: a bad chunk of a request whose answer is being sent."""
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(refusals.test_a_body_that_is_none_puts_nothing_into_the_answer_that_is_being_sent(patch))


def refused_while_sending() -> None:
    """tests/http: a refusal that is read after all was sent."""
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(refusals.test_who_still_sends_hears_the_refusal("tiny chunks", patch))


def half_a_head() -> None:
    """tests/http: half a head behind a long call."""
    asyncio.run(refusals.test_half_a_head_behind_a_long_call_cuts_nothing(0))


def much_garbage() -> None:
    """tests/http: one line in the log for much that is refused."""
    refusals.test_of_much_that_is_refused_operators_are_told_once_a_minute()


def held_by_sockets() -> None:
    """tests/http: what sockets have sent and nobody has taken."""
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(frames.test_what_is_held_back_of_all_sockets_is_bounded(patch))


def held_by_one_token() -> None:
    """tests/http: what one token has sent and nobody has taken."""
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(frames.test_one_token_does_not_use_up_what_may_be_held_back(patch))


def unfinished() -> None:
    """tests/http: what sockets have sent of a frame."""
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(
            frames.test_what_the_parser_has_of_what_is_unfinished_is_held_back_too(
                frames.FRAME[:30_000], frames.FRAME[30_000:], 30_000, patch
            )
        )


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "arguments_are_made_on_the_loop": (models,),
    "long_bodies_are_read_side_by_side": (long_bodies,),
    "long_bodies_wait_in_one_line": (long_line,),
    "what_moves_is_not_asked_for": (moved,),
    "lists_are_not_counted": (lists,),
    "what_arguments_became_is_not_weighed": (colours,),
    "trailers_are_kept": (some_trailers,),
    "trailers_are_not_counted": (trailers,),
    "a_body_is_read_to_its_end_though_it_is_answered": (early_answers,),
    "a_refusal_does_not_wait_for_its_turn": (refused_behind, refused_within),
    "heads_are_taken_as_the_parser_takes_them": (odd_heads,),
    "who_is_refused_is_hung_up_on": (refused_while_sending,),
    "the_call_under_way_is_cut_for_who_is_slow_behind_it": (half_a_head,),
    "every_refusal_is_logged": (much_garbage,),
    "what_sockets_hold_back_is_not_counted": (held_by_sockets, unfinished),
    "all_who_send_are_one": (held_by_one_token,),
}
TEETH = Teeth(broken_holding, BROKEN)


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
