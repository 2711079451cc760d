"""Layer 5. How does the server's end of a WebSocket hang up on a client that does not read, and say what it saw?

Uvicorn's protocol on the websockets library's parser, with what ASGI has no word for. Of the three that uvicorn has, the
library's own takes a third more memory for an idle socket, and wsproto's is one dependency more for a few per cent less.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wakeful.http.sockets import ABORT

PONGS_BYTES_MAX = 65_536  # waiting for a client that sends pings and does not read
SLICE = 4_096  # bytes that are parsed at once: frames may have six of them, and each that waits takes hundreds

_PROBLEM = (
    b'{"type":"urn:wakeful:problem:socket.handshake","title":"Bad Request","status":400,'
    b'"detail":"the request has a line or a header that is too long, or too many of them","code":"socket.handshake"}'
)
_REFUSED = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%s" % (len(_PROBLEM), _PROBLEM)
)


class SocketProtocol(WebSocketsSansIOProtocol):
    """`uvicorn.Config(ws=SocketProtocol)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rest = b""  # what has come and is not parsed, because the messages before it are not taken yet

    async def run_asgi(self) -> None:
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[ABORT] = self.transport.abort
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
        if self._rest or self.read_paused or len(data) > SLICE:
            self._rest += data
            self._feed_on()
        else:
            self._feed(data)

    def _feed_on(self) -> None:
        """Parse what is left, until there is a message to be taken."""
        at = 0
        while at < len(self._rest) and not self.read_paused and not self.transport.is_closing():
            self._feed(self._rest[at : at + SLICE])
            at += SLICE
        self._rest = self._rest[at:]

    def _feed(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # The parser has refused the request, and nobody would ever answer it.
            self.transport.write(_REFUSED)
            self.transport.close()

    async def receive(self) -> Any:
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._feed_on()
            if not self.read_paused and not self.transport.is_closing():
                self.transport.resume_reading()
        return message

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "bytes" or self.close_sent:
            super().send_receive_event_to_app()
            return
        frames, self.frames = self.frames, []
        try:
            text = b"".join(frames).decode()
        except UnicodeDecodeError:  # which uvicorn would log as a fault of its own, with a traceback
            self.conn.fail(1007, "text that is no UTF-8")
            self.handle_parser_exception()
            return
        self.queue.put_nowait({"type": "websocket.receive", "text": text})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.close" and self.close_timer is not None:
            # Nobody waits longer for a client that neither answers nor reads; closing would wait for it to read.
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)
            self._feed_on()

    def handle_close(self, event: Any) -> None:
        super().handle_close(event)
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self.loop.call_later(self.close_timeout, self.transport.abort)

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > PONGS_BYTES_MAX and not self.writable.is_set():
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        if self.read_paused and self.ping_timeout is not None:
            # Its answer may well be there, behind a message that the object has not taken yet.
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self.transport.abort()  # closing would wait for a client that is not there to read the rest

    def connection_lost(self, exc: Exception | None) -> None:
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006, "reason": ""})
        super().connection_lost(exc)
