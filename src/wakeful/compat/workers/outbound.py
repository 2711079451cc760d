"""Layer 5. How does a Worker ask the world outside?"""

from typing import Any

from wakeful.compat.workers.web import Headers, Request, Response
from wakeful.values.errors import MissingExtra


async def fetch(resource: Any, init: Any = None, **options: Any) -> Response:
    """The answer of another server; `OSError` when there is none."""
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("fetch() needs aiohttp; pip install 'wakeful[client]'", code="extra.client") from None
    is_whole = isinstance(resource, Request) and not init and not options
    request = resource if is_whole else Request(resource, init, **options)
    follows = request.redirect == "follow"
    try:
        async with (
            aiohttp.ClientSession(auto_decompress=True) as session,
            session.request(
                str(request.method),
                request.url,
                headers=request.headers.items(),
                data=request._take() or None,
                allow_redirects=follows,
            ) as answer,
        ):
            data = await answer.read()
            headers = Headers([(name, value) for name, value in answer.headers.items()])
            for name in ("content-encoding", "transfer-encoding", "content-length"):  # it is unpacked and whole
                headers.delete(name)
            made = Response(None, answer.status, answer.reason or "", headers)
            made._data, made.url = data, str(answer.url)
            return made
    except aiohttp.ClientError as error:
        raise OSError(f"{request.method} {request.url}: {error}") from None
