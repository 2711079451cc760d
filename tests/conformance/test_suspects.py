"""Timers that were running when their process died: tried again side by side, unless they are under grave suspicion."""

import asyncio
from datetime import timedelta
from typing import Any

SECOND = timedelta(seconds=1)
MANY = 150
RUN_S = 10


async def test_many_that_ran_when_a_process_died_are_tried_again_side_by_side(stage: Any) -> None:
    async with stage.world() as world:
        at = world.now() + SECOND

        async def handler(self: Any, info: Any) -> None:
            await asyncio.sleep(RUN_S)
            await self.storage.put("done", True)

        for n in range(MANY):
            stage.handlers[f"a{n}"] = handler
            await stage.set_alarm(at, f"a{n}")
        await world.advance(seconds=5)
        assert len(stage.fired) == MANY
        await world.crash()
        await world.restart()
        await world.advance(seconds=4 * RUN_S)  # one after the other they would take 25 minutes
        assert len(stage.fired) == 2 * MANY
        for n in range(MANY):
            assert await world.rows(stage.Bell, f"a{n}") == {"done": True}
        assert await world.parked() == []
