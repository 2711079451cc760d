"""Each mistake of `broken_forget.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance import test_forget as forget
from tests.teeth import broken_forget
from tests.teeth.catching import Catcher, Teeth


def _run(test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(SimpleNamespace(url="memory:")))


def whole_store() -> None:
    """tests/conformance: a search of the whole store."""
    _run(forget.test_nothing_of_it_is_left_in_the_whole_store)


def begun_anew() -> None:
    """tests/conformance: called again, it begins anew."""
    _run(forget.test_called_again_it_begins_anew_and_an_old_answer_is_not_given)


def dependents() -> None:
    """tests/conformance: who depends on its jobs."""
    _run(forget.test_who_depends_on_its_jobs_is_cancelled_and_does_not_say_on_whose)


def children() -> None:
    """tests/conformance: the machines that it started."""
    _run(forget.test_the_machines_that_it_started_go_with_it)


def tenant() -> None:
    """tests/conformance: what others keep of it."""
    _run(forget.test_it_counts_for_its_tenant_no_more_and_what_it_claimed_is_nobodys)


def crashes() -> None:
    """tests/conformance: a crash at every step."""
    asyncio.run(forget.test_a_crash_at_every_step_leaves_what_was_or_nothing_and_a_second_run_finishes("app"))


def audited() -> None:
    """tests/conformance: what the audit log says."""
    _run(forget.test_the_audit_log_does_not_name_it_and_knows_it_again)


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "the_ledger_is_left": (whole_store,),
    "remembered_answers_are_left": (whole_store, begun_anew),
    "timers_are_left": (whole_store, dependents),
    "who_waits_for_its_jobs_is_not_told": (dependents,),
    "machines_erase_nothing": (children,),
    "schedules_erase_nothing": (tenant,),
    "what_is_half_gone_is_met": (crashes,),
    "the_audit_log_names_it": (audited,),
}
TEETH = Teeth(
    broken_forget,
    BROKEN,
    beside={"_nothing", "_with_left"},
    shown=(whole_store, begun_anew, dependents, children, tenant, crashes, audited),
)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_it_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_suite() -> None:
    TEETH.check_complete()
