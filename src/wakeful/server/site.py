"""Layer 5. API, dashboard, metrics and sockets as one ASGI application."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

from wakeful.http import sockets, table
from wakeful.http.api import Api, respond, say_cut_off
from wakeful.http.asks import Answer, Receive, Scope, Send
from wakeful.http.problems import MEDIA, Problem, problem_of
from wakeful.http.stops import Stops
from wakeful.security.gate import Gate
from wakeful.system import default_store
from wakeful.telemetry.samples import sampling
from wakeful.telemetry.web import Measured
from wakeful.values.errors import BadOption
from wakeful.values.json_patch import json_bytes

if TYPE_CHECKING:
    from wakeful.app import App


# Do the options of a server make sense? One that does not would be found out by a page that is refused.

_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:(?P<port>[1-9][0-9]{0,4}))?")
_LEFT_OUT = {"http": "80", "https": "443"}  # a browser does not say them
LIMITS = ("body_bytes_max", "requests_max", "looks_max", "streams_max")


def check_origins(cors: object) -> tuple[str, ...]:
    """Origins as browsers send them; `BadOption` says what to write instead."""
    if isinstance(cors, str | bytes) or not isinstance(cors, Sequence | set | frozenset):
        raise BadOption(f'cors must be a list of origins, like ["https://ops.example.com"], not {cors!r}', code="cors")
    for origin in cors:
        _check_origin(origin)
    return tuple(cors)


def _check_origin(origin: object) -> None:
    if origin == "*":
        raise BadOption("cors: '*' would let every page in; name the origins of yours", code="cors")
    parts = _ORIGIN.fullmatch(origin) if isinstance(origin, str) else None
    if parts is None:
        raise BadOption(
            f"cors: {origin!r} is no origin as a browser sends it; write scheme and host in lower case, "
            "without a path or a slash at the end: https://ops.example.com",
            code="cors",
        )
    port = parts["port"]
    if port is not None and _LEFT_OUT.get(parts["scheme"]) == port:
        raise BadOption(f"cors: {origin!r}: leave out :{port}, as browsers do", code="cors")


def check_switch(name: str, value: object) -> None:
    """`BadOption` for what is neither True nor False."""
    if not isinstance(value, bool):
        raise BadOption(f"{name} must be True or False, not {value!r}", code=f"server.{name}")


def check_limits(limits: Mapping[str, object]) -> None:
    """`BadOption` for a bound that is none, or that there is not."""
    for name, value in limits.items():
        if name not in LIMITS:
            raise BadOption(f"there is no option {name!r}; bounds are {', '.join(LIMITS)}", code="server.option")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadOption(f"{name} must be a whole number from 1, not {value!r}", code=f"server.{name}")


OWN = frozenset({"v1", "openapi.json", "healthz", "readyz"})
METRICS_MEDIA = b"text/plain; version=0.0.4; charset=utf-8"
# What a page of another origin, which the server was told of, may send and read.
CORS_HEADERS = ["authorization", "content-type", "idempotency-key", "wakeful-deadline", "traceparent", "last-event-id"]

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Site:
    """`app.asgi(…)`: everything that Wakeful serves, under whatever path it is mounted."""

    def __init__(
        self,
        app: "App",
        *,
        gate: Gate | None = None,
        dashboard: bool = True,
        metrics: bool = True,
        cors: Sequence[str] = (),
        store: Any = None,
        run: dict[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        """`cors` are origins whose pages may use the API; `limits` those of `http.api.Api`.

        Where it is the whole application, a server's lifespan runs the program on `store`, with the options `run`.
        """
        cors = check_origins(cors)
        check_switch("dashboard", dashboard)
        check_switch("metrics", metrics)
        check_limits(limits)
        self.app = app
        self.gate = gate or Gate(app.deployment, origins=cors)
        self.stops = Stops()
        self.api = Api(app.deployment, self.gate, stops=self.stops, **limits)
        self._has_metrics = metrics
        self._store = store
        self._run = run or {}
        self._pages = _pages(app, self.gate) if dashboard else None
        self._api: Application = self.api
        self._measured = Measured(self._answer, app.deployment)
        if cors:
            from starlette.middleware.cors import CORSMiddleware

            self._api = CORSMiddleware(
                self.api,
                allow_origins=list(cors),
                allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
                allow_headers=CORS_HEADERS,
                expose_headers=["link", "retry-after"],
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._measured(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = table.raw_of(scope)
        first = raw[1:].partition(b"/")[0]
        if first == b"v1" or first.decode("latin-1") in OWN or raw == table.WHOLE or table.is_long(scope):
            await self._api(scope, receive, send)  # which has the words for a URL that is too long
        elif first == b"metrics" and self._has_metrics:
            await self._metrics(scope, send)
        elif self._pages is not None:
            await self._page(self._pages, scope, receive, send)
        else:
            await self._api(scope, receive, send)  # which says that there is nothing

    async def _page(self, pages: Application, scope: Scope, receive: Receive, send: Send) -> None:
        """A page; one that never ends by itself is ended when the server stops."""
        self.stops.meet()
        task, lasting = asyncio.current_task(), ExitStack()
        is_begun = is_stream = False

        async def watch_send(message: MutableMapping[str, Any]) -> None:
            nonlocal is_begun, is_stream
            is_begun = True
            if message["type"] == "http.response.start" and task is not None:
                kinds = [value for name, value in message.get("headers", ()) if name == b"content-type"]
                if kinds and kinds[0].startswith(b"text/event-stream"):
                    is_stream = True
                    lasting.enter_context(self.stops.lasting(task.cancel))
            await send(message)

        try:
            await pages(scope, receive, watch_send)
        except asyncio.CancelledError:
            if is_stream:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            elif is_begun or not self.stops.is_stopping():
                raise
            else:
                await say_cut_off(scope, send)
        finally:
            lasting.close()

    async def _metrics(self, scope: Scope, send: Send) -> None:
        """For Prometheus; needs the scope read."""
        from starlette.requests import HTTPConnection

        self.stops.meet()
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise Problem(405, "method.not_allowed", "this is only read", allow="GET, HEAD")
            await self.gate.admit(HTTPConnection(scope), "read", wide=True, is_lenient=True)
            from wakeful.telemetry import prometheus

            answer = Answer((await prometheus.family_page(self.app)).encode(), 200, METRICS_MEDIA)
        except asyncio.CancelledError:
            if not self.stops.is_stopping():
                raise
            await say_cut_off(scope, send)
            return
        except Exception as error:
            found = problem_of(error, "/metrics")
            answer = Answer(json_bytes(found.body), found.status, MEDIA, tuple(found.headers))
        await respond(scope, send, answer)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await sockets.answer(self.app.deployment, self.gate, self.stops, scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Run the program from startup to shutdown, unless it runs already."""
        async with AsyncExitStack() as stack:
            await receive()
            try:
                if self.app.deployment.node is None:
                    await stack.enter_async_context(self.app.run(self._store or default_store(), **self._run))
                await stack.enter_async_context(sampling(self.app.deployment))
            except BaseException as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.hang_up()
        await send({"type": "lifespan.shutdown.complete"})

    def on_refused(self, status: int) -> None:
        """The server has answered what was no request."""
        self._measured.add_refused(status)

    def hang_up(self) -> None:
        """The server stops: streams and sockets, which never end by themselves, end."""
        self.stops.begin()


def _pages(app: "App", gate: Gate) -> Application:
    from starlette.applications import Starlette

    from wakeful.dashboard.pages import routes

    made: Any = Starlette(routes=routes(app.deployment, gate))
    found: Application = made
    return found
