"""Layer 3. What happens when a timer is due: run it once, write the ledger, try again or park."""

import asyncio
import logging
import traceback
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.policy.retry import CRASHES_MAX, platform_delay_ms
from wakeful.runtime.calls import Call, Deadlines, cancellation, exit_failure, too_long
from wakeful.runtime.committer import Failure
from wakeful.runtime.erasure import resume
from wakeful.runtime.hibernation import wake
from wakeful.runtime.timer_handler import Failed, RunLater, Stale, TimerHandler
from wakeful.runtime.tracer import trace_run
from wakeful.runtime.turn import CURRENT, DONE, Turn
from wakeful.values.commits import Slot, Start, start_note
from wakeful.values.errors import Fenced, ObjectTooNew, Unavailable
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Entry, Occurrence, Parked, Timer, Verdict, run_id, storable, words_of
from wakeful.values.trace import LINK, TRACE, UNSAMPLED, trace_in

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.node import Node
    from wakeful.runtime.registry import ObjectClass


# Which timers wait because a process died while they ran, and who waits behind them?


class Tried(NamedTuple):
    """One that runs again since then, while others wait; `is_last`: one more death, and it is parked."""

    timer: Timer
    since: int
    is_last: bool


class Suspects:
    """Timers in line until there is room to try them, and later ones of their objects, which must not overtake them."""

    def __init__(self) -> None:
        self._line: deque[Timer] = deque()
        self._of: dict[ObjectId, deque[Timer]] = {}
        self.tried: list[Tried] = []

    def __len__(self) -> int:
        return len(self._line)

    @property
    def first(self) -> Timer:
        return self._line[0]

    def add(self, timer: Timer) -> None:
        self._line.append(timer)
        self._of.setdefault(timer.id, deque()).append(timer)

    def pop(self) -> Timer:
        timer = self._line.popleft()
        own = self._of[timer.id]
        own.popleft()  # each object's are in the order of the line
        if not own:
            del self._of[timer.id]
        return timer

    def has_before(self, timer: Timer, running: Mapping[tuple[ObjectId, str], Timer]) -> bool:
        """One of the same object is in line that is due before it, and is still meant to run."""
        own = self._of.get(timer.id)
        if own is None:
            return False
        return any(one.sort_key < timer.sort_key and running.get((one.id, one.name)) is one for one in own)

    def waiting(self, running: Mapping[tuple[ObjectId, str], Timer]) -> int:
        """How many are in line and still meant to run."""
        return sum(running.get((one.id, one.name)) is one for one in self._line)

    def summary(self, running: Mapping[tuple[ObjectId, str], Timer], now: int) -> dict[str, Any] | None:
        """The line in plain values: how many wait, behind which one, and for how long that has run; None: nobody waits."""
        waiting = self.waiting(running)
        if not waiting:
            return None
        first = self.tried[0] if self.tried else None
        return {
            "waiting": waiting,
            "is_alone": first is not None and first.is_last,
            "behind": first and {"class": first.timer.id.cls, "key": first.timer.id.key, "timer": first.timer.name},
            "for_ms": 0 if first is None else now - first.since,
        }


log = logging.getLogger("wakeful.timers")

ERROR_CHARS_MAX = 2_000
TRACEBACK_CHARS_MAX = 20_000
NOTED_MAX = 64  # start notes in one commit
TRIED_MS = 2_000  # of work beside turns that was running when a process died: what kills does so soon
TRIED_MAX = 64  # timers that run at once of those during whose last run a process died


