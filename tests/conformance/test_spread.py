"""A class on several servers: its objects are dealt over them by their names, and everything works across."""

from collections import Counter
from typing import Any

import pytest

from wakeful import App, DurableObject, JobSpec, every
from wakeful.store.protocol import Query
from wakeful.values.errors import BadOption
from wakeful.values.ids import shard_of


def the_app() -> tuple[App, Any, Any]:
    app = App(stores={"Order": {"a": "postgresql://one/x", "b": "postgresql://two/x", "c": "postgresql://three/x"}})

    @app.object
    class Order(DurableObject):
        async def add(self, n: int = 1) -> int:
            total = int(await self.storage.get("total", 0)) + n
            await self.storage.put("total", total)
            return total

        async def pass_on(self, others: list[str]) -> None:
            for other in others:
                await self.jobs.schedule(self.ctx.get(Order, other).add, 1)
            await self.jobs.schedule(self.ctx.get(Mail, "m").note)

        async def fail_after(self, other: str) -> None:
            await self.pass_on([other])
            raise ValueError("no")

        @every("1m", name="beat")
        async def beat(self) -> None:
            await self.storage.put("beats", await self.storage.get("beats", 0) + 1)

    @app.object
    class Mail(DurableObject):
        async def note(self) -> None:
            await self.storage.put("notes", await self.storage.get("notes", 0) + 1)

        async def order(self, key: str) -> None:
            await self.jobs.schedule(self.ctx.get(Order, key).add, 5)

    return app, Order, Mail


KEYS = [f"o{n}" for n in range(60)]


async def test_objects_are_on_the_server_of_their_slot_and_jobs_go_from_each_to_each() -> None:
    app, order, mail = the_app()
    async with app.world() as world:
        for key in KEYS:
            await world.get(order, key).pass_on(KEYS[:3])
        await world.advance(seconds=30)
        for key in KEYS[:3]:
            assert await world.rows(order, key) == {"total": len(KEYS)}
        assert await world.rows(mail, "m") == {"notes": len(KEYS)}
        main, *servers = [world.store, *world._beside.stores()]
        counts = Counter[int]()
        for n, server in enumerate(servers):
            for info in await server.find_objects(Query(cls="Order", limit=1_000)):
                assert shard_of(info.id) % 3 == n
                counts[n] += 1
        assert sum(counts.values()) == len(KEYS)
        assert min(counts.values()) > 10
        assert await main.find_objects(Query(cls="Order")) == []
        await world.get(mail, "m").order("o7")
        await world.advance(minutes=2)
        assert (await world.rows(order, "o7"))["total"] == 5
        assert (await world.rows(order, "o8"))["beats"] == 2


async def test_what_a_failed_turn_sends_within_its_class_is_not_sent() -> None:
    app, order, mail = the_app()
    async with app.world() as world:
        with pytest.raises(ValueError, match="no"):
            await world.get(order, "o1").fail_after("o2")
        await world.advance(minutes=1)
        assert await world.rows(order, "o2") == {}
        assert await world.rows(mail, "m") == {}


async def test_schedule_many_and_lists_go_over_all_servers() -> None:
    app, order, _ = the_app()
    async with app.world() as world:
        await app.jobs.schedule_many([JobSpec(world.get(order, key).add, (2,)) for key in KEYS])
        assert len(await world.due(limit=1_000)) == len(KEYS)
        await world.advance(seconds=10)
        assert [(await world.rows(order, key))["total"] for key in KEYS] == [2] * len(KEYS)
        assert [info.key async for info in app.objects(order)] == sorted(KEYS)
        assert await app.count(order) == len(KEYS)
        assert await app.count(order, "o1") == 11
        assert await app.forget_all("o1", order) == 11
        assert await app.count(order) == len(KEYS) - 11


@pytest.mark.parametrize(
    ("stores", "says"),
    [
        ({"eu/": {"a": "postgresql://x/a"}}, "not a beginning of keys"),
        ({"Order": {}}, "no server"),
        ({"Order": {"A!": "postgresql://x/a"}}, "no name of a server"),
        ({"1x": {"a": "postgresql://x/a"}}, "class name"),
    ],
)
def test_what_can_be_no_spread_is_refused(stores: Any, says: str) -> None:
    with pytest.raises(Exception, match=says):
        App(stores=stores)


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        ({"a": "sqlite:x.db"}, "that takes PostgreSQL"),
        ({"a": "memory:"}, "that takes PostgreSQL"),
        ({"a": "postgresql://x/a", "b": "postgresql://x/a"}, "another store of this program"),
    ],
)
async def test_servers_that_can_be_none_are_refused_before_anything_is_opened(servers: Any, says: str) -> None:
    with pytest.raises(BadOption, match=says):
        async with App(stores={"Order": servers}).run("memory:"):
            pass
