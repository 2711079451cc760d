"""Layer 5. How does a Worker answer HTTP: as an ASGI application, for any server?"""

import asyncio
import gzip
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from wakeful.compat.workers.conduits import Conduits, conduits_of
from wakeful.compat.workers.failures import JsException, JsRangeError
from wakeful.compat.workers.host import INSIDE
from wakeful.compat.workers.live_sockets import OVER, SAID
from wakeful.compat.workers.outbound import OutgoingSocket
from wakeful.compat.workers.sources import END, Source, bytes_of, start_in
from wakeful.compat.workers.streams import ReadableStream
from wakeful.compat.workers.values import Record
from wakeful.compat.workers.web import ClientEnd, Headers, Request, Response
from wakeful.http import sockets as wires
from wakeful.http.stops import Stops
from wakeful.policy.shares import Asker, Shares, Verdict
from wakeful.security.crowd import address_of
from wakeful.sockets.held import Paced
from wakeful.sockets.node_sockets import feature_of
from wakeful.sockets.socket import SocketRequest as SocketRequest
from wakeful.values.codec import decode, encode
from wakeful.values.errors import MissingExtra, Unavailable
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.compat.workers.worker import Worker

log = logging.getLogger("wakeful.workers")

BODY_BYTES_MAX = 100 * 1_048_576  # of a request, as on Cloudflare's smallest plan
BODIES_BYTES_MAX = 4 * BODY_BYTES_MAX  # of all requests that are not answered yet
SMALL_BYTES = 64 << 10  # of a body that is read before the Worker is called
_TOO_LARGE = Response(f"a request may have {BODY_BYTES_MAX} bytes\n", 413, "the body is too large")
_TOO_MUCH = Response(
    f"the bodies of all requests that are not answered yet may have {BODIES_BYTES_MAX} bytes; try again\n",
    503,
    "the bodies of all requests are too much together",
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
        body = Body(self._bodies, Asker("bodies", address_of(scope)), receive)
        try:
            is_trigger = self._is_tried and scope["path"] in TRIGGERS
            data = [await body.begin(scope)]
            # Nothing here holds the request: who streams an answer may see that nobody reads its body any more.
            response = body.refusal or await (answer_trigger if is_trigger else answer)(
                self.worker, request_in(scope, data.pop())
            )
            if body.refusal is not None:  # known while the Worker read it
                await _drop(response)
                response = body.refusal.clone()
            if body.is_gone and not body.is_whole:
                await _drop(response)
                return  # a part of what it had to say is not what it asked for
            await self._reply(scope, response, body, send)
        except ConnectionError:
            return  # it went away before it had said anything
        finally:
            body.forget()

    async def _reply(self, scope: Scope, response: Response, body: "Body", send: Send) -> None:
        data = response._take()
        is_head = scope["method"] == "HEAD"
        is_packed = response.headers.has("content-encoding") and response.encode_body != "manual"
        if isinstance(data, bytes) and is_packed:
            data = _pack(response.headers, data)
        told = response.headers.get("content-length")
        packer = _packer(response.headers) if is_packed and not isinstance(data, bytes) else None
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
            if name not in _SERVERS_OWN
        ]
        if isinstance(data, bytes):
            if response.status not in (204, 304):
                size = told.encode("latin-1") if is_head and told and not data else b"%d" % len(data)
                headers.append((b"content-length", size))
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if is_head else data})
            return
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if is_head:
            await data._cancel("only the head was asked for")
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._stream(scope, data, packer, body, send)

    async def _stream(self, scope: Scope, stream: ReadableStream, packer: Any, body: "Body", send: Send) -> None:
        """Chunk by chunk, no faster than the client reads; it ends when the client hangs up, or the server stops."""
        telling = asyncio.ensure_future(_tell(stream, packer, send))
        hangup = asyncio.ensure_future(body.wait_until_gone())
        try:
            with self.stops.lasting(telling.cancel):
                await asyncio.wait([telling, hangup], return_when=asyncio.FIRST_COMPLETED)
                if telling.done() and not telling.cancelled():
                    telling.result()
        except OSError:
            pass  # how servers say that the client is gone
        except Exception:
            # The connection is broken off: what came so far must not pass for all of it.
            words = "%s %s: its stream broke"
            log.exception(words, scope["method"], scope["path"], extra={"code": "workers.stream"})
        finally:
            for task in (telling, hangup):
                task.cancel()
            await asyncio.gather(telling, hangup, return_exceptions=True)
            if not stream._is_over:
                await stream._cancel("the client is gone")

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
    except (
        ClientGone,
        BodyRefused,
    ) as error:  # nobody gets this answer, and no line of the log is a stranger's to write
        return Response(f"{error}\n", 400)
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


