"""Layer 2. How do the messages of a link travel over a real socket?

A plain asyncio protocol: what is sent during one pass of the loop leaves as one write, what comes
in is decoded where it lies. First greetings, one by one; then the messages of a link.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

import msgspec

from wakeful.transport.frames import FRAME_BYTES_MAX, Cutter, Malformed, put_frame
from wakeful.transport.handshake import GREETING_BYTES_MAX
from wakeful.transport.link_client import LinkClient
from wakeful.transport.link_server import Answerer
from wakeful.transport.pulse import Pace
from wakeful.transport.tls import reason
from wakeful.values.errors import WrongCertificate

log = logging.getLogger("wakeful.links")

# Messages taken in one pass of the loop. What they lead to leaves with that pass, so that the other end works on it
# while this one works on the rest; taken all at once, two ends with many calls between them would only take turns.
MESSAGES_A_PASS = 32
# Past this the sender waits. Large enough that a pass's worth of small calls never does.
WRITE_BUFFER_BYTES = 1024 * 1024


class HungUp(Exception):
    """The other end is gone before there was a link."""


class SocketWire(asyncio.Protocol):
    """One connection: a `Greeter` until `begin`, then the `Wire` of a link."""

    def __init__(
        self,
        pace: Pace,
        *,
        on_made: Callable[["SocketWire"], object] = lambda _: None,
        on_lost: Callable[["SocketWire"], object] = lambda _: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pace = pace
        self._on_made = on_made
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._cutter = Cutter(GREETING_BYTES_MAX)
        self._out = bytearray()
        self._user: LinkClient | Answerer | None = None
        self._decoder: msgspec.msgpack.Decoder[Any] | None = None
        self._greeting: asyncio.Future[None] | None = None
        self._is_paused = False
        self._is_flushing = False
        self._is_reading_on = False  # there may be more to read, in the next pass
        self._is_hung_up = False  # from here: whatever still comes is nobody's
        self.has_spoken = False  # a whole frame of its greeting was read
        self._lost: Exception | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()  # done when the connection is gone

    @property
    def peer(self) -> str:
        """Whoever is at the other end, as far as the socket knows."""
        found = None if self._transport is None else self._transport.get_extra_info("peername")
        return f"{found[0]}:{found[1]}" if isinstance(found, tuple) else "a connection"

    @property
    def host(self) -> str:
        """Its address without the port, of which each connection has its own."""
        found = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(found[0]) if isinstance(found, tuple) else "a connection"

    # for greetings

    def send_body(self, body: bytes) -> None:
        if self._transport is not None and self._lost is None:
            self._transport.write(len(body).to_bytes(4, "big") + body)

    async def next_body(self) -> bytes:
        """The next frame; `HungUp` when there will be none."""
        while (body := self._cutter.next()) is None:
            if self._lost is not None:
                raise self._lost
            self._greeting = self._loop.create_future()
            await self._greeting
        self.has_spoken = True
        return bytes(body)

    def begin(self, user: LinkClient | Answerer, decoder: msgspec.msgpack.Decoder[Any]) -> None:
        """The greetings are over; what comes from now on is for the user."""
        self._user = user
        self._decoder = decoder
        self._cutter.bytes_max = FRAME_BYTES_MAX
        if self._lost is not None:
            user.on_lost(str(self._lost))
        else:
            self._read()

    # the wire as its user sees it

    def send(self, message: Any) -> None:
        put_frame(self._out, message)
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def hang_up(self, *, at_once: bool = False) -> None:
        self._is_hung_up = True
        transport = self._transport
        if transport is None:
            return
        if at_once:
            transport.abort()
        elif not transport.is_closing():
            self._flush()
            transport.close()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            # What came with the last piece and was not looked at yet; not from within the user's own call.
            self._read_on()

    # what the socket says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            _tune(sock, self._pace)
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        self._cutter.feed(data)
        if self._user is not None:
            if not self._is_reading_on and not self._read():
                self._user.on_part()
            return
        # A stranger's words are taken as they come, and the first that is no greeting ends it: nothing piles up.
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(None)

    def pause_writing(self) -> None:
        if self._user is not None:
            self._user.writable(False)

    def resume_writing(self) -> None:
        if self._user is not None:
            self._user.writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        while self._is_reading_on:  # answers that came before the end are answers
            self._read_more()
        if isinstance(error, ssl.SSLError):
            self._lost = WrongCertificate(f"TLS with the other node failed: {reason(error)}")
        else:
            self._lost = HungUp(str(error or "the other side hung up"))
        self._transport = None
        self._out = bytearray()
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(None)
        if self._user is not None:
            self._user.on_lost(str(self._lost))
        self.lost.set_result(None)
        self._on_lost(self)

    # doing it

    def _flush(self) -> None:
        self._is_flushing = False
        out = self._out
        if out and self._transport is not None and not self._transport.is_closing():
            self._out = bytearray()  # a new one: the transport may keep this one until it is sent
            self._transport.write(out)

    def _read(self) -> bool:
        """Hand on what is there, up to a pass's worth; whether there was anything whole."""
        user, cutter, decoder = self._user, self._cutter, self._decoder
        if user is None or decoder is None or self._is_hung_up or self._lost is not None:
            return False
        is_whole = False
        try:
            for _ in range(MESSAGES_A_PASS):
                if self._is_paused or (body := cutter.next()) is None:
                    break
                is_whole = True
                user.on_message(decoder.decode(body))
            else:
                self._read_on()
        except (Malformed, msgspec.DecodeError, ValueError, RecursionError) as error:
            log.warning("hung up on node %s: %s", user.node, error, extra={"code": "link.malformed"})
            self.hang_up(at_once=True)
        return is_whole

    def _read_on(self) -> None:
        if not self._is_reading_on:
            self._is_reading_on = True
            self._loop.call_soon(self._read_more)

    def _read_more(self) -> None:
        self._is_reading_on = False
        self._read()


def _tune(sock: socket.socket, pace: Pace) -> None:
    """Let the kernel notice as well: what it has sent and nobody took, and connections on which nothing is said."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2 * pace.beat_ms * pace.beats_max)
