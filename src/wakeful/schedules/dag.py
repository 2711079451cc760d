"""Layer 4. How do tasks that depend on each other run as one object, each step durable?

A run of a Dag is an object. Each task is a schedule of it that runs once, so it has everything a schedule has: its
own turn, retries, a ledger row, parking. A task's result and the start of the tasks that waited for it commit together.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from wakeful.policy.retry import RetryPolicy
from wakeful.schedules.schedules import Schedules
from wakeful.values.errors import BadHandler, BadOption, Conflict
from wakeful.values.ids import check_class
from wakeful.values.timers import Run

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])
TASKS_MAX = 500


@dataclass(frozen=True, slots=True)
class Task:
    """One step: a function, and the steps whose results it is given."""

    name: str
    function: Callable[..., Coroutine[Any, Any, Any]]
    after: tuple[str, ...]
    retry: RetryPolicy | None


@dataclass(frozen=True, slots=True)
class DagRun:
    """How far one run of a Dag is."""

    state: str  # "new", "running", "done", "failed": a task is parked, and nothing else can go on, or "waiting": for `start`
    done: tuple[str, ...] = ()  # `result(task)` has what each returned
    waiting: tuple[str, ...] = ()  # for tasks before them, or, when added to the Dag since, for `start`
    running: tuple[str, ...] = ()  # due, running or to be retried
    failed: dict[str, str] = field(default_factory=dict)  # errors by task
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Dag:
    """Tasks and what each comes after. Register it with `app.dag(dag)`, then start runs of it by name.

    >>> from wakeful import App, Dag
    >>> app, report = App(), Dag("Report")
    >>> @report.task
    ... async def extract() -> list[int]:
    ...     return [3, 1, 2]
    >>> @report.task(after=[extract])
    ... async def load(extract: list[int]) -> str:  # a parameter named like a task gets its result
    ...     return f"loaded {sorted(extract)}"
    >>> Report = app.dag(report)
    >>> async with app.world() as world:
    ...     await world.get(Report, "monday").start()
    ...     await world.advance("1s")
    ...     print(await world.get(Report, "monday").result("load"))
    loaded [1, 2, 3]
    """

    def __init__(self, name: str) -> None:
        self.name = check_class(name)
        self.tasks: dict[str, Task] = {}

    @overload
    def task(
        self, function: F, /, *, after: Iterable[Any] = (), name: str | None = None, retry: RetryPolicy | None = None
    ) -> F: ...

    @overload
    def task(
        self, /, *, after: Iterable[Any] = (), name: str | None = None, retry: RetryPolicy | None = None
    ) -> Callable[[F], F]: ...

    def task(
        self,
        function: F | None = None,
        /,
        *,
        after: Iterable[Any] = (),
        name: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> F | Callable[[F], F]:
        """Make a function a task, which runs once those it comes after are done."""

        def add(found: F) -> F:
            if not inspect.iscoroutinefunction(found):
                raise BadHandler(f"{found!r} can't be a task; give an `async def` function", code="handler.type")
            self._add(Task(name or found.__name__, found, tuple(_name_of(one) for one in after), retry))
            return found

        return add if function is None else add(function)

    def _add(self, task: Task) -> None:
        if task.name in self.tasks:
            raise BadOption(f"Dag {self.name} has a task {task.name!r} already; give one name='…'", code="dag.twice")
        if len(self.tasks) >= TASKS_MAX:
            raise BadOption(f"Dag {self.name}: more than {TASKS_MAX} tasks", code="dag.tasks")
        for before in task.after:
            if before not in self.tasks:  # so no circle can be made
                raise BadOption(
                    f"Dag {self.name}: task {task.name!r} comes after {before!r}, which is not there yet; define that one first",
                    code="dag.after",
                )
        for parameter in _parameters(task.function):
            if parameter not in task.after and parameter not in ("run", "input"):
                raise BadHandler(
                    f"Dag {self.name}: task {task.name!r} takes {parameter!r}, which is none of the tasks it comes after "
                    f"({', '.join(task.after) or 'none'}), nor `input` or `run`",
                    code="dag.parameter",
                )
        self.tasks[task.name] = task

    def object_class(self) -> "type[DagObject]":
        """The class whose objects are runs of this Dag."""
        return type(self.name, (DagObject,), {"dag": self, "__module__": __name__})


class DagObject:
    """One run. Its key is the run's name: `start` twice for one key is one run."""

    dag: Dag

    def __init__(self, ctx: "Context") -> None:
        self.ctx = ctx

    async def start(self, input: Any = None) -> DagRun:
        """Begin; a run that has begun already goes on as it is, with the tasks that the Dag has now."""
        storage = self.ctx.storage
        if await storage.get("started") is None:
            await storage.put("started", {"at": self.ctx.now(), "input": input})
        await self._start_ready(await self._done())
        return await self.status()

    async def status(self) -> DagRun:
        """How far it is, by the tasks that the Dag has now."""
        started = await self.ctx.storage.get("started")
        if started is None:
            return DagRun("new", waiting=tuple(self.dag.tasks))
        times = await self._done()
        done = tuple(name for name in self.dag.tasks if name in times)
        failed = await self._failures(times)
        due = {one.name for one in await Schedules(self.ctx).list() if one.state != "done"}
        left = [name for name in self.dag.tasks if name not in times and name not in failed]
        running = tuple(name for name in left if name in due)
        waiting = tuple(name for name in left if name not in due)
        if len(done) == len(self.dag.tasks):
            finished_at = max([started["at"], *(times[name] for name in done)])
            return DagRun("done", done, started_at=started["at"], finished_at=finished_at)
        state = "running" if running else "failed" if failed else "waiting"
        return DagRun(state, done, waiting, running, failed, started["at"])

    async def result(self, task: str) -> Any:
        """What a task returned; `Conflict` when it is not done."""
        if task not in await self._done():
            raise Conflict(
                f"{self.ctx.id} has no result of a task {task!r}; status() says which are done", code="dag.result"
            )
        return await self.ctx.storage.get(f"result:{task}")

    async def retry(self) -> DagRun:
        """Try the failed tasks again."""
        done = await self._done()
        failed = await self._failures(done)
        if not failed:
            raise Conflict(f"{self.ctx.id} has no failed task to retry", code="dag.retry")
        for name in failed:
            await Schedules(self.ctx).cancel(name)
        await self._start_ready(done)
        return await self.status()

    async def _step(self, task_name: str, run: Run) -> None:
        task = self.dag.tasks.get(task_name)
        done = await self._done()
        if task_name in done:
            return  # redriven after a retry had done it
        if task is not None:  # else it was taken out of the Dag, and nothing is left to do
            await self._run(task, run)
            done[task_name] = self.ctx.now()
            await self.ctx.storage.put("done", done)
        await self._start_ready(done)

    async def _run(self, task: Task, run: Run) -> None:
        storage = self.ctx.storage
        given: dict[str, Any] = {}
        for name in _parameters(task.function):
            if name in task.after:
                given[name] = await storage.get(f"result:{name}")
            elif name == "input":
                given[name] = (await storage.get("started"))["input"]
            else:
                given[name] = run
        await storage.put(f"result:{task.name}", await task.function(**given))

    async def _done(self) -> dict[str, datetime]:
        """When each task was done, also of those that the Dag no longer has."""
        return dict(await self.ctx.storage.get("done", {}))

    async def _failures(self, done: Iterable[str]) -> dict[str, str]:
        """The error of each task that was given up."""
        schedules = Schedules(self.ctx)
        found = {}
        for one in await schedules.list(state="done"):
            if one.counters.failures and one.name in self.dag.tasks and one.name not in done:
                runs = await schedules.history(one.name, 1)
                found[one.name] = (runs[0].error or "") if runs else ""
        return found

    async def _start_ready(self, done: Mapping[str, datetime]) -> None:
        """Give a schedule to every task that waits for nothing and has none yet."""
        schedules = Schedules(self.ctx)
        # One that ended well without a result ran while its task was out of the Dag.
        there = {one.name for one in await schedules.list() if one.state != "done" or one.counters.failures}
        for name, task in self.dag.tasks.items():
            if name not in done and name not in there and all(before in done for before in task.after):
                options: dict[str, Any] = {} if task.retry is None else {"retry": task.retry}
                await schedules.add(self.ctx.now(), "_step", name, name=name, **options)


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _name_of(one: Any) -> str:
    return one if isinstance(one, str) else str(getattr(one, "__name__", one))
