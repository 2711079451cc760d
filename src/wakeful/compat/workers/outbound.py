"""Layer 5. How does a Worker ask the world outside: `fetch()`?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from contextvars import copy_context
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.live_sockets import CLOSING, CONNECTING, NO_CODE, OVER, SAID, LiveSocket
from wakeful.compat.workers.sources import END, Source, bytes_of, start_in
from wakeful.compat.workers.streams import ReadableStream
from wakeful.compat.workers.web import Headers, Offer, Request, Response
from wakeful.runtime.beside import come_back, leave
from wakeful.values.codec import decode
from wakeful.values.errors import MissingExtra

# What a request that came in says about its own way here, and what is said anew for each way out.
_OF_THE_CONNECTION = frozenset(
    {"host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "upgrade", "accept-encoding"}
)
_OF_A_SOCKET = _OF_THE_CONNECTION | {
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
    "sec-websocket-protocol",
}
MESSAGE_BYTES_MAX = 32 * 1_048_576  # of a socket, as there
_MOVED = frozenset({301, 302, 303, 307, 308})
CONNECT_S = 30.0
SMALL_BYTES = 64 << 10  # of an answer that says so: it is read at once, and needs no connection any more


async def fetch(resource: Any, init: Any = None, **options: Any) -> Response:
    """The answer of another server; `OSError` when there is none."""
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("fetch() needs aiohttp; pip install 'wakeful[client]'", code="extra.client") from None
    is_whole = isinstance(resource, Request) and not init and not options
    request = resource if is_whole else Request(resource, init, **options)
    await leave()
    try:
        return await _ask(request, aiohttp)
    finally:
        await come_back()


async def _ask(request: Request, aiohttp: Any) -> Response:
    if (request.headers.get("upgrade") or "").lower() == "websocket":
        return await _open_socket(request)
    if request.signal is None:
        return await _fetch(request, aiohttp)
    request.signal.throwIfAborted()
    asking = asyncio.ensure_future(_fetch(request, aiohttp))
    request.signal.addEventListener("abort", lambda event: asking.cancel())
    try:
        answer = await asking
        if isinstance(answer._data, ReadableStream) and isinstance(incoming := answer._data._source, Incoming):
            request.signal.addEventListener("abort", lambda event: incoming.abort())
        return answer
    except asyncio.CancelledError:
        request.signal.throwIfAborted()
        asking.cancel()
        raise


async def _fetch(request: Request, aiohttp: Any) -> Response:
    try:
        async with AsyncExitStack() as stack:
            # No bound on how long an answer takes: an event stream may last for days.
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            session = await stack.enter_async_context(aiohttp.ClientSession(auto_decompress=True, timeout=timeout))
            data = request._take()
            asking = session.request(
                str(request.method),
                request.url,
                headers=[pair for pair in request.headers.items() if pair[0] not in _OF_THE_CONNECTION],
                data=_parts_of(data) if isinstance(data, ReadableStream) else data or None,
                allow_redirects=request.redirect == "follow",
            )
            answer = await stack.enter_async_context(asking)
            if request.redirect == "error" and answer.status in _MOVED:
                raise OSError(f"{request.method} {request.url}: it is elsewhere, and redirect='error' was given")
            headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers])
            for name in ("content-encoding", "transfer-encoding", "content-length"):  # it is unpacked
                headers.delete(name)
            made = Response(None, answer.status, answer.reason or "", headers)
            made.url, made.redirected = str(answer.url), bool(answer.history)
            if answer.content_length is not None and answer.content_length <= SMALL_BYTES:
                made._data = await answer.read()
            else:
                made._data = ReadableStream(Incoming(answer, stack.pop_all(), f"{request.method} {request.url}"))
                made._data._hold()
            return made
    except aiohttp.ClientError as error:
        raise OSError(f"{request.method} {request.url}: {error}") from None


async def _open_socket(request: Request) -> Response:
    """101 and an open socket, to be accepted; or what the server says instead."""
    import aiohttp

    socket = OutgoingSocket(request.url)
    headers = [pair for pair in request.headers.items() if pair[0] not in _OF_A_SOCKET]
    offered = [one.strip() for one in (request.headers.get("sec-websocket-protocol") or "").split(",")]
    try:
        await socket.connect([one for one in offered if one], headers)
    except aiohttp.WSServerHandshakeError as error:
        return Response(None, error.status if 200 <= error.status <= 599 else 502)
    except aiohttp.ClientError as error:
        raise OSError(f"{request.url}: {error}") from None
    return Response(None, 101, web_socket=socket)


class OutgoingSocket(LiveSocket):
    """A socket to another server; what comes before `accept()` waits there."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._connection: Any = None
        self._stack = AsyncExitStack()
        self._on_accept = self._carry

    @classmethod
    def new(cls, url: str, protocols: Any = ()) -> "OutgoingSocket":
        """`new WebSocket(url)`: it opens, and says so."""
        if urlsplit(str(url)).scheme not in ("ws", "wss", "http", "https"):
            raise JsException(f"WebSocket: {url!r} is no URL of a socket")  # a SyntaxError there
        made = cls(str(url))
        start_in(copy_context(), made._open([protocols] if isinstance(protocols, str) else list(protocols or ())))
        return made

    def data(self, offer: Offer) -> dict[str, Any]:
        """Given away with an answer: whoever asked the Worker speaks with that server."""
        front = LiveSocket(self.url)
        front.accept()
        for one, other in ((self, front), (front, self)):
            one.addEventListener("message", partial(_pass_on, other))
            one.addEventListener("close", partial(_pass_end, other))
        self.accept()
        return {"line": offer(ReadableStream(front.out), front.hear)}

    async def connect(self, protocols: list[str], headers: Any = ()) -> None:
        """Returns when it is open."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        try:
            session = await self._stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            opening = session.ws_connect(self.url, protocols=protocols, headers=headers, max_msg_size=MESSAGE_BYTES_MAX)
            async with asyncio.timeout(CONNECT_S):
                self._connection = await self._stack.enter_async_context(opening)
        except BaseException:
            await self._stack.aclose()
            raise
        self.protocol = self._connection.protocol or ""

    async def _open(self, protocols: list[str]) -> None:
        try:
            await self.connect(protocols)
        except Exception as error:
            await self.hear([OVER, 1006, f"{type(error).__name__}: {error}", False])
            return
        if self.readyState != CONNECTING:  # it was closed meanwhile
            await self._stack.aclose()
            await self.hear([OVER, 1006, "", False])
            return
        self.accept()
        self.tell("open")

    def _carry(self) -> None:
        writing = start_in(copy_context(), self._write())
        start_in(copy_context(), self._read(writing))

    async def _write(self) -> None:
        while (frame := await self.out.pull()) is not END:
            kind, *said = decode(frame)
            await leave()
            if kind == OVER:
                await self._connection.close(code=1000 if said[0] == NO_CODE else said[0], message=said[1].encode())
            elif isinstance(said[0], str):
                await self._connection.send_str(said[0])
            else:
                await self._connection.send_bytes(said[0])

    async def _read(self, writing: "asyncio.Task[None]") -> None:
        try:
            async for message in self._connection:
                if message.type.name in ("TEXT", "BINARY"):
                    await self.hear([SAID, message.data])
        finally:
            if self.readyState == CLOSING:  # it ended because we close it, which is under way
                await asyncio.wait([writing], timeout=CONNECT_S)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            code = self._connection.close_code
            await self._stack.aclose()
            await self.hear([OVER, code or 1006, "", code is not None and code != 1006])


def _pass_on(other: LiveSocket, event: Any) -> None:
    other.send(event.data)


def _pass_end(other: LiveSocket, event: Any) -> None:
    is_sayable = event.code != NO_CODE and event.code != 1006
    other.close(event.code if is_sayable else None, event.reason if is_sayable else None)


async def _parts_of(stream: ReadableStream) -> AsyncIterator[bytes]:
    stream._lock("the body")
    while (chunk := await stream._next()) is not END:
        yield bytes_of(chunk)


class Incoming(Source):
    """The body of another server's answer, no faster than it is read."""

    def __init__(self, answer: Any, connection: AsyncExitStack, what: str) -> None:
        self._answer = answer
        self._connection = connection
        self._what = what
        self._reading: asyncio.Task[bytes] | None = None
        self._is_aborted = False

    def abort(self) -> None:
        """Its signal says so: whoever reads it hears of it."""
        self._is_aborted = True
        start_in(copy_context(), self.cancel("aborted"))

    async def pull(self) -> Any:
        if self._is_aborted:
            raise OSError(f"{self._what}: it was aborted")
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._answer.content.readany())
        await asyncio.wait([self._reading])
        reading, self._reading = self._reading, None
        try:
            part = reading.result()
        except (Exception, asyncio.CancelledError) as error:  # it ended too early, or can't be unpacked
            await self._connection.aclose()
            raise OSError(f"{self._what}: its answer broke off: {error}") from None
        if part:
            return part
        await self._connection.aclose()
        return END

    async def cancel(self, reason: Any) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._answer.close()
        await self._connection.aclose()
