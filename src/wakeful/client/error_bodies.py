"""Layer 5. From an answer that is no good to the error that the caller gets.

An error of Wakeful's own is of the same class and code as on the server. What the object's code raised is a
`TurnFailed`, and at the same time of the type that was raised, if this process has loaded it: `except ValueError`
means what it says. Nothing is imported and no constructor of the program runs for it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from wakeful.transport.messages import loaded
from wakeful.values import errors
from wakeful.values.errors import BadInput, CallFailed, LimitExceeded, TooMany, TurnFailed, Unavailable, WakefulError

PROBLEM = "application/problem+json"
# Refused before anything was done, so that even what may not be repeated can be sent again.
UNTOUCHED = frozenset({"server.busy", "server.bodies"})
_UNRAISABLE = (StopIteration, StopAsyncIteration)  # mean something else to whoever runs the caller


def error_of(status: int, media: str, headers: Mapping[str, str], body: bytes, where: str) -> Exception:
    """The error that stands for an answer of 400 and more."""
    problem = _problem(media, body)
    if problem is None:
        what = f"{where} answered {status} in words that are not Wakeful's"
        if status >= 500:
            return Unavailable(f"{what}; try again", code="client.gateway")
        return CallFailed(f"{what}; is this the address of its server?", code="client.answer")
    name, code, detail = (str(problem.get(key) or "") for key in ("error", "code", "detail"))
    if name == "TurnFailed":
        return _turn_failure(detail, str(problem.get("remote_type") or ""), str(problem.get("traceback") or ""), code)
    kind = getattr(errors, name, None) if name else None
    if kind is TooMany or (name == "" and status == 429):
        return TooMany(detail, retry_after_s=retry_after_s(headers) or 1.0, code=code)
    if isinstance(kind, type) and issubclass(kind, WakefulError):
        return kind(detail, code=code)
    if status >= 500:
        return (Unavailable if status == 503 else WakefulError)(detail, code=code)
    return (LimitExceeded if status == 413 else BadInput)(detail, code=code)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What the server asks to be waited, in seconds."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def is_unharmed(error: Exception) -> bool:
    """Nothing was done: it may be sent again whatever it is."""
    return isinstance(error, TooMany) or getattr(error, "code", "") in UNTOUCHED


def is_passing(error: Exception) -> bool:
    """It may be another answer next time."""
    return isinstance(error, Unavailable | TooMany)


def _problem(media: str, body: bytes) -> dict[str, Any] | None:
    if media != PROBLEM:
        return None
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _turn_failure(detail: str, name: str, trace: str, code: str) -> TurnFailed:
    shown = name.removeprefix("builtins.")
    found = loaded(name)
    kind = None if found is None else _both(found)
    if kind is not None:
        try:
            # Not its constructor: that of the program's own type takes who knows what.
            error = kind.__new__(kind, detail)
            error.args = (detail,)
            error.message, error.code = detail, code or TurnFailed.default_code
            error.remote_type, error.remote_traceback = shown, trace
            str(error)
            return error
        except Exception:
            pass  # a type that does not bear it; what is known of it has to do
    return TurnFailed(detail, remote_type=shown, remote_traceback=trace, code=code or None)


def _both(kind: type[Exception]) -> type[TurnFailed] | None:
    """A `TurnFailed` that is of that type too; None when the two can't be mixed."""
    if kind not in _mixed:
        try:
            is_ours = issubclass(kind, (*_UNRAISABLE, WakefulError))
            _mixed[kind] = None if is_ours else type(kind.__name__, (TurnFailed, kind), {"__module__": kind.__module__})
        except TypeError:
            _mixed[kind] = None
    return _mixed[kind]


_mixed: dict[type[Exception], type[TurnFailed] | None] = {}
