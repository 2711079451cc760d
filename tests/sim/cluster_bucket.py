"""A cluster of the simulation on a bucket that refuses, loses answers and lists late, and what it holds by now."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.sim.cluster_disk import ClusterWorld
from wakeful.store import Disk, Store
from wakeful.store.bucket import BucketStore
from wakeful.store.bucket.bootstrap import bring
from wakeful.store.bucket.replica import Replica
from wakeful.store.bucket.shared_log import SharedLog
from wakeful.store.bucket.storage import Patient, is_within
from wakeful.store.bucket.url import parse_url
from wakeful.store.protocol import NodeRow, Query
from wakeful.store.sqlite.finds import Finder
from wakeful.store.sqlite.reads import FileReader
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.faults import Faults, FaultyStore
from wakeful.testing.world import World
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Parked

EVERY = 1_000_000


class CalmBucket:
    """The same objects, to which nothing happens on the way."""

    def __init__(self, bucket: EmulatedBucket) -> None:
        self._bucket = bucket
        self.place = bucket.place

    def create(self, key: str, data: bytes) -> bool:
        with self._bucket._lock:
            return self._bucket._create(key, data)

    def put(self, key: str, data: bytes) -> None:
        with self._bucket._lock:
            self._bucket._set(key, data)

    def get(self, key: str) -> bytes | None:
        return self._bucket.objects.get(key)

    def keys(self, prefix: str, *, after: str = "", until: str | None = None) -> list[str]:
        with self._bucket._lock:
            return sorted(key for key in self._bucket.objects if is_within(key, prefix, after, until))

    def write_time(self, key: str) -> int | None:
        return self._bucket.write_times.get(key)

    def delete(self, keys: Sequence[str]) -> None:
        with self._bucket._lock:
            for key in keys:
                self._bucket._remove(key)


class BucketGlimpse:
    """What an operator does and looks at, who is no node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_open = False

    async def _opened(self) -> Store:
        if not self._is_open:
            await self._store.open(now=0)
            self._is_open = True
        return self._store

    async def nodes(self) -> list[NodeRow]:
        return await (await self._opened()).nodes()

    async def drain(self, node: str, is_draining: bool) -> bool:
        return await (await self._opened()).drain(node, is_draining)

    async def find_parked(self, query: Query) -> list[Parked]:
        return await (await self._opened()).find_parked(query)

    async def close(self) -> None:
        if self._is_open:
            await self._store.close()


class BucketClusterWorld(ClusterWorld):
    """A world whose nodes share a bucket."""

    def __init__(self, *args: Any, bucket: EmulatedBucket, folder: Path, **options: Any) -> None:
        super().__init__(*args, store=bucket.url(cache=folder / "caches"), **options)
        self.bucket = bucket
        self._calm = CalmBucket(bucket)
        self._copy = str(folder / "seen.db")
        self._log: SharedLog | None = None
        self._operator: BucketGlimpse | None = None
        self._folder = folder

    async def __aexit__(self, *exc: object) -> None:
        if self._operator is not None:
            await self._operator.close()
        await super().__aexit__(*exc)

    def open_disk(self, *, shared: bool) -> Any:
        store: Any = World.open_disk(self, shared=shared)
        look = store.look

        async def hear() -> None:
            if not self.umpire.is_deaf:
                await look()

        store.look = hear
        return store

    @property
    def glimpse(self) -> Any:
        if self._operator is None:
            where = parse_url(f"{self._url.partition('?')[0]}?cache={self._folder / 'operator'}")
            store = BucketStore(where, url=self._url, storage=self._calm)
            self._operator = BucketGlimpse(FaultyStore(store, Faults(), self.warp))
        return self._operator

    @property
    def disk(self) -> Disk:
        """What somebody finds now who has nothing but the bucket."""
        if self._log is None:
            storage = Patient(self._calm, lambda seconds: None)
            self._log = bring(storage, self._copy, "seen", lambda: 0.0, now=None).log
        with closing(Replica(self._copy)) as replica:
            found, _ = self._log.read()
            while found:
                replica.apply(found)
                self._log.advance(found)
                found, _ = self._log.read()
        return disk_of(self._copy)


def disk_of(path: str) -> Disk:
    """The rows of a local file as the memory store has them."""
    disk = Disk()
    with closing(sqlite3.connect(path)) as db:
        for cls, key, space, name, value in db.execute("SELECT class, key, space, name, value FROM kv"):
            disk.rows.setdefault(ObjectId(cls, key), {})[space, name] = value
    with closing(FileReader(path)) as reader:
        finder = Finder(reader)
        disk.timers = {(timer.id, timer.name): timer for timer in finder.timers(Query(limit=EVERY))}
        disk.entries = dict(finder.entries(Query(limit=EVERY)))
        disk.parked = {row.number: row for row in finder.parked(Query(limit=EVERY))}
        disk.shards |= {row.shard: row for row in reader.owners()}
    return disk
