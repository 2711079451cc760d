"""Layer 2. The seam for whole tables: in which form do rows go from one store to another?

Each kind of store reads and writes the same plain rows, whose columns are listed here, so that equal contents have
equal rows whatever holds them. All of a copy is one transaction of the store it goes to: it is there whole, or not
at all. Who is there (`nodes`) and who owns what (`shards.owner`) stays behind; epochs come along as `Marks`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

Row = tuple[Any, ...]

_TIMER = ("cls", "key", "name", "due_at", "nominal_at", "seq", "attempt", "crashes", "started", "priority", "payload")

# The columns of each table's rows. Text for people (errors, tracebacks) has no NUL in it: see `shown`.
TABLES: Mapping[str, tuple[str, ...]] = {
    "objects": ("cls", "key", "created_at", "active_at", "rows", "bytes"),
    "storage": ("cls", "key", "space", "name", "value"),
    "timers": _TIMER,
    "ledger": (
        *("number", "cls", "key", "name", "run_id", "nominal_at", "fired_at", "finished_at", "attempt", "verdict"),
        *("node", "error", "missed", "is_backfill", "covers", "first_at"),
    ),
    "parked": ("number", *_TIMER, "run_id", "parked_at", "attempts", "reason", "error", "traceback"),
    "requests": ("cls", "key", "request", "fingerprint", "answer", "expires_at"),
    "receipts": ("id", "number", "answer", "expires_at"),
}
# Values have up to 2 MiB, so few of them are in memory at once; other rows are small.
PAGE_ROWS = {"storage": 128, "requests": 128}
PAGE_ROWS_MAX = 2_000
# A page of larger rows than that makes the next one shorter.
PAGE_BYTES = 4 * 1_048_576


class Marks(Struct, frozen=True):
    """What must not go backwards: the shards' epochs (seqs are made of them) and the numbers given so far."""

    epochs: tuple[int, ...]
    ledger_last: int
    parked_last: int


class Copying(Protocol):
    """One store, opened to be copied from or into, in one transaction; nobody else writes meanwhile."""

    async def marks(self) -> Marks: ...

    async def count(self, table: str) -> int: ...

    def read(self, table: str) -> AsyncIterator[list[Row]]:
        """All rows in pages of bounded size, in any order; sees what `write` wrote before."""
        ...

    async def write(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows that are not there yet."""
        ...

    async def finish(self, marks: Marks) -> None:
        """All rows are in: build what `write` left out, and raise epochs and numbers at least to these."""
        ...

    async def commit(self) -> None:
        """Make it all durable. Closed without that, nothing has changed."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Copyable(Protocol):
    """A store that can be copied whole, into another kind of store too."""

    @property
    def place(self) -> str:
        """What two URLs of this store have in common."""
        ...

    async def open_copying(self, *, now: int, writes: bool) -> Copying:
        """Take the store, which is not open, for as long as the copy lasts. That no node lives on it is the caller's to see."""
        ...


def clean_text(text: str | None) -> str | None:
    """Text for people in the one form that every store can hold: PostgreSQL has no NUL in text."""
    return text.replace("\0", "␀") if text is not None and "\0" in text else text


class Pages:
    """How many rows of a table to take at once, by how large the last ones were."""

    def __init__(self, table: str) -> None:
        self._most = PAGE_ROWS.get(table, PAGE_ROWS_MAX)
        self.rows = min(64, self._most)

    def on_page(self, rows: Sequence[Row]) -> None:
        size = sum(len(value) for row in rows for value in row if type(value) is bytes or type(value) is str)
        fit = PAGE_BYTES * len(rows) // max(1, size)
        self.rows = max(8, min(self._most, 2 * self.rows, fit))
