"""Layer 4. On what does the body of a workflow run, so that it always takes the same way, and it is known when it rests?

On an event loop of its own, which does nothing by itself: its tasks go on when a step's result is handed to them, until
none of them can. Then each waits for a step, and whoever hands out results knows it. There is no time on this loop and
nothing from outside: both belong into a step.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

from wakeful.values.errors import BadHandler

CALLS_MAX = 100_000  # between two results: a body that needs more never comes to rest, and the node has a lease to keep
ENDS_MAX = 8  # how often tasks are told to end that go on all the same
ONLY_STEPS = (
    "the body of a workflow waits for its steps alone: for time to pass use step.sleep(…), and do what reaches "
    "outside in a function that is given to step(…)"
)


_Loop: Any = asyncio.AbstractEventLoop  # of which a body needs a few methods


class BodyLoop(_Loop):  # type: ignore[misc]
    """Runs tasks until all of them wait."""

    wakeful_words = ONLY_STEPS  # for those who find themselves on another loop than theirs

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_running = False

    def settle(self) -> None:
        """Run what can run. Called on the loop that runs the program, which stands still meanwhile."""
        outer, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            asyncio.tasks._leave_task(outer, task)
        asyncio._set_running_loop(self)
        self._is_running = True
        try:
            for _ in range(CALLS_MAX):
                if not self._ready:
                    return
                handle = self._ready.popleft()
                if not handle.cancelled():
                    with suppress(SystemExit):  # its task has failed with it: a body ends itself, not the process
                        handle._run()
            self._ready.clear()
            raise BadHandler("the body goes on without end, and never waits for a step", code="workflow.endless")
        finally:
            self._is_running = False
            asyncio._set_running_loop(outer)
            if task is not None:
                asyncio.tasks._enter_task(outer, task)

    def end(self) -> None:
        """Its tasks are cancelled, and given some room to end in."""
        for _ in range(ENDS_MAX):
            left = [task for task in self._tasks if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            try:
                self.settle()
            except BadHandler:
                return

    # what tasks, futures, locks, queues and groups ask of a loop

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None, **options: Any) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is put aside whenever its workflow rests
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody asked for, of a task that the body left alone: as on any loop it ends nothing."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """The same."""

    # what a body can't have

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise BadHandler(ONLY_STEPS, code="workflow.body")

    def call_later(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def call_at(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def time(self) -> float:
        self._refuse()

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def run_in_executor(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    async def create_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    async def subprocess_shell(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()


def begin_task(
    loop: BodyLoop, coroutine: Coroutine[Any, Any, Any], context: contextvars.Context
) -> "asyncio.Task[Any]":
    """A task of the body, in that context."""
    task: asyncio.Task[Any] = loop.create_task(coroutine, context=context)
    return task
