"""Layer 5. How does the server's end of a WebSocket hang up on a client that does not read, and say what it saw?

Uvicorn's protocol on the websockets library's parser, with what ASGI has no word for. Of the three that uvicorn has, the
library's own takes a third more memory for an idle socket, and wsproto's is one dependency more for a few per cent less.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wakeful.http.sockets import ABORT

SLICE = 4_096
PONGS_BYTES_MAX = 65_536  # waiting for a client that sends pings and does not read


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

    async def run_asgi(self) -> None:
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[ABORT] = self.transport.abort
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # The parser has refused the request, and nobody would ever answer it.
            self.transport.write(_REFUSED)
            self.transport.close()

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > PONGS_BYTES_MAX and not self.writable.is_set():
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # closing would wait for a client that is not there to read the rest

    def connection_lost(self, exc: Exception | None) -> None:
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006, "reason": ""})
        super().connection_lost(exc)
