"""Layer 5. The base classes of a Worker's own classes, and what a request or a cron trigger brings along."""

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.values import Record, start_task
from wakeful.values.errors import NoRetry

if TYPE_CHECKING:
    from asyncio import Task

log = logging.getLogger("wakeful.workers")


class DurableObject:
    """Keeps `ctx` and `env`."""

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env


class WorkerEntrypoint:
    """Keeps `ctx` and `env`; the class called `Default` answers requests with `fetch` and cron triggers with `scheduled`."""

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env


class WorkflowEntrypoint:
    """Keeps `ctx` and `env`; its `run(event, step)` is the body of a workflow."""

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env


class NonRetryableError(NoRetry):
    """Raised by a step of a workflow that is not to be tried again."""

    def __init__(self, message: object = "", *_: object) -> None:
        super().__init__(str(message))

    def __str__(self) -> str:
        return self.message


class ExecutionContext:
    """What an entrypoint has as `ctx`."""

    def __init__(
        self, keep: "Callable[[Task[Any]], None]", exports: Any = None, props: dict[str, Any] | None = None
    ) -> None:
        self._keep = keep
        self.exports = exports
        self.props = Record(props or {})

    def waitUntil(self, work: Any) -> None:  # noqa: N802  the name there
        """Let the work go on after the answer."""
        if isinstance(work, Awaitable):
            start_task(_finish(work), self._keep, "waitUntil of the Worker")

    def passThroughOnException(self) -> None:  # noqa: N802  the name there
        """There is nothing behind the Worker to pass it on to."""


class ScheduledController:
    """What `scheduled` is told: which cron trigger, and for when."""

    type = "scheduled"

    def __init__(self, cron: str, scheduled_time: int) -> None:
        self.cron = cron
        self.scheduledTime = scheduled_time
        self.scheduled_time = scheduled_time

    def noRetry(self) -> None:  # noqa: N802  the name there
        """A cron trigger is not tried again anyway."""


def handler(function: Any) -> Any:
    """Marks `on_fetch` and `on_scheduled`; they are given what they expect without it as well."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


async def _finish(work: Awaitable[Any]) -> None:
    await work
