"""Each mistake of `broken_workflows.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio
import logging

import pytest

from tests.conformance import test_workflows, test_workflows_acts, test_workflows_changed
from tests.conformance import test_workflows_edges as edges
from tests.conformance import test_workflows_queues as queues
from tests.conformance import test_workflows_rehearsal as rehearsals
from tests.conformance import test_workflows_watch as watching
from tests.model.test_workflow_model import compare
from tests.sim.workflow_life import calm, unsure
from tests.teeth import broken_workflows
from tests.teeth.catching import Catcher, Teeth, run_test


def probes() -> None:
    """tests/sim: a crash at every probe."""
    for probe in range(3, 120, 4):
        run_test(calm, probe)


def commits() -> None:
    """tests/sim: commits whose answer is lost."""
    for n in range(2, 20, 2):
        run_test(unsure, n, "after")
        run_test(unsure, n, "before")


def models() -> None:
    """tests/model: random bodies, with crashes."""

    async def all_of_them() -> None:
        for seed in range(12):
            await compare(seed, troubles=True, cancelled=False)
            await compare(seed, troubles=False, cancelled=True)

    run_test(all_of_them)


def early() -> None:
    """tests/conformance: an event that comes early."""
    run_test(test_workflows.test_an_event_that_comes_early_is_kept_and_one_that_comes_late_wakes_it, "memory:")


def changes() -> None:
    """tests/conformance: changed code."""
    for change in test_workflows_changed.CHANGES:
        run_test(test_workflows_changed.test_it_is_seen_parked_and_goes_on_with_the_old_code, change)


def undone() -> None:
    """tests/conformance: a cancelled one."""
    run = test_workflows_acts.test_a_cancelled_one_runs_its_finally_blocks_and_undoes_its_steps_last_first
    run_test(run, "memory:", False)


def retries() -> None:
    """tests/conformance: what a failure led to."""
    run_test(test_workflows_acts.test_a_retry_forgets_what_the_failure_led_to_and_nothing_that_was_beside_it)


def taken() -> None:
    """tests/conformance: an event whose waiter has gone."""
    run_test(test_workflows_acts.test_an_event_that_a_forgotten_step_took_is_there_again)
    run_test(left_at_once)


def places() -> None:
    """tests/conformance: no more under way than the queue allows."""
    run_test(queues.test_no_more_are_under_way_than_the_queue_allows_asleep_or_not, "memory:")


def queue_trips() -> None:
    """tests/conformance: workflows of a queue, killed at each trip to disk."""
    run_test(queues.crashed_at_each_trip)


def published() -> None:
    """tests/conformance: what is published reaches who watches, once."""
    run_test(watching.test_each_value_comes_as_it_is_published_and_then_the_end, "memory:")


class _Log(logging.Handler):
    """As much of pytest's `caplog` as these tests ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def clear(self) -> None:
        self.records.clear()


def rehearsed() -> None:
    """tests/conformance: a clock in a body is found."""
    log, logger = _Log(), logging.getLogger("wakeful.workflow")
    logger.addHandler(log)
    try:
        run_test(rehearsals.test_it_says_where_two_runs_part_once_for_each_place, "clock", log)
    finally:
        logger.removeHandler(log)


def rooms() -> None:
    """tests/conformance: what is too much for one commit."""
    with pytest.MonkeyPatch.context() as patch:
        run_test(edges.test_what_is_too_much_for_one_commit_goes_with_the_next, patch)


async def left_at_once() -> None:
    """An event and the end of the patience for it come in one turn: the next who waits gets it."""
    mill = test_workflows.Mill()

    async def body(flow: object, step: test_workflows.Step) -> object:
        first = asyncio.ensure_future(step.wait_for("n"))
        await asyncio.wait([first, asyncio.ensure_future(step.wait_for("stop"))], return_when="FIRST_COMPLETED")
        first.cancel()
        return await step.wait_for("n", timeout="1d")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.pause()
        await flow.send("stop")
        await flow.send("n", 5)
        await flow.resume()
        await world.advance(days=2)
        assert await flow.result() == 5


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "a_result_in_a_commit_of_its_own": (probes,),
    "the_second_of_two_equal_names_answers_the_first": (probes,),
    "an_event_that_came_early_is_lost": (early, models),
    "what_undoes_a_step_runs_twice": (undone, models),
    "what_undoes_runs_first_to_last": (undone, models),
    "results_are_handed_over_in_the_order_of_asking": (models,),
    "changed_code_is_not_looked_at": (changes,),
    "a_body_does_not_begin_where_one_that_was_dropped_still_ends": (commits,),
    "a_wait_that_was_left_keeps_its_event": (taken,),
    "a_retry_forgets_only_the_step_that_failed": (retries,),
    "a_workflow_that_ends_keeps_its_place": (places,),
    "a_queue_is_asked_after_the_commit": (queue_trips,),
    "a_watcher_goes_on_behind_the_next": (published,),
    "a_second_run_is_not_asked_with_what": (rehearsed,),
    "one_commit_takes_everything": (rooms,),
}
TEETH = Teeth(
    broken_workflows, BROKEN, shown=(probes, commits, models, places, queue_trips, published, rehearsed, rooms)
)


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str) -> None:
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
