"""Layer 5. `WebSocketPair` and hibernating sockets of Cloudflare's, on Wakeful's sockets.

The object's `fetch` makes a pair, accepts one end and answers with the other. The connection itself is made when that
answer arrives where the client is: what was sent to the pair before then waits in it.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from wakeful.compat.workers.events import ObjectEvents
from wakeful.compat.workers.failures import JsException, JsRangeError, JsTypeError
from wakeful.compat.workers.live_sockets import CLOSED, CLOSING, CONNECTING, OPEN, LiveSocket, closing_of
from wakeful.compat.workers.values import dress, sendable, start_task
from wakeful.compat.workers.web import ClientEnd
from wakeful.runtime.turn import RefusedWrite, Turn
from wakeful.sockets import records as keeping
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import (
    ATTACHMENT_BYTES_MAX,
    AUTO_CHARS_MAX,
    TAG_CHARS_MAX,
    TAGS_MAX,
    Socket,
    auto_response,
    sockets_of,
)
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.errors import BadInput, CallFailed, LimitExceeded

LIMIT_SLOT: Slot = (SYSTEM, "workers.socket-limit")
AWAITED_MS = (
    60_000  # how long the client of an accepted pair is awaited; one that comes later is connected all the same
)


class WebSocket:
    """A socket of an object: `send`, `close`, `serializeAttachment`, `deserializeAttachment`."""

    CONNECTING, OPEN, CLOSING, CLOSED = CONNECTING, OPEN, CLOSING, CLOSED

    def __init__(self, socket: Socket | None = None, state: ObjectEvents | None = None) -> None:
        self._socket = socket  # None until the client is connected
        self._state = state  # None until an object has accepted it
        self._tags: tuple[str, ...] = ()
        self._attachment: bytes | None = None
        self._sent: list[Any] = []
        self._closed: tuple[int, str] | None = None
        self._live: LiveSocket | None = None  # once its handlers are functions in memory
        self.is_parting = False  # the object is being told that its client is gone
        self.is_gone = False  # and has been

    def accept(self, options: Any = None) -> None:
        """Listen to it in memory: it keeps its object awake, and ends with it."""
        if self._state is not None:
            raise JsTypeError("accept(): the socket was accepted already, with ctx.acceptWebSocket()")
        self._line.accept()

    def addEventListener(self, *given: Any) -> None:  # noqa: N802  the names there
        self._line.addEventListener(*given)

    def removeEventListener(self, *given: Any) -> None:  # noqa: N802
        self._line.removeEventListener(*given)

    def send(self, message: Any) -> None:
        """Have the client get this, text or bytes, once what the event wrote is on disk."""
        if isinstance(message, bytearray | memoryview):
            message = bytes(message)
        if not isinstance(message, str | bytes):
            raise JsTypeError(f"send() takes text or bytes, not {type(message).__name__}")
        if self._live is not None:
            self._live.send(message)
            return
        if self._closed is not None:
            raise JsTypeError("send(): the socket was closed already")
        if self._socket is None:
            self._sent.append(message)
            return
        socket = self._socket
        self._do(lambda: socket.send(message))

    def close(self, code: int | None = None, reason: str | None = None) -> None:
        """Close it; of one that is closed or closing nothing comes."""
        if self._live is not None:
            self._live.close(code, reason)
            return
        given = closing_of(code, reason)
        if self._closed is None and (self._socket is None or self.readyState == OPEN):
            self._closed = given
            if (socket := self._socket) is not None:
                self._do(lambda: socket.close_as(*given))

    @property
    def is_closed_here(self) -> bool:
        """The object's code has closed it."""
        return self._closed is not None

    @property
    def readyState(self) -> int:  # noqa: N802  the name there
        if self._live is not None:
            return self._live.readyState
        if self.is_gone:
            return CLOSED
        if self.is_parting or self._closed is not None:
            return CLOSING
        if self._socket is None:
            return CONNECTING if self._state is None else OPEN if self._closed is None else CLOSING
        if self._object().turn.is_over:
            return OPEN
        with self._object().looking():
            return {"open": OPEN, "closing": CLOSING}.get(self._socket.state, CLOSED)

    def serializeAttachment(self, value: Any) -> None:  # noqa: N802  the name there
        """Keep a value with the socket, over sleep."""
        made = sendable(value, "an attachment")
        if len(encode(made)) > ATTACHMENT_BYTES_MAX:
            raise JsException(f"an attachment may have {ATTACHMENT_BYTES_MAX} bytes")
        if self._socket is None:
            self._attachment = encode(made)
            return
        with self._object().inside("a socket"):
            self._socket.attachment = made

    def deserializeAttachment(self) -> Any:  # noqa: N802  the name there
        """That value, None when there is none."""
        if self._socket is None:
            return None if self._attachment is None else dress(decode(self._attachment))
        try:
            with self._object().looking():
                return dress(self._socket.attachment)
        except CallFailed as error:
            raise JsException(error.message) from None

    @property
    def _line(self) -> LiveSocket:
        if self._live is None:
            self._live = LiveSocket()
        return self._live

    def _do(self, act: Any) -> None:
        """It leaves once what was written before it is on disk."""
        state = self._object()
        if state.is_beside_section:
            start_task(self._do_later(act), state._activation.node.keep, "a socket")
            return
        try:
            with self._object().inside("a socket"):
                done = act()
        except CallFailed as error:
            raise JsException(error.message) from None
        if isinstance(done, RefusedWrite):
            done.turn.refused = [other for other in done.turn.refused if other is not done]
            kind = JsRangeError if isinstance(done.error, LimitExceeded) else JsTypeError
            raise kind(done.error.message if isinstance(done.error, BadInput) else str(done.error))

    async def _do_later(self, act: Any) -> None:
        """Of code beside a transaction: with that it could be taken back."""
        await self._object().gate.wait()
        self._do(act)

    def _object(self) -> ObjectEvents:
        if self._state is None:
            raise JsException("no object has accepted this socket")
        return self._state

    def _pending(self) -> dict[str, Any]:
        """What has happened to it so far, before the client is connected."""
        id = self._object()._activation.id
        return {
            "target": [id.cls, id.key],
            "token": _token(self),
            "tags": list(self._tags),
            "attachment": self._attachment,
            "sent": self._sent,
            "closed": self._closed,
        }


