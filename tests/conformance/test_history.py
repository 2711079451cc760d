"""Points in time: an object with a history can be as it was, and what it was is kept with each commit; on every store."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from wakeful import App, DurableObject, Limits, errors, reader
from wakeful.history.object_history import PRUNED_ROWS
from wakeful.runtime.registry import Registry
from wakeful.store import Range
from wakeful.testing import World
from wakeful.values.commits import HISTORY, SYSTEM, USER
from wakeful.values.ids import ObjectId

A = ObjectId("Shop", "a")
HOUR = timedelta(hours=1)


@dataclass
class Till:
    cents: int = 0


class Expected(Exception):
    pass


async def deploy(world: World, keep: Any = "30d", steps: Any = ()) -> Any:
    """A program whose class has that history and these migrations, in the place of the one that ran."""
    await world.crash()
    world.app.deployment.registry = Registry()

    class Shop(DurableObject):
        history = keep
        migrations = list(steps)
        state: Till

        def __init__(self, ctx: Any) -> None:
            super().__init__(ctx)
            self.memory: list[str] = []

        async def put(self, key: str, value: Any = 1) -> str:
            self.memory.append(key)
            await self.storage.put(key, value)
            return await self.ctx.bookmark() if keep else ""  # of what was before it

        async def fill(self, key: str) -> None:
            await self.storage.put(key, key * 1_200_000)

        async def earn(self, cents: int) -> None:
            self.state.cents += cents

        async def stock(self, name: str) -> None:
            self.sql("CREATE TABLE IF NOT EXISTS items (name TEXT)")
            self.sql("INSERT INTO items VALUES (?)", name)

        async def clear(self) -> None:
            await self.storage.delete_all()

        async def ring(self, after: timedelta) -> None:
            await self.storage.set_alarm(after)

        async def alarm(self) -> None:
            await self.storage.put("rang", self.ctx.now())
            if await self.storage.get("alarm goes back"):
                await self.ctx.restore(await self.storage.get("alarm goes back"))

        async def mark(self, at: Any = None) -> str:
            return await self.ctx.bookmark(at=at)

        async def back(self, mark: str, timers: bool = True) -> str:
            await self.storage.put("dropped", True)
            self.state.cents = -1
            return await self.ctx.restore(mark, timers=timers)

        async def back_and_fail(self, mark: str) -> None:
            await self.ctx.restore(mark)
            raise Expected

        async def back_in_transaction(self, mark: str) -> None:
            async with self.ctx.transaction():
                await self.ctx.restore(mark)

        async def soon(self, key: str) -> None:
            await self.jobs.schedule(self.put, key, after=HOUR)

        @reader
        async def look(self) -> Any:
            tables = self.sql("SELECT name FROM sqlite_schema").raw()
            items = [row["name"] for row in self.sql("SELECT name FROM items")] if tables else []
            alarm = await self.storage.get_alarm()
            return sorted(await self.storage.list()), self.state.cents, items, alarm is not None, list(self.memory)

        @reader
        async def back_in_a_reader(self, mark: str) -> None:
            await self.ctx.restore(mark)

    world.app.object(Shop)
    await world.restart()
    return world.get(Shop, "a")


async def points(world: World) -> list[str]:
    return [name for name, _ in await world.store.scan(A, HISTORY, Range())]


async def test_an_object_is_as_it_was_and_wakes_anew(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        await shop.put("first")
        await shop.earn(5)
        await shop.stock("tea")
        await shop.ring(HOUR)
        mark = await shop.mark()
        was = await shop.look()
        await shop.put("second")
        await shop.earn(7)
        await shop.stock("milk")
        await shop.clear()
        assert await shop.look() == ([], 12, [], False, ["first", "second"])
        before = await shop.back(mark)
        assert await shop.look() == (*was[:4], [])  # its memory is new
        await world.sleep_all()
        assert (await shop.look())[:4] == was[:4]
        await shop.back(before)
        assert (await shop.look())[:4] == ([], 12, [], False)
        await world.crash()
        await world.restart()
        assert (await shop.look())[:4] == ([], 12, [], False)


async def test_timers_are_left_alone_when_asked_and_a_restored_alarm_rings(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        await shop.ring(2 * HOUR)
        mark = await shop.mark()
        await shop.ring(5 * HOUR)
        await shop.put("x")
        before = await shop.back(mark, False)
        await world.advance(3 * HOUR)
        assert (await shop.look())[0] == []
        await shop.back(before, False)
        await shop.back(mark)
        await world.settle()  # it was for an hour ago
        assert (await shop.look())[0] == ["rang"]


async def test_a_bookmark_of_a_time_is_what_the_object_was_then(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        marks = []
        for key in "abc":
            await shop.put(key)
            await world.advance(HOUR)
            marks.append((world.now() - HOUR / 2, await shop.mark()))
        assert [mark for _, mark in marks] == sorted(mark for _, mark in marks)
        await shop.back(await shop.mark(marks[0][0]))
        assert (await shop.look())[0] == ["a"]
        await shop.back(marks[1][1])
        assert (await shop.look())[0] == ["a", "b"]
        with pytest.raises(errors.UnknownPoint, match="still to come"):
            await shop.mark(world.now() + HOUR)


async def test_a_restore_that_does_not_commit_leaves_the_object_as_it_was(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        mark = await shop.put("x")
        await shop.stock("tea")
        was = (await shop.look())[:4]
        with pytest.raises(Expected):
            await shop.back_and_fail(mark)
        assert (await shop.look())[:4] == was
        await shop.mark()
        world.faults.fail_commit(0, when="before")
        with pytest.raises(errors.Unavailable):
            await shop.back(mark)
        await world.advance(timedelta(seconds=1))
        assert (await shop.look())[:4] == was
        await shop.back(mark)
        assert (await shop.look())[0] == []


async def test_what_may_not_be_asked_for_is_refused(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        mark = await shop.put("x")
        for refused, code in (
            (shop.back("nonsense"), "history.bookmark"),
            (shop.back_in_transaction(mark), "turn.nested"),
            (shop.back_in_a_reader(mark), "turn.reader"),
            (shop.mark("yesterday"), "time.type"),
        ):
            with pytest.raises(errors.WakefulError) as caught:
                await refused
            assert caught.value.code == code
        shop = await deploy(world, keep=None)
        for refused in (shop.mark(), shop.back(mark)):
            with pytest.raises(errors.BadOption, match="keeps no history") as off:
                await refused
            assert off.value.code == "history.off"


async def test_an_alarm_does_not_bring_itself_back(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        await shop.ring(HOUR)
        await shop.put("alarm goes back", await shop.mark())
        await world.advance(2 * HOUR)
        assert "rang" not in (await shop.look())[0]
        assert ["history.timers" in parked.error for parked in await world.parked()] == [True]


async def test_jobs_stay_what_they_are(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        mark = await shop.put("x")
        await shop.soon("by job")
        await shop.back(mark)
        await world.advance(2 * HOUR)
        assert (await shop.look())[0] == ["by job"]


async def test_a_class_without_history_keeps_nothing(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, keep=None)
        await shop.put("x")
        await shop.clear()
        assert await points(world) == []
        assert (await world.store.load([A]))[0].rows == {}


async def test_points_begin_when_history_is_switched_on_and_end_when_it_is_switched_off(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, keep=None)
        await shop.put("early")
        await world.advance(HOUR)
        shop = await deploy(world)
        begun = world.now()
        mark = await shop.put("late")
        with pytest.raises(errors.UnknownPoint, match=begun.isoformat()[:16]):
            await shop.mark(begun - HOUR / 2)
        await shop.back(mark)
        assert (await shop.look())[0] == ["early"]
        await world.advance(HOUR)
        shop = await deploy(world, keep=None)
        await shop.put("unnoted")
        assert await points(world) == []
        await world.advance(HOUR)
        shop = await deploy(world)
        again = await shop.put("noted")
        with pytest.raises(errors.UnknownPoint):
            await shop.back(mark)
        await shop.back(again)
        assert (await shop.look())[0] == ["early", "unnoted"]


async def test_pruning_is_bounded_and_says_from_when_on_points_are_left(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, keep="2h")
        marks = [await shop.put("n", number) for number in range(2 * PRUNED_ROWS + 10)]
        await world.advance(3 * HOUR)
        count = len(await points(world))
        kept = await shop.put("n", "new")
        assert count + 1 - len(await points(world)) <= PRUNED_ROWS
        with pytest.raises(errors.UnknownPoint, match="its history begins at"):
            await shop.back(marks[0])
        for number in range(4):
            await shop.put("n", number)
        assert len(await points(world)) == 5
        await shop.back(kept)
        assert dict(await world.store.scan(A, USER, Range())).keys() == {"n"}


async def test_an_object_that_sleeps_is_pruned_too(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, keep="2h")
        for number in range(PRUNED_ROWS + 10):
            await shop.put("n", number)
        mark = await shop.mark()
        await world.sleep_all()
        await world.advance(3 * HOUR)
        assert await points(world) == []
        assert (await shop.look())[0] == ["n"]
        await shop.back(mark)  # nothing was changed since: the point is there


async def add_second(shop: Any) -> None:
    await shop.storage.put("second", True)


async def add_third(shop: Any) -> None:
    await shop.storage.put("third", True)


async def test_to_a_point_before_a_migration_it_runs_again_and_a_newer_object_comes_back(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, steps=[add_second])
        await shop.put("x")
        mark = await shop.mark()
        shop = await deploy(world, steps=[add_second, add_third])
        await shop.put("y")
        await shop.back(mark)
        assert (await shop.look())[0] == ["second", "third", "x"]
        shop = await deploy(world, steps=[add_second])
        with pytest.raises(errors.ObjectTooNew):
            await shop.look()
        await world.node.send(A, "history.restore", (mark, True), {})
        assert (await shop.look())[0] == ["second", "x"]


async def test_an_image_of_several_rows_and_one_that_is_too_large(store_url: str) -> None:
    async with App(limits=Limits(history_bytes=4_000_000)).world(store=store_url) as world:
        shop = await deploy(world)
        for key in "abc":
            await shop.fill(key)
        mark = await shop.mark()
        await shop.clear()
        assert len(await points(world)) == 3 + 4
        await shop.back(mark)
        assert (await shop.look())[0] == ["a", "b", "c"]
        await shop.fill("d")
        with pytest.raises(errors.LimitExceeded, match="history_bytes"):
            await shop.clear()
        assert (await shop.look())[0] == ["a", "b", "c", "d"]


async def test_the_image_is_in_the_commit_and_none_is_made_of_nothing(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        await shop.put("x")
        assert len(await points(world)) == 1
        await shop.put("x")  # the same again
        await shop.mark()
        assert len(await points(world)) == 1
        world.faults.fail_commit(0, when="before")
        with pytest.raises(errors.Unavailable):
            await shop.put("y")
        await world.advance(timedelta(seconds=1))
        assert len(await points(world)) == 1
        assert (SYSTEM, "history") in (await world.store.load([A]))[0].rows


async def test_what_was_never_read_is_read_before_it_is_written(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world)
        for number in range(20):  # too many to be read with it
            await shop.put(f"k{number:02}", number)
        mark = await shop.mark()
        await world.sleep_all()
        await shop.put("k07", "other")
        await world.sleep_all()
        await shop.clear()
        await shop.back(mark)
        assert await world.rows(world.app.deployment.registry.by_name("Shop").cls, "a") == {
            f"k{number:02}": number for number in range(20)
        }
