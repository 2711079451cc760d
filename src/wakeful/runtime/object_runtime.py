"""Layer 3. What may a feature, a turn or an object's own storage ask of the object that is awake, and of its node?

Who knows these two can be read without the node and without the activation, which are what stands behind them.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any, Protocol, TypeVar

from wakeful.runtime.calls import Deadlines
from wakeful.runtime.env import Env
from wakeful.runtime.inserter import Inserter
from wakeful.runtime.registry import ObjectClass
from wakeful.runtime.rows import ObjectRows
from wakeful.runtime.sideline import Sideline
from wakeful.store.protocol import NO_GUARDS, Guard, Obstacle, ShardRow
from wakeful.values.codec import Shelf
from wakeful.values.commits import Slot
from wakeful.values.errors import SlotMoved, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Parked, Timer

T = TypeVar("T")


class SpreadServers(Protocol):
    """The servers of a class that has several (see spread.py)."""

    def note(self, node: Any, owners: Sequence[ShardRow]) -> None: ...

    def refusal(self, id: ObjectId) -> SlotMoved | None: ...

    async def add(self, node: "NodeRuntime", timer: Timer, guard: Guard | None) -> Obstacle | None: ...

    async def bring(
        self, node: "NodeRuntime", timers: Sequence[Timer], guards: Mapping[int, Guard]
    ) -> list[Obstacle]: ...


class NodeNotices(Protocol):
    """Those who want to hear of what happens on a node (see the feature `notices`)."""

    def add_to(self, turn: Any) -> None:
        """A turn is about to be committed: what people are to hear of it goes with it."""
        ...

    def outage_began(self, error: Unavailable) -> None: ...

    def outage_ended(self) -> None: ...


class NodeRuntime(Env, ABC):
    """The node of an object: where what it sends, adds and starts goes."""

    deadlines: Deadlines
    inserter: Inserter
    sideline: Sideline
    features: dict[str, Any]  # each feature's own, by its name
    spread: SpreadServers | None  # its store is one of several servers of a class
    notices: NodeNotices | None  # None: nobody wants to hear of anything
    operations: dict[str, Callable[..., Awaitable[Any]]]  # what can be asked of an object besides its methods
    # Told of shards that go or are in doubt, and when a lapsed lease runs again: others may have thought the node dead.
    erasers: list[Callable[[Any], Awaitable[None]]]  # of each feature: an object is forgotten, see feature.py
    farewells: list[Callable[[Collection[int]], None]]
    returns: list[Callable[[], None]]
    hurried: list[Callable[[ObjectId], None]]  # told of an object that has one waiting whose caller may hold up others

    @property
    @abstractmethod
    def is_dead(self) -> bool: ...

    @abstractmethod
    async def until_store(self, deadline_at: int) -> None:
        """Wait for a store that is away; `StoreDown` when it takes too long (see outage.py)."""

    @abstractmethod
    def refusal(self) -> Unavailable:
        """What is said to whoever asks while the store is away, or the node not up."""

    @abstractmethod
    def stub(self, cls: type[T], key: Any, *, deadline: Any, request_key: Any) -> T:
        """Something that looks like the object and sends calls to it; what is asked for is looked at here."""

    @abstractmethod
    async def send(
        self,
        target: ObjectId,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        deadline_ms: int | None = None,
        request_key: str | None = None,
        is_carried: bool = False,
    ) -> Any:
        """Call a method of an object and wait for its answer, which is durable when it comes."""

    @abstractmethod
    async def send_beside(self, target: ObjectId, method: str, args: tuple[Any, ...]) -> Any:
        """Call an object, also while this node stops and takes no more calls: the last ones are those of its own sideline."""

    @abstractmethod
    def home(self, id: ObjectId) -> "NodeRuntime":
        """The node of this process that stands for the store in which the object lives."""

    @property
    @abstractmethod
    def all_homes(self) -> "Sequence[NodeRuntime]":
        """The nodes of this process, one for each store of the program."""

    @abstractmethod
    async def add_timer(self, timer: Timer, guard: Guard | None = None) -> Obstacle | None:
        """Bring a timer of any object to disk, under a name that nobody else can have, or unless something is in the way."""

    @abstractmethod
    async def add_timers(self, timers: Sequence[Timer], guards: Mapping[int, Guard] = NO_GUARDS) -> list[Obstacle]:
        """Bring them to disk, all or none in each store; what is in the way, [] when it was done."""

    @abstractmethod
    def route_timers(self, sender: ObjectId, timers: list[Timer]) -> list[Timer]:
        """Timers that a turn of the sender adds, as they go into its commit: to other stores they take a detour."""

    @abstractmethod
    def next_seq(self, shard: int) -> int:
        """The next place in the order of insertion of that shard."""

    @abstractmethod
    def crashes_of(self, timer: Timer) -> int:
        """How many processes died while it ran."""

    @abstractmethod
    async def end_parked(self, activation: "ObjectRuntime", parked: Parked) -> None:
        """A parked timer of the object is let go: have its kind end what waits for it, in the running turn."""

    @abstractmethod
    async def end_timer(self, turn: Any, timer: Timer) -> None:
        """A timer of an object that is forgotten goes: have its kind end what waits for it."""

    @abstractmethod
    def on_forgotten(self, id: ObjectId) -> None:
        """Nothing is left of the object, nor of the timer that would have finished that."""

    @abstractmethod
    def taken_at(self, shard: int) -> int:
        """Since when that shard is this node's; 0: it is not."""

    @abstractmethod
    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task that nobody waits for, until it is done or the node ends."""


class TypedState(Protocol):
    """The object's declared state, as its turns and its context see it."""

    def get(self, activation: "ObjectRuntime") -> Any: ...

    def set(self, activation: "ObjectRuntime", value: Any) -> None: ...

    def raw(self, activation: "ObjectRuntime") -> MutableMapping[str, Any]: ...

    def snapshot(self) -> bytes | None: ...

    def restore(self, id: ObjectId, snapshot: bytes | None, shelf: Shelf | None) -> None: ...


