"""Layer 2. How do nodes on real machines reach each other: by TCP, by TLS, or by a Unix socket on one machine?"""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from wakeful.transport import addresses, handshake
from wakeful.transport.addresses import Address, derive, parse
from wakeful.transport.frames import Malformed
from wakeful.transport.handshake import NONCE_BYTES, Identity, check_secret
from wakeful.transport.link_client import LinkClient
from wakeful.transport.link_server import ARGUMENTS_BYTES_MAX, WINDOW, Answerer
from wakeful.transport.protocol import Handler, Homeward, Outward
from wakeful.transport.pulse import Pace
from wakeful.transport.tls import Tls, reason
from wakeful.transport.wire import HungUp, SocketWire
from wakeful.values.errors import (
    AddressInUse,
    BadAddress,
    ClusterError,
    LinkLost,
    NoSecret,
    Unavailable,
    Unreachable,
    WakefulError,
    WrongCertificate,
)

# Whose connection goes, when more are here that have not proved who they are than there is room for?
#
# Never the newcomer's: a member proves itself within milliseconds, so it is the silent who have been here longest that make
# room, of the address that has most. Whoever wants to keep members out has to be quicker than they are, again and again.


class Connection(Protocol):
    """One that may say who it is."""

    @property
    def has_spoken(self) -> bool:
        """A whole frame of its greeting has come."""
        ...


C = TypeVar("C", bound=Connection)

_NETWORK_BITS = 64  # of IPv6: what one customer of a provider has


class Strangers(Generic[C]):
    """Connections that are not known yet, the oldest first: at most so many, and so many of one place."""

    def __init__(self, most: int, *, of_one: int) -> None:
        self._most = most
        self._of_one = of_one
        self._places: dict[C, str] = {}

    def room_for(self, wire: C, place: str) -> C | None:
        """Take it in; the one that has to go for it, if there is no room."""
        counts: dict[str, int] = {}
        for known in self._places.values():
            counts[known] = counts.get(known, 0) + 1
        gone: C | None = None
        if counts.get(place, 0) >= self._of_one:
            gone = self._oldest(place)
        elif len(self._places) >= self._most:
            gone = self._oldest(max(counts, key=lambda known: counts[known]) if max(counts.values()) > 1 else None)
        if gone is not None:
            del self._places[gone]
        self._places[wire] = place
        return gone

    def leave(self, wire: C) -> None:
        """It has said who it is, or is gone."""
        self._places.pop(wire, None)

    def _oldest(self, place: str | None) -> C:
        """Of that place, or of all: the one that has been silent for longest, else the one that has been here for longest."""
        found = [wire for wire, known in self._places.items() if place is None or known == place]
        return next((wire for wire in found if not wire.has_spoken), found[0])


