"""Layer 5. Events as they happen, as server-sent events.

A reader holds a place in the node's ring of events and nothing else, so one that is slow costs no memory: it loses the
oldest and is told how many. What it is sent waits in the socket, and while that is full nothing more is read.
"""

import asyncio
from contextlib import suppress
from typing import Any

from wakeful.http.asks import Answer, Ask, json_bytes
from wakeful.looking.view import is_shown
from wakeful.runtime.events import KINDS, Event, Listener
from wakeful.values.ids import ObjectId

HEARTBEAT_MS = 15_000  # proxies close what is silent for a minute
SEND_TIMEOUT_S = 60.0  # a reader that takes nothing for so long has gone
RETRY_MS = 2_000  # when a browser comes back by itself
BATCH = 200


async def events(ask: Ask) -> Answer | None:
    """The stream: each event with its id, a comment when nothing happens, until client, token or node go."""
    node = ask.node
    listener = _listener(ask)
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    if ask.scope["method"] == "HEAD":
        await ask.send({"type": "http.response.start", "status": 200, "headers": headers})
        await ask.send({"type": "http.response.body"})
        return None
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    async with listener:
        await ask.send({"type": "http.response.start", "status": 200, "headers": headers})
        last = f"id: {node.name}-{listener.number}\n"
        await _send(ask, f"retry: {RETRY_MS}\n{last}: events of {', '.join(KINDS)}\n\n".encode())
        hangup = asyncio.ensure_future(_hangup(ask))
        try:
            with ask.gate.lasting(ask.who, end):
                await _tell(ask, listener, {hangup, over})
            with suppress(OSError):
                await _send(ask, b"event: gone\ndata: {}\n\n" if over.done() else b"", is_last=True)
        except TimeoutError:
            pass  # it takes nothing any more; the server closes the connection
        except asyncio.CancelledError:  # the server stops: the client hears that it is over, and comes back elsewhere
            await _send(ask, b"event: gone\ndata: {}\n\n", is_last=True)
        finally:
            hangup.cancel()
    return None


async def _tell(ask: Ask, listener: Listener, ends: "set[asyncio.Future[Any]]") -> None:
    """Events as they come, until one of these ends it, or the node stops."""
    events = ask.node.events
    while not events.is_over and not any(end.done() for end in ends):
        some: asyncio.Future[Any] = asyncio.ensure_future(listener.some(limit=BATCH, wait_ms=HEARTBEAT_MS))
        try:
            await asyncio.wait({some, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not some.done():
                some.cancel()
        if not some.done():
            with suppress(asyncio.CancelledError):
                await some
            return
        found = some.result()
        if events.is_over or any(end.done() for end in ends):
            return
        await _send(ask, b"".join(_frame(ask.node.name, *one) for one in found) or b": still here\n\n")


def _listener(ask: Ask) -> Listener:
    node, who = ask.node, ask.who
    kinds = ask.query["kinds"]
    last = ask.header(b"last-event-id")
    after: int | None = None
    if last is not None:
        name, _, number = last.strip().rpartition("-")
        if number.isascii() and number.isdigit() and len(number) < 19 and name == node.name:
            after = int(number)

    def sees(event: Event) -> bool:
        cls = event.get("class")
        if cls is None:
            return who.tenant is None
        return is_shown(cls) and who.sees(ObjectId(cls, event["key"]))

    return node.events.listen(kinds=kinds, after=after, since=ask.query["since"], sees=sees, reserved=True)


def read_kinds(text: str) -> list[str]:
    """`run,parked` as a list."""
    kinds = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"give some of {', '.join(KINDS)}, joined by commas")
    return kinds


def _frame(node: str, number: int, event: dict[str, Any]) -> bytes:
    return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (node.encode(), number, event["kind"].encode(), json_bytes(event))


async def _send(ask: Ask, body: bytes, *, is_last: bool = False) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await ask.send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def _hangup(ask: Ask) -> None:
    """Until the client has gone."""
    while (await ask.receive())["type"] != "http.disconnect":
        pass
