"""Layer 3. How does a parked timer get another chance?"""

from typing import TYPE_CHECKING

from wakeful.runtime.turn import running_turn
from wakeful.store.protocol import Query
from wakeful.values.errors import Conflict
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

REDRIVE = "timers.redrive"


async def redrive(context: "Context", name: str, number: int) -> None:
    """Make the timer that is parked under this number due again at once, with a fresh count; does not wake the object."""
    activation = context._activation
    node, id = activation.node, activation.id
    turn = running_turn(activation, "redrive")
    await activation.settled()
    if await node.reading(node.store.find_timers(Query(cls=id.cls, key=id.key, name=name, limit=1))):
        raise Conflict(f"{id} has another {name} pending; let it run or delete it, then redrive this one")
    query = Query(cls=id.cls, key=id.key, name=name, limit=1, after=(number - 1,))
    found = await node.reading(node.store.find_parked(query))
    if not found or found[0].number != number:
        raise Conflict(f"{id} {name} is no longer parked as number {number}")
    timer = found[0].timer
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
