"""Layer 5. The client for code that does not await: the same one, in a loop of its own on a thread of its own."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

from wakeful.client.client import Client, ClientOptions
from wakeful.client.jobs import ClientJobs
from wakeful.client.looks import Row
from wakeful.client.schedules import ClientSchedules
from wakeful.machines.snapshot import Snapshot
from wakeful.runtime.calls import make_stub
from wakeful.values.errors import BadOption, NotRunning
from wakeful.values.times import Duration

P = ParamSpec("P")
R = TypeVar("R")
STOP_S = 10.0  # what open connections are given at the end


class Blocked(Generic[P, R]):
    """An `async def` method of something of the client, to be had without awaiting: same arguments, same answer."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        self._method = method

    def __get__(self, blocking: "Blocking", owner: type | None = None) -> Callable[P, R]:
        method = self._method
        if blocking is None:
            return method  # asked of the class: for whoever reads what it says of itself

        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return blocking._thread.run(method(blocking._inner, *args, **kwargs))

        return call


class Blocking:
    """What is asked, and the loop that it is asked in."""

    def __init__(self, inner: Any, thread: "LoopThread") -> None:
        self._inner = inner
        self._thread = thread


class SyncJobs(Blocking):
    """`ClientJobs`, blocking."""

    schedule = Blocked(ClientJobs.schedule)
    schedule_many = Blocked(ClientJobs.schedule_many)
    batch = Blocked(ClientJobs.batch)
    get = Blocked(ClientJobs.get)
    wait = Blocked(ClientJobs.wait)
    cancel = Blocked(ClientJobs.cancel)
    list = Blocked(ClientJobs.list)


class SyncSchedules(Blocking):
    """`ClientSchedules`, blocking."""

    add = Blocked(ClientSchedules.add)
    get = Blocked(ClientSchedules.get)
    list = Blocked(ClientSchedules.list)
    next = Blocked(ClientSchedules.next)
    history = Blocked(ClientSchedules.history)
    pause = Blocked(ClientSchedules.pause)
    resume = Blocked(ClientSchedules.resume)
    trigger = Blocked(ClientSchedules.trigger)
    backfill = Blocked(ClientSchedules.backfill)
    reschedule = Blocked(ClientSchedules.reschedule)
    cancel = Blocked(ClientSchedules.cancel)


class SyncLooks(Blocking):
    """What `Client` shows and does beside calls, blocking."""

    classes = Blocked(Client.classes)
    objects = Blocked(Client.objects)
    object = Blocked(Client.object)
    storage = Blocked(Client.storage)
    chart = Blocked(Client.chart)
    due = Blocked(Client.due)
    ledger = Blocked(Client.ledger)
    parked = Blocked(Client.parked)
    redrive = Blocked(Client.redrive)
    search = Blocked(Client.search)
    audit = Blocked(Client.audit)
    nodes = Blocked(Client.nodes)
    drain = Blocked(Client.drain)
    undrain = Blocked(Client.undrain)


class SyncClient(SyncLooks):
    """`Client.sync(url, token=…)`: every method of `Client`, blocking. Any number of threads may share one.

    After a fork, make one in the child; one that was made before and not used yet is as good.
    """

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        self._client = Client(url, **options)
        super().__init__(self._client, LoopThread())
        self._finalizer = weakref.finalize(self, _end, self._thread, self._client)

    def __enter__(self) -> "SyncClient":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up and end the thread; the client can't be used again."""
        self._finalizer()

    def __repr__(self) -> str:
        return repr(self._client).replace("<Client", "<SyncClient", 1)

    def get(
        self, cls: type | str, key: str, *, deadline: Duration | None = None, request_key: str | None = None
    ) -> Any:
        """A stub of the object whose methods block until the answer is there.

        Type checkers see `Any`: they have no word for "this class, but its methods are not async".
        """
        self._client.get(cls, key, deadline=deadline)  # says what is wrong with them
        return make_stub(self, self._client.known(cls), key, deadline, request_key)

    @property
    def jobs(self) -> SyncJobs:
        """`client.jobs.schedule(stub.method, …)`, as `ClientJobs`."""
        return SyncJobs(self._client.jobs, self._thread)

    def schedules(self, cls: type | str, key: str) -> SyncSchedules:
        """The schedules of an object, as `ClientSchedules`."""
        return SyncSchedules(self._client.schedules(cls, key), self._thread)

    def events(self, *kinds: str, since: datetime | None = None) -> Iterator[Row]:
        """What happens, as it does, without an end."""
        yield from self._each(self._client.events(*kinds, since=since))

    def watch(self, cls: type | str, key: str) -> Iterator[Snapshot | Row]:
        """A machine's snapshots and emitted events, as they come, without an end."""
        yield from self._each(self._client.watch(cls, key))

    def _each(self, source: Any) -> Iterator[Any]:
        try:
            while True:
                yield self._thread.run(_next(source))
        finally:
            self._thread.run(source.aclose())

    def send(self, *call: Any, **options: Any) -> Any:
        """Router of the stubs."""
        return self._thread.run(self._client.send(*call, **options))


class LoopThread:
    """A loop on a thread, which begins when there is something to run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._is_over = False

    def run(self, way: Coroutine[Any, Any, R]) -> R:
        """What it gives, once it is done; raises in the caller's thread what it raises there."""
        try:
            self._check()
            loop = self._ready()
        except BaseException:
            way.close()
            raise
        future = asyncio.run_coroutine_threadsafe(way, loop)
        try:
            return future.result()
        except CancelledError:
            raise NotRunning(
                "this client was closed before the answer came; whether it was done is unknown", code="client.closed"
            ) from None
        except BaseException:
            future.cancel()  # somebody pressed ^C: nobody waits for it any more
            raise

    def end(self, last: Coroutine[Any, Any, Any]) -> None:
        """Run that, then end what still runs, the loop and the thread; once."""
        with self._lock:
            is_over, self._is_over = self._is_over, True
            loop, thread = self._loop, self._thread
        if is_over or loop is None or thread is None or self._pid != os.getpid() or not thread.is_alive():
            last.close()
            return
        asyncio.run_coroutine_threadsafe(_wind_up(last), loop)
        thread.join(STOP_S)

    def _check(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise BadOption(
            "a blocking call would stop the event loop that runs here; use `async with Client(…)` and await",
            code="client.blocking",
        )

    def _ready(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_over:
                raise NotRunning("this client is closed; make another", code="client.closed")
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="wakeful-client", daemon=True)
                self._thread.start()
            if self._pid != os.getpid():
                raise NotRunning(
                    "this client was used before the process forked, and its connections stayed there; make one after "
                    "the fork",
                    code="client.fork",
                )
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _wind_up(last: Coroutine[Any, Any, Any]) -> None:
    """What is under way is cancelled, and those who wait for it hear of it."""
    try:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await last
        await asyncio.sleep(0)  # transports close in the next pass
    finally:
        asyncio.get_running_loop().stop()


def _end(thread: LoopThread, client: Client) -> None:
    thread.end(client.close())


async def _next(source: Any) -> Row:
    found: Row = await anext(source)
    return found
