"""Layer 5. How does the server's end of a WebSocket hang up on a client that does not read, and say what it saw?

Messages are paced by whoever takes them. What comes beside them is counted here: pieces of messages are read at a pace, and
a client whose frames carry nothing (pings, pongs, empty pieces) again and again is hung up on. Between some of them everybody
else has a turn.

Uvicorn's protocol on the websockets library's parser, with what ASGI has no word for. Of the three that uvicorn has, the
library's own takes a third more memory for an idle socket, and wsproto's is one dependency more for a few per cent less.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.http11 import Response

from wakeful.http.problems import MEDIA, bare_answer, bare_body
from wakeful.http.sockets import ABORT, HELD, NO_CODE
from wakeful.policy.shares import Asker, Shares, Verdict
from wakeful.security.crowd import STRANGERS, address_of

PONGS_BYTES_MAX = 65_536  # waiting for a client that sends pings and does not read
BARE_MAX, BARE_PER_S = 1_000, 100  # frames that carry nothing, at once and from then on: nobody pings so often
FRAGMENTS_MAX, FRAGMENTS_PER_S = 2_000, 2_000  # pieces of messages, the same: a mebibyte in pieces of 512 bytes
PASS_FRAMES = 64  # handled in one pass of the loop before others have a turn; those of one slice are parsed together
SOON_S = 0.0001
SLICE = 4_096  # bytes that are parsed at once: frames may have six of them, and each that waits takes hundreds
HELD_FEW = 16_384  # bytes that have come and are not read yet, which every connection may have
HELD_BYTES_MAX = (
    64 << 20
)  # of all connections that have more: each may have a quarter of a mebibyte, a socket a message
HELD_BYTES_FAIR = 1 << 20  # of which nobody is refused the first, while there is room
PIECE_BYTES = 64  # that a piece of a message takes besides what is in it
TRY_AGAIN_LATER = 1013

_REFUSED = bare_answer(
    400, "socket.handshake", "the request has a body, or a line or a header that is too long, or too many of them"
)


class Quota:
    """So many at once, and so many a second from then on."""

    __slots__ = ("_at_s", "_left", "_most", "_per_s")

    def __init__(self, most: int, per_s: int) -> None:
        self._most = self._left = float(most)
        self._per_s = per_s
        self._at_s = 0.0

    def take(self, now_s: float) -> None:
        """One more, whether there is one left or not."""
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s) - 1
        self._at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """How long until there is one left; less than a timer can wait for is nothing, or it would be waited for again and again."""
        wait_s = -self._left / self._per_s - (now_s - self._at_s)
        return wait_s if wait_s > SOON_S else 0.0


class HeldBytes:
    """Bytes that one connection has sent and nobody has taken yet, among those of all connections of this process.

    Each asker has a share of them. In the scope of a request it is `HELD`, for whoever finds out whose request it is.
    """

    __slots__ = ("_asker", "_count")
    shares = Shares(HELD_BYTES_MAX, few=HELD_BYTES_FAIR)

    def __init__(self) -> None:
        self._asker = Asker(STRANGERS)
        self._count = 0

    def belong(self, asker: Asker) -> None:
        """They are of this one from here on, unless it has its share: each new connection would bring it more."""
        if asker == self._asker:
            return
        if not self._count or self.shares.move(self._asker, asker, self._count) is Verdict.TAKEN:
            self._asker = asker

    def is_too_much(self, size: int) -> bool:
        """It has so many now; are those more than it had, and more than there is room for?"""
        count = size if size > HELD_FEW else 0
        if count > self._count:
            if self.shares.take(self._asker, count - self._count) is not Verdict.TAKEN:
                return True
        elif count < self._count:
            self.shares.give(self._asker, self._count - count)
        self._count = count
        return False


def _rejection(status: Any, text: str) -> Response:
    """A handshake that can't be one, as everything else that is refused; the first line of the text says why."""
    found = HTTPStatus(status)
    code = "http.bug" if found >= 500 else "socket.handshake"
    body = bare_body(found, code, text.partition("\n")[0])
    headers = Headers({"Content-Type": MEDIA.decode(), "Content-Length": str(len(body)), "Connection": "close"})
    return Response(found.value, found.phrase, headers, body)


