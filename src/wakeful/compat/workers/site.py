"""Layer 5. How does a Worker answer HTTP: as an ASGI application, for any server?"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.web import Request, Response

if TYPE_CHECKING:
    from wakeful.compat.workers.worker import Worker

log = logging.getLogger("wakeful.workers")

BODY_BYTES_MAX = 100 * 1_048_576  # of a request, as on Cloudflare's smallest plan
_TOO_LARGE = Response(f"a request may have {BODY_BYTES_MAX} bytes\n", 413)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class WorkerSite:
    """The Worker's `fetch` for every request. Served by itself it runs the app on `store` for as long as it lives."""

    def __init__(self, worker: "Worker", *, store: Any = None) -> None:
        self.worker = worker
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            from wakeful.compat.workers.connecting import carry

            await carry(self.worker, scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        response = _TOO_LARGE.clone() if body is None else await answer(self.worker, request_in(scope, body))
        data = b"" if scope["method"] == "HEAD" else response._take()
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
        if not response.headers.has("content-length"):
            headers.append((b"content-length", b"%d" % len(response._data)))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _live(self, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            while True:
                event = await receive()
                if event["type"] == "lifespan.startup":
                    if self.worker.app.node is None:
                        from wakeful.app import default_store

                        await stack.enter_async_context(self.worker.app.run(self._store or default_store()))
                    await send({"type": "lifespan.startup.complete"})
                else:
                    await stack.aclose()
                    await send({"type": "lifespan.shutdown.complete"})
                    return


async def answer(worker: "Worker", request: Request) -> Response:
    """The Worker's answer; a raise is a 500 whose reason is in the log, not in the answer."""
    try:
        return await worker.fetch(request)
    except Exception as error:
        log.exception("%s %s raised", request.method, request.url, extra={"code": "workers.fetch"})
        return Response(f"the Worker raised {type(error).__name__}; its log says where\n", 500)


def request_in(scope: Scope, body: bytes) -> Request:
    """The request that a server has taken."""
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    host = next((value for name, value in headers if name.lower() == "host"), None)
    if host is None:
        server = scope.get("server") or ("localhost", None)
        host = server[0] if server[1] is None else f"{server[0]}:{server[1]}"
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "http"), scope.get("scheme", "http"))
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    query = scope.get("query_string", b"").decode("latin-1")
    url = f"{scheme}://{host}{path}{'?' if query else ''}{query}"
    request = Request(url, method=scope.get("method", "GET"), headers=headers)
    request._data = body
    return request


async def _body(receive: Receive) -> bytes | None:
    """All of it; None when it is too large."""
    parts, size = [], 0
    while True:
        event = await receive()
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES_MAX:
            return None
        if not event.get("more_body"):
            return b"".join(parts)
