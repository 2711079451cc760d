"""Layer 5. Connections that ask for too much before they have said anything: what does the server bear?

A client has half a minute for a request, whose head has a bound, and few may come before their answers; one that does not take what it asked for is cut
off after a minute; and there is a bound on how many are connected. uvicorn itself waits for ever in each of these.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_S = 30.0  # from the first byte of a request to its last, and from the connection to the first
HEAD_BYTES_MAX = 32_768
STALL_S = 60.0
CONNECTIONS_MAX = 12_000
SLICE = 512  # bytes that are read at once between bodies: a few requests
PIPELINED_MAX = 4  # requests that wait behind the one that is being answered

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_PROBLEM = (
    b'{"type":"urn:wakeful:problem:body.slow","title":"Request Timeout","status":408,'
    b'"detail":"the body did not come in time","code":"body.slow"}'
)
_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%s" % (len(_PROBLEM), _PROBLEM)
)


class Joined:
    """A transport that sends the head of an answer together with the body that follows: one system call for both."""

    __slots__ = ("_head", "_loop", "real")

    def __init__(self, real: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.real = real
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.") and data.endswith(b"\r\n\r\n"):
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

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class Guarded(HttpToolsProtocol):
    """One connection of a client."""

    request_s = REQUEST_S
    head_bytes_max = HEAD_BYTES_MAX
    stall_s = STALL_S
    connections_max = CONNECTIONS_MAX

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._is_whole = False
        self._in_body = False
        self._rest = b""  # what has come and is not read yet
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", Joined(transport, self.loop)))
        if len(self.connections) > self.connections_max:
            transport.write(_BUSY)
            transport.close()
            return
        self._timer = self.loop.call_later(self.request_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
        elif len(data) > SLICE and not self._in_body:
            self._rest = data
            self._feed_on()
        else:
            self._feed(data)

    def _feed_on(self) -> None:
        """Read of what has come no further than to the next few requests: thousands may be in one packet."""
        while self._rest and len(self.pipeline) < PIPELINED_MAX and not self.transport.is_closing():
            size = len(self._rest) if self._in_body else SLICE
            data, self._rest = self._rest[:size], self._rest[size:]
            self._feed(data)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._rest:
            self.loop.call_soon(self._feed_on)

    def _feed(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_whole:
            self._stop_timer()
        elif self._in_head and self._head_bytes > self.head_bytes_max and not self.transport.is_closing():
            self.transport.write(_LARGE)
            self.transport.close()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.request_s, self._too_slow)

    def on_message_begin(self) -> None:
        self._in_head, self._is_whole = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes, self._in_body = False, 0, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._is_whole, self._in_body = True, True, False  # next comes the head of another
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._stop_timer()  # from here on another protocol has the connection
        self.transport = cast("Joined", self.transport).real
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(self.stall_s, self._cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._let_go()

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        self._stop_timer()
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
        """Of a body that does not come its sender is told; behind an answer that is being sent there is no place for it."""
        cycle = self.cycle
        if not self._in_body or self.pipeline or cycle is None or cycle.response_started:
            self._cut()
            return
        self._timer = None
        self.transport.write(_SLOW)
        self.transport.close()

    def _cut(self) -> None:
        self._timer = self._stall_timer = None
        self.transport.abort()
