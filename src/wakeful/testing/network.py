"""Layer 5. How do the nodes of one world reach each other, and how is that taken from them?

The links are the real ones and so are the bytes of every message; only the wire is in memory and
moves on the loop's time. A cut holds what is under way, as a network does that drops packets:
either it heals soon, or the ends notice the silence and give the link up.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from wakeful.transport.frames import Malformed, put_frame
from wakeful.transport.link_client import LinkClient
from wakeful.transport.link_server import WINDOW, Answerer
from wakeful.transport.protocol import Handler, Homeward, Link, Outward
from wakeful.transport.pulse import Pace
from wakeful.values.errors import AddressInUse, BadAddress, LinkLost, WrongNode

SCHEME = "memory:"
CONNECT_TIMEOUT_MS = 3_000
LAST_WORDS_S = 1.0
# Idle links don't beat here: a world that waits for a year has better things to do.
PACE = Pace(when_idle=False)

_PREFIX = 4
_outward: msgspec.msgpack.Decoder[Outward] = msgspec.msgpack.Decoder(Outward)
_homeward: msgspec.msgpack.Decoder[Homeward] = msgspec.msgpack.Decoder(Homeward)


class Network:
    """Shared by the nodes of a world. `delay_ms(from_node, to_node)` is how long each message takes; at once without."""

    def __init__(
        self, *, delay_ms: Callable[[str, str], int] | None = None, pace: Pace = PACE, window: int = WINDOW
    ) -> None:
        self.pace = pace
        self.window = window
        self._delay_ms = delay_ms
        self._nodes: dict[str, NetworkTransport] = {}
        self._ends: dict[_End, None] = {}  # in the order in which they were made, so that every run is the same
        self._cuts: set[frozenset[str]] = set()
        self._apart: set[str] = set()

    def slow(self, delay_ms: Callable[[str, str], int] | None) -> None:
        """From now on messages take so long; None: no time at all."""
        self._delay_ms = delay_ms

    def transport(self, node: str) -> "NetworkTransport":
        """A transport for one life of the node of that name."""
        return NetworkTransport(self, node)

    # breaking

    def cut(self, node: str, other: str | None = None) -> None:
        """No message passes between the two from now on; without `other`, between the node and anybody."""
        if other is None:
            self._apart.add(node)
        else:
            self._cuts.add(frozenset((node, other)))

    def heal(self, node: str | None = None, other: str | None = None) -> None:
        """Undo that cut; all cuts of one node, or all there are, when less is named."""
        if node is None:
            self._cuts.clear()
            self._apart.clear()
        elif other is None:
            self._cuts = {pair for pair in self._cuts if node not in pair}
            self._apart.discard(node)
        else:
            self._cuts.discard(frozenset((node, other)))
        for end in list(self._ends):
            end.pump()

    def kill(self, node: str) -> None:
        """The process of the node dies: who waits for it gets `LinkLost`, at once unless a cut hides it."""
        transport = self._nodes.pop(node, None)
        if transport is not None:
            transport.is_dead = True
        for end in [end for end in self._ends if end.node == node]:
            end.die("the process died")

    def is_cut(self, node: str, other: str) -> bool:
        """Nothing passes between the two now."""
        if node == other:
            return False
        return node in self._apart or other in self._apart or frozenset((node, other)) in self._cuts

    # for the transports

    def enter(self, transport: "NetworkTransport") -> None:
        if transport.node in self._nodes:
            raise AddressInUse(f"there is a node {transport.node} in this network already; give it another name")
        self._nodes[transport.node] = transport

    def leave(self, transport: "NetworkTransport") -> None:
        if self._nodes.get(transport.node) is transport:
            del self._nodes[transport.node]

    def find(self, node: str) -> "NetworkTransport | None":
        return self._nodes.get(node)

    def delay_s(self, node: str, other: str) -> float:
        return 0.0 if self._delay_ms is None or node == other else self._delay_ms(node, other) / 1000

    def add(self, end: "_End") -> None:
        self._ends[end] = None

    def remove(self, end: "_End") -> None:
        self._ends.pop(end, None)


class NetworkTransport:
    """One node's access to the network: a `Transport`."""

    def __init__(self, network: Network, node: str) -> None:
        self.network = network
        self.node = node
        self.is_dead = False
        self._is_leaving = False
        self._all_gone = asyncio.Event()  # who had links to this node
        self.handler: Handler | None = None
        self._answerers: list[Answerer] = []
        self._callers: list[LinkClient] = []

    async def serve(self, handler: Handler) -> str:
        self.network.enter(self)
        self.handler = handler
        return f"{SCHEME}{self.node}"

    async def connect(self, address: str, *, expect_node: str | None = None) -> Link:
        if not address.startswith(SCHEME):
            raise BadAddress(f"{address!r} is no address of this network; they look like {SCHEME}node-1")
        name = address.removeprefix(SCHEME)
        loop = asyncio.get_running_loop()
        if self.network.is_cut(self.node, name):
            await asyncio.sleep(CONNECT_TIMEOUT_MS / 1000)
        else:
            await asyncio.sleep(self.network.delay_s(self.node, name))
        other = self.network.find(name)
        if self.is_dead or other is None or other.handler is None or self.network.is_cut(self.node, name):
            raise LinkLost(f"nobody answers at {address}; try again", was_sent=False, code="link.connect")
        if expect_node is not None and name != expect_node:
            raise WrongNode(f"node {name} answers at {address}, not {expect_node}; try again")
        return self._join(other, loop)

    def leave(self, because: str = "") -> None:
        self._is_leaving = True
        for answerer in self._answerers:
            answerer.leave(because)

    async def close(self) -> None:
        self.network.leave(self)
        self.handler = None
        # As over sockets: those who were told goodbye hang up themselves, so that no call is left to guess.
        if self._is_leaving and self._answerers:
            self._all_gone.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), LAST_WORDS_S)
        for caller in list(self._callers):
            await caller.close()
        for answerer in list(self._answerers):
            await answerer.close()

    def _join(self, other: "NetworkTransport", loop: asyncio.AbstractEventLoop) -> LinkClient:
        assert other.handler is not None
        network = self.network
        near = _End(network, self.node, other.node, _homeward, loop)
        far = _End(network, other.node, self.node, _outward, loop)
        near.other, far.other = far, near
        caller = LinkClient(near, node=other.node, window=network.window, pace=network.pace)
        answerer = Answerer(far, other.handler, node=self.node, pace=network.pace, window=network.window)
        near.user, far.user = caller, answerer
        self._callers.append(caller)
        other._answerers.append(answerer)
        near.on_lost = lambda: self._callers.remove(caller)
        far.on_lost = lambda: other._lose(answerer)
        return caller

    def _lose(self, answerer: Answerer) -> None:
        self._answerers.remove(answerer)
        if not self._answerers:
            self._all_gone.set()


