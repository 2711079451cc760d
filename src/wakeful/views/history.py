"""Layer 5. Which points are there in the history of an object, what did each change, and what would going back to one?"""

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from typing import TypedDict

from msgspec.structs import replace

from wakeful.history.images import (
    Image,
    bookmark_at,
    check_bookmark,
    check_point,
    is_bookmark,
    is_of_timers,
    point_of,
    read_images,
    time_of,
)
from wakeful.history.object_history import ENDED
from wakeful.store.protocol import Range, Store
from wakeful.values.codec import decode
from wakeful.values.commits import HISTORY, HISTORY_SLOT, PAGES, SYSTEM, USER
from wakeful.values.errors import BadTime, LimitExceeded, UnknownObject, UnknownPoint
from wakeful.values.ids import ObjectId
from wakeful.views.databases import pages_of
from wakeful.views.pages import ViewPage
from wakeful.views.plain import Instant, iso, many
from wakeful.views.view import View

SHOWN = 20  # keys of one point
READ_BYTES = 67_108_864  # of images for one page, which may be shorter then, or to say what a return undoes
TABLES_BYTES = 16_777_216  # of a larger database only the number of pages is said
# Which table or index each page is of; an index counts as its table.
_PAGES = (
    "SELECT s.pageno, coalesce(m.tbl_name, s.name) FROM dbstat AS s LEFT JOIN sqlite_schema AS m ON m.name = s.name"
)


class PlainChange(TypedDict):
    """What changed, in the terms of JSON."""

    rows: int  # of its storage
    keys: list[str]  # the first of them
    beside: list[str]  # what Wakeful keeps with it: its state, how many migrations, schedules, the machine
    pages: int
    tables: list[str]  # those that the pages belong to today
    timers: list[str]


class PlainPoint(TypedDict):
    """A commit of an object that can be gone back to."""

    bookmark: str
    at: Instant
    by: str
    caller: str | None
    restored_to: str | None
    changed: PlainChange


class PlainReturn(TypedDict):
    """What going back to a point changes."""

    to: str
    at: Instant
    points: int  # that are undone
    is_cut: bool  # there are more than were read to say so
    leaves_nothing: bool  # it is a point before the object was
    changed: PlainChange


def mark_of(text: str) -> str:
    """The bookmark that a person means by a bookmark or a time."""
    if is_bookmark(text):
        return text
    try:
        return bookmark_at(datetime.fromisoformat(text.strip()))
    except ValueError as error:
        if isinstance(error, BadTime):
            raise
        raise BadTime(
            f"{text!r} is no bookmark and no time; write one like 2026-03-29T02:30Z", code="time.text"
        ) from None


async def page(view: View, id: ObjectId, limit: int = 50, cursor: str | None = None) -> ViewPage[PlainPoint]:
    """The points of an object, newest first."""
    points, more, size = list[tuple[str, Image]](), None, 0
    with view.beside():
        async for mark, image in read_images(view.store_of(id).scan, id, before=cursor and check_bookmark(cursor)):
            if len(points) == limit or size > READ_BYTES:
                more = points[-1][0]
                break
            size += _size(image)
            points.append((mark, _bare(image)))
    tables = await _tables(view, id, [image for _, image in points])
    return ViewPage([_plain(mark, image, tables) for mark, image in points], more)


async def begins(store: Store, id: ObjectId) -> str | None:
    """The first point that the object can go back to; None: it has no history."""
    space, name = HISTORY_SLOT
    data = (await store.read(id, space, [name])).get(name)
    since = None if data is None else decode(data)
    return None if since == ENDED else since


async def preview(view: View, id: ObjectId, mark: str, *, timers: bool = True) -> PlainReturn:
    """What would change; `UnknownPoint` for one that is not there any more."""
    since = await begins(view.store_of(id), id)
    if since is None:
        raise UnknownPoint(f"{id}: it has no history, and can only be what it is")
    newest = await view.store_of(id).scan(id, HISTORY, Range(reverse=True, limit=1))
    last_at = time_of(point_of(newest[0][0])) if newest else 0  # which may be ahead of a clock that was set back
    check_point(id, mark, since, max(view.now(), last_at))
    images, size = list[Image](), 0
    with view.beside():
        async for _, image in read_images(view.store_of(id).scan, id, after=mark):
            if size > READ_BYTES:
                break
            size += _size(image)
            images.append(_bare(image))
    changed = _change(images, await _tables(view, id, images))
    if not timers:
        changed["timers"] = []
        changed["beside"] = [name for name in changed["beside"] if not is_of_timers((SYSTEM, name))]
    oldest = await view.store_of(id).scan(id, HISTORY, Range(limit=1))
    return {
        "to": mark,
        "at": iso(time_of(mark)),
        "points": len(images),
        "is_cut": size > READ_BYTES,
        "leaves_nothing": not time_of(since) and bool(oldest) and mark < point_of(oldest[0][0]),
        "changed": changed,
    }


def _plain(mark: str, image: Image, tables: dict[int, str]) -> PlainPoint:
    return {
        "bookmark": mark,
        "at": iso(time_of(mark)),
        "by": image.by,
        "caller": image.caller or None,
        "restored_to": image.to or None,
        "changed": _change([image], tables),
    }


def _change(images: Iterable[Image], tables: dict[int, str]) -> PlainChange:
    slots = {(space, key) for image in images for space, key, _ in image.rows}
    keys = sorted(key for space, key in slots if space == USER)
    pages = [int(key, 16) for space, key in slots if space == PAGES]
    return {
        "rows": len(keys),
        "keys": keys[:SHOWN],
        "beside": sorted(key for space, key in slots if space == SYSTEM),
        "pages": len(pages),
        "tables": sorted({tables[page] for page in pages if page in tables} - {"sqlite_schema"}),
        "timers": sorted({name for image in images for name in image.timers}),
    }


def _size(image: Image) -> int:
    return sum(len(former or b"") for _, _, former in image.rows)


def _bare(image: Image) -> Image:
    """Without what was: of many points that would be much."""
    return replace(image, rows=[(space, key, None) for space, key, _ in image.rows])


async def _tables(view: View, id: ObjectId, images: Iterable[Image]) -> dict[int, str]:
    """The table of each page, as far as SQLite can tell; nothing when no page changed."""
    if not any(space == PAGES for image in images for space, _, _ in image.rows):
        return {}
    try:
        pages = await pages_of(view, id, TABLES_BYTES)
    except (LimitExceeded, UnknownObject):
        return {}

    def run() -> dict[int, str]:
        with closing(sqlite3.connect(":memory:")) as db:
            db.deserialize(b"".join(pages))
            return dict(db.execute(_PAGES).fetchall())

    try:
        return await asyncio.to_thread(run)
    except sqlite3.Error:
        return {}  # an SQLite that was built without dbstat, or pages that are none


def words(changed: PlainChange) -> str:
    """What changed, for people."""
    rows = changed["keys"] + ([f"and {changed['rows'] - SHOWN:,} more"] if changed["rows"] > SHOWN else [])
    tables = [f"table {name}" for name in changed["tables"]]
    if changed["pages"] and not tables:
        tables = [f"{many(changed['pages'], 'page')} of SQL"]
    timers = [name for name in changed["timers"] if name not in changed["beside"]]
    return ", ".join([*rows, *changed["beside"], *tables, *timers]) or "nothing"
