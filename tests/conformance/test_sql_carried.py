"""The database of an object goes where the object goes: to another node, into a file, under a seal."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, key_of
from wakeful import App, DurableObject, Unavailable
from wakeful.importers import archive
from wakeful.store import Store, key_rotation
from wakeful.store.protocol import Range
from wakeful.store.sealed_store import SealedStore
from wakeful.values.commits import PAGES
from wakeful.values.errors import BadInput
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.seals import KeyRing

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


class Cell(DurableObject):
    """Counts in its rows and in its database, which must always tell the same."""

    async def count(self, pause: float = 0.0) -> int:
        self.sql("CREATE TABLE IF NOT EXISTS counted (n INTEGER PRIMARY KEY, about TEXT)")
        number: int = self.sql("INSERT INTO counted (about) VALUES (?) RETURNING n", "secret " * 50).value()
        await self.storage.put("n", await self.storage.get("n", 0) + 1)
        if pause:
            await asyncio.sleep(pause)
        return number

    async def both(self) -> list[int]:
        if not self.sql("SELECT 1 FROM sqlite_schema"):
            return [await self.storage.get("n", 0), 0]
        assert self.sql("PRAGMA integrity_check").value() == "ok"
        return [await self.storage.get("n", 0), self.sql("SELECT count(*) FROM counted").value()]


def make_app() -> App:
    app = App()
    app.object(Cell)
    return app


async def test_when_its_owner_dies_another_node_has_all_of_it(cluster: Cluster) -> None:
    troupe, world = cluster()
    troupe.app = world.app = app = make_app()
    async with world:
        owner = world.members[0]
        key = key_of(owner)
        for number in range(1, 4):
            assert await app.get(Cell, key).count() == number
        owner.kill()
        await world.advance(seconds=30)
        assert await app.get(Cell, key).count() == 4
        assert await app.get(Cell, key).both() == [4, 4]


async def test_a_turn_whose_shard_is_another_s_leaves_no_page(cluster: Cluster) -> None:
    troupe, world = cluster()
    troupe.app = world.app = app = make_app()
    async with world:
        owner = world.members[0]
        key = key_of(owner)
        assert await app.get(Cell, key).count() == 1
        call = asyncio.ensure_future(app.get(Cell, key, deadline="2s").count(0.2))
        await world.advance(milliseconds=50)
        assert owner.node is not None
        shard = shard_of(ObjectId("Cell", key))
        seen = owner.node.epochs[shard]
        epochs = await world.store.claim("thief", [shard], now=world.warp.now(), seen={shard: seen})
        with pytest.raises(Unavailable):
            await call
        await world.store.release("thief", epochs)
        await world.advance(seconds=30)
        assert await app.get(Cell, key).both() == [1, 1]
        assert await app.get(Cell, key).count() == 2


@pytest.mark.parametrize("when", ["before", "after"])
async def test_rows_and_pages_are_never_apart(store_url: str, when: Any) -> None:
    """Whichever commit is lost."""
    app = make_app()
    async with app.world(store=store_url) as world:
        for number in range(6):
            world.faults.fail_commit(number % 2, when=when)
            calls = [app.get(Cell, "a", deadline="2s").count() for _ in range(2)]
            await asyncio.gather(*calls, return_exceptions=True)
            world.faults.fail_commits.clear()
            await world.advance(seconds=10)
            if number % 3 == 0:
                await world.crash()
                await world.restart()
            rows, counted = await app.get(Cell, "a").both()
            assert rows == counted


def ring(*keys: bytes) -> KeyRing:
    return KeyRing(keys, os.urandom)


async def test_pages_are_sealed_and_get_a_newer_key(new_store: Callable[[], Store]) -> None:
    app, inner = make_app(), new_store()
    async with app.run(SealedStore(inner, ring(OLD))):
        for _ in range(20):
            await app.get(Cell, "a").count()
    both = SealedStore(inner, ring(NEW, OLD))
    await both.open(now=0)
    pages = await inner.scan(ObjectId("Cell", "a"), PAGES, Range())
    assert len(pages) > 1
    assert not [name for name, data in pages if b"secret" in data or b"SQLite" in data]
    place = None
    while True:
        page = await key_rotation.page(both, place, now=0, is_change=True)
        if (place := page.place) is None:
            break
    await both.close()
    async with app.run(SealedStore(inner, ring(NEW))):
        assert await app.get(Cell, "a").both() == [20, 20]


async def test_it_travels_in_a_file(new_store: Callable[[], Store]) -> None:
    app, first, second, id = make_app(), new_store(), new_store(), ObjectId("Cell", "a")
    async with app.run(first):
        for _ in range(20):
            await app.get(Cell, "a").count()
    await first.open(now=0)
    lines, left = await archive.export(first, id, now=0)
    await first.close()
    assert left == []
    await second.open(now=0)
    await archive.unpack(second, archive.read(b"".join(lines), "a.jsonl"), name="importer", now=0)
    await second.close()
    async with app.run(second):
        assert await app.get(Cell, "a").both() == [20, 20]


@pytest.mark.parametrize("row", [[2, "1", "AAAA"], [2, "0000000g", "AAAA"], [2, "00000001", "AAAA"], [3, "x", "AAAA"]])
async def test_a_file_brings_no_page_that_could_be_none(row: list[Any]) -> None:
    head = {"wakeful": "object", "version": 1, "class": "Cell", "key": "a", "created_at": 1, "active_at": 1}
    lines = [archive._encode(line) for line in (head, {"row": row})]
    with pytest.raises(BadInput, match="nothing was imported"):
        archive.read(b"".join([*lines, archive._encode(archive._end(lines))]), "f")
