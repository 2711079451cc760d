"""Layer 5. How does everything get from one store into another, and how is it known that it did?

One transaction of the target: rows go in page by page, are read back and compared by count and by content, and only
then is it committed. Whatever stops it before leaves the target as empty as it was.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Protocol, cast, runtime_checkable

import msgspec

from wakeful.store import open_url
from wakeful.store.protocol import NodeRow, Store
from wakeful.store.table_copy import TABLES, Copyable, Copying, Row
from wakeful.values.errors import BadUrl, Conflict, StoreError

_MODULUS = 1 << 128
_encode = msgspec.msgpack.Encoder().encode


class TableDigest(msgspec.Struct, frozen=True):
    """One table: how many rows, and what they come to, in whatever order they were read."""

    table: str
    rows: int
    digest: str


class Moved(msgspec.Struct, frozen=True):
    """What was moved, from where to where; both sides have exactly these parts."""

    source: str
    target: str
    parts: tuple[TableDigest, ...]


class MoveProgress(msgspec.Struct, frozen=True):
    """How far it is: in `copy` or `check`, which table, how many of its rows of how many."""

    what: str
    table: str
    rows: int
    total: int


@runtime_checkable
class ServerOfSpread(Protocol):
    """A store that may be one of several servers of a class."""

    async def spread_of(self) -> str:
        """The class; empty when it is none."""
        ...


Heard = Callable[[MoveProgress], None]


async def move(source: str, target: str, *, now: int, heard: Heard = lambda step: None) -> Moved:
    """Copy everything but nodes and ownership from one store into another, empty one; both hold the same when it returns.

    `Conflict` when a node runs on either, or the target holds anything; nothing has changed then.
    """
    from_store, to_store = _copyable(source), _copyable(target)
    if from_store.place == to_store.place:
        raise BadUrl(f"{from_store.url} is both source and target; name two stores", code="move.same")
    async with _open(from_store, now=now, writes=False) as there:
        await _make(to_store, now=now)
        async with _open(to_store, now=now, writes=True) as here:
            await _check_empty(here, to_store)
            parts = await _fill(there, here, heard)
            await _check_still(from_store, (await there.marks()).epochs, now=now)
            await here.commit()
    return Moved(from_store.url, to_store.url, parts)


async def _fill(there: Copying, here: Copying, heard: Heard) -> tuple[TableDigest, ...]:
    """Copy all tables, read them back, and compare."""
    marks = await there.marks()
    totals = {table: await there.count(table) for table in TABLES}
    read = [await _copy(there, here, table, totals[table], heard) for table in TABLES]
    await here.finish(marks)
    written = [await _sum(here, table, totals[table], heard) for table in TABLES]
    for part, other in zip(read, written, strict=True):
        _check_same(part, other, totals[part.table])
    after = await here.marks()
    if any(ours < theirs for ours, theirs in zip(after.epochs, marks.epochs, strict=True)):
        raise StoreError("epochs went backwards; nothing was moved, this is a bug in Wakeful", code="move.check")
    return tuple(read)


async def digest(url: str, *, now: int) -> tuple[TableDigest, ...]:
    """The parts of a store that nobody runs, to compare with another's."""
    async with _open(_copyable(url), now=now, writes=False) as there:
        return tuple([await _sum(there, table, 0, lambda step: None) for table in TABLES])


class Sum:
    """A count and a sum over rows that is the same in every order."""

    def __init__(self) -> None:
        self.rows = 0
        self._total = 0

    def add(self, rows: list[Row]) -> None:
        total = 0
        for row in rows:
            total += int.from_bytes(blake2b(_encode(row), digest_size=16).digest(), "big")
        self._total = (self._total + total) % _MODULUS
        self.rows += len(rows)

    def part(self, table: str) -> TableDigest:
        return TableDigest(table, self.rows, f"{self._total:032x}")


