"""Layer 5. A whole deployment in a test: virtual time, disks that outlive crashes, faults on request, one seed."""

import asyncio
import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from wakeful.notices.feature import NoticeFeature
from wakeful.policy.lease import lease_of
from wakeful.policy.limits import Limits
from wakeful.policy.spread import first_map
from wakeful.runtime.homes import Homes
from wakeful.runtime.links import Links
from wakeful.runtime.node import Node
from wakeful.runtime.spread import ClassSpread
from wakeful.store import Disk, MemoryStore, open_url
from wakeful.store.protocol import Query, Range, Store
from wakeful.store.sealed_store import beneath, with_keys
from wakeful.system import key_ring
from wakeful.testing.faults import Faults, FaultyStore
from wakeful.testing.members import Ground, Member
from wakeful.testing.network import PACE, Network
from wakeful.testing.patience import PATIENCE, Patience
from wakeful.testing.sockets import SocketClient
from wakeful.testing.timewarp import Timewarp
from wakeful.testing.webhooks import WebhookReceiver
from wakeful.values.codec import decode
from wakeful.values.commits import USER, Info
from wakeful.values.errors import BadOption, BadTime, NotRunning, UnknownClass
from wakeful.values.ids import SHARDS, ObjectId
from wakeful.values.timers import ALARM, Parked, Run, Timer
from wakeful.values.times import Clock, Duration, duration_ms, from_datetime, to_datetime

if TYPE_CHECKING:
    from wakeful.app import App


# The other stores of a program in a world (`App(stores=…)`): a disk and a node for each, with the main one's fate.


class Beside:
    """Always in memory, whatever the app's own stores are: a world touches nothing outside."""

    def __init__(self, ground: Ground, places: Mapping[str, object]) -> None:
        self._ground = ground
        # Of a class on several servers each has its slots as they are dealt at first: they stay where they are.
        self._servers = {
            place: {name: f"{place}:{name}" for name in kept}
            for place, kept in places.items()
            if isinstance(kept, Mapping)
        }
        several = [disk for servers in self._servers.values() for disk in servers.values()]
        names = [place for place in places if place not in self._servers] + several
        self._disks = {name: Disk() for name in names}
        self._nodes: dict[str, tuple[Node, FaultyStore]] = {}
        self._homes: Homes[Node] | None = None
        self.faults = {name: Faults() for name in names}

    async def start(self, main: Node) -> None:
        """A node for each of the stores, and calls between them all."""
        ground = self._ground
        for place, disk in self._disks.items():
            store = FaultyStore(MemoryStore(disk), self.faults[place], ground.warp)
            self._nodes[place] = (ground.make_node(main.name, store, ground.warp), store)
        plain = {place: node for place, (node, _) in self._nodes.items() if ":" not in place}
        self._homes = main.homes = Homes(main, plain, dict(map(self._spread, self._servers)))
        for node, _ in self._nodes.values():
            node.homes, node.events = self._homes, main.events
            ground.app.deployment.equip(node)
            await node.start()

    def _spread(self, cls: str) -> tuple[str, ClassSpread[Node]]:
        servers = {name: self._nodes[place][0] for name, place in self._servers[cls].items()}
        spread = ClassSpread(cls, servers, first_map(cls, list(servers)))
        for node in servers.values():
            node.spread = spread
        return cls, spread

    def kill(self) -> None:
        for node, store in self._nodes.values():
            store.cut()
            node.kill()
        self._nodes = {}

    async def stop(self) -> None:
        nodes, self._nodes = self._nodes, {}
        for node, _ in nodes.values():
            await node.stop()

    def stores(self) -> list[Store]:
        """As they are on disk, without the faults."""
        return [self._plain(disk) for disk in self._disks.values()]

    def store_of(self, id: ObjectId) -> Store | None:
        """The store that the object lives in; None when that is the main one."""
        if self._homes is None:
            return None
        home = self._homes.of(id)
        place = next((place for place, (node, _) in self._nodes.items() if node is home), None)
        return None if place is None else self._plain(self._disks[place])

    def _plain(self, disk: Disk) -> Store:
        store = MemoryStore(disk)
        store._open = True  # looking needs no opening: nobody else is told of it
        return self._ground.keyed(store)


T = TypeVar("T")

START = "2026-01-01T00:00:00+00:00"


