"""Layer 3. An object is forgotten: how does everything of it go, for good, and who else is told?

First a mark and a timer, in the commit of the turn that asks for it: from there on nobody meets what was. Then, in
pieces that are each a commit of their own: features tell those whom the object owes something, its timers and what is
parked of it go through their handlers, and the store erases the rest, the name last. Whoever dies in between leaves the
mark, and the next event of the object, or the timer, goes on from there before anything else happens.
"""

import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime
from wakeful.runtime.timer_handler import Errands
from wakeful.runtime.turn import CURRENT, Turn, running_turn
from wakeful.store.protocol import Query
from wakeful.values.codec import decode, encode
from wakeful.values.commits import FORGET_TIMER, FORGOTTEN_SLOT
from wakeful.values.errors import Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

log = logging.getLogger("wakeful.objects")

FORGET = "objects.forget"
PIECE = 500  # timers, or rows of one table, in one commit
RESUMED_MS = 60_000  # when it is finished by a timer, if whoever asked for it could not
ASKED, TOLD, CLEARED = range(3)  # how far it is: what the mark says

# [everything is gone, machines that it had started and that are to be forgotten with it]; None: there was nothing.
Forgotten = tuple[bool, list[tuple[str, str]]] | None
Send = Callable[[ObjectId, str, tuple[()], dict[str, object]], Awaitable[Forgotten]]


async def forget_object(send: Send, id: ObjectId) -> int:
    """Have an object forgotten, and the machines that it started; how many that were. For anybody who can send a call."""
    count = 0
    while (answer := await send(id, FORGET, (), {})) is not None:
        is_done, children = answer
        count += sum([await forget_object(send, ObjectId(*child)) for child in children])
        if is_done:
            return count + 1
    return count


async def forget(context: Context) -> Forgotten:
    """The operation by which an object is forgotten, or as much of it as there is time for."""
    return await _forget(running_turn(runtime_of(context), "forget"), is_awaited=True)


class Forgets(Errands):
    """The handler of the timer. It needs no awake object, and is tried until it succeeds."""

    prefix = FORGET_TIMER

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms

    async def fire(self, activation: ObjectRuntime, turn: Turn, timer: Timer) -> bool:
        answer = await _forget(turn)
        if answer is None or answer[0]:
            turn.timers.clear()  # gone as well: a commit would bring the name back
        else:
            turn.set_timer(timer.later(due_at=turn.activation.node.clock.now(), attempt=0))
        return False


async def resume(activation: ObjectRuntime, chain: tuple[ObjectId, ...], deadline_at: int) -> None:
    """Finish what was begun and cut off, if it was, before anything else happens to the object."""
    if await activation.rows.read(FORGOTTEN_SLOT) is None:
        return
    turn = Turn(activation, chain, deadline_at)
    token = CURRENT.set(turn)
    try:
        is_done, _ = await _erase(turn)
    finally:
        turn.is_over = True
        CURRENT.reset(token)
    if not is_done:
        raise Unavailable(
            f"{activation.id} is being forgotten, which takes longer; try again", code="object.forgetting"
        )


async def is_there(node: NodeRuntime, id: ObjectId) -> bool:
    """The object is in the store, and is not about to be forgotten: whoever is told something becomes one that is there."""
    home = node.home(id)
    [loaded] = await home.reading(home.store.load([id]))
    return loaded.info is not None and FORGOTTEN_SLOT not in loaded.rows


async def _forget(turn: Turn, *, is_awaited: bool = False) -> Forgotten:
    activation = turn.activation
    node, id = activation.node, activation.id
    await activation.settle()
    if await activation.rows.read(FORGOTTEN_SLOT) is None:
        if not await node.reading(node.store.find_objects(Query(cls=id.cls, key=id.key, limit=1))):
            return None
        turn.forget(after_ms=RESUMED_MS)
        await activation.commit_now()
    return await _erase(turn, is_awaited=is_awaited)


async def _erase(turn: Turn, *, is_awaited: bool = False) -> tuple[bool, list[tuple[str, str]]]:
    """Everything of an object that is marked goes, as far as half of the time that is left allows."""
    activation = turn.activation
    node, id = activation.node, activation.id
    until = (node.clock.now() + turn.deadline_at) // 2
    activation.put_to_sleep()
    activation.history = None  # nothing is to be noted of what goes
    data = await activation.rows.read(FORGOTTEN_SLOT)
    stage = CLEARED if data is None else decode(data)
    children: list[tuple[str, str]] = []
    while stage != CLEARED:
        stage = await _tell(turn) if stage == ASKED else await _clear(turn)
        turn.writes[FORGOTTEN_SLOT] = encode(stage)
        children += [(timer.id.cls, timer.id.key) for timer in turn.sends if timer.name == FORGET_TIMER]
        if is_awaited:
            turn.sends = [_delay_child(timer) for timer in turn.sends]
        await activation.commit_now()
        if node.clock.now() >= until:
            return False, children
    while not await node.reading(node.store.erase(node.name, id, activation.epoch, now=node.clock.now(), limit=PIECE)):
        if node.clock.now() >= until:
            return False, children
        await node.clock.sleep(0)
    activation.begin_anew()
    node.on_forgotten(id)
    log.info("an object of %s was forgotten", id.cls, extra={"code": "object.forgotten"})  # and so is its key
    return True, children


def _delay_child(timer: Timer) -> Timer:
    """Whoever called asks the children next, and their own timers are for when it can't."""
    return replace(timer, due_at=timer.due_at + RESUMED_MS) if timer.name == FORGET_TIMER else timer


async def _tell(turn: Turn) -> int:
    for tell in turn.activation.node.erasers:
        await tell(turn)
    return TOLD


async def _clear(turn: Turn) -> int:
    """A piece of its timers and of what is parked of it goes; how far that brings it."""
    activation = turn.activation
    node, query = activation.node, Query(cls=activation.id.cls, key=activation.id.key, limit=PIECE)
    timers = [one for one in await node.reading(node.store.find_timers(query)) if one.name != FORGET_TIMER]
    parked = await node.reading(node.store.find_parked(query))
    for timer in [*timers, *(one.timer for one in parked)]:
        turn.clear_timer(timer.name)
        await node.end_timer(turn, timer)
    turn.unparks = [one.number for one in parked]
    return TOLD if timers or parked else CLEARED
