"""Each mistake of `broken_sql.py` is caught by the suites named beside it, which pass when nothing is broken."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compat import test_sync_storage as sync_storage
from tests.conformance import conftest as stages
from tests.conformance import test_sql as sql
from tests.conformance import test_sql_carried as carried
from tests.conformance import test_sql_pages as pages
from tests.conformance.cluster_stage import Troupe
from tests.teeth import broken_sql
from tests.teeth.catching import Catcher, Teeth, run_test
from tests.unit import test_object_rows as object_rows


def on_stage(test: Callable[[Any], Any]) -> None:
    """A test of tests/conformance, in memory, with the engine that a program would have here."""
    stages._stages.append(stages.Stage("memory:"))
    try:
        run_test(test, stages._stages[-1])
    finally:
        stages._stages.pop()


def cluster() -> Any:
    troupe = Troupe()
    return troupe, troupe.app.world(nodes=3)


def undone() -> None:
    """tests/conformance: a turn that raises."""
    on_stage(sql.test_a_turn_that_raises_undoes_its_sql_and_makes_the_object_anew)


def behind() -> None:
    """tests/conformance: turns that wait behind one that raises."""
    on_stage(sql.test_turns_behind_one_that_raises_do_not_meet_its_sql)


def refused() -> None:
    """tests/conformance: a turn whose commit fails."""
    on_stage(sql.test_a_turn_whose_commit_fails_leaves_nothing)


def fenced() -> None:
    """tests/conformance: a turn whose shard is another's by now."""
    on_stage(lambda stage: carried.test_a_turn_whose_shard_is_another_s_leaves_no_page(cluster))


def late_on_its_way() -> None:
    """tests/conformance: pages that are read while a commit is on its way."""
    on_stage(pages.test_what_a_turn_changed_is_not_read_from_the_store)


def late_undone() -> None:
    """tests/conformance: pages that are read after a turn that raised."""
    on_stage(pages.test_what_is_read_after_an_undone_turn_is_as_it_was)


def late_shrunk() -> None:
    """tests/conformance: a database that shrinks and grows."""
    on_stage(pages.test_a_page_that_was_given_back_is_written_again)


def late_elsewhere() -> None:
    """tests/conformance: a turn that reads on while its shard is another's."""
    on_stage(lambda stage: pages.test_a_node_that_lost_its_shard_never_meets_the_pages_of_the_next_owner(cluster))


def late_gone() -> None:
    """tests/conformance: a page that can't be read."""
    on_stage(pages.test_a_page_that_is_gone_fails_the_turn_that_needs_it)


def sizes() -> None:
    """tests/conformance: how large it is after a turn that raises."""
    on_stage(sql.test_an_undone_turn_leaves_the_size_as_it_was)


def shrinking() -> None:
    """tests/conformance: fewer pages than before."""
    on_stage(sql.test_vacuum_gives_back_what_was_deleted)


def apart() -> None:
    """tests/conformance: commits that are lost."""
    on_stage(lambda stage: carried.test_rows_and_pages_are_never_apart("memory:", "before"))


def readers() -> None:
    """tests/conformance: readers beside a turn."""
    on_stage(sql.test_a_reader_never_sees_a_turns_uncommitted_pages)


def wiped() -> None:
    """tests/conformance: delete_all."""
    on_stage(sql.test_delete_all_empties_the_database)


def savepoints() -> None:
    """tests/conformance: ctx.transaction()."""
    on_stage(sql.test_a_transaction_spans_rows_and_sql_and_undoes_both)


def given_up() -> None:
    """tests/compat: an event whose transaction SQLite gave up."""
    with tempfile.TemporaryDirectory() as folder:
        work = sync_storage.test_what_an_event_did_before_sqlite_gave_it_up_is_undone_even_when_it_raises(Path(folder))
        on_stage(lambda stage: work)


def gathered() -> None:
    """tests/unit: rows that are gathered while a commit is on its way."""
    on_stage(lambda stage: object_rows.test_what_is_on_its_way_to_the_disk_counts(True))


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "the_connection_outlives_an_undone_turn": (behind,),
    "the_connection_outlives_a_fence": (refused, fenced),
    "the_size_is_not_undone": (sizes,),
    "pages_are_written_outside_the_commit": (apart,),
    "a_reader_sees_pages_of_a_running_turn": (readers,),
    "the_first_page_is_written_once": (shrinking,),
    "a_changed_page_is_read_from_the_store_again": (late_on_its_way,),
    "pages_past_the_end_are_kept": (late_shrunk,),
    "an_undone_turn_leaves_its_pages_among_those_that_are_read": (late_undone,),
    "pages_that_others_may_write_are_read_late": (late_elsewhere,),
    "sqlite_is_not_told_that_a_page_could_not_be_read": (late_gone,),
    "a_turn_that_wrote_only_sql_wrote_nothing": (undone,),
    "delete_all_leaves_the_database": (wiped,),
    "a_savepoint_is_for_rows_only": (savepoints,),
    "an_event_of_a_worker_is_kept_though_sqlite_gave_it_up": (given_up,),
    "rows_are_gathered_from_the_disk_alone": (gathered,),
}
TEETH = Teeth(broken_sql, BROKEN, beside={"_write"})


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_suites_pass_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_a_mistake_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_its_suite() -> None:
    TEETH.check_complete()
