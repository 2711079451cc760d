"""Layer 6. How is a method of an object called from outside?

The body is JSON: a list of arguments by place, an object of them by name, nothing for none. Our own client sends the
codec's bytes instead, as `[args, kwargs]`. Nothing of an argument that does not fit its annotation reaches the object.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wakeful.http.arguments import Signature
from wakeful.http.asks import MSGPACK, Answer, Ask, result
from wakeful.http.problems import Problem, Raised
from wakeful.runtime.requests import check_request_key
from wakeful.values.errors import BadTime, WakefulError
from wakeful.values.times import duration_ms
from wakeful.values.tracing import TRACE

if TYPE_CHECKING:
    from wakeful.runtime.registry import ObjectClass

DEADLINE_MAX_MS = 900_000  # a quarter of an hour, as long as an alarm may run

_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


async def call(ask: Ask) -> Answer:
    """Call the method; the answer is durable when it comes."""
    from wakeful.http.looks import connection_of

    params, node = ask.params, ask.node
    id = await ask.gate.exposed(connection_of(ask), ask.who, params["class"], params["key"], params["method"])
    method = params["method"]
    media, value = ask.media, ask.value()
    args, kwargs = arguments_of(signature_of(node.registry.named(id.cls), method), value, media)
    key = request_key(ask)
    deadline_ms = deadline_of(ask)
    take_trace(ask)
    try:
        answer = await node.send(id, method, args, kwargs, deadline_ms=deadline_ms, request_key=key)
    except WakefulError:
        raise
    except Exception as error:
        raise Raised(error) from None
    return result(answer, media)


@lru_cache(maxsize=4_096)
def _signature(cls: type, owner: str, method: str, has_run: bool) -> Signature:
    return Signature(owner, method, getattr(cls, method), has_run=has_run)


def signature_of(known: "ObjectClass", method: str, *, has_run: bool = False) -> Signature:
    """What the method takes, looked at once; `has_run`: from a schedule, which gives it its run besides."""
    return _signature(known.cls, known.name, method, has_run)


def arguments_of(signature: Signature, value: Any, media: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a body."""
    if media != MSGPACK:
        return signature.read(value)
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Problem(400, "body.msgpack", "the body must be [args, kwargs]")
    args, kwargs = value
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise Problem(400, "body.msgpack", "the body must be [args, kwargs]")
    return signature.converted(list(args), kwargs)


def request_key(ask: Ask) -> str | None:
    """The key under which the first answer is remembered; bare or in quotes, as the draft of that header has it."""
    text = ask.header(b"idempotency-key")
    if text is None:
        return None
    text = text.strip()
    if len(text) > 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return check_request_key(text)


def deadline_of(ask: Ask) -> int | None:
    """How long the caller is ready to wait, by header or query: seconds, or text like `1m30s`."""
    text = ask.header(b"wakeful-deadline") or ask.query.get("deadline")
    if text is None:
        return None
    return length_of(text, "deadline", DEADLINE_MAX_MS)


def length_of(text: str, what: str, most_ms: int) -> int:
    """A length of time in a URL or header."""
    text = text.strip()
    try:
        ms = duration_ms(float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else text[:40], what=what)
    except BadTime as error:
        raise Problem(400, f"{what}.form", error.message) from None
    if not 1 <= ms <= most_ms:
        raise Problem(400, f"{what}.range", f"{what} {text[:40]!r}: from a millisecond to {most_ms // 1000} s")
    return ms


def take_trace(ask: Ask) -> None:
    """What runs because of this request belongs to the caller's trace; one that can't be read is left alone."""
    text = None
    for name, value in ask.scope["headers"]:
        if name == b"traceparent":
            text = value.decode("latin-1").strip()
    if text is not None and _TRACE.fullmatch(text):
        TRACE.set(text)
