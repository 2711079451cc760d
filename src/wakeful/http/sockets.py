"""Layer 5. A WebSocket to an object: who may have one, and how do its frames become messages?

One ASGI application for `/v1/objects/{class}/{key}/socket`, and for `…/watch` of machines. A refusal is an HTTP answer,
a problem like any other.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.requests import HTTPConnection

from wakeful.http import table
from wakeful.http.asks import Receive, Scope, Send
from wakeful.http.problems import MEDIA, Problem, problem_of
from wakeful.http.rows import TABLE
from wakeful.http.stops import Stops
from wakeful.http.table import read_query
from wakeful.http.watch_socket import RESTARTING, WatchSocket
from wakeful.security.crowd import asker_of
from wakeful.security.gate import COOKIE
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import SocketRequest
from wakeful.values.errors import NotRunning
from wakeful.values.json_patch import json_bytes
from wakeful.values.trace import TRACE, linked_trace

if TYPE_CHECKING:
    from wakeful.deployment import Deployment
    from wakeful.security.gate import Gate
    from wakeful.security.scopes import Caller
    from wakeful.sockets.gateway import Gateway
    from wakeful.sockets.held import Held
    from wakeful.sockets.socket import Message

# Browsers can't send an Authorization header with a WebSocket, so a token may come as an offered protocol.
BEARER = "wakeful.bearer."
PROTOCOL = "wakeful"  # to be offered beside it: a browser wants one of those that it offered
ABORT = "wakeful.abort"  # in the scope: how to hang up at once, from a server that can
NO_CODE = 1005  # what a close without a code is told as
HELD = "wakeful.held"  # and what has come on its connection and nobody has taken yet


async def answer(
    deployment: "Deployment", gate: "Gate", stops: Stops, scope: Scope, receive: Receive, send: Send
) -> None:
    """The whole life of one socket, from the request on."""
    if (await receive())["type"] == "websocket.connect":
        with ExitStack() as room:
            await _connect(deployment, gate, stops, scope, receive, send, room)


async def _connect(
    deployment: "Deployment", gate: "Gate", stops: Stops, scope: Scope, receive: Receive, send: Send, room: ExitStack
) -> None:
    caller: Caller | None = None
    wire, sent = _Wire(scope, send), scope.get(HELD)
    try:
        scope = _with_token(scope)
        cls, key, what = _object_in(scope)
        connection = HTTPConnection(scope)
        caller = await gate.admit(connection, "call", takes_grants=True)
        target = await gate.check_named(connection, caller, cls, key)
        if sent is not None:
            sent.belong(asker_of(caller, key))
        gateway = _gateway(deployment)
        watched: WatchSocket | None = None
        if what == "watch":
            room.enter_context(gateway.watching())
            is_patched = _watch_query(scope)["patches"]
            watched = WatchSocket(deployment, gate, connection, caller, target, is_patched=is_patched)
            await watched.begin()
        else:
            await gate.check_connect(connection, caller)
            held, chosen = await gateway.connect(target, _request(scope, caller), wire)
    except Exception as error:
        await _deny(scope, send, error, caller)
        return
    # Connecting was part of whatever the request came with; what is said later is only linked to it.
    TRACE.set(linked_trace(TRACE.get()))
    if watched is not None:
        await watched.carry(stops, _own_protocol(scope), receive, send)
        return
    with gate.lasting(caller, lambda: held.close(1008, "the token is over; connect with another")):
        await carry(gateway, held, stops, chosen or _own_protocol(scope), wire, receive, send)


async def carry(
    gateway: "Gateway", held: "Held", stops: Stops, protocol: str, wire: "_Wire", receive: Receive, send: Send
) -> None:
    """The socket for as long as the connection and the server last."""
    with stops.lasting(lambda: held.close(RESTARTING, "the server is restarting")):
        await _carry(gateway, held, protocol, wire, receive, send)


async def _carry(gateway: "Gateway", held: "Held", protocol: str, wire: "_Wire", receive: Receive, send: Send) -> None:
    """Messages of the client, one after the other, until the connection ends."""
    code, reason, was_clean = 1006, "", False
    wire.task = asyncio.current_task()
    try:
        await send({"type": "websocket.accept", "subprotocol": protocol or None, "headers": []})
        held.open()
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                code, reason, was_clean = _end_of(event)
                break
            await gateway.receive(held, _message(event))
    except asyncio.CancelledError:
        if wire.task is None or not wire.is_cut:
            gateway.on_lost(held)  # the server waits for nobody; the object hears of it beside that
            raise
        wire.task.uncancel()
    except OSError:
        pass  # how a server says that the client is gone
    except BaseException:
        gateway.on_lost(held)
        raise
    finally:
        wire.task = None
    await gateway.on_disconnect(held, code, reason, was_clean=was_clean)


class _Wire:
    """The server's end of one connection, for the gateway."""

    __slots__ = ("_abort", "_send", "is_cut", "task")

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._abort = scope.get(ABORT)
        self.task: asyncio.Task[Any] | None = None
        self.is_cut = False

    async def send(self, message: "Message") -> None:
        kind = "text" if isinstance(message, str) else "bytes"
        await self._send({"type": "websocket.send", kind: message})

    async def close(self, code: int, reason: str) -> None:
        if code == NO_CODE and self._abort is None:  # only our own server can send a frame without one
            code = 1000
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def abort(self) -> None:
        if self._abort is not None:
            self._abort()
        elif self.task is not None:  # all that ASGI lets us do: end our part
            self.is_cut = True
            self.task.cancel()


