"""What is undone is undone in memory too: a value that an object keeps beside its storage never disagrees with it; on every store."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.acts import SECOND, Expected, Gate
from wakeful import AlarmInfo, DurableObject, every, reader
from wakeful.values.errors import DeadlineExceeded, LimitExceeded

made: list[str] = []  # one key for each constructor


@dataclass
class Total:
    of: int = 0


class Account(DurableObject):
    """Keeps its balance in memory, as the quickest objects do."""

    state: Total

    async def on_wake(self) -> None:
        made.append(self.ctx.key)
        self.balance: int = await self.storage.get("balance", 0)
        self.mood = "new"

    async def add(self, amount: int, how: str = "well") -> int:
        self.balance += amount
        await self.storage.put("balance", self.balance)
        if how == "raises":
            raise Expected
        if how == "hangs":
            await asyncio.sleep(1_000)
        if how == "cancels itself":
            raise asyncio.CancelledError
        if how == "ends badly":
            self.storage.put("huge", b"x" * 3_000_000)  # refused, and not awaited
        return self.balance

    async def by(self, way: str) -> None:
        """Change memory and, in that way, what is durable; then raise."""
        self.mood = f"after {way}"
        if way == "delete":
            await self.storage.delete("balance")
        elif way == "wipe":
            await self.storage.delete_all()
        elif way == "alarm":
            await self.storage.set_alarm(SECOND)
        elif way == "state":
            self.state.of += 1
        elif way == "job":
            await self.jobs.schedule(self.ctx.get(Account, "other").add, 1)
        elif way == "schedule":
            await self.schedules.add(every("1h"), self.add, 1, name="s")
        elif way == "undone transaction":
            with contextlib.suppress(Expected):
                async with self.storage.transaction():
                    await self.storage.put("x", 1)
                    raise Expected
        elif way == "after a durable point":
            await self.storage.put("x", 1)
            await self.ctx.commit()
        elif way == "state that is only read":
            assert self.state.of == 0
        raise Expected

    async def durable_first(self, amount: int) -> None:
        self.balance += amount
        await self.storage.put("balance", self.balance)
        await self.ctx.commit()
        self.balance += amount
        await self.storage.put("balance", self.balance)
        raise Expected

    async def alarm(self, info: AlarmInfo) -> None:
        await self.add(50, "raises" if info.retry_count == 0 else "well")

    async def arm(self) -> None:
        await self.storage.set_alarm(SECOND)

    async def job(self) -> None:
        await self.add(50, "raises" if self.ctx.job.attempt == 0 else "well")

    async def start(self, what: str) -> None:
        await self.schedules.add(every("5s"), getattr(self, what), name="s")

    async def tick(self) -> None:
        assert self.ctx.run is not None
        await self.add(50, "raises" if self.ctx.run.attempt == 0 else "well")

    async def tock(self) -> None:
        raise Expected

    @reader
    async def look(self) -> tuple[int, int]:
        return self.balance, await self.storage.get("balance", 0)

    @reader
    async def feel(self, hold: float = 0) -> str:
        if hold:
            await asyncio.sleep(hold)
        return self.mood


@pytest.fixture
def house(stage: Any) -> Any:
    stage.app.object(Account)
    made.clear()
    return stage


@pytest.mark.parametrize(
    ("how", "error"),
    [("raises", Expected), ("hangs", DeadlineExceeded), ("cancels itself", Exception), ("ends badly", LimitExceeded)],
)
async def test_a_turn_that_is_undone_leaves_nothing_in_memory(house: Any, how: str, error: type[Exception]) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(100)
        with pytest.raises(error):
            await world.get(Account, "a", deadline="5s").add(50, how)
        assert await account.look() == (100, 100)
        assert await account.add(50) == 150
        assert await account.look() == (150, 150)
        assert made == ["a", "a"]


@pytest.mark.parametrize("way", ["delete", "wipe", "alarm", "state", "job", "schedule", "undone transaction"])
async def test_whatever_it_wrote_the_object_is_made_anew(house: Any, way: str) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(100)
        with pytest.raises(Expected):
            await account.by(way)
        assert await account.feel() == "new"
        assert await account.look() == (100, 100)
        assert made == ["a", "a"]


@pytest.mark.parametrize("way", ["nothing", "after a durable point", "state that is only read"])
async def test_an_error_of_a_turn_that_has_nothing_to_undo_keeps_the_copy(house: Any, way: str) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(100)
        with pytest.raises(Expected):
            await account.by(way)
        assert await account.feel() == f"after {way}"
        assert made == ["a"]


async def test_what_was_durable_before_stays_in_memory_too(house: Any) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        with pytest.raises(Expected):
            await account.durable_first(10)
        assert await account.look() == (10, 10)


async def test_good_turns_before_it_that_are_not_on_disk_yet_stay(house: Any) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(1)
        with Gate(world) as gate:
            turns = [asyncio.create_task(account.add(10, how)) for how in ("well", "raises", "well", "raises", "well")]
            await asyncio.sleep(1)
            gate.open()
            answers = await asyncio.gather(*turns, return_exceptions=True)
        assert [one if isinstance(one, int) else type(one) for one in answers] == [11, Expected, 21, Expected, 31]
        assert await account.look() == (31, 31)
        await world.crash()
        await world.restart()
        assert await account.look() == (31, 31)


async def test_a_reader_beside_ends_on_the_copy_that_it_began_on(house: Any) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.add(100)
        beside = asyncio.create_task(account.feel(10))
        await asyncio.sleep(1)
        with pytest.raises(Expected):
            await account.by("alarm")
        assert await account.feel() == "new"
        assert await beside == "after alarm"
        assert await account.look() == (100, 100)


async def test_alarms_jobs_and_schedules_are_tried_again_on_an_object_made_anew(house: Any) -> None:
    async with house.world() as world:
        for key in ("alarm", "job", "schedule"):
            await world.get(Account, key).add(100)
        await world.get(Account, "alarm").arm()
        await house.app.jobs.schedule(world.get(Account, "job").job)
        await world.get(Account, "schedule").start("tick")
        await world.advance(seconds=8)
        for key in ("alarm", "job", "schedule"):
            assert await world.get(Account, key).look() == (150, 150)


async def test_a_schedule_that_fails_and_wrote_nothing_keeps_the_copy(house: Any) -> None:
    async with house.world() as world:
        account = world.get(Account, "a")
        await account.start("tock")
        await world.advance(seconds=5.5)
        [failed] = [one for one in await world.ledger(Account, "a") if one.verdict == "failed"]
        assert "Expected" in (failed.error or "")
        assert made == ["a"]