def place_of(host: str) -> str:
    """The address, or the network of it where one party has as many addresses as it likes."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, _NETWORK_BITS), strict=False))
    return host


log = logging.getLogger("wakeful.links")

_outward: msgspec.msgpack.Decoder[Outward] = msgspec.msgpack.Decoder(Outward)
_homeward: msgspec.msgpack.Decoder[Homeward] = msgspec.msgpack.Decoder(Homeward)

# How long the last answers may take to leave when a node closes.
LAST_WORDS_S = 1.0
# A pod of a StatefulSet is in DNS a little later than it starts, and that it is not may be remembered for half a minute.
NAME_S = 60.0
NAME_AGAIN_S = 1.0


class Bounds(NamedTuple):
    """What one node takes from the others."""

    window: int = WINDOW  # calls of one link that run at once
    arguments_bytes: int = ARGUMENTS_BYTES_MAX  # of those calls together
    strangers: int = 64  # connections at once that have not proved yet who they are
    of_one: int = 32  # of these, of one address: many nodes of one machine may come at once
    greeting_ms: int = 3_000  # for connecting and proving


class SocketTransport:
    """One node's links: a `Transport`.

    `listen` is `HOST:PORT`, `unix:/PATH`, or `unix:` for a socket in this user's own folder. `advertise`
    is what the others dial where that is not the same. `entropy(n)` gives n bytes that nobody can guess.
    """

    def __init__(
        self,
        *,
        node: str,
        cluster: str,
        listen: str,
        entropy: Callable[[int], bytes],
        advertise: str | None = None,
        secret: str | None = None,
        tls: Tls | None = None,
        pace: Pace = Pace(),  # noqa: B008
        bounds: Bounds = Bounds(),  # noqa: B008
    ) -> None:
        self._me = Identity(node, cluster, check_secret(secret))
        self._listen = parse(listen, is_listening=True)
        if not self._listen.is_loopback:
            self._check_secret(self._listen)
        self._advertise = None if advertise is None else _check_dialled(parse(advertise))
        self._entropy = entropy
        self._pace = pace
        self._bounds = bounds
        self._dialling = None if tls is None else tls.dialling()
        self._listening = None if tls is None else tls.listening()
        self._handler: Handler | None = None
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._greetings: dict[SocketWire, asyncio.Task[None]] = {}
        self._strangers: Strangers[SocketWire] = Strangers(bounds.strangers, of_one=bounds.of_one)
        self._answerers: dict[SocketWire, Answerer] = {}
        self._callers: dict[SocketWire, LinkClient] = {}
        self._leaving_because: str | None = None
        self.refused: Counter[str] = Counter()  # connections that were turned away, by the code of the reason
        self.on_refused: Callable[[str, str, str], object] | None = None  # told of each: peer, code, why

    # being reached

    async def serve(self, handler: Handler) -> str:
        self._handler = handler
        try:
            if self._listen.is_unix:
                return str(await self._serve_unix(self._listen))
            bound = await self._serve_tcp(self._listen)
            others = self._others(bound)
            await self._check_reachable(others)
            return str(others)
        except BaseException:
            await self.close()
            raise

    async def _serve_unix(self, address: Address) -> Address:
        if not hasattr(socket, "AF_UNIX"):
            raise BadAddress(f"this machine has no Unix sockets; listen on HOST:PORT instead of {address}")
        if address.path:
            path = Path(address.path)
            try:
                sock = addresses.bind_path(path)
            except OSError as error:
                raise _cannot_listen(address, error) from None
        else:
            sock, path = addresses.bind(f"{self._me.node}.links")
        self._path = path
        self._server = await asyncio.get_running_loop().create_unix_server(self._accepting, sock=sock)
        return Address(path=str(path))

    async def _serve_tcp(self, address: Address) -> Address:
        loop = asyncio.get_running_loop()
        timeout = self._bounds.greeting_ms / 1000 if self._listening is not None else None
        try:
            self._server = await loop.create_server(
                self._accepting,
                address.host,
                address.port,
                ssl=self._listening,
                ssl_handshake_timeout=timeout,
                backlog=128,
            )
        except socket.gaierror as error:
            raise BadAddress(f"{address}: the host has no address here ({error.strerror})") from None
        except OSError as error:
            raise _cannot_listen(address, error) from None
        return address._replace(port=self._server.sockets[0].getsockname()[1])

    def _others(self, bound: Address) -> Address:
        """What the others are given."""
        if self._advertise is not None:
            return self._advertise
        return _check_dialled(derive(bound) if bound.is_wildcard else bound)

    async def _check_reachable(self, address: Address) -> None:
        """Dial the address as the others will, and find this very node; a name has a minute to lead here."""
        loop = asyncio.get_running_loop()
        until, is_said = loop.time() + (NAME_S if address.is_named else 0.0), False
        while True:
            try:
                link = await self.connect(str(address), expect_node=self._me.node)
            except WrongCertificate:
                raise  # this node's own, by its own authority: nobody else will trust it either
            except (Unavailable, ClusterError) as error:
                why = error.message.removesuffix("; try again")
                if loop.time() >= until:
                    raise Unreachable(
                        f"{address} is what other nodes are given, and it does not lead to this one: {why}; "
                        "give the address they reach it by with --advertise HOST:PORT"
                    ) from error
                if not is_said:
                    words = "%s is what other nodes are given, and does not lead to this one yet: %s; tried again for %.0f s"
                    log.warning(words, address, why, NAME_S, extra={"code": "link.name"})
                    is_said = True
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), NAME_AGAIN_S)
            else:
                await link.close()
                return

    def _accepting(self) -> SocketWire:
        return SocketWire(self._pace, on_made=self._on_made, on_lost=self._forget)

    def _on_made(self, wire: SocketWire) -> None:
        if self._handler is None:
            wire.hang_up(at_once=True)
            return
        task = asyncio.get_running_loop().create_task(self._greet(wire, self._handler))
        self._greetings[wire] = task
        task.add_done_callback(lambda _: self._on_greeted(wire))
        gone = self._strangers.room_for(wire, place_of(wire.host))
        if gone is not None:
            self.refused["link.strangers"] += 1
            self._greetings[gone].cancel()
            gone.hang_up(at_once=True)

    def _on_greeted(self, wire: SocketWire) -> None:
        self._greetings.pop(wire, None)
        self._strangers.leave(wire)

    async def _greet(self, wire: SocketWire, handler: Handler) -> None:
        bounds = self._bounds
        try:
            async with asyncio.timeout(bounds.greeting_ms / 1000):
                hello = await handshake.accept(wire, self._me, nonce=self._entropy(NONCE_BYTES), window=bounds.window)
        except TimeoutError:
            self._turned_away(wire, "link.slow", "it did not say who it is in time")
        except HungUp as error:
            if wire.has_spoken:
                self._gave_up(wire)
            else:
                self._turned_away(wire, "link.stranger", str(error))
        except Malformed as error:
            self._turned_away(wire, "link.stranger", str(error))
        except WakefulError as error:
            self._turned_away(wire, error.code, error.message)
        else:
            answerer = Answerer(
                wire,
                handler,
                node=hello.node,
                pace=self._pace,
                window=bounds.window,
                bytes_max=bounds.arguments_bytes,
            )
            self._answerers[wire] = answerer
            wire.begin(answerer, _outward)
            if self._leaving_because is not None:
                answerer.leave(self._leaving_because)

    def _turned_away(self, wire: SocketWire, code: str, because: str) -> None:
        self.refused[code] += 1
        log.warning("turned %s away: %s", wire.peer, because, extra={"code": code})
        if self.on_refused is not None:
            self.on_refused(wire.peer, code, because)
        wire.hang_up()

    def _gave_up(self, wire: SocketWire) -> None:
        """It said a proper hello and did not wait for more: this process was frozen, or slow. No stranger does that."""
        self.refused["link.gone"] += 1
        log.info("%s said hello and hung up before it was answered", wire.peer, extra={"code": "link.gone"})
        wire.hang_up()

    def _forget(self, wire: SocketWire) -> None:
        self._answerers.pop(wire, None)
        self._callers.pop(wire, None)

    # reaching others

    async def connect(self, address: str, *, expect_node: str | None = None) -> LinkClient:
        to = parse(address)
        if not to.is_loopback:
            self._check_secret(to)
        wire = SocketWire(self._pace, on_lost=self._forget)
        is_open = False
        try:
            async with asyncio.timeout(self._bounds.greeting_ms / 1000):
                await self._open(wire, to)
                is_open = True
                met = await handshake.dial(
                    wire, self._me, nonce=self._entropy(NONCE_BYTES), expects=expect_node, address=str(to)
                )
        except BaseException as error:
            wire.hang_up()
            if is_open and isinstance(error, TimeoutError):
                late = f"somebody listens at {to}, and did not say who it is in time; try again"
                raise LinkLost(late, was_sent=False, code="link.late") from None
            raise _not_linked(to, error, is_tls=self._dialling is not None) from None
        caller = LinkClient(wire, node=met.node, window=met.window, pace=self._pace)
        self._callers[wire] = caller
        wire.begin(caller, _homeward)
        return caller

    async def _open(self, wire: SocketWire, to: Address) -> None:
        loop = asyncio.get_running_loop()
        if to.is_unix:
            await loop.create_unix_connection(lambda: wire, to.path)
        else:
            await loop.create_connection(
                lambda: wire,
                to.host,
                to.port,
                ssl=self._dialling,
                server_hostname=to.host if self._dialling is not None else None,
            )

    def _check_secret(self, address: Address) -> None:
        if self._me.secret is None:
            raise NoSecret(
                f"{address} can be reached from other machines and there is no cluster secret; set WAKEFUL_SECRET, the "
                "same on all nodes (for example from `openssl rand -hex 32`), or use 127.0.0.1"
            )

    # ending

    def leave(self, because: str = "") -> None:
        self._leaving_because = because or "it is stopping"
        for answerer in self._answerers.values():
            answerer.leave(because)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self._handler = None
        if self._leaving_because is not None:
            await _last_words(self._answerers)
        wires = [*self._greetings, *self._callers, *self._answerers]
        for wire, task in list(self._greetings.items()):
            task.cancel()
            wire.hang_up(at_once=True)
        for caller in list(self._callers.values()):
            await caller.close()
        for answerer in list(self._answerers.values()):
            await answerer.close()
        await _end_all(wires)
        if server is not None:
            await server.wait_closed()
        path, self._path = self._path, None
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


async def _last_words(wires: Iterable[SocketWire]) -> None:
    """Those who were told goodbye hang up when they have their answers, or the word that a call did not begin here.

    To hang up on them first would leave them to guess about calls that crossed the goodbye.
    """
    waiting = [wire.lost for wire in wires if not wire.lost.done()]
    if waiting:
        await asyncio.wait(waiting, timeout=LAST_WORDS_S)


async def _end_all(wires: list[SocketWire]) -> None:
    """All of them gone: with their last words where the other side takes them soon."""
    waiting = [wire.lost for wire in wires if not wire.lost.done()]
    if waiting:
        await asyncio.wait(waiting, timeout=LAST_WORDS_S)
    for wire in wires:
        wire.hang_up(at_once=True)
    waiting = [wire.lost for wire in wires if not wire.lost.done()]
    if waiting:
        await asyncio.wait(waiting)


def _check_dialled(address: Address) -> Address:
    """The address, if others can dial it."""
    if address.is_wildcard or address.is_unix:
        raise BadAddress(
            f"others can't dial {address}; give the address they reach this machine by with --advertise HOST:PORT",
            code="address.advertise",
        )
    return address


def _cannot_listen(address: Address, error: OSError) -> ClusterError:
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(f"something listens on {address} already; stop it, or choose another with --listen")
    if error.errno == errno.EADDRNOTAVAIL:
        return BadAddress(f"{address} is not an address of this machine; listen on one of its own, or on 0.0.0.0")
    if error.errno == errno.EACCES:
        return BadAddress(f"this user may not listen on {address}; choose another, a port above 1023")
    return BadAddress(f"can't listen on {address}: {os.strerror(error.errno) if error.errno else error}")


def _not_linked(to: Address, error: BaseException, *, is_tls: bool) -> BaseException:
    """The error that `connect` raises for what happened."""
    if isinstance(error, ssl.SSLError):
        return WrongCertificate(
            f"TLS with the node at {to} failed: {reason(error)}; the certificates of all nodes must be "
            "signed by the authority that --tls-ca names"
        )
    if isinstance(error, TimeoutError):
        because = "no answer in time"
    elif isinstance(error, socket.gaierror):
        because = f"the name {to.host} has no address here, {error.strerror}: is it in DNS?"
    elif isinstance(error, HungUp) and is_tls:
        # It may as well have been stopped just then, so this can't be `WrongCertificate`.
        because = "it hung up, as it does on a certificate that its authority has not signed"
    elif isinstance(error, FileNotFoundError) and to.is_unix:
        why = (
            f"{to} is no socket of this machine: its process has ended, or is elsewhere and should listen on HOST:PORT"
        )
        return LinkLost(why, was_sent=False, code="link.elsewhere")
    elif isinstance(error, Malformed | HungUp | OSError):
        because = str(error) or "it hung up"
    else:
        return error
    return LinkLost(f"nobody answers at {to} ({because}); try again", was_sent=False, code="link.connect")
