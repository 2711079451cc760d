"""Layer 5. How does an ASGI app (FastAPI, Starlette) answer a Worker's requests? What `workers.asgi` gives."""

from typing import Any
from urllib.parse import unquote, urlsplit

from wakeful.compat.workers.entrypoints import WorkerEntrypoint
from wakeful.compat.workers.web import Request, Response


async def fetch(app: Any, request: Request, env: Any = None, ctx: Any = None) -> Response:
    """The app's answer to the request; `request.scope["env"]` there is the Worker's."""
    parts = urlsplit(request.url)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": str(request.method),
        "scheme": parts.scheme,
        "path": unquote(parts.path or "/"),
        "raw_path": (parts.path or "/").encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
        "server": (parts.hostname or "localhost", parts.port or (443 if parts.scheme == "https" else 80)),
        "client": None,
        "env": env,
        "ctx": ctx,
    }
    incoming = [{"type": "http.request", "body": request._take(), "more_body": False}]
    started: dict[str, Any] = {}
    parts_of_body: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        elif message["type"] == "http.response.body":
            parts_of_body.append(message.get("body", b""))

    await app(scope, receive, send)
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in started.get("headers", ())]
    response = Response(None, started.get("status", 500), headers=headers)
    response._data = b"".join(parts_of_body)
    return response


def entrypoint(app: Any) -> type[WorkerEntrypoint]:
    """A `Default` that has every request answered by the app."""

    class Default(WorkerEntrypoint):
        async def fetch(self, request: Request) -> Response:
            return await fetch(app, request, self.env, self.ctx)

    return Default
