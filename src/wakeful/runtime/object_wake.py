"""Layer 3. How does an object wake?"""

from typing import TYPE_CHECKING

from wakeful.runtime.context import Context
from wakeful.runtime.state import STATE_SLOT
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation


async def wake(activation: "Activation", chain: tuple[ObjectId, ...], deadline_at: int) -> None:
    """Asleep → awake: rows, constructor, on_wake; on a raise it stays asleep as if nobody had called."""
    if activation.instance is None:
        await _load(activation, chain, deadline_at)
    if activation.known.is_plain:
        activation.instance = activation.known.cls(Context(activation))
        activation.is_stale = False
        return
    turn = Turn(activation, chain, deadline_at)
    token = CURRENT.set(turn)
    try:
        instance = activation.known.cls(Context(activation))
        if activation.known.wakes:
            await instance.on_wake()
        activation.finish(turn)
        activation.instance = instance
        activation.is_stale = False
    except BaseException:
        activation.undo(turn)
        raise
    finally:
        CURRENT.reset(token)


async def _load(activation: "Activation", chain: tuple[ObjectId, ...], deadline_at: int) -> None:
    """What it needs from disk. Not for an object that is made anew: what undone turns wrote was never among its rows."""
    if activation.is_unsettled:
        await activation.settled()  # a failed attempt to wake may have left a retry on its way to disk
    activation.node.meter.wakes.add()
    loaded = await activation.node.loader.load(activation.id, activation.rows.take_begun())
    activation.rows.load(loaded)
    activation.timers = {ALARM: loaded.alarm}
    activation.state.load(loaded.rows.get(STATE_SLOT))
    wakers = activation.node.timer_runs.wakers(activation.known)
    if wakers:
        turn = Turn(activation, chain, deadline_at)
        for owner in wakers:
            await owner.wake(activation, turn)
        activation.finish(turn)
