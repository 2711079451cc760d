"""The memory store's own shortcuts: they may spare work, never change an answer."""

from wakeful.store import MemoryStore
from wakeful.store.protocol import Query
from wakeful.values.commits import Commit
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.runs import Entry

ONE = ObjectId("C", "one")


async def finished(store: MemoryStore, *times: int) -> None:
    entries = [Entry(ONE, "alarm", f"r{at}", at, at, at, 0, "run", "a") for at in times]
    await store.commit("a", [Commit(id=ONE, shard=shard_of(ONE), epoch=1, now=1, entries=entries)])


async def left(store: MemoryStore) -> list[int]:
    return sorted(entry.finished_at for _, entry in await store.find_entries(Query(limit=100)))


async def prune(store: MemoryStore, before: int, limit: int = 100) -> int:
    return await store.prune(now=1, entries_before=before, crowded=(), limit=limit)


async def test_pruning_finds_old_entries_whenever_and_in_whatever_order_they_came() -> None:
    store = MemoryStore()
    await store.open(now=0)
    await store.claim("a", [shard_of(ONE)], now=0)
    assert await prune(store, 50) == 0
    await finished(store, 40, 10, 30, 20)
    assert await prune(store, 20) == 1
    assert await left(store) == [20, 30, 40]
    assert await prune(store, 20) == 0
    await finished(store, 15)  # from a node whose clock is behind
    assert await prune(store, 20) == 1
    assert await prune(store, 100, limit=2) == 2
    assert await prune(store, 100, limit=2) == 1
    assert await left(store) == []
    await finished(store, 60)
    assert await prune(store, 100) == 1
