"""A workflow in a trace: a span for each attempt of a step, and a trace of its own behind each sleep, linked to the one before."""

from typing import Any

from tests.conformance.mill import Mill
from tests.telemetry.spans_seen import Watch
from wakeful import RetryPolicy, Step, fixed


async def test_each_attempt_is_a_span_and_behind_a_sleep_begins_a_linked_trace() -> None:
    mill = Mill()

    async def flaky() -> str:
        if mill.did["flaky"] < 1:
            await mill.do("flaky")
            raise OSError("not yet")
        return await mill.do("flaky")

    async def body(flow: Any, step: Step) -> Any:
        await step("first", mill.do, "first")
        await step.sleep("long", "3d")
        await step("flaky", flaky, retry=RetryPolicy(3, fixed("1h")))
        await step.wait_for("go")
        return await step("last", mill.do, "last")

    mill.body = body
    watch = Watch(mill.app)
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(days=4)
        await flow.send("go")
        await world.settle()
    first, last = watch.one("step Flow.first"), watch.one("step Flow.last")
    failed, again = watch.named("step Flow.flaky")
    assert (failed.is_failed, again.is_failed) == (True, False)
    assert failed.about["wakeful.run_id"] == again.about["wakeful.run_id"] != first.about["wakeful.run_id"]
    assert [one.about["wakeful.attempt"] for one in (first, failed, again, last)] == [0, 0, 1, 0]
    started, sent = watch.one("call Flow.start"), watch.one("call Flow.send")
    assert first.trace == started.trace  # it went on at once
    assert last.trace == sent.trace  # the event is why it goes on
    assert len({one.trace for one in (first, failed, again, last)}) == 4
    fires = watch.named("fire Flow.workflow")
    assert [one.linked for one in fires] == [[], [first.trace], [failed.trace], []]
    for fire, of in zip(fires, (first, failed, again, last), strict=True):
        run = next(one for one in watch.named("turn Flow.workflow") if one.parent == fire.id)
        assert of.parent == run.id
        assert of.trace == fire.trace
