"""Layer 5. How do streams and sockets hear that the server under them begins to stop?

ASGI says so in the lifespan only, and servers say that last: they wait for open connections first, so that somebody who
watches events would hold up a stop for as long as they watch. Our own server tells; another is asked itself, by the
tasks of the loop it runs; and of one that is not known the signals that it takes are heard as well.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

STOPPING_S = 10.0  # in which whatever begins to last ends at once: a request that was under way when the stop began
SIGNALS = (signal.SIGTERM, signal.SIGINT)

Begin = Callable[[], None]


class Stops:
    """What lasts on one site, and how it ends."""

    def __init__(self) -> None:
        self._ends: dict[object, Callable[[], object]] = {}
        self._servers: list[HeardServer] = []  # so that nobody has to look for them again
        self._stopping: list[HeardServer] = []
        self._met: asyncio.AbstractEventLoop | None = None  # where they were looked for
        self._signals = Signals()
        self._begun_at: float | None = None
        self.is_told = False  # by a server of ours, which no one has to look for

    @contextmanager
    def lasting(self, end: Callable[[], object]) -> Iterator[None]:
        """Around what would last as long as its client likes; `end` is called, once, when the server begins to stop."""
        loop = asyncio.get_running_loop()
        if not self._ends and not self.is_told and not (self._servers and self._met is loop):
            self._look(loop)
        place = object()
        self._ends[place] = end
        if self._begun_at is not None and loop.time() - self._begun_at < STOPPING_S:
            loop.call_soon(self._end, place)
        try:
            yield
        finally:
            self._ends.pop(place, None)
            if not self._ends:
                self._signals.release()

    def is_stopping(self) -> bool:
        """The server under us stops: it said so of late, or says so still, however long it waits."""
        if self._begun_at is None:
            return False
        is_late = asyncio.get_running_loop().time() - self._begun_at >= 2 * STOPPING_S
        return not is_late or any(one.kind.is_stopping(one.server) for one in self._stopping)

    def meet(self) -> None:
        """A request has come: its server is to be heard, which says nothing more when it has stopped."""
        if not self.is_told and self._met is not (loop := asyncio.get_running_loop()):
            self._find(loop)

    def begin(self) -> None:
        """The server stops: all that lasts ends."""
        self._begun_at = asyncio.get_running_loop().time()
        self._stopping += self._servers
        self._servers, self._met = [], None  # whoever comes later has another
        for place in list(self._ends):
            self._end(place)

    def _end(self, place: object) -> None:
        end = self._ends.get(place)
        if end is not None:
            self._ends[place] = _nothing  # still there, and told
            end()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._find(loop)
        if not self._servers:
            self._signals.take(loop, self.begin)

    def _find(self, loop: asyncio.AbstractEventLoop) -> None:
        self._met, self._servers = loop, []  # one of a loop that is over, and was not stopped, would never say so
        for server, kind in servers_of(loop):
            if not kind.is_stopping(server):
                self._stopping.clear()
                self._servers.append(HeardServer(server, kind, kind.hear(server, self.begin)))


def _nothing() -> None:
    """Who was told is not told again."""


def servers_of(loop: asyncio.AbstractEventLoop) -> list[tuple[Any, "ServerKind"]]:
    """The servers that run on this loop, each with its kind: found in the frames of its tasks."""
    files = {sys.modules[kind.module].__file__: kind for kind in KNOWN if kind.module in sys.modules}
    servers: dict[int, tuple[Any, ServerKind]] = {}
    for task in asyncio.all_tasks(loop) if files else ():
        coroutine: Any = task.get_coro()
        while coroutine is not None:
            frame: Any = getattr(coroutine, "cr_frame", None)
            kind = None if frame is None else files.get(frame.f_code.co_filename)
            server = None if kind is None else frame.f_locals.get(kind.name)
            if server is not None and kind is not None:
                servers[id(server)] = (server, kind)
            coroutine = getattr(coroutine, "cr_await", None)
    return list(servers.values())


def _hear_uvicorn(server: Any, begin: Begin) -> None:
    """Its `shutdown` closes the listening sockets first of all, and then waits: signal, reload or limit, all come there."""
    if not callable(getattr(server, "shutdown", None)):
        return
    before = server.shutdown

    async def shutdown(*args: Any, **kwargs: Any) -> Any:
        if server.__dict__.get("shutdown") is shutdown:
            del server.shutdown  # what was put around this meanwhile stays
        begin()
        return await before(*args, **kwargs)

    server.shutdown = shutdown


def _hear_hypercorn(context: Any, begin: Begin) -> "asyncio.Task[None] | None":
    """The context of its worker has an event for it."""
    over = getattr(context, "terminated", None)
    if over is None:
        return None

    async def wait() -> None:
        await over.wait()
        begin()

    return asyncio.get_running_loop().create_task(wait())


def _uvicorn_stops(server: Any) -> bool:
    """It was told to, or has closed its listening sockets because it has had as many requests as it may."""
    listening = getattr(server, "servers", None) or ()
    return bool(getattr(server, "should_exit", False)) or any(not one.is_serving() for one in listening)


def _hypercorn_stops(context: Any) -> bool:
    over = getattr(context, "terminated", None)
    return over is not None and bool(over.is_set())


class ServerKind(NamedTuple):
    """A server of others: the module whose frames are looked for, what they call the server, and how it is asked."""

    module: str
    name: str
    hear: Callable[[Any, Begin], Any]
    is_stopping: Callable[[Any], bool]


class HeardServer(NamedTuple):
    """One that tells us when it begins to stop."""

    server: Any
    kind: ServerKind
    hearing: Any  # which must not be forgotten


# gunicorn's workers of that kind run uvicorn's server.
KNOWN = (
    ServerKind("uvicorn.server", "self", _hear_uvicorn, _uvicorn_stops),
    ServerKind("hypercorn.asyncio.run", "context", _hear_hypercorn, _hypercorn_stops),
)


class Signals:
    """The signals by which a server is stopped, heard on their way to it."""

    def __init__(self) -> None:
        self._chained: list[Chained] = []

    def take(self, loop: asyncio.AbstractEventLoop, begin: Begin) -> None:
        """Go before the handlers that there are. Where nobody handles one it ends the process, and there is none to hear."""
        if threading.current_thread() is not threading.main_thread():
            return  # only there can it be done, and only there are servers that do
        for number in SIGNALS:
            before = signal.getsignal(number)
            if callable(before) and before is not signal.default_int_handler:
                chained = Chained(number, before, loop, begin)
                signal.signal(number, chained)
                self._chained.append(chained)

    def release(self) -> None:
        """Put back what was there, unless somebody has put another in its place."""
        chained_all, self._chained = self._chained, []
        for chained in chained_all:
            chained.release()


class Chained:
    """A handler that tells us and then does what was done before."""

    def __init__(self, number: int, before: Callable[..., Any], loop: asyncio.AbstractEventLoop, begin: Begin) -> None:
        self._number = number
        self.before = before
        self._loop = loop
        self._begin: Begin | None = begin

    def __call__(self, number: int, frame: Any) -> Any:
        if self._begin is not None:
            with suppress(RuntimeError):  # the loop is over
                self._loop.call_soon_threadsafe(self._begin)
        return self.before(number, frame)

    def release(self) -> None:
        self._begin = None
        now: Any = signal.getsignal(self._number)
        if now is not self or threading.current_thread() is not threading.main_thread():
            return  # somebody else's is before it, and may call it; it only passes on from here
        before = self.before
        while isinstance(before, Chained) and before._begin is None:
            before = before.before
        signal.signal(self._number, before)
