"""Layer 5. How does an ASGI app (FastAPI, Starlette) answer a Worker's requests? What `workers.asgi` gives."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any
from urllib.parse import unquote, urlsplit

from wakeful.compat.workers.entrypoints import WorkerEntrypoint
from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.live_sockets import CLOSED, OPEN, SAID, LiveSocket
from wakeful.compat.workers.sources import END, Pipe, Source, bytes_of, start_in
from wakeful.compat.workers.streams import ReadableStream
from wakeful.compat.workers.web import ClientEnd, Request, Response

log = logging.getLogger("wakeful.workers")

MESSAGES_MAX = 16  # of a socket that the app has not taken yet; then its client waits

GRACE_S = 1.0  # in which an app whose client is gone may end by itself
# 2.4: whoever is gone is an OSError of `send`, so nobody need listen for it, and take parts of the body meanwhile.
_ASGI = {"version": "3.0", "spec_version": "2.4"}


async def fetch(app: Any, request: Request, env: Any = None, ctx: Any = None) -> Response:
    """The app's answer to the request; `request.scope["env"]` there is the Worker's."""
    if (request.headers.get("upgrade") or "").lower() == "websocket":
        return await websocket(app, request, env, ctx)
    scope = _scope(request, env, ctx)
    exchange = Exchange(request)
    task = start_in(copy_context(), exchange.run(app, scope, env))
    if hasattr(ctx, "waitUntil"):
        ctx.waitUntil(_wait_for(task))  # what it does behind its answer is work of whoever asked
    await asyncio.wait([task, exchange.begun], return_when=asyncio.FIRST_COMPLETED)
    if not exchange.begun.done():
        task.result()  # raises what the app raised
        raise RuntimeError("the application ended without an answer")
    return exchange.response(task)


async def websocket(app: Any, request: Request, env: Any = None, ctx: Any = None) -> Response:
    """The answer to a request for a socket, which the app speaks over from then on; 403 when it refuses."""
    offered = request.headers.get("sec-websocket-protocol") or ""
    scope = _scope(request, env, ctx) | {
        "type": "websocket",
        "subprotocols": [one.strip() for one in offered.split(",") if one.strip()],
    }
    scope["scheme"] = "wss" if scope["scheme"] == "https" else "ws"
    socket = AppSocket()
    task = start_in(copy_context(), socket.run(app, scope, env))
    if hasattr(ctx, "waitUntil"):
        ctx.waitUntil(_wait_for(task))
    await asyncio.wait([task, socket.begun], return_when=asyncio.FIRST_COMPLETED)
    if not socket.begun.done():
        task.result()
        raise RuntimeError("the application ended without an answer")
    task.add_done_callback(_note)
    if (head := socket.begun.result()) is None:
        return Response(None, 403)
    protocol = head.get("subprotocol")
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.get("headers") or ()]
    if protocol:
        headers.append(("sec-websocket-protocol", protocol))
    return Response(None, 101, headers=headers, web_socket=ClientEnd(None, socket))


def _note(task: "asyncio.Task[Any]") -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("an application raised over its socket", exc_info=error, extra={"code": "workers.socket"})


class AppSocket(LiveSocket):
    """A socket that an app reads and writes by ASGI, one message after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: asyncio.Future[Any] = asyncio.get_running_loop().create_future()  # how it accepts; None: it refuses
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MESSAGES_MAX)
        self._events.put_nowait({"type": "websocket.connect"})

    @property
    def _live(self) -> LiveSocket:
        return self

    async def run(self, app: Any, scope: dict[str, Any], env: Any) -> None:
        try:
            async with _living(app, env) as scope["state"]:
                await app(scope, self._events.get, self._send)
        except BaseException:
            self.close(1011, "the application failed")
            raise
        self.close(1000)

    async def hear(self, frame: list[Any]) -> None:
        if frame[0] == SAID:
            kind = "text" if isinstance(frame[1], str) else "bytes"
            await self._events.put({"type": "websocket.receive", kind: frame[1]})
        elif self.readyState != CLOSED:
            self.readyState = CLOSED
            self.out.close()
            await self._events.put({"type": "websocket.disconnect", "code": frame[1], "reason": frame[2]})

    async def _send(self, message: Any) -> None:
        if message["type"] == "websocket.accept":
            self.accept()
            self.begun.set_result(message)
        elif message["type"] == "websocket.close":
            if not self.begun.done():
                self.begun.set_result(None)
            self.close(message.get("code") or 1000, message.get("reason") or "")
        elif message["type"] == "websocket.send":
            if self.readyState != OPEN:
                raise OSError("the socket is closed")
            self.send(message["bytes"] if message.get("text") is None else message["text"])
            await self.out.wait_for_room()


