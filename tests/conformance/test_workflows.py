"""The body of a workflow goes on where it was, whatever dies, and every step's result is there once; on every store."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.mill import Mill, outcome
from wakeful import ContinueAsNew, RetryPolicy, Step, errors, fixed
from wakeful.policy.limits import Limits


async def test_its_answer_is_that_of_the_body(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step, n: int) -> Any:
        first = await step("first", mill.do, "first")
        both = await asyncio.gather(step("left", mill.do, "left"), step("right", mill.do, "right"))
        return [n, first, *both]

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        assert (await flow.status()).state == "new"
        await flow.start(3)
        await world.settle()
        assert await flow.result() == [3, "did first", "did left", "did right"]
        assert (await flow.status()).state == "done"
        assert mill.did == {"first": 1, "left": 1, "right": 1}
        assert await world.due() == []
        assert [(run.name, run.verdict) for run in await world.ledger(mill.Flow, "a")] == [("workflow", "run")]


async def test_weeks_pass_and_crashes_and_no_step_is_done_twice() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step("before", mill.do, "before")
        await step.sleep("a week", "7d")
        await step("between", mill.do, "between")
        await step.sleep_until("new year", datetime(2027, 1, 1, tzinfo=UTC))
        await step("after", mill.do, "after")
        return step.now().isoformat()

    mill.body = body
    async with mill.world(start="2026-12-01T00:00Z") as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        status = await flow.status()
        assert (status.state, status.steps, status.wake_at) == (
            "sleeping",
            ("a week",),
            datetime(2026, 12, 8, tzinfo=UTC),
        )
        await world.crash()
        await world.restart(after="10d")
        await world.settle()
        await world.crash()
        await world.restart()
        await world.advance(days=40)
        assert await flow.result() == "2027-01-01T00:00:00+00:00"
        assert mill.did == {"before": 1, "between": 1, "after": 1}


async def test_a_body_that_rests_is_nothing_but_rows() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("long", "30d")

    mill.body = body
    async with mill.world() as world:
        for key in range(50):
            await world.get(mill.Flow, str(key)).start()
        await world.advance(minutes=1)
        assert not world.node.awake
        assert not world.node.features["workflows"].drivers
        assert len(world.node.sideline) == 0
        assert len(await world.due()) == 50
        await world.advance(days=30)
        assert [(await world.get(mill.Flow, str(key)).status()).state for key in range(50)] == ["done"] * 50


async def test_an_event_that_comes_early_is_kept_and_one_that_comes_late_wakes_it(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a while", "1m")
        first = await step.wait_for("go")
        second = await step.wait_for("go")
        return [first, second, await step.wait_for("stop", timeout="9m")]

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await flow.send("go", 1)
        await world.crash()
        await world.restart()
        await world.advance(minutes=1)
        assert (await flow.status()).state == "waiting"
        assert (await flow.status()).wake_at is None
        await world.advance(minutes=3)
        await flow.send("go", {"n": 2})
        await world.settle()
        await world.advance(minutes=8)
        await flow.send("stop")
        await world.settle()
        assert await flow.result() == [1, {"n": 2}, None]


async def test_events_of_one_name_are_taken_in_the_order_in_which_they_came(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a while", "1m")
        return [await step.wait_for("n") for _ in range(5)]

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        for n in range(3):
            await flow.send("n", n)
        await world.advance(minutes=1)
        await flow.send("n", 3)
        await flow.send("n", 4)
        await world.settle()
        assert await flow.result() == [0, 1, 2, 3, 4]


async def test_an_event_that_does_not_come_in_time_is_a_timeout(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        try:
            return await step.wait_for("approved", timeout="7m")
        except TimeoutError:
            return await step("give up", mill.do, "give up")

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        await world.restart()
        await world.advance(minutes=7)
        assert await flow.result() == "did give up"


@pytest.mark.parametrize("crash", [False, True])
async def test_a_race_has_one_winner_for_ever(crash: bool) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        event = asyncio.ensure_future(step.wait_for("answer"))
        sleep = asyncio.ensure_future(step.sleep("patience", "3m"))
        done, _ = await asyncio.wait([event, sleep], return_when=asyncio.FIRST_COMPLETED)
        sleep.cancel()
        await step.sleep("then", "9m")
        return "answered" if event in done else "late"

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        await flow.send("answer")
        if crash:
            await world.crash()
            await world.restart(after="5m")
        await world.advance(minutes=20)
        assert await flow.result() == "answered"


async def test_an_event_goes_to_the_next_who_waits_when_the_first_has_left() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        first = asyncio.ensure_future(step.wait_for("n"))
        await step.sleep("a while", "1m")
        first.cancel()
        await step.sleep("another", "1m")
        return await step.wait_for("n")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        await flow.send("n", 5)
        await world.crash()
        await world.restart()
        await world.advance(minutes=1)
        assert await flow.result() == 5


async def test_a_step_that_fails_is_tried_again_by_its_policy_over_crashes(store_url: str) -> None:
    mill = Mill()

    async def fail(step: Step) -> str:
        await mill.do("try", step)
        if mill.did["try"] < 4:
            raise OSError("no route")
        return "there"

    async def body(flow: Any, step: Step) -> Any:
        return await step("reach", fail, step, retry=RetryPolicy(5, fixed("1m")))

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        [one] = await flow.steps()
        assert (one.state, one.attempts, one.error) == ("retrying", 1, "OSError: no route")
        assert (await flow.status()).state == "sleeping"
        await world.crash()
        await world.restart(after="2m")
        await world.advance(minutes=3)
        assert await flow.result() == "there"
        assert mill.did["try"] == 4
        assert len(mill.runs["try"]) == 1  # the same id each time


async def test_one_that_fails_for_good_is_an_error_that_the_body_can_take(store_url: str) -> None:
    mill = Mill()

    class Declined(ValueError):
        pass

    async def decline() -> None:
        mill.did["decline"] += 1
        raise Declined("no money")

    async def body(flow: Any, step: Step) -> Any:
        try:
            await step("charge", decline, retry=RetryPolicy(1))
        except errors.StepFailed as error:
            kinds = [error.is_a(kind) for kind in (Declined, ValueError, OSError)]
            await step.sleep("a while", "1m")
            return [error.kind, error.said, *kinds]

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        await world.restart(after="1m")
        await world.settle()
        assert await flow.result() == ["Declined", "no money", True, True, False]
        assert mill.did["decline"] == 1


async def test_a_body_that_raises_has_failed_and_says_with_what() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        raise KeyError("nothing there")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        assert await outcome(flow) == "WorkflowFailed: Flow/a failed: KeyError: 'nothing there'"
        [run] = await world.ledger(mill.Flow, "a")
        assert (run.verdict, run.error) == ("failed", "KeyError: 'nothing there'")


async def test_a_step_that_must_not_be_tried_again_says_so() -> None:
    mill = Mill()

    async def refuse() -> None:
        mill.did["refuse"] += 1
        raise errors.NoRetry("it is over")

    async def body(flow: Any, step: Step) -> Any:
        await step("refuse", refuse)

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        assert "it is over" in await outcome(flow)
        assert mill.did["refuse"] == 1


async def test_an_attempt_ends_at_its_timeout() -> None:
    mill = Mill()

    async def slow() -> str:
        mill.did["slow"] += 1
        await asyncio.sleep(60 if mill.did["slow"] < 3 else 1)
        return "at last"

    async def body(flow: Any, step: Step) -> Any:
        return await step("slow", slow, timeout="10s", retry=RetryPolicy(3, fixed("1s")))

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        assert await flow.result() == "at last"
        assert mill.did["slow"] == 3


async def test_a_result_that_is_too_large_is_refused_with_the_remedy() -> None:
    mill = Mill()

    async def large() -> str:
        mill.did["large"] += 1
        return "x" * 2_000_000

    async def body(flow: Any, step: Step) -> Any:
        await step("large", large)

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        said = await outcome(flow)
        assert "2000006 bytes" in said
        assert "return its name" in said
        assert mill.did["large"] == 1


async def test_a_call_of_another_object_happens_once_and_its_answer_comes_back(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        stock = flow.ctx.get(mill.Stock, "s")
        left = await step.call(stock.take, 3)
        try:
            await step.call(stock.take, 50)
        except errors.StepFailed as error:
            return [left, error.said]

    mill.body = body
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        await world.restart()
        await world.advance(minutes=30)
        assert await flow.result() == [7, "not enough"]
        assert await world.get(mill.Stock, "s").left() == 7


async def test_a_child_is_started_once_and_its_result_comes_back(store_url: str) -> None:
    mill = Mill()

    async def child(flow: Any, step: Step, n: int) -> Any:
        await step.sleep("work", "2m")
        return await step("child", mill.do, f"child {n}")

    async def body(flow: Any, step: Step) -> Any:
        parts = [await step.start(mill.Part, f"{flow.key}/{n}", n) for n in range(3)]
        await step.sleep("work", "5m")
        return [await part.result() for part in parts]

    mill.body, mill.child = body, child
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        await world.restart(after="3m")
        await world.advance(minutes=5)
        assert await flow.result() == ["did child 0", "did child 1", "did child 2"]
        assert set(mill.did.values()) == {1}


async def test_a_child_that_fails_is_an_error_for_who_waits() -> None:
    mill = Mill()

    async def child(flow: Any, step: Step) -> Any:
        raise ValueError("bad part")

    async def body(flow: Any, step: Step) -> Any:
        part = await step.start(mill.Part, "p")
        try:
            await part.result()
        except errors.StepFailed as error:
            return error.said

    mill.body, mill.child = body, child
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.settle()
        assert await world.get(mill.Flow, "a").result() == "bad part"


async def test_groups_of_tasks_run_their_steps_beside_each_other() -> None:
    mill = Mill()

    async def slow(name: str) -> str:
        await asyncio.sleep(10)
        return await mill.do(name)

    async def branch(step: Step, name: str) -> list[str]:
        return [await step(f"{name} 1", slow, f"{name} 1"), await step(f"{name} 2", slow, f"{name} 2")]

    async def body(flow: Any, step: Step) -> Any:
        async with asyncio.TaskGroup() as group:
            left, right = group.create_task(branch(step, "left")), group.create_task(branch(step, "right"))
        return left.result() + right.result()

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(seconds=11)
        assert sorted(mill.did) == ["left 1", "right 1"]
        assert [one.state for one in await flow.steps()] == ["done", "done", "running", "running"]
        await world.crash()
        await world.restart()
        await world.advance(seconds=11)
        assert await flow.result() == [f"did {name} {n}" for name in ("left", "right") for n in (1, 2)]
        assert set(mill.did.values()) == {1}


async def test_dice_uuids_and_the_time_are_the_same_each_time_the_body_runs() -> None:
    mill = Mill()
    seen: list[Any] = []

    async def body(flow: Any, step: Step) -> Any:
        mine = [step.random(), step.uuid(), step.now()]
        await step.sleep("a while", "1m")
        mine += [step.random(), step.uuid(), step.now()]
        seen.append(mine)
        await step.sleep("a while", "1m")
        return None

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.get(mill.Flow, "b").start()
        await world.advance(minutes=1)
        await world.crash()
        await world.restart(after="1m")
        await world.settle()
    assert len(seen) == 4
    assert seen[0] in seen[2:]
    assert seen[1] in seen[2:]
    assert len({one[1] for one in seen} | {one[4] for one in seen}) == 4  # no two are alike
    assert all(0 <= one[0] < 1 and one[0] != one[3] for one in seen)


async def test_it_goes_on_as_new_and_who_waits_for_it_waits_on() -> None:
    mill = Mill()

    async def child(flow: Any, step: Step, n: int, total: int) -> Any:
        total += await step.wait_for("n")
        return ContinueAsNew(n - 1, total) if n > 1 else total

    async def body(flow: Any, step: Step) -> Any:
        return await (await step.start(mill.Part, "p", 3, 0)).result()

    mill.body, mill.child = body, child
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.settle()
        part = world.get(mill.Part, "p")
        for n in (1, 10, 100):
            await part.send("n", n)
        await world.settle()
        assert await world.get(mill.Flow, "a").result() == 111
        assert (await part.status()).rounds == 2
        assert len(await part.steps()) == 1


async def test_a_body_of_too_many_steps_is_told_to_go_on_as_new() -> None:
    mill = Mill(Limits(workflow_steps=20))

    async def body(flow: Any, step: Step) -> Any:
        for _ in range(50):
            await step("one", mill.do, "one")

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.settle()
        assert "return ContinueAsNew" in await outcome(world.get(mill.Flow, "a"))
        assert mill.did["one"] == 20


async def test_what_it_publishes_is_there_once_and_in_order() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        for n in range(3):
            await step.publish({"n": n})
            await step.sleep("a while", "1m")

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(minutes=1)
        first = await flow.published()
        assert [value for _, value in first] == [{"n": 0}, {"n": 1}]
        await world.crash()
        await world.restart(after="1m")
        await world.settle()
        assert [value for _, value in await flow.published(since=first[-1][0])] == [{"n": 2}]
