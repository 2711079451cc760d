"""Layer 3. What is a call, and what does a caller hold in hand?"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from datetime import timedelta
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast
from uuid import UUID

from wakeful.runtime.env import Env
from wakeful.values.codec import decode, encode
from wakeful.values.commits import Remembered
from wakeful.values.errors import (
    BadInput,
    BadOption,
    BadTime,
    CallCancelled,
    DeadlineExceeded,
    Fenced,
    KeyTaken,
    LimitExceeded,
    NotRunning,
    OutcomeUnknown,
    StoreDown,
    StoreError,
    TurnFailed,
    Unavailable,
    Undecodable,
    WakefulError,
)
from wakeful.values.ids import ObjectId, check_key
from wakeful.values.times import Clock, Handle, duration_ms

if TYPE_CHECKING:
    from wakeful.runtime.registry import ObjectClass


class Call:
    """One call on its way to an object: waiting, then running in some task, then answered."""

    __slots__ = (
        "answer",
        "args",
        "before",
        "began",
        "cancels",
        "chain",
        "deadline_at",
        "is_beside",
        "is_cancelled",
        "is_endless",
        "is_expired",
        "is_finished",
        "is_interrupted",
        "is_started",
        "kwargs",
        "lines",
        "method",
        "request_key",
        "task",
        "trace",
    )

    def __init__(
        self,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        deadline_at: int,
        request_key: str | None,
        chain: tuple[ObjectId, ...],
    ) -> None:
        self.method = method
        self.args = args
        self.kwargs = kwargs
        self.deadline_at = deadline_at
        self.request_key = request_key
        self.chain = chain
        self.answer: asyncio.Future[Any] | None = None  # for which its caller waits; None of a reader's
        self.lines: TracebackType | None = (
            None  # of what it raised: on its way through compiled coroutines they get lost
        )
        self.task: asyncio.Task[Any] | None = None  # set while it runs
        self.before: int  # of a reader that runs: how often its caller's task had been told to end
        self.began: int  # in ticks, since when it waits for its turn or is in it
        self.is_cancelled: bool  # an operator stopped it; unset else, as a call is made so often
        self.cancels = 0  # how often this call had its task cancellation, to be taken back by whoever runs it
        self.is_expired = False
        self.is_interrupted = False
        self.is_started = False  # the object's code has seen it
        self.is_finished = False  # its turn ended well and is on its way to disk
        self.is_endless = False  # once it has begun its deadline is nothing to it
        self.is_beside = False  # it is an event beside the turns, which goes on when nobody waits for it any more
        self.trace: str | None = None  # of its caller, while it waits to run

    def expire(self) -> None:
        """Its deadline has passed."""
        if self.is_expired:
            return
        self.is_expired = True
        if self.task is not None and (not self.is_beside or hasattr(self, "is_cancelled")):
            self._cancel(self.task)
        elif self.answer is not None and not self.answer.done():
            self.answer.set_exception(self.too_late())

    def cancel(self) -> None:
        """An operator stops it: as its deadline would, with an error that says so."""
        self.is_cancelled = True
        self.expire()

    def interrupt(self) -> None:
        """Stop it without a verdict: it waits for a slot and nobody waits for it, or it comes again."""
        self.is_interrupted = True
        if self.task is not None:
            self._cancel(self.task)

    def absorb(self) -> None:
        """Take back the cancellations it caused: the task has others to run."""
        while self.task is not None and self.cancels:
            self.cancels -= 1
            self.task.uncancel()

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        self.cancels += 1
        task.cancel()

    def too_late(self, commits: int = 0) -> DeadlineExceeded | CallCancelled:
        """It was stopped, by its deadline or an operator; its turn, if it began, had come to so many durable points."""
        rest = "what it wrote before stays" if self.is_beside else undone(commits)
        if hasattr(self, "is_cancelled"):
            return CallCancelled(f"{self.chain[-1]}.{self.method} was cancelled by an operator; {rest}")
        if self.is_beside and self.is_started:
            return DeadlineExceeded(f"{self.chain[-1]}.{self.method} did not answer within the deadline; it goes on")
        if self.is_finished:
            return DeadlineExceeded(
                f"{self.chain[-1]}.{self.method} was not on disk by its deadline; whether it happened is unknown, "
                "use a request key to ask again"
            )
        return DeadlineExceeded(f"{self.chain[-1]}.{self.method} did not finish within its deadline; {undone(commits)}")


def undone(commits: int) -> str:
    """What became of the writes of a turn that was stopped, after so many durable points, in words."""
    return f"what it wrote {'since ctx.commit() ' if commits else ''}was undone"


def for_caller(id: ObjectId, failure: Fenced | WakefulError) -> WakefulError:
    """What a caller of the object is told: losing a shard is ours, not theirs."""
    if isinstance(failure, Fenced):
        return Unavailable(f"{id} is moving to another node; try again", code="object.moved")
    if isinstance(failure, NotRunning):
        return NotRunning(failure.message, code=failure.code)
    return copy(failure)  # each caller's own: what it passes through is noted on it


def mark_raised(activation: Any, call: Call, error: BaseException) -> None:
    """What the code of that method raised, or let through, is its answer: nobody is to take it for a fault of the call.

    But for a store, or a node, of ours that went away while it ran, and what a method of ours, like `send` of a machine,
    says of its arguments.
    """
    has_run = call.is_started or call.answer is None  # a reader's begins at once
    if not isinstance(error, WakefulError) or not has_run or call.method in activation.node.operations:
        return
    method = getattr(activation.instance, call.method, None)
    if not (getattr(method, "__module__", None) or "").startswith("wakeful."):
        is_store = isinstance(error, StoreDown | OutcomeUnknown | NotRunning | StoreError)
        is_ours = is_store and not isinstance(error, Undecodable) and not error.is_foreign
        with suppress(AttributeError):  # of a kind of its own that is frozen
            error.is_raised = error.is_raised or not is_ours


def resolve(answer: asyncio.Future[Any], result: Any, error: BaseException | None = None) -> None:
    """Give an answer to whoever waits for it, if anyone still does."""
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


# Immutable, small and always encodable: a copy would be the same thing.
_SMALL = frozenset({type(None), bool, int, float, timedelta, UUID})


def is_small(value: Any) -> bool:
    """Needs no copy on its way between caller and object."""
    kind = type(value)
    # Of text that is not ASCII, half a character (a lone surrogate) can't be encoded.
    return kind in _SMALL or (kind is str and len(value) < 1_000 and value.isascii())


def copy_message(value: Any, bytes_max: int, what: str, *, code: str = "limit.arguments") -> Any:
    """What arrives at the other end: a copy, as it would be over a wire, and not too large for one message."""
    try:
        data = encode(value)
    except BadInput as error:
        raise type(error)(f"{what}: {error.message}", code=error.code) from None
    if len(data) > bytes_max:
        raise LimitExceeded(
            f"{what}: {len(data)} bytes, {len(data) - bytes_max} more than the limit of {bytes_max}; keep large data in storage",
            code=code,
        )
    return decode(data)


def copy_back(answer: Any, bytes_max: int, whose: str) -> Any:
    """The same for an answer, of which no argument is to blame."""
    return copy_message(answer, bytes_max, f"answer of {whose}", code="limit.answer")


def check_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    """What callers wait for is done on the event loop that runs the app: on another they would wait for ever."""
    running = asyncio.get_running_loop()
    if loop is not None and running is not loop:  # None: it does not run yet, which others say
        words = getattr(running, "wakeful_words", None)  # it is one of ours, on which nothing is called
        if words is not None:
            raise BadInput(words, code="workflow.body")
        raise BadInput(
            "this is another event loop than the one that runs the app; from a thread, hand the call to that loop "
            "(asyncio.run_coroutine_threadsafe), or use Client.sync",
            code="call.loop",
        )


class Router(Protocol):
    """Brings a call to the object, wherever that is."""

    def send(
        self,
        target: ObjectId,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        deadline_ms: int | None,
        request_key: str | None,
    ) -> Coroutine[Any, Any, Any]: ...


class Stub:
    """Stands for an object: its methods are calls. Type checkers see the class itself."""

    __slots__ = ("_deadline_ms", "_known", "_request_key", "_router", "_target")

    def __init__(
        self, router: Router, known: "ObjectClass", key: str, deadline_ms: int | None, request_key: str | None
    ) -> None:
        self._router = router
        self._known = known
        self._target = ObjectId(known.name, key)
        self._deadline_ms = deadline_ms
        self._request_key = request_key

    def __getattr__(self, name: str) -> "Method":
        if name not in self._known.methods:
            self._known.check_method(name)
        return Method(self, name)

    def __dir__(self) -> list[str]:
        return sorted(self._known.methods)

    def __repr__(self) -> str:
        return f"<{self._target}>"


class Method:
    """A method of a stub, not called yet: knows its object, so that it can be scheduled as well."""

    __slots__ = ("_stub", "name")

    def __init__(self, stub: Stub, name: str) -> None:
        self._stub = stub
        self.name = name

    @property
    def target(self) -> ObjectId:
        return self._stub._target

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        stub = self._stub
        return stub._router.send(
            stub._target, self.name, args, kwargs, deadline_ms=stub._deadline_ms, request_key=stub._request_key
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Method, (self._stub, self.name)  # to another process; what is compiled does not know how by itself

    # For whoever asks at a prompt, as `help`, `inspect.signature` and editors do.

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return f"{self.name}{self.__signature__}\n\n{inspect.getdoc(self._function()) or ''}".rstrip()

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self._function())
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    def _function(self) -> Callable[..., Any]:
        function = inspect.getattr_static(self._stub._known.cls, self.name, None)
        if not callable(function):  # of a client that knows the class by its name alone
            raise AttributeError(self.name)
        return cast("Callable[..., Any]", function)

    def __repr__(self) -> str:
        return f"<{self._stub._target}.{self.name}>"


# Has this request been answered before?

REQUEST_KEY_BYTES_MAX = 255


def check_request_key(key: object) -> str:
    """A request key that every store can hold and an HTTP header can carry."""
    if not isinstance(key, str) or not key or not key.isprintable() or len(key.encode()) > REQUEST_KEY_BYTES_MAX:
        raise BadOption(
            f"request key {key!r} must be 1 to {REQUEST_KEY_BYTES_MAX} bytes of printable text", code="request.key.form"
        )
    return key


def fingerprint(call: Call) -> bytes:
    """Which call it is: the same key for another one is a mistake."""
    return blake2b(encode([call.method, list(call.args), dict(sorted(call.kwargs.items()))]), digest_size=16).digest()


async def recall_request(
    node: Any, id: ObjectId, pending: dict[str, tuple[int, Remembered]] | None, key: str
) -> Remembered | None:
    """What is kept of it: on disk, or on its way there."""
    found = (pending or {}).get(key)
    kept: Remembered | None = found[1] if found else await node.recall(id, key)
    return kept


def recall_answer(id: ObjectId, kept: Remembered, print_: bytes) -> Any:
    """The remembered answer, `KeyTaken` when the key belongs to another call."""
    if kept.fingerprint != print_:
        raise KeyTaken(f"{id}: request key {kept.key!r} was used for another method or other arguments; use a new key")
    return decode(kept.answer)


def remember_answer(env: Env, key: str, print_: bytes, result: Any) -> Remembered:
    """The answer as it is kept with the turn, for as long as a repeat may come."""
    return Remembered(key, print_, encode(result), env.clock.now() + env.limits.request_keep_ms)


# How does a caller get hold of an object?


def make_stub(node: Any, known: Any, key: Any, deadline: Any, request_key: Any) -> Stub:
    """A stub whose names and options have been checked."""
    check_key(known.name, key)
    if request_key is not None:
        check_request_key(request_key)
    length = None if deadline is None else duration_ms(deadline, what="deadline")
    if length == 0:
        raise BadTime(
            f"deadline {deadline!r} leaves no time at all; leave it out for the default", code="time.deadline"
        )
    return Stub(node, known, key, length, request_key)


# Which calls have run out of time?
#
# A timer handle for every call costs more than many calls do. Most calls have the same deadline, so
# they expire in the order in which they came: a dict in that order and one handle for its first.


FOREVER_MS = 10 * 365 * 86_400_000  # what is given to a call that nothing but its end ends


class _Never:
    """The handle of what never comes."""

    def cancel(self) -> None: ...


_NEVER = _Never()


class ObjectElsewhere(Exception):
    """The call's object went to another server before the call was begun, which is made there then (see spread.py)."""


