"""Layer 4. What runs in a process that computes methods, and what is an object there?"""

import importlib
import importlib.util
import inspect
import io
import logging
import logging.handlers
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn, cast

from wakeful.executors.method_thread import HERE, Question
from wakeful.runtime.calls import Stub
from wakeful.values.errors import BadHandler, BadInput, BadValue, TurnFailed
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Run

ASK, LOG, RAISED, DONE = b"?", b"#", b"!", b"."  # what a message to the node is, in its first byte
SELF, CTX, STUB = "self", "ctx", "stub"  # what is not sent itself, but meant


class MethodTask(NamedTuple):
    """A method to run: of which class, for which object, with what."""

    module: str
    file: str
    cls: str
    method: str
    id: ObjectId
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    run: Run | None
    job: Any


def dump(message: Any, what: str) -> bytes:
    """As it goes over the pipe; `BadValue` for what can't be pickled."""
    try:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise unpicklable(what, error) from None


def unpicklable(what: str, error: Exception) -> BadValue:
    return BadValue(f"{what} can't go from one process to another: {error}", code="executor.pickle")


def split_message(data: bytes) -> tuple[bytes, bytes]:
    """What a message of a worker is, and the rest of it."""
    return data[:1], data[1:]


def portable(error: BaseException, text: str = "") -> Exception:
    """The error, or one that tells of it, when pickle can't bring it over, or it would end the node's loop."""
    try:
        pickle.loads(pickle.dumps(error))
        is_whole = isinstance(error, Exception)
    except Exception:
        is_whole = False
    if not is_whole:
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        return TurnFailed(f"{kind}: {error}", remote_type=kind, remote_traceback=text)
    return cast("Exception", error)


def serve(pipe: Any) -> None:
    """The whole life of such a process: tasks come until the node has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the node, which ends this one when it is time
    threading.Thread(target=_end_with_parent, name="wakeful-parent", daemon=True).start()
    pipe = _SharedPipe(pipe)
    logging.getLogger().addHandler(_LogPipe(pipe))
    while True:
        try:
            task, level = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        logging.getLogger().setLevel(level)
        worker = MethodWorker(pipe, task)
        HERE.host = worker
        try:
            pipe.send_bytes(worker.run())
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    """The node is gone, however it ended: so is what computes for it, or it would go on beside its own retry."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _SharedPipe:
    """The pipe to the node, to which threads of the method's code may log."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self.recv_bytes = pipe.recv_bytes

    def send_bytes(self, data: bytes) -> None:
        with self._lock:
            self._pipe.send_bytes(data)


class MethodWorker:
    """One method on its way: asks the node what its code asks."""

    def __init__(self, pipe: Any, task: MethodTask) -> None:
        self._pipe = pipe
        self._task = task
        self._ctx = WorkerContext(task)
        self._instance: Any = None

    def run(self) -> bytes:
        """The message that says how it ended."""
        task = self._task
        try:
            cls = _import(task)
            body = inspect.getattr_static(cls, task.method).__wakeful_body__
            self._instance = cls(self._ctx)
            answer = body(self._instance, *task.args, **task.kwargs)
            return DONE + self._dump((answer, self._ctx._state), f"the answer of {task.cls}.{task.method}")
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            return RAISED + dump((portable(error, text), text), "the error")

    def ask(self, ctx: Any, question: Question) -> Any:
        self._pipe.send_bytes(ASK + self._dump((question, self._ctx._state), f"what {self._task.cls} asks for"))
        is_answer, found = pickle.loads(self._pipe.recv_bytes())
        if not is_answer:
            raise found
        return found

    def _dump(self, message: Any, what: str) -> bytes:
        file = io.BytesIO()
        try:
            _Writer(file, self._ctx, self._instance).dump(message)
        except Exception as error:
            raise unpicklable(what, error) from None
        return file.getvalue()


class WorkerContext:
    """`self.ctx` in such a process: what is known here; the rest is asked for with `self.blocking`."""

    def __init__(self, task: MethodTask) -> None:
        self.id = task.id
        self.key = task.id.key
        self.cls = task.id.cls
        self.run = task.run
        self.job = task.job
        self.log = logging.LoggerAdapter(logging.getLogger("wakeful.object"), {"object": str(task.id)})
        self._state: Any = None

    @property
    def state(self) -> Any:
        if self._state is None:
            self._state = _ask(self, _read_state)
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = value

    def forget_state(self) -> None:
        """What it was changed to here was undone."""
        self._state = None

    def now(self) -> Any:
        return _ask(self, _read_time)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise BadInput(
            f"{self.id}: ctx.{name} is not there in another process; use self.blocking, which asks the node for it",
            code="blocking.process",
        )


def _ask(ctx: WorkerContext, method: Any) -> Any:
    assert HERE.host is not None
    return HERE.host.ask(ctx, Question(itself, method, (), {}))


def itself(ctx: Any) -> Any:
    """Of an object's parts, its context."""
    return ctx


def _read_state(ctx: Any) -> Any:
    return ctx.state


def _read_time(ctx: Any) -> Any:
    return ctx.now()


class _Writer(pickle.Pickler):
    """Writes what goes to the node: the object here stands for the one there, and its methods for that one's."""

    def __init__(self, file: Any, ctx: WorkerContext, instance: Any) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._ctx = ctx
        self._instance = instance

    def persistent_id(self, given: Any) -> Any:
        if given is self._instance and given is not None:
            return (SELF,)
        if given is self._ctx:
            return (CTX,)
        if isinstance(given, Stub):
            deadline = None if given._deadline_ms is None else timedelta(milliseconds=given._deadline_ms)
            return (STUB, given._known.cls, given._target.key, deadline, given._request_key)
        return None


class _LogPipe(logging.handlers.QueueHandler):
    """What is logged here is logged by the node."""

    queue: Any

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.send_bytes(LOG + dump(record, "a log record"))


def _import(task: MethodTask) -> Any:
    """The class, in the module of its name, or of its file when the program was started by that."""
    try:
        module = importlib.import_module(task.module)
    except ModuleNotFoundError:
        spec = importlib.util.spec_from_file_location(task.module, task.file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[task.module] = module
        spec.loader.exec_module(module)
    member: Any = module
    try:
        for name in task.cls.split("."):
            member = getattr(member, name)
    except AttributeError:
        raise BadHandler(
            f"{task.module} has no {task.cls} when another process imports it", code="executor.import"
        ) from None
    return member
