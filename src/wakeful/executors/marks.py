"""Layer 4. How does a plain `def` become a method that callers await?"""

import inspect
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from wakeful.executors.feature import executors_here
from wakeful.values.errors import BadHandler

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
Awaited = Callable[Concatenate[S, P], Coroutine[Any, Any, R]]

BODY = "__wakeful_body__"  # what such a method was made of


def in_thread(method: Callable[Concatenate[S, P], R]) -> Awaited[S, P, R]:
    """A `def` that may block: it runs in a thread, and reaches its object's storage and all the rest by `self.blocking`.

    Callers await it like any other method; schedules, jobs, alarms and hooks may name it.

    >>> from wakeful import App, DurableObject, in_thread
    >>> app = App()
    >>> @app.object
    ... class Mill(DurableObject):
    ...     @in_thread
    ...     def grind(self, grain: int) -> int:
    ...         total = self.blocking.storage.get("flour", 0) + grain
    ...         self.blocking.storage.put("flour", total)
    ...         return total
    >>> async with app.world() as world:
    ...     await world.get(Mill, "a").grind(3)
    ...     print(await world.get(Mill, "a").grind(4))
    7
    """
    _check(method, "in_thread")

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        executors, turn = executors_here(f"{method.__qualname__}()")
        answer: R = await executors.run_in_thread(turn, partial(method, self, *args, **kwargs))
        return answer

    setattr(run, BODY, method)
    return run


def in_process(method: Callable[Concatenate[S, P], R]) -> Awaited[S, P, R]:
    """The same for a `def` that computes for long: it runs in another process, on a core of its own.

    There `self` is made anew: it has its state and `self.blocking`, and nothing that other methods left on it. Arguments and
    answer are pickled on the way. At its deadline the process is killed.

    >>> import inspect
    >>> from wakeful import DurableObject, in_process
    >>> class Report(DurableObject):  # at the top level of a file: another process must be able to import it
    ...     @in_process
    ...     def squares(self, below: int) -> int:
    ...         return sum(n * n for n in range(below))
    >>> inspect.iscoroutinefunction(Report.squares)
    True
    """
    _check(method, "in_process")

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        executors, turn = executors_here(f"{method.__qualname__}()")
        answer: R = await executors.run_in_process(turn, self, method.__name__, args, kwargs)
        return answer

    setattr(run, BODY, method)
    return run


def _check(method: Any, mark: str) -> None:
    what = getattr(method, "__qualname__", repr(method))
    if not inspect.isfunction(method):
        raise BadHandler(f"@{mark} goes on a `def` in a class, not on {what}", code="executor.method")
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise BadHandler(
            f"{what} is `async def`, which runs on the event loop; @{mark} is for a plain `def`",
            code="executor.method",
        )
    if inspect.isgeneratorfunction(method):
        raise BadHandler(f"{what} yields, and a call has one answer; return a list", code="executor.method")
