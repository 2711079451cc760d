"""Layer 5. A page of rows from one store or several: in which order, and where does the next one begin?

A cursor is opaque to whoever carries it: for each store the place of the last row that was looked at. A page reads
about as many rows as it shows; of rows that a filter leaves out it looks at a bounded number, and may be short then.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from wakeful.store.protocol import Query, Store
from wakeful.values.commits import Info
from wakeful.values.errors import BadOption
from wakeful.values.timers import Entry, Parked, Timer
from wakeful.views.view import View

R = TypeVar("R")

LIMIT_MAX = 100_000
CHUNK_MAX = 1_000  # rows that are read at once
LOOKS_MAX = 20_000  # rows that a page looks at beyond those that it shows
CURSOR_CHARS_MAX = 8_192
_INT_MAX = 2**63

Place = tuple[Any, ...]


class ViewPage(NamedTuple, Generic[R]):
    """Rows in the terms of JSON, and where the next page begins; None: this was the last."""

    rows: list[R]
    cursor: str | None


class RowPage(NamedTuple, Generic[R]):
    """The same before the rows are plain."""

    rows: list[R]
    cursor: str | None


@dataclass(frozen=True)
class Kind(Generic[R]):
    """What is looked for: how a store is asked, where a row stands there, and which of two stores' rows comes first."""

    name: str
    shape: tuple[type, ...]
    ask: Callable[[Store, Query], Awaitable[list[R]]]
    place: Callable[[R], Place]
    order: Callable[[R], Any]


OBJECTS: Kind[Info] = Kind(
    "objects",
    (str, str),
    lambda store, query: store.find_objects(query),
    lambda info: (info.id.cls, info.id.key),
    lambda info: (info.id.cls.encode(), info.id.key.encode()),
)
TIMERS: Kind[Timer] = Kind(
    "timers",
    (int, int, int),
    lambda store, query: store.find_timers(query),
    lambda timer: timer.sort_key,
    lambda timer: timer.sort_key,
)
# Numbers are each store's own, so between stores time decides.
ENTRIES: Kind[tuple[int, Entry]] = Kind(
    "ledger",
    (int,),
    lambda store, query: store.find_entries(query),
    lambda row: (row[0],),
    lambda row: -row[1].finished_at,
)
PARKED: Kind[Parked] = Kind(
    "parked",
    (int,),
    lambda store, query: store.find_parked(query),
    lambda parked: (parked.number,),
    lambda parked: parked.parked_at,
)


async def find(
    view: View,
    kind: Kind[R],
    query: Query,
    *,
    limit: int,
    cursor: str | None,
    keep: Callable[[R], bool] = lambda row: True,
) -> RowPage[R]:
    """The next rows of that kind that the query and `keep` leave, merged over all stores in their order."""
    check_limit(limit)
    afters = read_cursor(view, cursor, kind.name, kind.shape, count=len(view.stores))
    sources = [
        _Source(view, store, kind, replace(query, after=after, limit=min(limit + 1, CHUNK_MAX)))
        for store, after in zip(view.stores, afters, strict=True)
    ]
    rows: list[R] = []
    looks_left = limit + LOOKS_MAX
    ends: list[Place | None] | None = None  # where the last row of the page stands, once it is full
    only = sources[0] if len(sources) == 1 else None  # nearly always: its rows need no looking for
    while (source := only if only is not None and only.rows else await _first(sources, kind)) is not None:
        if len(rows) == limit and keep(source.rows[-1]):
            break
        row = source.rows.pop()
        source.last = row
        if keep(row):
            rows.append(row)
            if len(rows) == limit:
                ends = [one.after for one in sources]
        looks_left -= 1
        if not looks_left:
            break
    else:
        return RowPage(rows, None)
    return RowPage(rows, write_cursor(view, kind.name, ends or [one.after for one in sources]))


class _Source(Generic[R]):
    """The rows of one store; those that are read and not yet taken stand in reverse, the next one last."""

    def __init__(self, view: View, store: Store, kind: Kind[R], query: Query) -> None:
        self._view = view
        self._store = store
        self._kind = kind
        self._query = query
        self._is_over = False
        self._begin: Place | None = query.after
        self.rows: list[R] = []
        self.last: R | None = None  # that was taken

    async def fill(self) -> bool:
        """Whether there is a next row."""
        if not self.rows and not self._is_over:
            await self._view.breathe()
            with self._view.beside():
                found = await self._kind.ask(self._store, self._query)
            self._is_over = len(found) < self._query.limit
            if found:
                self._query = replace(self._query, after=self._kind.place(found[-1]), limit=CHUNK_MAX)
            self.rows = found[::-1]
        return bool(self.rows)

    @property
    def after(self) -> Place | None:
        """Where the last row that was taken stands."""
        return self._begin if self.last is None else self._kind.place(self.last)


async def _first(sources: list[_Source[R]], kind: Kind[R]) -> _Source[R] | None:
    """The source with the row that comes first."""
    full = [source for source in sources if await source.fill()]
    if len(full) < 2:
        return full[0] if full else None
    return min(full, key=lambda source: kind.order(source.rows[-1]))


def check_limit(limit: object) -> None:
    """`BadOption` unless it is a number of rows that a page can have."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise BadOption(f"limit must be a whole number from 1 to {LIMIT_MAX}, not {limit!r}", code="limit")


def write_cursor(view: View, kind: str, places: list[Any]) -> str:
    """The places as one opaque text."""
    text = json.dumps([kind, places], ensure_ascii=False, separators=(",", ":"))
    if view.veil is not None:
        return view.veil.seal(text)
    data = text.encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_cursor(
    view: View, cursor: str | None, kind: str, shape: tuple[type, ...], *, count: int
) -> list[Place | None]:
    """The place in each store where the page before ended; `BadOption` for what no page of that kind gave."""
    if cursor is None:
        return [None] * count
    places = open_cursor(view, cursor, kind)
    if len(places) != count:
        raise bad_cursor(cursor)
    return [None if place is None else check_place(place, shape, cursor) for place in places]


def open_cursor(view: View, cursor: object, kind: str) -> list[Any]:
    """What was written, if it was for that kind of page."""
    try:
        if not isinstance(cursor, str) or len(cursor) > CURSOR_CHARS_MAX:
            raise ValueError
        if view.veil is not None:
            parts = json.loads(view.veil.open(cursor) or "")
        else:
            parts = json.loads(base64.b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}", altchars=b"-_", validate=True))
        if not isinstance(parts, list) or len(parts) != 2 or parts[0] != kind or not isinstance(parts[1], list):
            raise ValueError
    except (ValueError, RecursionError):
        raise bad_cursor(cursor) from None
    places: list[Any] = parts[1]
    return places


def check_place(place: object, shape: tuple[type, ...], cursor: object) -> Place:
    """The place, if it is one: a store must never see values of other types."""
    if not isinstance(place, list) or len(place) != len(shape):
        raise bad_cursor(cursor)
    for value, wanted in zip(place, shape, strict=True):
        if type(value) is not wanted or (isinstance(value, int) and not -_INT_MAX <= value < _INT_MAX):
            raise bad_cursor(cursor)
        if isinstance(value, str) and ("\0" in value or not _is_utf8(value)):
            raise bad_cursor(cursor)
    return tuple(place)


def bad_cursor(cursor: object) -> BadOption:
    shown = cursor if isinstance(cursor, str) and len(cursor) <= 80 else f"{str(cursor)[:60]}…"
    return BadOption(f"cursor {shown!r} is not where a page of this list ended; begin without one", code="cursor")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
