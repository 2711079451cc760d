"""The answer of a commit is lost while its node stops, and the commit arrives later: nothing is written over it, nobody is blamed."""

import asyncio
from datetime import timedelta
from typing import Any

from tests.conformance.acts import SECOND, add_one
from tests.conformance.cluster_stage import Cluster, key_of
from wakeful import AlarmInfo, Unavailable
from wakeful.runtime import start_notes
from wakeful.store.protocol import Query


def add(op: str) -> Any:
    """A turn that writes two rows, which must always tell the same."""

    async def body(self: Any) -> None:
        await add_one(self)
        await self.storage.put(f"op:{op}", 1)

    return body


def is_whole(rows: dict[str, Any]) -> bool:
    return bool(rows.get("count", 0) == sum(key.startswith("op:") for key in rows))


async def test_a_nested_call_does_not_wake_an_object_over_a_commit_that_may_still_arrive(stage: Any) -> None:
    """Its node claims no new epoch any more that would fence that commit."""
    async with stage.world() as world:
        ends: list[object] = []

        async def outer(self: Any) -> None:
            await asyncio.sleep(1)
            world.faults.lag_once("commit", "stray", 300)
            for op in ("first", "second"):
                try:
                    ends.append(await self.ctx.get(stage.Bell, "b").do(stage.act(add(op))))
                except Unavailable as error:
                    ends.append(error)
            await asyncio.sleep(1)

        running = asyncio.create_task(stage.do(outer))
        await world.advance("0.5s")
        stopping = asyncio.create_task(world.node.stop())
        await world.advance("5s")
        await stopping
        await asyncio.gather(running, return_exceptions=True)
        assert len(ends) == 2
        assert isinstance(ends[0], Unavailable)
        await world.restart()
        rows = await world.rows(stage.Bell, "b")
        assert is_whole(rows), rows
        assert await stage.do(add_one, "b") == rows.get("count", 0) + 1  # it wakes where it lives now


async def test_a_start_note_that_arrives_when_its_timer_was_handed_back_is_nobody_s_death(stage: Any) -> None:
    async with stage.world() as world:

        async def handler(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(600)

        stage.handlers["a"] = handler
        await stage.set_alarm(SECOND)
        world.faults.lag_once("commit", "stray", 30, told_ms=100)
        release = world.node.store.release

        async def slow_release(*args: Any) -> None:
            await world.warp.sleep(50)  # what comes late comes before this
            await release(*args)

        world.node.store.release = slow_release
        # Where starts are marked, the handler has begun, and its note comes when it goes on for a while.
        begun = world.node.store.run_marks is not None
        stopping = asyncio.create_task(stop_after(world, 1_000 + (2 * begun + 1) * start_notes.LOOK_MS))
        await world.advance("5s")
        await stopping
        assert len(stage.fired) == begun
        await world.restart(after="1s")
        await world.advance("1s")
        assert len(stage.fired) == begun + 1
        [timer] = await world.due()
        assert (timer.started > 0, timer.crashes) == (True, 0)


async def test_a_start_note_that_arrives_when_its_shard_was_handed_over_is_nobody_s_death(cluster: Cluster) -> None:
    troupe, world = cluster(nodes=2)
    async with world:
        owner, other = world.members[:2]
        assert owner.node is not None
        key = key_of(owner)
        await troupe.app.jobs.schedule(troupe.cell(key).work, "w", 600.0, after="1s")
        owner.faults.lag_once("commit", "stray", 30, told_ms=100)
        release = owner.node.store.release

        async def slow_release(*args: Any) -> None:
            await world.warp.sleep(50)  # what comes late comes before this
            await release(*args)

        owner.node.store.release = slow_release  # type: ignore[method-assign]
        await world.advance(milliseconds=1_050)
        began = world.warp.now()
        await owner.stop()
        assert world.warp.now() - began < 1_000, "it waited for a timer that nobody ran"
        await world.advance(seconds=5)
        assert [node for node, _ in troupe.runs("w")] == [other.name]
        assert other.node is not None
        [timer] = await other.node.store.find_timers(Query(cls="Cell", key=key))
        assert (timer.started > 0, timer.crashes) == (True, 0)


async def stop_after(world: Any, wait_ms: int) -> None:
    await world.warp.sleep(wait_ms)
    await world.node.stop()


async def test_a_node_that_stops_while_its_store_is_away_wakes_nobody_for_the_turns_of_others(cluster: Cluster) -> None:
    """What was on its way when the store went may arrive until the shards are claimed anew."""
    troupe, world = cluster(nodes=2)
    async with world:
        owner, other = world.members[:2]
        assert owner.node is not None
        key = key_of(owner)
        second = asyncio.ensure_future(troupe.at(other, key_of(other)).tell(key, "second", 1.0))
        await world.advance(milliseconds=200)
        owner.faults.lag_once("commit", "stray", 1_500)
        first = asyncio.ensure_future(troupe.at(owner, key).tally("first"))
        await world.advance(milliseconds=1)
        assert owner.node.state == "down"
        owner.faults.lag_once("open", "late", 3_000)
        stopping = asyncio.ensure_future(owner.stop())
        await world.advance(seconds=10)
        await stopping
        ends = await asyncio.gather(first, second, return_exceptions=True)
        assert isinstance(ends[0], Unavailable), ends
        rows = await world.rows(troupe.Cell, key)
        assert rows["n"] == sum(row.startswith("op:") for row in rows), (rows, ends)
        assert ends[1] == rows["n"], "it was told the others, as a node that has left"


async def test_what_waited_to_be_tried_alone_is_handed_back_when_its_object_may_not_wake(stage: Any) -> None:
    """It was given to its object all the same, and with it ended the line of those that waited behind it."""
    async with stage.world() as world:
        start = world.now()
        ends: list[object] = []

        async def first(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(3)
            world.faults.lag_once("commit", "stray", 100)
            try:
                await self.ctx.get(stage.Bell, "b").do(stage.act(add_one))
            except Unavailable as error:
                ends.append(error)
            await self.storage.put("ran", True)

        async def second(self: Any, info: AlarmInfo) -> None:
            await asyncio.sleep(3)

        stage.handlers |= {"a": first, "b": second, "c": second}
        for number, key in enumerate("abc"):
            await stage.set_alarm(start + SECOND + timedelta(milliseconds=number), key)
        for _ in range(2):
            await world.advance("2s")
            await world.crash()
            await world.restart()
        await world.advance("1s")
        assert world.node.timer_runs.suspects, "one is tried alone, the others wait"
        tried = len(stage.times("b"))
        stopping = asyncio.create_task(world.node.stop())
        await world.advance("8s")
        assert stopping.done(), "it waited for what nobody would run"
        await stopping
        assert len(ends) == 1
        assert len(stage.times("c")) == tried + 1
        await world.restart()
        assert (await world.rows(stage.Bell, "a"))["ran"] is True
        await world.advance("20s")
        assert len(stage.times("b")) == tried + 1
        assert await world.due() == []
        assert await world.parked() == []