def request_in(scope: Scope, body: bytes | ReadableStream) -> Request:
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


async def _tell(stream: ReadableStream, packer: Any, send: Send) -> None:
    while (chunk := await stream._next()) is not END:
        data = bytes_of(chunk)
        if packer is not None:  # each chunk can be read when it is there
            data = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
        if data:
            await send({"type": "http.response.body", "body": data, "more_body": True})
    rest = b"" if packer is None else packer.flush()
    await send({"type": "http.response.body", "body": rest, "more_body": False})


def _packer(headers: Headers) -> Any:
    """What packs a stream as its headers promise; they promise nothing if it is not known here."""
    if (headers.get("content-encoding") or "").strip().lower() == "gzip":
        return zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    headers.delete("content-encoding")
    return None


async def _drop(response: Response) -> None:
    """Nobody gets it."""
    if isinstance(response._data, ReadableStream) and not response.body_used:
        await response._data._cancel("nobody waits for it")


class ClientGone(ConnectionError):
    """What who reads the body of a request gets when its end never came."""


class BodyRefused(JsException):
    """What who reads a body gets that is too much."""


class Body(Source):
    """The body of one request: it comes as the Worker reads it, and what is kept of it counts until it is answered.

    Many large ones must not fill the memory together.
    """

    def __init__(self, shares: Shares, asker: Asker, receive: Receive) -> None:
        self.refusal: Response | None = None  # it is too much
        self.is_gone = False  # the client
        self.is_whole = False
        self._shares = shares
        self._asker = asker
        self._receive = receive
        self._turns = asyncio.Lock()
        self._first: bytes | None = None
        self._size = 0
        self._held = 0  # bytes that count
        self._keeps = False
        self._is_unwanted = False
        self._changed = asyncio.Event()  # nobody reads it any more, or there is no more of it

    async def begin(self, scope: Scope) -> bytes | ReadableStream:
        """The body if all of it is there, or what reads it."""
        length, is_chunked = _length_of(scope)
        if not is_chunked and (length or 0) <= SMALL_BYTES:
            parts = []
            while not self.is_whole:
                part = await self._event()
                if self.refusal is not None:
                    return b""
                parts.append(part)
                if length is None and not self.is_whole:  # nobody says how long it is
                    self._first = part
                    return self._stream()
            return b"".join(parts)
        if length is not None and length > BODY_BYTES_MAX:
            self.refusal = _TOO_LARGE.clone()
            return b""
        return self._stream()

    def _stream(self) -> ReadableStream:
        made = ReadableStream(self)
        made._hold()
        return made

    async def pull(self) -> Any:
        first, self._first = self._first, None
        if first:
            return first
        while not self.is_whole:
            async with self._turns:
                if not self._keeps:
                    self.forget()  # whoever asks for the next is done with what it had
                part = await self._event()
            if self.refusal is not None:
                raise BodyRefused(self.refusal.status_text)
            if part:
                return part
        return END

    async def cancel(self, reason: Any) -> None:
        self._is_unwanted = True
        self._changed.set()

    def keep(self) -> None:
        self._keeps = True

    async def wait_until_gone(self) -> None:
        """Returns when the client is gone. What still comes of a body that nobody reads is thrown away."""
        while not self.is_gone:
            if not self.is_whole and not self._is_unwanted:
                self._changed.clear()
                await self._changed.wait()  # until then who reads it will see
                continue
            with suppress(ConnectionError):
                async with self._turns:
                    await self._event()
            self.forget()

    def forget(self) -> None:
        """Its request is answered, or gone."""
        if self._held:
            self._shares.give(self._asker, self._held)
            self._held = 0

    async def _event(self) -> bytes:
        """The next part; `ConnectionError` when its end never came."""
        event = await self._receive()
        if event["type"] == "http.disconnect":
            self.is_gone = True
            self._changed.set()
            raise ClientGone("the client is gone")
        part: bytes = event.get("body", b"")
        self._size += len(part)
        if self._size > BODY_BYTES_MAX:
            self.refusal = _TOO_LARGE.clone()
        elif part and self._shares.take(self._asker, len(part)) is not Verdict.TAKEN:
            self.refusal = _TOO_MUCH.clone()
        else:
            self._held += len(part)
        if not event.get("more_body"):
            self.is_whole = True
            self._changed.set()
        return part


