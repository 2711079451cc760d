"""The memory store's own shortcuts: they may spare work, never change an answer."""

from collections.abc import Sequence

from wakeful.store import Disk, MemoryStore
from wakeful.store.protocol import Hint, NodeRow, Query
from wakeful.values.commits import Commit
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry

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


async def test_stores_of_one_disk_hear_each_other_and_see_who_is_gone() -> None:
    disk = Disk()
    stores = [MemoryStore(disk, shared=True, listens=True, sees=True) for _ in range(3)]
    heard: list[list[Sequence[Hint]]] = [[], [], []]
    for n, store in enumerate(stores):
        await store.open(now=0)
        await store.join(NodeRow(f"n{n}", "", 0, 9, ""))
        store.watch(heard[n].append)
    await stores[0].tell([Hint(3, 1, 2)])
    await stores[1].tell([])
    assert heard == [[[]], [[Hint(3, 1, 2)]], [[Hint(3, 1, 2)], []]]
    await stores[2].close()
    assert [row.is_here for row in await stores[0].nodes()] == [True, True, False]
    await stores[0].tell([])
    assert len(heard[2]) == 2


async def test_a_store_that_does_not_listen_tells_nobody_and_can_not_tell_who_is_here() -> None:
    disk = Disk()
    one, other = MemoryStore(disk, shared=True), MemoryStore(disk, shared=True, clock=lambda: 77)
    heard: list[Sequence[Hint]] = []
    for store in (one, other):
        await store.open(now=0)
        await store.join(NodeRow("n", "", 0, 9, ""))
        store.watch(heard.append)
    await one.tell([Hint(3, 1, 2)])
    assert heard == []
    assert [row.is_here for row in await one.nodes()] == [None]
    assert (await one.time(), await other.time()) == (None, 77)