class ObjectDatabase(Protocol):
    """The object's database, as its turns see it; `depth` is how many savepoints a turn is in."""

    def collect(self) -> dict[Slot, bytes | None]:
        """The rows that the running turn's changes come to; they are about to be committed."""
        ...

    def former(self, slot: Slot) -> bytes | None:
        """A page that `collect` gave, as it was before; None: it was not there."""
        ...

    def adopt(self) -> None: ...

    def undo(self) -> None: ...

    def wipe(self, depth: int) -> None: ...

    def clear(self, turn: Any) -> None: ...

    def go_back(self, depth: int) -> None: ...

    def keep(self, depth: int) -> None: ...


class ObjectPast(Protocol):
    """The object's undo images, as its turns see them."""

    async def prepare(self, turn: Any, by: str, *, is_final: bool = True) -> None:
        """A turn is about to be committed: read what it changes and nobody knows as it was."""
        ...

    def image(self, turn: Any, timers: dict[str, Timer | None]) -> dict[Slot, bytes | None]:
        """The rows that go with its commit."""
        ...

    def hurry(self, turn: Any) -> bool:
        """The next commit of the turn is its end, though it will raise; whether it goes back with that."""
        ...

    async def prune(self, turn: Any) -> bool:
        """Have the turn's commit drop what is past keeping; whether there was something."""
        ...


class ObjectRuntime(Protocol):
    """An object that is awake, as its turns, its storage and the features see it."""

    id: ObjectId
    shard: int
    epoch: int
    known: ObjectClass
    rows: ObjectRows
    timers: dict[str, Timer | None]  # what finished turns made of them; absent: as on disk
    sql: ObjectDatabase | None  # once it has been woken with one or asked for one
    history: ObjectPast | None  # if its class keeps one
    is_awake: bool
    is_hurried: bool  # a turn elsewhere waits for one in its mailbox
    sockets: Any  # those that it has looked at, while it is awake; the feature's own
    watched: Any  # what happened lately, for those who watch it; a feature's own as well
    instance: Any  # the object itself; None while it sleeps
    beside: Any  # its events, where they run beside each other (see beside.py); else None
    unnumbered: bytes | None  # how many migrations it has had, to go with the first commit that it has

    @property
    def node(self) -> NodeRuntime: ...

    @property
    def state(self) -> TypedState: ...

    @property
    def is_busy(self) -> bool:
        """Something would be lost or interrupted if it slept now."""
        ...

    def settle(self) -> Awaitable[None]:
        """Wait until every finished turn is on disk."""
        ...

    def put_to_sleep(self) -> None:
        """The next event finds it asleep, and makes it anew."""
        ...

    def begin_anew(self) -> None:
        """Nothing of it is left anywhere: the next event finds an object that never was."""
        ...

    def hold_awake(self) -> None:
        """Something beside its turns goes on: it must not sleep under it."""
        ...

    def let_sleep(self) -> None:
        """That is over."""
        ...

    def linger(self, work: "asyncio.Future[Any]") -> None:
        """The running turn may end before this does, and the next one not begin: it is code that could not be stopped."""
        ...

    def collect_state(self) -> None:
        """Put what the running turn made of its state among the turn's writes."""
        ...

    async def commit_now(self) -> None:
        """A durable point in the middle of the running turn."""
        ...

    def adopt(self, writes: dict[Slot, bytes | None], wiped: bool, timers: dict[str, Timer | None]) -> None:
        """A turn ended well: the next one starts from what it left."""
        ...
