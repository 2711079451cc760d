"""The history of an object goes where the object goes: to another node, into a file, under a seal; and machines have one."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.cluster_stage import Cluster, key_of
from wakeful import App, DurableObject, Machine, errors
from wakeful.history.images import Image, bookmark_after, rows_of
from wakeful.importers import archive
from wakeful.store import Query, Range, Store
from wakeful.store.sealed_store import SealedStore
from wakeful.values.commits import HISTORY, SPACES, SYSTEM, USER
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.seals import KeyRing

A = ObjectId("Note", "a")


class Note(DurableObject):
    history = "30d"

    async def write(self, text: str) -> str:
        await self.storage.put("text", text)
        self.sql("CREATE TABLE IF NOT EXISTS texts (text TEXT)")
        self.sql("INSERT INTO texts VALUES (?)", text)
        await self.ctx.commit()
        return await self.ctx.bookmark()

    async def back(self, mark: str) -> str:
        return await self.ctx.restore(mark)

    async def read(self) -> list[Any]:
        return [await self.storage.get("text"), [row["text"] for row in self.sql("SELECT text FROM texts")]]


def make_app() -> App:
    app = App()
    app.object(Note)
    return app


@asynccontextmanager
async def written(cluster: Cluster) -> AsyncIterator[tuple[Any, App, Any, str, str]]:
    """The world, its program, the owner of a note, its key, and the bookmark of the first of its two texts."""
    troupe, world = cluster()
    troupe.app = world.app = app = make_app()
    async with world:
        owner = world.members[0]
        key = key_of(owner)
        first = await app.get(Note, key).write("one")
        await app.get(Note, key).write("two")
        yield world, app, owner, key, first


async def test_when_its_owner_dies_another_node_brings_it_back(cluster: Cluster) -> None:
    async with written(cluster) as (world, app, owner, key, first):
        owner.kill()
        await world.advance(seconds=30)
        undo = await app.get(Note, key).back(first)
        assert await app.get(Note, key).read() == ["one", ["one"]]
        await app.get(Note, key).back(undo)
        assert await app.get(Note, key).read() == ["two", ["one", "two"]]


async def test_images_are_sealed(new_store: Callable[[], Store]) -> None:
    app, inner = make_app(), new_store()
    async with app.run(SealedStore(inner, KeyRing([bytes(range(32))], os.urandom))):
        first = await app.get(Note, "a").write("secret one")
        await app.get(Note, "a").write("secret two")
        kept = await inner.scan(A, HISTORY, Range())
        assert len(kept) == 2
        assert not any(b"secret" in data for _, data in kept)
        await app.get(Note, "a").back(first)
        assert await app.get(Note, "a").read() == ["secret one", ["secret one"]]


async def test_it_travels_in_a_file(new_store: Callable[[], Store]) -> None:
    app, first, second = make_app(), new_store(), new_store()
    async with app.run(first):
        mark = await app.get(Note, "a").write("one")
        await app.get(Note, "a").write("two")
    await first.open(now=0)
    lines, left = await archive.export(first, A, now=0)
    await first.close()
    assert left == []
    await second.open(now=0)
    await archive.unpack(second, archive.read(b"".join(lines), "a.jsonl"), name="importer", now=0)
    await second.close()
    async with app.run(second):
        await app.get(Note, "a").back(mark)
        assert await app.get(Note, "a").read() == ["one", ["one"]]


CHART = {
    "initial": "waiting",
    "states": {"waiting": {"after": {"60s": "over"}, "on": {"STOP": "stopped"}}, "over": {}, "stopped": {}},
}


@pytest.mark.parametrize("timers", [True, False])
async def test_a_machine_goes_back_with_its_delays(store_url: str, timers: bool) -> None:
    app = App()

    @app.object
    class Wait(Machine):
        history = "30d"
        chart = CHART

    async with app.world(store=store_url) as world:
        wait, id = world.get(Wait, "w"), ObjectId("Wait", "w")
        await wait.start()
        [mark] = {name[:17] for name, _ in await world.store.scan(id, HISTORY, Range())}
        await wait.send({"type": "STOP"})
        assert (await wait.snapshot()).value == "stopped"
        await world.advance(seconds=10)
        await world.node.send(id, "history.restore", (mark, timers), {})
        assert (await wait.snapshot()).value == "waiting"
        await world.advance(seconds=60)
        assert (await wait.snapshot()).value == ("over" if timers else "waiting")


async def test_a_restore_whose_shard_is_another_s_leaves_the_object_as_it_was(cluster: Cluster) -> None:
    async with written(cluster) as (world, app, owner, key, first):
        assert owner.node is not None
        shard = shard_of(ObjectId("Note", key))
        seen = {shard: owner.node.epochs[shard]}
        epochs = await world.store.claim("thief", [shard], now=world.warp.now(), seen=seen)
        with pytest.raises(errors.Unavailable):
            await app.get(Note, key, deadline="2s").back(first)
        await world.store.release("thief", epochs)
        await world.advance(seconds=30)
        assert await app.get(Note, key).read() == ["two", ["one", "two"]]


async def test_an_image_in_a_file_plants_nothing_that_no_commit_has(new_store: Callable[[], Store]) -> None:
    app, first, second = make_app(), new_store(), new_store()
    async with app.run(first):
        mark = await app.get(Note, "a").write("one")
    await first.open(now=0)
    lines, _ = await archive.export(first, A, now=0)
    await first.close()
    carried = archive.read(b"".join(lines), "a.jsonl")
    planted = [(SYSTEM, "jobs.x", b"x"), (SYSTEM, "history", b"x"), (HISTORY, "x", b"x"), (9, "x", b"x")]
    image = Image("write", "", [*planted, (USER, "text", None)], {"job:x": (1, 1, 1, 0, 0, None)})
    carried.puts |= {slot: data for slot, data in rows_of(bookmark_after(mark, 0), image).items() if data is not None}
    await second.open(now=0)
    await archive.unpack(second, carried, name="importer", now=0)
    await second.close()
    async with app.run(second) as node:
        await node.send(A, "history.restore", (mark, True), {})
        rows = [key for space in SPACES for key, _ in await second.scan(A, space, Range())]
        assert [key for key in rows if key in ("jobs.x", "x", "text")] == []
        assert await second.find_timers(Query(cls="Note", key="a")) == []
