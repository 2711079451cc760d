"""How often the store is asked for what due timers of one object read."""

import pytest

from wakeful import App, DurableObject
from wakeful.store.memory import MemoryStore


@pytest.mark.parametrize("is_local", [False, True])
async def test_rows_of_timers_that_wait_behind_each_other_come_in_few_round_trips(
    monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    app, ran = App(), []

    @app.object
    class Tenant(DurableObject):
        async def fill(self) -> None:
            for number in range(200):
                await self.schedules.add("every hour", self.tick, name=f"s{number}")

        async def tick(self) -> None:
            ran.append(self.ctx.key)

    monkeypatch.setattr(MemoryStore, "local", is_local)
    reads: list[int] = []
    read = MemoryStore.read

    async def counted(self, id, space, keys):  # type: ignore[no-untyped-def]
        reads.append(len(keys))
        return await read(self, id, space, keys)

    monkeypatch.setattr(MemoryStore, "read", counted)
    async with app.world() as world:
        await world.get(Tenant, "a").fill()
        await world.sleep_all()  # more rows than come with an object that wakes
        reads.clear()
        await world.advance("1h")
        assert len(ran) == 200
        assert sum(reads) >= 200
        assert len(reads) >= 200 if is_local else len(reads) <= 8
