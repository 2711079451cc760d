"""Layer 2. The seam: what must a store be able to do?

Three protocols: `Store` is what a node needs, a dozen verbs, and is a `MembershipTable` and `Views` as well. It never asks the time (`now` is passed in), never decides policy, and
says what it can do (`shared`, `listens`, `tells`, `shows_locks`, `local`) instead of being guessed at. Whatever stops a
store from answering is raised as `StoreDown`; a commit whose outcome can't be known as
`OutcomeUnknown`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Literal, Protocol

from msgspec import Struct

from wakeful.policy.lease import LEASE_MS, Rhythm
from wakeful.values.commits import Commit, Info, Loaded, Remembered
from wakeful.values.errors import BadInput, Fenced, StoreError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer, TimerKey

# An object with at most this many rows and bytes is loaded whole when it wakes.
WHOLE_ROWS_MAX = 16
WHOLE_BYTES_MAX = 16_384
# Of a larger one so many pages of its database come with it, so that one round trip wakes what is of ordinary size.
WAKE_PAGES = 64

# Ledger rows that stayed when they were old enough to go are looked at again this often: others may have come since.
REWALK_MS = 86_400_000
# One pruning passes at most so many pages of ledger rows that all stay.
WALKS_MAX = 5

# The code of a `StoreDown` that is about one statement: the store itself is well, and nothing was written.
CANCELLED = "store.cancelled"

Outcome = None | Fenced | StoreError | BadInput
NO_GUARDS: Mapping[int, "Guard"] = MappingProxyType({})

# Set by whoever looks for people and can wait: a store whose reads run in the loop's thread takes wide ones beside it.
ASIDE: ContextVar[bool] = ContextVar("wakeful.store.aside", default=False)


class Range(Struct, frozen=True):
    """A slice of an object's keys in UTF-8 byte order, already normalised: `first` inclusive, `last` exclusive.

    >>> from wakeful import ObjectId
    >>> from wakeful.store import Range, open_url
    >>> store = open_url("memory:")
    >>> await store.open(now=0)
    >>> await store.scan(ObjectId("Order", "17"), 0, Range(first="item:", last="item;", limit=10))
    []
    >>> await store.close()
    """

    first: str = ""
    last: str | None = None
    reverse: bool = False
    limit: int | None = None


class NodeRow(Struct, frozen=True):
    """A node as the store knows it. `address` is where it takes calls, empty if nowhere.

    >>> from wakeful.store import open_url
    >>> store = open_url("memory:")
    >>> await store.open(now=0)
    >>> await store.nodes()  # a NodeRow for each
    []
    >>> await store.close()
    """

    node: str
    address: str
    joined_at: int
    lease_until: int
    about: str  # host, process and program, for people
    cluster: str = ""  # which deployment it believes to be in
    version: int = 1  # of what nodes say to each other; those that differ can't be in one cluster
    is_draining: bool = False  # an operator wants it to own nothing; `join` leaves this as it is
    is_here: bool | None = None  # whether its session with the store lives; None: the store can't tell
    lease_ms: int = LEASE_MS  # for how long it is believed after it was last heard of; the same on all nodes


class ShardRow(Struct, frozen=True):
    """Who owns a shard, and how often it has changed hands.

    >>> from wakeful.store import open_url
    >>> store = open_url("memory:")
    >>> await store.open(now=0)
    >>> (await store.owners())[255]
    ShardRow(shard=255, owner=None, epoch=0, is_away=False, term=0, is_leaving=False)
    >>> await store.close()
    """

    shard: int
    owner: str | None
    epoch: int
    is_away: bool = False  # it lives on another server of a spread, and can't be claimed here: see slots.py
    term: int = 0  # how often it has moved from one server to another
    is_leaving: bool = False  # about to: its owner is to let it go, and nobody is to take it


class Hint(Struct, frozen=True, array_like=True):
    """Another process added timers of that shard, due between these two instants. Where to look, not what is there."""

    shard: int
    first_at: int
    last_at: int


class TableLock(Struct, frozen=True):
    """A lock of somebody else on a table of ours, for which we would have to wait."""

    table: str
    pid: int | None  # of the session; None when none holds it: a prepared transaction
    transaction: str  # the same for as long as it is held
    is_readable: bool  # rows of the table can still be read, and not be written


class Query(Struct, frozen=True, kw_only=True):
    """A page of what people look for. Fields that are None don't filter.

    >>> from wakeful.store import Query, open_url
    >>> store = open_url("memory:")
    >>> await store.open(now=0)
    >>> await store.find_objects(Query(cls="Order", key_prefix="acme/", limit=10))
    []
    >>> await store.close()
    """

    cls: str | None = None
    key: str | None = None
    key_prefix: str | None = None  # what the key begins with
    key_contains: str | None = None  # part of the key, whatever the case of its letters from A to Z
    name: str | None = None  # timer or ledger name
    name_prefix: str | None = None  # what the timer or ledger name begins with
    limit: int = 100
    after: tuple[object, ...] | None = None  # the `cursor` of the last row of the page before


# Whoever commits has nobody beside it that the event loop would have to serve meanwhile: where the commit is a wait for the
# disk, another thread need not be woken for it. Said beside the call, so that what wraps a store need not pass it on.
ALONE: ContextVar[bool] = ContextVar("ALONE", default=False)


class RunMark(Struct, frozen=True, array_like=True, gc=False):
    """A timer that a process runs: which setting of it, in which epoch of its shard, and how many died of it before."""

    id: ObjectId
    name: str
    seq: int
    attempt: int
    due_at: int
    epoch: int
    crashes: int

    def is_of(self, timer: Timer) -> bool:
        """It is still what the timer on disk is."""
        return (self.seq, self.attempt, self.due_at) == (timer.seq, timer.attempt, timer.due_at)


class RunMarks(Protocol):
    """Places for marks, which survive the process though not the machine."""

    @property
    def places(self) -> int: ...

    def set(self, place: int, mark: RunMark) -> bool:
        """Write it over what was there; False when that can't be done."""
        ...

    def wipe(self, place: int) -> None:
        """Leave nothing of it."""
        ...

    def all(self) -> list[RunMark]:
        """What was written by now, by this process and by the one before it."""
        ...

    def clear(self) -> None: ...


