"""Layer 3. A program on several stores: in which of them does an object live?

By its class, else by the longest of the given beginnings of its key, else in the program's main store. The process
has a node for each store, and calls go from one to the other; what one commit makes atomic stays within one store.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from wakeful.runtime.contacts import REACH
from wakeful.runtime.object_runtime import NodeRuntime, ObjectRuntime
from wakeful.runtime.timer_handler import Errands
from wakeful.runtime.turn import Turn
from wakeful.store.protocol import Guard, Obstacle, Receipt, receipt_prefix
from wakeful.transport.protocol import PeerCall
from wakeful.values.errors import BadOption
from wakeful.values.ids import RESERVED, ObjectId, check_class, check_key, shard_of
from wakeful.values.timers import Timer
from wakeful.values.times import LATEST_MS

if TYPE_CHECKING:
    from wakeful.runtime.spread import ClassSpread


def check_places(places: Mapping[str, object]) -> None:
    """`BadOption` unless each name is that of a class, or a beginning of keys that ends with a slash."""
    for place, kept in places.items():
        if isinstance(kept, Mapping):
            from wakeful.runtime.spread import check_servers

            check_servers(place, kept)
        if not isinstance(place, str) or not place or place.startswith(RESERVED):
            raise BadOption(
                f"stores={place!r}: give a class's name, or a beginning of keys like 'eu/'", code="stores.place"
            )
        if place.endswith("/"):
            check_key("object", place)
        else:
            check_class(place)


class PeerHandler(Protocol):
    """Takes what other processes ask of a node."""

    @property
    def has_links(self) -> bool: ...

    async def handle(self, call: PeerCall) -> bytes: ...


class HasRoutes(Protocol):
    """A node, as far as calls of others come to it."""

    @property
    def routes(self) -> PeerHandler: ...


N = TypeVar("N", bound=HasRoutes)


class Homes(Generic[N]):
    """The nodes of this process by what lives in their stores."""

    def __init__(self, main: N, others: Mapping[str, N], spreads: "Mapping[str, ClassSpread[N]] | None" = None) -> None:
        self.main = main
        self.spreads = dict(spreads or {})  # of the classes that live on several servers
        self._by_class = {place: node for place, node in others.items() if not place.endswith("/")}
        prefixes = sorted((place for place in others if place.endswith("/")), key=len, reverse=True)
        self._by_prefix = [(place, others[place]) for place in prefixes]
        several = [node for spread in self.spreads.values() for node in spread.nodes]
        self.all = list(dict.fromkeys([main, *others.values(), *several]))

    def of(self, id: ObjectId) -> N:
        """The node of the store that the object lives in."""
        if self.spreads and (spread := self.spreads.get(id.cls)) is not None:
            return spread.of(id)
        found = self._by_class.get(id.cls)
        if found is not None or id.cls.startswith(RESERVED):
            return found or self.main
        return next((node for prefix, node in self._by_prefix if id.key.startswith(prefix)), self.main)

    async def handle(self, call: PeerCall) -> bytes:
        """A call from another process, for whichever store it is about."""
        node = self.of(ObjectId(call.cls, call.key))
        if call.method == REACH and not node.routes.has_links:  # that of a store of its own, which calls nobody
            node = next((one for one in self.all if one.routes.has_links), node)
        return await node.routes.handle(call)


# A turn sends a timer to an object that lives in another store: how does it get there exactly once?
#
# One commit can't reach two stores. So what goes elsewhere is first kept at the sender, as a timer that commits with the
# turn and is due at once; its own turn brings what it carries to the other store, under a name that is the same at every
# try, and is over when that is there.

PREFIX = "forward"
FORWARDED = "forwarded"
FORGET_MS = 1_000  # so that of many that go at once the receipts do not hold up the rest
KEEP_MS = 3_600_000  # how long a try that was given up may still be on its way to a server

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Timer)
_forwarded = msgspec.msgpack.Decoder(tuple[str, str, str])  # a receipt, and an object of the store that has it


def route_timers(node: NodeRuntime, sender: ObjectId, timers: list[Timer]) -> list[Timer]:
    """The same timers, but those of other stores as errands of the sender."""
    return [timer if _is_beside(node, sender, timer) else _errand(node, sender, timer) for timer in timers]


def _is_beside(node: NodeRuntime, sender: ObjectId, timer: Timer) -> bool:
    """One commit reaches it. Of a class on several servers only what is in the slot that the commit's epoch is of."""
    if node.home(timer.id) is not node:
        return False
    return node.spread is None or shard_of(timer.id) == shard_of(sender)


