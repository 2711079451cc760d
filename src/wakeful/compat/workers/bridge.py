"""Layer 5. How does an ASGI app (FastAPI, Starlette) answer a Worker's requests? What `workers.asgi` gives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from wakeful.compat.workers.entrypoints import WorkerEntrypoint
from wakeful.compat.workers.web import Request, Response

_ASGI = {"version": "3.0", "spec_version": "2.3"}


async def fetch(app: Any, request: Request, env: Any = None, ctx: Any = None) -> Response:
    """The app's answer to the request; `request.scope["env"]` there is the Worker's."""
    parts = urlsplit(request.url)
    scope = {
        "type": "http",
        "asgi": _ASGI,
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
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await ended.wait()  # whoever asks for a part of the answer would take an earlier word for the client's leaving
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        elif message["type"] == "http.response.body":
            parts_of_body.append(message.get("body", b""))
            if not message.get("more_body"):
                ended.set()

    async with _living(app, env) as scope["state"]:
        await app(scope, receive, send)
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in started.get("headers", ())]
    response = Response(None, started.get("status", 500), headers=headers)
    response._data = b"".join(parts_of_body)
    return response


@asynccontextmanager
async def _living(app: Any, env: Any) -> AsyncIterator[dict[str, Any]]:
    """The app between its startup and its shutdown, which are around each request, as there; its state."""
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    state: dict[str, Any] = {}
    scope = {"type": "lifespan", "asgi": _ASGI, "state": state, "env": env}
    told.put_nowait({"type": "lifespan.startup"})
    life = asyncio.ensure_future(app(scope, told.get, said.put))
    life.add_done_callback(lambda done: said.put_nowait({"type": "ended"}))
    try:
        answer = await said.get()
        if answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"the application did not start: {answer.get('message', '')}")
        yield state
        if not life.done():
            told.put_nowait({"type": "lifespan.shutdown"})
            await said.get()
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)  # one that knows of no lifespan has raised


def entrypoint(app: Any) -> type[WorkerEntrypoint]:
    """A `Default` that has every request answered by the app."""

    class Default(WorkerEntrypoint):
        async def fetch(self, request: Request) -> Response:
            return await fetch(app, request, self.env, self.ctx)

    return Default


def __getattr__(name: str) -> Any:
    """`asgi.env`: the Worker's env as a dependency of FastAPI's."""
    if name != "env":
        raise AttributeError(f"asgi.{name} is not here; docs/cloudflare.md says what is")
    from fastapi import Depends, Request

    def env(request: Request) -> Any:
        return request.scope["env"]

    return Depends(env)
