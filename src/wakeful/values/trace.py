"""Layer 0. Which trace does the running code belong to, and how does a timer carry it?

A trace is a text: a W3C `traceparent`; `UNSAMPLED` when it was decided that nobody looks at it; `~` and a
`traceparent` for something that is linked to that span but begins a trace of its own, as each run of a schedule does:
a trace that goes on for a year helps nobody.
"""

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from wakeful.values.ids import ObjectId

UNSAMPLED = "-"
LINK = "~"

# What is scheduled carries it along, and what runs because of that finds it here again. None: nobody decided anything.
TRACE: ContextVar[str | None] = ContextVar("wakeful_trace", default=None)

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MARK = 0xC1  # begins no MessagePack, and no value of the codec
_TEXT_MAX = 64
_QUIET = bytes((_MARK, 1)) + UNSAMPLED.encode()  # all that most timers carry, where most traces are not recorded


def trace_of_header(header: str | None) -> str | None:
    """The `traceparent` header of a request, when it is one; whatever else came is as good as nothing."""
    found = header.strip().lower() if header is not None else ""
    is_one = _PARENT.fullmatch(found[:55]) and (len(found) == 55 or (found[55] == "-" and found[:2] != "00"))
    return found[:55] if is_one else None


def linked_trace(trace: str | None) -> str | None:
    """For something that comes again and again: its own trace each time, linked to this one."""
    return None if trace is None or trace == UNSAMPLED else f"{LINK}{trace.removeprefix(LINK)}"


def with_trace(payload: bytes | None, trace: str | None) -> bytes | None:
    """What a timer carries, with the trace before it."""
    if trace is None or len(trace) > _TEXT_MAX:
        return payload
    if trace == UNSAMPLED and payload is None:
        return _QUIET
    text = trace.encode()
    return bytes((_MARK, len(text))) + text + (payload or b"")


def without_trace(payload: bytes | None) -> bytes:
    """What a timer carries, without the trace."""
    if not payload:
        return b""
    return payload[2 + payload[1] :] if payload[0] == _MARK and len(payload) > 1 else payload


def trace_in(payload: bytes | None) -> str | None:
    """The trace that a timer carries."""
    if payload == _QUIET:
        return UNSAMPLED
    if not payload or payload[0] != _MARK or len(payload) < 2:
        return None
    return payload[2 : 2 + payload[1]].decode("ascii", "replace")


class Span(Protocol):
    """Something that takes time."""

    is_seen: bool  # it is recorded; else it only says that nothing within it is

    def set(self, name: str, value: str | int) -> None: ...

    def end(self, error: BaseException | None = None) -> None:
        """It is over; whatever came before it in this context is what runs again."""
        ...


class Tracer(Protocol):
    """Makes spans of what happens. A node without one pays an `if`."""

    def current(self) -> str | None:
        """The trace that what is scheduled now belongs to."""
        ...

    def enter(self, kind: str, id: ObjectId, name: str, *, parent: str | None, since_ms: int = 0) -> Span | None:
        """Begin a span that the code that follows runs in; None when there is nothing to end.

        `parent` is a trace as a timer carries it; None: whatever is current. `since_ms` is when it began, if that was
        before now.
        """
        ...

    def follow(self, kind: str, id: ObjectId, done: Callable[[Any], None]) -> Callable[[Any], None]:
        """A span from now until `done` is called, with an error or None: what to call instead of it."""
        ...


def current_trace(tracer: Tracer | None) -> str | None:
    """The trace that what is scheduled now belongs to."""
    return TRACE.get() if tracer is None else tracer.current()
