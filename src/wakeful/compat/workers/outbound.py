"""Layer 5. How does a Worker ask the world outside: `fetch()`?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from wakeful.compat.workers.failures import Unsupported
from wakeful.compat.workers.sources import END, Source, bytes_of
from wakeful.compat.workers.streams import ReadableStream
from wakeful.compat.workers.web import Headers, Request, Response
from wakeful.values.errors import MissingExtra

# What a request that came in says about its own way here, and what is said anew for each way out.
_OF_THE_CONNECTION = frozenset(
    {"host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "upgrade", "accept-encoding"}
)
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
    if request.headers.get("upgrade") == "websocket":
        raise Unsupported("fetch(): sockets to other servers are not here")
    if request.signal is None:
        return await _fetch(request, aiohttp)
    request.signal.throwIfAborted()
    asking = asyncio.ensure_future(_fetch(request, aiohttp))
    request.signal.addEventListener("abort", lambda event: asking.cancel())
    try:
        return await asking
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

    async def pull(self) -> Any:
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
