"""Layer 5. What do the conformance tests of a store stand on?"""

from typing import Any

from wakeful.store.protocol import Query, Range, Store
from wakeful.values.commits import USER, Commit, Info
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import ALARM, Entry, Parked, Timer, Verdict

NOW = 1_760_000_000_000
NODE = "node-a"
ALL = range(SHARDS)
A, B, C = ObjectId("Order", "a"), ObjectId("Order", "b"), ObjectId("Tenant", "c")


def timer(id: ObjectId = A, name: str = ALARM, *, due_at: int = NOW, seq: int = 1, **more: Any) -> Timer:
    return Timer(id, name, due_at, more.pop("nominal_at", due_at), seq, **more)


def entry(
    id: ObjectId = A, name: str = ALARM, *, finished_at: int = NOW, verdict: Verdict = "run", **more: Any
) -> Entry:
    run_id, attempt = more.pop("run_id", f"run-{id.key}"), more.pop("attempt", 1)
    return Entry(id, name, run_id, NOW - 10, NOW - 5, finished_at, attempt, verdict, NODE, **more)


def parked(id: ObjectId = A, name: str = ALARM, *, seq: int = 1) -> Parked:
    late = timer(id, name, seq=seq, attempt=6, crashes=1, started=3, priority=2, payload=b"\x00p")
    return Parked(late, f"run-{id.key}", NOW + 9, 7, "failed", "ValueError: no", "Traceback …\n  ValueError: no")


class Harness:
    """Makes stores and speaks for a node that owns every shard of them."""

    async def make_store(self) -> Store:
        """A new store with nothing in it, not opened yet."""
        raise NotImplementedError

    async def open_store(self) -> Store:
        store = await self.make_store()
        self.__dict__.setdefault("_opened", []).append(store)
        await store.open(now=NOW)
        self.epochs = await store.claim(NODE, ALL, now=NOW)
        return store

    async def close_stores(self) -> None:
        """Close what the test opened."""
        for store in self.__dict__.pop("_opened", []):
            await store.close()

    def turn(self, id: ObjectId = A, *, now: int = NOW, epoch: int | None = None, **what: Any) -> Commit:
        """A commit of that object at the epoch that this node has."""
        shard = shard_of(id)
        return Commit(id=id, shard=shard, epoch=self.epochs[shard] if epoch is None else epoch, now=now, **what)

    async def done(self, store: Store, *commits: Commit) -> None:
        """Commit them as one group, in which none may fail."""
        assert await store.commit(NODE, commits) == [None] * len(commits)

    async def rows(self, store: Store, id: ObjectId = A, space: int = USER) -> dict[str, bytes]:
        return dict(await store.scan(id, space, Range()))

    async def timer_rows(self, store: Store, id: ObjectId = A) -> list[Timer]:
        return await store.find_timers(Query(cls=id.cls, key=id.key))

    async def info(self, store: Store, id: ObjectId = A) -> Info | None:
        return (await store.load([id]))[0].info
