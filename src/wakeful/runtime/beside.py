"""Layer 3. How do events of an object run beside each other, and how does what they write come to disk?

For classes whose events are no turns: each runs as a task of its own, beside the object's mailbox. What they write is in
one turn that goes on for as long as the object is awake, and is committed whenever the event loop comes round. What
leaves waits for that. Whatever is undone takes the live copy of the object with it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context as Variables
from typing import Any, Protocol

from wakeful.runtime import tracer
from wakeful.runtime.calls import (
    Call,
    cancellation,
    exit_failure,
    fingerprint,
    for_caller,
    remember_answer,
    resolve,
)
from wakeful.runtime.committer import Failure
from wakeful.runtime.events_turn import CHAIN, StandingTurn
from wakeful.runtime.gates import Gated
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.commits import Commit, Remembered
from wakeful.values.errors import Fenced, KeyTaken, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM, Timer
from wakeful.values.trace import TRACE

# Operations that run as events of such objects: they run the object's own code.
EVENT_OPERATIONS = frozenset({"sockets.connect", "sockets.message", "sockets.closed"})
EVENT_TIMERS = frozenset({ALARM, "socket-close"})


class EventfulObject(ObjectRuntime, Protocol):
    """An object whose events run here, as they see it."""

    meter: Any

    @property
    def node(self) -> Any: ...

    @property
    def is_failed(self) -> bool: ...

    def submit(self, commit: Commit) -> int: ...

    def follow(self, turn: Turn) -> None: ...

    def undo(self, turn: Turn | None) -> None: ...

    def invoke(self, call: Call) -> Awaitable[Any]: ...

    def copy_answer(self, call: Call, answer: Any) -> Any: ...

    def tell(self, call: Call, result: Any, raised: BaseException | None) -> None:
        """Give the answer once all that was written is on disk."""
        ...

    def remember(self, key: str, kept: Remembered) -> None: ...

    async def run_call(self, call: Call) -> tuple[Any, int]: ...

    def fire(self, timer: Timer) -> None: ...


async def leave() -> None:
    """Wait, before something leaves an object, until what it rests on is on disk. Nothing to wait for elsewhere."""
    turn = CURRENT.get()
    if isinstance(turn, StandingTurn):
        await turn.leave()


async def come_back() -> None:
    """Wait, before something comes back into an object, until its gate is open."""
    turn = CURRENT.get()
    if isinstance(turn, StandingTurn):
        await turn.gate.wait()


def continue_chain(path: tuple[ObjectId, ...]) -> None:
    """What runs in this context was called over these objects."""
    CHAIN.set(path)


def go_on_when_open(do: Callable[[], Any]) -> None:
    """Call it now, or as soon as the gate of the object whose code asks is open; not at all if that is no more."""
    turn = CURRENT.get()
    if not isinstance(turn, StandingTurn) or turn.gate.is_open:
        do()
        return

    async def wait() -> None:
        await turn.gate.wait()
        if not turn.is_over:
            do()

    turn.activation.node.keep(asyncio.get_running_loop().create_task(wait()))


class BesideEvents:
    """The events of one object."""

    def __init__(self, activation: EventfulObject) -> None:
        self.activation = activation
        self.turn: StandingTurn | None = None  # None while it sleeps
        self.preparing = asyncio.Lock()
        self.ringing: dict[str, Timer] = {}  # timers whose handler runs
        self._events: dict[asyncio.Task[Any], Call | None] = {}
        self._line = asyncio.Lock()  # of events that are about to begin
        self._turns = asyncio.Lock()  # turns, and waking, one at a time
        self._late: dict[str, Timer] = {}  # due while their handler runs
        self._begun: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        self._stacks: dict[asyncio.Task[Any], AsyncExitStack] = {}
        self._keyed: dict[str, tuple[bytes, Call]] = {}

    def __len__(self) -> int:
        """How many run, or are about to."""
        return len(self._events)

    @property
    def is_busy(self) -> bool:
        return bool(self._events) or (self.turn is not None and self.turn.is_pending)

    def takes(self, method: str) -> bool:
        """It is an event, not a turn."""
        return method in self.activation.known.methods or method in EVENT_OPERATIONS

    def _anew(self) -> Unavailable:
        return Unavailable(f"{self.activation.id} was made anew meanwhile; try again", code="object.anew")

    # its life

    def begin(self) -> StandingTurn:
        """It wakes: what its code writes from now on."""
        self.turn = StandingTurn(self)
        return self.turn

    def end(self, error: BaseException | None = None) -> None:
        """It sleeps, or is made anew: what is still under way is told so and ends."""
        turn = self.turn
        if turn is None or turn.is_going_back:
            return
        self.turn = None
        turn.failure = error = error or self._anew()
        self.activation.undo(turn)
        turn.gate.take_off()
        current = asyncio.current_task()
        for work in list(turn.works):
            if work is not current:
                work.cancel()
        for task, call in list(self._events.items()):
            if task in self._begun and not self._begun[task].done():
                continue  # it has not come to its handler yet
            if task is current:
                continue  # it tells when it has unwound
            if call is not None:
                self.activation.tell(call, None, error)
            task.cancel()

    def reset(self, error: BaseException) -> None:
        """Nothing that is not on its way to disk has happened; the next event finds the object made anew."""
        if self.turn is not None:
            self.end(error)
            self.activation.put_to_sleep()

    async def go_back(self, turn: StandingTurn, error: BaseException) -> None:
        """An event ends that wanted the object to be as it was: bring that to disk, and have it made anew."""
        history = self.activation.history
        if history is None or turn.is_over or not history.hurry(turn):
            return
        async with turn.gate.enter(), self.preparing:
            turn.is_going_back = True
            try:
                await history.prepare(turn, "an event")
                turn.flush(within=True)
            finally:
                turn.is_going_back = False
        self.reset(error)
        turn.goer = asyncio.current_task()

    def fail(self, failure: Failure) -> None:
        """This copy of the object is no more."""
        told = for_caller(self.activation.id, failure)
        if self.turn is not None:
            self.turn.is_going_back = False
        self.end(told)
        current = asyncio.current_task()
        for task, call in list(self._events.items()):
            if call is not None and call.answer is not None:
                resolve(call.answer, None, told)
            if task is not current:
                task.cancel()

    def became_idle(self) -> None:
        if not self.activation.is_busy:
            self.activation.node.hibernation.became_idle(self.activation)

    # events

    async def run(self, call: Call) -> tuple[Any, int]:
        """As `Activation.run_call`; events are begun here and no more."""
        activation = self.activation
        is_ready = activation.is_awake and self.turn is not None and call.request_key is None
        if is_ready and self.takes(call.method):
            self.start(call)  # nearly always
            return None, 0
        async with self.hold_still():
            if call.answer is not None and call.answer.done():
                return None, 0  # it waited for longer than its caller, who was told so
            return await activation.run_call(call)

    async def run_timer(self, timer: Timer) -> None:
        """Run a due timer in a turn, or as an event."""
        if timer.name.partition(":")[0] in EVENT_TIMERS:
            await self.ring(timer)
            return
        async with self.hold_still():
            await self.activation.node.timer_runs.run(self.activation, timer)

    def start(self, call: Call) -> None:
        """Begin a call's event; it goes on whatever becomes of its caller."""
        turn = self.turn
        if turn is None:
            raise self._anew()  # as soon as it had woken
        call.is_beside, call.task = True, None
        print_ = b"" if call.request_key is None else fingerprint(call)
        if call.request_key is not None:
            running = self._keyed.get(call.request_key)
            if running is not None:
                self._join(call, print_, *running)
                return
            self._keyed[call.request_key] = (print_, call)
        task = asyncio.get_running_loop().create_task(self._run(call, turn, print_), context=Variables())
        call.task = task
        self._events[task] = call
        self.activation.node.keep(task)

    def _join(self, call: Call, print_: bytes, other: bytes, running: Call) -> None:
        """The same request is being answered: it is answered once, to both."""
        assert call.answer is not None
        assert running.answer is not None
        if print_ != other:
            words = "was used for another method or other arguments; use a new key"
            raise KeyTaken(f"{self.activation.id}: request key {call.request_key!r} {words}")
        answer = call.answer

        def tell(done: asyncio.Future[Any]) -> None:
            error = done.exception()
            resolve(answer, None if error is not None else done.result(), error)

        running.answer.add_done_callback(tell)

    async def _run(self, call: Call, turn: StandingTurn, print_: bytes) -> None:
        activation, task = self.activation, asyncio.current_task()
        CURRENT.set(turn)
        CHAIN.set(call.chain)
        TRACE.set(call.trace)
        meter = activation.node.meter
        began = call.began = meter.ticks()
        result: Any = None
        raised: BaseException | None = None
        try:
            if await self._may_begin(call, turn):
                way: Coroutine[Any, Any, Any] = self._invoke(call, turn)
                result = await (way if activation.node.tracer is None else self._in_trace(call, way))
                self._remember(call, turn, print_, result)
            raised = await self._settle_writes(turn)
        except asyncio.CancelledError:
            raised = await self._cut(call, turn)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raised = await self._settle_writes(turn) or error
            if isinstance(raised, SystemExit):
                raised = exit_failure(f"{activation.id}.{call.method}", raised)
        finally:
            assert task is not None
            call.task = None
            del self._events[task]
            if call.request_key is not None and self._keyed.get(call.request_key, (b"", None))[1] is call:
                del self._keyed[call.request_key]
            activation.meter.calls.add((meter.ticks() - began) // 1_000)
            activation.meter.failed_calls += raised is not None
            if call.answer is not None and call.answer.done():
                activation.node.on_call_end(call)
        call.is_finished = raised is None
        activation.tell(call, result, raised)
        self.became_idle()
        raised = None

    async def _may_begin(self, call: Call, turn: StandingTurn) -> bool:
        """When the gate is open, unless nobody waits for it any more."""
        async with self._line:
            await turn.gate.wait()
            turn.check_open()
            assert call.answer is not None
            if call.answer.done():
                return False
            call.is_started = True
            if call.is_endless:
                self.activation.node.lift_deadline(call)
            return True

    async def _invoke(self, call: Call, turn: StandingTurn) -> Any:
        activation = self.activation

        async def event() -> Any:
            return await activation.invoke(call)

        return activation.copy_answer(call, await Gated(turn.gate, event()))

    def _in_trace(self, call: Call, way: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        return tracer.turn(self.activation.node, self.activation.id, call.method, way)

    def _remember(self, call: Call, turn: StandingTurn, print_: bytes, result: Any) -> None:
        if call.request_key is not None and not turn.is_over:
            kept = remember_answer(self.activation.node, call.request_key, print_, result)
            turn.records = [*turn.records, kept]
            self.activation.remember(call.request_key, kept)

    async def _settle_writes(self, turn: StandingTurn) -> BaseException | None:
        """Send what is written on its way; why that can't be."""
        try:
            if turn.is_over:
                return None if turn.goer is asyncio.current_task() else turn.failure
            await turn.gate.wait()
            await turn.flush_whole()
            while turn.gate.is_entered and not turn.gate.is_open and not turn.is_over:
                await turn.gate.wait()  # a section began meanwhile
                await turn.flush_whole()
        except Exception as error:
            return turn.failure or error
        return turn.failure

    async def _cut(self, call: Call, turn: StandingTurn) -> BaseException:
        """Its task was cancelled: because the object is no more, by an operator, or by its own code."""
        call.absorb()
        if turn.failure is not None:
            return turn.failure
        await self._settle_writes(turn)
        if call.is_expired:
            return call.too_late()
        return cancellation(f"{self.activation.id}.{call.method}", "")

    # turns

    @asynccontextmanager
    async def hold_still(self) -> AsyncIterator[None]:
        """A turn runs, or the object wakes: no event begins or goes on meanwhile, and all they wrote is on its way."""
        async with self._turns:
            turn = self.turn
            if turn is None:
                yield
                return
            await turn.gate.wait()
            await self._settle_writes(turn)
            if turn.is_over:
                yield
                return
            async with turn.gate.enter():
                with suppress(Exception):  # whose it was is told
                    await turn.flush_whole(within=True)
                yield

    # timers

    async def ring(self, timer: Timer) -> None:
        """Run a due timer; returns when its handler has begun, for the next event may begin then."""
        if timer.name in self.ringing:
            self._late[timer.name] = timer
            return
        self.ringing[timer.name] = timer
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.get_running_loop().create_task(self._ring(timer), context=Variables())
        self._events[task] = None
        self._begun[task] = begun
        self.activation.node.keep(task)
        await asyncio.wait([begun])

    def has_begun(self) -> None:
        """The handler of the timer that this task runs begins."""
        begun = self._begun.get(asyncio.current_task())  # type: ignore[arg-type]
        if begun is not None and not begun.done():
            begun.set_result(None)

    def on_begun(self, do: Callable[[], None]) -> None:
        """Have that done when the handler of the timer that this task runs begins."""
        begun = self._begun.get(asyncio.current_task())  # type: ignore[arg-type]
        if begun is not None:
            begun.add_done_callback(lambda _: do())

    async def in_event(self, what: Awaitable[Any]) -> Any:
        """Run the handler of a timer as an event."""
        turn, before = self.turn, CURRENT.get()
        assert turn is not None
        self.has_begun()
        CURRENT.set(turn)

        async def event() -> Any:
            return await what

        coroutine = event()
        try:
            async with self._line:
                await turn.gate.wait()
            turn.check_open()
            return await Gated(turn.gate, coroutine)
        except BaseException as error:
            task = asyncio.current_task()
            if turn.failure is None or self.activation.is_failed:
                raise
            if task is not None and isinstance(error, asyncio.CancelledError):
                task.uncancel()
            raise turn.failure from None
        finally:
            coroutine.close()
            CURRENT.set(before)
            if not self.activation.is_failed:
                await self._hold()
                if turn.failure is not None and turn.goer is not asyncio.current_task():
                    raise turn.failure

    async def _hold(self) -> None:
        """No event goes on until this task is over: its turn is about to end."""
        stack = self._stacks.get(asyncio.current_task())  # type: ignore[arg-type]
        if stack is not None:
            await stack.enter_async_context(self.hold_still())

    async def _ring(self, timer: Timer) -> None:
        activation, task = self.activation, asyncio.current_task()
        assert task is not None
        try:
            async with AsyncExitStack() as stack:
                self._stacks[task] = stack
                await activation.node.timer_runs.run(activation, timer)
        except asyncio.CancelledError:
            if not activation.is_failed and not activation.node.is_dead:
                raise
        except (Unavailable, Fenced):
            pass  # the commit before failed, and everyone who waits has been told
        finally:
            self.has_begun()
            del self._events[task], self._begun[task], self._stacks[task], self.ringing[timer.name]
            late = self._late.pop(timer.name, None)
            if late is not None:
                activation.fire(late)
            self.became_idle()
