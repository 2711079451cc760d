"""Each mistake of `broken_gates.py` is caught by the test of gates beside it, which passes when nothing is broken."""

import tempfile
from pathlib import Path

import pytest

from tests.compat import test_events as events
from tests.compat import test_gates as gates
from tests.compat import test_rpc as rpc
from tests.compat.workers_stage import write_worker
from tests.teeth import broken_gates
from tests.teeth.catching import Catcher, Teeth, run_test


def _played(test: Catcher, code: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_test(test, write_worker(Path(folder), code))


def leaving() -> None:
    """tests/compat: a call waits for the disk."""
    _played(gates.test_a_call_of_another_object_waits_for_the_disk, gates.CODE)


def blocked() -> None:
    """tests/compat: a section is undisturbed."""
    _played(gates.test_nothing_begins_or_goes_on_while_concurrency_is_blocked, gates.CODE)


def reading() -> None:
    """tests/compat: a read is undisturbed."""
    _played(gates.test_nothing_begins_while_storage_is_read, gates.CODE)


def raising() -> None:
    """tests/compat: a raise keeps the writes."""
    _played(events.test_a_raise_keeps_the_writes_and_reaches_the_caller, events.CODE)


def refused() -> None:
    """tests/compat: a commit that is refused."""
    _played(gates.test_nothing_leaves_when_its_commit_is_refused_and_the_object_is_made_anew, gates.CODE)


def giving_up() -> None:
    """tests/compat: a caller that gives up."""
    _played(gates.test_what_was_put_stays_when_the_caller_gives_up_and_the_event_goes_on, gates.CODE)


def lent() -> None:
    """tests/compat: what a lent function answers."""
    _played(rpc.test_what_a_lent_function_answers_waits_for_the_disk, rpc.CODE)


def forged() -> None:
    """tests/compat: data that looks like a loan."""
    _played(rpc.test_data_that_looks_like_ours_is_data, rpc.CODE)


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "what_leaves_waits_for_nothing": (leaving,),
    "the_gate_is_always_open": (blocked,),
    "reads_leave_the_gate_open": (reading,),
    "a_raise_undoes": (raising,),
    "memory_outlives_a_refused_commit": (refused,),
    "a_lent_function_answers_at_once": (lent,),
    "data_is_taken_for_a_loan": (forged,),
    "a_caller_that_gives_up_takes_its_event_along": (giving_up,),
}
TEETH = Teeth(broken_gates, BROKEN)


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
