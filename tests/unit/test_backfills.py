"""A long backfill is worked out in slices, so that others go on meanwhile."""

import asyncio
from datetime import timedelta
from typing import Any

from wakeful import App, DurableObject
from wakeful.schedules.records import BREATH

app = App()


@app.object
class Clock(DurableObject):
    async def start(self) -> None:
        await self.schedules.add("* * * * *", self.tick, name="tick")

    async def tick(self) -> None: ...


async def test_others_go_on_while_a_long_backfill_is_worked_out() -> None:
    async with app.world(start="2026-03-28T12:00:00Z") as world:
        await world.get(Clock, "a").start()
        schedules = app.schedules(Clock, "a")

        async def passes(minutes: int) -> int:
            """How often somebody else had a turn of the loop during the backfill."""
            count, is_over = 0, False

            async def beside() -> None:
                nonlocal count
                while not is_over:
                    count += 1
                    await asyncio.sleep(0)

            other = asyncio.ensure_future(beside())
            found: list[Any] = await schedules.backfill(
                "tick", world.now() - timedelta(minutes=minutes), world.now(), dry_run=True
            )
            is_over = True
            await other
            assert len(found) == minutes
            return count

        await passes(10)  # the first call of an object has more to do
        assert await passes(10 * BREATH) - await passes(10) >= 9
