"""Layer 5. The program's classes, and a node to run them: where everything is put together."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from wakeful.deployment import Deployment, Place
from wakeful.executors.feature import ExecutorFeature
from wakeful.history.feature import HistoryFeature
from wakeful.importers.feature import ImportFeature
from wakeful.jobs.feature import JobFeature
from wakeful.jobs.jobs import Jobs
from wakeful.lifecycle import OWN_MACHINE, Joining, OpenRun, running
from wakeful.machine import Machine
from wakeful.machines.feature import MachineFeature
from wakeful.machines.news import watch_of
from wakeful.machines.watch import Watch
from wakeful.notices.feature import NoticeFeature
from wakeful.notices.signatures import Secrets
from wakeful.notices.subscriptions import Handler, handler_subscription, webhook_subscription
from wakeful.operations.call_looks import CallFeature
from wakeful.operations.text_calls import TextCallFeature
from wakeful.policy.limits import Limits
from wakeful.policy.retry import RetryPolicy
from wakeful.queues.feature import QueueFeature
from wakeful.runtime.calls import make_stub
from wakeful.runtime.homes import check_places
from wakeful.runtime.node import Node
from wakeful.schedules.dag import Dag, DagObject
from wakeful.schedules.feature import ScheduleFeature
from wakeful.schedules.outside import ObjectSchedules, ShardedSchedules
from wakeful.schedules.queries import counters_of, counters_of_tenant
from wakeful.schedules.records import Counters
from wakeful.schedules.tenants import Quotas, Sharded
from wakeful.security.reserved import SecurityFeature
from wakeful.sockets.feature import SocketFeature
from wakeful.specs.fluent import Every
from wakeful.sql.feature import SqlFeature
from wakeful.store.protocol import Store
from wakeful.system import Keys, default_store, read_keys, webhook_secrets
from wakeful.transport.tls import Tls
from wakeful.values.errors import BadName, BadOption, MissingExtra, NotRunning
from wakeful.values.ids import RESERVED, ObjectId, check_key
from wakeful.values.timers import Run
from wakeful.values.times import Duration, duration_ms
from wakeful.workflows.feature import WorkflowFeature

if TYPE_CHECKING:
    from wakeful.queues.queues import Queues
    from wakeful.testing.world import World
    from wakeful.views.objects import ObjectInfo
    from wakeful.views.view import View
    from wakeful.workflow import Workflow
    from wakeful.workflows.queries import Workflows
    from wakeful.workflows.watch import WorkflowWatch

T = TypeVar("T")
H = TypeVar("H", bound=Handler)


class App:
    """Classes of durable objects. `async with app.run(url)` starts a node that runs them.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Counter(DurableObject):
    ...     async def add(self, n: int) -> int:
    ...         total = await self.storage.get("total", 0) + n
    ...         await self.storage.put("total", total)
    ...         return total
    >>> async with app.run("memory:"):
    ...     print(await app.get(Counter, "visits").add(2))
    2
    """

    def __init__(
        self,
        *,
        default_zone: str = "UTC",
        idle: Duration = "10s",
        limits: Limits | None = None,
        quotas: Quotas | None = None,
        overloaded: Callable[[], bool | str | None] | None = None,
        stores: Mapping[str, Place] | None = None,
        keys: Keys | None = None,
    ) -> None:
        """`overloaded` is asked by a node that has due timers: true, or a reason as text, and they wait until it is not.

        `stores` puts the objects of a class, or those whose keys begin so (`"eu/"`), into stores of their own; those of a
        class into several servers, `{"Order": {"a": url, "b": url}}`: see docs/spread.md.
        `keys` seals all values at rest (the newest key first; `$WAKEFUL_KEYS` when it is left out): see docs/security.md.
        """
        if overloaded is not None and (not callable(overloaded) or inspect.iscoroutinefunction(overloaded)):
            raise BadOption(
                f"overloaded must be a plain function that answers at once, not {overloaded!r}", code="overload.option"
            )
        for what, given, kind in (("limits", limits, Limits), ("quotas", quotas, Quotas)):
            if given is not None and not isinstance(given, kind):
                raise BadOption(f"{what} must be {kind.__name__}(…), not {given!r}", code=f"app.{what}")
        if keys is not None:
            read_keys(keys)  # what is wrong with them is said here
        check_places(stores or {})
        limits = limits or Limits()
        self._session: tuple[str, OpenRun] | None = None  # of `start`, and where it runs
        self._machines, self._workflows = MachineFeature(), WorkflowFeature()
        self._notices = NoticeFeature()
        self._schedules = ScheduleFeature(default_zone=default_zone, quotas=quotas)
        self.deployment = Deployment(
            limits=limits,
            idle_ms=duration_ms(idle, what="idle"),
            features=(
                self._machines,
                self._workflows,
                ImportFeature(),
                SocketFeature(),
                SqlFeature(),
                HistoryFeature(),
                ExecutorFeature(),
                JobFeature(None if quotas is None else quotas.of_jobs),
                self._schedules,
                self._notices,
                QueueFeature(),
                SecurityFeature(limits.audit_rows),
                TextCallFeature(),
                CallFeature(),
            ),
            places=stores or {},
            keys=keys,
            overloaded=overloaded,
        )

    @overload
    def object(self, cls: type[T], /) -> type[T]: ...

    @overload
    def object(self, /, *, name: str | None = None) -> Callable[[type[T]], type[T]]: ...

    def object(self, cls: type[T] | None = None, /, *, name: str | None = None) -> Any:
        """Register a class; its name is the class name unless `name` says otherwise."""

        def register(found: type[T]) -> type[T]:
            if str(name or getattr(found, "__name__", "")).startswith(RESERVED):
                raise BadName(
                    f"class name {name!r}: names that begin with {RESERVED!r} are Wakeful's own", code="name.class"
                )
            if isinstance(found, type):
                self._schedules.declarations.check(found)
                if issubclass(found, Machine):
                    self._machines.bind(name or found.__name__, found)
                if getattr(found, "__wakeful_workflow__", False):
                    self._workflows.bind(name or found.__name__, found)
            known = self.deployment.registry.add(found, name)
            for home in self.deployment.node.all_homes if self.deployment.node is not None else ():
                home.hibernation.retire(known.name)  # it may be there in an older version: see the registry
            return found

        return register if cls is None else register(cls)

    def get(self, cls: type[T], key: str, *, deadline: Duration | None = None, request_key: str | None = None) -> T:
        """A stub of the object: its methods are calls, and type checkers see the class.

        `request_key` makes a call repeatable: the first answer is remembered and given again.
        """
        return cast("T", make_stub(self.deployment, self.deployment.registry.of_class(cls), key, deadline, request_key))

    @overload
    def dag(self, dag: Dag, /) -> type[DagObject]: ...

    @overload
    def dag(self, dag: Dag, spec: Any, /, **options: Any) -> type[DagObject]: ...

    def dag(self, dag: Dag, spec: Any = None, /, **options: Any) -> type[DagObject]:
        """Register a Dag; the class whose objects are its runs, for `app.get`.

        With a spec a run starts at each of its times, under that time as its key.
        """
        cls = dag.object_class()
        self.deployment.registry.add(cls, dag.name)
        if spec is not None:

            async def start(run: Run) -> None:
                await self.get(cls, run.nominal_at.isoformat()).start()

            self._schedules.functions.add(spec, start, name=f"dag.{dag.name}", **options)
        return cls

    @overload
    def watch(self, cls: type[Machine], key: str, *, caller: Any = None) -> Watch: ...

    @overload
    def watch(self, cls: "type[Workflow]", key: str) -> "WorkflowWatch": ...

    def watch(self, cls: Any, key: str, *, caller: Any = None) -> Any:
        """`async for`: snapshots of a machine and events that it emits, as far as its class lets this caller see them.

        And `await watch.wait_for("paid", timeout="1h")`, `await watch.send("PAY")`. Of a workflow: what it publishes.
        """
        known = self.deployment.registry.of_class(cls)
        if known.name in self._workflows.bound:
            from wakeful.workflows.watch import WorkflowWatch

            if caller is not None:
                raise BadOption(
                    f"{known.name} is a Workflow, which shows all the same: no caller", code="machine.watch"
                )
            return WorkflowWatch(self.deployment, ObjectId(known.name, check_key(known.name, key)))
        if not issubclass(cls, Machine):
            raise BadOption(
                f"{known.name} is no Machine or Workflow, so there is nothing to watch", code="machine.watch"
            )
        return watch_of(self.deployment, ObjectId(known.name, check_key(known.name, key)), caller)

    @property
    def every(self) -> Every[Any]:
        """`@app.every.day.at("18:00")` on a plain `async def` function: it runs once per occurrence in the deployment."""
        return Every(partial(self._schedules.add_function, node=self.deployment.node))

    @overload
    def on(self, kinds: str | Sequence[str], handler: Handler, /, **options: Any) -> Handler: ...

    @overload
    def on(
        self,
        kinds: str | Sequence[str],
        /,
        *,
        cls: type | None = None,
        prefix: str = "",
        name: str | None = None,
        at_most: Duration | None = None,
        late: Duration = "1m",
        retry: RetryPolicy | None = None,
    ) -> Callable[[H], H]: ...

    def on(self, kinds: Any, handler: Any = None, /, *, cls: type | None = None, **options: Any) -> Any:
        """`@app.on("parked", cls=Invoice, prefix="acme/")`: the function is given a `Notice` of each, at least once.

        Kinds: parked, failed, missed, late (by `late` or more), outage. `at_most="1m"`: one for all of a kind that come
        within that time. See docs/notices.md.
        """

        def register(function: Any) -> Any:
            made = handler_subscription(kinds, function, cls=self._name_of(cls), **options)
            self._notices.add(made, self.deployment.node)
            return function

        return register if handler is None else register(handler)

    def webhook(
        self,
        url: str,
        *,
        on: str | Sequence[str] = ("parked", "missed", "outage"),
        cls: type | None = None,
        prefix: str = "",
        secret: Secrets | None = None,
        name: str | None = None,
        at_most: Duration | None = "1m",
        late: Duration = "1m",
        messages: bool = False,
        allow_http: bool = False,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Notices of these kinds are posted there, signed with `secret` (else that of $WAKEFUL_WEBHOOK_SECRET), until they are taken.

        `messages` tells what errors said as well, which may be data of your users. `name` is the URL's host unless
        given. See docs/notices.md.
        """
        made = webhook_subscription(
            url,
            on,
            webhook_secrets() if secret is None else secret,
            cls=self._name_of(cls),
            prefix=prefix,
            name=name,
            at_most=at_most,
            late=late,
            messages=messages,
            allow_http=allow_http,
            retry=retry,
        )
        self._notices.add(made, self.deployment.node)

    def _name_of(self, cls: type | None) -> str | None:
        return None if cls is None else self.deployment.registry.of_class(cls).name

    @overload
    def schedules(self, cls: type, key: str) -> ObjectSchedules: ...

    @overload
    def schedules(self, cls: type, key: Sharded) -> ShardedSchedules: ...

    def schedules(self, cls: type, key: str | Sharded) -> ObjectSchedules | ShardedSchedules:
        """The schedules of an object, or of a tenant's shards, from outside: the same operations, each a turn there."""
        name = self.deployment.registry.of_class(cls).name
        if isinstance(key, Sharded):
            return ShardedSchedules(self.deployment, cls, name, key)
        return ObjectSchedules(self.deployment, cls, ObjectId(name, check_key(name, key)))

    async def objects(self, cls: type, prefix: str = "") -> AsyncIterator["ObjectInfo"]:
        """`async for order in app.objects(Order, prefix="acme/")`: those that there are, by key; wakes none of them.

        A page is read at a time, as it is on disk then: what is made or written meanwhile may be missed.
        """
        from wakeful.views.objects import each

        async for info in each(self._view(), self.deployment.registry.of_class(cls).name, prefix):
            yield info

    async def count(self, cls: type, prefix: str = "") -> int:
        """How many objects of the class there are, of all keys or of those that begin so; wakes none of them."""
        from wakeful.views.objects import count

        return await count(self._view(), self.deployment.registry.of_class(cls).name, prefix)

    async def forget(self, cls: type, key: str) -> bool:
        """Have an object forgotten: rows, timers, jobs, sockets, ledger, remembered answers, name; False: there was none.

        Its next call finds one that never was. What is told to whom: docs/howto/forget.md.
        """
        return await self._forget(cls, key=key) > 0

    async def forget_all(self, prefix: str, cls: type | None = None) -> int:
        """Have all objects forgotten whose keys begin like that, of one class or of all: a whole tenant; how many."""
        return await self._forget(cls, prefix=prefix)

    async def token(
        self,
        cls: type,
        key: str,
        *,
        methods: Sequence[str] | None = None,
        events: Sequence[str] | None = None,
        ttl: Duration = "1h",
        name: str = "client",
    ) -> str:
        """A token for this one object, to be given to a page: it may call these methods, until it ends by itself.

        Of a machine `"snapshot"` is to watch, which is all unless `methods` says otherwise, and `events` are those that it
        may send. `"on_connect"` is a WebSocket to the object. The object knows who it is by `object:NAME`.
        """
        from wakeful.machines.node_machines import feature_of
        from wakeful.security.object_tokens import SNAPSHOT, check_grant
        from wakeful.security.tokens import dice_bytes, issue

        node, known = self._running(), self.deployment.registry.of_class(cls)
        if events is not None and not issubclass(cls, Machine):
            raise BadOption(f"{known.name} is no Machine, so it is sent no events", code="token.events")
        if methods is None:
            methods = (SNAPSHOT,) if issubclass(cls, Machine) else ()
        id, ttl_ms = ObjectId(known.name, check_key(known.name, key)), duration_ms(ttl, what="ttl")
        fields = check_grant(id, known, methods, events, name, ttl_ms)
        shapes = None if events is None else feature_of(node).bound_of(known.name).events
        if shapes is not None:
            for event in fields["events"]:
                shapes.check_type(event)
        return await issue(node.send, dice_bytes(node.dice), fields, node.clock.now() + ttl_ms)

    async def _forget(self, cls: type | None, **which: str) -> int:
        from wakeful.operations.forgets import ObjectChoice, forget

        name = None if cls is None else self.deployment.registry.of_class(cls).name
        node = self._running()
        return await forget(node.send, [home.store for home in node.all_homes], ObjectChoice(name, **which))

    def _running(self) -> Node:
        if self.deployment.node is None:
            raise NotRunning("the app is not running; ask inside `async with app.run(…)`")
        return self.deployment.node

    def _view(self) -> "View":
        from wakeful.views.view import View

        return View.of_node(self._running())

    async def counters(self, cls: type | None = None, key: str | None = None, *, tenant: str | None = None) -> Counters:
        """How the schedules of an object, or of all objects of a tenant, have been doing; wakes nothing."""
        node = self._running()
        if tenant is not None and cls is None and key is None:
            total = Counters()
            for home in node.all_homes:
                total.add(await counters_of_tenant(home.store, tenant))
            return total
        if tenant is not None or cls is None or key is None:
            raise BadOption("counters of what? give a class and a key, or tenant='…'", code="counters.what")
        id = ObjectId(self.deployment.registry.of_class(cls).name, key)
        return await counters_of(node.home(id).store, id)

    @asynccontextmanager
    async def run(
        self,
        url: str | Store = "sqlite:wakeful.db",
        *,
        paranoid: bool = False,
        listen: str = OWN_MACHINE,
        advertise: str | None = None,
        cluster: str = "",
        secret: str | None = None,
        tls: Tls | None = None,
        lease: Duration | None = None,
    ) -> AsyncIterator[Node]:
        """A node on that store (`memory:`, `sqlite:PATH`, `postgresql://…`) for as long as the block lasts.

        On a store that nodes can share it is one of a cluster: `listen` is where the others reach it
        (`HOST:PORT`; by default a socket for this user's processes on this machine), `advertise` what they dial
        if that differs. All need the same `cluster` name, and the same `secret` unless they are on one machine.
        `lease` (2 s to 60 s, by default 5 s, the same on all nodes) is for how long the others believe in a node that
        says nothing: longer for a slow store or machines that pause, shorter to take over sooner.
        `paranoid` makes every object sleep after each turn, so that one which relies on memory fails early.
        """
        joining = Joining(listen, advertise, cluster, secret, tls, lease)
        async with running(self.deployment, url, joining, paranoid=paranoid) as node:
            yield node

    async def start(self, url: str | Store = "sqlite:wakeful.db", **options: Any) -> Node:
        """`run` without a block, for a notebook or a prompt: until `stop()`. Options are those of `run`.

        What was started before, by this app or on this store, is stopped first: a cell can be run again.
        """
        where = url if isinstance(url, str) else url.url
        where = f"{where}#{id(self)}" if where == "memory:" else where  # each has its own
        for app in {id(app): app for app in (self, _started.get(where)) if app is not None}.values():
            await app.stop()
        session = OpenRun(self.run(url, **options))
        node = await session.begin()
        self._session = (where, session)
        _started[where] = self
        return node

    async def stop(self) -> None:
        """End what `start` began; nothing when it has ended. Running turns finish, what is owed stays on disk."""
        if self._session is None:
            return
        where, session = self._session
        if session.loop.is_closed():  # nothing of it runs any more, and nothing can be asked to end well
            self._forget_session(where)
            if self.deployment.node is not None:
                self.deployment.detach(self.deployment.node)
            return
        if session.loop is not asyncio.get_running_loop():
            raise NotRunning(
                "the app was started in another event loop; stop it there, or use `async with app.run(…)` in a script",
                code="app.loop",
            )
        self._forget_session(where)
        await session.end()

    def _forget_session(self, where: str) -> None:
        self._session = None
        if _started.get(where) is self:
            del _started[where]

    @asynccontextmanager
    async def connect(
        self, url: str | Store, *, cluster: str = "", secret: str | None = None, tls: Tls | None = None
    ) -> AsyncIterator[Node]:
        """A way to the nodes on that store for a process that owns nothing itself: calls, jobs, schedules, looking."""
        joining = Joining(cluster=cluster, secret=secret, tls=tls)
        async with running(self.deployment, url, joining, is_client=True) as node:
            yield node

    def asgi(self, store: str | Store | None = None, **options: Any) -> Any:
        """API, dashboard, metrics and sockets as an ASGI application, to mount anywhere or to be served as it is.

        Mounted, the program around it runs the app (`lifespan`). Served by itself it runs on `store`; without one on
        what $WAKEFUL_STORE says, else on a file in this folder. Options: see docs/http.md.
        """
        from wakeful.telemetry.logs import speak_up

        made = _server().Site(self, store=store, **options)
        speak_up()  # a server sets up its log before it loads the application
        return made

    def lifespan(self, where: Any = None, /, **options: Any) -> Any:
        """The app's life as that of a web application: `FastAPI(lifespan=app.lifespan("sqlite:app.db"))`.

        Given without a store (`lifespan=app.lifespan`), it is that of $WAKEFUL_STORE, else a file in this folder.
        Options are those of `run`.
        """
        if where is None or isinstance(where, str) or hasattr(where, "commit"):
            return lambda _app: self._living(where or default_store(), options)
        return self._living(default_store(), {})

    @asynccontextmanager
    async def _living(self, store: str | Store, options: dict[str, Any]) -> AsyncIterator[None]:
        """`run` without its node: frameworks take what is given here for the state of requests, which is a mapping."""
        from wakeful.telemetry.logs import speak_up

        speak_up()
        async with self.run(store, **options):
            yield

    @property
    def jobs(self) -> Jobs:
        """`await app.jobs.schedule(stub.method, …)`: one call, once, at a time, on disk when this returns."""
        return self.deployment.jobs

    @property
    def queues(self) -> "Queues":
        """`await app.queues.pause("mail")`: those that jobs go through with `queue=Queue("mail", …)`."""
        from wakeful.queues.queues import Queues

        return Queues(self.deployment)

    @property
    def workflows(self) -> "Workflows":
        """`await app.workflows.list(state="failed")`: the workflows that there are."""
        from wakeful.workflows.queries import Workflows

        return Workflows(self.deployment, self._workflows.bound)

    def world(self, **options: Any) -> "World":
        """A virtual world for tests: see `wakeful.testing.World`."""
        from wakeful.testing.world import World

        return World(self, **options)


_started: dict[str, App] = {}  # by `start`, and where


def _server() -> Any:
    """The door to the server, which needs the extra of that name."""
    try:
        from wakeful import server
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "wakeful":
            raise
        raise MissingExtra(
            "the server needs starlette and uvicorn: pip install 'wakeful[server]'", code="extra.server"
        ) from None
    return server
