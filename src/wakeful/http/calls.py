"""Layer 5. How is a method of an object called from outside?

The body is JSON: a list of arguments by place, an object of them by name, nothing for none. Our own client sends the
codec's bytes instead, as `[args, kwargs]`. Nothing of an argument that does not fit its annotation reaches the object.
"""

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wakeful.http.asks import MSGPACK, Answer, Ask, result_of
from wakeful.http.problems import Problem, Raised
from wakeful.http.queues import queue_of
from wakeful.http.table import deadline_ms, length_ms, read_query
from wakeful.operations.arguments import Signature, signature_of
from wakeful.values.errors import WakefulError
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.http.table import Route
    from wakeful.runtime.node import Node

KEY = r"[!-~]{1,255}"


async def call(ask: Ask) -> Answer:
    """Call the method; the answer is durable when it comes."""
    from wakeful.http.looks import connection_of
    from wakeful.http.machine_watch import shown_to

    params, node = ask.params, ask.node
    method = params["method"]
    try:
        id = await ask.gate.check_exposed(connection_of(ask), ask.who, params["class"], params["key"], method)
    except WakefulError as error:
        if method == "schedules" and error.code == "method.unknown":  # nobody means a method of that name
            words = "a schedule is made and changed by PUT …/schedules/{name}, with a name of your choice"
            raise Problem(405, "method.not_allowed", words, allow="GET, HEAD, OPTIONS") from None
        raise
    media, is_long = ask.media, ask.is_long
    known = node.registry.by_name(id.cls)
    signature = signature_of(known, method)
    has_queue = method == "start" and getattr(known.cls, "__wakeful_workflow__", False)

    def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
        value = ask.exact_value() if signature.is_exact else ask.value()
        args, kwargs = arguments_of(signature, value, media)
        if has_queue and "queue" in kwargs:
            kwargs = {**kwargs, "queue": queue_of(kwargs["queue"])}
        return node.copy_call(id, method, args, kwargs) if is_long else (args, kwargs)

    args, kwargs = await ask.beside(arguments)
    await ask.gate.check_sent(connection_of(ask), ask.who, method, args)
    key = request_key(ask)
    deadline_ms = deadline_of(ask)
    deadline_at = None if deadline_ms is None else node.clock.now() + deadline_ms
    if ask.waited_ms:  # for the store already, which goes off what a call waits for it
        home = node.home(id)
        await home.outage.over(home.clock.now() + max(0, node.limits.store_wait_ms - ask.waited_ms))
    answer = await deliver(node, id, method, args, kwargs, deadline_ms=deadline_ms, request_key=key, is_carried=is_long)
    return await result_of(await shown_to(node, id, answer, ask.who, deadline_at=deadline_at), media, ask.asker)


async def deliver(
    node: "Node",
    id: ObjectId,
    method: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    request_key: str | None,
    is_carried: bool,
    deadline_ms: int | None = None,
) -> Any:
    """What the object answers; what its own code raises is kept apart from what may go wrong on the way."""
    try:
        return await node.send(
            id, method, args, kwargs, deadline_ms=deadline_ms, request_key=request_key, is_carried=is_carried
        )
    except WakefulError:
        raise
    except Exception as error:
        raise Raised(error) from None


def arguments_of(signature: Signature, value: Any, media: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a body."""
    if media != MSGPACK:
        return signature.read(value)
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Problem(400, "body.msgpack", "the body must be [args, kwargs]")
    args, kwargs = value
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise Problem(400, "body.msgpack", "the body must be [args, kwargs]")
    return signature.convert(list(args), kwargs)


def request_key(ask: Ask) -> str | None:
    """The key under which the first answer is remembered; bare or in quotes, as the draft of that header has it."""
    text = ask.header(b"idempotency-key")
    if text is None:
        return None
    if not re.fullmatch(KEY, text):
        raise Problem(400, "request.key.form", "Idempotency-Key: 1 to 255 characters of ASCII without spaces")
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text


def deadline_of(ask: Ask) -> int | None:
    """How long the caller is ready to wait, by header or query; `Problem` for one that is none, or too long."""
    asked: int | None = ask.query.get("deadline")
    text = ask.header(b"wakeful-deadline")
    if text is not None:
        asked = deadline_ms(text, "Wakeful-Deadline ")
    if asked is None:
        return max(1, ask.node.limits.call_deadline_ms - ask.waited_ms) if ask.waited_ms else None
    return max(1, asked - ask.waited_ms)


def is_call(route: "Route") -> bool:
    """It calls an object, within a deadline."""
    return "Wakeful-Deadline" in route.headers


def early_deadline(ask: Ask, route: "Route") -> int | None:
    """That of a call before anybody was let in: what is wrong with it is said later."""
    with suppress(Problem):
        text, query = ask.header(b"wakeful-deadline"), ask.scope["query_string"]
        if text is not None:
            return length_ms(text)
        found: int | None = read_query(route, query)["deadline"] if query else None  # most calls have neither
        return found
    return None