class Receipt(Struct, frozen=True):
    """What an insert is known by, so that it is taken once, however often it is asked for because an answer was lost.

    Whoever sends has an id of its own and numbers what it sends; under one id it sends one at a time. The store keeps
    the last number that it took, in the commit that took it: what comes again, or comes late, is not taken again.
    """

    id: str
    number: int
    expires_at: int  # nobody asks again after that


def receipt_prefix(slot: int) -> str:
    """What the ids of receipts begin with that belong to the slot, and go where it goes.

    >>> receipt_prefix(7)
    'slot:007:'
    """
    return f"slot:{slot:03d}:"


class Guard(Struct, frozen=True):
    """What must not be there for a timer to be inserted, beside a timer of its name: a parked one of its name, and these."""

    answer: str  # the request key of a remembered answer
    prefix: str  # what the names of other timers of the object begin with


class Obstacle(Struct, frozen=True):
    """Why the timer at that place of an insert is not in: what is there already, each None when it is not that.

    All None: it was in the way, and is no more.
    """

    index: int
    timer: Timer | None = None  # of its name, else one of the guard's
    parked: Parked | None = None
    answer: Remembered | None = None
    is_in: bool = False  # it is in all the same: what it should not meet came while it was being inserted


class Swap(Struct, frozen=True):
    """Stored bytes, or text, that become others which mean the same: sealed with another key.

    | table    | where                   | old and new              |
    | storage  | cls, key, space, name   | value                    |
    | timers   | cls, key, name          | payload                  |
    | requests | cls, key, request       | fingerprint, answer      |
    | ledger   | number                  | error                    |
    | parked   | number                  | payload, error, traceback |
    """

    table: Literal["storage", "timers", "requests", "ledger", "parked"]
    where: tuple[Any, ...]
    old: tuple[Any, ...]
    new: tuple[Any, ...]


class Swapping(Protocol):
    """What a store can do beside the verbs of `Store`, if its values may be sealed with other keys while nodes run."""

    async def swap(self, swaps: Sequence[Swap]) -> int:
        """Put the new in place of the old where the old is still there, whoever owns it; of how many it was.

        Ledger and parked rows never change, so they are taken by their number alone.
        """
        ...


