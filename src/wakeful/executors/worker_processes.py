"""Layer 4. How does a node have methods computed in other processes?

Each process runs one method at a time. A thread of the node speaks with it: what the method asks of its object comes over
the pipe and is asked here.
"""

import asyncio
import io
import logging
import multiprocessing
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import finalize

from wakeful.executors.method_thread import ask
from wakeful.executors.worker import ASK, CTX, LOG, RAISED, SELF, STUB, MethodTask, dump, portable, serve, split_message
from wakeful.runtime.context import Context
from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import BadHandler, TurnFailed
from wakeful.values.times import Duration

log = logging.getLogger("wakeful.executors")


class _PipeBroken(Exception):
    """There is nobody at the other end any more."""


class WorkerProcesses:
    """The processes of one node. They are begun when they are needed, and stay for the next."""

    def __init__(self, kept: int) -> None:
        self._kept = kept  # so many stay
        self._idle: list[WorkerProcess] = []
        self._is_over = False
        finalize(self, _end, self._idle)

    @contextmanager
    def worker(self) -> "Iterator[WorkerProcess]":
        """One to run a method."""
        worker = self._idle.pop() if self._idle else WorkerProcess()
        try:
            yield worker
        finally:
            if worker.is_free and not self._is_over and len(self._idle) < self._kept:
                self._idle.append(worker)
            else:
                worker.kill()

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
        self._is_at_work = False  # a method was begun, and has not said how it ended

    @property
    def is_free(self) -> bool:
        """It can run another method: what comes over the pipe will be that one's."""
        return (
            self._process is not None and not (self._is_killed or self._is_at_work) and bool(self._process.is_alive())
        )

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
            data = dump((task, level), f"the arguments of {cls.__qualname__}.{name}")
            self._is_at_work = True
            self._send(data)
            return self._converse(ctx, instance)
        except _PipeBroken:
            raise self._death(cls, name) from None

    def _converse(self, ctx: Context, instance: Any) -> Any:
        while True:
            kind, data = split_message(self._receive())
            if kind == LOG:
                _log(data)
                continue
            read = _Reader(data, ctx, instance).load
            if kind == ASK:
                self._reply(ctx, read)
                continue
            self._is_at_work = False  # before anything is read, which may fail
            if kind == RAISED:
                error, text = read()
                error.add_note(f"in another process:\n{text}")
                raise error
            answer, state = read()
            _bring_state(ctx, state)
            return answer

    def _reply(self, ctx: Context, read: Callable[[], Any]) -> None:
        try:
            question, state = read()
            _bring_state(ctx, state)  # a commit in the middle of the method is to have it
            reply = dump((True, ask(ctx, question)), "the answer")
        except Exception as error:
            reply = dump((False, portable(error)), "the error")
        self._send(reply)

    # What the method's code raises may be of the same kinds as what a broken pipe does.

    def _send(self, data: bytes) -> None:
        try:
            self._pipe.send_bytes(data)
        except (EOFError, OSError):
            raise _PipeBroken from None

    def _receive(self) -> bytes:
        try:
            data: bytes = self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise _PipeBroken from None
        return data

    def _begin(self) -> None:
        # Not a fork: there are threads here, and locks that they hold.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), name="wakeful-worker", daemon=True)
        process.start()
        theirs.close()
        self._process = process
        if self._is_killed:
            self._process.kill()  # told to end while it began

    def _death(self, cls: type, name: str) -> BaseException:
        """What to say of a process that is no more."""
        self._process.join(5)  # also one that was killed: the object's next turn waits for its end
        if self._is_killed:
            return asyncio.CancelledError()
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


def _bring_state(ctx: Context, state: Any) -> None:
    """What the method made of the object's state, if it has looked at it."""
    turn = CURRENT.get()
    if state is not None and turn is not None and not turn.is_reader:
        ctx.state = state


def _log(data: bytes) -> None:
    """What was logged there; a record that can't be read here, or handled, is no reason for the method to fail."""
    try:
        record = pickle.loads(data)
        logging.getLogger(record.name).handle(record)
    except Exception as error:
        log.warning("a line of the log of another process was lost: %s", error, extra={"code": "executor.log"})


def _end(idle: list[WorkerProcess]) -> None:
    while idle:
        idle.pop().kill()
