"""Code that was changed under a workflow: seen in every way it can change, parked where people see it, and gone on from."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.mill import Mill
from wakeful import Step

Body = Callable[[Any, Step], Awaitable[Any]]
MILL: list[Mill] = []


async def do(what: str) -> str:
    return await MILL[-1].do(what)


async def before(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    await step("two", do, "two")
    await step.sleep("a while", "1m")
    await step("three", do, "three")
    return "before"


async def a_new_name(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    await step("zwei", do, "two")
    await step.sleep("a while", "1m")


async def another_kind(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    await step.sleep("two", "1m")
    await step.sleep("a while", "1m")


async def one_more_in_front(flow: Any, step: Step) -> Any:
    await step("zero", do, "zero")
    await before(flow, step)


async def one_more_between(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    await step("one and a half", do, "half")
    await step("two", do, "two")
    await step.sleep("a while", "1m")


async def one_more_of_the_same_name(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    await step("one", do, "one")
    await step("two", do, "two")
    await step.sleep("a while", "1m")


async def one_less(flow: Any, step: Step) -> Any:
    await step("two", do, "two")
    await step.sleep("a while", "1m")


async def the_last_one_less(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    await step("two", do, "two")
    return "no sleep"


async def another_order(flow: Any, step: Step) -> Any:
    await step("two", do, "two")
    await step("one", do, "one")
    await step.sleep("a while", "1m")


async def beside_each_other(flow: Any, step: Step) -> Any:
    await asyncio.gather(step("one", do, "one"), step("two", do, "two"))
    await step.sleep("a while", "1m")


async def an_end_in_front(flow: Any, step: Step) -> Any:
    return "early"


async def a_raise_in_front(flow: Any, step: Step) -> Any:
    raise ValueError("early")


async def it_waits_no_more(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    await step("two", do, "two")
    sleep = asyncio.ensure_future(step.sleep("a while", "1m"))
    await asyncio.sleep(0)
    sleep.cancel()
    return "no wait"


CHANGES: list[Body] = [
    a_new_name,
    another_kind,
    one_more_in_front,
    one_more_between,
    one_more_of_the_same_name,
    one_less,
    the_last_one_less,
    another_order,
    beside_each_other,
    an_end_in_front,
    a_raise_in_front,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_it_is_seen_parked_and_goes_on_with_the_old_code(change: Body) -> None:
    MILL.append(mill := Mill())
    mill.body = before
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        mill.body = change
        await world.restart(after="1m")
        await world.settle()
        status = await flow.status()
        assert status.state == "parked"
        assert "bring back the code" in (status.error or "")
        [parked] = await world.parked()
        assert "workflow.changed" in parked.error
        assert mill.did == {"one": 1, "two": 1}  # nothing was done twice, nor anything new
        mill.body = before
        await flow.resume()
        await world.settle()
        assert await flow.result() == "before"
        assert mill.did == {"one": 1, "two": 1, "three": 1}
        assert await world.parked() == []


async def test_a_wait_that_is_given_up_is_no_change() -> None:
    """What a body does with what it asked for is its own: it may stop waiting."""
    MILL.append(mill := Mill())
    mill.body = before
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        mill.body = it_waits_no_more
        await world.restart(after="10s")
        await flow.send("x")
        await world.advance(minutes=2)
        assert await flow.result() == "no wait"


async def test_a_redrive_goes_on_as_well() -> None:
    MILL.append(mill := Mill())
    mill.body = before
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        mill.body = one_less
        await world.restart(after="1m")
        await world.settle()
        mill.body = before
        [parked] = await world.parked()
        await world.node.redrive(parked)
        await world.settle()
        assert await flow.result() == "before"


async def test_one_that_is_dropped_has_failed() -> None:
    MILL.append(mill := Mill())
    mill.body = before
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.settle()
        await world.crash()
        mill.body = one_less
        await world.restart(after="1m")
        await world.settle()
        [parked] = await world.parked()
        await world.node.send(parked.timer.id, "timers.drop", (parked.timer.name, parked.number), {})
        assert (await flow.status()).state == "failed"


async def _patched(flow: Any, step: Step) -> Any:
    await step("one", do, "one")
    if step.patched("half"):
        await step("one and a half", do, "half")
    await step("two", do, "two")
    await step.sleep("a while", "1m")
    await step("three", do, "three")
    return ["after", step.patched("half")]


async def test_a_patch_lets_the_old_ones_go_the_old_way_and_new_ones_the_new() -> None:
    MILL.append(mill := Mill())
    mill.body = before
    async with mill.world() as world:
        old, new = world.get(mill.Flow, "old"), world.get(mill.Flow, "new")
        await old.start()
        await world.settle()
        await world.crash()
        mill.body = _patched
        await world.restart()
        await new.start()
        await world.settle()
        await world.crash()
        await world.restart(after="1m")
        await world.settle()
        assert await old.result() == ["after", False]
        assert await new.result() == ["after", True]
        assert mill.did == {"one": 2, "half": 1, "two": 2, "three": 2}


async def test_the_version_is_that_of_the_start() -> None:
    MILL.append(mill := Mill())

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a while", "1m")
        return step.version

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "old").start()
        await world.settle()
        mill.Flow.version = 2
        mill.app._workflows.bound["Flow"].version = 2
        await world.get(mill.Flow, "new").start()
        await world.advance(minutes=1)
        assert await world.get(mill.Flow, "old").result() == 1
        assert await world.get(mill.Flow, "new").result() == 2


async def test_one_of_a_newer_program_waits_for_it() -> None:
    MILL.append(mill := Mill())
    mill.app._workflows.bound["Flow"].version = 2

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a while", "1m")
        return step.version

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.settle()
        await world.crash()
        mill.app._workflows.bound["Flow"].version = 1
        await world.restart(after="1m")
        await world.advance(hours=1)
        assert (await world.get(mill.Flow, "a").status()).state == "sleeping"
        assert await world.parked() == []
        mill.app._workflows.bound["Flow"].version = 2
        await world.advance(minutes=2)
        assert await world.get(mill.Flow, "a").result() == 2
