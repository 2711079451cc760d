"""A node that is stopped while its store fails: timers that it cut off are not taken for ones that killed it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject, Limits
from wakeful.values.errors import Unavailable

LIVES = 5


class Stage:
    def __init__(self) -> None:
        self.began = 0
        self.app = App(limits=Limits(stop_deadline_ms=5_000))
        self.world: Any = None
        self.clock: Any = None
        self.fails_when_cut = False
        stage = self

        @self.app.object
        class Bell(DurableObject):
            async def set(self) -> None:
                await self.storage.set_alarm(timedelta(seconds=1))

            async def alarm(self, info: Any) -> None:
                stage.began += 1
                if stage.began > LIVES:
                    return
                try:
                    await asyncio.sleep(600)
                finally:
                    if stage.fails_when_cut:
                        stage.lose(stage.back_ms)

        self.Bell = Bell
        self.back_ms = 2_000

    def on(self, world: Any) -> None:
        """The node that runs there is the one that will be stopped."""
        self.world, self.clock = world, world.node.clock

    def lose(self, back_ms: int) -> None:
        """The store goes away, and comes back so much later."""
        faults, clock = self.world.faults, self.clock
        faults.is_down = True
        clock.call_at(clock.now() + back_ms, lambda: setattr(faults, "is_down", False))


@pytest.mark.parametrize("is_down_before", [False, True])
async def test_a_store_that_is_back_before_the_stop_is_over_keeps_no_trace_of_the_run(is_down_before: bool) -> None:
    stage = Stage()
    stage.fails_when_cut = not is_down_before
    async with stage.app.world() as world:
        stage.on(world)
        await stage.app.get(stage.Bell, "a").set()
        await world.advance(seconds=2)
        for life in range(1, LIVES + 1):
            assert stage.began == life
            stage.on(world)
            if is_down_before:
                stage.lose(2_000)
                with pytest.raises(Unavailable):
                    await stage.app.get(stage.Bell, "b").set()
                assert world.node.state == "down"
            await world.restart(after="10s")
            await world.settle()
        assert await world.parked() == []
        assert stage.began == LIVES + 1


async def test_one_that_stays_away_holds_the_stop_up_no_longer_than_turns_may() -> None:
    stage = Stage()
    stage.fails_when_cut, stage.back_ms = True, 60_000
    async with stage.app.world() as world:
        stage.on(world)
        await stage.app.get(stage.Bell, "a").set()
        await world.advance(seconds=2)
        before = world.now()
        await world.node.stop()
        assert world.now() - before <= timedelta(seconds=11)
        world.faults.is_down = False
        await world.restart()


async def test_shards_that_another_has_meanwhile_are_not_waited_for() -> None:
    stage = Stage()
    async with stage.app.world() as world:
        stage.on(world)
        await stage.app.get(stage.Bell, "a").set()
        await world.advance(seconds=2)
        await world.store.claim("thief", range(256), now=world.warp.now())
        stage.lose(300)
        with pytest.raises(Unavailable):
            await stage.app.get(stage.Bell, "b").set()
        before = world.now()
        await world.node.stop()
        assert world.now() - before < timedelta(seconds=1)
        await world.restart()


async def test_with_nothing_begun_it_is_not_waited_for() -> None:
    stage = Stage()
    async with stage.app.world() as world:
        stage.on(world)
        stage.lose(60_000)
        with pytest.raises(Unavailable):
            await stage.app.get(stage.Bell, "b").set()
        before = world.now()
        await world.node.stop()
        assert world.now() - before <= timedelta(milliseconds=10)
        world.faults.is_down = False
        await world.restart()
