"""Layer 5. How does a Worker ask the world outside?"""

from typing import Any

from wakeful.compat.workers.failures import Unsupported
from wakeful.compat.workers.web import Headers, Request, Response
from wakeful.values.errors import MissingExtra

# What a request that came in says about its own way here, and what is said anew for each way out.
_OF_THE_CONNECTION = frozenset(
    {"host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "upgrade", "accept-encoding"}
)
_MOVED = frozenset({301, 302, 303, 307, 308})


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
    try:
        async with (
            aiohttp.ClientSession(auto_decompress=True) as session,
            session.request(
                str(request.method),
                request.url,
                headers=[pair for pair in request.headers.items() if pair[0] not in _OF_THE_CONNECTION],
                data=request._take() or None,
                allow_redirects=request.redirect == "follow",
            ) as answer,
        ):
            if request.redirect == "error" and answer.status in _MOVED:
                raise OSError(f"{request.method} {request.url}: it is elsewhere, and redirect='error' was given")
            data = await answer.read()
            headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers])
            for name in ("content-encoding", "transfer-encoding", "content-length"):  # it is unpacked and whole
                headers.delete(name)
            made = Response(None, answer.status, answer.reason or "", headers)
            made._data, made.url, made.redirected = data, str(answer.url), bool(answer.history)
            return made
    except aiohttp.ClientError as error:
        raise OSError(f"{request.method} {request.url}: {error}") from None
