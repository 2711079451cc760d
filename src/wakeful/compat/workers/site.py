"""Layer 5. How does a Worker answer HTTP: as an ASGI application, for any server?"""

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.host import INSIDE
from wakeful.compat.workers.values import Record
from wakeful.compat.workers.web import ClientEnd, Headers, Request, Response
from wakeful.http import sockets as wires
from wakeful.http.stops import Stops
from wakeful.policy.shares import Asker, Shares, Verdict
from wakeful.security.crowd import address_of
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import SocketRequest as SocketRequest
from wakeful.values.codec import encode
from wakeful.values.errors import MissingExtra

if TYPE_CHECKING:
    from wakeful.compat.workers.worker import Worker

log = logging.getLogger("wakeful.workers")

BODY_BYTES_MAX = 100 * 1_048_576  # of a request, as on Cloudflare's smallest plan
BODIES_BYTES_MAX = 4 * BODY_BYTES_MAX  # of all requests that are not answered yet
_TOO_LARGE = Response(f"a request may have {BODY_BYTES_MAX} bytes\n", 413)
_TOO_MUCH = Response(
    f"the bodies of all requests that are not answered yet may have {BODIES_BYTES_MAX} bytes; try again\n",
    503,
    headers={"retry-after": "1"},
)

# Said by the server itself for each answer; said twice, or falsely, they would break it.
_SERVERS_OWN = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive", "date"})

