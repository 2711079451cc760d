"""Each mistake of `broken_buckets.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import test_cluster_clock as clocks
from tests.conformance import test_cluster_hints as hints
from tests.sim.bucket_life import run_bucket_life
from tests.sim.cluster_simulation import run_cluster_seed
from tests.teeth import broken_buckets
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_bucket as unit
from tests.unit import test_bucket_enemy as enemy
from tests.unit import test_bucket_nodes as nodes
from tests.unit import test_bucket_storage, test_courtesy, test_sightings
from wakeful.store.bucket import storage


def life() -> None:
    """tests/sim: nodes that write to one bucket at once, are killed and stand still."""
    for seed in (0, 1, 3, 6):
        _judge(lambda seed=seed: run_bucket_life(seed))  # type: ignore[misc]


# Each with one fault alone: the same seeds without it find nothing (the test at the end).
FOUND_BY: dict[str, tuple[str, tuple[int, ...]]] = {
    "clocks_go_at_one_rate": ("clocks", (10,)),
    "asked_often_enough": ("late creates", (12,)),
    "lists_are_believed": ("late lists", (3,)),
}


def wrong_clocks() -> None:
    """tests/sim: nodes whose clocks go at other rates."""
    _live("clocks_go_at_one_rate")


def late_creates() -> None:
    """tests/sim: creates that arrive when others have long gone on."""
    _live("asked_often_enough")


def late_lists() -> None:
    """tests/sim: lists that lag far behind."""
    _live("lists_are_believed")


def _live(variant: str) -> None:
    fault, seeds = FOUND_BY[variant]
    for seed in seeds:
        _judge(lambda seed=seed: run_bucket_life(seed, {fault}))  # type: ignore[misc]


def set_clocks() -> None:
    """tests/sim: a cluster in which nothing happens but to clocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "REST_S", 0.001)
        for seed in (28, 12):  # answers come from threads, so one seed is not quite the same life each time
            _judge(lambda seed=seed: run_cluster_seed(seed, "bucket"))  # type: ignore[misc]


def sighted() -> None:
    """tests/unit: a clock that is set between two looks at the others."""
    _judge(test_sightings.test_a_clock_that_is_set_here_ends_no_lease_and_makes_none_longer)


def coming() -> None:
    """tests/conformance: a node that comes with a clock that is hours ahead."""
    _run(clocks.test_on_a_bucket_a_node_that_comes_with_a_wrong_clock_takes_nobody_for_dead, 3 * clocks.HOUR_MS)


def late() -> None:
    """tests/unit: an answer that came late."""
    _run(nodes.test_an_answer_that_came_late_proves_nothing_of_the_time_it_took)


def stood_still() -> None:
    """tests/unit: who stood still for long."""
    _run(nodes.test_who_stood_still_for_long_is_not_deceived_by_a_slot_that_was_removed)


def no_end() -> None:
    """tests/unit: who stood still for long, and reads."""
    _run(nodes.test_who_stood_still_for_long_does_not_take_a_gap_for_the_end)


def young() -> None:
    """tests/unit: what was there for less than an hour."""
    _run(nodes.test_what_was_there_for_less_than_an_hour_is_not_removed)


def old() -> None:
    """tests/unit: a snapshot of a node that stood still."""
    _run(nodes.test_a_snapshot_of_a_node_that_stood_still_does_not_become_the_newest)


def fenced() -> None:
    """tests/unit: who lost its shards to somebody it has not heard of."""
    _run(nodes.test_who_lost_its_shards_is_fenced_by_the_slot_that_took_them)


def read() -> None:
    """tests/unit: what one node writes the others read."""
    _run(nodes.test_what_one_node_writes_the_others_read)


def prompt() -> None:
    """tests/conformance: a job that another node added."""
    _run(hints.test_on_a_bucket_a_job_added_by_another_node_begins_at_once_where_links_are_up)


def unlinked() -> None:
    """tests/conformance: a job that another node added, and that nobody could be told of."""
    _run(hints.test_on_a_bucket_a_job_begins_within_a_round_where_no_link_is_up)


def handed() -> None:
    """tests/conformance: what a node hands over when it stops."""
    _run(hints.test_on_a_bucket_what_a_node_hands_over_when_it_stops_is_taken_at_once)


def few() -> None:
    """tests/conformance: many jobs for one node."""
    with pytest.MonkeyPatch.context() as patch:
        _run(hints.test_on_a_bucket_many_jobs_for_one_node_are_said_by_few_requests, patch)


