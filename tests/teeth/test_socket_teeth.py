"""Each mistake of `broken_sockets.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio

import pytest

from tests.conformance import test_sockets_cluster as cluster
from tests.conformance import test_sockets_limits as limits
from tests.conformance import test_sockets_sleep as sleep
from tests.conformance import test_sockets_turns as first
from tests.http import test_stops as stopped
from tests.sim import socket_life
from tests.teeth import broken_sockets
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_sockets_parts as alone


def durable() -> None:
    """tests/conformance: sends wait for the disk."""
    asyncio.run(first.test_what_a_turn_sends_waits_until_it_is_on_disk())


def undone() -> None:
    """tests/conformance: a raise sends nothing."""
    asyncio.run(first.test_a_message_is_a_turn_and_a_raise_undoes_it_sends_nothing_and_closes_with_1011())


def rolled_back() -> None:
    """tests/conformance: savepoints."""
    asyncio.run(first.test_a_transaction_that_is_rolled_back_takes_its_sends_with_it())


def unknown() -> None:
    """tests/conformance: a commit of unknown outcome."""
    asyncio.run(first.test_a_message_whose_commit_had_an_unknown_outcome_happens_once())


def orphaned() -> None:
    """tests/conformance: an owner that died after its commit."""
    asyncio.run(cluster.test_a_message_whose_turn_was_kept_by_an_owner_that_died_is_not_run_again())


def crashes() -> None:
    """tests/conformance: being told once."""
    asyncio.run(sleep.test_after_a_crash_every_lost_socket_is_told_once("memory:"))


def sleeps() -> None:
    """tests/conformance: sockets outlive sleep."""
    asyncio.run(sleep.test_a_socket_outlives_the_sleep_of_its_object_and_a_message_wakes_it("memory:"))


def gateways() -> None:
    """tests/conformance: a gateway dies."""
    asyncio.run(cluster.test_when_a_gateway_dies_each_of_its_sockets_is_told_once_and_others_stay())


def joining() -> None:
    """tests/conformance: a node has just joined."""
    asyncio.run(cluster.test_a_node_that_has_just_joined_is_not_taken_for_dead())


def thawing() -> None:
    """tests/conformance: a gateway was thought dead."""
    asyncio.run(cluster.test_a_gateway_that_was_thought_dead_closes_its_sockets_when_it_is_back())


def batches() -> None:
    """tests/unit: a batch counts once."""
    asyncio.run(alone.test_a_batch_counts_once_and_only_for_the_gateway_that_was_meant())


def slow() -> None:
    """tests/conformance: a client that does not read."""
    asyncio.run(limits.test_a_client_that_does_not_read_is_cut_off_and_others_are_served())


def late() -> None:
    """tests/unit: an earlier owner."""
    asyncio.run(alone.test_an_earlier_owner_that_comes_late_is_not_believed_and_the_client_connects_anew())


def closing() -> None:
    """tests/unit: the object has closed it."""
    asyncio.run(alone.test_an_object_that_closed_a_socket_or_does_not_know_it_hears_nothing_more_of_it())


def lives() -> None:
    """tests/sim: a life with troubles."""
    asyncio.run(socket_life.live(2))


def stopping() -> None:
    """tests/http: a server that stops."""
    asyncio.run(stopped.test_uvicorn_is_heard_itself_in_any_loop_and_left_as_it_was())


def cut_calls() -> None:
    """tests/http: a call that a server of others cuts."""
    asyncio.run(stopped.test_a_server_of_ones_own_that_cuts_a_call_is_asked_whether_it_stops("should_exit"))


def late_watchers() -> None:
    """tests/http: a stream that begins while it does."""
    asyncio.run(stopped.test_what_begins_to_last_when_the_stop_has_begun_ends_at_once())


def signals() -> None:
    """tests/http: the signals of a server that nobody knows."""
    asyncio.run(stopped.test_signals_are_heard_on_their_way_and_the_handlers_are_put_back())


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "what_a_turn_sends_leaves_at_once": (durable, undone, rolled_back),
    "a_rolled_back_transaction_keeps_its_sends": (rolled_back,),
    "a_message_that_is_sent_again_runs_again": (unknown, orphaned, lives),
    "on_close_in_a_turn_of_its_own": (crashes, lives),
    "sockets_are_kept_in_memory_only": (sleeps, crashes),
    "an_object_is_listed_after_it_has_sockets": (crashes, gateways),
    "nobody_looks_for_dead_gateways": (crashes, gateways, lives),
    "a_gateway_is_dead_when_the_owner_has_not_heard_of_it": (joining,),
    "a_gateway_that_was_buried_goes_on": (thawing,),
    "batches_are_not_counted": (batches,),
    "a_slow_client_may_be_as_slow_as_it_likes": (slow,),
    "a_late_owner_is_believed": (late,),
    "a_closed_socket_hears_on": (closing,),
    "nobody_listens_for_the_stop_of_a_server": (stopping,),
    "only_who_lasts_has_the_server_heard": (cut_calls,),
    "what_begins_in_a_stop_goes_on": (late_watchers,),
    "handlers_of_signals_stay": (signals,),
    "what_was_done_at_a_signal_is_not_done": (signals,),
}
TEETH = Teeth(broken_sockets, BROKEN, beside={"effects_free"})


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
