"""Layer 5. What stands for an answer that is not there yet, awaited or not?

In JavaScript a call has begun when it returns, whether anyone awaits it or not. A Python coroutine has not. So calls
give these instead: what they do to storage is done at the call, and what takes time begins then, or at the latest when
the event ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

log = logging.getLogger("wakeful.workers")

Work = Callable[[], Awaitable[Any]]


class Promise:
    """Work that is done once, by whoever awaits it first; `is_begun` says whether anyone did."""

    __slots__ = ("_ended", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ended: asyncio.Future[Any] | None = None

    @property
    def is_begun(self) -> bool:
        return self._ended is not None

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._ended is not None:
            return asyncio.shield(self._ended).__await__()  # who stops waiting must not stop it for the others
        self._ended = asyncio.get_running_loop().create_future()
        return self._do(self._ended).__await__()

    async def _do(self, ended: asyncio.Future[Any]) -> Any:
        try:
            value = await self._work()
        except BaseException as error:
            ended.set_exception(error)
            ended.exception()  # seen: whoever awaits this once hears of it once
            raise
        ended.set_result(value)
        return value


class Settled:
    """What is done already: awaiting it gives the value, or raises the error, which nobody has to hear."""

    __slots__ = ("_error", "_value")

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self._value = value
        self._error = error

    def __await__(self) -> Generator[Any, None, Any]:
        if self._error is not None:
            raise self._error
        return self._value
        yield  # pragma: no cover  (makes this a generator)


def start_task(
    work: Coroutine[Any, Any, Any], keep: Callable[[asyncio.Task[Any]], None], what: str
) -> asyncio.Task[Any]:
    """Begin it now; if nobody awaits it, its failure is a line in the log and nothing else."""
    task = asyncio.get_running_loop().create_task(work)
    keep(task)
    task.add_done_callback(lambda done: _note(done, what))
    return task


def _note(task: asyncio.Task[Any], what: str) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.debug("%s failed: %s: %s", what, type(error).__name__, error, extra={"code": "workers.unawaited"})


async def result_of(value: Any) -> Any:
    """The value, awaited if it can be: handlers may be `def` or `async def`."""
    return await value if isinstance(value, Awaitable) else value
