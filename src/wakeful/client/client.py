"""Layer 5. How does a program somewhere else call durable objects? As if it had them.

async with Client("http://127.0.0.1:7420", token=…) as client:
    await client.get(Reminders, "bob").add("call home", at)
"""

import os
import ssl
import weakref
from collections.abc import Container, Iterator, Mapping
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

from wakeful.client.jobs import ClientJobs
from wakeful.client.looks import Looks, Row, object_path
from wakeful.client.loop_thread import BlockingClient, LoopThread
from wakeful.client.schedules import ClientSchedules
from wakeful.client.wire import HttpWire, check_extra, segment
from wakeful.jobs.signatures import ScheduleJobBlocking
from wakeful.machines.snapshot import Snapshot
from wakeful.machines.watch import Watch
from wakeful.runtime.calls import make_stub
from wakeful.runtime.registry import ObjectClass, looked_at, name_of
from wakeful.runtime.sync_method import Blocked
from wakeful.schedules.signatures import AddScheduleBlocking
from wakeful.values.errors import BadOption, UnknownMethod
from wakeful.values.ids import ObjectId, check_class, check_key
from wakeful.values.times import Duration, duration_ms

DEADLINE_MAX_MS = 900_000  # what a server grants
CONNECTIONS = 100

T = TypeVar("T")


class ClientOptions(TypedDict, total=False):
    """What `Client` takes beside the URL."""

    token: str | None
    timeout: Duration
    retries: bool
    connections: int
    tls: ssl.SSLContext | None