def _scope(request: Request, env: Any, ctx: Any) -> dict[str, Any]:
    parts = urlsplit(request.url)
    return {
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


async def _wait_for(task: "asyncio.Task[Any]") -> None:
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()


class Exchange(Source):
    """One request of an app, whose answer comes in parts while it runs; no faster than it is read."""

    def __init__(self, request: Request) -> None:
        body = request._take()
        self.begun: asyncio.Future[None] = (
            asyncio.get_running_loop().create_future()
        )  # whole, or its first part is there
        self._incoming: bytes | ReadableStream | None = body
        self._is_over = asyncio.Event()  # the answer, or whoever wanted it
        self._start: dict[str, Any] = {}
        self._parts = Pipe()
        self._task: asyncio.Task[None] | None = None

    async def run(self, app: Any, scope: dict[str, Any], env: Any) -> None:
        try:
            async with _living(app, env) as scope["state"]:
                await app(scope, self._receive, self._send)
        except BaseException as error:
            if self._parts.is_cancelled and isinstance(error, Exception):
                return  # of somebody who is gone; kept, it would keep what the app was iterating over
            if self.begun.done():
                self._parts.fail(error if isinstance(error, Exception) else JsException("the application was stopped"))
            raise
        if self.begun.done() and not self._parts.is_closed:
            self._parts.fail(RuntimeError("the application ended in the middle of its answer"))

    def response(self, task: "asyncio.Task[None]") -> Response:
        """The answer: all of it, or what reads the rest."""
        self._task = task
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # who reads the stream hears of it
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._start.get("headers", ())]
        made = Response(None, self._start.get("status", 500), headers=headers)
        if self._parts.is_closed:
            made._data = b"".join(self._parts.take_all())
        else:
            made._data = ReadableStream(self)
            made._data._hold()
        return made

    async def pull(self) -> Any:
        return await self._parts.pull()

    async def cancel(self, reason: Any) -> None:
        """The app is told, and stopped where it does not listen."""
        await self._parts.cancel(reason)
        self._is_over.set()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task], timeout=GRACE_S)
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _receive(self) -> dict[str, Any]:
        incoming = self._incoming
        if isinstance(incoming, ReadableStream):
            chunk = await incoming._next()
            if chunk is END:
                self._incoming = None
                return {"type": "http.request", "body": b"", "more_body": False}
            return {"type": "http.request", "body": bytes_of(chunk), "more_body": True}
        if incoming is not None:
            self._incoming = None
            return {"type": "http.request", "body": incoming, "more_body": False}
        await (
            self._is_over.wait()
        )  # whoever asks for a part of the answer would take an earlier word for the client's leaving
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            if self._parts.is_cancelled:
                raise OSError("whoever asked is gone")
            part = bytes(message.get("body", b""))
            if part:
                self._parts.push(part)
            if not message.get("more_body"):
                self._parts.close()
                self._is_over.set()
            if not self.begun.done() and (part or self._parts.is_closed):
                self.begun.set_result(None)
            if not self._parts.is_closed:
                await self._parts.wait_for_room()


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
