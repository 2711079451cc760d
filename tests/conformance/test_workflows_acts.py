"""What is done to a workflow from outside: paused, cancelled and undone, retried, restarted, forked, forgotten; on every store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mill import Mill, outcome
from wakeful import RetryPolicy, Step, errors, fixed
from wakeful.importers import archive
from wakeful.policy.limits import Limits
from wakeful.store import open_url
from wakeful.values.ids import ObjectId

ONCE = RetryPolicy(1)


async def test_a_paused_one_begins_nothing_keeps_events_and_goes_on(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a while", "1m")
        await step("after", mill.do, "after")
        return await step.wait_for("go")

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert (await flow.pause()).state == "paused"
        assert (await flow.pause()).state == "paused"
        await world.advance(minutes=3)
        await flow.send("go", 5)
        await world.crash()
        await world.restart()
        await world.settle()
        assert mill.did == {}
        assert (await flow.status()).state == "paused"
        await flow.resume()
        await world.settle()
        assert await flow.result() == 5


async def test_a_function_that_runs_when_it_is_paused_comes_to_its_end() -> None:
    mill = Mill()

    async def slow() -> str:
        await asyncio.sleep(60)
        return await mill.do("slow")

    async def body(flow: Any, step: Step) -> Any:
        first = await step("slow", slow)
        return [first, await step("next", mill.do, "next")]

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(seconds=10)
        await flow.pause()
        await world.advance(minutes=10)
        assert mill.did == {"slow": 1}
        await flow.resume()
        await world.settle()
        assert await flow.result() == ["did slow", "did next"]
        assert mill.did["slow"] == 1


@pytest.mark.parametrize("crash", [False, True])
async def test_a_cancelled_one_runs_its_finally_blocks_and_undoes_its_steps_last_first(
    store_url: str, crash: bool
) -> None:
    mill = Mill()
    undone: list[Any] = []

    async def undo(value: Any) -> None:
        await mill.do(f"undo {value}")
        undone.append(value)

    async def body(flow: Any, step: Step) -> Any:
        try:
            await step("one", mill.do, "one", undo=undo)
            await step("none", mill.do, "none")
            await step("two", mill.do, "two", undo=undo)
            await step.sleep("long", "30m")
            await step("never", mill.do, "never", undo=undo)
        finally:
            await step("finally", mill.do, "finally")

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        if crash:
            await world.crash()
            await world.restart()
        await flow.cancel()
        await flow.cancel()
        await world.settle()
        assert await outcome(flow) == "WorkflowCancelled: Flow/a was cancelled"
        assert undone == ["did two", "did one"]
        assert mill.order == ["one", "none", "two", "finally", "undo did two", "undo did one"]
        assert await world.due() == []
        with pytest.raises(errors.Conflict):
            await flow.send("go")


async def test_an_undo_that_fails_is_tried_again_and_the_rest_waits_for_it() -> None:
    mill = Mill()

    async def undo(value: Any) -> None:
        await mill.do(f"undo {value}")
        if value == "did two" and mill.did["undo did two"] < 5:
            raise OSError("not now")

    async def body(flow: Any, step: Step) -> Any:
        await step("one", mill.do, "one", undo=undo)
        await step("two", mill.do, "two", undo=undo, retry=RetryPolicy(3, fixed("10s")))
        await step.sleep("long", "30m")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.cancel()
        await world.advance(minutes=1)
        assert "not now" in await outcome(flow)
        assert (mill.did["undo did two"], mill.did["undo did one"]) == (3, 0)
        await flow.retry()
        await world.advance(minutes=1)
        assert "was cancelled" in await outcome(flow)
        assert (mill.did["undo did two"], mill.did["undo did one"]) == (5, 1)


async def test_a_cancelled_one_cancels_those_that_it_started() -> None:
    mill = Mill()

    async def child(flow: Any, step: Step) -> Any:
        try:
            await step.sleep("long", "30m")
        finally:
            await step("clean", mill.do, "clean")

    async def body(flow: Any, step: Step) -> Any:
        part = await step.start(mill.Part, "p")
        await part.result()

    mill.body, mill.child = body, child
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.cancel()
        await world.settle()
        assert (await flow.status()).state == "cancelled"
        assert (await world.get(mill.Part, "p").status()).state == "cancelled"
        assert mill.did == {"clean": 1}


async def test_one_that_failed_goes_on_from_the_step_that_failed(store_url: str) -> None:
    mill = Mill()
    broken = True

    async def work() -> str:
        await mill.do("work")
        if broken:
            raise OSError("down")
        return "worked"

    async def body(flow: Any, step: Step) -> Any:
        first = await step("first", mill.do, "first")
        beside, found = await asyncio.gather(step("beside", mill.do, "beside"), step("work", work, retry=ONCE))
        return [first, beside, found, await step("last", mill.do, "last")]

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert "down" in await outcome(flow)
        broken = False
        await world.crash()
        await world.restart()
        assert (await flow.retry()).state == "running"
        await world.settle()
        assert await flow.result() == ["did first", "did beside", "worked", "did last"]
        assert mill.did == {"first": 1, "beside": 1, "work": 2, "last": 1}


async def test_a_retry_forgets_what_the_failure_led_to_and_nothing_that_was_beside_it() -> None:
    mill = Mill()
    broken = True

    async def work() -> str:
        if broken:
            raise OSError("down")
        return "worked"

    async def body(flow: Any, step: Step) -> Any:
        async def waiter() -> Any:
            return await step.wait_for("n")

        async def worker() -> Any:
            try:
                return await step("work", work, retry=ONCE)
            except errors.StepFailed:
                await step("log", mill.do, "log")
                raise

        async with asyncio.TaskGroup() as group:
            one, two = group.create_task(waiter()), group.create_task(worker())
        return [one.result(), two.result()]

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert (await flow.status()).state == "failed"
        broken = False
        await flow.retry()
        await world.settle()
        await flow.send("n", 4)
        await world.settle()
        assert await flow.result() == [4, "worked"]
        assert mill.did == {"log": 1}


async def test_an_event_that_a_forgotten_step_took_is_there_again() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        name = await step.wait_for("name")
        await step("greet", mill.do, f"greet {name}")
        raise ValueError("and then it broke") if mill.did["greet ann"] < 2 else StopAsyncIteration

    async def good(flow: Any, step: Step) -> Any:
        name = await step.wait_for("name")
        return await step("greet", mill.do, f"greet {name}")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.send("name", "ann")
        await world.settle()
        assert (await flow.status()).state == "failed"
        mill.body = good
        await flow.retry(from_step="name")
        await world.settle()
        assert await flow.result() == "did greet ann"
        assert mill.did == {"greet ann": 2}
        with pytest.raises(errors.Conflict):
            await flow.retry()


async def test_a_restart_begins_from_the_top_with_the_same_input(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step, n: int) -> Any:
        await step("one", mill.do, "one", step)
        await step.sleep("a while", "1m")
        return n

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start(7)
        await world.settle()
        await flow.restart()
        await world.advance(minutes=1)
        assert await flow.result() == 7
        await flow.restart()
        await world.settle()
        await world.crash()
        await world.restart(after="2m")
        await world.settle()
        assert await flow.result() == 7
        assert mill.did == {"one": 3}
        assert len(mill.runs["one"]) == 3  # each is another


async def test_a_fork_has_what_was_before_and_leaves_the_first_as_it_is(store_url: str) -> None:
    mill = Mill(Limits())

    async def child(flow: Any, step: Step) -> Any:
        await step.sleep("work", "3m")
        return await step("part", mill.do, "part")

    async def body(flow: Any, step: Step) -> Any:
        part = await step.start(mill.Part, "p")
        first = await step("first", mill.do, "first")
        await step.sleep("a while", "1m")
        second = await step("second", mill.do, f"second of {flow.key}")
        return [first, second, await part.result()]

    mill.body, mill.child = body, child
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=2)
        assert await flow.fork("b", from_step="second") == "b"
        await world.advance(minutes=5)
        assert await flow.result() == ["did first", "did second of a", "did part"]
        assert await world.get(mill.Flow, "b").result() == ["did first", "did second of b", "did part"]
        assert mill.did == {"first": 1, "part": 1, "second of a": 1, "second of b": 1}
        with pytest.raises(errors.Conflict):
            await flow.fork("b")
        with pytest.raises(errors.BadOption) as caught:
            await flow.fork("c", from_step="sekond")
        assert "'second'" in caught.value.message


async def test_one_that_is_forgotten_is_gone_and_who_waits_for_it_hears_that(store_url: str) -> None:
    mill = Mill()

    async def child(flow: Any, step: Step) -> Any:
        await step.start(mill.Flow, "grandchild", True)
        await step.sleep("long", "30m")

    async def body(flow: Any, step: Step, is_last: bool = False) -> Any:
        if is_last:
            await step.sleep("long", "30m")
            return None
        part = await step.start(mill.Part, "p")
        try:
            return await part.result()
        except errors.StepFailed as error:
            return error.said

    mill.body, mill.child = body, child
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert await mill.app.forget(mill.Part, "p")
        await world.settle()
        assert await flow.result() == "Part/p was forgotten"
        assert (await world.get(mill.Part, "p").status()).state == "new"
        assert (await world.get(mill.Flow, "grandchild").status()).state == "new"
        assert await world.due() == []


async def test_what_can_not_be_done_as_it_stands_is_a_conflict() -> None:
    mill = Mill()
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        for act in (flow.pause, flow.resume, flow.cancel, flow.retry, flow.restart, flow.result):
            with pytest.raises(errors.Conflict) as caught:
                await act()
            assert caught.value.code == "workflow.unstarted"
        with pytest.raises(errors.Conflict):
            await flow.send("go")
        await flow.start()
        await world.settle()
        for act in (flow.pause, flow.resume, flow.cancel, flow.retry):
            with pytest.raises(errors.Conflict) as caught:
                await act()
            assert caught.value.code == "workflow.state"


async def test_more_events_than_are_kept_are_refused() -> None:
    mill = Mill(Limits(workflow_events=3))

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("long", "30m")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        for n in range(3):
            await flow.send("n", n)
        with pytest.raises(errors.LimitExceeded) as caught:
            await flow.send("n", 3)
        assert caught.value.code == "limit.workflow_events"


async def test_one_that_rests_is_carried_into_another_store(tmp_path: Path) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        first = await step("first", mill.do, "first")
        await step.sleep("a while", "1m")
        return [first, await step.wait_for("go")]

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await flow.send("go", 5)
        await flow.send("more")
        await world.settle()
        at = ObjectId("Flow", "a")
        lines, left = await archive.export(world.store, at, now=world.warp.now())
        assert left == []
        other = open_url(f"sqlite:{tmp_path}/other.db")
        await other.open(now=world.warp.now())
        carried = archive.read(b"".join(lines), "a.jsonl")
        await archive.unpack(other, carried, name="here", now=world.warp.now())
        await other.close()
        start = world.now()
    async with mill.world(store=f"sqlite:{tmp_path}/other.db", start=start) as world:
        flow = world.get(mill.Flow, "a")
        await world.advance(minutes=1)
        assert await flow.result() == ["did first", 5]
        assert mill.did == {"first": 1}


async def test_who_is_retried_asks_those_again_whose_failure_it_was() -> None:
    mill, broken = Mill(), [True]

    async def body(flow: Any, step: Step) -> Any:
        child = await step.start(mill.Part, "p")
        return await child.result()

    async def child(flow: Any, step: Step) -> Any:
        if broken:
            raise ValueError("no")
        return "fine"

    mill.body, mill.child = body, child
    async with mill.world() as world:
        flow, part = world.get(mill.Flow, "a"), world.get(mill.Part, "p")
        await flow.start()
        await world.settle()
        await flow.retry()
        await world.settle()
        assert "ValueError: no" in await outcome(flow)
        broken.clear()
        await part.retry()
        await world.settle()
        await flow.retry()
        await world.settle()
        assert await outcome(flow) == "fine"


@pytest.mark.parametrize("way", ["retry", "fork"])
async def test_a_child_that_was_forgotten_is_not_waited_for(way: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        child = await step.start(mill.Part, "p")
        if way == "fork":
            await step.wait_for("go")
        return await child.result()

    async def child(flow: Any, step: Step) -> Any:
        raise ValueError("no")

    mill.body, mill.child = body, child
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert await mill.app.forget(mill.Part, "p")
        await world.settle()
        if way == "fork":
            await flow.fork("b")
            flow = world.get(mill.Flow, "b")
            await flow.send("go")
        else:
            await flow.retry()
        await world.settle()
        assert "was forgotten" in await outcome(flow)
