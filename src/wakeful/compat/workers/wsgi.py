"""Layer 5. How does a WSGI app (Flask, Django) answer a Worker's requests? What `workers.wsgi` gives.

As there, the app has the event loop to itself while it runs: it may use the storage of its object without a thread beside
it. It gives the loop back where it waits with `pyodide.ffi.run_sync`, and between the parts of its answer.
"""

import asyncio
import io
import sys
import threading
from asyncio import events
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import copy_context
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from wakeful.compat.workers.entrypoints import WorkerEntrypoint
from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.sources import END, Trickle
from wakeful.compat.workers.streams import ReadableStream
from wakeful.compat.workers.values import result_of
from wakeful.compat.workers.web import Request, Response

T = TypeVar("T")


async def fetch(app: Any, request: Request, env: Any = None, ctx: Any = None) -> Response:
    """The app's answer to the request; `environ["workers.env"]` there is the Worker's."""
    environ = build_environ(request, env, await request.bytes())
    answer = WsgiAnswer()
    parts = await Fiber().run(lambda: answer.begin(app(environ, answer.start)))
    if not answer.is_whole:
        made = Response(None, answer.status, headers=answer.headers)
        made._data = ReadableStream(Trickle(answer.rest(parts)))
        made._data._hold()
        return made
    made = Response(None, answer.status, headers=answer.headers)
    made._data = b"".join(parts)
    return made


def entrypoint(app: Any) -> type[WorkerEntrypoint]:
    """A `Default` that has every request answered by the app."""

    class Default(WorkerEntrypoint):
        async def fetch(self, request: Request) -> Response:
            return await fetch(app, request, self.env, self.ctx)

    return Default


def build_environ(request: Request, env: Any, body: bytes) -> dict[str, Any]:
    """What the app is told of the request."""
    parts = urlsplit(request.url)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": str(request.method),
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(parts.path or "/").decode("latin-1"),
        "QUERY_STRING": parts.query,
        "SERVER_NAME": parts.hostname or "localhost",
        "SERVER_PORT": str(parts.port or (443 if parts.scheme == "https" else 80)),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": request.headers.get("cf-connecting-ip") or "",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": parts.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "workers.env": env,
    }
    for name in request.headers:
        key = name.upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environ[key] = request.headers[name]
        elif key != "CONTENT_LENGTH":
            joiner = "; " if name == "cookie" else ", "
            environ[f"HTTP_{key}"] = joiner.join(request.headers.get_all(name) or ())
    environ.setdefault("HTTP_HOST", parts.netloc)
    return environ


class WsgiAnswer:
    """What the app says: status and headers, then parts."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.is_whole = False
        self._first: list[bytes] = []
        self._given: Any = None

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        self.status, self.headers = int(status.split(" ", 1)[0]), list(headers)
        return self._first.append

    def begin(self, given: Any) -> Any:
        """In the app's own thread: its answer as far as it is there at once."""
        self._given = given
        if isinstance(given, list | tuple):
            self.is_whole = True
            return [*self._first, *self._end(given)]
        parts = iter(given)
        first = next(parts, END)  # until then it may not have begun its answer
        if first is END:
            self.is_whole = True
            return [*self._first, *self._end(())]
        self._first.append(first)
        return parts

    async def rest(self, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        try:
            for part in self._first:
                yield part
            while (part := await Fiber().run(lambda: next(parts, END))) is not END:
                if part:
                    yield part
        finally:
            await Fiber().run(lambda: self._end(()))

    def _end(self, parts: Any) -> Any:
        if not self.status:
            raise JsException("the application gave no status: it did not call start_response")
        if hasattr(self._given, "close"):
            self._given.close()
        return parts


class Fiber:
    """Code that is no coroutine, and waits with `run_sync` as if it were: in a thread, of which only one runs at a time."""

    def __init__(self) -> None:
        self._resumed = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._wanted: Any = None
        self._answer: tuple[Any, BaseException | None] = (None, None)
        self._is_over = False

    async def run(self, work: Callable[[], T]) -> T:
        """What it gives."""
        loop, context = asyncio.get_running_loop(), copy_context()
        threading.Thread(target=context.run, args=(self._work, work, loop), daemon=True).start()
        while True:
            self._paused.acquire()  # the loop stands: the code has it
            if self._is_over:
                value, error = self._answer
                if error is not None:
                    raise error
                return value  # type: ignore[no-any-return]
            try:
                self._answer = (await result_of(self._wanted), None)
            except BaseException as error:  # a cancellation too: it unwinds the code
                self._answer = (None, error)
            self._resumed.release()

    def wait(self, awaitable: Any) -> Any:
        """In the thread: what it gives."""
        self._wanted = awaitable
        self._paused.release()
        self._resumed.acquire()
        value, error = self._answer
        if error is not None:
            raise error
        return value

    def _work(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        _current.fiber = self
        events._set_running_loop(loop)  # which stands meanwhile: whatever asks for it finds it
        try:
            self._answer = (work(), None)
        except BaseException as error:
            self._answer = (None, error)
        finally:
            events._set_running_loop(None)
            self._is_over = True
            self._paused.release()


_current = threading.local()


def run_sync(awaitable: Any) -> Any:
    """`pyodide.ffi.run_sync`: wait for it, in code that is no coroutine."""
    fiber = getattr(_current, "fiber", None)
    if fiber is None:
        raise JsException("run_sync() is for applications that wsgi.fetch() runs; here is a coroutine: await it")
    return fiber.wait(awaitable)


def can_run_sync() -> bool:
    """Whether `run_sync` works here."""
    return getattr(_current, "fiber", None) is not None
