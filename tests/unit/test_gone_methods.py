"""What is due at a method that a deploy took out fails with words that say so: docs/runbooks.md, runbook 6."""

import asyncio
from datetime import timedelta
from pathlib import Path

from wakeful import App, DurableObject

before, after = App(), App()


@before.object(name="Order")
class Old(DurableObject):
    async def work(self) -> None: ...

    async def alarm(self) -> None: ...

    async def begin(self) -> None:
        await self.storage.set_alarm(timedelta(hours=1))
        await self.schedules.add(timedelta(hours=1), self.work, name="once")
        await self.jobs.schedule(self.work, after="1h")


@after.object(name="Order")
class New(DurableObject):
    async def another(self) -> None: ...


def test_a_method_that_is_gone_parks_what_is_due_with_a_stable_code(tmp_path: Path) -> None:
    async def live() -> list[str]:
        async with before.world(store=f"sqlite:{tmp_path}/a.db") as world:
            await world.get(Old, "a").begin()
        async with after.world(store=f"sqlite:{tmp_path}/a.db") as world:
            await world.advance(hours=2)
            return sorted(parked.error.rpartition(" ")[2] for parked in await world.parked())

    assert asyncio.run(live()) == ["[alarm.handler]", "[handler.unknown]", "[job.method]"]