class TimerRuns:
    """Runs due timers as turns of their objects, through the handler of their name."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._handlers: dict[str, TimerHandler] = {}
        self._wakers: dict[str, tuple[TimerHandler, ...]] = {}
        self.deadlines = Deadlines(node.clock)
        self.quiet: set[str] = set()  # prefixes of timers whose turns need no awake object
        self._quiet_when: dict[str, Callable[[Timer], bool]] = {}  # and of those of which some need none
        # Operations that ask a running timer to stop, and which one, by what they are called with.
        self.interrupting: dict[str, Callable[..., str]] = {}
        self._firing: dict[ObjectId, tuple[str, Call]] = {}
        self._stopping: dict[tuple[ObjectId, str], Call] = {}  # such calls that came before their timer began to run
        self._uncounted: Counter[tuple[str, str, str]] = Counter()  # failures of ours in a row, for the backoff
        # A timer that was running when a process died may have killed it. Those that saw one death are tried a few at
        # a time, those that saw two alone: so the third is laid at one door and not at that of everyone beside it.
        self._is_alone = False
        self.suspects = Suspects()

    def register(self, handler: TimerHandler, *, quiet: bool | Callable[[Timer], bool] = False) -> None:
        """Give the timers of the handler's prefix to it; `quiet`: without waking their objects, all or those that it says."""
        self._handlers[handler.prefix] = handler
        self._wakers.clear()
        if callable(quiet):
            self._quiet_when[handler.prefix] = quiet
        elif quiet:
            self.quiet.add(handler.prefix)

    def _is_quiet(self, handler: TimerHandler, timer: Timer) -> bool:
        if handler.prefix in self.quiet:
            return True
        when = self._quiet_when.get(handler.prefix)
        return when is not None and when(timer)

    def stop(self) -> None:
        self.deadlines.stop()

    def wakers(self, known: "ObjectClass") -> tuple[TimerHandler, ...]:
        """The handlers that want to see objects of this class wake."""
        found = self._wakers.get(known.name)
        if found is None:
            found = self._wakers[known.name] = tuple(h for h in self._handlers.values() if h.wants_wake(known))
        return found

    def handler_of(self, name: str) -> TimerHandler | None:
        return self._handlers.get(name) or self._handlers.get(name.partition(":")[0])

    def on_posted(self, call: Call) -> None:
        """A call waits in an object's mailbox: if it is to stop the very timer that runs there, ask that to; it comes again behind it."""
        named = self.interrupting.get(call.method)
        if named is None or call.answer is None:
            return
        key = (call.chain[-1], named(*call.args))
        name, running = self._firing.get(key[0], (None, None))
        if running is None or name != key[1]:
            self._stopping[key] = call
            call.answer.add_done_callback(lambda _: self._stopping.pop(key, None))
        elif not running.is_interrupted:
            running.interrupt()

    def crashes_of(self, timer: Timer) -> int:
        """How many processes died while it ran: begun and not finished by an owner that is gone.

        An outage of the store that this process survived is no crash.
        """
        died = timer.started != 0 and not self._node.ownership.has_held(shard_of(timer.id), timer.started)
        return timer.crashes + died

    def run(self, activation: "Activation", timer: Timer) -> Awaitable[None]:
        """One attempt of a due timer, to its commit on its way."""
        if not self._is_out(timer) or not _is_current(activation, timer):
            self._node.skip_timer(timer)
            self.go_on()
            return DONE
        # Nearly always the dispatcher has just written the note, and then nobody died of it.
        crashes = timer.crashes if timer.started == activation.epoch else self.crashes_of(timer)
        if crashes >= CRASHES_MAX:  # it is not tried, so in line nobody would go on after it
            return self._park_crashed(activation, timer, crashes)
        if self.suspects.tried and self.suspects.has_before(timer, self._node.queue.running):
            self.suspects.add(timer)  # what is tried again after a crash is not overtaken by later ones of its object
            return DONE
        if crashes > timer.crashes:
            return self._try_suspect(activation, timer, crashes)
        return self._attempt(activation, timer, crashes)

    def _is_out(self, timer: Timer) -> bool:
        """It was handed out, and neither cleared nor replaced on disk since."""
        return self._node.queue.running.get((timer.id, timer.name)) is timer

    async def _try_suspect(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        """Run it when other suspects leave it room; until then its object is free, for one that runs may call it."""
        is_last = crashes >= CRASHES_MAX - 1  # one more death, and it is parked
        trying = self.suspects.tried
        if self._is_alone or len(trying) >= TRIED_MAX or (is_last and trying):
            self.suspects.add(timer)
            return
        trying.append(tried := Tried(timer, self._node.clock.now(), is_last))
        self._is_alone = is_last
        try:
            await self._attempt(activation, timer, crashes)
            await activation.settle()
        finally:
            if (timer.id, timer.name) in self._node.sideline:
                self._node.keep(asyncio.get_running_loop().create_task(self._try_beside(tried)))
            else:
                self._end_try(tried)

    async def _try_beside(self, tried: Tried) -> None:
        """Work that no turn waits for is a suspect for a while; one that lasts longer is cleared of all before."""
        node, timer, shard = self._node, tried.timer, shard_of(tried.timer.id)
        try:
            is_over = await node.sideline.over(timer.id, timer.name, within_ms=TRIED_MS)
            epoch = node.epochs.get(shard)
            if not is_over and epoch is not None and node.state == "up":
                note = start_note(timer, shard, epoch, 0, node.clock.now())
                node.committer.submit(note, partial(self._on_cleared, timer.id))
        finally:
            self._end_try(tried)

    def _on_cleared(self, id: ObjectId, failure: Failure | None) -> None:
        if failure is not None:
            self._node.note_failed(id, failure)

    def _end_try(self, tried: Tried) -> None:
        self.suspects.tried.remove(tried)
        self._is_alone = False
        self.go_on(TRIED_MAX if tried.is_last else 1)

    def go_on(self, count: int = 1) -> None:
        """Have so many more suspects tried, as far as there is room: after each, and after one that went without a try."""
        node = self._node
        while count and self.suspects and not self._is_alone and len(self.suspects.tried) < TRIED_MAX:
            timer = self.suspects.first
            if self.suspects.tried and self.crashes_of(timer) >= CRASHES_MAX - 1:
                return  # the others first, then it alone
            self.suspects.pop()
            # Else it was replaced, or will be read again.
            if self._is_out(timer) and node.dispatcher.hand_out(timer, has_waited=True):
                count -= self.crashes_of(timer) > timer.crashes  # else it only waited behind one

    async def _attempt(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        node = self._node
        handler = self.handler_of(timer.name)
        assert handler is not None  # the dispatcher leaves unknown names on disk
        token = CURRENT.set(None)
        try:
            is_noted = timer.started == activation.epoch  # by the dispatcher, or by one before it
            if not is_noted and node.start_notes.must_precede(crashes):
                await self._note(activation, timer, crashes)
                is_noted = True
            row = handler.reads(timer) if activation.is_awake and not node.store.local else None
            if row is not None and activation.rows.lacks(row):
                await self._fetch_with_following(activation, row)
            meter = node.meter
            began = meter.ticks()
            slot = activation.take_slot(nested=False)
            with ExitStack() as stack:
                stack.callback(node.slots.give_back, slot, activation.id)
                if slot is not None:
                    await slot
                    began = meter.add_wait(began)
                if not is_noted and not node.start_notes.begin(timer, activation.epoch, crashes):
                    await self._note(activation, timer, crashes)
                if activation.beside is not None:
                    activation.beside.on_begun(stack.close)  # an event needs no slot once it has begun
                fired_at = node.clock.now()
                error, turn = await self._fire_in_trace(activation, handler, timer, fired_at)
            meter.lateness.of(handler.prefix).add(fired_at - timer.due_at)
            activation.meter.timers.add((meter.ticks() - began) // 1_000)
        finally:
            CURRENT.reset(token)
            node.start_notes.end(timer)
        if turn is None and isinstance(error, ObjectTooNew) and timer.id in node.dispatcher.newer:
            self._leave(activation, timer, crashes)
        elif error is not None:
            activation.meter.failed_timers += 1
            await self._failed(activation, handler, timer, error, fired_at, turn)

    async def _note(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        """Write on disk that it begins."""
        note = start_note(timer, activation.shard, activation.epoch, crashes, self._node.clock.now())
        note.starts = (*note.starts, *self._note_following(activation))
        await activation.durable(activation.submit(note))

    def _leave(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        """Its object is newer than this program: it waits on disk for one that knows it, as if nobody had begun it."""
        self._node.start_notes.take_back(timer)
        note = start_note(timer, activation.shard, activation.epoch, crashes, self._node.clock.now(), is_running=False)
        activation.submit(note)
        self._node.dispatcher.leave(timer)

    def _note_following(self, activation: "Activation") -> list[Start]:
        """Start notes of timers that wait right behind in the same object, so that many due at once wait for one commit.

        A crash is laid at all their doors then, and each is tried alone before it can be blamed twice.
        """
        starts: list[Start] = []
        running = self._node.queue.running

        def note(waiting: Timer) -> Timer | None:
            is_out = running.get((waiting.id, waiting.name)) is waiting
            is_suspect = self.crashes_of(waiting) > waiting.crashes
            if waiting.started == activation.epoch or not is_out or is_suspect:
                return None
            starts.append(Start(waiting.name, waiting.seq, waiting.crashes))
            return self._node.queue.note(waiting, activation.epoch)

        activation.each_waiting(NOTED_MAX, note)
        return starts

    async def _fetch_with_following(self, activation: "Activation", own: Slot) -> None:
        """Bring the row that it will read, and those that the ones behind it will, in one round trip instead of many."""
        slots = [own]

        def ask(waiting: Timer) -> None:
            if (handler := self.handler_of(waiting.name)) and (slot := handler.reads(waiting)):
                slots.append(slot)

        activation.each_waiting(NOTED_MAX, ask)
        await activation.rows.fetch(slots)

    def _fire_in_trace(
        self, activation: "Activation", handler: TimerHandler, timer: Timer, fired_at: int
    ) -> Coroutine[Any, Any, tuple[BaseException | None, Turn | None]]:
        """Run it; where someone makes spans, as part of the trace that it carries."""
        tracer = self._node.tracer
        trace = None
        if timer.payload is not None:
            reads = None if tracer is None else getattr(handler, "trace_of", None)
            trace = trace_in(timer.payload) if reads is None else reads(timer)
        if TRACE.get() is not (seen := None if trace is None or trace.startswith(LINK) else trace):
            TRACE.set(seen)
        if tracer is None or trace == UNSAMPLED:
            return self._fire(activation, handler, timer, fired_at)
        return trace_run(self._node, tracer, timer, fired_at, trace, self._fire(activation, handler, timer, fired_at))

    async def _fire(
        self, activation: "Activation", handler: TimerHandler, timer: Timer, fired_at: int
    ) -> tuple[BaseException | None, Turn | None]:
        """Wake the object if need be and run the turn; what it raised, None when it went well, and the turn."""
        node = self._node
        if self._stopping and self._stopping.pop((timer.id, timer.name), None) is not None:
            activation.fire(timer)  # behind the call that is to stop it
            return None, None
        task, chain = asyncio.current_task(), (activation.id,)
        assert task is not None
        call = Call(timer.name, (), {}, deadline_at=fired_at + handler.deadline_ms, request_key=None, chain=chain)
        call.task = task
        self.deadlines.add(call)
        self._firing[timer.id] = (timer.name, call)
        turn: Turn | None = None
        try:
            if not activation.is_awake:
                await (resume if self._is_quiet(handler, timer) else wake)(activation, chain, call.deadline_at)
                if not self._is_out(timer) or not _is_current(activation, timer):
                    node.skip_timer(timer)
                    return None, None
            turn = Turn(activation, chain, call.deadline_at, consumed=timer, fired_at=fired_at)
            CURRENT.set(turn)
            ran = await handler.fire(activation, turn, timer)
            if call.cancels and call.is_expired:
                raise asyncio.CancelledError  # its code swallowed the cancellation
            if ran:
                entry = self._entry(timer, turn.occurrence, fired_at, "run", None, turn.run_id)
                turn.entries = sorted([*turn.entries, entry], key=attrgetter("nominal_at")) if turn.entries else [entry]
            if activation.history is not None:
                await activation.history.prepare(turn, timer.name)
            activation.finish(turn)
            if self._uncounted:
                self._uncounted.pop((*timer.id, timer.name), None)
            return None, turn
        except Stale:
            activation.undo(turn)
            log.error("%s %s was handed out twice; it runs once", timer.id, timer.name, extra={"code": "timer.stale"})
            node.skip_timer(timer)
            return None, None
        except asyncio.CancelledError:
            activation.undo(turn)
            call.absorb()
            if activation.is_failed:
                raise
            if call.is_expired:
                return too_long(call, handler.deadline_ms, turn.commits if turn is not None else 0), turn
            if task.cancelling():
                raise
            if call.is_interrupted:
                activation.fire(timer)
                return None, turn
            return cancellation(f"{timer.id}.{timer.name}", traceback.format_exc()), turn
        except (Fenced, KeyboardInterrupt, GeneratorExit):
            activation.undo(turn)
            raise
        except BaseException as error:
            activation.undo(turn)
            if call.is_interrupted and not call.is_expired and not activation.is_failed:
                activation.fire(timer)  # how its code says that it was asked to stop
                return None, turn
            if call.is_expired:
                return too_long(call, handler.deadline_ms, turn.commits if turn is not None else 0), turn
            return exit_failure(f"{timer.id}.{timer.name}", error) if isinstance(error, SystemExit) else error, turn
        finally:
            call.absorb()
            self.deadlines.remove(call)
            if self._firing.get(timer.id) == (timer.name, call):  # else a newer copy of the object runs already
                del self._firing[timer.id]

    async def _failed(
        self,
        activation: "Activation",
        handler: TimerHandler,
        timer: Timer,
        error: BaseException,
        fired_at: int,
        tried: Turn | None,
    ) -> None:
        """Write the failure and what comes of it: a later attempt, or parking."""
        if activation.is_failed:
            return  # the store went away under it; the timer is still on disk and nothing is counted
        node = self._node
        now = node.clock.now()
        turn = Turn(activation, (activation.id,), now, consumed=timer)
        occurrence = tried.occurrence if tried is not None else None
        text = storable("".join(traceback.format_exception_only(error)).strip()[:ERROR_CHARS_MAX])
        key = (*timer.id, timer.name)
        is_counted, verdict = not isinstance(error, Unavailable), None
        if is_counted:
            note = tried.note if tried is not None else None
            failure = Failed(timer, occurrence, note, error, now, node.dice.random())
            try:
                verdict = await handler.failed(activation, turn, failure)
            except Exception as second:  # as if it had not been tried: forgotten it must not be
                if _is_gone(activation):
                    return
                words = "%s %s failed, and so did deciding what comes of it"
                log.exception(words, timer.id, timer.name, extra={"code": "timer.undecided"})
                turn, is_counted = Turn(activation, (activation.id,), now, consumed=timer), False
                text = f"{text}; {words_of(second)}"[:ERROR_CHARS_MAX]
        if not is_counted:
            self._uncounted[key] += 1
            delay = platform_delay_ms(self._uncounted[key], node.dice.random())
            turn.set_timer(timer.later(due_at=now + delay, attempt=timer.attempt))
            text = f"not counted: {text}"
        else:
            self._uncounted.pop(key, None)
            occurrence = turn.occurrence or occurrence
            trace = storable("".join(traceback.format_exception(error))[-TRACEBACK_CHARS_MAX:])
            if isinstance(verdict, RunLater):
                turn.set_timer(verdict.timer)
            elif verdict is not None:
                text = f"{text}; {storable(verdict.also)}"[:ERROR_CHARS_MAX] if verdict.also else text
                self._park(turn, verdict.timer, occurrence, "failed", 1, text, trace)
            if verdict is None and occurrence is None:  # nothing was to run, so the failure is no occurrence's verdict
                words = "%s %s had nothing to run, and failed: %s"
                log.warning(words, timer.id, timer.name, text, extra={"code": "timer.nothing"})
                await activation.end(turn, timer.name)
                return
            if not turn.parks:  # else that is said
                said = (timer.id, timer.name, timer.attempt + 1, text if timer.attempt else trace)  # its place once
                log.warning("%s %s failed, attempt %d: %s", *said, extra={"code": "timer.failed"})
        turn.entries = [*turn.entries, self._entry(timer, occurrence, fired_at, "failed", text)]
        await activation.end(turn, timer.name)

    async def _park_crashed(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        handler = self.handler_of(timer.name)
        assert handler is not None  # the dispatcher leaves unknown names on disk
        now = self._node.clock.now()
        text = f"the process died {crashes} times while this ran"
        turn = Turn(activation, (activation.id,), now, consumed=timer)
        verdict = await handler.failed(activation, turn, Failed(timer, None, None, None, now, 0.0))
        if isinstance(verdict, RunLater):
            turn.set_timer(verdict.timer)
        elif verdict is not None:
            self._park(turn, verdict.timer, turn.occurrence, "crashed", crashes, text, "")
        if verdict is not None or turn.occurrence is not None:
            turn.entries = [*turn.entries, self._entry(timer, turn.occurrence, now, "failed", text)]
        await activation.end(turn, timer.name)

    def _park(
        self, turn: Turn, timer: Timer, occurrence: Occurrence | None, reason: str, more: int, error: str, trace: str
    ) -> None:
        """Set it aside after the attempts that it has counted and so many more."""
        log.warning("%s %s parked: %s", timer.id, timer.name, error, extra={"code": "timer.parked"})
        turn.parks = [
            Parked(
                timer=timer,
                run_id=run_id(timer) if occurrence is None else occurrence.run_id,
                parked_at=self._node.clock.now(),
                attempts=timer.attempt + more,
                reason=reason,
                error=error,
                traceback=trace,
            )
        ]

    def _entry(
        self,
        timer: Timer,
        occurrence: Occurrence | None,
        fired_at: int,
        verdict: Verdict,
        error: str | None,
        known_id: str | None = None,
    ) -> Entry:
        node = self._node
        if occurrence is None:
            occurrence = Occurrence(timer.name, known_id or run_id(timer), timer.nominal_at)
        return Entry(
            id=timer.id,
            name=occurrence.name,
            run_id=occurrence.run_id,
            nominal_at=occurrence.nominal_at,
            fired_at=fired_at,
            finished_at=node.clock.now(),
            attempt=timer.attempt,
            verdict=verdict,
            node=node.name,
            error=error,
            missed=occurrence.missed,
            is_backfill=occurrence.is_backfill,
            first_at=occurrence.first_at,
        )


def _is_current(activation: "Activation", timer: Timer) -> bool:
    """No turn before it, finished or on its way to disk, replaced or cleared the timer."""
    if timer.name not in activation.timers:
        return True
    current = activation.timers[timer.name]
    return current is not None and (current.seq, current.attempt) == (timer.seq, timer.attempt)


def _is_gone(activation: "Activation") -> bool:
    """Its copy has failed meanwhile; asked so, since type checkers take a property for what it was when it was last asked."""
    return activation.is_failed
