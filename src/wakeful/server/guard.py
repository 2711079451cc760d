"""Layer 5. Connections that ask for too much before they have said anything: what does the server bear?

A client has half a minute for a request, whose head and trailers have a bound, and few may come before their answers; one
that does not take what it asked for is cut off after a minute; and there is a bound on how many are connected. uvicorn itself
waits for ever in each of these. What costs much to parse (a body in tiny chunks, a thousand requests in a packet) is parsed a
little at a time, and nothing more is read meanwhile; what still comes of a body that is answered already is not parsed at all.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wakeful.http.problems import bare_answer
from wakeful.http.protocol import HeldBytes, Quota
from wakeful.http.sockets import HELD
from wakeful.policy.shares import Asker
from wakeful.security.crowd import STRANGERS
from wakeful.server.site import Site

REQUEST_S = 30.0  # from the first byte of a request to its last, and from the connection to the first
HEAD_BYTES_MAX = 32_768
TRAILER_BYTES_MAX = 8_192
STALL_S = 60.0
CONNECTIONS_MAX = 12_000
SLICE = 512  # bytes that are read at once between bodies: a few requests
# Bytes of a chunked body that are read at once: chunks may have six of them. More where they turn out to be few.
CHUNKED_SLICE, CHUNKED_SLICE_MAX = 1_024, 4_096  # of what follows the body some hundred requests may be in one
CHUNKS_FEW = 16  # in one slice; after more others have a turn
PIPELINED_MAX = 4  # requests that wait behind the one that is being answered
PIPELINED_BURST, PIPELINED_PER_S = (
    1_000,
    1_000,
)  # of one connection, at once and from then on: else it alone fills the loop
VERSIONS = ("1.0", "1.1")
LOG_EVERY_S = 60.0
WHY_MAX = 200  # characters of what the parser says is wrong
LINGER_S, LINGER_BYTES = (
    2.0,
    4 << 20,
)  # how long, and how much, of a body that is answered already is taken and thrown away

log = logging.getLogger("wakeful.http")

Headers = list[tuple[bytes, bytes]]


class RefusedRequest(NamedTuple):
    """What is said to somebody whose request is none, or does not come to its end."""

    status: int
    code: str
    words: str

    @property
    def answer(self) -> bytes:
        return bare_answer(*self)


_BUSY = RefusedRequest(
    503,
    "server.connections",
    "as many connections are open as this server takes; try again, and use one for many requests",
)
_LARGE = RefusedRequest(
    431, "header.long", f"the head of the request has more than {HEAD_BYTES_MAX} bytes; send fewer or shorter headers"
)
_FULL = RefusedRequest(
    503, "server.bodies", "too much is being sent to this server at once, by you or by all; try again, in larger chunks"
)
_SLOW = RefusedRequest(408, "body.slow", "the body did not come in time")
_SLOW_HEAD = RefusedRequest(408, "header.slow", f"the head of the request did not come within {REQUEST_S:.0f} s")
_TRAILING = RefusedRequest(
    431,
    "trailer.long",
    f"the trailers, or what a chunk says of itself, have more than {TRAILER_BYTES_MAX} bytes; send none",
)
_SOCKET_BODY = RefusedRequest(
    *(400, "socket.handshake", "a request for a WebSocket has no body; leave Content-Length and Transfer-Encoding out")
)
_OF_UPGRADES = (b"upgrade", b"http2-settings")


def _unreadable(why: str) -> RefusedRequest:
    words = f"the request can't be read: {why[:WHY_MAX]}; send HTTP/1.1, and percent-encode the path"
    return RefusedRequest(400, "request.http", words)


class RefusedHead(ValueError):
    """Raised where the parser has called us, which ends the parsing."""

    def __init__(self, refusal: RefusedRequest) -> None:
        super().__init__(refusal.words)
        self.refusal = refusal


def check_head(version: str, headers: Headers) -> None:
    """`RefusedHead` for what the parser takes, and would be understood in another way by a proxy before us, or by nobody."""
    if version == "0.9":
        raise RefusedHead(_unreadable("the request line has no version, or HTTP/0.9"))
    if version not in VERSIONS:
        words = f"a request line with HTTP/{version} is not understood here; send HTTP/1.1"
        raise RefusedHead(RefusedRequest(505, "request.version", words))
    names = [name for name, _ in headers]
    hosts = names.count(b"host")
    if hosts > 1 or (not hosts and version != "1.0"):
        raise RefusedHead(_unreadable(f"it has {hosts or 'no'} Host header{'s' * (hosts > 1)}, and needs one"))
    if b"transfer-encoding" not in names:
        return
    said = b",".join(value for name, value in headers if name == b"transfer-encoding")
    codings = [one.strip() for one in said.split(b",") if one.strip()]
    if [one.lower() for one in codings] != [b"chunked"]:
        named = b", ".join(codings).decode("latin-1")[:WHY_MAX]
        words = f"the body comes in the transfer coding {named!r}; send it as it is, chunked or with its length"
        raise RefusedHead(RefusedRequest(501, "request.coding", words))


def _refusal_of(error: httptools.HttpParserError) -> RefusedRequest:
    """What is wrong with a request that the parser, or a callback of ours within it, does not take."""
    within = error.__context__
    if isinstance(within, RefusedHead):
        return within.refusal
    return _unreadable(str(within if isinstance(within, ValueError | httptools.HttpParserError) else error))


class RefusalLog:
    """One line a minute for operators: that somebody is refused, who, why, and how many there were. A stranger fills no disk."""

    def __init__(self) -> None:
        self._told_s: float | None = None
        self._untold = 0

    def add(self, now_s: float, client: tuple[str, int] | None, refusal: RefusedRequest) -> None:
        if self._told_s is not None and 0 <= now_s - self._told_s < LOG_EVERY_S:
            self._untold += 1
            return
        words = "a connection from %s was refused (%s): %s; %d others since the last such line"
        who = "an unknown address" if client is None else client[0]
        log.warning(words, who, refusal.code, refusal.words, self._untold, extra={"code": "request.refused"})
        self._told_s, self._untold = now_s, 0


class Joined:
    """A transport that sends the head of an answer together with the body that follows: one system call for both.

    An answer to a request whose body has not come says that the connection ends with it. It is read from only while both
    uvicorn and the guard want that.
    """

    __slots__ = ("_head", "_is_held", "_is_paused", "_is_unread", "_loop", "_on_unsent", "real")

    def __init__(
        self,
        real: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        is_unread: Callable[[], bool],
        on_unsent: Callable[[], None],
    ) -> None:
        self.real = real
        self._loop = loop
        self._is_unread = is_unread
        self._on_unsent = on_unsent  # it is closed, and something is still to be sent
        self._head = b""
        self._is_held = self._is_paused = False

    def pause_reading(self) -> None:
        self._is_paused = True
        self.real.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if not self._is_held:
            self.real.resume_reading()

    def is_reading(self) -> bool:
        return not (self._is_held or self._is_paused)

    def hold(self, is_held: bool) -> None:
        """The guard has enough for now; or no longer."""
        if is_held == self._is_held or self.real.is_closing():
            return
        self._is_held = is_held
        if is_held:
            self.real.pause_reading()
        elif not self._is_paused:
            self.real.resume_reading()

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.") and data.endswith(b"\r\n\r\n"):
            is_final = not data.startswith(b"HTTP/1.1 100")
            if is_final and self._is_unread() and b"\r\nconnection: close\r\n" not in data:
                data = data[:-2] + b"connection: close\r\n\r\n"
            self._head = data
            self._loop.call_soon(self.flush)  # for one whose body is long in coming
            return
        self.real.write(data)

    def flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            if not self.real.is_closing():
                self.real.write(head)

    def close(self) -> None:
        self.flush()
        self.real.close()
        if self.real.get_write_buffer_size():
            self._on_unsent()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class Guarded(HttpToolsProtocol):
    """One connection of a client."""

    request_s = REQUEST_S
    head_bytes_max = HEAD_BYTES_MAX
    stall_s = STALL_S
    connections_max = CONNECTIONS_MAX
    refused = RefusalLog()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = self._trailer_bytes = 0
        self._in_head = True
        self._is_whole = False
        self._in_body = self._is_chunked = False
        self._missing = 0  # bytes of a body whose length is known
        self._is_last = False  # the answer that is being sent has said so
        self._refusal: RefusedRequest | None = (
            None  # of what came behind requests that are being answered: nothing more is read
        )
        self._chunks, self._chunked_slice = 0, CHUNKED_SLICE
        self._is_upgrading = False  # to what nobody here speaks
        self._pipelined: Quota | None = None  # once there were any
        self._lingers: int | None = None  # bytes that are still thrown away before the connection ends
        self._rest = b""  # what has come and is not read yet
        self._held = HeldBytes()
        self._later: asyncio.Handle | None = None  # when it will be
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    @property
    def _joined_transport(self) -> Joined:
        return cast("Joined", self.transport)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        joined = Joined(transport, self.loop, self._says_last, self._begin_stall)
        super().connection_made(cast("asyncio.Transport", joined))
        self._held.belong(Asker(STRANGERS, self.client[0] if self.client else ""))
        if len(self.connections) > self.connections_max:
            self._note(_BUSY)
            transport.write(_BUSY.answer)
            transport.close()
            return
        self._timer = self.loop.call_later(self.request_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self._lingers is not None:
            self._lingers -= len(data)
            if self._lingers < 0:
                self._end()
        elif self._refusal:
            return
        elif self._rest:
            self._rest += data  # no more than was on its way when reading was paused
            self._count_held()
        elif len(self.pipeline) >= PIPELINED_MAX or len(data) > max(SLICE, self._missing):
            self._rest = data
            self._feed_on()
        else:
            self._feed(data)

    def _feed_on(self) -> None:
        """Read of what has come no further than to the next few requests, or chunks: thousands may be in one packet."""
        self._later = None
        joined, is_enough = self._joined_transport, False
        while self._rest and not is_enough and len(self.pipeline) < PIPELINED_MAX and self._lingers is None:
            if self.transport.is_closing():
                self._drop_rest()
                return
            size = self._chunked_slice if self._in_body and self._is_chunked else max(SLICE, self._missing)
            data, self._rest = self._rest[:size], self._rest[size:]
            self._chunks = 0
            self._feed(data)
            is_enough = self._chunks > CHUNKS_FEW
            self._chunked_slice = CHUNKED_SLICE if is_enough else min(2 * self._chunked_slice, CHUNKED_SLICE_MAX)
        joined.hold(bool(self._rest or self._refusal) and self._lingers is None)
        if self._rest and is_enough and self._later is None:
            self._later = self.loop.call_soon(self._feed_on)
        self._count_held()

    def _count_held(self) -> None:
        """Among what all hold back together; one that has more than a few of it ends when that is too much."""
        if self._held.is_too_much(len(self._rest)):
            self._refuse(_FULL)

    def _drop_rest(self) -> None:
        self._rest = b""
        self._count_held()

    def on_response_complete(self) -> None:
        is_last = self._says_last()
        if is_last:
            self.pipeline.clear()
        is_owed = bool(self.pipeline)
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if is_last:
            self._linger()
        elif self._refusal and not is_owed:
            self._say(self._refusal)
        elif self._rest and self._later is None:
            wait_s = 0.0 if self._pipelined is None else self._pipelined.wait_s(self.loop.time())
            self._later = self.loop.call_later(wait_s, self._feed_on)

    def _says_last(self) -> bool:
        """Does the connection end with this answer, because the body of its request has not come? Once said, it does."""
        if self._in_body and not self.pipeline:
            self._is_last = self.cycle.keep_alive = True  # uvicorn does not close at once, though the client wishes it
        return self._is_last

    def _linger(self) -> None:
        """Take what still comes of the body unseen: to close at once could take the answer from a client that still sends."""
        self._lingers = LINGER_BYTES
        self._drop_rest()
        self._joined_transport.hold(False)
        self.flow.resume_reading()
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._timer = self.loop.call_later(LINGER_S, self._end)
        self._joined_transport.flush()
        if self._joined_transport.can_write_eof():
            self._joined_transport.write_eof()  # the client has its answer, and sees that nothing more comes

    def _feed(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        self._trailer_bytes += len(data)
        self._parse(data)
        if self._lingers is not None or self._refusal:
            return
        if self._is_whole:
            self._stop_timer()
        elif self._has_long_trailers():
            self._refuse(_TRAILING)
        elif self._in_head and self._head_bytes > self.head_bytes_max:
            self._refuse(_LARGE)
        elif self._timer is None:
            self._timer = self.loop.call_later(self.request_s, self._too_slow)

    def _has_long_trailers(self) -> bool:
        """Or one that does not end, or a chunk's own remarks: all that is no body and is kept, or read, for nobody."""
        return self._in_body and self._is_chunked and self._trailer_bytes > TRAILER_BYTES_MAX

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as error:
                if not self._is_upgrading:
                    self._upgrade()
                    return
                data = self._stay() + data[error.args[0] :]
            except httptools.HttpParserError as error:
                self._refuse(_refusal_of(error))
                return

    def _refuse(self, refusal: RefusedRequest) -> None:
        """Who sent it is told, in its own turn: behind the answers to what came before it. Nothing more is read."""
        if self.transport.is_closing():
            return
        self._note(refusal)
        self._stop_timer()
        self._drop_rest()
        is_begun, self._in_body = self._in_body, False
        if is_begun and not self.pipeline:
            self._break_off(refusal)
        elif self._is_answering():
            if is_begun:
                self.pipeline.popleft()  # itself, which nobody has begun to answer
            self._refusal = refusal
            self._joined_transport.hold(True)
        else:
            self._say(refusal)

    def _break_off(self, refusal: RefusedRequest) -> None:
        """The request whose body is refused: unless its answer is being sent, in which there is no place for other words."""
        if self.cycle.response_started:
            self._cut()
            return
        self.cycle.disconnected = True  # whoever reads the body hears of it, and says nothing more
        self.cycle.message_event.set()
        self._say(refusal)

    def _say(self, refusal: RefusedRequest) -> None:
        self.transport.write(refusal.answer)
        self._linger()

    def _note(self, refusal: RefusedRequest) -> None:
        """For operators: no request was made of it, so nobody else counts it."""
        Guarded.refused.add(self.loop.time(), self.client, refusal)
        if isinstance(self.app, Site):
            self.app.on_refused(refusal.status)

    def _should_upgrade(self) -> bool:
        return super()._should_upgrade() and self.scope["method"] == "GET"  # as it always is for a WebSocket

    def _stay(self) -> bytes:
        """The request wishes for a protocol that is not spoken here (curl and others offer h2c with each): go on in this one.

        The parser takes what follows for that protocol and would leave the body out, so another one reads the request
        again, without the wish: from this head on.
        """
        scope = self.scope
        head = [scope["method"].encode(), b" ", self.url, b" HTTP/", scope["http_version"].encode(), b"\r\n"]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(one for one in value.split(b",") if one.strip().lower() not in _OF_UPGRADES)
            if name not in _OF_UPGRADES:
                head += [name, b": ", value, b"\r\n"]
        self._is_upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"".join([*head, b"\r\n"])

    def on_message_begin(self) -> None:
        self._in_head, self._is_whole = True, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # nobody asks for trailers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.scope["method"] = self.parser.get_method().decode("ascii")
        if self.scope["method"] == "CONNECT":
            raise RefusedHead(_unreadable("this is no proxy"))
        check_head(self.parser.get_http_version(), self.headers)
        if self.parser.should_upgrade() and not self._should_upgrade():
            self.scope["http_version"] = self.parser.get_http_version()
            self._is_upgrading = True
            return
        is_pipelined = self._is_answering()
        is_chunked = any(name == b"transfer-encoding" for name, _ in self.headers)
        length = next((int(value) for name, value in self.headers if name == b"content-length"), 0)
        if self.parser.should_upgrade() and (is_chunked or length):
            raise RefusedHead(_SOCKET_BODY)
        super().on_headers_complete()  # which raises for a path that is none
        if self.parser.should_upgrade():
            return
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[HELD] = self._held
        self._in_head, self._head_bytes, self._in_body, self._trailer_bytes = False, 0, True, 0
        self._is_chunked, self._missing = is_chunked, length
        if is_pipelined:
            self._pipelined = self._pipelined or Quota(PIPELINED_BURST, PIPELINED_PER_S)
            self._pipelined.take(self.loop.time())

    def on_body(self, body: bytes) -> None:
        self._chunks += 1
        self._trailer_bytes = 0  # so far there are none
        self._missing = max(0, self._missing - len(body))
        if not self._is_upgrading:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_upgrading:
            return
        self._in_head, self._is_whole, self._in_body = True, True, False  # next comes the head of another
        self._missing = 0
        self._stop_timer()  # the next has its own time
        super().on_message_complete()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _upgrade(self) -> None:
        if self._is_answering():
            self._refuse(_unreadable("a WebSocket can't begin behind a request that is not answered yet"))
        else:
            self.handle_websocket_upgrade()

    def handle_websocket_upgrade(self) -> None:
        self._stop_timer()  # from here on another protocol has the connection
        self._drop_rest()
        self._joined_transport.hold(False)
        self.transport = self._joined_transport.real
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin_stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():  # else all of it has to be read
            self._let_go()

    def _begin_stall(self) -> None:
        """Its client does not read, or not all: not for ever."""
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(self.stall_s, self._cut)

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        self._stop_timer()
        self._drop_rest()
        if self._later is not None:
            self._later.cancel()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _let_go(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _too_slow(self) -> None:
        # What is missing may have come: the server has not looked.
        if not self._joined_transport.is_reading() and not self.transport.is_closing():
            self._timer = self.loop.call_later(self.request_s, self._too_slow)
            return
        if self.scope is None:
            self._cut()  # type: ignore[unreachable]  # it has said nothing yet
        else:
            self._refuse(_SLOW_HEAD if self._in_head else _SLOW)

    def _end(self) -> None:
        """It had its time to take what it was told; what is not sent yet is given that of an answer."""
        self._timer = None
        if self._joined_transport.get_write_buffer_size():
            self._joined_transport.close()
        else:
            self._cut()

    def _cut(self) -> None:
        self._stop_timer()
        self._let_go()
        self.transport.abort()