def _message(event: Mapping[str, Any]) -> "Message":
    found: Message | None = event.get("text")
    return event["bytes"] if found is None else found


def _end_of(event: Mapping[str, Any]) -> tuple[int, str, bool]:
    """Code, reason, and whether both sides said goodbye."""
    code = event.get("code")
    if code is None or (code == 1005 and "reason" not in event):  # how servers tell of a connection that broke
        code = 1006
    return code, event.get("reason") or "", code != 1006


def _object_in(scope: Scope) -> tuple[str, str, str]:
    """Class, key, and what is wanted of the object: `socket`, or `watch` of a machine."""
    table.check_length(scope)
    segments = table.segments_of(table.raw_of(scope))
    if len(segments) != 5 or segments[:2] != ["v1", "objects"] or segments[4] not in ("socket", "watch"):
        raise Problem(404, "path.unknown", "there is no socket here; /v1/objects/CLASS/KEY/socket has one")
    return segments[2], segments[3], segments[4]


def _watch_query(scope: Scope) -> dict[str, Any]:
    """What is asked of a watch: the same as of the stream at its path."""
    route, _ = TABLE.find("GET", table.segments_of(table.raw_of(scope)))
    return read_query(route, scope.get("query_string", b""))


def _with_token(scope: Scope) -> Scope:
    """The same request, with a token that came as an offered protocol where the gate looks for it."""
    offered = scope.get("subprotocols") or []
    tokens = [one for one in offered if one.startswith(BEARER)]
    if not tokens or any(name == b"authorization" for name, _ in scope["headers"]):
        return scope
    header = (b"authorization", f"Bearer {tokens[0][len(BEARER) :]}".encode("latin-1"))
    return {
        **scope,
        "headers": [*scope["headers"], header],
        "subprotocols": [one for one in offered if one not in tokens],
    }


def _own_protocol(scope: Scope) -> str:
    return PROTOCOL if PROTOCOL in (scope.get("subprotocols") or []) else ""


def _request(scope: Scope, caller: "Caller") -> SocketRequest:
    """What the object is told. Not the token: who has it is said."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    for secret in ("authorization", "sec-websocket-protocol", "sec-websocket-key", "x-csrf-token"):
        headers.pop(secret, None)
    # A session's cookie is as good as its token; the program's own cookies are for the program.
    own = [part.strip() for part in headers.pop("cookie", "").split(";") if part.partition("=")[0].strip() != COOKIE]
    if any(own):
        headers["cookie"] = "; ".join(filter(None, own))
    query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
    client = scope.get("client")
    protocols = tuple(scope.get("subprotocols") or ())
    return SocketRequest(query, headers, protocols, client[0] if client else "", caller.name)


def _gateway(deployment: "Deployment") -> "Gateway":
    if deployment.node is None:
        raise NotRunning("the app is not running; try again")
    return feature_of(deployment.node).gateway


async def _deny(scope: Scope, send: Send, error: Exception, caller: "Caller | None") -> None:
    """Answer the request with a problem; with a bare 403 where the server can't do that."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    is_operator = caller is not None and caller.may("operate")
    found = problem_of(error, table.raw_of(scope).decode("latin-1"), is_operator=is_operator)
    body = json_bytes(found.body)
    headers = [(b"content-type", MEDIA), (b"content-length", b"%d" % len(body)), *found.headers]
    await send({"type": "websocket.http.response.start", "status": found.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
