"""Layer 5. Events as they happen, as server-sent events.

A reader holds a place in the node's ring of events and nothing else, so one that is slow costs no memory: it loses the
oldest and is told how many. What it is sent waits in the socket, and while that is full nothing more is read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from wakeful.http.asks import Answer, Ask
from wakeful.runtime.events import KINDS, Event, Listener
from wakeful.values.ids import ObjectId
from wakeful.values.json_patch import json_bytes
from wakeful.views.view import is_shown

HEARTBEAT_MS = 15_000  # proxies close what is silent for a minute
SEND_TIMEOUT_S = 60.0  # a reader that takes nothing for so long has gone
RETRY_MS = 2_000  # when a browser comes back by itself
BATCH = 200


HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
Ends = set[asyncio.Future[Any]]


async def events(ask: Ask) -> Answer | None:
    """The stream: each event with its id, a comment when nothing happens, until client, token or node go."""
    listener, has_lost = _listener(ask)
    if ask.scope["method"] == "HEAD":
        await only_head(ask)
        return None
    async with listener:
        last = f"id: {_id(ask, listener.number)}\n"
        first = f"retry: {RETRY_MS}\n{last}: events of {', '.join(KINDS)}\n\n".encode()
        if has_lost:  # and nobody knows how many
            first += _frame(ask, listener.number, {"kind": "lost", "at": ask.node.clock.now(), "count": None})
        await run_stream(ask, first, lambda ends: _tell(ask, listener, ends))
    return None


async def only_head(ask: Ask) -> None:
    """What stands above a stream."""
    await ask.send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await ask.send({"type": "http.response.body"})


async def run_stream(ask: Ask, first: bytes, tell: Callable[[Ends], Awaitable[None]]) -> None:
    """A stream that begins so and is told by `tell`, until client, token or node go; `tell` sees that by these futures."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    await ask.send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await put(ask, first)
    hangup = asyncio.ensure_future(_hangup(ask))
    try:
        with ask.gate.lasting(ask.who, end):
            await tell({hangup, over})
        with suppress(OSError):
            await put(ask, b"event: gone\ndata: {}\n\n" if over.done() else b"", is_last=True)
    except TimeoutError:
        pass  # it takes nothing any more; the server closes the connection
    except asyncio.CancelledError:  # the server stops: the client hears that it is over, and comes back elsewhere
        await put(ask, b"event: gone\ndata: {}\n\n", is_last=True)
    finally:
        hangup.cancel()


async def unless(ends: Ends, work: Coroutine[Any, Any, Any]) -> Any:
    """What the work comes to; None when one of these ends it first."""
    some: asyncio.Future[Any] = asyncio.ensure_future(work)
    try:
        await asyncio.wait({some, *ends}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not some.done():
            some.cancel()
    if not some.done():
        with suppress(asyncio.CancelledError):
            await some
        return None
    found = some.result()
    return None if any(end.done() for end in ends) else found


async def _tell(ask: Ask, listener: Listener, ends: Ends) -> None:
    """Events as they come, until one of these ends it, or the node stops."""
    events = ask.node.events
    while not events.is_over and not any(end.done() for end in ends):
        found = await unless(ends, listener.some(limit=BATCH, wait_ms=HEARTBEAT_MS))
        if found is None or events.is_over:
            return
        await put(ask, b"".join(_frame(ask, *one) for one in found) or b": still here\n\n")


def _listener(ask: Ask) -> tuple[Listener, bool]:
    """A place in the stream, and whether something was lost before it."""
    node, who = ask.node, ask.who
    kinds, since = ask.query["kinds"], ask.query["since"]
    last = ask.header(b"last-event-id")
    after = None if last is None else _number(ask, last.strip())
    has_lost = bool(last) and after is None  # where there was a gap, the ring itself says so
    if after is not None:
        since = None  # of the first time, which a browser sends again

    def sees(event: Event) -> bool:
        cls = event.get("class")
        if cls is None:
            return who.tenant is None
        return is_shown(cls) and who.sees(ObjectId(cls, event["key"]))

    return node.events.listen(kinds=kinds, after=after, since=since, sees=sees, reserved=True), has_lost


def read_kinds(text: str) -> list[str]:
    """`run,parked` as a list."""
    kinds = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"give some of {', '.join(KINDS)}, joined by commas")
    return kinds


def _id(ask: Ask, number: int) -> str:
    """What a reader comes back with; for one who is bound to a tenant it does not say how many there were."""
    said = number if ask.who.tenant is None else ask.gate.veil.hide(number)
    return f"{ask.node.name}-{said}"


def _number(ask: Ask, id: str) -> int | None:
    """The number of the event of that id; None when it is of another node, of one that was restarted, or of none."""
    name, _, said = id.rpartition("-")
    if name != ask.node.name:
        return None
    if ask.who.tenant is not None:
        number = ask.gate.veil.show(said)
    else:
        number = int(said) if said.isascii() and said.isdigit() and len(said) < 19 else None
    return number if number is not None and number < ask.node.events.ring.next else None


def _frame(ask: Ask, number: int, event: dict[str, Any]) -> bytes:
    if event["kind"] == "lost" and ask.who.tenant is not None:
        event = event | {"count": None}  # most of them were of others
    elif event["kind"] in ("redriven", "dropped") and ask.who.veil is not None:
        event = event | {"number": ask.who.veil.mask(event["number"])}
    kind, id = event["kind"].encode(), _id(ask, number).encode()
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (id, kind, json_bytes(event))


async def put(ask: Ask, body: bytes, *, is_last: bool = False) -> None:
    """The next part of it; `TimeoutError` when nobody reads."""
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await ask.send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def _hangup(ask: Ask) -> None:
    """Until the client has gone."""
    while (await ask.receive())["type"] != "http.disconnect":
        pass
