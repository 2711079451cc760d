"""Each mistake of `broken_bindings.py` is caught by the suites named beside it, which pass when nothing is broken."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compat import test_bindings_assets as assets
from tests.compat import test_bindings_d1 as d1
from tests.compat import test_bindings_kv as kv
from tests.compat import test_bindings_queues as queues
from tests.compat import test_bindings_workflows as workflows
from tests.compat import test_workflow_instances as instances
from tests.compat.workers_stage import write_worker
from tests.teeth import broken_bindings
from tests.teeth.catching import Catcher, Teeth, run_test


def in_folder(suite: Any, test: Callable[..., Any]) -> None:
    """A test of that suite, with a folder that its Worker is in."""
    with tempfile.TemporaryDirectory() as made:
        run_test(test, write_worker(Path(made), suite.CODE, suite.WRANGLER))


def expired() -> None:
    """tests/compat: entries that have expired."""
    in_folder(kv, kv.test_what_has_expired_is_not_read_while_its_rows_are_there)


def replaced() -> None:
    """tests/compat: values of many parts."""
    in_folder(kv, kv.test_a_value_of_25_mib_crosses_nodes_in_parts_and_leaves_none_behind)


def crashed() -> None:
    """tests/compat: a process that dies while a batch is handled."""
    in_folder(queues, queues.test_a_process_that_dies_in_the_handler_loses_no_message)


def batched() -> None:
    """tests/compat: a batch of which a statement fails."""
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "migrations").mkdir()
        (Path(made) / "migrations" / "0001_items.sql").write_text(d1.FIRST)
        run_test(d1.test_a_batch_is_one_transaction, write_worker(Path(made), d1.CODE, d1.WRANGLER))


def outside() -> None:
    """tests/compat: paths and links that lead out of the folder."""
    with tempfile.TemporaryDirectory() as made:
        run_test(assets.test_nothing_outside_the_folder_is_served, Path(made).resolve())


def shared() -> None:
    """tests/compat: steps that several depend on."""
    with tempfile.TemporaryDirectory() as made:
        run_test(workflows.test_dependencies_are_done_once_and_their_results_are_arguments, Path(made))


def paused() -> None:
    """tests/compat: a workflow that is paused in a sleep."""
    with tempfile.TemporaryDirectory() as made:
        run_test(instances.test_a_pause_stops_the_clock, Path(made))


def kept() -> None:
    """tests/compat: workflows that are over, and one that was restarted."""
    with tempfile.TemporaryDirectory() as made:
        run_test(instances.test_one_that_goes_on_again_is_not_forgotten_for_its_first_end, Path(made))


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "an_entry_is_read_until_its_alarm_rings": (expired,),
    "a_message_is_done_before_its_handler_ended": (crashed,),
    "a_batch_is_a_transaction_for_each_statement": (batched,),
    "a_value_that_is_replaced_leaves_its_parts": (replaced,),
    "links_lead_out_of_the_folder": (outside,),
    "a_dependency_is_done_for_each_that_needs_it": (shared,),
    "a_pause_lets_the_clock_of_a_workflow_run": (paused,),
    "a_workflow_that_was_restarted_goes_with_its_first_end": (kept,),
}
TEETH = Teeth(broken_bindings, BROKEN)


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_suites_pass_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_a_mistake_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_its_suite() -> None:
    TEETH.check_complete()
