"""Whether what a workflow says is true and names what was wrong: found by people who had only read its pages."""

import logging
from typing import Any

import pytest

from tests.conformance.mill import Mill, outcome
from wakeful import App, Queue, RetryPolicy, Step, Workflow, errors
from wakeful.workflows.records import load, save
from wakeful.workflows.settlement import end


async def test_what_it_is_started_with_is_the_same_by_place_and_by_name() -> None:
    app = App()

    @app.object
    class Order(Workflow):
        async def run(self, step: Step, item: str, count: int = 1) -> str:
            return f"{count} {item}"

    async with app.world() as world:
        order = world.get(Order, "1")
        await order.start("tea", 2)
        await world.settle()
        for again in (order.start("tea", count=2), order.start(count=2, item="tea"), order.start("tea", 2)):
            assert (await again).state == "done"
        for other in (order.start("tea"), order.start("tea", count=3), order.start(count="tea", item=2)):
            with pytest.raises(errors.Conflict) as caught:
                await other
            assert caught.value.code == "workflow.started"
        assert await order.result() == "2 tea"


@pytest.mark.parametrize("how", ["raises", "step"])
async def test_who_is_cancelled_and_ends_ill_says_so(how: str) -> None:
    mill = Mill()
    undone: list[Any] = []

    async def refuse() -> None:
        raise OSError("no key")

    async def body(flow: Any, step: Step) -> Any:
        await step("one", mill.do, "one", undo=undone.append)
        try:
            await step.wait_for("never")
        finally:
            if how == "raises":
                raise ValueError("half way out")
            await step("release", refuse, retry=RetryPolicy(1))

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.cancel()
        await world.settle()
        why = {
            "raises": "its body ended with ValueError: half way out",
            "step": "its body ended with StepFailed: step 'release': OSError: no key",
        }[how]
        status = await flow.status()
        assert (status.state, status.error) == ("cancelled", why)
        assert await outcome(flow) == f"WorkflowCancelled: Flow/a was cancelled: {why}"
        assert undone == ["did one"], "and what was done is undone all the same"

        await flow.restart()
        await world.settle()
        assert (await flow.status()).error is None


async def test_one_that_failed_and_is_undone_was_cancelled_and_no_more() -> None:
    mill = Mill()

    async def refuse() -> None:
        raise OSError("no key")

    async def body(flow: Any, step: Step) -> Any:
        await step("pay", refuse, retry=RetryPolicy(1))

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.cancel()
        await world.settle()
        assert await outcome(flow) == "WorkflowCancelled: Flow/a was cancelled"
        assert (await flow.status()).error is None


async def test_nothing_waits_in_one_that_was_ended_where_it_was() -> None:
    app = App()

    @app.object
    class Nap(Workflow):
        async def run(self, step: Step) -> None:
            await step.sleep("nap", "1h")

        async def end_here(self) -> None:
            turn, _ = self._here("end_here")
            record = await load(turn)
            assert record is not None
            end(turn, record, "cancelled", None)
            save(turn, record)

    async with app.world() as world:
        nap = world.get(Nap, "1")
        await nap.start()
        await world.settle()
        assert [(one.state, one.wake_at is None) for one in await nap.steps()] == [("waiting", False)]
        await nap.end_here()
        assert [(one.state, one.wake_at is None) for one in await nap.steps()] == [("left", True)]


async def test_errors_name_what_was_wrong(caplog: pytest.LogCaptureFixture) -> None:
    mill = Mill()

    async def refuse(value: Any) -> None:
        raise OSError("no")

    async def wrong(flow: Any, step: Step) -> Any:
        await step("one", mill.do, "one", undo="undo it")  # type: ignore[call-overload]

    async def right(flow: Any, step: Step) -> Any:
        await step("one", mill.do, "one", undo=refuse, retry=RetryPolicy(1))
        await step.wait_for("never")

    async with mill.world() as world:
        mill.body = wrong
        flow = world.get(mill.Flow, "wrong")
        with pytest.raises(errors.Conflict, match="start it first"):
            await flow.send("go")
        await flow.start()
        await world.settle()
        assert (await flow.status()).error == "BadHandler: step 'one': undo must be a function, not 'undo it'"
        with pytest.raises(errors.Conflict, match="is failed; retry it, or restart it"):
            await flow.resume()
        with pytest.raises(errors.BadOption, match="the name of an event: 5 is no text"):
            await flow.send(5)

        mill.body = right
        flow = world.get(mill.Flow, "right")
        await flow.start()
        await world.settle()
        with pytest.raises(errors.Conflict, match="Flow/right is waiting; only one that failed"):
            await flow.retry()
        with caplog.at_level(logging.WARNING):
            await flow.cancel()
            await world.settle()
        assert "Flow/right: undo 'one' failed for good, attempt 1: OSError: no" in caplog.text


@pytest.mark.parametrize("rate", ["5/x", "5/10q", "abc", 5])
def test_a_rate_that_is_none_is_named_as_it_was_written(rate: Any) -> None:
    with pytest.raises(errors.BadOption) as caught:
        Queue("mail", rate=rate)
    assert caught.value.code == "queue.rate"
    assert f"rate={rate!r}: write it like '100/m'" in str(caught.value)
