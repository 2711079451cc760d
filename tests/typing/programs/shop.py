"""A program of a user's: what both type checkers are to know of it. Lines that say so must be refused, all others not."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_type

from wakeful import App, Client, DurableObject, Job, Queue, Run

app = App()


@dataclass
class Item:
    name: str
    price: float


@app.object
class Shop(DurableObject):
    """A shop and its stock."""

    async def add(self, name: str, qty: int = 1) -> int:
        """How many there are now."""
        job = await self.jobs.schedule(self.price, name, after="1d")
        assert_type(job, Job[Item | None])
        await self.jobs.schedule(self.price, 5)  # refused
        await self.schedules.add("every monday at 9am", self.report, name="weekly", catch_up="all", grace=timedelta(1))
        await self.schedules.add("every monday at 9am", self.report, catch_up="everything")  # refused
        await self.schedules.add("every monday at 9am", self.report, catchup="all")  # refused
        await self.schedules.add("every monday at 9am", self.price, "tea", name="price")
        await self.schedules.add("every monday at 9am", self.price, 5)  # refused
        await self.schedules.add("every monday at 9am", "price", 5)
        return qty

    async def price(self, name: str, /, *, at: datetime | None = None) -> Item | None:
        """What it costs; nothing when there is none."""
        return None

    async def report(self, run: Run) -> None: ...

    async def four(self, a: int, b: str, c: float, d: bytes) -> list[Item]:
        return []


async def use() -> None:
    shop = app.get(Shop, "corner")
    assert_type(await shop.add("tea", 2), int)
    await shop.add(2)  # refused
    job = await app.jobs.schedule(shop.add, "tea", 2, after="5m", key="tea")
    assert_type(job, Job[int])
    assert_type(await app.jobs.wait(job), int)
    assert_type(await app.jobs.wait(await app.jobs.schedule(shop.add, "tea", qty=3)), int)
    assert_type(await app.jobs.wait(await app.jobs.schedule(shop.add, name="tea", after=5)), int)
    assert_type(
        await app.jobs.wait(await app.jobs.schedule(shop.four, 1, "b", 2, b"d", at=datetime.now(UTC))), list[Item]
    )
    await app.jobs.wait("Shop/corner/add%3Atoken", timeout="5s")
    assert_type(await app.jobs.schedule(shop.add, "tea", 2, queue=Queue("stock", concurrency=1, key="a")), Job[int])
    assert_type((await app.queues.get("stock")).waiting, int)
    await app.jobs.schedule(shop.add, "tea", queue="stock")  # refused
    Queue("stock", concurency=1)  # refused
    await app.jobs.schedule(shop.add, 2)  # refused
    await app.jobs.schedule(shop.add, "tea", "two")  # refused
    await app.jobs.schedule(shop.four, 1, "b", 2, "d")  # refused
    await app.jobs.schedule(shop.add, "tea", after=object())  # refused
    await app.jobs.schedule("add", "tea")  # refused
    await app.schedules(Shop, "corner").add("0 9 * * 1", Shop.report, name="weekly", zone="Europe/Paris", tags=["a"])
    await app.schedules(Shop, "corner").add("0 9 * * 1", Shop.report, name=5)  # refused
    await app.schedules(Shop, "corner").add("0 9 * * 1", Shop.price, "tea")
    await app.schedules(Shop, "corner").add("0 9 * * 1", Shop.price, 5)  # refused
    await app.schedules(Shop, "corner").add("0 9 * * 1", shop.add, "tea", "two")  # refused
    await app.schedules(Shop, "corner").add(spec="0 9 * * 1", handler=shop.add, kwargs={"name": "tea"})


async def use_client() -> None:
    async with Client("http://127.0.0.1:7420") as client:
        shop = client.get(Shop, "corner")
        assert_type(await shop.price("tea"), Item | None)
        job = await client.jobs.schedule(shop.price, "tea", after="5m")
        assert_type(await client.jobs.wait(job), Item | None)
        await client.jobs.schedule(shop.price, 5)  # refused
        await client.schedules(Shop, "corner").add("0 9 * * 1", shop.report, overlap="never")  # refused
        await client.schedules(Shop, "corner").add("0 9 * * 1", shop.price, "tea", overlap="skip")
        await client.schedules(Shop, "corner").add("0 9 * * 1", shop.price, 5)  # refused
