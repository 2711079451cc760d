"""Layer 4. What happens at the object when a client connects, says something, or goes?

Each is a turn like any other. Who holds the connection asks for them, one at a time for a socket, and may ask again
when it could not hear the answer: what has happened does not happen twice.
"""

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, cast

from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import Turn, running_turn
from wakeful.sockets import records as keeping
from wakeful.sockets.records import SocketRecord
from wakeful.sockets.socket import Message, Socket, request_of
from wakeful.values.codec import encode
from wakeful.values.errors import BadOption, LimitExceeded, UnknownMethod
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.events_turn import StandingTurn
    from wakeful.runtime.object_runtime import ObjectRuntime
    from wakeful.runtime.registry import ObjectClass

CONNECT, MESSAGE, CLOSED, FORGET = "sockets.connect", "sockets.message", "sockets.closed", "sockets.forget"
LATER = "sockets.close_later"
CLOSE = "socket-close"  # a timer of the object: one of its sockets is gone, and it is to be told
TOO_MANY = "limit.sockets"
FORGOTTEN = (1001, "the object was forgotten")
GONE = (1012, "the socket is not known any more; connect again")


def has_hook(known: "ObjectClass", hook: str) -> bool:
    return inspect.iscoroutinefunction(inspect.getattr_static(known.cls, hook, None))


def check_takes_sockets(known: "ObjectClass") -> None:
    """`UnknownMethod` unless clients may connect to objects of this class."""
    if not has_hook(known, "on_message"):
        raise UnknownMethod(
            f"{known.name} takes no sockets; give it `async def on_message(self, socket, message)`",
            code="socket.unknown",
        )


Connected = tuple[tuple[str, str] | None, int, str]


async def connect(ctx: "Context", id: str, gateway: str, given: dict[str, Any]) -> Connected:
    """Somebody wants to connect: what gateways answer themselves, its number, and the chosen protocol. A raise refuses."""
    activation = runtime_of(ctx)
    turn = running_turn(activation, CONNECT)
    check_takes_sockets(activation.known)
    summary = await keeping.summary_of(turn)
    most = activation.node.limits.sockets_per_object
    if summary.count >= most:
        raise LimitExceeded(
            f"{activation.id} has {summary.count} sockets, its limit; spread clients over several objects",
            code=TOO_MANY,
        )
    await keeping.add(turn, id, SocketRecord(gateway, activation.node.next_seq(activation.shard)))
    turn.touch()
    chosen = ""
    if has_hook(activation.known, "on_connect"):
        request = request_of(given)
        turn.mark()
        try:
            chosen = await activation.instance.on_connect(Socket(activation, id), request) or ""
        except BaseException:
            if turn.is_standing and not turn.is_over:
                await keeping.remove(turn, id)
                turn.touch()
            raise
        if chosen and chosen not in request.protocols:
            raise BadOption(
                f"{activation.id}: on_connect chose the protocol {chosen!r}, which the client does not offer",
                code="socket.protocol",
            )
    summary = await keeping.summary_of(turn)
    return summary.auto, summary.number, chosen


async def message(ctx: "Context", id: str, number: int, message: Message) -> tuple[int, str] | None:
    """A client said something. With what to close its socket, when the object does not know it any more or closed it."""
    activation = runtime_of(ctx)
    turn = running_turn(activation, MESSAGE)
    kept = await keeping.load(turn, id)
    if kept is None:
        return GONE
    if kept.closing is not None:
        return kept.closing
    if await keeping.last_seen(turn, id) >= number:
        return None
    if turn.is_standing:
        await _tell_beside(cast("StandingTurn", turn), id, number, message)
        return None
    await activation.instance.on_message(Socket(activation, id), message)
    if turn.state_used:
        activation.collect_state()
    if not turn.is_clean or turn.commits:  # else there is nothing that could happen twice
        keeping.set_seen(turn, id, number)
    return None


async def _tell_beside(turn: "StandingTurn", id: str, number: int, message: Message) -> None:
    """Where events are no turns: once it has written something it has had the message, whatever becomes of it."""
    activation = turn.activation
    telling = keeping.table_of(activation).telling
    if (before := telling.get((id, number))) is not None:
        await asyncio.shield(before)  # it is asked again while it is at it
        return
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    telling[id, number] = done
    keeping.set_seen_with(turn, id, number)
    try:
        await activation.instance.on_message(Socket(activation, id), message)
    finally:
        if not turn.is_over and turn.is_clean:
            keeping.unset_seen_with(turn, id, number)
        done.set_result(None)
        del telling[id, number]


async def closed(ctx: "Context", id: str, code: int, reason: str, was_clean: bool) -> bool:
    """A socket is no more; False when the object knew that already."""
    activation = runtime_of(ctx)
    turn = running_turn(activation, CLOSED)
    if await keeping.load(turn, id) is None:
        return False
    await part(turn, id, code, reason, was_clean=was_clean)
    return True


async def part(turn: Turn, id: str, code: int, reason: str, *, was_clean: bool) -> None:
    """Forget the socket and tell the object, in the same turn: so it is told once."""
    activation = turn.activation
    socket = Socket(activation, id, last=keeping.known(turn, id))
    if turn.is_standing:
        await _part_beside(cast("StandingTurn", turn), socket, code, reason, was_clean=was_clean)
        return
    await keeping.remove(turn, id)
    if has_hook(activation.known, "on_close"):
        turn.mark()
        await activation.instance.on_close(socket, code, reason, was_clean)


async def _part_beside(turn: "StandingTurn", socket: Socket, code: int, reason: str, *, was_clean: bool) -> None:
    """Where events are no turns: it is forgotten when the object was told, and looks so while that goes on."""
    activation, id = turn.activation, socket.id
    parting = keeping.table_of(activation).parting
    parting.add(id)
    try:
        await activation.instance.on_close(socket, code, reason, was_clean)
    finally:
        if not turn.is_over:
            await keeping.remove(turn, id)
            turn.touch()
        parting.discard(id)


async def close_later(ctx: "Context", id: str, code: int, reason: str, was_clean: bool) -> None:
    """A socket is no more, and the object had no time to be told: a timer tells it. Wakes nothing."""
    activation = runtime_of(ctx)
    turn = running_turn(activation, LATER)
    if await keeping.load(turn, id) is not None:
        turn.set_timer(close_timer(activation, id, encode((code, reason, was_clean))))


def close_timer(activation: "ObjectRuntime", id: str, payload: bytes | None = None) -> Timer:
    """A timer that is due now and runs `on_close` for that socket; without a payload for one that was lost."""
    node = activation.node
    now = node.clock.now()
    return Timer(activation.id, f"{CLOSE}:{id}", now, now, node.next_seq(activation.shard), payload=payload)


async def forget(ctx: "Context", id: str) -> None:
    """A socket is no more, and its object need not know, or failed when it was told. Wakes nothing."""
    turn = running_turn(runtime_of(ctx), FORGET)
    if await keeping.load(turn, id) is not None:
        await keeping.remove(turn, id)
