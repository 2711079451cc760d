"""A small deployment on two stores, with something of everything in it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from wakeful import App, DurableObject, RetryPolicy, every, fixed
from wakeful.testing.world import World
from wakeful.views.pages import ViewPage
from wakeful.views.view import View

ONCE = RetryPolicy(max_attempts=1, backoff=fixed("1s"))
START = "2026-03-27T12:00:00+00:00"


class Desk(DurableObject):
    """Has storage, schedules, jobs and failures."""

    async def open(self, count: int) -> None:
        await self.storage.put_many({f"paper/{n}": {"n": n} for n in range(count)})
        await self.schedules.add("every 2 hours", "tick", name="ticking", tags=["slow"])
        await self.schedules.add("after 1m", "tick", name="soon")
        await self.jobs.schedule(self.tick, after="3h", key="later")
        await self.jobs.schedule(self.lose, retry=ONCE)

    @every.day.at("02:30")
    async def nightly(self) -> None:
        pass

    async def tick(self) -> None:
        pass

    async def lose(self) -> None:
        raise ValueError("the pen is lost")


class Drawer(DurableObject):
    """Only keeps things."""

    async def keep(self, what: str) -> None:
        await self.storage.put("what", what)


@asynccontextmanager
async def deployment(
    *, keys: int = 5, stores: bool = True, store: str = "memory:"
) -> AsyncIterator[tuple[World, View]]:
    """Half of the objects in a second store, all of them asleep."""
    app = App(stores={"eu/": "memory:"} if stores else None)
    desk, drawer = app.object(type("Desk", (Desk,), {})), app.object(type("Drawer", (Drawer,), {}))

    @app.every.hour
    async def sweep() -> None:
        pass

    async with app.world(start=START, store=store) as world:
        for n in range(keys):
            for prefix in ("eu/", "us/"):
                await world.get(desk, f"{prefix}{n}").open(3)
                await world.get(drawer, f"{prefix}{n}").keep("a thing")
        await world.advance(minutes=2)
        await world.sleep_all()
        yield world, View.of_node(world.node)


async def all_pages(
    page: Callable[..., Awaitable[ViewPage]], *args: Any, limit: int, **options: Any
) -> list[dict[str, Any]]:
    """Every row, page by page; no page is longer than asked for but where it says so, and every cursor moves on."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        found = await page(*args, limit=limit, cursor=cursor, **options)
        rows += found.rows
        cursor = found.cursor
        if cursor is None:
            return rows
        assert cursor not in seen, "a cursor that leads nowhere"
        seen.add(cursor)