def fair() -> None:
    """tests/unit: nodes that all write all the time."""
    _judge(lambda: test_courtesy.test_of_nodes_that_all_write_all_the_time_each_has_its_share(3, 0.2, 1))


def whole() -> None:
    """tests/unit: what somebody else removed."""
    _run(unit.test_what_wakeful_did_not_remove_is_missed, "slots/000000000003")


def strangers() -> None:
    """tests/unit: what somebody else put there."""
    _run(enemy.test_other_objects_in_the_prefix_are_nobody_s_business)


def bombs() -> None:
    """tests/unit: what is small in the bucket and large in memory."""
    _judge(enemy.test_a_chunk_is_unpacked_no_further_than_a_chunk_goes)


def killed() -> None:
    """tests/unit: killed at every request."""
    _run(unit.test_killed_at_every_request_nothing_that_was_acknowledged_is_lost, None)


def chunks() -> None:
    """tests/unit: chunks that others may have removed."""
    _run(unit.test_chunks_that_others_may_have_removed_are_sent_again)


def lost() -> None:
    """tests/unit: a create whose answer was lost."""
    _judge(test_bucket_storage.test_a_create_whose_answer_was_lost_finds_that_it_was_done)


def away() -> None:
    """tests/unit: a bucket that is away for a while."""
    _run(unit.test_a_bucket_that_is_away_is_said_to_be_and_comes_back, None)


def told() -> None:
    """tests/unit: a node of which another process has the local file."""
    _run(nodes.test_who_has_the_file_of_a_node_that_died_tells_the_others_and_believes_one_that_renews_its_lease)


def buried() -> None:
    """tests/unit: a node that died with its local file, or could not leave."""
    _run(nodes.test_a_node_that_died_with_a_local_file_is_known_to_be_dead_to_whoever_has_the_file_next)


def _run(test: Any, *more: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "REST_MAX_S", 0.002)
        patch.setattr(storage, "REST_S", 0.001)
        _judge(lambda: asyncio.run(test(Path(folder), *more)))


def _judge(test: Callable[[], Any]) -> None:
    """Whatever it says is that it failed."""
    try:
        test()
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"{error}") from error


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "no_floor_is_looked_at": (stood_still, no_end, life),
    "clocks_go_at_one_rate": (wrong_clocks,),
    "asked_often_enough": (late_creates,),
    "lists_are_believed": (late_lists,),
    "leases_end_by_the_clock_on_the_wall": (set_clocks, sighted),
    "long_dead_by_its_own_clock": (coming,),
    "a_death_is_told_to_nobody": (told, buried),
    "whoever_closes_has_left": (buried,),
    "proven_when_the_answer_came": (late,),
    "a_young_slot_is_removed": (young,),
    "acknowledged_out_of_order": (life,),
    "a_blind_retry_of_a_create": (lost, life),
    "equal_bodies": (life,),
    "no_second_check_after_a_lost_race": (fenced,),
    "nobody_looks_before_it_says_no": (read,),
    "nobody_is_asked_to_look": (prompt, handed),
    "rounds_wait_to_be_asked": (unlinked,),
    "each_hint_is_a_request": (few,),
    "everybody_is_asked_to_look": (few,),
    "the_quickest_takes_it_all": (fair,),
    "a_gap_is_taken_for_the_end": (whole,),
    "strangers_are_slots": (strangers,),
    "bombs_are_unpacked": (bombs,),
    "the_manifest_comes_first": (killed,),
    "chunks_of_others_are_trusted": (chunks,),
    "an_old_copy_becomes_the_newest_snapshot": (old,),
    "the_file_is_ahead": (away,),
}
TEETH = Teeth(
    broken_buckets,
    BROKEN,
    shown=(
        life,
        wrong_clocks,
        late_creates,
        late_lists,
        set_clocks,
        sighted,
        coming,
        late,
        old,
        stood_still,
        no_end,
        young,
        fenced,
        read,
        prompt,
        unlinked,
        handed,
        few,
        fair,
        whole,
        strangers,
        bombs,
        killed,
        chunks,
        lost,
        away,
    ),
)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


@pytest.mark.parametrize("variant", FOUND_BY)
def test_it_is_the_fault_that_the_mistake_is_found_by(variant: str) -> None:
    """Without it the same seeds see nothing wrong: else the fault would prove nothing."""
    with getattr(broken_buckets, variant)():
        for seed in FOUND_BY[variant][1]:
            run_bucket_life(seed, ())
