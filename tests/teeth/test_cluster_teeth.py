"""Each mistake of `broken_cluster.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio

import pytest

from tests.conformance import test_cluster_edges as edges
from tests.conformance import test_cluster_faults as faults
from tests.conformance import test_late_answers as late
from tests.conformance import test_lost_at_stop as lost
from tests.model.lost_answers import Kind, Model
from tests.sim.cluster_scenarios import (
    LEASES,
    a_crash_between_a_turn_and_what_it_sends,
    a_hint_and_a_scan_at_once,
    a_hint_that_comes_late,
    a_new_node_among_many_free_shards,
    a_read_of_a_node_whose_lease_has_lapsed,
    a_redrive_while_another_start_is_noted,
    a_shard_that_goes_and_comes_while_a_start_is_noted,
    an_insert_that_is_heard_of_late,
    calls_while_a_node_stops,
    many_jobs_of_one_object_while_the_disk_is_slow,
    two_claimants_of_one_shard,
)
from tests.sim.cluster_scenarios import stage as cluster
from tests.sim.cluster_simulation import run_cluster_seed
from tests.teeth import broken_cluster
from tests.teeth.catching import Catcher, Teeth
from tests.unit.test_links_strangers import (
    test_a_strangers_first_frame_names_no_metric_of_its_own,
    test_sixty_four_silent_connections_keep_no_member_out,
)

SEEDS = 20
KINDS: tuple[Kind, ...] = ("plain", "keyed", "errand")


def simulation() -> None:
    """tests/sim: seeds."""
    for seed in range(SEEDS):
        run_cluster_seed(seed)


def late_hints() -> None:
    """tests/sim: moments of hints."""
    asyncio.run(a_hint_that_comes_late())
    asyncio.run(a_hint_and_a_scan_at_once())


def late_inserts() -> None:
    asyncio.run(an_insert_that_is_heard_of_late())


def crashes_of_senders() -> None:
    asyncio.run(a_crash_between_a_turn_and_what_it_sends())


def stops() -> None:
    asyncio.run(calls_while_a_node_stops())


def order() -> None:
    asyncio.run(many_jobs_of_one_object_while_the_disk_is_slow())


def reads_ahead() -> None:
    asyncio.run(a_redrive_while_another_start_is_noted())
    asyncio.run(a_shard_that_goes_and_comes_while_a_start_is_noted())


def claims() -> None:
    asyncio.run(two_claimants_of_one_shard())


def lagging() -> None:
    """tests/sim: seeds in which answers are lost while jobs run."""
    for seed in range(20, 50):
        run_cluster_seed(seed)


def every_order() -> None:
    """tests/model: every interleaving."""
    for kind in KINDS:
        Model(kind).explore()


def ramp() -> None:
    asyncio.run(a_new_node_among_many_free_shards())


def lapses() -> None:
    asyncio.run(a_read_of_a_node_whose_lease_has_lapsed())


def lost_at_stop() -> None:
    """tests/conformance: commits of which a node that stops heard nothing."""
    asyncio.run(lost.test_a_node_that_stops_while_its_store_is_away_wakes_nobody_for_the_turns_of_others(cluster))
    asyncio.run(lost.test_a_start_note_that_arrives_when_its_shard_was_handed_over_is_nobody_s_death(cluster))


def cut_off_at_stop() -> None:
    """tests/conformance: what a node that stops was taking, or giving away."""
    asyncio.run(edges.test_a_node_that_stops_while_it_claims_hands_that_back_too(cluster))


def let_go_at_stop() -> None:
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(edges.test_a_node_that_stops_while_it_hands_over_forgets_none_of_it(cluster, patch))


def late_answers() -> None:
    """tests/conformance: what the store answers when the shard has been another's."""
    asyncio.run(late.test_a_timer_that_another_node_ran_is_not_set_again_by_the_late_answer_of_its_commit(cluster))
    asyncio.run(late.test_a_job_that_another_node_cancelled_is_not_run_by_the_late_answer_of_a_read(cluster))


def leases() -> None:
    """tests/sim: leases that are not the usual one."""
    for scenario in LEASES:
        asyncio.run(scenario())


def frozen() -> None:
    """tests/conformance: a node that stands still."""
    asyncio.run(faults.test_calls_for_a_frozen_owner_go_on_as_soon_as_another_has_its_objects(cluster))


def strangers() -> None:
    """tests/unit: connections that say nothing, or too much."""
    asyncio.run(test_sixty_four_silent_connections_keep_no_member_out())
    asyncio.run(test_a_strangers_first_frame_names_no_metric_of_its_own())


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "inserts_known_by_their_names_alone": (lagging, every_order),
    "claim_without_epoch_bump": (simulation,),
    "claim_that_ignores_what_was_seen": (claims,),
    "commit_that_trusts_the_cached_owner": (simulation,),
    "lease_judged_by_own_clock": (simulation,),
    "cancel_that_answers_before_it_knows": (simulation,),
    "hint_treated_as_truth": (late_hints,),
    "release_before_the_last_turn_ended": (stops,),
    "redelivery_without_attempt_check": (simulation, late_hints),
    "ramp_that_forgets_owned_shards": (ramp,),
    "arrivals_that_ask_nobody": (late_inserts,),
    "sends_after_the_commit": (crashes_of_senders,),
    "starts_that_overtake": (order,),
    "reads_ahead_that_stay": (reads_ahead,),
    "reads_ahead_of_another_epoch": (reads_ahead,),
    "reads_answered_without_a_lease": (lapses,),
    "stops_that_wake_over_what_is_on_its_way": (lost_at_stop,),
    "stops_that_fence_nothing": (lost_at_stop,),
    "stops_that_cut_claims_off": (cut_off_at_stop,),
    "stops_that_forget_what_was_let_go": (let_go_at_stop,),
    "late_commits_that_are_believed": (late_answers,),
    "late_pages_that_are_believed": (late_answers,),
    "rows_that_ignore_the_lease": (leases,),
    "leases_of_their_own": (leases,),
    "calls_that_wait_for_a_line_to_a_frozen_node": (frozen,),
    "strangers_that_keep_their_place": (strangers,),
    "codes_that_strangers_choose": (strangers,),
}
TEETH = Teeth(broken_cluster, BROKEN, shown=(simulation, lagging))


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_of_a_cluster_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake_in_a_cluster(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_in_a_cluster_has_a_catcher() -> None:
    TEETH.check_complete()
