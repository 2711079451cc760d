"""Layer 5. What do requests count, and to which trace do they belong?"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from wakeful.values.metrics import LASTING, ROUTE
from wakeful.values.trace import TRACE, trace_of_header

if TYPE_CHECKING:
    from wakeful.deployment import Deployment

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

_PARTS = frozenset(
    ("audit", "classes", "due", "events", "jobs", "ledger", "nodes", "objects", "parked", "schedules", "search")
)
_PLACES = frozenset(("healthz", "metrics", "openapi.json", "readyz", "static"))
_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))


class Measured:
    """Another ASGI app, whose requests are counted and take part in the trace that they came with."""

    def __init__(self, inner: Asgi, deployment: "Deployment") -> None:
        self._inner = inner
        self._deployment = deployment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._inner(scope, receive, send)
            return
        header = next((value for name, value in scope.get("headers", ()) if name == b"traceparent"), None)
        trace = None if header is None else trace_of_header(header.decode("latin-1"))
        token = None if trace is None else TRACE.set(trace)
        try:
            if scope["type"] == "http":
                await self._count(scope, receive, send)
            else:
                await self._inner(scope, receive, send)
        finally:
            if token is not None:
                TRACE.reset(token)

    def add_refused(self, status: int) -> None:
        """One that the server answered itself: it was no request, or not all of it came."""
        if self._deployment.node is not None:
            self._deployment.node.meter.http.of("other", "other", str(status)).add()

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        node = self._deployment.node
        if node is None:
            await self._inner(scope, receive, send)
            return
        meter, began, status, is_stream = node.meter, time.perf_counter_ns(), 0, False

        async def send_on(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = any(map(_is_stream, message.get("headers", ())))
            await send(message)

        meter.http_open.add()
        try:
            await self._inner(scope, receive, send_on)
        finally:
            meter.http_open.add(-1)
            route, method = route_of(scope), scope["method"]
            meter.http.of(method if method in _METHODS else "other", route, str(status or 499)).add()
            if not is_stream and LASTING not in scope:
                meter.http_durations.of(route).add((time.perf_counter_ns() - began) // 1_000)


def _is_stream(header: tuple[bytes, bytes]) -> bool:
    return header[0] == b"content-type" and header[1].startswith(b"text/event-stream")


def route_of(scope: Scope) -> str:
    """The part of the API that was asked for: few, whatever is asked."""
    if ROUTE in scope:
        return str(scope[ROUTE])
    root = scope.get("root_path") or ""
    first, _, rest = str(scope["path"]).removeprefix(root).lstrip("/").partition("/")
    if first == "v1":
        part = rest.partition("/")[0]
        return f"/v1/{part}" if part in _PARTS else "other"
    return f"/{first}" if first in _PLACES or not first else "other"
