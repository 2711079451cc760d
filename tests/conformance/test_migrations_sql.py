"""Migrations that are SQL texts, and functions that use SQL: once for each object, with its commit; on every store."""

from typing import Any

import pytest

from wakeful import App, DurableObject, errors, reader
from wakeful.runtime.registry import Registry
from wakeful.testing import World
from wakeful.values.errors import MigrationFailed

ITEMS = "CREATE TABLE items (name TEXT PRIMARY KEY, qty INTEGER NOT NULL); CREATE INDEX by_qty ON items (qty)"
LINES = "CREATE TABLE lines (item TEXT REFERENCES items (name), note TEXT)"
SEARCH = "CREATE VIRTUAL TABLE words USING fts5 (word)"


async def add_prices(shop: Any) -> None:
    shop.ctx.sql("ALTER TABLE items ADD COLUMN cents INTEGER NOT NULL DEFAULT 5")
    await shop.storage.put("has_prices", True)


async def deploy(world: World, *steps: Any) -> type:
    """A program with these migrations, in the place of the one that ran."""
    await world.crash()
    app = world.app
    app.deployment.registry = Registry()

    @app.object
    class Shop(DurableObject):
        migrations = list(steps)

        async def add(self, name: str, qty: int) -> int:
            self.sql("INSERT INTO items (name, qty) VALUES (?, ?)", name, qty)
            return int(self.sql("SELECT sum(qty) FROM items").value())

        async def run(self, query: str) -> list[Any]:
            return [tuple(row.values()) for row in self.sql(query)]

        async def fail(self, query: str) -> None:
            self.sql(query)
            raise ZeroDivisionError

        async def clear(self) -> None:
            await self.storage.delete_all()

        async def clear_and_fail(self) -> None:
            await self.storage.delete_all()
            raise ZeroDivisionError

        @reader
        async def look(self, query: str = "SELECT count(*) FROM items") -> Any:
            return self.sql(query).value()

    await world.restart()
    return Shop


async def test_texts_and_functions_run_once_in_order_and_sleep_with_the_object(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, ITEMS)
        assert await world.get(shop, "a").add("tea", 3) == 3
        await world.sleep_all()
        assert await world.get(shop, "a").add("milk", 2) == 5
        shop = await deploy(world, ITEMS, add_prices, LINES)
        assert await world.get(shop, "a").look("SELECT sum(qty * cents) FROM items") == 25
        await world.get(shop, "a").run("INSERT INTO lines VALUES ('tea', 'green')")
        await world.crash()
        await world.restart()
        assert await world.get(shop, "a").look("SELECT note FROM lines") == "green"
        assert await world.get(shop, "new").add("tea", 1) == 1  # a new one has them all
        shop = await deploy(world, ITEMS)
        with pytest.raises(errors.ObjectTooNew):
            await world.get(shop, "a").look()


async def test_to_look_at_an_object_that_is_nowhere_does_not_make_it(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, ITEMS, add_prices)
        assert await world.get(shop, "a").look() == 0
        assert await world.get(shop, "a").look("SELECT count(*) FROM pragma_table_info('items')") == 3
        with pytest.raises(errors.ReadOnly):
            await world.get(shop, "a").look("DELETE FROM items")
        assert await world.app.count(shop) == 0
        assert await world.get(shop, "a").add("tea", 3) == 3
        assert await world.get(shop, "a").look() == 1
        assert await world.app.count(shop) == 1


async def test_a_text_that_fails_is_named_and_nothing_of_it_is_kept(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, ITEMS, "CREATE TABLE more (x); CREATE TABLE items (y)")
        for _ in range(2):
            with pytest.raises(
                MigrationFailed, match=r"migration 2 of Shop/a, CREATE TABLE more .*items already exists"
            ):
                await world.get(shop, "a").add("tea", 1)
        assert await world.app.count(shop) == 0
        shop = await deploy(world, ITEMS, "CREATE TABLE more (x)")
        assert await world.get(shop, "a").add("tea", 1) == 1
        assert await world.get(shop, "a").look("SELECT count(*) FROM more") == 0


async def test_what_is_undone_leaves_what_the_migrations_made(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, ITEMS)
        with pytest.raises(ZeroDivisionError):
            await world.get(shop, "a").fail("INSERT INTO items VALUES ('tea', 1)")
        assert await world.get(shop, "a").look() == 0
        assert await world.get(shop, "a").add("tea", 2) == 2


async def test_delete_all_leaves_the_tables_that_migrations_made(store_url: str) -> None:
    async with App().world(store=store_url) as world:
        shop = await deploy(world, ITEMS, LINES, SEARCH)
        one = world.get(shop, "a")
        await one.add("tea", 3)
        await one.run("INSERT INTO lines VALUES ('tea', 'green'); INSERT INTO words VALUES ('leaf')")
        with pytest.raises(ZeroDivisionError):
            await one.clear_and_fail()
        assert (await one.look(), await one.look("SELECT count(*) FROM words")) == (1, 1)
        await one.clear()
        for _ in range(2):
            for table in ("items", "lines", "words"):
                assert await one.look(f"SELECT count(*) FROM {table}") == 0
            await world.sleep_all()
        await one.run("INSERT INTO words VALUES ('leaf')")
        assert await one.look("SELECT count(*) FROM words WHERE words MATCH 'leaf'") == 1
        assert await one.run("PRAGMA integrity_check") == [("ok",)]
        assert await one.add("milk", 1) == 1
