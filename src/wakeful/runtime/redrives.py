"""Layer 3. How does a parked timer get another chance, or is let go, and how do all of them without being held in memory?"""

from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import NamedTuple

from msgspec.structs import replace

from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.turn import running_turn
from wakeful.store.protocol import Query
from wakeful.values.errors import Conflict
from wakeful.values.ids import shard_of
from wakeful.values.timers import Parked, Timer

REDRIVE = "timers.redrive"
DROP = "timers.drop"
PARKED_PAGE = 100  # rows in memory at once: each may carry arguments of a mebibyte
NUMBER_MAX = 2**63 - 1  # no store has given a larger one
NAMED_MAX = 100  # of all that is parked, so many numbers are noted

Find = Callable[[Query], Awaitable[list[Parked]]]
Fits = Callable[[Parked], bool]


class Survey(NamedTuple):
    """What there is to redrive or to drop, before it begins."""

    total: int
    last: int  # the highest number; what is parked again meanwhile has a higher one
    numbers: list[int]  # of those asked for by number all, of others the first
    shards: frozenset[int]


async def survey(find: Find, query: Query, numbers: Collection[int] = (), fits: Fits | None = None) -> Survey:
    """How many of these are parked, up to which number, in which shards; holds a page of them at a time."""
    count = last = 0
    named: list[int] = []
    shards = set[int]()
    async for parked in each_parked(find, query, numbers, fits=fits):
        count, last = count + 1, parked.number
        shards.add(shard_of(parked.timer.id))
        if numbers or count <= NAMED_MAX:
            named.append(last)
    return Survey(count, last, named, frozenset(shards))


async def each_parked(
    find: Find, query: Query, numbers: Collection[int] = (), last: int = NUMBER_MAX, *, fits: Fits | None = None
) -> AsyncGenerator[Parked, None]:
    """What the query leaves, or of it those numbers, oldest first, up to `last`; holds a page of them at a time.

    `fits` says what no store can filter. Of what is parked between two numbers that are asked for as little is read as can be.
    """
    among = {number for number in numbers if 0 < number <= NUMBER_MAX}
    wanted = sorted(among)
    if numbers and not wanted:
        return
    place = wanted[0] - 1 if wanted else 0
    end = min(last, wanted[-1]) if wanted else last
    while place < end:
        limit = min(PARKED_PAGE, end - place)
        page = await find(replace(query, after=(place,), limit=limit))
        for parked in page:
            is_meant = parked.number <= end and (not among or parked.number in among)
            if is_meant and (fits is None or fits(parked)):
                yield parked
        if len(page) < limit:
            return
        place = page[-1].number
        if wanted:
            at = bisect_right(wanted, place)
            if at == len(wanted):
                return
            place = wanted[at] - 1


async def redrive(context: Context, name: str, number: int) -> None:
    """Make the timer that is parked under this number due again at once, with a fresh count; does not wake the object."""
    activation = runtime_of(context)
    node, id = activation.node, activation.id
    turn = running_turn(activation, "redrive")
    await activation.settle()
    if await node.reading(node.store.find_timers(Query(cls=id.cls, key=id.key, name=name, limit=1))):
        raise Conflict(f"{id} has another {name} pending; let it run or delete it, then redrive this one")
    timer = (await _parked_as(activation, name, number)).timer
    turn.set_timer(
        Timer(
            id,
            name,
            node.clock.now(),
            timer.nominal_at,
            node.next_seq(activation.shard),
            priority=timer.priority,
            payload=timer.payload,
        )
    )
    turn.unparks = [number]


async def drop(context: Context, name: str, number: int) -> None:
    """Let go of the timer that is parked under this number: it never runs again; does not wake the object."""
    activation = runtime_of(context)
    turn = running_turn(activation, "drop")
    await activation.settle()
    parked = await _parked_as(activation, name, number)
    turn.unparks = [number]
    await activation.node.end_parked(activation, parked)


async def _parked_as(activation: ObjectRuntime, name: str, number: int) -> Parked:
    node, id = activation.node, activation.id
    query = Query(cls=id.cls, key=id.key, name=name, limit=1, after=(number - 1,))
    found = await node.reading(node.store.find_parked(query))
    if not found or found[0].number != number:
        raise Conflict(f"{id} {name} is no longer parked as number {number}")
    return found[0]