def _length_of(scope: Scope) -> tuple[int | None, bool]:
    """What the request says of its body: how long it is, and whether it comes in chunks."""
    headers = {name.lower(): value for name, value in scope["headers"]}
    length = headers.get(b"content-length", b"")
    return (int(length) if length.isdigit() else None), b"transfer-encoding" in headers


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
    if not isinstance(end, ClientEnd | OutgoingSocket):
        await _refuse_socket(scope, send, response)
        return
    node = worker.app.deployment.node
    if node is None:
        raise JsException("the Worker is not running")
    wire = wires._Wire(scope, send)
    gateway = feature_of(node).gateway
    protocol = response.headers.get("sec-websocket-protocol") or ""
    streams = conduits_of(node)
    data = end.data(lambda stream, hear=None: streams.offer(stream, None, hear))
    if "line" in data:
        with gateway.watching():
            await LiveConnection(streams, data["line"], node.limits.socket_messages_per_s).carry(
                stops, protocol, wire, receive, send
            )
        return
    pair = {"pair": encode(data).hex()}
    held, _ = await gateway.connect(ObjectId(*data["target"]), SocketRequest(headers=pair, caller=INSIDE), wire)
    await wires.carry(gateway, held, stops, protocol, wire, receive, send)


class LiveConnection:
    """The connection of a client to a socket that is listened to in memory, here or where its object is."""

    def __init__(self, streams: Conduits, sent: list[Any], per_s: int) -> None:
        self._streams = streams
        self._sent = sent
        self._per_s = per_s
        self._stream = streams.claim(sent)

    async def carry(self, stops: Stops, protocol: str, wire: Any, receive: Receive, send: Send) -> None:
        """For as long as it lasts."""
        await send({"type": "websocket.accept", "subprotocol": protocol or None, "headers": []})
        telling = asyncio.ensure_future(self._tell(wire))
        code, reason, was_clean = 1006, "", False
        try:
            with stops.lasting(lambda: start_in(copy_context(), _quiet(wire.close(1012, "the server is restarting")))):
                code, reason, was_clean = await self._listen(receive)
        except OSError:
            pass  # how a server says that the client is gone
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            with suppress(Unavailable):
                await self._streams.say(self._sent, [OVER, code, reason, was_clean])
            self._streams.stop_hearing(self._sent)
            await _quiet(self._stream._cancel("the client is gone"))

    async def _listen(self, receive: Receive) -> tuple[int, str, bool]:
        pace, clock = Paced(), self._streams.clock
        while (event := await receive())["type"] != "websocket.disconnect":
            message = event.get("text")
            await clock.sleep(pace.pace(clock.now(), self._per_s))
            await self._streams.say(self._sent, [SAID, event["bytes"] if message is None else message])
        return wires._end_of(event)

    async def _tell(self, wire: Any) -> None:
        try:
            while (frame := await self._stream._next()) is not END:
                kind, *said = decode(frame)
                await (wire.send(said[0]) if kind == SAID else wire.close(*said))
        except (OSError, asyncio.CancelledError):
            raise
        except JsRangeError:  # more than may wait
            await wire.close(1013, "the client reads too slowly")
        except Exception as error:
            log.info("a socket broke: %s", error, extra={"code": "workers.stream"})
            await wire.close(1012, "the object has moved; connect again")


async def _quiet(work: Any) -> None:
    with suppress(OSError, Unavailable):
        await work


async def _refuse_socket(scope: Scope, send: Send, response: Response) -> None:
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    headers: list[Any] = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    await send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": await response._read()})


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
