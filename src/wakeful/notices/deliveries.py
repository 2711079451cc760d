"""Layer 4. How does a notice get from the commit that gave rise to it to whoever wants it, once it is on disk?

Two kinds of timers of the reserved objects, which have a key for each subscription. `notice:ID` comes with the commit
where notices are counted: it becomes a delivery at once, or one of many at the end of the time in which one is enough.
`deliver:ID` is a delivery: tried by the policy of its subscription, then parked. A reserved object's own commits give
rise to nothing, so there is no notice about a notice.
"""

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from wakeful.notices.notice import (
    FEW,
    Notice,
    decode_notice,
    encode_notice,
    gather,
    may_tell_of,
    tells_of,
    without,
)
from wakeful.notices.sender import ReceiverGone
from wakeful.notices.subscriptions import Subscription, Subscriptions
from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.timer_handler import Errands, Failed, Park, RowTimers, RunLater
from wakeful.runtime.turn import Turn, running_turn
from wakeful.store.protocol import Query
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.ids import RESERVED, ObjectId, shard_of
from wakeful.values.timers import Parked, Timer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime
    from wakeful.values.commits import Info

CLASS = f"{RESERVED}Notices"
ARRIVED, DELIVERY = "notice", "deliver"
MANY = f"{ARRIVED}:many"  # the timer at which those that came too fast become one
ERASE = f"{ARRIVED}:erase:"  # what the name of one begins with that takes out what is forgotten
FORGET = "notices.forget"
WINDOW: Slot = (SYSTEM, "notices.window")
WAITING: Slot = (SYSTEM, "notices.waiting")
PAGE = 500

Row = TypeVar("Row")


class Window(Struct, array_like=True):
    """From when on the next may go, and how many of each kind wait until then."""

    open_at: int = 0
    counts: dict[str, int] = field(default_factory=dict)


def timer_for(node: "NodeRuntime", one: Subscription, notice: Notice, shard: int) -> Timer:
    """What is sent to the reserved object; `shard` is that of whoever sends."""
    now = node.clock.now()
    name = f"{ARRIVED if one.at_most_ms else DELIVERY}:{notice.id}"
    id = ObjectId(CLASS, one.key_for(notice))
    return Timer(id, name, now, now, node.next_seq(shard), payload=encode_notice(notice))


class Collector(Errands):
    """The owner of the timers named `notice:…`: how fast may they go on?"""

    prefix = ARRIVED

    def __init__(self, subscriptions: Subscriptions, deadline_ms: int) -> None:
        self._subscriptions = subscriptions
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        if timer.name.startswith(ERASE):
            await _forget(turn, ObjectId(*decode(timer.payload or b"")))
            return False
        now = activation.node.clock.now()
        at_most_ms = self._subscriptions.of(activation.id.key).at_most_ms
        window = await _window(turn)
        if timer.name == MANY:
            await self._release(turn, window, now)
        elif now >= window.open_at and not window.counts:
            _set_delivery(turn, decode_notice(timer.payload), now)
        else:
            await self._add(turn, window, decode_notice(timer.payload), now + at_most_ms)
            return False
        turn.writes[WINDOW] = encode([now + at_most_ms, {}])
        return False

    async def _add(self, turn: Turn, window: Window, notice: Notice, latest: int) -> None:
        """It waits with the others: of all the count is kept, of the first few what they say."""
        count = window.counts.get(notice.kind, 0)
        if not window.counts:
            open_at = min(window.open_at, latest)  # the clock may have been set back
            seq = turn.activation.node.next_seq(turn.activation.shard)
            turn.set_timer(Timer(turn.activation.id, MANY, open_at, open_at, seq))
        turn.writes[WINDOW] = encode([window.open_at, window.counts | {notice.kind: count + notice.count}])
        waiting = await _waiting(turn) if count < FEW else []  # each is one at least
        if count < FEW and sum(one.kind == notice.kind for one in waiting) < FEW:
            turn.writes[WAITING] = encode([encode_notice(one) for one in (*waiting, notice)])

    async def _release(self, turn: Turn, window: Window, now: int) -> None:
        node, waiting = turn.activation.node, await _waiting(turn)
        for kind, count in window.counts.items():
            first = [one for one in waiting if one.kind == kind]
            _set_delivery(turn, gather(kind, count, first, now, node.name), now)
        turn.writes[WAITING] = None


class Deliveries(RowTimers):
    """The owner of the timers named `deliver:…`."""

    prefix = DELIVERY

    def __init__(self, subscriptions: Subscriptions, deadline_ms: int) -> None:
        self._subscriptions = subscriptions
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        subscriber = self._subscriptions.of(activation.id.key)
        notice, now = decode_notice(timer.payload), activation.node.clock.now()
        await subscriber.deliver(self._subscriptions.sender, notice, now)
        return True

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park:
        timer, error = failure.timer, failure.error
        delay = None
        if error is not None and not isinstance(error, ReceiverGone):
            delay = self._subscriptions.of(activation.id.key).retry.delay_ms(timer.attempt + 1, error, failure.roll)
        if delay is None:
            return Park(timer)
        return RunLater(timer.later(due_at=failure.now + delay, attempt=timer.attempt + 1))


