"""Layer 5. How does a class written for Cloudflare become a class of Wakeful's?

For each there is a host: a plain class with a method for every method that can be called, which runs the object's own
code inside Wakeful's turns and makes them behave as events do there: a raise keeps what was written before it.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from wakeful.compat.workers.conduits import conduits_of
from wakeful.compat.workers.events import Hosted, begin_event
from wakeful.compat.workers.failures import JsException, Reset, reset_error
from wakeful.compat.workers.ids import DurableObjectId, id_of_key
from wakeful.compat.workers.rpc import loans_of, reach, unpack_call
from wakeful.compat.workers.sockets import WebSocket
from wakeful.compat.workers.state import State
from wakeful.compat.workers.values import Record, result_of
from wakeful.compat.workers.web import Response, pack, request_of, response_data
from wakeful.runtime.alarms import Alarms
from wakeful.runtime.context import runtime_of
from wakeful.runtime.registry import LIFECYCLE
from wakeful.runtime.timer_handler import Failed, Park, RunLater
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.sockets.socket import Socket
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, USER, Slot
from wakeful.values.errors import BadName, BadOption
from wakeful.values.timers import ALARM, Occurrence, Timer, run_id

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.object_runtime import ObjectRuntime

log = logging.getLogger("wakeful.workers")

INSIDE = "\0workers"  # who asks for a socket of an object here; no token can have that name
NAME = "wakeful.name"  # the argument in which a caller says the name behind a hashed id
REACH = "workers_reach"  # the method behind properties, and names of properties
NAME_CHARS_MAX = 1_024  # a longer name is not told to the object, as there
HISTORY = "30d"  # as there
RESTORED = "the object was brought back to what it was, and is made anew"
NAME_SLOT: Slot = (SYSTEM, "workers.name")
# What a connection ends with when the two sides don't understand each other, and not because one leaves.
BROKEN = {1002: "no WebSocket frame", 1007: "text that is no UTF-8", 1009: "a message that is too large"}
# Called by the runtime there, never by callers.
EVENTS = frozenset({"alarm", "webSocketMessage", "webSocketClose", "webSocketError"})


class Host:
    """Stands between Wakeful and one object of a class of Cloudflare's.

    All that is its own begins with an underscore: the other names belong to the hosted class.
    """

    _hosted: ClassVar[Hosted]

    __wakeful_gated__ = True

    def __init__(self, ctx: "Context") -> None:
        self._activation = runtime_of(ctx)
        self._id: DurableObjectId | None = None
        self._state: State | None = None
        self._object: Any = None
        self._making = asyncio.Lock()

    async def on_wake(self) -> None:
        """Make the object, before any event: its constructor and what that began."""
        activation, name = self._activation, self._hosted.name
        if not self._hosted.id_key.is_known:
            await self._hosted.learn_ids(activation.node)
        id = id_of_key(name, activation.id.key, self._hosted.id_key)
        if id.key != activation.id.key:
            raise BadName(
                f"{activation.id}: names this long go by their id here; call {name}/{id}", code="workers.name"
            )
        if id.is_hashed:
            kept = await activation.rows.read(NAME_SLOT)
            id.name = None if kept is None else decode(kept)
        self._id = id
        self._state = State(activation, self._hosted, id, activation.beside.begin())
        if not id.is_hashed or id.name is not None:
            await self._make()

    async def _call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A caller's event: the answer of one of its methods."""
        await self._learn(kwargs.pop(NAME, None))
        found = getattr(self._object, method, None) or self._object.on_fetch
        if method == "fetch":
            return await self._event(lambda: self._fetch(found, *args))
        return await self._event(lambda: self._answer(method, found, args, kwargs))

    async def _ring(self, info: Any) -> None:
        """The alarm's event."""
        await self._learn(None)
        handler = self._object.alarm
        args = (info,) if _takes(handler, 1) else ()
        await self._event(lambda: handler(*args))

    async def _connect(self, socket: Socket, request: Any) -> str:
        """The client of a pair that the object accepted is there."""
        if request.caller != INSIDE:
            raise BadOption(
                f"{self._activation.id}: its sockets are asked for through the Worker's fetch", code="workers.socket"
            )
        await self._learn(None)
        assert self._state is not None
        self._state.sockets.connect(socket, decode(bytes.fromhex(request.headers["pair"])))
        return ""

    async def _message(self, socket: Socket, message: Any) -> None:
        """A client said something; if the object's code raises, the socket stays open, as there."""
        if not hasattr(self._hosted.cls, "webSocketMessage"):
            return  # nobody listens
        await self._tell(lambda found, ws: found.webSocketMessage(ws, message), socket)

    async def _part(self, socket: Socket, code: int, reason: str, was_clean: bool) -> None:
        """A client is gone."""
        is_closed_here = socket.is_closed_here
        if self._state is not None:
            is_closed_here = is_closed_here or self._state.sockets.of(socket).is_closed_here
            self._state.sockets.begin_parting(socket)
        if code in BROKEN and not is_closed_here and hasattr(self._hosted.cls, "webSocketError"):
            words = f"the connection broke with {code}: {reason or BROKEN[code]}"
            await self._tell(
                lambda found, ws: found.webSocketError(*_fitting(found.webSocketError, ws, JsException(words))), socket
            )
        elif hasattr(self._hosted.cls, "webSocketClose"):
            await self._tell(
                lambda found, ws: found.webSocketClose(*_fitting(found.webSocketClose, ws, code, reason, was_clean)),
                socket,
            )
        if self._state is not None:
            self._state.sockets.forget(socket)

    async def _tell(self, tell: Callable[[Any, WebSocket], Any], socket: Socket) -> None:
        await self._learn(None)
        assert self._state is not None
        ws = self._state.sockets.of(socket)
        if self._hosted.uses("setHibernatableWebSocketEventTimeout"):
            await self._state.sockets.look_at_limit(self._state.turn)
        try:
            async with asyncio.timeout(self._state.sockets.limit_s) as limit:
                await self._event(lambda: tell(self._object, ws))
        except TimeoutError:
            if not limit.expired():
                raise
            log.warning(
                "%s: the handler of a socket took longer than setHibernatableWebSocketEventTimeout() allows",
                self._activation.id,
                extra={"code": "workers.socket"},
            )
        except Exception:
            log.exception("%s: the handler of a socket raised", self._activation.id, extra={"code": "workers.socket"})

    async def _answer(self, method: str, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        freight = loans_of(self._activation.node).freight(self._activation)
        given, named = unpack_call((args, kwargs), freight) or ((), {})
        answer = await result_of(found(*given, **named))
        return pack(answer, f"answer of {self._activation.id}.{method}()", freight)

    async def workers_reach(self, path: list[str], packed: Any, **kwargs: Any) -> Any:
        """A caller's event: one of its properties, or what is behind one."""
        await self._learn(kwargs.pop(NAME, None))
        freight = loans_of(self._activation.node).freight(self._activation)

        async def run() -> Any:
            found = await reach(self._object, tuple(path), unpack_call(packed, freight))
            return pack(found, f"{self._activation.id}.{'.'.join(path)}", freight)

        return await self._event(run)

    def _offer(self, stream: Any, hear: Any = None) -> list[Any]:
        return conduits_of(self._activation.node).offer(stream, self._activation, hear)

    async def _fetch(self, found: Any, data: dict[str, Any]) -> dict[str, Any]:
        request = request_of(data, conduits_of(self._activation.node).claim)
        answer = await result_of(found(*([request] if _takes(found, 1) else [])))
        if answer is None:
            answer = Response(None)
        if not isinstance(answer, Response):
            raise JsException(f"{self._activation.id}.fetch() gave a {type(answer).__name__}, not a Response")
        return response_data(answer, self._offer)

    async def _event(self, run: Callable[[], Any]) -> Any:
        """Run it as an event: what it wrote is kept, whether it raises or not, unless the object is reset."""
        state = self._state
        assert state is not None
        event = begin_event()
        await self._prepare(state)
        try:
            try:
                return await result_of(run())
            finally:
                await state.finish()
                if event.wants_back:
                    await state.turn.beside.go_back(state.turn, reset_error(RESTORED))
        except Reset as reset:
            if event.wants_back:
                await state.turn.beside.go_back(state.turn, reset.error)
            state.turn.beside.reset(reset.error)
            raise reset.error from reset.error.__cause__

    async def _prepare(self, state: State) -> None:
        """Have in memory what the object's code finds there without waiting."""
        await state.sockets.look(state.turn)
        if self._hosted.uses("setHibernatableWebSocketEventTimeout"):
            await state.sockets.look_at_limit(state.turn)
        if self._hosted.uses("getWebSocketAutoResponseTimestamp"):
            await state.sockets.look_at_answers(state.turn)
        if self._hosted.uses("kv"):
            await self._activation.rows.gather(USER, self._activation.node.limits.cache_bytes_per_object)

    async def _learn(self, name: str | None) -> None:
        """Before an event; before the first of an object with a long name: keep the name, then make the object."""
        if self._object is not None:
            return
        async with self._making:
            if self._object is not None:
                return  # type: ignore[unreachable]
            assert self._id is not None
            assert self._state is not None
            if name is not None and len(name) <= NAME_CHARS_MAX:
                self._id.name = name
                self._state.turn.writes[NAME_SLOT] = encode(name)
                self._state.turn.touch()
            await self._make()

    async def _make(self) -> None:
        """Run the constructor; if it fails, nothing of it has happened."""
        state = self._state
        assert state is not None
        before = CURRENT.set(state.turn)
        begin_event()
        try:
            await self._prepare(state)
            made = self._hosted.cls(state, self._hosted.env)
            await state.finish()
        except Reset as reset:
            state.turn.beside.reset(reset.error)
            raise reset.error from reset.error.__cause__
        except BaseException as error:
            state.turn.beside.reset(error)
            raise
        finally:
            CURRENT.reset(before)
        self._object = made


def host_of(hosted: Hosted) -> type[Host]:
    """The class to register: a host with the methods of the hosted class."""
    members: dict[str, Any] = {"_hosted": hosted, "__doc__": hosted.cls.__doc__, "__module__": hosted.cls.__module__}
    for name in _methods(hosted.cls):
        members[name] = _method(hosted.cls, name)
    if hosted.has_alarm:
        members["alarm"] = Host._ring
    if hosted.keeps_history:
        members["__wakeful_history__"] = HISTORY
    # Any of them may accept sockets: one that only sends has no handler to tell by.
    members |= {"on_connect": Host._connect, "on_message": Host._message, "on_close": Host._part}
    return type(hosted.cls.__name__, (Host,), members)


def _methods(cls: type) -> list[str]:
    """What callers may call: the public methods of the class and its bases, below `DurableObject`."""
    names = []
    for name in dir(cls):
        if name.startswith("_") or name in EVENTS or name in LIFECYCLE or hasattr(object, name):
            continue
        attribute = inspect.getattr_static(cls, name)
        if inspect.isfunction(attribute) or isinstance(attribute, staticmethod | classmethod):
            names.append(name)
    if "on_fetch" in names and "fetch" not in names:
        names.append("fetch")  # as there: the older name of it
    return names


def _method(cls: type, name: str) -> Any:
    async def method(self: Host, /, *args: Any, **kwargs: Any) -> Any:
        return await self._call(name, args, kwargs)

    theirs = inspect.getattr_static(cls, name, None) or cls.on_fetch  # type: ignore[attr-defined]
    method.__name__, method.__qualname__ = name, f"{cls.__name__}.{name}"
    method.__doc__ = theirs.__doc__
    if inspect.isfunction(theirs):
        method.__signature__ = inspect.signature(theirs)  # type: ignore[attr-defined]
    return method


def _takes(handler: Any, count: int) -> bool:
    """It can be called with so many arguments."""
    try:
        inspect.signature(handler).bind(*range(count))
    except TypeError:
        return False
    return True


def _fitting(handler: Any, *args: Any) -> tuple[Any, ...]:
    """As many of the arguments as it takes."""
    while args and not _takes(handler, len(args)):
        args = args[:-1]
    return args


# How do alarms of hosted objects differ from Wakeful's own?
#
# A handler that raises keeps what it wrote. If it set the alarm anew before it raised, that stands instead of a retry;
# if it deleted it, there is none.


class _Left(NamedTuple):
    """What a handler that raised has made of its alarm."""

    is_replaced: bool  # set anew or deleted, by the handler or beside it
    is_given_up: bool


class HostedAlarms(Alarms):
    """Alarms of a node that has hosted objects, maybe beside others."""

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        host = activation.instance
        if not isinstance(host, Host):
            return await super().fire(activation, turn, timer)
        standing = activation.beside.turn
        try:
            await activation.beside.in_event(host._ring(_info(timer)))
        except Exception as error:
            is_own = error is standing.failure  # the object was reset, and not another that it called
            turn.note = _Left(_is_replaced(activation, timer), is_own and not getattr(error, "retryAlarm", True))
            raise
        if _is_replaced(activation, timer):
            del turn.timers[ALARM]
        return True

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:  # type: ignore[override]
        left = failure.note
        if not isinstance(left, _Left) or not (left.is_replaced or left.is_given_up):
            return await super().failed(activation, turn, failure)
        if left.is_replaced:
            del turn.timers[ALARM]
        timer = failure.timer
        turn.occurrence = Occurrence(timer.name, run_id(timer), timer.nominal_at)
        return None


def _is_replaced(activation: "ObjectRuntime", timer: Timer) -> bool:
    """The alarm is not the one that ran any more."""
    if ALARM not in activation.timers:
        return False
    now = activation.timers[ALARM]
    return now is None or (now.seq, now.attempt) != (timer.seq, timer.attempt)


def _info(timer: Timer) -> Record:
    """What the handler is told, as a mapping and by attributes."""
    return Record(retryCount=timer.attempt, isRetry=timer.attempt > 0, scheduledTime=timer.nominal_at)
