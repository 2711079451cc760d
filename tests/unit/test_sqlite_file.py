"""The file of the SQLite store, when others handle it while it is open: their locks, its name, its log."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from wakeful import App, DurableObject
from wakeful.store.sqlite import SqliteStore
from wakeful.values.commits import USER, Commit
from wakeful.values.errors import FileOwned, StoreDown
from wakeful.values.ids import ObjectId, shard_of

NOW = 1_760_000_000_000
A = ObjectId("Order", "a")
TOOL = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM kv').fetchall(); db.close()"


async def opened(path: Path) -> SqliteStore:
    store = SqliteStore(str(path))
    await store.open(now=NOW)
    await store.claim("n", range(256), now=NOW)
    return store


async def put(store: SqliteStore, value: bytes) -> None:
    commit = Commit(id=A, shard=shard_of(A), epoch=1, now=NOW, puts={(USER, "k"): value})
    assert await store.commit("n", [commit]) == [None]


def seen(path: Path) -> bytes:
    """What somebody else reads in the file."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    [(value,)] = db.execute("SELECT value FROM kv").fetchall()
    db.close()
    return bytes(value)


async def test_a_second_look_by_the_same_process_keeps_the_log_from_being_removed_by_a_tool(tmp_path: Path) -> None:
    """It did not: the look's own `open` and `close` took the locks, so the tool thought that nobody was there."""
    path = tmp_path / "app.db"
    store = await opened(path)
    await put(store, b"1")
    look = SqliteStore(str(path))
    await look.open(now=NOW, readonly=True)
    await look.close()
    with pytest.raises(FileOwned):
        await SqliteStore(str(path)).open(now=NOW)
    with pytest.raises(FileOwned):
        await SqliteStore(str(path)).migrate(now=NOW)
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", TOOL, path], check=True, timeout=30)
    assert {"app.db", "app.db-wal", "app.db-shm"} <= set(os.listdir(tmp_path))
    await put(store, b"2")
    assert seen(path) == b"2"
    await store.close()


@pytest.mark.parametrize("change", ["renamed", "replaced"])
async def test_a_file_that_lost_its_name_takes_no_more_writes_until_it_is_back(tmp_path: Path, change: str) -> None:
    path, aside = tmp_path / "app.db", tmp_path / "aside.db"
    store = await opened(path)
    await put(store, b"1")
    path.rename(aside)
    if change == "replaced":
        path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(
            StoreDown, match=r"app\.db was removed, renamed or replaced while it was open; put"
        ) as error:
            await put(store, b"2")
        assert error.value.code == "store.moved"
        with pytest.raises(StoreDown, match="renamed or replaced"):
            await store.open(now=NOW)  # as a node does to recover: no empty database comes of it
    assert path.exists() == (change == "replaced")
    aside.replace(path)
    await store.open(now=NOW)
    assert await store.read(A, USER, ["k"]) == {"k": b"1"}
    await put(store, b"3")
    assert seen(path) == b"3"
    await store.close()


async def test_a_log_that_was_removed_is_made_anew_with_nothing_lost(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    store = await opened(path)
    await put(store, b"1")
    os.unlink(f"{path}-wal")
    with pytest.raises(StoreDown, match=r"app\.db-wal was removed while it was open"):
        await put(store, b"2")
    await store.open(now=NOW)
    assert seen(path) == b"1"
    await put(store, b"3")
    assert seen(path) == b"3"
    await store.close()


async def test_a_node_whose_file_is_renamed_refuses_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    app = App()

    @app.object
    class Counter(DurableObject):
        async def add(self) -> int:
            count = int(await self.storage.get("count", 0)) + 1
            await self.storage.put("count", count)
            return count

    path, aside = tmp_path / "app.db", tmp_path / "aside.db"
    async with app.run(f"sqlite:{path}") as node:
        assert await app.get(Counter, "a").add() == 1
        path.rename(aside)
        with pytest.raises(StoreDown, match="renamed or replaced"):
            await app.get(Counter, "a").add()
        assert node.state == "down"
        assert not path.exists()
        aside.rename(path)
        for _ in range(1_000):
            if node.state == "up":
                break
            await asyncio.sleep(0.01)
        assert await app.get(Counter, "a").add() == 2


async def test_an_open_that_was_cancelled_leaves_its_connection_to_be_closed(tmp_path: Path) -> None:
    """A node that stops while it recovers: the writer, waiting for a commit, must not be left behind with its thread."""
    store = await opened(tmp_path / "app.db")
    writer = store._open_writer
    assert writer is not None
    await writer._lock.acquire()
    recovering = asyncio.create_task(store.open(now=NOW))
    await asyncio.sleep(0)
    recovering.cancel()
    await asyncio.wait([recovering])
    writer._lock.release()
    await store.close()
    assert not writer._thread.is_alive()
    assert writer.db is None