def _errand(node: NodeRuntime, sender: ObjectId, timer: Timer) -> Timer:
    now = node.clock.now()
    name = f"{PREFIX}:{timer.id.cls}/{timer.id.key}/{timer.name}"
    return Timer(sender, name, now, now, timer.seq, payload=_encoder.encode(timer))


async def add_apart(node: NodeRuntime, timers: Sequence[Timer], guards: Mapping[int, Guard]) -> list[Obstacle]:
    """Bring timers to the stores that they belong to, all or none in each; what is in the way there comes back."""
    by_home: dict[NodeRuntime, list[int]] = {}
    for place, timer in enumerate(timers):
        by_home.setdefault(node.home(timer.id), []).append(place)
    obstacles: list[Obstacle] = []
    for home, places in by_home.items():
        own = {n: guards[place] for n, place in enumerate(places) if place in guards}
        some = [timers[place] for place in places]
        if home.spread is not None:
            met = await home.spread.bring(node, some, own)
        else:
            met = await home.inserter.add_all(some, own, until=home.clock.now() + node.limits.call_deadline_ms)
        obstacles += [replace(one, index=places[one.index]) for one in met]
    return obstacles


class Forwards(Errands):
    """The handler of these errands: they need no awake object, and are tried until they succeed.

    What has arrived may have run and be gone when an errand that does not know that comes again, however late. So the
    other store keeps a receipt of it, until a second errand, which commits with the end of the first, has it forgotten.
    """

    def __init__(self, prefix: str, deadline_ms: int) -> None:
        self.prefix = prefix
        self.deadline_ms = deadline_ms

    async def fire(self, activation: ObjectRuntime, turn: Turn, timer: Timer) -> bool:
        node = activation.node
        if self.prefix == FORWARDED:
            receipt, cls, key = _forwarded.decode(timer.payload or b"")
            home = node.home(ObjectId(cls, key))
            await home.store.forget([receipt], at=home.clock.now() + KEEP_MS)
            return False
        carried = _decoder.decode(timer.payload or b"")
        home = node.home(carried.id)
        # With the slot, which may leave one day: it is kept with that, and goes where that goes.
        receipt = f"{receipt_prefix(shard_of(carried.id))}{receipt_id(timer)}"
        # One that is there already came with an earlier try.
        until = home.clock.now() + node.limits.call_deadline_ms
        await home.inserter.add_all([carried], until=until, receipt=Receipt(receipt, 1, LATEST_MS))
        payload = _encoder.encode((receipt, *carried.id))
        due_at = node.clock.now() + FORGET_MS
        turn.set_timer(Timer(timer.id, f"{FORWARDED}:{receipt}", due_at, due_at, timer.seq, payload=payload))
        return False

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        """What the object has sent gets there all the same, now. Its receipt, which names nobody, stays."""
        await self.fire(turn.activation, turn, timer)
        turn.timers = {
            name: one for name, one in turn.timers.items() if not name.startswith(f"{FORWARDED}:") or one is None
        }


def receipt_id(errand: Timer) -> str:
    """The same for every try of that very errand."""
    text = f"{errand.id.cls}\0{errand.id.key}\0{errand.name}\0{errand.seq}\0{errand.nominal_at}"
    return f"{PREFIX}:{blake2b(text.encode(), digest_size=16).hexdigest()}"
