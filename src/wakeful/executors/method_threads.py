"""Layer 4. How does a turn run code in a thread, and what becomes of code that is told to end?

A thread can't be stopped. So a turn that is cancelled is over at once for its caller and undone, while the code goes on until
it asks for something or ends; the object's next turn waits for that, or two would run at a time.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any
from weakref import finalize

from wakeful.executors.method_thread import Demand, Ended, MethodThread
from wakeful.executors.permits import Permit
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.turn import Turn


class MethodThreads:
    """The threads of one node. They are made when they are needed, and stay for the next."""

    def __init__(self, kept: int) -> None:
        self._kept = kept  # so many stay
        self._idle: list[MethodThread] = []
        self._is_over = False
        finalize(self, _end, self._idle)

    async def run(
        self, turn: Turn, code: Callable[[], Any], permit: Permit, on_cut: Callable[[], None] | None = None
    ) -> Any:
        """What it gives; `on_cut` when it is told to end. The permit is given back when it has."""
        try:
            thread = self._idle.pop() if self._idle else MethodThread()
        except BaseException:  # the machine has no more of them
            permit.give_back()
            raise
        step: Callable[[], Any] = partial(copy_context().run, code)
        piece: asyncio.Future[Demand | Ended] | None = None
        loop = asyncio.get_running_loop()
        try:
            while True:
                piece = loop.run_in_executor(thread, step)  # type: ignore[arg-type]
                outcome = await asyncio.shield(piece)
                if isinstance(outcome, Ended):
                    break
                piece = None
                step = await _answer(outcome)
        except asyncio.CancelledError:
            thread.is_cut = True
            outlasting = loop.create_task(_outlast(thread, piece, permit), context=Context())
            turn.activation.node.keep(outlasting)
            if turn.is_reader:
                hold_awake_until(outlasting, turn.activation)  # turns run beside it anyway
            else:
                turn.activation.linger(outlasting)
            if on_cut is not None:
                on_cut()
            raise
        if self._is_over or len(self._idle) >= self._kept:
            thread.end()
        else:
            self._idle.append(thread)
        permit.give_back()
        return outcome.get()

    def end(self) -> None:
        """The node stops: what still runs in one ends it."""
        self._is_over = True
        _end(self._idle)


async def _answer(asked: Demand) -> Callable[[], Any]:
    """How the code goes on; raises when its turn is told to end."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        value = await asked.work()
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and task.cancelling() > before:
            raise
        return partial(_raise, error)
    return lambda: value


async def _outlast(thread: MethodThread, piece: "asyncio.Future[Demand | Ended] | None", permit: Permit) -> None:
    """Until its code has ended; None: it waits for an answer."""
    loop = asyncio.get_running_loop()
    try:
        while piece is None or isinstance(await piece, Demand):
            piece = loop.run_in_executor(thread, partial(_raise, asyncio.CancelledError()))  # type: ignore[arg-type]
    finally:
        thread.end()  # it may have ended before it could see that nobody wants it any more
        permit.give_back()


def hold_awake_until(work: "asyncio.Future[None]", activation: ObjectRuntime) -> None:
    """The object does not sleep before that is done."""
    activation.hold_awake()
    work.add_done_callback(lambda done: activation.let_sleep())


def _raise(error: BaseException) -> None:
    raise error


def _end(idle: list[MethodThread]) -> None:
    while idle:
        idle.pop().end()