class Client(Looks):
    """Calls, jobs, schedules and looks at a server's objects. Inside `async with`, or with `close()` at the end.

    >>> from wakeful import App, Client, DurableObject
    >>> from wakeful.server import serving
    >>> app = App()
    >>> @app.object
    ... class Greeter(DurableObject):
    ...     async def greet(self, name: str) -> str:
    ...         return f"hello {name}"
    >>> async with app.run("memory:") as node, serving(app, node, "127.0.0.1:0") as server:
    ...     async with Client(server.url) as client:
    ...         print(await client.get(Greeter, "door").greet("ann"))
    hello ann
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: Duration = "60s",
        retries: bool = True,
        connections: int = CONNECTIONS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`url` is where the server is, with the path under which it is mounted; `token` what `wakeful tokens` made.

        `timeout` is what a call without a `deadline` has, repeats and all. Without `retries` nothing is sent twice and
        no request keys are made. `connections` are open at most. `tls` is for a certificate of your own.
        """
        check_extra()
        self._timeout_ms = _check_length(timeout, "timeout")
        if isinstance(connections, bool) or not isinstance(connections, int) or connections < 1:
            raise BadOption(
                f"connections must be a whole number from 1, not {connections!r}", code="client.connections"
            )
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise BadOption(
                f"tls must be an ssl.SSLContext, not {tls!r}; for a certificate authority of your own: "
                'ssl.create_default_context(cafile="ca.pem")',
                code="client.tls",
            )
        self._has_retries = retries
        self._wire = HttpWire(url, token, is_retrying=retries, connections_max=connections, tls=tls)
        self._known: dict[str, ObjectClass] = {}

    @staticmethod
    def sync(url: str, **options: Unpack[ClientOptions]) -> "SyncClient":
        """The same for code that does not await: `with Client.sync("http://…", token=…) as client`."""
        return SyncClient(url, **options)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up; the client can't be used again."""
        await self._wire.close()

    def __repr__(self) -> str:
        return f"<Client of {self._wire.url}>"

    @overload
    def get(self, cls: type[T], key: str, *, deadline: Duration | None = None, request_key: str | None = None) -> T: ...

    @overload
    def get(self, cls: str, key: str, *, deadline: Duration | None = None, request_key: str | None = None) -> Any: ...

    def get(
        self, cls: type[T] | str, key: str, *, deadline: Duration | None = None, request_key: str | None = None
    ) -> Any:
        """A stub of the object: its methods are calls. Given the class, type checkers see it; its name will do, too.

        `request_key` makes a call repeatable: the first answer is remembered and given again.
        """
        if deadline is not None:
            _check_length(deadline, "deadline")
        return make_stub(self, self.known(cls), key, deadline, request_key)

    @property
    def jobs(self) -> ClientJobs:
        """`await client.jobs.schedule(stub.method, …)`: one call, once, at a time."""
        return ClientJobs(self, new_key)

    def schedules(self, cls: type | str, key: str) -> ClientSchedules:
        """The schedules of an object: add, pause, trigger, backfill and so on, each a turn there."""
        name = check_class(name_of(cls))
        return ClientSchedules(self, cls, ObjectId(name, check_key(name, key)), new_key)

    async def chart(self, cls: type | str, key: str) -> str:
        """The picture of a machine as it stands, as SVG."""
        return str(await self._look(f"{object_path(cls, key)}/chart.svg"))

    def watch(self, cls: type | str, key: str) -> Watch:
        """A machine as it changes: its snapshots and emitted events, as far as its class lets the token see them.

        `async for` has no end; the first is how it stands, and so is the first after a connection that broke, unless
        nothing has changed. `await watch.wait_for("paid", timeout="1h")` waits for a state, `await watch.send("PAY")`
        sends an event, once however often it has to be repeated.
        """
        name = check_class(name_of(cls))
        target = ObjectId(name, check_key(name, key))

        async def deliver(event: str | Mapping[str, Any], data: dict[str, Any]) -> Snapshot | None:
            answer = await self.send(target, "send", (event,), data, deadline_ms=None, request_key=None)
            return cast("Snapshot | None", answer)

        return Watch(str(target), lambda: self._news(cls, key), deliver)

    def known(self, cls: type | str) -> Any:
        """What is known of the class: everything when it is here, else only its name."""
        if isinstance(cls, str):
            return self._known.get(cls) or Anything(check_class(cls))
        name = name_of(cls)
        found = self._known.get(name)
        if found is None or found.cls is not cls:
            found = self._known[name] = looked_at(cls)
        return found

    async def send(
        self,
        target: ObjectId,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        deadline_ms: int | None,
        request_key: str | None,
    ) -> Any:
        """Router of the stubs. What only reads needs no request key in order to be repeated."""
        known = self._known.get(target.cls)
        is_reader = known is not None and method in known.readers
        key = request_key or (None if is_reader or not self._has_retries else new_key())
        answer = await self._wire.ask(
            "POST",
            f"{object_path(target.cls, target.key)}/{segment(method)}",
            body=[list(args), kwargs],
            headers={} if key is None else {"idempotency-key": _header(key)},
            limit_ms=deadline_ms or self._timeout_ms,
            is_repeatable=is_reader or key is not None,
            has_deadline=True,
        )
        return answer["result"]


