"""Layer 5. Which objects are there, and what does one of them hold? Seen from its rows, without waking it."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from wakeful.policy.ranges import past_prefix
from wakeful.store.protocol import Query, Range, Views
from wakeful.values.commits import STATE_SLOT, USER, Info
from wakeful.values.ids import RESERVED, ObjectId
from wakeful.values.timers import Timer
from wakeful.values.times import to_datetime
from wakeful.views import due, ledger, machines, migrations, parked, schedules
from wakeful.views.pages import OBJECTS, RowPage, ViewPage, check_limit, find, read_cursor, write_cursor
from wakeful.views.plain import Instant, OfObject, iso, plain_of
from wakeful.views.view import View

LEDGER_ROWS = 10
PAGE = 500  # objects that are read at once, of all that somebody wants
PAGE_BYTES = 1 << 20  # of values: one may have two mebibytes, and a page a thousand of them
SCAN_MAX = 16  # rows that are read at once, because of that
THREAD_BYTES = 1 << 16
_PAST_RESERVED = "wakeful/"  # in byte order right behind all of "wakeful.", and no class can be called so
_STORAGE = "storage"


class ObjectRow(NamedTuple):
    """An object and what it does next."""

    info: Info
    timer: Timer | None


class PlainNext(TypedDict):
    """What an object does next."""

    timer: str
    due_at: Instant


class PlainObjectRow(OfObject):
    """An object of a list in the terms of JSON."""

    rows: int
    bytes: int
    created_at: Instant
    active_at: Instant
    next: PlainNext | None


class PlainStored(TypedDict):
    """A stored value in the terms of JSON."""

    key: str
    value: Any
    bytes: int


class PlainObject(OfObject):
    """An object with everything that it has, in the terms of JSON."""

    created_at: Instant
    active_at: Instant
    rows: int
    bytes: int
    timers: list[due.PlainTimer]
    timers_are_cut: bool
    parked: list[parked.PlainParked]
    ledger: list[ledger.PlainEntry]
    ledger_is_cut: bool
    state: Any
    storage: dict[str, Any]
    storage_is_cut: bool
    machine: dict[str, Any] | None
    schedules: list[schedules.PlainSchedule]
    schedules_are_cut: bool
    migrations: int


async def page(
    view: View,
    cls: str | None = None,
    prefix: str | None = None,
    contains: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    reserved: bool = False,
) -> ViewPage[PlainObjectRow]:
    """Objects by class and key; `prefix` and `contains` are of the key, `reserved` adds those that Wakeful keeps."""
    found = await rows(view, cls, prefix, contains, limit, cursor, reserved=reserved)
    return ViewPage(await view.each(plain_row, found.rows), found.cursor)


async def rows(
    view: View,
    cls: str | None = None,
    prefix: str | None = None,
    contains: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    *,
    reserved: bool = False,
) -> RowPage[ObjectRow]:
    """The same before they are plain."""
    query = Query(cls=cls, key_prefix=prefix, key_contains=contains)
    found = await find(view, OBJECTS if reserved or cls is not None else _OWN, query, limit=limit, cursor=cursor)
    ids = [info.id for info in found.rows]
    timers = await view.together(view.store_of(id).find_timers(Query(cls=id.cls, key=id.key, limit=1)) for id in ids)
    some = [ObjectRow(info, next(iter(first), None)) for info, first in zip(found.rows, timers, strict=True)]
    return RowPage(some, found.cursor)


async def _own_objects(store: Views, query: Query) -> list[Info]:
    """Those of the program's own classes, past the others in one step however many they are."""
    found = await store.find_objects(query)
    own = [info for info in found if not info.id.cls.startswith(RESERVED)]
    if len(own) == len(found):
        return own
    rest = await store.find_objects(replace(query, after=(_PAST_RESERVED, "")))
    before = [info for info in own if info.id.cls < RESERVED]
    return [*before, *rest][: query.limit]


_OWN = dataclasses.replace(OBJECTS, ask=_own_objects)


async def count(view: View, cls: str | None = None, prefix: str | None = None, *, reserved: bool = False) -> int:
    """How many objects there are, of the class or of the program's own; reads through an index of all of them."""
    total = 0
    with view.beside():
        for store in view.stores:
            total += await store.count("objects", cls=cls, key_prefix=prefix)
            if cls is None and not reserved:
                for name in await store.known_classes():
                    if name.startswith(RESERVED):
                        total -= await store.count("objects", cls=name, key_prefix=prefix)
    return total