class MembershipTable(Protocol):
    """Who is there and who owns what: nodes with their leases, shards with their epochs, and what nodes tell each other.

    `time`, `tell` and `watch` are never needed to be right, only to be quick.
    """

    rhythm: Rhythm  # how often nodes look here, and the usual lease: a look costs every store something else
    keeps_time: bool  # `time` has an answer, so that leases are judged by it, and not by when they were seen to change
    needs_looks: bool  # what was told is heard by whoever reads the store (`look`), so nodes ask each other to

    @property
    def listens(self) -> bool:
        """What other processes `tell` is heard here."""
        ...

    @property
    def tells(self) -> bool:
        """`tell` reaches those who listen, whether or not this one does."""
        ...

    async def join(self, row: NodeRow) -> None:
        """Enter the node, or renew its lease; `joined_at` and `is_draining` stay as they first were."""
        ...

    async def leave(self, node: str) -> None: ...

    async def nodes(self) -> list[NodeRow]:
        """Every node that joined and has not left, by name."""
        ...

    async def drain(self, node: str, is_draining: bool) -> bool:
        """Note that an operator wants the node to own nothing, or that it may own again; False: no such node."""
        ...

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        """Become the owner of these shards, raising each epoch; the new epochs of those that were won.

        With `seen`, only of those whose epoch is still the one seen, so that of two who try one wins;
        without, whoever has them. Waits for commits in flight on them; every commit with an older epoch
        fails from here on.
        """
        ...

    async def release(self, node: str, epochs: Mapping[int, int]) -> None:
        """Give up the shards that are still owned at these epochs."""
        ...

    async def owners(self) -> list[ShardRow]:
        """All 256 rows in order; never claimed ones have owner None and epoch 0."""
        ...

    async def time(self) -> int | None:
        """The store's own clock, which all nodes follow; None when it has none but the machine's."""
        ...

    async def tell(self, hints: Sequence[Hint]) -> None:
        """Let the other processes know: where timers were added, or, with no hints, that nodes or shards changed.

        A store that can't (`tells` is False) does nothing.
        """
        ...

    async def look(self) -> None:
        """Read now what others have written, of which `heard` is told; nothing where that comes by itself."""
        ...

    def watch(self, heard: Callable[[Sequence[Hint]], None]) -> None:
        """Call `heard(hints)` for what other processes `tell`; with no hints when nodes or shards changed, or when telling was cut off for a while and anything may have been missed."""
        ...


Table = Literal["objects", "timers", "entries", "parked"]  # of what rows can be counted


class Views(Protocol):
    """What people look at, by page. None of it wakes anything."""

    @property
    def shows_locks(self) -> bool:
        """`locks` can tell."""
        ...

    async def find_objects(self, query: Query) -> list[Info]:
        """By class, then key (byte order); cursor (cls, key)."""
        ...

    async def find_timers(self, query: Query) -> list[Timer]:
        """In firing order; cursor (due_at, -priority, seq)."""
        ...

    async def find_entries(self, query: Query) -> list[tuple[int, Entry]]:
        """Newest first, with their numbers; cursor (number,)."""
        ...

    async def find_parked(self, query: Query) -> list[Parked]:
        """Oldest first; cursor (number,)."""
        ...

    async def find_answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        """Unexpired remembered answers by class, key, then request key (byte order); `name` and `name_prefix` are of the request key; cursor (cls, key, request key)."""
        ...

    async def count(self, what: Table, *, cls: str | None = None, key_prefix: str | None = None) -> int: ...

    async def known_classes(self) -> list[str]:
        """Every class that has an object in the store."""
        ...

    async def locks(self) -> list[TableLock]:
        """Who holds tables of ours so that writes, or even reads, have to wait. Waits for none of them itself."""
        ...


