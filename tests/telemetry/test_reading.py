"""Metrics are read while the program goes on, from whatever thread: reading them changes nothing, and tells of what waits."""

import asyncio

from tests.telemetry.prometheus_text import parse
from wakeful import App, DurableObject, Limits
from wakeful.runtime.queue import TimerQueue
from wakeful.telemetry.catalogue import CATALOGUE, read
from wakeful.telemetry.prometheus import page
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM, Timer


def timer(key: str, due_at: int, seq: int) -> Timer:
    return Timer(ObjectId("C", key), ALARM, due_at, due_at, seq)


def test_the_oldest_is_found_behind_places_that_mean_nothing_any_more_and_they_stay() -> None:
    queue = TimerQueue(1_000)
    queue.begin_page()
    queue.end_page([timer(f"k{n}", 1_000 + n, n + 1) for n in range(40)], (10_000, 0, 0))
    for n in range(20):
        queue.clear(ObjectId("C", f"k{n}"), ALARM, n + 1)
    before = list(queue._heap)
    assert queue.oldest_at() == 1_020
    assert queue._heap == before
    assert queue.earliest() == 1_020
    assert TimerQueue(10).oldest_at() is None


async def test_what_stands_in_its_tenant_s_line_is_behind_too() -> None:
    app = App(limits=Limits(concurrent_turns=4, slow_start_ms=0))

    @app.object
    class Cell(DurableObject):
        async def alarm(self) -> None:
            await asyncio.sleep(100)

    async with app.world() as world:
        node = world.node
        now = node.clock.now()
        await node.add_timers(
            [Timer(ObjectId("Cell", f"big/{n}"), ALARM, now + 1_000, now + 1_000, 0) for n in range(60)]
        )
        await world.advance(seconds=31)
        assert len(node.queue.lines) > 0
        (behind,) = parse(page(app))["wakeful_timers_behind_seconds"].samples.values()
        assert behind == 30.0


async def test_reading_all_of_them_leaves_the_node_as_it_was() -> None:
    app = App()

    @app.object
    class Cell(DurableObject):
        async def arm(self, after_ms: int) -> None:
            await self.ctx.set_alarm(self.ctx.now().timestamp() * 1000 + after_ms)

        async def alarm(self) -> None: ...

    async with app.world() as world:
        cell = world.get(Cell, "a")
        await cell.arm(50_000)
        node = world.node
        node.queue.clear(
            ObjectId("Cell", "a"), ALARM, 0
        )  # its place in the heap is for whoever runs timers to clear away
        before = (list(node.queue._heap), dict(node.queue._current), dict(node.awake))
        for metric in CATALOGUE:
            read(metric, [node])
        assert (list(node.queue._heap), dict(node.queue._current), dict(node.awake)) == before
