"""Layer 4. The process that holds the connections: how do its sockets and their objects hear of each other?

Messages go to the object one at a time for each socket. The object may live on another node, and may sleep; it is asked
again while it can't be had, and knows what it has had already.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.calls import Call
from wakeful.sockets.held import ConnectionWire, Held, Here
from wakeful.sockets.outbox import AUTO, CLOSE, Effect
from wakeful.sockets.register import Register
from wakeful.sockets.socket import Message, SocketRequest
from wakeful.sockets.turns import (
    CLOSED,
    CONNECT,
    FORGET,
    FORGOTTEN,
    GONE,
    LATER,
    MESSAGE,
    TOO_MANY,
    check_takes_sockets,
    has_hook,
)
from wakeful.values.errors import (
    DeadlineExceeded,
    Denied,
    LimitExceeded,
    NotRunning,
    Unavailable,
    UnknownClass,
    WakefulError,
)
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.sockets")

UNHEARD_MAX = 8  # messages of a socket that wait while its object is at one; more are not read
UNHEARD_S = 0.1  # between looks at whether there is room
BESIDE_S = 0.02  # after which a message is at its handler, and the next of its socket may begin beside it
BESIDE_MAX = 100  # messages of a socket that are handled at once
SENDERS_MAX = 1_000  # nodes whose last batch is remembered
PARTING_MAX = 200  # objects that are told at once when the process stops
PARTING_S = 1.0  # what a client that reads slowly is given then
LEAVING_S = 10.0  # what all of them are given


class Gateway:
    """The sockets of this process."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.sockets: dict[str, Held] = {}
        self._watching = 0
        self._objects: dict[ObjectId, Here] = {}
        self._senders: dict[str, int] = {}
        self._register = Register(node, self._on_expelled)

    @property
    def id(self) -> str:
        return self._register.id

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around a socket that only watches a machine: no object holds it, and the process bears it all the same."""
        self._check_room()
        self._watching += 1
        try:
            yield
        finally:
            self._watching -= 1

    def _check_room(self) -> None:
        held = len(self.sockets) + self._watching
        if held >= self._node.limits.sockets_per_node:
            raise LimitExceeded(
                f"this process holds {held} sockets, its limit; connect to another node", code="limit.node_sockets"
            )

    # what the client does

    async def connect(self, target: ObjectId, request: SocketRequest, wire: ConnectionWire) -> tuple[Held, str]:
        """Ask the object; the socket, to be opened, and the protocol that was chosen. Any error refuses it."""
        node = self._node
        if node.is_client:
            raise NotRunning(
                "this process owns nothing, so it holds no sockets; connect to a node", code="socket.client"
            )
        check_takes_sockets(node.home(target).registry.by_name(target.cls))
        self._check_room()
        here = self._objects.setdefault(target, Here())
        id = f"{int(node.dice.random() * (1 << 53)):014x}{int(node.dice.random() * (1 << 24)):06x}"
        held = self.sockets[id] = here.held[id] = Held(id, target, here, wire)
        is_asked = False
        try:
            await self._register.add(target)
            is_asked = True
            auto, number, chosen = await self._ask(target, (id, self.id, request.plain()))
            here.answer(auto, number)
            if self.sockets.get(id) is not held:
                raise Unavailable("this process was thought to be dead; try again", code="socket.gateway")
        except BaseException as error:
            self._let_go(held)
            if is_asked and isinstance(error, Unavailable | DeadlineExceeded | asyncio.CancelledError):
                self._later(self._part(held, 1006, "", was_clean=False))  # it may have happened all the same
            else:
                self._forgotten(target)
            raise
        return held, chosen

    async def _ask(self, target: ObjectId, args: tuple[Any, ...]) -> Any:
        try:
            return await self._turn(target, CONNECT, args)
        except (Unavailable, DeadlineExceeded, Denied):
            raise
        except Exception as error:
            if isinstance(error, LimitExceeded) and error.code == TOO_MANY:
                raise
            raise Denied(f"{target} refuses the connection: {_words(error)}", code="socket.refused") from error

    async def receive(self, held: Held, message: Message) -> None:
        """Bring a message to the object, or answer it here; returns when the next one may come."""
        node, limits = self._node, self._node.limits
        size = len(message) if isinstance(message, bytes) or message.isascii() else len(message.encode())
        if size > limits.socket_message_bytes:
            held.close(1009, f"a message may have {limits.socket_message_bytes} bytes")
        wait_ms = held.pace(node.clock.now(), limits.socket_messages_per_s)
        is_gated = node.home(held.target).registry.any(held.target.cls).is_gated
        # A turn that waits for nothing would let a client that says much at once keep everyone else from theirs. Where a
        # message has a task of its own, and is the first that waits, it can't.
        if wait_ms or not is_gated or held.here.auto is not None or held.taking is not None:
            await (node.clock.sleep(wait_ms) if wait_ms else _Pass())
        if held.closing is not None:
            return
        auto = held.here.auto
        if auto is not None and message == auto[0]:
            held.answered_at = node.clock.now()
            held.push(auto[1], limits.socket_queue_bytes)
            return
        held.number += 1
        node.meter.socket_messages.of("in").add()
        if is_gated:
            await self._line_up(held, message)
        else:
            await self._bring(held, held.number, message)

    async def _line_up(self, held: Held, message: Message) -> None:
        """Its handler may take as long as it likes: what is answered here must not wait for that."""
        number = held.number
        loop = asyncio.get_running_loop()
        if held.taking is None and not _left_alone(held, loop.time()) and len(held.brought) < BESIDE_MAX:
            held.alone = self._begin(held, number, message), loop.time()  # nothing is before it, so nobody has to wait
            return
        while held.taking is not None and held.unheard is not None and len(held.unheard) >= UNHEARD_MAX:
            await asyncio.wait([held.taking], timeout=UNHEARD_S)
        held.unheard = held.unheard if held.unheard is not None else deque()
        held.unheard.append((number, message))
        if held.taking is None:
            held.taking = loop.create_task(self._take_unheard(held), context=Context())
            self._node.keep(held.taking)

    async def _take_unheard(self, held: Held) -> None:
        # In their order; one whose handler waits for long lets the next begin, as other events do.
        try:
            await _wait_alone(held)
            while held.unheard and held.closing is None:
                await asyncio.wait([self._begin(held, *held.unheard.popleft())], timeout=BESIDE_S)
                while len(held.brought) >= BESIDE_MAX:
                    await asyncio.wait(held.brought, return_when=asyncio.FIRST_COMPLETED)
        finally:
            held.taking = held.unheard = None

    def _begin(self, held: Held, number: int, message: Message) -> "asyncio.Task[None]":
        bringing = asyncio.get_running_loop().create_task(self._bring(held, number, message), context=Context())
        self._node.keep(bringing)
        held.brought.add(bringing)
        bringing.add_done_callback(held.brought.discard)
        return bringing

    async def _bring(self, held: Held, number: int, message: Message) -> None:
        """Bring a message to the object."""
        node = self._node
        try:
            answer = await self._again(held.target, MESSAGE, (held.id, number, message))
        except (Unavailable, DeadlineExceeded) as error:
            log.warning("a message for %s was not taken: %s", held.target, error, extra={"code": "socket.message"})
            node.meter.socket_drops.of("message").add()
            is_ours = isinstance(error, Unavailable) or error.code == "call.unrouted"
            held.close(*((1013, "try again later") if is_ours else (1011, "it took too long")))
        except Exception:
            log.exception("%s.on_message failed; its socket is closed", held.target, extra={"code": "socket.failed"})
            held.close(1011, "the object failed")
        else:
            if answer is not None:
                held.close(*answer)

    def answered_at(self, ids: list[str]) -> dict[str, int]:
        """When messages of these sockets had the automatic answer last, of those that had it."""
        found = ((id, held.answered_at) for id in ids if (held := self.sockets.get(id)) is not None)
        return {id: at for id, at in found if at is not None}

    async def on_disconnect(self, held: Held, code: int, reason: str, *, was_clean: bool) -> None:
        """The connection is gone; returns when the object knows, if it can."""
        if self.sockets.get(held.id) is not held:
            return
        if held.closing is None:  # it said that before it left
            await _wait_alone(held)
            if held.taking is not None:
                await asyncio.wait([held.taking])
        is_forgotten = held.closing == FORGOTTEN  # then nothing is to wake in its place
        if held.closing is not None:
            (code, reason), was_clean = held.closing, not held.is_aborted
        self._let_go(held)
        await self._part(held, code, reason, was_clean=was_clean, is_late=is_forgotten)

    def on_lost(self, held: Held) -> None:
        """Nobody waits for the end of this connection: the object is told of it as soon as it can be."""
        if self._node.state in ("up", "down"):
            self._later(self.on_disconnect(held, 1006, "", was_clean=False))

    # what objects send

    def apply(self, effect: Effect) -> None:
        """Something for sockets of one object, in order."""
        if effect.kind == AUTO:
            here = self._objects.get(ObjectId(effect.cls, effect.key))
            if here is not None:
                here.answer(effect.auto, effect.number)
            return
        most = self._node.limits.socket_queue_bytes
        for id in effect.ids:
            held = self.sockets.get(id)
            if held is None:
                continue
            if effect.epoch < held.epoch:  # an earlier owner's, which a later one has overtaken
                held.close(1012, "the object has moved; connect again")
                continue
            held.epoch = effect.epoch
            if effect.kind == CLOSE:
                held.close(effect.code, effect.reason)
            elif effect.message is not None:
                held.push(effect.message, most)
                self._node.meter.socket_messages.of("out").add()
                if held.is_aborted:
                    self._node.meter.socket_drops.of("slow").add()

    def take(self, gateway: str, sender: str, number: int, effects: list[list[Any]]) -> bool:
        """A batch of another node; each counts once. False: this is not the gateway that was meant."""
        if gateway != self.id:
            return False
        if self._senders.get(sender, 0) < number:
            self._senders.pop(sender, None)
            self._senders[sender] = number
            if len(self._senders) > SENDERS_MAX:
                del self._senders[next(iter(self._senders))]
            for one in effects:
                self.apply(Effect(*one))
        return True

    # turns of the object

    async def _turn(self, target: ObjectId, method: str, args: tuple[Any, ...]) -> Any:
        """A turn of the object, wherever it lives. Messages are not copied on the way: nobody can change them."""
        node = self._node.home(target)
        if node.state != "up":
            raise Unavailable(f"{target}: the node is {node.state}; try again", code="node.state")
        deadline_at = node.clock.now() + node.limits.call_deadline_ms
        call = Call(method, args, {}, deadline_at=deadline_at, request_key=None, chain=(target,))
        call.is_endless = node.registry.any(target.cls).is_gated
        way = node.routes.call(target, call) if node.is_clustered else node.deliver(target, call)
        return await node.within_deadline(call, way)

    async def _again(self, target: ObjectId, method: str, args: tuple[Any, ...]) -> Any:
        """The same, asked again while it can't be had, for as long as a call may take: these may be repeated."""
        node, tries = self._node, 0
        until = node.clock.now() + node.limits.call_deadline_ms
        while True:
            try:
                return await self._turn(target, method, args)
            except Unavailable:
                tries += 1
                delay = platform_delay_ms(tries, node.dice.random())
                if node.clock.now() + delay >= until or node.state in ("stopping", "stopped"):
                    raise
                await node.clock.sleep(delay)

    async def _part(self, held: Held, code: int, reason: str, *, was_clean: bool, is_late: bool = False) -> None:
        """Tell the object that the socket is gone, until it knows; if this process dies first, others do.

        `is_late`: nothing wakes to hear it if it knows already.
        """
        target, id, node = held.target, held.id, self._node
        hears = has_hook(node.home(target).registry.any(target.cls), "on_close")
        how, args = (LATER if is_late else CLOSED, (id, code, reason, was_clean)) if hears else (FORGET, (id,))
        while True:
            try:
                await self._again(target, how, args)
                break
            except UnknownClass:
                return
            except (Unavailable, DeadlineExceeded) as error:
                if node.state not in ("up", "down"):
                    return
                if how == CLOSED and isinstance(error, DeadlineExceeded):
                    how = LATER  # turns before it take longer than a call may, or it does itself: not so a timer
            except Exception:
                log.exception("%s.on_close failed", target, extra={"code": "socket.failed"})
                how, args = FORGET, (id,)  # it was told, and is not told again
        self._forgotten(target)

    def _let_go(self, held: Held) -> None:
        self.sockets.pop(held.id, None)
        held.here.held.pop(held.id, None)
        held.let_go()
        if not held.here.held and self._objects.get(held.target) is held.here:
            del self._objects[held.target]

    def _forgotten(self, target: ObjectId) -> None:
        if target not in self._objects:
            self._register.remove(target)

    def _on_expelled(self) -> None:
        """The objects were told that these sockets are gone, so they are. Of those that came since, they are told now."""
        words = "this process was thought to be dead; its %d sockets are closed"
        log.warning(words, len(self.sockets), extra={"code": "socket.expelled"})
        held_all, self.sockets, self._objects = list(self.sockets.values()), {}, {}
        for held in held_all:
            held.close(*GONE)
        self._later(self._all(held_all, lambda held: self._part(held, 1006, "", was_clean=False, is_late=True)))

    async def _all(self, held_all: list[Held], do: Callable[[Held], Awaitable[None]]) -> None:
        """Do that with each of them, not too many at once."""
        room = asyncio.Semaphore(PARTING_MAX)

        async def one(held: Held) -> None:
            async with room:
                await do(held)

        await asyncio.gather(*map(one, held_all))

    async def leave(self) -> None:
        """The process stops: close all sockets, and have the objects know; of those that can't, others tell."""
        held_all = list(self.sockets.values())
        for held in held_all:
            held.close(1012, "the server is restarting")

        async def part(held: Held) -> None:
            if held.writer is not None:
                await asyncio.wait({held.writer}, timeout=PARTING_S)
            await self.on_disconnect(held, 1012, "", was_clean=True)

        try:
            async with asyncio.timeout(LEAVING_S):
                await self._all(held_all, part)
        except TimeoutError:
            return  # still on the list, so whoever looks at it next writes to those that were not told
        await self._register.leave()

    def _later(self, coroutine: Any) -> None:
        self._node.keep(asyncio.get_running_loop().create_task(coroutine, context=Context()))


class _Pass:
    """Awaited: lets whatever else is ready go first."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def _words(error: Exception) -> str:
    """What the client is told: what the object's code said."""
    return error.message if isinstance(error, WakefulError) else f"{type(error).__name__}: {error}"


def _left_alone(held: Held, now: float) -> float:
    """For how long the message that came when none waited has its socket's events to itself; 0 when it has not."""
    if held.alone is None or held.alone[0].done():
        return 0.0
    return max(0.0, held.alone[1] + BESIDE_S - now)


async def _wait_alone(held: Held) -> None:
    left_s = _left_alone(held, asyncio.get_running_loop().time())
    if held.alone is not None and left_s:
        await asyncio.wait([held.alone[0]], timeout=left_s)
    held.alone = None