class ObjectInfo(Struct, frozen=True):
    """An object of a class as `app.objects` finds it: its key, since when it is there, when it last wrote, how much it keeps.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Order(DurableObject):
    ...     async def open(self, total: int) -> None:
    ...         await self.storage.put("total", total)
    >>> async with app.run("memory:"):
    ...     await app.get(Order, "acme/2").open(30)
    ...     await app.get(Order, "acme/1").open(20)
    ...     print([(order.key, order.rows) async for order in app.objects(Order, prefix="acme/")])
    [('acme/1', 1), ('acme/2', 1)]
    """

    key: str
    created_at: datetime
    active_at: datetime
    rows: int
    bytes: int


async def each(view: View, cls: str, prefix: str) -> AsyncIterator[ObjectInfo]:
    """Objects of the class in order of their keys, read a page at a time: those that come and go meanwhile may be missed."""
    cursor: str | None = None
    while True:
        found = await find(view, OBJECTS, Query(cls=cls, key_prefix=prefix or None), limit=PAGE, cursor=cursor)
        for info in found.rows:
            times = to_datetime(info.created_at), to_datetime(info.active_at)
            yield ObjectInfo(info.id.key, *times, info.rows, info.bytes)
        if (cursor := found.cursor) is None:
            return


def plain_row(row: ObjectRow) -> PlainObjectRow:
    """One object of a list."""
    info, timer = row
    return {
        "class": info.id.cls,
        "key": info.id.key,
        "rows": info.rows,
        "bytes": info.bytes,
        "created_at": iso(info.created_at),
        "active_at": iso(info.active_at),
        "next": None if timer is None else {"timer": timer.name, "due_at": iso(timer.due_at)},
    }


async def show(view: View, id: ObjectId, limit: int = 50) -> PlainObject:
    """One object with everything that it has, at most `limit` of each; `UnknownObject` when there is none."""
    check_limit(limit)
    info, store = await view.info(id), view.store_of(id)
    state = await store.read(id, STATE_SLOT[0], [STATE_SLOT[1]])
    kept = await machines.kept_of(store, id)
    stored = await storage(view, id, limit=limit)
    timers = await due.page(view, id.cls, id.key, limit=limit)
    parks = await parked.page(view, id.cls, id.key, limit=limit)
    entries = await ledger.page(view, id, limit=LEDGER_ROWS)
    own_schedules = await schedules.page(view, id.cls, id.key, limit=limit)
    return {
        "class": id.cls,
        "key": id.key,
        "created_at": iso(info.created_at),
        "active_at": iso(info.active_at),
        "rows": info.rows,
        "bytes": info.bytes,
        "timers": timers.rows,
        "timers_are_cut": timers.cursor is not None,
        "parked": parks.rows,
        "ledger": entries.rows,
        "ledger_is_cut": entries.cursor is not None,
        "state": plain_of(state[STATE_SLOT[1]]) if state else None,
        "storage": {row["key"]: row["value"] for row in stored.rows},
        "storage_is_cut": stored.cursor is not None,
        "machine": None if kept is None else machines.plain_machine(kept),
        "schedules": own_schedules.rows,
        "schedules_are_cut": own_schedules.cursor is not None,
        "migrations": await migrations.number_of(store, id),
    }


async def storage(
    view: View, id: ObjectId, prefix: str | None = None, limit: int = 50, cursor: str | None = None
) -> ViewPage[PlainStored]:
    """What the object's own code stored, in the order of its keys: key, value, and how many bytes that is on disk.

    A page has no more than about a mebibyte of values, or one value.
    """
    check_limit(limit)
    [after] = read_cursor(view, cursor, _STORAGE, (str,), count=1)
    first = prefix or ""
    if after is not None:
        first = max(first, _behind(after[0]), key=str.encode)
    last = past_prefix(prefix) if prefix else None
    some: list[tuple[str, bytes]] = []
    size, is_more, is_full = 0, True, False
    while is_more and not is_full:
        count = min(limit + 1 - len(some), SCAN_MAX)
        chunk = await view.store_of(id).scan(id, USER, Range(first, last, limit=count))
        is_more = len(chunk) == count
        for name, data in chunk:
            is_full = len(some) == limit or (size + len(data) > PAGE_BYTES and bool(some))
            if is_full:
                break
            some.append((name, data))
            size += len(data)
        first = _behind(chunk[-1][0]) if chunk else first
    if size <= THREAD_BYTES:
        rows = _plain_stored(some)
    else:  # a million numbers take longer than timers may wait
        rows = await asyncio.to_thread(_plain_stored, some)
    return ViewPage(rows, write_cursor(view, _STORAGE, [[some[-1][0]]]) if is_full else None)


def _behind(name: str) -> str:
    """The next text there is, in the order of bytes."""
    return f"{name}\0"


def _plain_stored(rows: list[tuple[str, bytes]]) -> list[PlainStored]:
    return [{"key": name, "value": plain_of(data), "bytes": len(data)} for name, data in rows]