class SocketProtocol(WebSocketsSansIOProtocol):
    """`uvicorn.Config(ws=SocketProtocol)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rest = b""  # what has come and is not parsed, because what came before it is not taken yet
        self._held = HeldBytes()
        self._later: asyncio.Handle | None = None  # when it will be
        self._frames = 0
        self._pieces = 0  # bytes of a message whose end has not come
        self._fragments: Quota | None = None  # once there were any: most clients send whole messages
        self._bare: Quota | None = None
        self.conn.reject = _rejection  # type: ignore[method-assign]  # the library's has words in plain text

    async def run_asgi(self) -> None:
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[ABORT], scope[HELD] = self.transport.abort, self._held
        self._held.belong(Asker(STRANGERS, address_of(scope)))
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
        is_free = self._later is None and not self._rest and not self.read_paused
        if is_free and len(data) <= SLICE and not self._wait_s():
            self._feed(data)
            self._count_held()
            return
        if self._later is None:
            self._rest += data
            self._feed_on()
        else:
            self._keep(self._rest + data)

    def _feed_on(self) -> None:
        """Parse what is left, until there is a message to be taken, or others should have a turn."""
        at, seen = 0, self._frames
        while at < len(self._rest) and not self.read_paused and not self.transport.is_closing():
            wait_s = self._wait_s()
            if wait_s or self._frames - seen >= PASS_FRAMES:
                self.transport.pause_reading()
                later = self.loop.call_later(wait_s, self._go_on) if wait_s else self.loop.call_soon(self._go_on)
                self._later = later
                break
            self._feed(self._rest[at : at + SLICE])
            at += SLICE
        self._keep(b"" if self.transport.is_closing() else self._rest[at:])

    def _keep(self, rest: bytes) -> None:
        """What is not parsed yet."""
        self._rest = rest
        self._count_held()

    def _count_held(self) -> None:
        """With what the parser has of a message that is not whole: a client that has too much, with all others, is hung up on."""
        if not self._held.is_too_much(len(self._rest) + len(self.conn.reader.buffer) + self._pieces):
            return
        if self.handshake_complete and not self.close_sent:
            self._hang_up(TRY_AGAIN_LATER, "too much is being sent to this server at once, by you or by all; try again")
        else:
            self.transport.abort()
        self._drop()

    def _drop(self) -> None:
        """Nobody will read what is here."""
        self.frames, self._pieces = [], 0
        self.conn.reader.buffer.clear()
        self._keep(b"")

    def _go_on(self) -> None:
        self._later = None
        self._feed_on()
        self._read_on()

    def _read_on(self) -> None:
        if self._later is None and not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _wait_s(self) -> float:
        return 0.0 if self._fragments is None else self._fragments.wait_s(self.loop.time())

    def _count(self, *, is_bare: bool = False) -> None:
        """One frame beside the messages; a client that sends too many which carry nothing is hung up on."""
        self._frames += 1
        now_s = self.loop.time()
        if self._fragments is None:
            self._fragments = Quota(FRAGMENTS_MAX, FRAGMENTS_PER_S)
        self._fragments.take(now_s)
        if not is_bare:
            return
        if self._bare is None:
            self._bare = Quota(BARE_MAX, BARE_PER_S)
        self._bare.take(now_s)
        if self._bare.wait_s(now_s) and not self.close_sent and not self.transport.is_closing():
            words = (
                f"more than {BARE_PER_S} frames a second that carry nothing (pings, pongs, empty pieces); send fewer"
            )
            self._hang_up(1008, words)

    def _hang_up(self, code: int, words: str) -> None:
        self.conn.fail(code, words)
        self.handle_parser_exception()
        self.loop.call_later(self.close_timeout, self.transport.abort)

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
            if self._later is None:
                self._feed_on()
            self._read_on()
        return message

    def handle_text(self, event: Any) -> None:
        super().handle_text(event)
        self._count_piece(event)

    def handle_bytes(self, event: Any) -> None:
        super().handle_bytes(event)
        self._count_piece(event)

    def handle_cont(self, event: Any) -> None:
        self._count(is_bare=not event.data and not event.fin)
        if not self.transport.is_closing():
            super().handle_cont(event)
            self._count_piece(event)

    def _count_piece(self, event: Any) -> None:
        if not event.fin:
            self._pieces += len(event.data) + PIECE_BYTES

    def handle_pong(self, event: Any) -> None:
        self._count(is_bare=True)
        super().handle_pong(event)

    def send_receive_event_to_app(self) -> None:
        self._frames += 1
        self._pieces = 0
        if self.close_sent:
            self._count()  # nobody takes it, so nobody paces it
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
        if message["type"] == "websocket.close" and message.get("code") == NO_CODE:
            message = {**message, "code": None}  # a frame that has none
        await super().send(message)
        if message["type"] == "websocket.close" and self.close_timer is not None:
            # Nobody waits longer for a client that neither answers nor reads; closing would wait for it to read.
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)
            if self._later is None:
                self._feed_on()

    def handle_close(self, event: Any) -> None:
        super().handle_close(event)
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self.loop.call_later(self.close_timeout, self.transport.abort)

    def handle_ping(self) -> None:
        self._count(is_bare=True)
        if self.transport.is_closing():
            return
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
        self._drop()