def _handler(name: str) -> Any:
    """`onmessage` and the others, as attributes."""

    def set_it(self: WebSocket, listener: Any) -> None:
        setattr(self._line, name, listener)

    return property(lambda self: getattr(self._line, name), set_it)


for _kind in ("open", "message", "close", "error"):
    setattr(WebSocket, f"on{_kind}", _handler(f"on{_kind}"))


def _token(server: WebSocket) -> int:
    return id(server)


class WebSocketPair:
    """Two ends: `client, server = WebSocketPair.new().object_values()`."""

    def __init__(self) -> None:
        server = WebSocket()
        self._ends = (ClientEnd(None, server), server)

    @classmethod
    def new(cls) -> "WebSocketPair":
        return cls()

    def object_values(self) -> list[Any]:
        return list(self._ends)

    values = object_values

    def __getitem__(self, index: Any) -> Any:
        return self._ends[int(index)]

    def __iter__(self) -> Any:
        return iter(self._ends)


class WebSocketRequestResponsePair:
    """A text, and what is answered to it without waking the object."""

    def __init__(self, request: str, response: str) -> None:
        for text in (request, response):
            if not isinstance(text, str) or len(text.encode()) > AUTO_CHARS_MAX:
                raise JsRangeError(f"an automatic response takes texts of at most {AUTO_CHARS_MAX} bytes")
        self.request = request
        self.response = response

    @classmethod
    def new(cls, request: str, response: str) -> "WebSocketRequestResponsePair":
        return cls(request, response)