async def _copy(there: Copying, here: Copying, table: str, total: int, heard: Heard) -> TableDigest:
    found = Sum()
    async for rows in there.read(table):
        await here.write(table, rows)
        found.add(rows)
        heard(MoveProgress("copy", table, found.rows, total))
    return found.part(table)


async def _sum(here: Copying, table: str, total: int, heard: Heard) -> TableDigest:
    found = Sum()
    async for rows in here.read(table):
        found.add(rows)
        heard(MoveProgress("check", table, found.rows, total))
    return found.part(table)


def _check_same(part: TableDigest, other: TableDigest, total: int) -> None:
    if part == other and part.rows == total:
        return
    raise StoreError(
        f"{part.table}: {part.rows} rows with digest {part.digest[:12]} were read (of {total}) and {other.rows} with "
        f"{other.digest[:12]} are in the target; nothing was moved, this is a bug in Wakeful",
        code="move.check",
    )


async def _check_empty(here: Copying, store: Store) -> None:
    held = [f"{count:,} in {table}" for table in TABLES if (count := await here.count(table))]
    if held:
        raise Conflict(
            f"{store.url} is not empty ({', '.join(held)}); move into a store that holds nothing: another file, "
            "or another database or ?schema=NAME",
            code="move.target",
        )


async def _check_still(store: Store, epochs: tuple[int, ...], *, now: int) -> None:
    """The source is as it was: where the server could not keep others out, a node may have come."""
    await store.open(now=now, readonly=True)
    try:
        rows = await store.owners()
        alive = await _living(store, now)
    finally:
        await store.close()
    if alive or tuple(row.epoch for row in rows) != epochs:
        who = _names(alive) or "a node"
        raise Conflict(
            f"{store.url}: {who} came to life while it was moved, so nothing was; stop it, then move again",
            code="move.source",
        )


class CopyableStore(Store, Copyable, Protocol):
    """A store with all its verbs that can be copied whole as well."""


def _copyable(url: str) -> CopyableStore:
    store = open_url(url)
    if isinstance(store, Copyable):
        return cast("CopyableStore", store)
    if url == "memory:":
        raise BadUrl("memory: can't be moved, it lives in its process; name sqlite:PATH or postgresql://…")
    raise BadUrl(f"{store.url} can't be moved: its kind of store has no way to be copied; name another")


async def _make(store: Store, *, now: int) -> None:
    """See to it that the target has its tables."""
    await store.open(now=now)
    await store.close()


@asynccontextmanager
async def _open(store: CopyableStore, *, now: int, writes: bool) -> AsyncIterator[Copying]:
    """The store for copying, with no node on it."""
    if store.shared:
        await _check_unused(store, now=now)
    made = await store.open_copying(now=now, writes=writes)
    try:
        yield made
    finally:
        await made.close()


async def _check_unused(store: Store, *, now: int) -> None:
    await store.open(now=now, readonly=True)
    try:
        alive = await _living(store, now)
        cls = await store.spread_of() if isinstance(store, ServerOfSpread) else ""
    finally:
        await store.close()
    if cls:
        raise Conflict(
            f"{store.url} is one of several servers of {cls}, and a part of it is elsewhere; `wakeful rebalance` moves what "
            "is on it to others, one that was added among them",
            code="move.spread",
        )
    if alive:
        raise Conflict(
            f"{store.url} is in use by {_names(alive)}; stop it (`wakeful nodes` shows all), then move",
            code="move.owned",
        )


async def _living(store: Store, now: int) -> list[NodeRow]:
    """Nodes that may be at work: their session lives, or, where that can't be told, their lease runs."""
    if not store.shared:
        return []
    time = await store.time()
    now = now if time is None else time
    return [row for row in await store.nodes() if row.is_here or (row.is_here is None and row.lease_until > now)]


def _names(rows: list[NodeRow]) -> str:
    return " and ".join(f"node {row.node} ({row.about})" for row in rows)
