"""Layer 5. Several nodes in one world: each with a clock, a session with the store and a place in the network of its own."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.runtime.links import Links
from wakeful.runtime.node import Node
from wakeful.store import MemoryStore
from wakeful.store.protocol import Store
from wakeful.testing.faults import Faults, FaultyStore
from wakeful.testing.network import Network
from wakeful.testing.timewarp import ClockWatch, Timewarp
from wakeful.values.errors import Unavailable
from wakeful.values.times import Clock, Duration, Handle, duration_ms

if TYPE_CHECKING:
    from wakeful.app import App


# A node's own clock in a world: wrong, fast, slow, set by hand, or standing still with its process.


class DriftingClock:
    """The world's clock as one machine has it."""

    def __init__(self, warp: Timewarp, *, ahead_ms: int = 0, rate: float = 1.0) -> None:
        self._warp = warp
        self._rate = rate
        self._true_base = warp.now()
        self._own_base = warp.now() + ahead_ms
        self._set_by = 0
        self._watchers: list[Callable[[int], object]] = []
        self._frozen: list[_Call] | None = None  # what fell due while the process stood still

    def now(self) -> int:
        return self._own_base + int((self._warp.now() - self._true_base) * self._rate)

    def ticks(self) -> int:
        """Nanoseconds of the machine's other clock, which goes at the same rate and which nobody can set."""
        return (self.now() - self._set_by) * 1_000_000

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Handle:
        wait_ms = max(0.0, (at_ms - self.now()) / self._rate)
        call = _Call(self, callback)
        call.handle = self._warp.call_at(self._warp.now() + -int(-wait_ms // 1), call.run)
        return call

    async def sleep(self, length_ms: int) -> None:
        await self._warp.sleep(-int(-length_ms / self._rate // 1))

    def watch(self, stepped: Callable[[int], object]) -> Handle:
        self._watchers.append(stepped)
        return ClockWatch(self._watchers, stepped)

    # what a test does to it

    def drift(self, rate: float) -> None:
        """From now on it goes at that rate: 1.01 gains ten milliseconds a second."""
        self._own_base, self._true_base, self._rate = self.now(), self._warp.now(), rate

    def step(self, by_ms: int) -> None:
        """Somebody sets it."""
        self._own_base += by_ms
        self._set_by += by_ms
        for stepped in list(self._watchers):
            stepped(by_ms)

    def freeze(self) -> None:
        """The process stands still: nothing that waits for time runs until `thaw`. Time goes on."""
        self._frozen = []

    def thaw(self) -> None:
        due, self._frozen = self._frozen or [], None
        for call in due:
            call.run()

    def hold(self, call: "_Call") -> bool:
        if self._frozen is not None:
            self._frozen.append(call)
        return self._frozen is not None


class _Call:
    def __init__(self, clock: DriftingClock, callback: Callable[[], object]) -> None:
        self._clock = clock
        self._callback = callback
        self._is_off = False
        self.handle: Handle | None = None

    def cancel(self) -> None:
        self._is_off = True
        if self.handle is not None:
            self.handle.cancel()

    def run(self) -> None:
        if not self._is_off and not self._clock.hold(self):
            self._callback()


class Ground(Protocol):
    """What the nodes of a world need of it: its app, its time, its network and its disk."""

    app: "App"
    network: Network

    @property
    def warp(self) -> Timewarp: ...

    def make_node(
        self, name: str, store: Store, clock: Clock, *, links: Links | None = None, address: str = ""
    ) -> Node: ...

    def open_disk(self, *, shared: bool) -> Store: ...

    def keyed(self, store: Store) -> Store: ...

    def choose_door(self) -> None: ...

    async def catch_up(self) -> None: ...


class Member:
    """One of the machines of a world, through all lives of its process."""

    def __init__(self, ground: Ground, number: int) -> None:
        self._ground = ground
        self.number = number
        self.clock = DriftingClock(ground.warp)
        self.faults = Faults()
        self.node: Node | None = None
        self._store: FaultyStore | None = None
        self._links: Links | None = None
        self._lives = 0

    @property
    def name(self) -> str:
        """Of its process as it lives now, or lived last."""
        return f"node-{self.number}.{self._lives}"

    @property
    def is_up(self) -> bool:
        return self.node is not None

    async def start(self) -> None:
        """Begin a life."""
        ground = self._ground
        await self._bury()
        self._lives += 1
        inner = ground.open_disk(shared=True)
        self._store = FaultyStore(inner, self.faults, ground.warp)
        self._store.told = ground.catch_up
        # A real database's clock knows nothing of the world's time, so only the memory store's is followed.
        clock: Clock = FollowedClock(self.clock) if isinstance(inner, MemoryStore) else self.clock
        self._links = Links(ground.network.transport(self.name))
        self.node = node = ground.make_node(self.name, self._store, clock, links=self._links)
        node.address = await self._links.serve(node.routes)
        ground.app.deployment.equip(node)
        try:
            await node.start()
        except BaseException:
            self.node = None
            await self._links.close()
            raise
        ground.choose_door()
        await ground.app.deployment.started(node)

    async def stop(self) -> None:
        """End it cleanly."""
        if self.node is not None:
            await self._ground.app.deployment.stopping(self.node)
        node, self.node = self.node, None
        if node is not None:
            self._ground.choose_door()
            await node.stop()
        await self._bury()
        if self._links is not None:
            self._links.leave("the node has stopped")
            await self._links.close()

    def kill(self) -> None:
        """The process dies here and now, as by `kill -9`."""
        node, self.node = self.node, None
        if node is not None and self._store is not None:
            self.thaw()
            self._store.cut()
            self._ground.network.kill(self.name)
            self._ground.choose_door()
            node.kill()

    async def catch_up(self) -> None:
        """Wait for the hints that a real server has sent it."""
        heard = getattr(self._store and self._store.inner, "catch_up", None)
        if heard is not None:
            with suppress(Unavailable):
                await heard()

    async def _bury(self) -> None:
        """Close what a killed process had open, as its operating system would."""
        if self._store is not None and self._store.is_cut:
            store, self._store = self._store, None
            await store.close()

    async def crash(self) -> None:
        self.kill()
        await self._ground.warp.sleep(0)

    async def restart(self, after: Duration | None = None) -> None:
        """Come back that much later; a process that still runs is stopped cleanly first."""
        await self.stop()
        if after is not None:
            await self._ground.warp.sleep(duration_ms(after))
        if self._store is not None:
            await self._store.close()
        await self.start()

    def cut_off(self) -> None:
        """It can't reach the store any more, but it can reach the other nodes."""
        self.faults.is_down = True

    def reconnect(self) -> None:
        self.faults.is_down = False

    def stall(self) -> None:
        """Its store takes what it is asked and answers nothing, until `go_on`."""
        self.faults.gate = asyncio.Event()

    def go_on(self) -> None:
        """Its store answers again, first of all what it was asked meanwhile."""
        gate, self.faults.gate = self.faults.gate, None
        if gate is not None:
            gate.set()

    def freeze(self) -> None:
        """Its process stands still (SIGSTOP): no timer of it runs, nothing goes in or out. The world goes on."""
        self.clock.freeze()
        self.faults.gate = asyncio.Event()
        self._ground.network.cut(self.name)

    def thaw(self) -> None:
        """It goes on as if nothing had happened."""
        if self.faults.gate is None:
            return
        gate, self.faults.gate = self.faults.gate, None
        gate.set()
        self._ground.network.heal(self.name)
        self.clock.thaw()
