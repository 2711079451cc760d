"""Layer 4. What is kept with a commit, so that its object can be as it was before, and in which rows?

One undo image for each commit: what every row, page and timer that it changed was before. The name of its row is a
bookmark: the time of the commit and a number within that millisecond, so that names are in the order of commits.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from wakeful.store.protocol import Range
from wakeful.values.commits import FORGOTTEN_SLOT, HISTORY, HISTORY_SLOT, PAGES, SYSTEM, USER, Slot
from wakeful.values.errors import BadOption, BadTime, Undecodable, UnknownPoint
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM, Timer
from wakeful.values.times import LATEST_MS, from_datetime, to_datetime

Scan = Callable[[ObjectId, int, Range], Awaitable[list[tuple[str, bytes]]]]

PART_BYTES = 1_048_576  # of one row; a larger image has several
PAGE = 32  # rows that are read at once
_TURNS_MAX = 0xFFFF
_BOOKMARK = re.compile("[0-9a-f]{12}-[0-9a-f]{4}")
_CHARS = 17
_FIRST = "-000"  # how the name of an image's first row ends

# What is no part of the object as it was: who is connected to it, and what waits for jobs.
_LEFT = ("socket", "jobs.")
# Timers of its own, and what is kept beside those of schedules and actions. Jobs and messages are others' wishes, and stay.
TIMERS = frozenset({ALARM, "schedule", "run", "machine", "machine-do", "machine-run"})
_TIMER_ROWS = ("schedule", "run:", "machine.sender:")

TimerFields = tuple[int, int, int, int, int, bytes | None]  # due_at, nominal_at, seq, attempt, priority, payload


class Image(Struct, frozen=True, array_like=True):
    """What a commit changed, as it was before; None: it was not there."""

    by: str  # the method or timer
    caller: str  # the object whose turn called, if one did
    rows: list[tuple[int, str, bytes | None]]
    timers: dict[str, TimerFields | None]
    to: str = ""  # the bookmark that the commit went back to


_encoder = msgspec.msgpack.Encoder()
_images = msgspec.msgpack.Decoder(Image)


def is_kept(slot: Slot) -> bool:
    """The row is a part of the object as it was."""
    if slot[0] != SYSTEM:
        return slot[0] in (USER, PAGES)
    return slot not in (HISTORY_SLOT, FORGOTTEN_SLOT) and not slot[1].startswith(_LEFT)


def is_of_timers(slot: Slot) -> bool:
    """The row belongs to a timer."""
    return slot[0] == SYSTEM and slot[1].startswith(_TIMER_ROWS)


def is_own(timer: str) -> bool:
    """The timer of that name is a part of the object as it was."""
    return timer.partition(":")[0] in TIMERS


def timer_fields(timer: Timer) -> TimerFields:
    """What is kept of it: not that somebody was about to run it."""
    return (timer.due_at, timer.nominal_at, timer.seq, timer.attempt, timer.priority, timer.payload)


def timer_of(id: ObjectId, name: str, fields: TimerFields) -> Timer:
    """The timer again, under the same setting: its schedule knows it by that."""
    due_at, nominal_at, seq, attempt, priority, payload = fields
    return Timer(id, name, due_at, nominal_at, seq, attempt, priority=priority, payload=payload)


# bookmarks


def bookmark(at: int, turn: int = _TURNS_MAX) -> str:
    """The point after that turn of the millisecond; without one, after all of them."""
    return f"{at:012x}-{turn:04x}"


def bookmark_at(when: object) -> str:
    """The last point until then."""
    if not isinstance(when, datetime):
        raise BadTime(f"{when!r} is not a time; give an aware datetime", code="time.type")
    return bookmark(max(0, from_datetime(when)))


def bookmark_after(last: str, now: int) -> str:
    """That of a commit that comes now, after the last one: later than it, whatever the clock says."""
    at, turn = time_of(last), int(last[13:], 16) + 1
    if now > at:
        return bookmark(now, 0)
    return bookmark(at, turn) if turn < _TURNS_MAX else bookmark(at + 1, 0)


def time_of(mark: str) -> int:
    """When it was, in milliseconds."""
    return int(mark[:12], 16)


def is_bookmark(text: str) -> bool:
    """The text could be one."""
    return _BOOKMARK.fullmatch(text) is not None and time_of(text) <= LATEST_MS


def check_bookmark(mark: object) -> str:
    """`BadOption` for what can't be one."""
    if not isinstance(mark, str) or not is_bookmark(mark):
        raise BadOption(
            f"{mark!r} is no bookmark: give one that ctx.bookmark() or `wakeful history` gave", code="history.bookmark"
        )
    return mark


def check_point(id: ObjectId, mark: str, since: str, now: int) -> None:
    """`UnknownPoint` unless it is one between when its history begins and now."""
    at = to_datetime(time_of(mark)).isoformat()
    if mark < since:
        raise UnknownPoint(
            f"{id}: its history begins at {to_datetime(time_of(since)).isoformat()}, and that is a point of {at}: older "
            "images are past keeping, or there were none"
        )
    if time_of(mark) > now:
        raise UnknownPoint(f"{id}: {at} is still to come")


# rows


def rows_of(mark: str, image: Image) -> dict[Slot, bytes | None]:
    """The rows that hold the image."""
    data = _encoder.encode(image)
    if len(data) <= PART_BYTES:
        return {(HISTORY, mark + _FIRST): data}
    parts = range(0, len(data), PART_BYTES)
    return {(HISTORY, f"{mark}-{number:03x}"): data[at : at + PART_BYTES] for number, at in enumerate(parts)}


def point_of(name: str) -> str:
    """The bookmark of the image that has a row of that name."""
    return name[:_CHARS]


def is_image_row(name: str) -> bool:
    """A row of that name could be of an image."""
    return re.fullmatch(f"{_BOOKMARK.pattern}-[0-9a-f]{{3}}", name) is not None


async def read_images(scan: Scan, id: ObjectId, *, after: str = "", before: str | None = None) -> AsyncIterator[Any]:
    """Those after that point (and up to `before`, that one left out), each with its bookmark, the newest first."""
    first, last = f"{after}." if after else "", before  # a dot comes after the dash of all its parts
    parts: list[bytes] = []
    while True:
        page = await scan(id, HISTORY, Range(first, last, True, PAGE))
        for name, data in page:
            parts.append(data)
            if name.endswith(_FIRST):
                yield point_of(name), _decode(id, name, b"".join(reversed(parts)))
                parts = []
        if len(page) < PAGE:
            return
        last = page[-1][0]


def _decode(id: ObjectId, name: str, data: bytes) -> Image:
    try:
        return _images.decode(data)
    except msgspec.DecodeError as error:
        raise Undecodable(f"{id}: the undo image {name} is damaged: {error}", code="history.damaged") from None