class Store(MembershipTable, Views, Protocol):
    """Rows of objects, timers, ledger, nodes and shards, in one place that survives: what a node needs.

    >>> from wakeful.store import Store, open_url
    >>> store: Store = open_url("memory:")
    >>> await store.open(now=0)
    >>> await store.known_classes(), len(await store.owners())
    ([], 256)
    >>> await store.close()
    """

    url: str  # as given by the user, without a password
    shared: bool  # several processes may own shards of it at once
    local: bool  # reads don't leave the process, so gathering them gains nothing: it is a `LocalStore`

    @property
    def run_marks(self) -> RunMarks | None:
        """Where the one process that owns it marks what it runs; None where several do, or it can't."""
        ...

    @property
    def identity(self) -> str:
        """Once open: the same for all who have this very store, and of no copy of it; empty when that can't be told."""
        ...

    async def open(self, *, now: int, readonly: bool = False) -> None:
        """Connect, and make the schema if the store is empty; `SchemaTooOld`/`SchemaTooNew` if it is another version's.

        `readonly` takes no ownership, so that a second process can look.
        """
        ...

    async def close(self) -> None: ...

    async def migrate(self, *, now: int) -> list[str]:
        """Bring the schema up to date; the names of the migrations that were applied."""
        ...

    # the one write

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        """Make each commit durable and atomic on its own, all in one physical commit.

        One outcome per commit, in order: None when it is on disk, `Fenced` when its shard is not
        owned by `node` at its epoch, another error when it alone is invalid. A later commit of the
        same object is applied on top of the earlier one, and fails if that failed.
        When no commit has `must_sync`, surviving the death of the process is enough.
        """
        ...

    async def insert(
        self,
        timers: Sequence[Timer],
        *,
        now: int,
        receipt: Receipt | None = None,
        guards: Mapping[int, Guard] = NO_GUARDS,
        each: bool = False,
    ) -> list[Obstacle]:
        """Add timers from outside a turn, no two of one name. Creates missing objects. What is in the way comes back.

        All or none, unless `each` is for itself. `guards` are those of the timers at these places. An insert whose
        receipt says that it was taken before does nothing; when each was for itself, what there is now of its guarded
        timers' names comes back, but for these very timers, so that whoever sent them can tell which are in.
        """
        ...

    async def forget(self, receipts: Sequence[str], *, at: int) -> None:
        """Nobody asks again under these ids: they expire then, when nothing of theirs can be on its way any more."""
        ...

    async def erase(self, node: str, id: ObjectId, epoch: int, *, now: int, limit: int) -> bool:
        """Remove what is kept of an object that is marked (`FORGOTTEN_SLOT`), at most `limit` rows of each table; True when nothing is left.

        Its rows of all spaces, its ledger, what is parked of it, its remembered answers; with the last of them the mark,
        the timer that would finish this, and the object itself. Other timers stay, and then the object does, as if it
        had been made `now`: somebody sent them since. Without the mark nothing happens, however late it is asked.
        `Fenced` when the object's shard is not owned by `node` at that epoch.
        """
        ...

    # an object's rows

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        """What each object needs to wake, in order, in one round trip."""
        ...

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]: ...

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        """Rows in UTF-8 byte order of their keys (or its reverse), within the range."""
        ...

    async def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        """The remembered answer of an unexpired request key."""
        ...

    # what is due

    async def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        """The earliest timers of these shards due at or before `until`, in firing order, past `after`; and whether there are more.

        When there are more, the list is everything up to its own last row (it may be shorter than `limit`).
        """
        ...

    # upkeep

    async def prune(
        self, *, now: int, entries_before: int, crowded: Sequence[tuple[ObjectId, str, int]], limit: int
    ) -> int:
        """Drop what is past keeping, at most about `limit` rows: remembered answers that expired (and receipts, which are not counted), ledger rows finished before `entries_before`, and, per crowded (object, name, keep), all but the newest `keep`. How many went.

        However old, the newest verdict of a name that lasts stays, with the attempts that led to it: of a name that a
        timer or a system row has (so of each schedule), and of the alarm of an object that stores something. Jobs are
        not among them: their names come but once, so they would never go. A verdict is one that is not `failed`, or
        that another occurrence came after; what went before it goes. A store remembers up to where everything old is
        to stay, and looks there again once in `REWALK_MS`.
        """
        ...


class LocalStore(Store, Protocol):
    """A store whose reads don't leave the process."""

    def read_now(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        """As `read`, for somebody who can't wait."""
        ...
