"""Layer 5. Who runs this store, and how is it reached from here?"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wakeful.cli.failing import UNAVAILABLE, USAGE, CommandError
from wakeful.cli.printing import length, now_ms
from wakeful.store import open_url
from wakeful.store.protocol import NodeRow, Store
from wakeful.transport.control import ControlClient
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId, shard_of


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Store]:
    """The store, open for looking at it beside whoever runs it."""
    if url == "memory:":
        raise CommandError(
            "memory: lives and dies with its process, nobody else can look into it; use sqlite:PATH",
            code="store.memory",
            exit_code=USAGE,
        )
    store = open_url(url)
    await store.open(now=now_ms(), readonly=True)
    try:
        yield store
    finally:
        await store.close()


async def owner_row(store: Store, id: ObjectId | None = None) -> NodeRow | None:
    """The node that the store names as owner of the object, or of most shards."""
    shards = await store.owners()
    if id is not None:
        name = shards[shard_of(id)].owner
    else:
        counts = Counter(shard.owner for shard in shards if shard.owner is not None)
        name = counts.most_common(1)[0][0] if counts else None
    return next((row for row in await store.nodes() if row.node == name), None)


@asynccontextmanager
async def connected(store: Store, id: ObjectId | None = None) -> AsyncIterator[ControlClient | None]:
    """The live owner's control socket; None when no process runs the store (a killed one counts as none)."""
    row = await owner_row(store, id)
    client = None if row is None or not row.address else ControlClient(row.address)
    try:
        if client is not None:
            await client.__aenter__()
    except Unavailable:
        client = None
    if client is None and row is not None:
        check_lease(store, row)
    try:
        yield client
    finally:
        if client is not None:
            await client.__aexit__(None, None, None)


def check_lease(store: Store, row: NodeRow) -> None:
    """`CommandError` when the owner can't be reached from here and may well be alive."""
    left = row.lease_until - now_ms()
    # An SQLite file is locked by its owner, so its lease needs no respect: opening it will tell.
    if store.shared and left > 0:
        raise CommandError(
            f"node {row.node} ({row.about}) owns it and can't be reached from here; run this as its user on its machine, "
            f"or stop it (its lease ends in {length(left)} unless it is renewed)",
            code="owner.unreachable",
            exit_code=UNAVAILABLE,
        )
