"""Layer 5. How does a process of the program come up and go down: its stores, their nodes, its links to others?"""

import asyncio
import logging
import os
import platform
import secrets
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from wakeful.deployment import Deployment, Place
from wakeful.policy.lease import Lease, lease_of
from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.runtime.homes import Homes
from wakeful.runtime.links import Links
from wakeful.runtime.node import Node
from wakeful.security.refusals import TurnedAway
from wakeful.store.protocol import Store
from wakeful.system import Keys, SteadyClock, SystemClock, SystemDice, open_store
from wakeful.transport.control import ControlServer
from wakeful.transport.pulse import Pace
from wakeful.transport.tcp import SocketTransport
from wakeful.values.errors import BadOption
from wakeful.values.times import Duration

if TYPE_CHECKING:
    from wakeful.runtime.spread import ClassSpread
    from wakeful.transport.tls import Tls

log = logging.getLogger("wakeful.node")

SLOW_START_S = 5.0
SLOW_START = (
    "the store has not let this node in for %.0f s: it is slow or does not answer, it is a bucket of which much has to be "
    "read, or something holds a lock in it, as `wakeful move` does until it is done; it goes on by itself, and "
    "`wakeful doctor` says who holds what"
)
OWN_MACHINE = "unix:"  # a socket for this user's processes on this machine


class Joining(NamedTuple):
    """How a process is one of a cluster."""

    listen: str = OWN_MACHINE
    advertise: str | None = None
    cluster: str = ""
    secret: str | None = None
    tls: "Tls | None" = None
    lease: Duration | None = None  # None: as is usual on the store

    def lease_on(self, store: Store) -> Lease:
        return lease_of(self.lease, store.rhythm)


@asynccontextmanager
async def running(
    program: Deployment,
    url: str | Store,
    joining: Joining,
    *,
    paranoid: bool = False,
    is_client: bool = False,
) -> AsyncIterator[Node]:
    """The node of the main store, with those of the others beside it; stopped in an order that loses nothing."""
    main = open_store(url, program.keys)
    others = _open_all(program.places, main, program.keys)
    several: dict[str, dict[str, Store]] = {}
    if any(isinstance(kept, Mapping) for kept in program.places.values()):
        from wakeful.spread_servers import join_servers, open_servers

        several = open_servers(program.places, [main, *others.values()], program.keys)
    stores = [main, *others.values(), *(store for servers in several.values() for store in servers.values())]
    _check(stores, joining, is_client=is_client)
    name = uuid.uuid4().hex[:12]
    async with AsyncExitStack() as stack:
        links = None
        if any(store.shared for store in stores):
            links = _links(name, joining, stores, turned_away := TurnedAway())
            stack.push_async_callback(links.close)
            stack.callback(links.leave, "the process is stopping")
        nodes = {
            id(store): _node(program, name, store, joining, links, paranoid=paranoid, is_client=is_client)
            for store in stores
        }
        node = nodes[id(main)]
        if links is not None:
            turned_away.node = node
        spreads: dict[str, ClassSpread[Node]] = {}
        for cls, servers in several.items():
            own = {server: nodes[id(store)] for server, store in servers.items()}
            spreads[cls] = await join_servers(cls, servers, own, new_id=lambda: uuid.uuid4().hex, is_client=is_client)
        homes = Homes(node, {place: nodes[id(store)] for place, store in others.items()}, spreads)
        address = await links.serve(homes) if links is not None and not is_client else ""
        if not is_client:
            control = ControlServer(node)
            await control.listen()
            stack.push_async_callback(control.close)
        for home in homes.all:
            if len(homes.all) > 1:
                home.homes, home.events = homes, node.events
            home.address = address or node.address
            home.membership.asks_back = not is_client
            program.equip(home)
            with _said_when_slow():
                await home.start()
            stack.push_async_callback(home.stop)
        program.attach(node)
        stack.callback(program.detach, node)
        if not is_client:
            await program.started(node)
        stack.push_async_callback(program.stopping, node)
        yield node


