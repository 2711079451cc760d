"""Layer 4. How do tasks that depend on each other run as one object, each step durable?

A run of a Dag is an object. Each task is a schedule of it that runs once, so it has everything a schedule has: its
own turn, retries, a ledger row, parking. A task's result and the start of the tasks that waited for it commit together.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from wakeful.logic.retry import RetryPolicy
from wakeful.schedules.schedules import Schedules
from wakeful.values.errors import BadHandler, BadOption, Conflict
from wakeful.values.ids import check_class
from wakeful.values.runs import Run

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

    state: str  # "new", "running", "done", or "failed": a task is parked, and nothing else can go on
    done: dict[str, Any] = field(default_factory=dict)  # results by task
    waiting: tuple[str, ...] = ()  # for tasks before them
    running: tuple[str, ...] = ()  # due, running or to be retried
    failed: dict[str, str] = field(default_factory=dict)  # errors by task
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Dag:
    """Tasks and what each comes after. Register it with `app.dag(dag)`, then start runs of it by name.

    ```
    report = Dag("Report")

    @report.task
    async def extract(): ...

    @report.task(after=[extract])
    async def load(extract): ...      # a parameter named like a task gets its result
    ```
    """

    def __init__(self, name: str) -> None:
        self.name = check_class(name)
        self.tasks: dict[str, Task] = {}

    @overload
    def task(self, function: F, /) -> F: ...

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
        """Begin; a run that has begun already goes on as it is."""
        storage = self.ctx.storage
        if await storage.get("started") is None:
            await storage.put("started", {"at": self.ctx.now(), "input": input})
            if not self.dag.tasks:
                await storage.put("finished", self.ctx.now())
            await self._start_ready({})
        return await self.status()

    async def status(self) -> DagRun:
        """How far it is."""
        storage = self.ctx.storage
        started = await storage.get("started")
        if started is None:
            return DagRun("new", waiting=tuple(self.dag.tasks))
        done = await self._results()
        failed = await self._failures(done)
        running = tuple(
            name for name, task in self.dag.tasks.items()
            if name not in done and name not in failed and all(before in done for before in task.after)
        )  # fmt: skip
        waiting = tuple(
            name for name in self.dag.tasks if name not in done and name not in failed and name not in running
        )
        finished_at = await storage.get("finished")
        state = "done" if finished_at is not None else "failed" if failed and not running else "running"
        return DagRun(state, done, waiting, running, failed, started["at"], finished_at)

    async def retry(self) -> DagRun:
        """Try the failed tasks again."""
        done = await self._results()
        failed = await self._failures(done)
        if not failed:
            raise Conflict(f"{self.ctx.id} has no failed task to retry", code="dag.retry")
        for name in failed:
            await Schedules(self.ctx).cancel(name)
        await self._start_ready(done)
        return await self.status()

    async def _step(self, task_name: str, run: Run) -> None:
        storage = self.ctx.storage
        task = self.dag.tasks.get(task_name)
        if task is None:
            raise BadHandler(f"Dag {self.dag.name} has no task {task_name!r} any more", code="dag.task")
        results = await self._results()
        if task_name in results:
            return  # redriven after a retry had done it
        given = {name: results[name] for name in _parameters(task.function) if name in results}
        if "input" in _parameters(task.function):
            given["input"] = (await storage.get("started"))["input"]
        if "run" in _parameters(task.function):
            given["run"] = run
        results[task_name] = await task.function(**given)
        await storage.put(f"result:{task_name}", results[task_name])
        if len(results) == len(self.dag.tasks):
            await storage.put("finished", self.ctx.now())
        await self._start_ready(results)

    async def _results(self) -> dict[str, Any]:
        found = await self.ctx.storage.list(prefix="result:")
        return {key.partition(":")[2]: value for key, value in found.items()}

    async def _failures(self, done: dict[str, Any]) -> dict[str, str]:
        """The error of each task that was given up."""
        schedules = Schedules(self.ctx)
        found = {}
        for one in await schedules.list(state="done"):
            if one.counters.failures and one.name not in done:
                runs = await schedules.history(one.name, 1)
                found[one.name] = (runs[0].error or "") if runs else ""
        return found

    async def _start_ready(self, done: dict[str, Any]) -> None:
        """Give a schedule to every task that waits for nothing and has none yet."""
        schedules = Schedules(self.ctx)
        there = {one.name for one in await schedules.list()}
        for name, task in self.dag.tasks.items():
            if name not in done and name not in there and all(before in done for before in task.after):
                options: dict[str, Any] = {} if task.retry is None else {"retry": task.retry}
                await schedules.add(self.ctx.now(), "_step", name, name=name, **options)


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _name_of(one: Any) -> str:
    return one if isinstance(one, str) else str(getattr(one, "__name__", one))
