"""Layer 2. What can be asked of a running node, and how do answers and errors look on the way?"""

import sys
import traceback
from typing import Any

from msgspec import Struct

from wakeful.values import errors
from wakeful.values.codec import decode, encode
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
    is_raised: bool = False  # by the object's own code


class Reply(Struct):
    """The answer to the request of that number: bytes of the codec, or what went wrong."""

    number: int
    answer: bytes | None = None
    failure: Failure | None = None


def good_reply(number: int, value: Any) -> Reply:
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
    if isinstance(error, WakefulError) and _error_class(type(error).__name__) is type(error):
        is_started = error.was_sent if isinstance(error, LinkLost) else True
        return Failure(type(error).__name__, error.code, error.message, trace, is_started, None, error.is_raised)
    text = "".join(traceback.format_exception_only(error)).strip()
    return Failure(f"{type(error).__module__}.{type(error).__qualname__}", "", text, trace)


def error_of(failure: Failure) -> WakefulError:
    """The error itself where it is one of ours, else `TurnFailed` with what is known of it."""
    kind = _error_class(failure.type)
    if kind is not None and kind is not TurnFailed:
        error = kind(failure.message, code=failure.code)
        if isinstance(error, LinkLost):
            error.was_sent = failure.is_started
        error.__notes__ = [failure.traceback] if failure.traceback else []
        if failure.is_raised:
            error.is_raised = True
        return error
    return TurnFailed(
        failure.message,
        remote_type=failure.type.removeprefix("builtins."),
        remote_traceback=failure.traceback,
        code=failure.code or None,
    )


def _error_class(name: str) -> type[WakefulError] | None:
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, WakefulError) else None


# How does an error keep its type between nodes that run the same program?
#
# So that `except ValueError` means the same whether the object lives here or on another node. The
# type is looked for among what this process has loaded: nothing is imported and no constructor of the
# program runs on the way in. What can't be had that way arrives as `TurnFailed`.

# An error that carries more than this carries data; its text will do.
BODY_BYTES_MAX = 64 * 1024


def as_failure(error: BaseException, *, is_started: bool = True) -> Failure:
    """The error as it travels to another node, with what it holds where that can travel."""
    failure = failure_of(error)
    failure.is_started = failure.is_started and is_started
    if not isinstance(error, WakefulError):
        try:
            state = {name: value for name, value in vars(error).items() if name != "__notes__"}
            body = encode((error.args, state))
        except WakefulError:
            body = None
        if body is not None and len(body) <= BODY_BYTES_MAX:
            failure.body = body
    return failure


def error_from(failure: Failure) -> Exception:
    """The error to raise at the caller: of the type that was raised at the node where that is possible."""
    error = _rebuilt(failure)
    if error is None:
        return error_of(failure)
    if failure.traceback:
        error.add_note(failure.traceback)
    return error


def _rebuilt(failure: Failure) -> Exception | None:
    kind = load_class(failure.type) if failure.body is not None else None
    if kind is None or failure.body is None:
        return None
    try:
        args, state = decode(failure.body)
        if kind.__module__ == "builtins":
            return kind(*args)
        error = kind.__new__(kind, *args)
        error.args = args
        error.__dict__.update(state)
        str(error)  # one that can't even be shown is of no use
    except Exception:
        return None
    return error


def load_class(name: str) -> type[Exception] | None:
    """The error class of that full name, if this process has it already."""
    module, _, rest = name.rpartition(".")
    while module:
        if module in sys.modules:
            found: object = sys.modules[module]
            for part in rest.split("."):
                found = getattr(found, part, None)
            is_it = isinstance(found, type) and issubclass(found, Exception) and found.__module__ == module
            return found if is_it else None  # type: ignore[return-value]
        module, _, last = module.rpartition(".")
        rest = f"{last}.{rest}"
    return None