class Sockets:
    """The sockets of one object, for as long as it is awake: the same socket is the same Python object."""

    def __init__(self, state: ObjectEvents) -> None:
        self._state = state
        self._known: dict[str, WebSocket] = {}
        self._pending: dict[int, WebSocket] = {}
        self._since: dict[int, int] = {}  # when each of those was accepted
        self.auto: WebSocketRequestResponsePair | None = None
        self._answered: dict[str, int] = {}  # by socket, when it had the automatic answer last
        self.limit_s: float | None = None  # for which the handler of one of its events may run

    async def look(self, turn: Turn) -> None:
        """An event or the constructor begins: have at hand what its code asks for without waiting."""
        now = turn.activation.node.clock.now()
        for token in [token for token, at in self._since.items() if now - at > AWAITED_MS]:
            del self._pending[token], self._since[token]  # its client went before the answer came, or never got it
        table = keeping.table_of(turn.activation)
        if not table.is_complete:
            # As finished turns left it: that there are none takes one row to know, and what there is a scan.
            before = await keeping.summary_of(Turn(turn.activation, turn.chain, turn.deadline_at))
            if before.count:
                await sockets_of(turn)
            else:
                table.is_complete = True
        auto = (await keeping.summary_of(turn)).auto
        self.auto = None if auto is None else WebSocketRequestResponsePair(*auto)

    async def look_at_limit(self, turn: Turn) -> None:
        """Have at hand for how long a handler may run."""
        rows = turn.activation.rows
        limit = turn.writes[LIMIT_SLOT] if LIMIT_SLOT in turn.writes else await rows.read(LIMIT_SLOT)
        self.limit_s = None if limit is None else decode(limit) / 1000

    async def look_at_answers(self, turn: Turn) -> None:
        """Have at hand when clients had the automatic answer: whoever holds their connections knows."""
        held: dict[str, list[str]] = {}
        for id, kept in (await keeping.load_all(turn)).items():
            held.setdefault(kept.gateway, []).append(id)
        if held:
            self._answered.update(await feature_of(turn.activation.node).answered_at(held))

    def answered_at(self, socket: Any) -> int | None:
        """When it had the automatic answer last, as of the beginning of the event."""
        if not isinstance(socket, WebSocket) or socket._state is not self._state:
            raise JsTypeError("getWebSocketAutoResponseTimestamp() takes a socket that this object has accepted")
        return None if socket._socket is None else self._answered.get(socket._socket.id)

    def set_limit(self, ms: int | None) -> None:
        """For how long the handler of one of its events may run; kept over sleep."""
        with self._state.inside("setHibernatableWebSocketEventTimeout()") as turn:
            turn.writes[LIMIT_SLOT] = None if ms is None else encode(ms)
        self.limit_s = None if ms is None else ms / 1000

    def accept(self, server: Any, tags: Iterable[str] | None) -> None:
        if not isinstance(server, WebSocket):
            raise JsTypeError("acceptWebSocket() takes the server's end of a WebSocketPair")
        if server._state is not None or server._live is not None:
            raise JsException("acceptWebSocket(): this socket was accepted already")
        found = tuple(dict.fromkeys(tags or ()))
        if len(found) > TAGS_MAX:
            raise JsException(f"a socket may have {TAGS_MAX} tags")
        if any(not isinstance(tag, str) or not 0 < len(tag) <= TAG_CHARS_MAX for tag in found):
            raise JsException(f"a tag is text of 1 to {TAG_CHARS_MAX} characters")
        server._tags, server._state = found, self._state
        self._pending[_token(server)] = server
        self._since[_token(server)] = self._state._activation.node.clock.now()

    def connect(self, socket: Socket, data: dict[str, Any]) -> None:
        """The client of an accepted pair is there: what waited for it goes out."""
        server = self._pending.pop(data["token"], None)
        self._since.pop(data["token"], None)
        if server is None or server._state is not self._state:
            server = WebSocket(None, self._state)
            server._attachment, server._sent = data["attachment"], data["sent"]
            server._closed = None if data["closed"] is None else tuple(data["closed"])
            server._tags = tuple(data["tags"])
        socket.tags = server._tags
        if server._attachment is not None:
            socket.attachment = decode(server._attachment)
        server._socket = socket
        self._known[socket.id] = server
        for message in server._sent:
            server._do(partial(socket.send, message))
        if (closed := server._closed) is not None:
            server._do(lambda: socket.close_as(*closed))
        server._sent = []

    def of(self, socket: Socket) -> WebSocket:
        """The one that the object's code knows."""
        found = self._known.get(socket.id)
        if found is None:
            found = self._known[socket.id] = WebSocket(socket, self._state)
        found._socket = socket
        return found

    def begin_parting(self, socket: Socket) -> None:
        """Its client is gone, and the object is to be told: until it was, the socket is there, and closing."""
        one = self.of(socket)
        one.is_parting, one._tags = True, socket.tags

    def forget(self, socket: Socket) -> None:
        self._answered.pop(socket.id, None)
        gone = self._known.pop(socket.id, None)
        if gone is not None:
            gone.is_gone = True

    def all(self, tag: str | None) -> list[WebSocket]:
        with self._state.looking() as turn:
            there = [self.of(one) for one in _at_once(sockets_of(turn, tag))]
        parting = [one for one in self._known.values() if one.is_parting and one not in there]
        waiting = [*parting, *self._pending.values()]
        return there + [one for one in waiting if tag is None or tag in one._tags]

    def tags(self, socket: Any) -> list[str]:
        if not isinstance(socket, WebSocket) or socket._state is not self._state:
            raise JsException("getTags(): accept the socket with acceptWebSocket() first")
        if socket._socket is None:
            return list(socket._tags)
        with self._state.looking():
            return list(socket._socket.tags)

    async def set_auto(self, pair: WebSocketRequestResponsePair | None) -> None:
        turn = self._state.turn
        await auto_response(turn, *((None, None) if pair is None else (pair.request, pair.response)))
        turn.touch()


def _at_once(coroutine: Any) -> Any:
    """The answer of something that has nothing to wait for any more."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise JsException("the object's sockets are not at hand")
