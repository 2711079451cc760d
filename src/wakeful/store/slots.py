"""Layer 2. The seam for a class on several servers: which of its shards live in a store, and how do they leave for another?

Such a store has only some of the shards, here called slots. The row of each says so, in the transaction that every
claim, commit and insert has to pass: one that is away can't be claimed, so nobody commits to it or fires its timers,
and nothing can be inserted. Its term rises with every move, and each step names the term that it belongs to.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from wakeful.values.errors import Conflict
from wakeful.values.ids import ObjectId

Row = tuple[Any, ...]
RowPages = AsyncGenerator[tuple[str, list[Row]]]  # of which table, in pages of bounded size
# MOVING is away as well, and there are rows of it that are not to be looked at. LEAVING is here, and its owner is asked
# to let it go: until it has, what it remembers is true, and what it answers.
# GONE is away, and what is here is all that there is until it has arrived elsewhere.
HERE, AWAY, MOVING, LEAVING, GONE = 0, 1, 2, 3, 4


class StaleMove(Conflict):
    """That step belongs to a move which is over, or which somebody else has taken up."""

    default_code = "spread.stale"


class SlotRow(Struct, frozen=True):
    """A slot of a store."""

    slot: int
    epoch: int
    term: int
    state: int


class ServerMark(Struct, frozen=True):
    """What a server of a spread knows of itself. `map` is on the first one only, and `version` is that of the map."""

    spread: str
    server: str
    version: int = 0
    map: bytes | None = None


class SlotTables(Protocol):
    """One server of a spread, open for looking at its slots and for moving them."""

    url: str

    async def mark(self) -> ServerMark | None:
        """What was entered; None when the store never was one of several."""
        ...

    async def enter(self, mark: ServerMark, slots: Collection[int]) -> ServerMark:
        """Make it a server of that spread which has these slots and bars the others, unless it is one; what it is."""
        ...

    async def put_map(self, data: bytes, *, version: int) -> bool:
        """Keep the map of that version if the one before it is what is kept."""
        ...

    async def slots(self) -> list[SlotRow]: ...

    async def keep(self, id: ObjectId, row: tuple[int, str], data: bytes, *, now: int) -> None:
        """Put a row of the server's own there unless there is one, whoever has its slot."""
        ...

    async def has_objects(self) -> bool:
        """Whether anything of the program's own is in it."""
        ...

    async def ids(self, slots: Collection[int]) -> dict[int, list[ObjectId]]:
        """The objects of these slots that have a row, or a timer."""
        ...

    async def moment(self) -> str | None:
        """Where the writing of this server is, for `changes`; None where it can't tell."""
        ...

    async def changes(self, slot: int, moment: str) -> list[ObjectId]:
        """Of the objects of the slot at least those that have a row or a timer from after that moment, or under way then."""
        ...

    async def digests(self, ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
        """What all that is kept of each comes to, but for the numbers that a server gives by itself."""
        ...

    async def stamps(self, ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
        """Of each what is another as soon as anything of it was written, without looking at what; by digests if need be."""
        ...

    def read(self, ids: Sequence[ObjectId]) -> RowPages:
        """All that is kept of them, as of one moment."""
        ...

    async def receipts(self, slot: int) -> list[Row]:
        """What was taken for objects of the slot from those who may ask again for ever (see runtime/homes.py)."""
        ...

    async def seize(self, slot: int, term: int, mover: str) -> bool:
        """Become the one who writes the slot here, before it arrives under that term; False: it has arrived."""
        ...

    async def write(self, slot: int, mover: str, ids: Sequence[ObjectId], pages: RowPages | None) -> None:
        """Put these rows in the place of all that is kept of these objects; `StaleMove` unless the slot is still this mover's."""
        ...

    async def write_receipts(self, slot: int, mover: str, rows: Sequence[Row]) -> None: ...

    async def ask(self, slot: int, term: int) -> bool:
        """Have the owner of the slot let it go, and nobody take it; whether it has, or is dead."""
        ...

    async def fence(self, slot: int, term: int) -> int:
        """Bar the slot for that move: from here on nothing of it can be written. Its epoch; the same when asked again."""
        ...

    async def land(self, slot: int, term: int, mover: str, *, above: int) -> None:
        """The slot is here from now on, under that term and an epoch above that one."""
        ...

    async def seize_rest(self, slot: int, term: int, mover: str) -> bool:
        """Become the one who removes what is left of a slot that went under that term; False: nothing is to be removed."""
        ...

    async def clear(self, slot: int, mover: str) -> None:
        """Nothing is left of it."""
        ...

    async def lock(self) -> bool:
        """Whether no other mover is at it, nor a rotation of its keys, as far as that can be told. Of movers a courtesy."""
        ...

    async def tell(self) -> None:
        """Have the nodes of the store look at its shards."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Spreadable(Protocol):
    """A store that can be one of several servers of a class."""

    async def open_slots(self) -> SlotTables: ...
