"""Layer 5. How does an object out of a file become one of a store that no process runs: all of it, or nothing?"""

from wakeful.importers.archive import Carried, seqs
from wakeful.store.protocol import Query, Store
from wakeful.values.commits import Commit
from wakeful.values.errors import Conflict, Fenced
from wakeful.values.ids import shard_of

EPOCH_BITS = 39  # a timer's number is its owner's epoch, a count, and the shard
RAISES_MAX = 10_000


async def check(store: Store, carried: Carried) -> None:
    """`Conflict` unless there is no such object yet."""
    if await store.find_objects(Query(cls=carried.id.cls, key=carried.id.key, limit=1)):
        raise Conflict(
            f"{carried.id} is in {store.url} already, and only what is not there is imported; nothing was done",
            code="import.exists",
        )


async def unpack(store: Store, carried: Carried, *, name: str, now: int) -> None:
    """Own its shard for a moment, put it there in one commit, and let go; `name` is what the store knows us by."""
    await check(store, carried)
    shard = shard_of(carried.id)
    epoch = await _claim(store, name, carried, now)
    try:
        [first, second] = await store.commit(name, _commits(carried, shard, epoch))
    finally:
        await store.release(name, {shard: epoch})
    for outcome in (first, second):
        if isinstance(outcome, Fenced):
            raise _taken()
        if outcome is not None:
            raise outcome
    await store.tell([])


async def _claim(store: Store, name: str, carried: Carried, now: int) -> int:
    """The shard at an epoch past those of the file: a number that a timer of the object had never comes again."""
    shard, past = shard_of(carried.id), max((seq >> EPOCH_BITS for seq in seqs(carried)), default=0)
    for _ in range(RAISES_MAX):
        seen = {row.shard: row.epoch for row in await store.owners() if row.shard == shard}
        epochs = await store.claim(name, [shard], now=now, seen=seen)
        if shard not in epochs:
            raise _taken()
        if epochs[shard] > past:
            return epochs[shard]
    await store.release(name, epochs)
    raise Conflict(f"the file's epoch {past} is too far ahead of {store.url}; nothing was done", code="import.epoch")


def _commits(carried: Carried, shard: int, epoch: int) -> list[Commit]:
    """Two of one transaction, so that the object is as old as it was."""
    id = carried.id
    return [
        Commit(id=id, shard=shard, epoch=epoch, now=carried.created_at),
        Commit(
            id=id,
            shard=shard,
            epoch=epoch,
            now=carried.active_at,
            puts=carried.puts,
            sets=carried.timers,
            entries=carried.entries,
            parks=carried.parked,
            records=carried.answers,
        ),
    ]


def _taken() -> Conflict:
    return Conflict("a process took the store over meanwhile; stop it, then import again", code="store.taken")