class OpenRun:
    """What runs without a block around it, in a task of its own.

    A loop that ends while it runs (a script that raised, a prompt that was left) cancels its tasks: so this is heard, and
    ends as well as by `end`. What only an open generator held would be closed from both its ends at once.
    """

    def __init__(self, runs: AbstractAsyncContextManager[Node]) -> None:
        self.loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[Node] = self.loop.create_future()
        self._is_to_end = asyncio.Event()
        self._task = self.loop.create_task(self._run(runs), name="wakeful open run")

    async def begin(self) -> Node:
        """The node, once it runs; or what kept it from that."""
        try:
            await asyncio.wait([self._begun, self._task], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # nobody has it, so nobody could end it
            await self.end()
            raise
        return self._begun.result() if self._begun.done() else self._task.result()

    async def end(self) -> None:
        """Stop it, and wait until it has."""
        self._is_to_end.set()
        if not self._begun.done():
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _run(self, runs: AbstractAsyncContextManager[Node]) -> Node:
        async with runs as node:
            self._begun.set_result(node)
            await self._is_to_end.wait()
        return node


@contextmanager
def _said_when_slow() -> Iterator[None]:
    """A store that keeps a node waiting is said while it does."""

    def say() -> None:
        log.warning(SLOW_START, SLOW_START_S, extra={"code": "store.start"})

    said = asyncio.get_running_loop().call_later(SLOW_START_S, say)
    try:
        yield
    finally:
        said.cancel()


def _open_all(places: Mapping[str, Place], main: Store, keys: Keys | None) -> dict[str, Store]:
    """The stores of some places; those with one URL share one, also with the main store."""
    known: dict[str, Store] = {main.url: main}
    opened: dict[str, Store] = {}
    for place, url in places.items():
        if isinstance(url, Mapping):
            continue
        store = open_store(url, keys)
        opened[place] = known.setdefault(store.url, store) if isinstance(url, str) else store
    return opened


def check_joining(store: Store, joining: Joining) -> None:
    """What `running` would raise of these options before it begins anything."""
    _check([store], joining, is_client=False)
    if store.shared:
        _links("", joining, [store], TurnedAway())


def _check(stores: list[Store], joining: Joining, *, is_client: bool) -> None:
    joining.lease_on(stores[0])  # or it says why not
    alone = next((store for store in stores if not store.shared), None)
    if alone is None:
        return
    if is_client:
        raise BadOption(
            f"{alone.url} belongs to one process, so nobody else can connect to it; run the app, or use postgresql://…",
            code="store.connect",
        )
    if len(stores) == 1 and joining.lease is not None:
        raise BadOption(
            f"{alone.url} belongs to one process, so nobody waits for a lease of it; leave lease out, or use postgresql://…",
            code="lease.store",
        )
    if len(stores) == 1 and joining != Joining(cluster=joining.cluster):
        raise BadOption(
            f"{alone.url} belongs to one process, so there are no other nodes to listen for; use postgresql://…",
            code="address.store",
        )


def _links(name: str, joining: Joining, stores: Sequence[Store], turned_away: TurnedAway) -> Links:
    transport = SocketTransport(
        node=name,
        cluster=joining.cluster,
        listen=joining.listen,
        advertise=joining.advertise,
        secret=joining.secret,
        tls=joining.tls,
        pace=Pace(beats_max=min(joining.lease_on(store).beats for store in stores if store.shared)),
        entropy=secrets.token_bytes,
    )
    transport.on_refused = turned_away
    return Links(transport)


def _node(
    program: Deployment,
    name: str,
    store: Store,
    joining: Joining,
    links: Links | None,
    *,
    paranoid: bool,
    is_client: bool,
) -> Node:
    return Node(
        name=name,
        registry=program.registry,
        store=store,
        clock=FollowedClock(SteadyClock()) if store.keeps_time else SystemClock(),
        dice=SystemDice(),
        limits=program.limits,
        idle_ms=program.idle_ms,
        # No arguments: they may hold a password.
        about=f"{platform.node()} pid {os.getpid()} {os.path.basename(sys.argv[0])}",
        sleep_after_turn=paranoid,
        is_client=is_client,
        cluster=joining.cluster,
        lease=joining.lease_on(store),
        links=links if store.shared else None,
        ticks=time.perf_counter_ns,
    )
