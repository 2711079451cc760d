"""Layer 3. One live copy of an object: how does it wake, run its turns one at a time, and fall asleep?

A turn runs in a task of the object, never in that of its caller, who may go before it ends. Turns are
pipelined: the next starts on top of the writes of the one before while those are on their way to disk.
When a commit fails, everything built on it fails with it and the activation is dropped.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.runtime import tracer
from wakeful.runtime.calls import (
    Call,
    cancellation,
    copy_back,
    exit_failure,
    fingerprint,
    for_caller,
    is_small,
    mark_raised,
    recall_answer,
    recall_request,
    remember_answer,
    resolve,
)
from wakeful.runtime.committer import Failure
from wakeful.runtime.context import Context
from wakeful.runtime.erasure import FORGET, resume
from wakeful.runtime.hibernation import wake
from wakeful.runtime.object_runtime import ObjectDatabase, ObjectPast
from wakeful.runtime.rows import ObjectRows
from wakeful.runtime.state import NO_STATE, State
from wakeful.runtime.turn import CURRENT, Turn, running_turn
from wakeful.values.commits import (
    FORGOTTEN_SLOT,
    STATE_SLOT,
    Commit,
    Loaded,
    Remembered,
    Slot,
)
from wakeful.values.errors import Fenced, Reentrancy, Unavailable
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM, Timer
from wakeful.values.trace import TRACE, UNSAMPLED

if TYPE_CHECKING:
    from wakeful.runtime.beside import BesideEvents
    from wakeful.runtime.node import Node
    from wakeful.runtime.registry import ObjectClass


class Activation:
    """An object that is awake, or about to be."""

    __slots__ = (
        "_coming", "_cut", "_durable", "_failure", "_gone", "_lingering", "_mailbox", "_readers", "_requests",
        "_running", "_slot", "_submitted", "_waiters", "beside", "epoch", "history", "id", "idle_at", "instance",
        "is_awake", "is_hurried", "known", "meter", "node", "rows", "shard", "sockets", "sql", "state", "timers",
        "unnumbered", "watched",
    )  # fmt: skip

    def __init__(self, node: "Node", id: ObjectId, known: "ObjectClass", shard: int, epoch: int) -> None:
        self._submitted = self._durable = 0  # the last commit that was sent on its way, and that is on disk
        # In order of their numbers: what is to be said to whom when that commit is on disk.
        self._waiters: list[tuple[int, asyncio.Future[Any], Any, BaseException | None]] = []
        self._failure: Failure | None = None
        self.node = node
        self.id = id
        self.known = known
        self.shard = shard
        self.epoch = epoch
        self.meter = node.meter.classes.of(id.cls)
        self.idle_at = 0  # since when nothing happened; meaningful while not busy
        self.rows = ObjectRows(node, id, node.loader.take(id, epoch))
        self.state = NO_STATE if known.state_type is None else State(known.state_type)
        self.timers: dict[str, Timer | None] = {}  # what finished turns made of them; absent: as on disk
        self.sql: ObjectDatabase | None = None  # when it was woken with one or has asked for one
        self.history: ObjectPast | None = None
        if known.history_ms:
            self.history = node.features["history"].of(self)
        self.sockets: Any = None  # those that it has looked at, while it is awake; the feature's own
        self.beside = _events_of(self) if known.is_gated else None  # its events, if they are no turns
        self.watched: Any = None  # what happened lately, for those who watch it; a feature's own as well
        self.instance: Any = None  # the object, which holds this: let go of when it sleeps
        # Else it is made before its next event, or made anew: its memory may hold what was undone.
        self.is_awake = False
        self.unnumbered: bytes | None = None  # how many migrations it has had, to go with the first commit that it has
        self._mailbox: deque[Call | Timer] | None = None  # made when first needed: an empty one is 600 bytes
        self._running: asyncio.Task[Any] | None = None
        self._coming: Call | None = None  # for which there is a task that has not taken its first step
        self._gone = 0  # callers that left since the mailbox was thinned: their calls may lie in it
        self._readers = 0
        # Remembered by turns that may not be on disk yet; like the mailbox, made when first needed.
        self._requests: dict[str, tuple[int, Remembered]] | None = None
        self._cut: asyncio.Task[Any] | None = None  # the task that `fail` cancelled
        self._slot: asyncio.Future[None] | None = None  # what the running turn waits for before it may begin
        self.is_hurried = False  # a turn elsewhere waits for one in the mailbox
        self._lingering: asyncio.Future[Any] | None = None  # code of a turn that is over, which could not be stopped

    # what the node asks

    @property
    def is_busy(self) -> bool:
        """Something would be lost or interrupted if it slept now: `has_turns`, written again since each call asks it twice."""
        has_turns = self._running is not None or self._submitted > self._durable or self._readers or self._mailbox
        return bool(has_turns or self._waiters) or (self.beside is not None and self.beside.is_busy)

    @property
    def has_turns(self) -> bool:
        """Something but events beside its turns is under way."""
        is_writing = self._submitted > self._durable
        return self._running is not None or is_writing or self._readers > 0 or bool(self._mailbox or self._waiters)

    @property
    def is_unsettled(self) -> bool:
        """A commit of it is on its way to disk."""
        return self._submitted > self._durable

    @property
    def task(self) -> "asyncio.Task[Any]":
        """The task in which its turns run; there is one while one does."""
        assert self._running is not None
        return self._running

    @property
    def is_failed(self) -> bool:
        return self._failure is not None

    async def call(self, call: Call) -> Any:
        """The answer of a call, once everything it rests on is on disk."""
        if self._failure is not None:
            raise for_caller(self.id, self._failure)  # it came too late: nobody would ever look into this mailbox
        if call.method in self.known.readers and self.is_awake:
            return await self._call_reader(call)
        loop = asyncio.get_running_loop()
        if self._running is None and not self._mailbox and self.beside is None:
            # Nobody before it. A task of its own all the same: its caller may go before it ends. In the caller's context.
            call.answer, call.trace, self._coming = loop.create_future(), TRACE.get(), call
            self._running = loop.create_task(self._run_alone(call))
        else:
            self._line_up(call, loop.create_future())
        try:
            return await call.answer  # type: ignore[misc]
        except asyncio.CancelledError:
            self._on_caller_gone(call)
            raise
        except BaseException as error:
            lines, call.lines = call.lines, None
            if lines is not None:
                error.__traceback__ = lines
            raise

    def _line_up(self, call: Call, answer: asyncio.Future[Any]) -> None:
        """Put it into the mailbox, if there is room and its turn can come."""
        if len(call.chain) > 1:
            if self.id in call.chain[:-1] and not (self.beside is not None and self.is_awake):
                raise Reentrancy(
                    f"{' → '.join(map(str, call.chain))}: {self.id} is waking and waits for this very call, which would never end"
                )
            self._hurry()
        waiting = len(self._mailbox or ()) + (0 if self.beside is None else len(self.beside))
        if waiting >= self.node.limits.mailbox and not (self._mailbox and self._has_thinned(self._mailbox)):
            self.node.meter.full.add()
            raise Unavailable(
                f"{self.id} has {self.node.limits.mailbox} calls waiting, its limit; back off and try again",
                code="object.mailbox",
            )
        call.answer, call.trace, call.began = answer, TRACE.get(), self.node.meter.ticks()
        self._post(call)
        self.node.timer_runs.on_posted(call)

    def _has_thinned(self, mailbox: deque[Call | Timer]) -> bool:
        """Calls were taken out for which nobody waits any more."""
        if self._gone:
            self._gone = 0
            before = len(mailbox)
            self._mailbox = deque(
                one for one in mailbox if isinstance(one, Timer) or one.answer is None or not one.answer.done()
            )
            return len(self._mailbox) < before
        return False

    def _on_caller_gone(self, call: Call) -> None:
        """Its caller has gone: a turn that has begun goes on to its end, one that has not never will."""
        if call.task is not None and not call.is_beside and self._slot is not None and not self._slot.done():
            call.interrupt()
        self._gone += 1

    def take_slot(self, *, nested: bool) -> asyncio.Future[None] | None:
        """A slot for the turn that is about to begin; a future to await first when there is none."""
        self._slot = self.node.slots.take(self.id, nested=nested or self.is_hurried)
        if self._slot is not None:
            self.rows.take_begun()  # read again when it has one: those that wait hold nothing in memory
        return self._slot

    def _hurry(self) -> None:
        """A turn elsewhere holds a slot while it waits here: whoever is before it must not wait for one."""
        self.is_hurried = True
        if self._slot is not None:
            self.node.slots.hurry(self._slot, self.id)
        for tell in self.node.hurried:
            tell(self.id)

    def fire(self, timer: Timer) -> None:
        """Run a due timer when its turn comes; a copy that has failed leaves it on disk."""
        # Else nobody would ever take it out of the mailbox, and the task that looks there would spin.
        if self._failure is None:
            (self._post if self._running or self._mailbox else self._begin_draining)(timer)

    def fire_before(self, timer: Timer) -> None:
        """As `fire`, but before those in the mailbox that are due after it."""
        for index, item in enumerate(self._mailbox or ()):
            if isinstance(item, Timer) and timer.sort_key < item.sort_key:
                self._mailbox.insert(index, timer)  # type: ignore[union-attr]
                return
        self.fire(timer)

    def each_waiting(self, limit: int, change: Callable[[Timer], Timer | None]) -> None:
        """Change due timers that wait for their turn, up to the first call; None leaves one as it is."""
        for index, item in enumerate(self._mailbox or ()):
            if not isinstance(item, Timer) or index >= limit:
                break
            changed = change(item)
            if changed is not None:
                self._mailbox[index] = changed  # type: ignore[index]

    def fail(self, failure: Failure) -> None:
        """Nothing this copy believes can be trusted any more: fail what waits on it, stop what runs."""
        if self._failure is not None:
            return
        self._failure = failure
        waiters, self._waiters = self._waiters, []
        for _, future, _, _ in waiters:
            resolve(future, None, for_caller(self.id, failure))
        if self.beside is not None:
            self.beside.fail(failure)
        waiting, self._mailbox = self._mailbox or (), None
        for item in waiting:
            if isinstance(item, Call) and item.answer is not None:
                resolve(item.answer, None, for_caller(self.id, failure))
        if self._coming is not None and self._coming.answer is not None:
            # Cancelled now, its task would never see to anything; so it finds that there is nothing left to do.
            resolve(self._coming.answer, None, for_caller(self.id, failure))
        elif self._running is not None and self._running is not asyncio.current_task():
            self._cut = self._running
            self._cut.cancel()

    def put_to_sleep(self) -> None:
        """The next event finds it asleep, and makes it anew."""
        self.instance = None
        self.is_awake = False
        if self.beside is not None:
            self.beside.end()

    def begin_anew(self) -> None:
        """Nothing of it is left anywhere: the next event finds an object that never was."""
        self.put_to_sleep()
        self.rows.load(Loaded(None, None, {}, True))
        self.timers, self.sql, self.sockets, self.unnumbered, self._requests = {}, None, None, None, None
        self.history = self.node.features["history"].of(self) if self.known.history_ms else None

    def hold_awake(self) -> None:
        """Something beside its turns goes on: it must not sleep under it."""
        self._readers += 1

    def let_sleep(self) -> None:
        """That is over."""
        self._readers -= 1
        if not self.is_busy:
            self.node.hibernation.became_idle(self)

    def linger(self, work: "asyncio.Future[Any]") -> None:
        """The running turn may end before this does, and the next one not begin: it is code that could not be stopped."""
        self._lingering = work if self._lingering is None else asyncio.gather(self._lingering, work)

    def adopt(self, writes: dict[Slot, bytes | None], wiped: bool, timers: dict[str, Timer | None]) -> None:
        """A turn ended well: the next one starts from what it left."""
        self.rows.adopt(writes, wiped=wiped, number=self._submitted + 1)
        if FORGOTTEN_SLOT in writes:
            self.put_to_sleep()  # what comes next must not meet it
        if STATE_SLOT in writes and self.state is not NO_STATE:
            self.state.adopt(writes[STATE_SLOT])
        self.timers.update(timers)
        if self.sockets is not None:
            self.sockets.adopt(writes)
        if self.sql is not None:
            self.sql.adopt()

    # turns

    def collect_state(self) -> None:
        """Put what the running turn made of its state among the turn's writes."""
        self.state.collect(running_turn(self, "state"))

    async def commit_now(self) -> None:
        """A durable point in the middle of the running turn."""
        turn = running_turn(self, "a commit")
        if self.history is not None:
            await self.history.prepare(turn, "ctx.commit()", is_final=False)
            turn.check_open()  # it may have ended meanwhile
        self.state.collect(turn)
        if turn.sql_writes:
            turn.collect_pages()
        commit = turn.take_commit(final=False)
        if commit is not None:
            self.submit(commit)
        if turn.then:
            self.follow(turn)
        try:
            await self.settle()
        except Unavailable:
            if isinstance(self._failure, Fenced):
                raise self._failure from None
            raise

    # Commits of one activation are numbered; an answer waits for the number that it rests on.

    def submit(self, commit: Commit) -> int:
        """Send a commit on its way; its number."""
        if self._failure is not None:
            raise for_caller(self.id, self._failure)  # built on something that is not there
        self._submitted = number = self._submitted + 1
        done: Callable[[Failure | None], None] = partial(self._on_committed, number, commit)
        tracer = self.node.tracer
        if tracer is not None and TRACE.get() != UNSAMPLED:
            done = tracer.follow("commit", self.id, done)
        self.node.committer.submit(commit, done)
        return number

    async def durable(self, number: int) -> None:
        """Wait until that commit, and so all before it, is on disk, and until it is sure that this copy is the one."""
        if self._failure is not None:  # also of what is on disk: a reader may have looked since this copy is no more
            raise for_caller(self.id, self._failure)
        if number <= self._durable and not self.node.is_doubted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((number, future, None, None))
        await future

    async def settle(self) -> None:
        """Wait until every finished turn is on disk."""
        await self.durable(self._submitted)

    def release(self, number: int | None = None) -> None:
        """That much is on disk, or all that was: let the answers go that rest on no more. Its owner is sure of it."""
        number = self._durable if number is None else number
        waiters = self._waiters
        all_ready = number == self._submitted
        self._waiters = [] if all_ready else [waiter for waiter in waiters if waiter[0] > number]
        for by, future, result, error in waiters:
            if by <= number:
                resolve(future, result, error)

    def _on_committed(self, number: int, commit: Commit, failure: Failure | None) -> None:
        if failure is not None:
            self.node.commit_failed(self, failure)
            return
        self._durable = number
        self.rows.on_saved(number, self.node.limits.cache_bytes_per_object)
        if self._submitted == number and len(self.timers) > (ALARM in self.timers):
            self.timers = {ALARM: self.timers[ALARM]} if ALARM in self.timers else {}
        if self._requests:
            self._requests = {key: found for key, found in self._requests.items() if found[0] > number}
        self.node.timers_changed(commit)
        if self._waiters:
            self.release(number)
        if not self.is_busy:
            self.node.hibernation.became_idle(self)

    def _post(self, item: Call | Timer) -> None:
        if self._mailbox is None:
            self._mailbox = deque()
        self._mailbox.append(item)
        if self._running is None:
            self._begin_draining()

    def _next(self) -> None:
        """The task that ran turns is over: see to those that came meanwhile."""
        self._running = None
        if self._mailbox:
            self._begin_draining()
            return
        self._mailbox = None
        self.is_hurried = False
        if not self.is_busy:
            self.node.hibernation.became_idle(self)

    def _begin_draining(self, first: Timer | None = None) -> None:
        # A context of its own: the caller that happens to be first must not be seen by the turns of all others.
        self._running = asyncio.get_running_loop().create_task(self._drain(first), context=contextvars.Context())

    async def _drain(self, first: Timer | None) -> None:
        try:
            while self._failure is None and (item := first or (self._mailbox.popleft() if self._mailbox else None)):
                first = None
                if isinstance(item, Timer):
                    await (self.node.timer_runs.run(self, item) if self.beside is None else self.beside.run_timer(item))
                else:
                    await self._answer(item)
                if self._lingering is not None:
                    await self._outlast(item)
                if self.rows.bytes > 2 * self.node.limits.cache_bytes_per_object:
                    await self.settle()  # unsaved rows can't be dropped from the cache
        except asyncio.CancelledError:
            if self._failure is None and not self.node.is_dead:
                raise
        except (Unavailable, Fenced):
            pass  # the commit before failed, and everyone who waits has been told
        finally:
            self._next()

    async def _outlast(self, item: Call | Timer) -> None:
        """Two turns' code never runs at a time."""
        self.node.outlasted[self] = (item, self.node.meter.ticks())
        try:
            while self._lingering is not None:
                lingering, self._lingering = self._lingering, None
                await asyncio.wait([lingering])
        finally:
            del self.node.outlasted[self]

    async def _run_alone(self, call: Call) -> None:
        """Run a call in its caller's context, which those that come meanwhile must not see."""
        self._coming = None
        try:
            await self._answer(call)
            if self._lingering is not None:
                await self._outlast(call)
        except asyncio.CancelledError:
            if self._failure is None and not self.node.is_dead:
                raise
        finally:
            self._next()

    async def _answer(self, call: Call) -> None:
        """Run a call unless its caller has gone; it is answered once what the answer rests on is on disk."""
        answer = call.answer
        assert answer is not None
        if answer.done():
            return
        result: Any = None
        raised: BaseException | None = None
        if call.trace is not TRACE.get():
            TRACE.set(call.trace)
        try:
            way = self.run_call(call) if self.beside is None else self.beside.run(call)
            if self.node.tracer is not None and self.beside is None:
                way = tracer.turn(self.node, self.id, call.method, way)
            result, number = await way
            if call.is_beside:
                return  # its event has begun, and answers when it ends
            call.is_finished = True
        except asyncio.CancelledError:
            if call.is_interrupted:
                return
            resolve(answer, None, cancellation(f"{self.id}.{call.method}", ""))
            raise
        except BaseException as error:
            # It may rest on turns before it that could still be undone, and then the caller hears of that instead.
            raised, number = error, self._submitted
            if isinstance(error, SystemExit):
                raised = exit_failure(f"{self.id}.{call.method}", error)
            elif isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
        finally:
            if not call.is_beside:
                call.task = None
            if answer.done() and call.task is None:
                self.node.on_call_end(call)
        self.tell(call, result, raised, number)
        raised = None  # it holds this frame

    def tell(self, call: Call, result: Any, raised: BaseException | None, number: int | None = None) -> None:
        """Give the answer once that much is on disk, or all that was written so far."""
        number = self._submitted if number is None else number
        answer = call.answer
        assert answer is not None
        if raised is not None:
            call.lines = raised.__traceback__
        is_there = number <= self._durable and not self.node.is_doubted
        if (is_there and self._failure is None) or call.is_expired:
            resolve(answer, result, raised)
        elif self._failure is not None:
            resolve(answer, None, for_caller(self.id, self._failure))  # whatever its code made of being stopped
        else:
            self._waiters.append((number, answer, result, raised))

    def remember(self, key: str, kept: Remembered) -> None:
        """An event's answer, which goes to disk with the next commit."""
        self._requests = {**(self._requests or {}), key: (self._submitted + 1, kept)}

    async def run_call(self, call: Call) -> tuple[Any, int]:
        """One turn: the answer, and the commit number it rests on."""
        turn: Turn | None = None
        trial: Turn | None = None
        call.task = asyncio.current_task()
        token = CURRENT.set(None)
        began = call.began = self.node.meter.ticks()
        slot = self.take_slot(nested=len(call.chain) > 1)
        try:
            if slot is not None:
                await slot
                began = self.node.meter.add_wait(began)
            key, is_reader = call.request_key, call.method in self.known.readers
            trial = await self._wake_for(call, reads=is_reader and key is None)
            if key is not None:
                print_ = fingerprint(call)
                kept = await recall_request(self.node, self.id, self._requests, key)
                if kept is not None:
                    return recall_answer(self.id, kept, print_), self._submitted
            if self.beside is not None and self.beside.takes(call.method):
                self.beside.start(call)
                return None, 0
            # A reader that had to wake the object is in line like everyone else.
            turn = trial or Turn(self, call.chain, call.deadline_at, is_reader=is_reader)
            CURRENT.set(turn)
            call.is_started = True
            result = self.copy_answer(call, await self.invoke(call))
            if call.cancels:
                raise asyncio.CancelledError  # its code swallowed the cancellation
            if key is not None:
                turn.remember = remember_answer(self.node, key, print_, result)
            if self.history is not None and trial is None:
                await self.history.prepare(turn, call.method)
            number = self.finish(turn) if trial is None else self._let_go(trial)
            if key is not None and turn.remember is not None:
                self._requests = {**(self._requests or {}), key: (number, turn.remember)}
            return result, number
        except asyncio.CancelledError:
            self.undo(turn)
            call.absorb()
            if self._failure is not None:
                self._absorb_cut()
            if call.task is not None and call.task.cancelling():
                raise  # the turn that waits for this one, or its caller, is cancelled as well
            if self._failure is not None:
                raise for_caller(self.id, self._failure) from None
            if call.is_interrupted and not call.is_expired:
                raise
            self.meter.failed_calls += 1
            if call.is_expired:
                raise call.too_late(turn.commits if turn is not None else 0) from None
            raise cancellation(f"{self.id}.{call.method}", "") from None
        except Fenced as fenced:
            self.undo(turn)
            raise for_caller(self.id, fenced) from None
        except BaseException as error:
            self.undo(turn)
            self.meter.failed_calls += 1
            mark_raised(self, call, error)
            if call.is_expired:
                raise call.too_late(turn.commits if turn is not None else 0) from None
            raise
        finally:
            call.absorb()
            CURRENT.reset(token)
            if trial is not None:
                self.put_to_sleep()  # it rests on what is nowhere
            if not call.is_beside:
                self.meter.calls.add((self.node.meter.ticks() - began) // 1_000)
            self.node.slots.give_back(slot, self.id)

    async def _wake_for(self, call: Call, *, reads: bool) -> Turn | None:
        """Have it awake for the call, if that needs it; a turn to run it in, if there is one (see `wake`)."""
        if not self.is_awake and call.method not in self.node.quiet_operations:
            return await wake(self, call.chain, call.deadline_at, reads=reads)
        if not self.is_awake and call.method != FORGET:
            await resume(self, call.chain, call.deadline_at)
        return None

    def invoke(self, call: Call) -> Awaitable[Any]:
        """The method of the object, or what a feature does to every object under a dotted name."""
        operation = self.node.operations.get(call.method)
        if operation is not None:
            return operation(Context(self), *call.args, **call.kwargs)
        return getattr(self.instance, call.method)(*call.args, **call.kwargs)  # type: ignore[no-any-return]

    def _absorb_cut(self) -> None:
        """Take back the cancellation of `fail`: the task goes on with telling its caller."""
        if self._cut is not None and self._cut is asyncio.current_task():
            self._cut.uncancel()
            self._cut = None

    async def _call_reader(self, call: Call) -> Any:
        self._readers += 1
        began = call.began = self.node.meter.ticks()
        token = CURRENT.set(None)
        call.task, call.answer = asyncio.current_task(), None
        call.before = call.task.cancelling()  # type: ignore[union-attr]
        raised: Exception | None = None
        result: Any = None
        try:
            turn = Turn(self, call.chain, call.deadline_at, is_reader=True)
            CURRENT.set(turn)
            try:
                result = self.copy_answer(call, await self.invoke(call))
            except SystemExit as error:
                raise exit_failure(f"{self.id}.{call.method}", error) from None
            except Exception as error:
                mark_raised(self, call, error)
                raised = error
            if raised is not None:
                await self.settle()  # an error is an answer too
                raise raised
            turn.is_over = True
            if turn.refused:
                raise turn.refused[0].error
            if self.is_unsettled or self._failure is not None or self.node.is_doubted:  # two coroutines less, mostly
                await self.settle()
            return result
        finally:
            raised = None  # it holds this frame
            CURRENT.reset(token)
            self.meter.readers.add((self.node.meter.ticks() - began) // 1_000)
            self.let_sleep()

    async def end(self, turn: Turn, by: str) -> None:
        """As `finish`, for those that come seldom."""
        if self.history is not None:
            await self.history.prepare(turn, by)
        self.finish(turn)

    def finish(self, turn: Turn) -> int:
        """The turn ended well: its writes become one commit on its way; the number its answer rests on."""
        if turn.refused:
            raise turn.refused[0].error
        if turn.state_used:
            self.state.collect(turn)
        if turn.sql_writes:
            turn.collect_pages()
        turn.is_over = True
        commit = turn.take_commit(final=True)
        if commit is not None:
            self.submit(commit)
        if turn.then:
            self.follow(turn)
        return self._submitted

    def follow(self, turn: Turn) -> None:
        """Have done what is to follow the turn's commit, or those before it that it rests on."""
        calls, turn.then = turn.then, []
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.exception() or [call() for call in calls])
        if self._submitted > self._durable or self.node.is_doubted:
            self._waiters.append((self._submitted, future, None, None))
        elif self._failure is None:
            future.set_result(None)  # done soon, not now: what earlier turns left may be waiting for the same

    def _let_go(self, turn: Turn) -> int:
        """A reader ended well in a turn of which nothing is to be kept; the number its answer rests on."""
        if turn.refused:
            raise turn.refused[0].error
        self.undo(turn)
        return self._submitted

    def undo(self, turn: Turn | None) -> None:
        """The turn failed: nothing it wrote since its last durable point happened, and nobody meets what it left in memory."""
        if turn is not None:
            turn.is_over = True
            is_ours = not turn.is_standing and self.beside is None  # else who undoes it sees to that
            if is_ours and (turn.has_written or (turn.state_used and self.state.has_changed(turn))):
                self.is_awake = False
            if turn.state_used:
                self.state.forget()
            if (turn.sql_writes or turn.pages) and self.sql is not None:
                self.sql.undo()

    def copy_answer(self, call: Call, answer: Any) -> Any:
        """The answer as its caller gets it."""
        if is_small(answer):
            return answer
        return copy_back(answer, self.node.limits.arguments_bytes, f"{self.id}.{call.method}")


def _events_of(activation: Activation) -> "BesideEvents":
    from wakeful.runtime.beside import BesideEvents  # few programs have such objects

    return BesideEvents(activation)