def _set_delivery(turn: Turn, notice: Notice, now: int) -> None:
    id, seq = turn.activation.id, turn.activation.node.next_seq(turn.activation.shard)
    turn.set_timer(Timer(id, f"{DELIVERY}:{notice.id}", now, now, seq, payload=encode_notice(notice)))


async def _window(turn: Turn) -> Window:
    data = await turn.activation.rows.read(WINDOW)
    return Window() if data is None else Window(*decode(data))


async def _waiting(turn: Turn) -> list[Notice]:
    data = await turn.activation.rows.read(WAITING)
    return [] if data is None else [decode_notice(one) for one in decode(data)]


# An object is forgotten: what is still to be told of it?


async def erase(turn: Turn) -> None:
    """Take every notice of the object of this turn that was not delivered away from those who were to deliver it."""
    node, id = turn.activation.node, turn.activation.id
    if id.cls == CLASS:
        return
    await _erase_sent(turn)
    home = node.home(ObjectId(CLASS, "all"))
    keys = {timer.id.key async for timer in _each_timer(home, Query(cls=CLASS)) if _tells_of(timer, id)}
    keys |= {one.timer.id.key async for one in _each_parked(home, Query(cls=CLASS)) if _tells_of(one.timer, id)}
    async for info in _each_object(home, Query(cls=CLASS)):
        waiting = await home.reading(home.store.read(info.id, SYSTEM, [WAITING[1]]))
        if any(tells_of(decode_notice(one), id) for data in waiting.values() for one in decode(data)):
            keys.add(info.id.key)
    for key in sorted(keys):
        target = ObjectId(CLASS, key)
        if target in turn.chain:  # a handler has it forgotten: its own turn must be over first
            now, payload = node.clock.now(), encode(list(id))
            seq = node.next_seq(turn.activation.shard)
            turn.send([Timer(target, f"{ERASE}{shard_of(id)}:{seq}", now, now, seq, payload=payload)])
        else:
            await node.send(target, FORGET, (id.cls, id.key), {})


async def _erase_sent(turn: Turn) -> None:
    """Those on their way to another store are timers of the object itself, which would still bring them there."""
    node, id = turn.activation.node, turn.activation.id
    query = Query(cls=id.cls, key=id.key, name_prefix=f"forward:{CLASS}/")
    async for timer in _each_timer(node, query):
        turn.clear_timer(timer.name)


async def forget(context: Context, cls: str, key: str) -> None:
    """The operation by which a reserved object lets go of what it was to tell of an object."""
    turn = running_turn(runtime_of(context), FORGET)
    await _forget(turn, ObjectId(cls, key))


async def _forget(turn: Turn, id: ObjectId) -> None:
    activation = turn.activation
    await activation.settle()
    query = Query(cls=activation.id.cls, key=activation.id.key)
    async for timer in _each_timer(activation.node, query):
        if not _tells_of(timer, id):
            continue
        rest = without(decode_notice(timer.payload), id)
        if rest is None:
            turn.clear_timer(timer.name)
        else:
            turn.set_timer(replace(timer, payload=encode_notice(rest)))
    parked = [one.number async for one in _each_parked(activation.node, query) if _tells_of(one.timer, id)]
    turn.unparks = [*turn.unparks, *parked]
    await _forget_waiting(turn, id)


async def _forget_waiting(turn: Turn, id: ObjectId) -> None:
    """Those that came too fast; beyond the first few they have no name, and are counted on."""
    waiting, window = await _waiting(turn), await _window(turn)
    gone = [one for one in waiting if one.object == id]
    if not gone:
        return
    for one in gone:
        window.counts[one.kind] -= one.count
    counts = {kind: count for kind, count in window.counts.items() if count > 0}
    turn.writes[WINDOW] = encode([window.open_at, counts])
    turn.writes[WAITING] = encode([encode_notice(one) for one in waiting if one.object != id])
    if not counts:
        turn.clear_timer(MANY)


def _tells_of(timer: Timer, id: ObjectId) -> bool:
    """A notice of it, or of it among others."""
    if timer.payload is None or timer.name.startswith(ERASE) or not may_tell_of(timer.payload, id):
        return False
    return tells_of(decode_notice(timer.payload), id)


def _each_timer(node: "NodeRuntime", query: Query) -> "AsyncIterator[Timer]":
    return _each(node, node.store.find_timers, query, lambda timer: timer.sort_key)


def _each_parked(node: "NodeRuntime", query: Query) -> "AsyncIterator[Parked]":
    return _each(node, node.store.find_parked, query, lambda one: (one.number,))


def _each_object(node: "NodeRuntime", query: Query) -> "AsyncIterator[Info]":
    return _each(node, node.store.find_objects, query, lambda info: info.id)


async def _each(
    node: "NodeRuntime",
    find: "Callable[[Query], Coroutine[Any, Any, list[Row]]]",
    query: Query,
    cursor: "Callable[[Row], tuple[object, ...]]",
) -> "AsyncIterator[Row]":
    """All rows, page by page, with a breath between: there may be very many, of others."""
    query = replace(query, limit=PAGE)
    while page := await node.reading(find(query)):
        for one in page:
            yield one
        if len(page) < PAGE:
            return
        await node.clock.sleep(0)
        query = replace(query, after=cursor(page[-1]))
