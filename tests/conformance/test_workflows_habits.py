"""What people know of other libraries for durable workflows, and expect here: docs/from-dbos.md has the whole list."""

import asyncio
from typing import Any

import pytest

from tests.conformance.mill import Mill, outcome
from wakeful import RetryPolicy, Run, Step, errors, fixed


async def test_only_errors_that_are_named_are_tried_again() -> None:
    mill = Mill()

    async def fail(error: Exception) -> None:
        await mill.do(type(error).__name__)
        raise error

    async def body(flow: Any, step: Step) -> Any:
        policy, found = RetryPolicy(3, fixed("1s"), on=(ConnectionError,)), []
        for error in (ConnectionResetError("worth it"), ValueError("not worth it")):
            try:
                await step("fails", fail, error, retry=policy)
            except errors.StepFailed as failed:
                found.append(failed.kind)
        return found

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.advance("1m")
        assert await outcome(world.get(mill.Flow, "a")) == ["ConnectionResetError", "ValueError"]
        assert mill.did == {"ConnectionResetError": 3, "ValueError": 1}


async def test_an_event_that_is_sent_twice_under_one_key_comes_once(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        first = await step.wait_for("paid")
        try:
            return [first, await step.wait_for("paid", timeout="1h")]
        except TimeoutError:
            return [first]

    mill.body = body
    async with mill.world(store=store_url) as world:
        await world.get(mill.Flow, "a").start()
        for _ in range(2):
            await mill.app.get(mill.Flow, "a", request_key="payment 17").send("paid", 12)
            await world.settle()
        await world.advance("61m")
        assert await outcome(world.get(mill.Flow, "a")) == [12]


async def test_a_fork_can_be_forked_again_and_each_goes_its_own_way(store_url: str) -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        return [await step(name, mill.do, f"{name} of {flow.key}") for name in ("one", "two", "three")]

    mill.body = body
    async with mill.world(store=store_url) as world:
        await world.get(mill.Flow, "a").start()
        await world.settle()
        await world.get(mill.Flow, "a").fork("b", "three")
        await world.settle()
        await world.get(mill.Flow, "b").fork("c", "two")
        await world.get(mill.Flow, "a").fork("d", "one")
        await world.settle()
        found = {key: await outcome(world.get(mill.Flow, key)) for key in "abcd"}
        assert found == {
            "a": ["did one of a", "did two of a", "did three of a"],
            "b": ["did one of a", "did two of a", "did three of b"],
            "c": ["did one of a", "did two of c", "did three of c"],
            "d": ["did one of d", "did two of d", "did three of d"],
        }
        assert set(mill.did.values()) == {1}


@pytest.mark.parametrize("minutes", [30, 90])
async def test_a_whole_workflow_can_race_with_a_deadline_over_a_crash(minutes: int) -> None:
    mill = Mill()

    async def work(step: Step) -> str:
        await step("begin", mill.do, "begin")
        await step.sleep("work", f"{minutes}m")
        return await step("end", mill.do, "end")

    async def body(flow: Any, step: Step) -> Any:
        tasks = [asyncio.ensure_future(work(step)), asyncio.ensure_future(step.sleep("deadline", "1h"))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        return tasks[0].result() if tasks[0].done() and not tasks[0].cancelled() else "too late"

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.advance("20m")
        await world.crash()
        await world.restart(after="5m")
        await world.advance("2h")
        assert await outcome(world.get(mill.Flow, "a")) == ("did end" if minutes == 30 else "too late")
        assert mill.did["begin"] == 1
        assert mill.did["end"] == (minutes == 30)
        assert await world.due() == []


async def test_a_schedule_starts_one_for_each_time_and_no_second_one() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step, day: str) -> Any:
        return await step("count", mill.do, day)

    mill.body = body

    @mill.app.every.day.at("06:00")
    async def report(run: Run) -> None:
        day = f"{run.nominal_at:%Y-%m-%d}"
        await mill.app.get(mill.Flow, day).start(day)
        await mill.do(f"asked for {day}")
        if mill.did[f"asked for {day}"] == 1 and day.endswith("02"):
            raise OSError("it started one, and failed")

    async with mill.world() as world:
        await world.advance(days=2, hours=12)
        await world.crash()
        await world.restart(after="1h")
        await world.advance(days=1)
        days = [f"2026-01-0{n}" for n in (1, 2, 3)]
        assert [await outcome(world.get(mill.Flow, day)) for day in days] == [f"did {day}" for day in days]
        assert [mill.did[day] for day in days] == [1, 1, 1]
        assert mill.did["asked for 2026-01-02"] == 2