TRIGGERS = ("/cdn-cgi/handler/scheduled", "/__scheduled")
# Of `request.cf` what can be said here: nothing is known of where a client is, in the words that are used for that there.
_PLACE = {
    "colo": "XXX",
    "country": "XX",
    "timezone": "UTC",
    "asn": 0,
    "asOrganization": "",
    "tlsVersion": "",
    "tlsCipher": "",
}

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class WorkerSite:
    """The Worker's `fetch` for every request. Served by itself it runs the app on `store` for as long as it lives."""

    def __init__(self, worker: "Worker", *, store: Any = None, is_tried: bool = False) -> None:
        """`is_tried`: who develops it may fire its cron triggers by hand, by URL."""
        self.worker = worker
        self._is_tried = is_tried
        self._store = store
        self.stops = Stops()
        self._bodies = Shares(BODIES_BYTES_MAX, few=BODY_BYTES_MAX // 4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await carry_socket(self.worker, self.stops, scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = Body(self._bodies, Asker("bodies", address_of(scope)))
        try:
            found = await body.read(receive)
            if isinstance(found, Response):
                response = found
            else:
                request = request_in(scope, found)
                is_trigger = self._is_tried and scope["path"] in TRIGGERS
                response = await (answer_trigger if is_trigger else answer)(self.worker, request)
        except ConnectionError:
            return  # it went away before it had said all; a part is not what it asked for
        finally:
            body.forget()
        data = response._take()
        if response.headers.has("content-encoding") and response.encode_body != "manual":
            data = _pack(response.headers, data)
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
            if name not in _SERVERS_OWN
        ]
        is_head, told = scope["method"] == "HEAD", response.headers.get("content-length")
        if response.status not in (204, 304):
            size = told.encode("latin-1") if is_head and told and not data else b"%d" % len(data)
            headers.append((b"content-length", size))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else data})

    async def _live(self, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            while True:
                event = await receive()
                if event["type"] == "lifespan.startup":
                    if self.worker.app.deployment.node is None:
                        from wakeful.system import default_store

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


async def answer_trigger(worker: "Worker", request: Request) -> Response:
    """Fire a cron trigger by hand: that of `?cron=`, else the first, for now or for `?time=`."""
    asked = dict(parse_qsl(urlsplit(request.url).query))
    expression = asked.get("cron") or next(iter(worker.config.crons), "")
    time = asked.get("time") or ""
    node = worker.app.deployment.node
    if node is None or (time and not time.isdecimal()):
        return Response(f"time={time!r} is no time in milliseconds\n", 400)
    try:
        await worker.scheduled(expression, int(time) if time else node.clock.now())
    except Exception as error:
        log.exception("the cron trigger %r raised", expression, extra={"code": "workers.trigger"})
        return Response(f"{type(error).__name__}: {error}\n", 500)
    return Response("Ran scheduled event\n")


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
    # Not followed: whoever passes it on passes on the answer as well.
    request = Request(url, method=scope.get("method", "GET"), headers=headers, redirect="manual")
    request._data = body
    if peer := address_of(scope):
        request.headers.set("cf-connecting-ip", peer)  # whatever the client says of itself
    request.cf = Record(_PLACE, httpProtocol=f"HTTP/{scope.get('http_version', '1.1')}")
    return request


def _pack(headers: Headers, data: bytes) -> bytes:
    """The body in the encoding that the headers promise; they promise none if it is not known here."""
    if (headers.get("content-encoding") or "").strip().lower() == "gzip":
        return gzip.compress(data, 6)
    headers.delete("content-encoding")
    return data


class Body:
    """The body of one request, which counts until it is answered: many large ones must not fill the memory together."""

    def __init__(self, shares: Shares, asker: Asker) -> None:
        self._shares = shares
        self._asker = asker
        self._size = 0

    async def read(self, receive: Receive) -> bytes | Response:
        """All of it; an answer when it is too much, `ConnectionError` when its end never came."""
        parts = []
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise ConnectionError("the client is gone")
            part = event.get("body", b"")
            if self._size + len(part) > BODY_BYTES_MAX:
                return _TOO_LARGE.clone()
            if part and self._shares.take(self._asker, len(part)) is not Verdict.TAKEN:
                return _TOO_MUCH.clone()
            self._size += len(part)
            parts.append(part)
            if not event.get("more_body"):
                return b"".join(parts)

    def forget(self) -> None:
        """Its request is answered, or gone."""
        if self._size:
            self._shares.give(self._asker, self._size)
            self._size = 0


async def carry_socket(worker: "Worker", stops: Stops, scope: Scope, receive: Receive, send: Send) -> None:
    """The whole life of one socket, from the request on.

    The Worker's `fetch` answers the request like any other. If the answer carries an end of a pair that an object has
    accepted, the connection is made with that object; else the answer is the refusal.
    """
    if (await receive())["type"] != "websocket.connect":
        return
    request = request_in(scope, b"")
    request.headers.set("upgrade", "websocket")
    response = await answer(worker, request)
    end = response.web_socket
    if not isinstance(end, ClientEnd):
        await _refuse_socket(scope, send, response)
        return
    node = worker.app.deployment.node
    if node is None:
        raise JsException("the Worker is not running")
    wire = wires._Wire(scope, send)
    gateway = feature_of(node).gateway
    pair = {"pair": encode(end.data).hex()}
    held, _ = await gateway.connect(end.target, SocketRequest(headers=pair, caller=INSIDE), wire)
    protocol = response.headers.get("sec-websocket-protocol") or ""
    await wires.carry(gateway, held, stops, protocol, wire, receive, send)


async def _refuse_socket(scope: Scope, send: Send, response: Response) -> None:
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    headers: list[Any] = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    await send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": response._take()})


# How is a Worker served inside a process that runs its objects?

ADDRESS = "127.0.0.1:8787"
NEXT_PORTS = 20  # looked at when the first is taken


@asynccontextmanager
async def serving(
    worker: "Worker", address: str = ADDRESS, *, next_port: bool = False, is_tried: bool = False
) -> AsyncIterator[str]:
    """Answer HTTP and WebSockets at HOST:PORT with the Worker's `fetch` for as long as the block lasts; its URL.

    The app must be running. With `next_port` one of the ports behind it will do when it is taken.
    """
    try:
        from wakeful.server.embedded_server import Quiet, bind, parse_address, server_config
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "wakeful":
            raise
        raise MissingExtra(
            "serving a Worker needs a web server; pip install 'wakeful[server]'", code="extra.server"
        ) from None
    host, port = parse_address(address)
    made = bind(host, port, tries=NEXT_PORTS if next_port and port else 1)
    config = server_config(WorkerSite(worker, is_tried=is_tried), worker.app.deployment.limits.socket_message_bytes)
    server = Quiet(config)
    serve = asyncio.ensure_future(server.serve(sockets=[made]))
    try:
        while not server.started:
            if serve.done():
                await serve
            await asyncio.sleep(0.002)
        yield f"http://{f'[{host}]' if ':' in host else host}:{made.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serve
        made.close()