class _End:
    """One end of a wire: what the other end sends waits here until it may pass."""

    other: "_End"
    user: LinkClient | Answerer

    def __init__(
        self,
        network: Network,
        node: str,
        peer: str,
        decoder: msgspec.msgpack.Decoder[Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.node = node
        self.on_lost: Callable[[], object] = lambda: None
        self._network = network
        self._peer = peer
        self._decoder = decoder
        self._loop = loop
        self._arriving: deque[tuple[float, bytes | None]] = deque()  # None: the other end hung up
        self._last_at = 0.0
        self._handle: asyncio.Handle | None = None
        self._is_paused = False
        self._is_ended = False
        network.add(self)

    # the wire as its user sees it

    def send(self, message: Any) -> None:
        out = bytearray()
        put_frame(out, message)
        if not self._is_ended:
            self.other.post(bytes(out[_PREFIX:]))

    def hang_up(self, *, at_once: bool = False) -> None:
        self._end("it was closed here", is_told=True)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self.pump()

    # on the way

    def post(self, data: bytes | None) -> None:
        """The other end sent this."""
        if self._is_ended:
            return
        at = self._loop.time() + self._network.delay_s(self._peer, self.node)
        self._last_at = at = max(at, self._last_at)  # a wire keeps the order
        self._arriving.append((at, data))
        self.pump()

    def pump(self) -> None:
        """See to it that what may arrive does."""
        if self._handle is None and self._arriving and not self._is_ended and not self._is_held():
            at = self._arriving[0][0]
            is_due = at <= self._loop.time()
            self._handle = self._loop.call_soon(self._arrive) if is_due else self._loop.call_at(at, self._arrive)

    def die(self, because: str) -> None:
        """Its process is gone."""
        self._end(because, is_told=True)

    def _is_held(self) -> bool:
        return self._is_paused or self._network.is_cut(self.node, self._peer)

    def _arrive(self) -> None:
        self._handle = None
        now = self._loop.time() + 1e-6
        while self._arriving and self._arriving[0][0] <= now and not self._is_ended and not self._is_held():
            _, data = self._arriving.popleft()
            if data is None:
                self._end("the other side hung up", is_told=False)
                return
            try:
                self.user.on_message(self._decoder.decode(data))
            except Malformed as error:
                self._end(f"it makes no sense: {error}", is_told=True)
        self.pump()

    def _end(self, because: str, *, is_told: bool) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        if self._handle is not None:
            self._handle.cancel()
        self._network.remove(self)
        if is_told:
            self.other.post(None)
        self.user.on_lost(because)
        self.on_lost()
