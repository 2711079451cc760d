"""Each mistake of `broken_machines.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio

import pytest

from tests.conformance import (
    test_machines_actors,
    test_machines_children,
    test_machines_reset,
    test_machines_resume,
    test_machines_talking,
    test_machines_watch,
)
from tests.http import test_machine_reset
from tests.sim.machine_life import calm, live
from tests.teeth import broken_machines
from tests.teeth.catching import Catcher, Teeth
from tests.unit.importers import test_machine_import
from tests.unit.machines import test_bindings
from wakeful import errors


def lives() -> None:
    """tests/sim: lives with troubles."""
    for seed in range(30):
        asyncio.run(live(seed))


def probes() -> None:
    """tests/sim: a crash at every probe."""
    for probe in range(2, 150, 5):
        asyncio.run(calm(probe))


def starts() -> None:
    """tests/conformance: a stop that comes first."""
    asyncio.run(test_machines_children.test_a_stop_that_comes_before_the_start_holds())


def overtaking() -> None:
    """tests/conformance: a start that comes first."""
    asyncio.run(test_machines_children.test_a_start_that_overtakes_the_stop_of_the_one_before_counts())


def resumes() -> None:
    """tests/conformance: dying and coming back."""
    asyncio.run(test_machines_resume.test_dying_twice("restart", 110))
    asyncio.run(test_machines_resume.test_dying_twice("pause_while_down", 90))


def watches() -> None:
    """tests/conformance: what is undone is never seen."""
    asyncio.run(test_machines_watch.test_what_is_undone_is_never_seen())


def deadly() -> None:
    """tests/conformance: three deaths are an error for the chart."""
    asyncio.run(test_machines_actors.test_one_that_kills_its_process_three_times_is_an_error_for_the_chart())


def outages() -> None:
    """tests/conformance: one run over an outage."""
    asyncio.run(test_machines_actors.test_a_store_that_is_away_does_not_make_it_run_twice(5))


def blame() -> None:
    """tests/conformance: innocents beside a killer."""
    asyncio.run(test_machines_actors.test_those_beside_one_that_kills_are_not_blamed(1))


def delayed() -> None:
    """tests/conformance: a child that was started anew."""
    asyncio.run(test_machines_children.test_a_delayed_message_reaches_the_child_it_was_meant_for_or_nobody(True))


def resets() -> None:
    """tests/conformance: the life before is over."""
    asyncio.run(test_machines_reset.test_nothing_of_the_life_before_goes_on("memory:"))


def resets_outside() -> None:
    """tests/http: a caller is told the operators' way."""
    asyncio.run(test_machine_reset.test_a_caller_may_not_by_the_name_of_the_method_and_is_told_the_way())


def waits_again() -> None:
    """tests/conformance: a watch over two lives."""
    try:
        asyncio.run(test_machines_reset.test_who_waits_with_an_end_in_mind_hears_of_the_new_life())
    except errors.Conflict as error:
        raise AssertionError(error) from error


def callbacks() -> None:
    """tests/conformance: a callback whose process died."""
    asyncio.run(test_machines_talking.test_a_callback_begins_anew_when_its_process_died("memory:", "error"))


def stops() -> None:
    """tests/conformance: a stop does not wait for a callback."""
    asyncio.run(test_machines_talking.test_it_goes_on_while_its_object_sleeps_and_a_stop_does_not_wait_for_it())


def senders() -> None:
    """tests/conformance: who sent the event."""
    asyncio.run(test_machines_talking.test_guards_and_actions_know_who_sent_the_event("memory:"))


def losses() -> None:
    """tests/unit: a chart that lost a guard."""
    try:
        test_bindings.test_a_chart_that_lost_its_functions_is_refused_with_the_remedy("a guard")
    except pytest.fail.Exception as error:
        raise AssertionError(str(error)) from None


def arrivals() -> None:
    """tests/unit: a child machine that arrives with its parent."""
    test_machine_import.test_a_child_machine_goes_on_where_it_was_and_belongs_to_its_parent()


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "the_snapshot_in_a_commit_of_its_own": (lives, probes),
    "delays_outlive_their_state": (lives, probes),
    "an_invoked_method_is_forgotten_once_it_has_begun": (lives, probes),
    "an_answer_is_applied_without_asking_whose_it_is": (lives,),
    "the_rest_of_the_actions_is_dropped": (lives, probes),
    "an_event_leaves_no_row_in_the_ledger_when_nothing_changed": (lives, probes),
    "a_start_that_was_taken_back_happens": (starts,),
    "a_child_is_whoever_has_its_key": (overtaking,),
    "a_delayed_message_is_for_whoever_has_the_id": (delayed,),
    "restarted_delays_begin_when_somebody_looks": (resumes,),
    "down_time_is_forgotten": (resumes, lives),
    "watchers_are_told_at_once": (watches,),
    "a_deadly_method_waits_for_a_person": (deadly,),
    "those_beside_a_killer_are_blamed": (blame,),
    "work_beside_turns_begins_again_whatever_runs": (outages,),
    "a_child_machine_that_arrives_begins_from_its_start": (arrivals,),
    "a_reset_leaves_the_delays_of_the_life_before": (resets,),
    "callers_outside_reset_by_the_name_of_the_method": (resets_outside,),
    "a_watch_trusts_the_end_it_knew": (waits_again,),
    "a_callback_begins_once": (callbacks,),
    "a_stop_waits_for_callbacks": (stops,),
    "actions_do_not_know_who_sent_the_event": (senders,),
    "branches_that_nothing_reaches_are_taken_as_they_are": (losses,),
}
TEETH = Teeth(broken_machines, BROKEN, shown=(lives, probes))


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
