"""Layer 6. How does the server's end of a WebSocket hang up on a client that does not read, and say what it saw?

Uvicorn's protocol on the websockets library's parser, with the three things that ASGI has no word for.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wakeful.http.sockets import ABORT

PONGS_BYTES_MAX = 65_536  # waiting for a client that sends pings and does not read


class SocketProtocol(WebSocketsSansIOProtocol):
    """`uvicorn.Config(ws=SocketProtocol)`."""

    async def run_asgi(self) -> None:
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[ABORT] = self.transport.abort
        await super().run_asgi()

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
