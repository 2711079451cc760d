"""One process with a store on a bucket, and what the tests do to it that its users can't."""

import os
from pathlib import Path

from wakeful.store import Store, open_url
from wakeful.store.bucket import BucketStore, session, shared_log
from wakeful.store.protocol import Outcome, Query, Range
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.suites.harness import ALL, NODE, NOW, A
from wakeful.values.commits import USER, Commit
from wakeful.values.ids import shard_of


class Process:
    """One process with a store of its own on the bucket, and a folder of its own for the local copy."""

    def __init__(self, bucket: EmulatedBucket, cache: Path, *, node: str = NODE) -> None:
        self.store = open_url(bucket.url(cache=cache))
        self.node = node
        self.epochs: dict[int, int] = {}

    async def start(self) -> "Process":
        await self.store.open(now=NOW)
        self.epochs = await self.store.claim(self.node, ALL, now=NOW)
        return self

    async def put(self, key: str, value: bytes = b"1") -> None:
        assert await self.try_to_put(key, value) == [None]

    async def try_to_put(self, key: str, value: bytes = b"1") -> list[Outcome]:
        shard = shard_of(A)
        turn = Commit(id=A, shard=shard, epoch=self.epochs[shard], now=NOW, puts={(USER, key): value})
        return await self.store.commit(self.node, [turn])

    async def keys(self) -> list[str]:
        return [key for key, _ in await self.store.scan(A, USER, Range())]


# What the tests do to a store that its users can't.


def session_of(store: Store) -> session.BucketSession:
    assert isinstance(store, BucketStore)
    assert store._session is not None
    return store._session


def log_of(store: Store) -> shared_log.SharedLog:
    found = session_of(store).log
    assert found is not None
    return found


def kill(store: Store) -> None:
    """As by kill -9: no thread goes on, nothing is said, and its locks are free."""
    assert isinstance(store, BucketStore)
    if store._session is not None:
        store._session.end()
        store._session = None
    if store._ownership is not None:
        os.close(store._ownership._descriptor)
        store._ownership = None


def everything() -> Query:
    return Query()


async def two(bucket: EmulatedBucket, folder: Path) -> tuple[Process, Process]:
    """The first owns everything."""
    second = Process(bucket, folder / "b", node="node-b")
    await second.store.open(now=NOW)
    return await Process(bucket, folder / "a").start(), second


def pass_hours(bucket: EmulatedBucket) -> None:
    """Each look at the bucket's clock is two hours after the one before, so that snapshots allow removal soon."""
    ticks = iter(range(0, 10**12, 7_200_000))
    bucket.clock = lambda: next(ticks)