class World:
    """`async with app.world() as world:` — time moves only when everything waits, or by `advance`.

    >>> from datetime import timedelta
    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Trial(DurableObject):
    ...     async def begin(self) -> None:
    ...         await self.storage.set_alarm(timedelta(days=14))
    ...     async def alarm(self) -> None:
    ...         await self.storage.put("ended", True)
    >>> async with app.world(start="2026-03-28T12:00Z") as world:
    ...     await world.get(Trial, "acme").begin()
    ...     await world.crash()
    ...     await world.restart(after="3h")
    ...     await world.advance(days=14)
    ...     print(await world.rows(Trial, "acme"), world.now().date())
    {'ended': True} 2026-04-11
    """

    def __init__(
        self,
        app: "App",
        *,
        start: str | datetime = START,
        store: str = "memory:",
        seed: int = 0,
        sleep_after_turn: bool = False,
        limits: Limits | None = None,
        nodes: int = 1,
        listens: bool = True,
        sees: bool = True,
        patience: Duration | None = PATIENCE,
        lease: Duration | None = None,
    ) -> None:
        """`nodes` makes it a cluster; `listens` and `sees` whether its store tells of changes and of dead nodes, `lease`
        for how long others believe in one that says nothing.

        A test that awaits the same thing for `patience` of the world's time fails; None lets it wait for ever.
        """
        self.app = app
        self.seed = seed
        self.faults = Faults()  # of a single node; in a cluster each member has its own
        self.lease = lease_of(lease)
        self.network = Network(pace=PACE._replace(beats_max=self.lease.beats))
        self.members: list[Member] = []
        self._count = _check_count(nodes)
        self._listens = listens
        self._sees = sees
        self._start_ms = _start_ms(start)
        self._url = store
        self._disk = Disk()
        self._dice = random.Random(seed)
        self._sleep_after_turn = sleep_after_turn
        self._limits = limits
        self._warp = Timewarp(self._start_ms, Patience(patience))
        self._store: FaultyStore | None = None
        self._node: Node | None = None
        self._lives = 0
        self._beside = Beside(self, app.deployment.places)
        self.webhooks = WebhookReceiver()  # nothing goes out

    async def __aenter__(self) -> "World":
        self._warp.install()
        for feature in self._notice_features:
            feature.subscriptions.sender = self.webhooks
        try:
            await (self._boot() if self._count == 1 else self.nodes(self._count))
        except BaseException:
            self._warp.remove()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            self.faults.is_down = False
            self.faults.on_probe = None
            await self._stop_members()
            await self._beside.stop()
            if self._node is not None:
                self.app.deployment.detach(self._node)
                await self._node.stop()
            elif self._store is not None:
                await self._store.close()
        finally:
            self._warp.remove()
            for feature in self._notice_features:
                feature.subscriptions.sender = None
        if exc[0] is not None:
            print(f"world seed: {self.seed}")
        found = self._warp.patience.found
        if found is not None and exc[0] is asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            raise found

    @property
    def _notice_features(self) -> list[NoticeFeature]:
        return [one for one in self.app.deployment.features if isinstance(one, NoticeFeature)]

    # looking

    @property
    def node(self) -> Node:
        """The running node; of several the first."""
        found = self._node or next((member.node for member in self.members if member.node is not None), None)
        if found is None:
            raise NotRunning("the world has crashed; call world.restart()")
        return found

    @property
    def store(self) -> Store:
        """The store without the faults, for looking at what is on disk."""
        stores = [self._store] if self._store is not None else [beneath(self.node.store)]
        if not isinstance(stores[0], FaultyStore):
            raise NotRunning("the world has not started")
        return self.keyed(FaultyStore(stores[0].inner, Faults(), self._warp))

    @property
    def warp(self) -> Timewarp:
        """The world's time itself."""
        return self._warp

    def now(self) -> datetime:
        """The world's time."""
        return to_datetime(self._warp.now())

    def get(self, cls: type[T], key: str, **options: Any) -> T:
        """A stub, as `app.get` gives it."""
        return self.app.get(cls, key, **options)

    async def connect(self, cls: type, key: str, *, member: Member | None = None, **request: Any) -> SocketClient:
        """A client's socket to that object, held by the first node or by that member; `query={…}`, `headers={…}`, `caller=…`."""
        node = self.node if member is None else member.node
        if node is None:
            raise NotRunning("that member is not up; start it first")
        client = SocketClient(node, ObjectId(self._name(cls), key), request)
        await client.connect()
        return client

    async def due(self, limit: int = 100) -> list[Timer]:
        """What fires next, in order."""
        stores = [self.store, *self._beside.stores()]
        found = [timer for store in stores for timer in await store.find_timers(Query(limit=limit))]
        return sorted(found, key=lambda timer: timer.sort_key)[:limit]

    async def ledger(self, cls: type, key: str, name: str | None = None, *, limit: int = 1000) -> list[Run]:
        """The object's newest runs, oldest first: all, or those of one timer, or of a schedule by its bare name."""
        names = [name]
        if name is not None and ":" not in name and name != ALARM:
            names.append(f"schedule:{name}")
        found: dict[int, Run] = {}
        for one in names:
            query = Query(cls=self._name(cls), key=key, name=one, limit=limit)
            entries = await self._store_of(cls, key).find_entries(query)
            found |= {number: Run.of(entry) for number, entry in entries}
        return [found[number] for number in sorted(found)[-limit:]]

    async def parked(self) -> list[Parked]:
        stores = [self.store, *self._beside.stores()]
        return [parked for store in stores for parked in await store.find_parked(Query(limit=1000))]

    async def rows(self, cls: type, key: str) -> dict[str, Any]:
        """The object's stored rows, without waking it."""
        found = await self._store_of(cls, key).scan(ObjectId(self._name(cls), key), USER, Range())
        return {name: decode(data) for name, data in found}

    async def info(self, cls: type, key: str) -> Info | None:
        found = await self._store_of(cls, key).find_objects(Query(cls=self._name(cls), key=key, limit=1))
        return found[0] if found else None

    # moving

    async def advance(self, amount: Duration | None = None, **parts: float) -> None:
        """Let time pass, everything that falls due in it included: `advance(days=2)`, `advance("90s")`."""
        length_ms = _length_ms(amount, parts)
        with self._warp.on_purpose():
            await self.settle()
            await self._warp.sleep(length_ms)
            await self.settle()

    async def step_clock(self, by: timedelta) -> None:
        """Set the wall clock ahead or back, as a person or a time server does: no time passes meanwhile."""
        self._warp.step(by // timedelta(milliseconds=1))
        await self.settle()

    async def settle(self) -> None:
        """Let everything be done that can be done without time passing."""
        await self._warp.idle()

    async def catch_up(self) -> None:
        """Wait until every node has heard what others told it, which on a real server takes real time."""
        for member in self.members:
            await member.catch_up()

    async def sleep_all(self) -> None:
        """Every idle object sleeps now."""
        await self.settle()
        self.node.hibernation.sleep_all()

    async def nodes(self, count: int) -> list[Member]:
        """Have so many nodes from now on, as a cluster: new ones join, the last ones stop cleanly."""
        _check_count(count)
        if self.app.deployment.places:
            raise BadOption("a world of several nodes has one store; leave out App(stores=…)", code="world.stores")
        if self._node is not None:
            self.app.deployment.detach(self._node)
            node, self._node = self._node, None
            await node.stop()
            self._store = None
        while len(self.members) > count:
            await self.members.pop().stop()
        for member in self.members:
            if not member.is_up:
                await member.start()
        while len(self.members) < count:
            self.members.append(Member(self, len(self.members) + 1))
            await self.members[-1].start()
        await self.balance()
        return list(self.members)

    async def balance(self) -> None:
        """Let the nodes that are up share the shards between them."""
        for _ in range(100):
            await self.advance(milliseconds=100)
            live = [member.node for member in self.members if member.node is not None]
            counts = [len(node.epochs) for node in live if not node.membership.is_draining]
            if not counts or (sum(counts) == SHARDS and max(counts) - min(counts) <= 1):
                return

    def choose_door(self) -> None:
        """Calls from the test go in at the first node that is up."""
        if self.app.deployment.node is not None:
            self.app.deployment.detach(self.app.deployment.node)
        up = [member.node for member in self.members if member.node is not None and member.node.state == "up"]
        if up:
            self.app.deployment.attach(up[0])

    # breaking

    def kill(self) -> None:
        """The process dies here and now; what is on disk stays. Callable from anywhere, a handler included.

        In a cluster all of them die; `world.members[0].kill()` is one.
        """
        for member in self.members:
            member.kill()
        if self._node is not None and self._store is not None:
            self._store.cut()
            node, self._node = self._node, None
            self.app.deployment.detach(node)
            node.kill()
            self._beside.kill()

    async def crash(self) -> None:
        """The process dies, as by `kill -9`."""
        self.kill()
        await self._warp.sleep(0)

    async def restart(self, after: Duration | None = None) -> None:
        """Come back, that much later, on the same disk. A node that still runs is stopped cleanly first."""
        if self.members:
            await self._stop_members()
            if after is not None:
                await self._pass(duration_ms(after))
            await self.nodes(len(self.members))
            return
        if self._node is not None:
            await self.app.deployment.stopping(self._node)
            self.app.deployment.detach(self._node)
            node, self._node = self._node, None
            await self._beside.stop()
            await node.stop()
        if after is not None:
            await self._pass(duration_ms(after))
        if self._store is not None:
            await self._store.close()
        await self._boot()

    async def _pass(self, length_ms: int) -> None:
        with self._warp.on_purpose():
            await self._warp.sleep(length_ms)

    async def _boot(self) -> None:
        self._lives += 1
        self._store = FaultyStore(self._open_disk(), self.faults, self._warp)
        self._node = node = self.make_node(f"node-{self._lives}", self._store, self._warp)
        self.app.deployment.equip(node)
        self.app.deployment.attach(node)
        await node.start()
        if self.app.deployment.places:
            await self._beside.start(node)
        await self.app.deployment.started(node)
        await self.settle()

    async def _stop_members(self) -> None:
        for member in self.members:
            member.thaw()
            member.faults.is_down, member.faults.on_probe = False, None
            await member.stop()

    def make_node(
        self, name: str, store: Store, clock: Clock, *, links: Links | None = None, address: str = ""
    ) -> Node:
        """A node of the app in this world; alone on its store unless it has links to others."""
        return Node(
            name=name,
            registry=self.app.deployment.registry,
            store=self.keyed(store),
            clock=clock,
            dice=self._dice,
            limits=self._limits or self.app.deployment.limits,
            idle_ms=self.app.deployment.idle_ms,
            about="world",
            sleep_after_turn=self._sleep_after_turn,
            is_alone=links is None,
            links=links,
            lease=self.lease,
            address=address,
            ticks=getattr(clock, "ticks", None),
        )

    def open_disk(self, *, shared: bool) -> Store:
        """The store of one of several processes, on the disk that outlives them all."""
        if self._url == "memory:":
            clock = self._warp.now if shared else None
            store = MemoryStore(self._disk, shared=shared, listens=self._listens, sees=self._sees, clock=clock)
            store.local = not shared  # it stands for a server then: reads and notes share trips as they do there
            return store
        return self._open_disk()

    def _open_disk(self) -> Store:
        """The store of the next process, on the disk that outlives them all."""
        return MemoryStore(self._disk) if self._url == "memory:" else open_url(self._url)

    def keyed(self, store: Store) -> Store:
        """The store as nodes of the app have it: under a seal, when the app has keys."""
        return store if self.app.deployment.keys is None else with_keys(store, key_ring(self.app.deployment.keys))

    def _store_of(self, cls: type, key: str) -> Store:
        return self._beside.store_of(ObjectId(self._name(cls), key)) or self.store

    def _name(self, cls: type) -> str:
        try:
            return self.app.deployment.registry.of_class(cls).name
        except UnknownClass:
            return cls.__name__


def _start_ms(start: object) -> int:
    try:
        when = datetime.fromisoformat(start) if isinstance(start, str) else start
    except ValueError:
        when = None
    if not isinstance(when, datetime):
        raise BadTime(
            f"start={start!r}: give an aware datetime, or text like '2026-03-28T12:00Z'", code="time.text"
        ) from None
    return from_datetime(when)


def _check_count(nodes: object) -> int:
    if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
        raise BadOption(f"nodes={nodes!r}: a world has one or more", code="world.nodes")
    return nodes


def _length_ms(amount: Duration | None, parts: dict[str, float]) -> int:
    """How far to advance, by one amount or by the parts of a timedelta."""
    if (amount is None) == (not parts):
        raise BadOption("advance by how much? Give one amount ('90s'), or parts (days=2)", code="world.advance")
    if amount is not None:
        return duration_ms(amount, what="advance by")
    try:
        return duration_ms(timedelta(**parts), what="advance by")
    except TypeError:
        raise BadOption(
            f"advance({', '.join(parts)}=…): parts are weeks, days, hours, minutes, seconds, milliseconds; "
            "a calendar month is no length of time",
            code="world.advance",
        ) from None
