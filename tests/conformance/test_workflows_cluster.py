"""A workflow on several nodes: it goes on elsewhere when its node dies, freezes, stops or hands it over, and nothing is done twice."""

import asyncio
from typing import Any

import pytest

from tests.conformance.mill import Mill
from wakeful import Step
from wakeful.testing import World
from wakeful.testing.members import Member
from wakeful.values.ids import ObjectId, shard_of


def owner_of(world: World, key: str = "a") -> Member:
    """The member that the workflow lives on now."""
    shard = shard_of(ObjectId("Flow", key))
    [member] = [one for one in world.members if one.node is not None and shard in one.node.epochs]
    return member


def _scripted() -> Mill:
    mill = Mill()

    async def slow(name: str) -> str:
        await mill.do(f"begin {name}")
        await asyncio.sleep(10)
        return await mill.do(name)

    async def child(flow: Any, step: Step, n: int) -> Any:
        return await step("part", slow, f"part {n}")

    async def body(flow: Any, step: Step) -> Any:
        first = await step("first", slow, "first")
        parts = [await step.start(mill.Part, f"{flow.key}/{n}", n) for n in range(4)]
        results = [await part.result() for part in parts]
        return [first, *results, await step.wait_for("go")]

    mill.body, mill.child = body, child
    return mill


WANTED = ["did first", *(f"did part {n}" for n in range(4)), "gone"]


@pytest.mark.parametrize("what", ["nothing", "kill", "freeze", "stop", "twice"])
async def test_it_goes_on_elsewhere(what: str) -> None:
    mill = _scripted()
    async with mill.world(nodes=3) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        await world.advance(seconds=5)
        for _ in range(2 if what == "twice" else 1):
            member = owner_of(world)
            if what in ("kill", "twice"):
                member.kill()
            elif what == "freeze":
                member.freeze()
            elif what == "stop":
                await member.stop()
            await world.advance(seconds=12)
            if what == "freeze":
                member.thaw()
            if what in ("kill", "twice"):
                await member.start()
        await world.advance(seconds=60)
        await flow.send("go", "gone")
        await world.advance(seconds=5)
        assert await flow.result() == WANTED
        assert mill.did["first"] in (
            (1, 2) if what == "freeze" else (1,)
        )  # one that was frozen may still end what it does
        assert await world.due() == []
        assert await world.parked() == []


async def test_a_rolling_restart_is_no_crash_of_it() -> None:
    mill = _scripted()
    async with mill.world(nodes=3) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        for _ in range(2):
            for member in list(world.members):
                await member.restart()
                await world.advance(seconds=3)
        await world.advance(seconds=60)
        await flow.send("go", "gone")
        await world.advance(seconds=5)
        assert await flow.result() == WANTED
        assert await world.parked() == []


async def test_who_waits_elsewhere_for_its_result_hears_of_it() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step) -> Any:
        await step.sleep("a bit", "20s")
        return "done"

    mill.body = body
    async with mill.world(nodes=3) as world:
        for n in range(6):
            await world.get(mill.Flow, str(n)).start()
        waiting = [asyncio.ensure_future(world.get(mill.Flow, str(n)).result()) for n in range(6)]
        await world.advance(seconds=5)
        await owner_of(world, "0").restart()  # those who wait there are sent on
        await world.advance(seconds=30)
        assert [await one for one in waiting] == ["done"] * 6
