"""Layer 5. What is the method of a job, a schedule or a parked timer called with?

The values are the program's; they are read without its types, and shown to operators only: what a method is called with may
be meant for nobody else, like what a traceback says. Whoever may only look learns how many there are.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from wakeful.values.codec import decode_loosely
from wakeful.values.errors import Undecodable
from wakeful.views.plain import many, plain, text
from wakeful.views.view import View

LISTED_BYTES = 4_096  # of arguments that a list shows; of larger ones only how large they are
SHOWN_CHARS = 16_384  # of all arguments of one timer, as JSON
EACH_CHARS = 100  # of one of them, however many are before it
COUNT_MAX = 1_000  # that are shown
THREAD_BYTES = 1 << 16  # more take longer to read than timers may wait


class PlainArguments(TypedDict):
    """Arguments in the terms of JSON. One that is too large is its beginning, as text."""

    count: int | None  # None: they were not read, being too many bytes for a list, or damaged
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    left_out: int  # bytes that are not shown for want of room
    is_masked: bool


def brief(view: View, data: bytes | None) -> PlainArguments:
    """For a row of a list: whole, or not at all."""
    if data is not None and len(data) > LISTED_BYTES:
        return _answer(None, left_out=len(data), is_masked=not view.shows_arguments)
    return read(data, is_masked=not view.shows_arguments)


async def show(view: View, data: bytes | None) -> PlainArguments:
    """For one alone: cut to size, and beside the loop where there is much to read."""
    is_masked = not view.shows_arguments
    if data is None or len(data) <= THREAD_BYTES:
        return read(data, is_masked=is_masked)
    return await asyncio.to_thread(read, data, is_masked=is_masked)


def cut(value: Any) -> tuple[Any, int]:
    """A value in the terms of JSON as a page shows it, and how many bytes of it are left out."""
    room = _Room(SHOWN_CHARS)
    return room.fit(value), room.left_out


def words(given: PlainArguments) -> str:
    """On one line, for people: `"tea", 5, when="noon"`."""
    if given["args"] is None or given["kwargs"] is None:
        shown = "?" if given["count"] is None else many(given["count"], "argument")
    else:
        parts = [*map(text, given["args"]), *(f"{name}={text(value)}" for name, value in given["kwargs"].items())]
        shown = ", ".join(parts) or "none"
    return f"{shown} ({given['left_out']:,} bytes left out)" if given["left_out"] else shown


def read(data: bytes | None, *, is_masked: bool) -> PlainArguments:
    """What these bytes stand for, for one who may see it or for one who may not."""
    if data is None:
        return _answer(0, [], {}, is_masked=is_masked)
    try:
        args, kwargs = _check(decode_loosely(data))
        count = len(args) + len(kwargs)
    except (Undecodable, LookupError, TypeError, ValueError) as error:
        shown = [{"$error": str(error)}]
        return _answer(None, shown, {}, is_masked=is_masked)
    if is_masked:
        return _answer(count, is_masked=True)
    room = _Room(SHOWN_CHARS)
    placed = [room.fit(one) for one in room.first(args)]
    named = {str(name): room.fit(kwargs[name]) for name in room.first(kwargs)}
    return _answer(count, placed, named, left_out=room.left_out)


def _check(given: Any) -> tuple[Sequence[Any], dict[Any, Any]]:
    """Arguments, and those with names; `ValueError` for what is damaged so that it is something else."""
    match given:
        case [list() | tuple() as args, dict() as kwargs]:
            return args, kwargs
    raise ValueError(f"these are no arguments: {text(cut(given)[0])}")


def _answer(
    count: int | None,
    args: list[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    *,
    left_out: int = 0,
    is_masked: bool = False,
) -> PlainArguments:
    if is_masked:
        args = kwargs = None
    return {"count": count, "args": args, "kwargs": kwargs, "left_out": left_out, "is_masked": is_masked}


class _Room:
    """How many characters may still be shown, and how many bytes were not."""

    def __init__(self, chars: int) -> None:
        self._left = chars
        self._count = COUNT_MAX
        self.left_out = 0

    def first(self, values: Iterable[Any]) -> list[Any]:
        """As many as may be shown; what the others would have taken is counted."""
        found = list(values)
        some, rest = found[: self._count], found[self._count :]
        self._count -= len(some)
        self.left_out += sum(len(_json(plain(one)).encode(errors="replace")) for one in rest)
        return some

    def fit(self, value: Any) -> Any:
        """The value in the terms of JSON; of one that is too long its beginning, as text."""
        shown = plain(value)
        line = _json(shown)
        room = max(self._left, EACH_CHARS)
        self._left -= min(len(line), room)
        if len(line) <= room:
            return shown
        whole = shown if isinstance(shown, str) else line
        self.left_out += len(whole[room:].encode(errors="replace"))
        return f"{whole[:room]}…"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
