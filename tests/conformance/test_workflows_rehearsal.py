"""A body that would take another way when it runs again is found while it is written, and one that would not is left alone."""

import asyncio
import itertools
import random
import time
from typing import Any

import pytest

from tests.conformance.mill import Mill
from tests.model.workflow_model import Author, Outside, perform, verdict
from wakeful import ContinueAsNew, RetryPolicy, Step, Workflow, fixed
from wakeful.cli.program import rehearse


async def said_of(body: Any, caplog: pytest.LogCaptureFixture, count: int = 1) -> list[str]:
    mill = Mill()
    mill.body = body
    caplog.clear()
    async with mill.world() as world:
        rehearse(world.node)
        for n in range(count):
            await world.get(mill.Flow, f"a{n}").start()
        await world.advance(days=2)
    return [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "workflow.parted"]


async def _work(given: Any = None) -> Any:
    return given


async def _clock(flow: Any, step: Step) -> Any:
    await step("first", _work)
    await step("mail", _work, time.perf_counter_ns())


async def _dice(flow: Any, step: Step) -> Any:
    await step("first", _work)
    await step(f"way {random.random()}", _work)


_calls = itertools.count()


async def _outside(flow: Any, step: Step) -> Any:
    if next(_calls) % 2:
        await step("odd", _work)


async def _sleeps(flow: Any, step: Step) -> Any:
    await step.sleep("long", f"{next(_calls) + 5}s")


async def _answer(flow: Any, step: Step) -> Any:
    await step("first", _work)
    return time.perf_counter_ns()


async def _memory(flow: Any, step: Step) -> Any:
    flow.seen = [*getattr(flow, "seen", []), 1]
    await step("first", _work)
    await step("count", _work, len(flow.seen))


WRONG = {
    "clock": (_clock, "step 'mail' (step 2) is given"),
    "dice": (_dice, "where it asked for step 'way 0."),
    "outside": (_outside, "step 'odd' (step 1)"),
    "sleeps": (_sleeps, "sleep 'long' (step 1) is given"),
    "answer": (_answer, "it ends with ['done', "),
    "memory": (_memory, "step 'count' (step 2) is given [[1], {}] and then [[2], {}]"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_it_says_where_two_runs_part_once_for_each_place(what: str, caplog: pytest.LogCaptureFixture) -> None:
    body, wanted = WRONG[what]
    said = await said_of(body, caplog, 3)
    assert said
    assert wanted in said[0]
    assert "step.now()" in said[0]
    if what in ("memory", "outside"):
        assert len(said) == 1


async def test_one_that_is_right_is_left_alone_and_runs_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step, n: int) -> Any:
        new = step.patched("new")
        await step("first", mill.do, "first")
        await step.sleep("a bit", "1h")
        new = step.patched("later") and new
        left, right = await asyncio.gather(step("l", _work, step.random()), step("r", _work, step.now()))
        await step.publish([str(step.uuid()), left, right.isoformat(), new])
        try:
            await step.wait_for("never", timeout="2h")
        except TimeoutError:
            await step("flaky", flaky, retry=RetryPolicy(3, fixed("1m")))
        child = await step.start(mill.Part, f"{flow.key}/{n}")
        await child.result()
        return ContinueAsNew(n - 1) if n else await step.call(flow.ctx.get(mill.Stock, "s").left)

    async def flaky() -> None:
        await mill.do("flaky")
        if mill.did["flaky"] % 2:
            raise OSError("no")

    mill.body = body
    async with mill.world() as world:
        rehearse(world.node)
        await world.get(mill.Flow, "a").start(2)
        await world.advance(days=2)
        assert await world.get(mill.Flow, "a").result() == 10
        assert mill.did == {"first": 3, "flaky": 6}
    assert not [record for record in caplog.records if getattr(record, "code", "") == "workflow.parted"]


async def test_random_bodies_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(12):
        mill = Mill()
        tree, outside = Author(seed).write(), Outside()

        async def body(flow: Workflow, step: Step, tree: Any = tree, outside: Any = outside) -> Any:
            return await verdict(perform(tree, step, outside))

        mill.body = body
        async with mill.world(seed=seed) as entered:
            rehearse(entered.node)
            await entered.get(mill.Flow, "a").start()
            await entered.advance(days=1)
    assert not [record for record in caplog.records if getattr(record, "code", "") == "workflow.parted"]
