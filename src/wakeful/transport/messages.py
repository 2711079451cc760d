"""Layer 2. What can be asked of a running node, and how do answers and errors look on the way?"""

import traceback
from typing import Any

from msgspec import Struct

from wakeful.values import errors
from wakeful.values.codec import encode
from wakeful.values.errors import Fenced, LinkLost, TurnFailed, Unavailable, WakefulError

TRACEBACK_CHARS_MAX = 20_000


class CallRequest(Struct, tag="call"):
    """Run a method of an object. `args` and `kwargs` are bytes of the codec."""

    number: int
    cls: str
    key: str
    method: str
    args: bytes
    kwargs: bytes
    request_key: str | None = None
    deadline_ms: int | None = None


class RedriveRequest(Struct, tag="redrive"):
    """Set parked timers due again: these numbers, or all that the filters leave."""

    number: int
    numbers: list[int] = []
    all: bool = False
    cls: str | None = None
    key: str | None = None
    store: str = ""  # whose numbers these are, by its URL: a program may have several; without: the main one's


class StatusRequest(Struct, tag="status"):
    """How is the node? A program of several stores has one for each."""

    number: int
    store: str = ""


Request = CallRequest | RedriveRequest | StatusRequest


class Failure(Struct):
    """An error on its way to the caller. `is_started` is False only where nothing of the call has run."""

    type: str
    code: str
    message: str
    traceback: str
    is_started: bool = True
    body: bytes | None = None  # what the error holds, between nodes


class Reply(Struct):
    """The answer to the request of that number: bytes of the codec, or what went wrong."""

    number: int
    answer: bytes | None = None
    failure: Failure | None = None


def answered(number: int, value: Any) -> Reply:
    """A good answer; an answer that can't be encoded is an error like any other."""
    return Reply(number, answer=encode(value))


def failed(number: int, error: BaseException) -> Reply:
    """What the caller needs in order to raise it again."""
    return Reply(number, failure=failure_of(error))


def failure_of(error: BaseException) -> Failure:
    """The error as it travels."""
    if isinstance(error, TurnFailed):
        return Failure(error.remote_type, error.code, error.message, error.remote_traceback)
    if isinstance(error, Fenced):
        moved = Unavailable("the object is moving to another node; try again", code="object.moved")
        return Failure("Unavailable", moved.code, moved.message, "")
    trace = "".join(traceback.format_exception(error))[-TRACEBACK_CHARS_MAX:]
    if isinstance(error, WakefulError) and _named(type(error).__name__) is type(error):
        is_started = error.was_sent if isinstance(error, LinkLost) else True
        return Failure(type(error).__name__, error.code, error.message, trace, is_started)
    text = "".join(traceback.format_exception_only(error)).strip()
    return Failure(f"{type(error).__module__}.{type(error).__qualname__}", "", text, trace)


def raised(failure: Failure) -> WakefulError:
    """The error itself where it is one of ours, else `TurnFailed` with what is known of it."""
    kind = _named(failure.type)
    if kind is not None and kind is not TurnFailed:
        error = kind(failure.message, code=failure.code)
        if isinstance(error, LinkLost):
            error.was_sent = failure.is_started
        error.__notes__ = [failure.traceback] if failure.traceback else []
        return error
    return TurnFailed(
        failure.message,
        remote_type=failure.type.removeprefix("builtins."),
        remote_traceback=failure.traceback,
        code=failure.code or None,
    )


def _named(name: str) -> type[WakefulError] | None:
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, WakefulError) else None
