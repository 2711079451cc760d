"""Layer 5. How does a method that runs in a thread or a process reach its object? By the names it has, without awaiting."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from wakeful.executors.method_thread import Question, ask, wait
from wakeful.executors.worker import WorkerContext, itself
from wakeful.jobs.jobs import Jobs
from wakeful.jobs.signatures import ScheduleJobBlocking
from wakeful.runtime.calls import make_stub
from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.registry import looked_at
from wakeful.runtime.storage import Storage
from wakeful.runtime.sync_method import Blocked
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.schedules.records import Schedule
from wakeful.schedules.schedules import Schedules
from wakeful.schedules.signatures import AddScheduleBlocking
from wakeful.specs.fluent import Every
from wakeful.sql.result import SqlRows
from wakeful.values.ids import ObjectId
from wakeful.values.times import Duration

T = TypeVar("T")


def _storage(ctx: Context) -> Storage:
    return ctx.storage


class BlockingPart:
    """A part of an object, of which methods are called on the node's loop."""

    def __init__(self, ctx: Any, part: Callable[[Any], Any]) -> None:
        self._ctx = ctx
        self._part = part

    def _call(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return ask(self._ctx, Question(self._part, method, args, kwargs))


class BlockingStorage(BlockingPart):
    """`self.blocking.storage`, as `Storage`."""

    get = Blocked(Storage.get)
    get_many = Blocked(Storage.get_many)
    put = Blocked(Storage.put)
    put_many = Blocked(Storage.put_many)
    delete = Blocked(Storage.delete)
    delete_many = Blocked(Storage.delete_many)
    delete_all = Blocked(Storage.delete_all)
    list = Blocked(Storage.list)
    count = Blocked(Storage.count)
    set_alarm = Blocked(Storage.set_alarm)
    get_alarm = Blocked(Storage.get_alarm)
    delete_alarm = Blocked(Storage.delete_alarm)

    @contextmanager
    def transaction(self) -> Iterator["BlockingStorage"]:
        """A savepoint inside the turn: a raise drops the writes, SQL and alarm changes made inside, and only those."""
        self._call(_save, (), {})
        try:
            yield self
        except BaseException:
            self._call(_restore, (), {})
            if isinstance(self._ctx, WorkerContext):
                self._ctx.forget_state()
            raise
        self._call(_release, (), {})


class BlockingSchedules(BlockingPart):
    """`self.blocking.schedules`, as `Schedules`."""

    add: AddScheduleBlocking = cast("Any", Blocked(cast("Any", Schedules.add)))
    get = Blocked(Schedules.get)
    list = Blocked(Schedules.list)
    pause = Blocked(Schedules.pause)
    resume = Blocked(Schedules.resume)
    trigger = Blocked(Schedules.trigger)
    cancel = Blocked(Schedules.cancel)
    reschedule = Blocked(Schedules.reschedule)
    backfill = Blocked(Schedules.backfill)
    history = Blocked(Schedules.history)
    next = Blocked(Schedules.next)
    claim = Blocked(Schedules.claim)

    @property
    def every(self) -> Every[Schedule]:
        """`self.blocking.schedules.every.monday.at("9am")(self.report)`."""
        return Every(self.add)


class BlockingJobs(BlockingPart):
    """`self.blocking.jobs`, as `Jobs`."""

    schedule: ScheduleJobBlocking = cast("Any", Blocked(cast("Any", Jobs.schedule)))
    schedule_many = Blocked(Jobs.schedule_many)
    batch = Blocked(Jobs.batch)
    get = Blocked(Jobs.get)
    list = Blocked(Jobs.list)
    cancel = Blocked(Jobs.cancel)
    cancel_many = Blocked(Jobs.cancel_many)
    redrive = Blocked(Jobs.redrive)
    wait = Blocked(Jobs.wait)


class BlockingContext(BlockingPart):
    """`self.blocking.ctx`: of `Context` what is awaited."""

    commit = Blocked(Context.commit)
    bookmark = Blocked(Context.bookmark)
    restore = Blocked(Context.restore)
    forget = Blocked(Context.forget)
    sockets = Blocked(Context.sockets)
    broadcast = Blocked(Context.broadcast)
    auto_response = Blocked(Context.auto_response)


class BlockingView:
    """`self.blocking`, or `BlockingView(ctx)` in a class of your own: an object for code that does not await.

    >>> from wakeful import App, DurableObject, in_thread
    >>> app = App()
    >>> @app.object
    ... class Notes(DurableObject):
    ...     @in_thread
    ...     def add(self, text: str) -> int:
    ...         self.blocking.sql("CREATE TABLE IF NOT EXISTS notes (text)")
    ...         self.blocking.sql("INSERT INTO notes VALUES (?)", text)
    ...         return self.blocking.sql("SELECT count(*) FROM notes").value()
    >>> async with app.world() as world:
    ...     print(await world.get(Notes, "a").add("milk"))
    1
    """

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    @property
    def storage(self) -> BlockingStorage:
        return BlockingStorage(self._ctx, _storage)

    @property
    def schedules(self) -> BlockingSchedules:
        return BlockingSchedules(self._ctx, Schedules)

    @property
    def every(self) -> Every[Schedule]:
        """`self.blocking.every.monday.at("9am")(self.report)` adds a schedule to this object."""
        return self.schedules.every

    @property
    def jobs(self) -> BlockingJobs:
        return BlockingJobs(self._ctx, Jobs)

    @property
    def ctx(self) -> BlockingContext:
        """`commit()`, `broadcast(…)` and the like; what is not awaited is on `self.ctx`."""
        return BlockingContext(self._ctx, itself)

    def sql(self, query: str, /, *positional: Any, **named: Any) -> SqlRows:
        """The object's own database, as `self.sql`."""
        rows: SqlRows = ask(self._ctx, Question(itself, _run_sql, (query, positional, named), {}))
        return rows

    def get(self, cls: type, key: str, *, deadline: Duration | None = None, request_key: str | None = None) -> Any:
        """A stub of another object whose methods block until the answer is there.

        Type checkers see `Any`: they have no word for "this class, but its methods are not async". `wakeful stubs` writes one
        down for each class; or write `self.blocking.wait(self.ctx.get(Other, "a").method())`.
        """
        return make_stub(self, looked_at(cls), key, deadline, request_key)

    def wait(self, awaitable: Awaitable[T]) -> T:
        """What comes of awaiting that in the object's turn; in `@in_thread` methods only."""
        return wait(awaitable)

    def send(self, target: ObjectId, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any) -> Any:
        """Router of the stubs."""
        return ask(self._ctx, Question(itself, _send, (target, method, args, kwargs, options), {}))


def _run_sql(ctx: Context, query: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return ctx.sql(query, *positional, **named)


def _send(ctx: Context, target: ObjectId, method: str, args: Any, kwargs: Any, options: dict[str, Any]) -> Any:
    return runtime_of(ctx).node.send(target, method, args, kwargs, **options)


def _save(storage: Storage) -> None:
    _turn().save()


def _restore(storage: Storage) -> None:
    _turn().restore()


def _release(storage: Storage) -> None:
    _turn().release()


def _turn() -> Turn:
    turn = CURRENT.get()
    assert turn is not None
    turn.check_writable()
    return turn