class Anything:
    """A class that is only on the server: whatever is asked for may be a method."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.methods: Container[str] = frozenset()

    def check_method(self, name: str) -> None:
        if name.startswith("_"):
            raise UnknownMethod(f"{self.name}.{name} is private (leading underscore)")


def new_key() -> str:
    """A key that nobody else has."""
    return os.urandom(12).hex()


def _header(key: str) -> str:
    """A request key as a header; in quotes only where it would be taken for one that is."""
    if not key.isascii() or " " in key:
        raise BadOption(f"request key {key!r}: over HTTP it is ASCII without spaces", code="request.key.form")
    return f'"{key}"' if key[0] == '"' else key


def _check_length(length: Duration, what: str) -> int:
    ms = duration_ms(length, what=what)
    if not 1 <= ms <= DEADLINE_MAX_MS:
        raise BadOption(f"{what} {length!r}: from a millisecond to {DEADLINE_MAX_MS // 1000} s", code=f"client.{what}")
    return ms


# The same for code that does not await.


class SyncJobs(BlockingClient):
    """`ClientJobs`, blocking."""

    schedule: ScheduleJobBlocking = cast("Any", Blocked(cast("Any", ClientJobs.schedule)))
    schedule_many = Blocked(ClientJobs.schedule_many)
    batch = Blocked(ClientJobs.batch)
    get = Blocked(ClientJobs.get)
    wait = Blocked(ClientJobs.wait)
    cancel = Blocked(ClientJobs.cancel)
    list = Blocked(ClientJobs.list)


class SyncSchedules(BlockingClient):
    """`ClientSchedules`, blocking."""

    add: AddScheduleBlocking = cast("Any", Blocked(cast("Any", ClientSchedules.add)))
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


class SyncLooks(BlockingClient):
    """What `Client` shows and does beside calls, blocking."""

    classes = Blocked(Client.classes)
    objects = Blocked(Client.objects)
    object = Blocked(Client.object)
    storage = Blocked(Client.storage)
    chart = Blocked(Client.chart)
    due = Blocked(Client.due)
    ledger = Blocked(Client.ledger)
    history = Blocked(Client.history)
    restore = Blocked(Client.restore)
    reset = Blocked(Client.reset)
    workflow = Blocked(Client.workflow)
    workflows = Blocked(Client.workflows)
    pause_workflow = Blocked(Client.pause_workflow)
    resume_workflow = Blocked(Client.resume_workflow)
    cancel_workflow = Blocked(Client.cancel_workflow)
    restart_workflow = Blocked(Client.restart_workflow)
    retry_workflow = Blocked(Client.retry_workflow)
    fork_workflow = Blocked(Client.fork_workflow)
    parked = Blocked(Client.parked)
    redrive = Blocked(Client.redrive)
    drop_parked = Blocked(Client.drop_parked)
    forget = Blocked(Client.forget)
    forget_all = Blocked(Client.forget_all)
    holdings = Blocked(Client.holdings)
    search = Blocked(Client.search)
    audit = Blocked(Client.audit)
    calls = Blocked(Client.calls)
    cancel_call = Blocked(Client.cancel_call)
    nodes = Blocked(Client.nodes)
    drain = Blocked(Client.drain)
    undrain = Blocked(Client.undrain)
    queues = Blocked(Client.queues)
    queue = Blocked(Client.queue)
    pause_queue = Blocked(Client.pause_queue)
    resume_queue = Blocked(Client.resume_queue)
    webhooks = Blocked(Client.webhooks)
    test_webhook = Blocked(Client.test_webhook)


class SyncWatch(BlockingClient):
    """`Watch`, blocking. `with client.watch(Order, "o-1") as watch:` closes it."""

    _inner: Watch
    wait_for = Blocked(Watch.wait_for)
    send = Blocked(Watch.send)
    close = Blocked(Watch.aclose)

    def __enter__(self) -> "SyncWatch":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def snapshot(self) -> Snapshot | None:
        """The last that is known here."""
        return self._inner.snapshot

    def __iter__(self) -> Iterator[Snapshot | Row]:
        """News as they come, without an end; whoever leaves the loop closes the watch."""
        yield from each(self._inner, self._thread)


def each(source: Any, thread: LoopThread) -> Iterator[Any]:
    """What an async iterator gives, without an end."""
    try:
        while True:
            yield thread.run(_next(source))
    finally:
        thread.run(source.aclose())


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
        yield from each(self._client.events(*kinds, since=since), self._thread)

    def watch(self, cls: type | str, key: str) -> "SyncWatch":
        """A machine as it changes, as `Client.watch`: `for news in …`, `wait_for`, `send`."""
        return SyncWatch(self._client.watch(cls, key), self._thread)

    def send(self, *call: Any, **options: Any) -> Any:
        """Router of the stubs."""
        return self._thread.run(self._client.send(*call, **options))


def _end(thread: LoopThread, client: Client) -> None:
    thread.end(client.close())


async def _next(source: Any) -> Row:
    found: Row = await anext(source)
    return found
