"""What a workflow publishes reaches those who watch: each value once and in order, whatever dies, and then its end."""

import asyncio
from typing import Any

import pytest

from tests.conformance.mill import Mill
from wakeful import ContinueAsNew, Queue, Step, errors
from wakeful.policy.limits import Limits


async def _counting(flow: Any, step: Step, count: int = 5) -> Any:
    for n in range(count):
        await step.publish({"n": n})
        await step.sleep("a bit", "10s")
    return "end"


def watched(mill: Mill, cls: Any = None, key: str = "a") -> tuple[list[Any], Any, "asyncio.Task[None]"]:
    """What a watcher has been told so far."""
    watch: Any = mill.app.watch(cls or mill.Flow, key)
    told: list[Any] = []

    async def read() -> None:
        async for value in watch:
            told.append(value)

    reading = asyncio.ensure_future(read())
    reading.add_done_callback(
        lambda done: done.cancelled() or done.exception()
    )  # of one that nobody awaits: its node ends
    return told, watch, reading


async def test_each_value_comes_as_it_is_published_and_then_the_end(store_url: str) -> None:
    mill = Mill()
    mill.body = _counting
    async with mill.world(store=store_url) as world:
        flow = world.get(mill.Flow, "a")
        await flow.start()
        early, watch, reading = watched(mill)
        await world.advance(seconds=1)
        assert early == [{"n": 0}]
        await world.advance(seconds=20)
        assert early == [{"n": n} for n in range(3)]
        late, _, second = watched(mill)
        await world.settle()
        assert late == early  # from the first on
        assert watch.state is None
        await world.advance(minutes=1)
        assert early == late == [{"n": n} for n in range(5)]
        assert watch.state == "done"
        await asyncio.gather(reading, second)


async def test_nothing_is_lost_or_there_twice_over_crashes() -> None:
    mill = Mill()
    mill.body = _counting
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        for n in range(3):
            await world.advance(seconds=8)
            world.kill()
            await world.restart(after="3s")
            told, watch, reading = watched(mill)
            await world.settle()
            assert told == [{"n": one} for one in range(n + 2)]
            reading.cancel()
        told, watch, reading = watched(mill)
        await world.advance(minutes=2)
        assert told == [{"n": n} for n in range(5)]
        assert watch.state == "done"
        await reading


@pytest.mark.parametrize("what", ["kill", "stop", "freeze"])
async def test_on_several_nodes_a_watcher_goes_on_when_the_workflow_moves(what: str) -> None:
    from tests.conformance.test_workflows_cluster import owner_of

    mill = Mill()
    mill.body = _counting
    async with mill.world(nodes=3) as world:
        await world.get(mill.Flow, "a").start()
        told, watch, reading = watched(mill)
        await world.advance(seconds=15)
        member = owner_of(world)
        if what == "stop":
            await member.stop()
        else:
            getattr(member, what)()
        await world.advance(minutes=5)
        assert told == [{"n": n} for n in range(5)]
        assert watch.state == "done"
        await reading


async def test_branches_publish_in_the_order_of_asking_and_much_comes_in_parts() -> None:
    mill = Mill(Limits(arguments_bytes=20_000))

    async def body(flow: Any, step: Step) -> Any:
        async def branch(name: str) -> None:
            for n in range(10):
                await step.publish([name, n, "x" * 900])
                await step("work", mill.do, "work")

        await asyncio.gather(*(branch(name) for name in "abc"))

    mill.body = body
    async with mill.world() as world:
        await world.get(mill.Flow, "a").start()
        await world.advance(seconds=5)
        told, watch, reading = watched(mill)
        await world.advance(seconds=5)
        assert [value[:2] for value in told[:3]] == [["a", 0], ["b", 0], ["c", 0]]
        for name in "abc":
            assert [n for of, n, _ in told if of == name] == list(range(10))
        assert watch.state == "done"
        await reading


async def test_another_round_and_another_run_begin_anew() -> None:
    mill = Mill()

    async def body(flow: Any, step: Step, n: int) -> Any:
        await step.publish(n)
        await step.sleep("a bit", "10s")
        return ContinueAsNew(n - 1) if n else "end"

    mill.body = body
    async with mill.world() as world:
        flow = world.get(mill.Flow, "a")
        await flow.start(2)
        told, watch, reading = watched(mill)
        await world.advance(seconds=25)
        assert told == [2, 1, 0]
        await flow.restart()
        await world.advance(minutes=1)
        assert told == [2, 1, 0, 0]
        assert watch.state == "done"
        await reading


async def test_what_can_t_be_watched_says_so() -> None:
    mill = Mill()
    async with mill.world() as world:
        with pytest.raises(errors.Conflict) as caught:
            await anext(mill.app.watch(mill.Flow, "a"))
        assert caught.value.code == "workflow.unstarted"
        with pytest.raises(errors.BadOption):
            mill.app.watch(mill.Stock, "s")
        with pytest.raises(errors.BadOption):
            mill.app.watch(mill.Flow, "a", caller="ann")
        await world.get(mill.Flow, "q").start(queue=Queue("q"))
        told, watch, reading = watched(mill, key="q")
        await world.advance(seconds=5)
        assert (told, watch.state) == ([], "done")
        await reading
