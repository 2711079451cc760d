"""Layer 4. How does code that blocks run beside the event loop, and still as part of its turn?

It runs piece by piece. A piece ends when the code asks for something of its object, which is then done on the loop, in the
task of the turn, like everything else that a turn does; or when the code ends.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

from wakeful.values.errors import BadInput, TurnFailed

T = TypeVar("T")


class Question(NamedTuple):
    """A method of some part of the object, which is called on the loop; of functions that another process can import too."""

    part: Callable[[Any], Any]  # from the object's context
    method: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    async def answer(self, ctx: Any) -> Any:
        found = self.method(self.part(ctx), *self.args, **self.kwargs)
        return await found if inspect.isawaitable(found) else found


class Demand(NamedTuple):
    """The code wants this done, and waits."""

    work: Callable[[], Awaitable[Any]]


class Ended(NamedTuple):
    """The code has ended, with its answer or an error."""

    value: Any
    error: BaseException | None

    def get(self) -> Any:
        if isinstance(self.error, KeyboardInterrupt | GeneratorExit):  # which end a loop, and are nobody's ^C here
            kind = type(self.error).__name__
            raise TurnFailed(f"{kind}: {self.error}", remote_type=kind, remote_traceback="") from self.error
        if self.error is not None:
            raise self.error
        return self.value


class MethodHost(Protocol):
    """Whoever runs such code, and brings what it asks for to the loop."""

    def ask(self, ctx: Any, question: Question) -> Any: ...


class _Here(threading.local):
    host: MethodHost | None = None


HERE = _Here()


def ask(ctx: Any, question: Question) -> Any:
    """The answer, for code of a method that runs in a thread or a process."""
    return _host("self.blocking").ask(ctx, question)


def wait(awaitable: Awaitable[T]) -> T:
    """The same for anything that can be awaited; in a thread only."""
    thread = _host("self.blocking.wait")
    if not isinstance(thread, MethodThread):
        raise BadInput(
            "self.blocking.wait is for @in_thread: what is awaited can't leave a process; in @in_process use "
            "self.blocking.get(…), .storage, .sql, .schedules and .jobs",
            code="blocking.process",
        )
    answer: T = thread.run(lambda: awaitable)
    return answer


def _host(what: str) -> MethodHost:
    if HERE.host is None:
        raise BadInput(
            f"{what} is for code of @in_thread and @in_process methods, in the thread that runs them; elsewhere await the "
            "same name: `await self.storage.get(…)`",
            code="blocking.place",
        )
    return HERE.host


class MethodThread:
    """A thread that runs such code. For the loop it is an executor: `run_in_executor` gives the outcome of the next piece."""

    def __init__(self) -> None:
        self._steps: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._piece: Future[Demand | Ended] = Future()
        self.is_cut = False  # its turn is over: whatever it asks for is refused, and it ends with its code
        threading.Thread(target=self._serve, name="wakeful-method", daemon=True).start()

    # on the loop

    def submit(self, step: Callable[[], Any]) -> "Future[Demand | Ended]":
        """Begin with that code, or go on with that answer."""
        piece: Future[Demand | Ended] = Future()
        self._piece = piece
        piece.set_running_or_notify_cancel()
        self._steps.put(step)
        return piece

    def end(self) -> None:
        """It has nothing to do: let it go."""
        self._steps.put(None)

    # in the thread

    def ask(self, ctx: Any, question: Question) -> Any:
        return self.run(lambda: question.answer(ctx))

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """What comes of awaiting that on the loop; its code waits for it here."""
        if self.is_cut:
            raise asyncio.CancelledError
        self._piece.set_result(Demand(work))
        step = self._steps.get()
        assert step is not None
        return step()

    def _serve(self) -> None:
        HERE.host = self
        while not self.is_cut and (step := self._steps.get()) is not None:
            try:
                ended = Ended(step(), None)
            except BaseException as error:
                ended = Ended(None, error)
            self._piece.set_result(ended)
            del ended, step  # they hold an object, which must be free to sleep