class Deadlines:
    """Expires calls at their deadlines; one that would break the order of the line gets a handle of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line: dict[Call, None] = {}  # deadlines never fall along it
        self._latest = 0
        self._own: dict[Call, Handle] = {}
        self._alarm: Handle | None = None
        self._alarm_at = 0
        self._far_at = 0  # a deadline until then is one that comes: as was seen when the clock was last asked

    def add(self, call: Call) -> None:
        at = call.deadline_at
        if at > self._far_at:
            self._far_at = self._clock.now() + FOREVER_MS // 2
            if at > self._far_at:
                self._own[call] = _NEVER
                return
        if at < self._latest and self._line:
            self._own[call] = self._clock.call_at(at, call.expire)
            return
        self._latest = at
        self._line[call] = None
        if self._alarm is not None and at < self._alarm_at:
            # Left by a longer call that has gone: a shorter one after it would wait for that one's deadline.
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._wake_at(at)

    def remove(self, call: Call) -> None:
        if call in self._line:
            del self._line[call]
        else:
            handle = self._own.pop(call, None)
            if handle is not None:
                handle.cancel()

    def __contains__(self, call: Call) -> bool:
        return call in self._line or call in self._own

    def each(self) -> Iterator[Call]:
        """All that have not ended, those with the soonest deadline first, near enough."""
        return chain(self._line, self._own)

    def on_clock_step(self, by_ms: int) -> None:
        """The clock was set: what was asked for before that has as long as it had.

        It is heard of a moment later. Set ahead, what has time left was asked for since; set back, what would have none.
        """
        now = self._clock.now()
        calls = [*self._line, *self._own]
        for call in calls:
            left_ms = call.deadline_at - now
            if left_ms <= 0 if by_ms > 0 else left_ms + by_ms > 0:
                call.deadline_at += by_ms
        self.stop()
        self._line, self._own, self._latest = {}, {}, 0
        for call in sorted(calls, key=attrgetter("deadline_at")):
            self.add(call)

    def stop(self) -> None:
        for handle in (*self._own.values(), *(() if self._alarm is None else (self._alarm,))):
            handle.cancel()
        self._alarm = None

    def _expire(self) -> None:
        self._alarm = None
        now = self._clock.now()
        for call in _past(self._line, now):
            call.expire()
            self._line.pop(call, None)
        first = next(iter(self._line), None)
        if first is not None:
            self._wake_at(first.deadline_at)

    def _wake_at(self, at: int) -> None:
        self._alarm_at = at
        self._alarm = self._clock.call_at(at, self._expire)


def cancellation(what: str, trace: str) -> TurnFailed:
    """Its own code said CancelledError, and nobody had asked for that."""
    return TurnFailed(
        f"{what} was cancelled by its own code",
        remote_type="asyncio.CancelledError",
        remote_traceback=trace,
        code="turn.cancelled",
    )


def exit_failure(what: str, error: SystemExit) -> TurnFailed:
    """Its code, or a library's, said `sys.exit()`: the node is not its to end, with all others' objects."""
    return TurnFailed(
        f"{what} called sys.exit({error.code!r}), which fails its turn and nothing else",
        remote_type="SystemExit",
        remote_traceback="",
        code="turn.exit",
    )


def too_long(call: Call, deadline_ms: int, commits: int) -> DeadlineExceeded | CallCancelled:
    """The run of a timer was stopped at its deadline or by an operator, after so many durable points."""
    if hasattr(call, "is_cancelled"):
        return call.too_late(commits)
    what = f"{call.chain[-1]}.{call.method}"
    return DeadlineExceeded(f"{what} ran longer than {deadline_ms} ms; {undone(commits)}")


def _past(line: Iterable[Call], now: int) -> list[Call]:
    """The calls at the head of the line whose time is over."""
    found = []
    for call in line:
        if call.deadline_at > now:
            break
        found.append(call)
    return found


@contextmanager
def within(clock: Clock, until: int, late: Callable[[], Exception]) -> Iterator[None]:
    """What is awaited in it ends at that time, with that error."""
    task, is_late = asyncio.current_task(), False
    assert task is not None
    before = task.cancelling()  # one that was told to end may still ask for something

    def expire() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    handle = clock.call_at(until, expire)
    try:
        yield
    except asyncio.CancelledError:
        if is_late and task.uncancel() <= before:
            raise late() from None
        raise
    finally:
        handle.cancel()
