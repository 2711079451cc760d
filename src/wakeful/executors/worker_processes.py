"""Layer 4. How does a node have methods computed in other processes?

Each process runs one method at a time. A thread of the node speaks with it: what the method asks of its object comes over
the pipe and is asked here.
"""

import asyncio
import io
import logging
import multiprocessing
import os
import pickle
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import finalize

from wakeful.executors.method_thread import ask
from wakeful.executors.worker import ASK, CTX, LOG, RAISED, SELF, STUB, MethodTask, dump, portable, serve
from wakeful.runtime.context import Context
from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import BadHandler, TurnFailed
from wakeful.values.times import Duration


class WorkerProcesses:
    """The processes of one node. They are begun when they are needed, and stay for the next."""

    def __init__(self, limit: int | None) -> None:
        self._free = asyncio.Semaphore(limit or os.cpu_count() or 1)
        self._idle: list[WorkerProcess] = []
        self._is_over = False
        finalize(self, _end, self._idle)

    @asynccontextmanager
    async def worker(self, *, is_nested: bool) -> "AsyncIterator[WorkerProcess]":
        """One to run a method; a method that another's turn waits for does not wait for that one's."""
        if not is_nested:
            await self._free.acquire()
        worker = self._idle.pop() if self._idle else WorkerProcess()
        try:
            yield worker
        finally:
            if not is_nested:
                self._free.release()
            if self._is_over:
                worker.kill()
            elif worker.is_alive:
                self._idle.append(worker)

    def end(self) -> None:
        """The node stops: what still runs in one is its last."""
        self._is_over = True
        _end(self._idle)


class WorkerProcess:
    """One process, and the pipe to it."""

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None
        self._is_killed = False

    @property
    def is_alive(self) -> bool:
        return self._process is not None and not self._is_killed and bool(self._process.is_alive())

    def kill(self) -> None:
        """Its method is told to end, or there will be none."""
        self._is_killed = True
        if self._process is not None:
            self._process.kill()

    def run(self, ctx: Context, instance: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method's answer; in a thread that may ask."""
        if self._process is None:
            self._begin()
        cls = type(instance)
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if "<locals>" in cls.__qualname__ or file is None:
            raise BadHandler(
                f"{cls.__qualname__}.{name} is @in_process, and another process could not import its class: "
                "define it at the top level of a file",
                code="executor.import",
            )
        task = MethodTask(cls.__module__, file, cls.__qualname__, name, ctx.id, args, kwargs, ctx.run, ctx.job)
        level = logging.getLogger().getEffectiveLevel()
        try:
            self._pipe.send_bytes(dump((task, level), f"the arguments of {cls.__qualname__}.{name}"))
            return self._converse(ctx, instance)
        except (EOFError, OSError):
            raise self._death(cls, name) from None

    def _converse(self, ctx: Context, instance: Any) -> Any:
        while True:
            kind, message = _Reader(self._pipe.recv_bytes(), ctx, instance).load()
            if kind == LOG:
                logging.getLogger(message.name).handle(message)
            elif kind == ASK:
                self._reply(ctx, *message)
            elif kind == RAISED:
                error, text = message
                error.add_note(f"in another process:\n{text}")
                raise error
            else:
                answer, state = message
                if state is not None and not _is_reader():
                    ctx.state = state
                return answer

    def _reply(self, ctx: Context, question: Any, state: Any) -> None:
        try:
            if state is not None and not _is_reader():
                ctx.state = state  # a commit in the middle of the method is to have it
            reply = dump((True, ask(ctx, question)), "the answer")
        except asyncio.CancelledError:
            raise
        except Exception as error:
            reply = dump((False, portable(error)), "the error")
        self._pipe.send_bytes(reply)

    def _begin(self) -> None:
        # Not a fork: there are threads here, and locks that they hold.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), name="wakeful-worker", daemon=True)
        self._process.start()
        theirs.close()
        if self._is_killed:
            self._process.kill()  # told to end while it began

    def _death(self, cls: type, name: str) -> BaseException:
        """What to say of a process that is no more."""
        if self._is_killed:
            return asyncio.CancelledError()
        self._process.join(5)
        code, self._is_killed = self._process.exitcode, True
        return TurnFailed(
            f"{cls.__qualname__}.{name}: the process that ran it died (exit code {code}; a negative one is a signal: -9 "
            "is often too little memory); the turn was undone",
            remote_type="ProcessDied",
            remote_traceback="",
            code="executor.died",
        )


class _Reader(pickle.Unpickler):
    """Reads what came over the pipe: where the other process wrote its object, here is that of the node."""

    def __init__(self, data: bytes, ctx: Context, instance: Any) -> None:
        super().__init__(io.BytesIO(data))
        self._ctx = ctx
        self._instance = instance

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case (kind,) if kind == SELF:
                return self._instance
            case (kind,) if kind == CTX:
                return self._ctx
            case (kind, cls, key, deadline, request_key) if kind == STUB:
                return self._stub(cls, key, deadline, request_key)
        raise pickle.UnpicklingError(f"{pid!r} is nothing of a worker's")

    def _stub(self, cls: type, key: str, deadline: Duration | None, request_key: str | None) -> Any:
        return self._ctx.get(cls, key, deadline=deadline, request_key=request_key)


def _is_reader() -> bool:
    turn = CURRENT.get()
    return turn is None or turn.is_reader


def _end(idle: list[WorkerProcess]) -> None:
    while idle:
        idle.pop().kill()
