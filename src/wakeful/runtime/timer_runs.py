"""Layer 3. What happens when a timer is due: run it once, write the ledger, try again or park."""

import asyncio
import logging
import traceback
from collections import Counter, deque
from typing import TYPE_CHECKING, Protocol

from wakeful.logic.retry import CRASHES_MAX, platform_delay_ms
from wakeful.runtime.calls import Call
from wakeful.runtime.deadlines import Deadlines
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.commits import Commit, Start
from wakeful.values.errors import DeadlineExceeded, Fenced, TurnFailed, Unavailable
from wakeful.values.ids import shard_of
from wakeful.values.runs import Entry, Verdict, run_id
from wakeful.values.timers import Parked, Timer

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation
    from wakeful.runtime.node import Node

log = logging.getLogger("wakeful.timers")

ERROR_CHARS_MAX = 2_000
TRACEBACK_CHARS_MAX = 20_000


class TimerOwner(Protocol):
    """A feature's stake in the timers whose names begin with its prefix."""

    prefix: str
    deadline_ms: int

    async def fire(self, activation: "Activation", turn: Turn, timer: Timer) -> None:
        """Do what the timer is for, inside its turn; a raise is a failed attempt."""
        ...

    def retry_delay_ms(self, timer: Timer, roll: float) -> int | None:
        """How long after this failure it is tried again; None parks it."""
        ...


class TimerRuns:
    """Runs due timers as turns of their objects, through the owner of their name."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._owners: dict[str, TimerOwner] = {}
        self._deadlines = Deadlines(node.clock)
        self._uncounted: Counter[tuple[str, str, str]] = Counter()  # failures of ours in a row, for the backoff
        # A timer that was running when a process died may have killed it: such ones run one at a
        # time, so that three deaths are laid at one door and not at that of everyone beside it.
        self._is_trying = False
        self._suspects: deque[Timer] = deque()

    def register(self, owner: TimerOwner) -> None:
        self._owners[owner.prefix] = owner

    def stop(self) -> None:
        self._deadlines.stop()

    def owner_of(self, name: str) -> TimerOwner | None:
        return self._owners.get(name) or self._owners.get(name.partition(":")[0])

    def crashes_of(self, timer: Timer) -> int:
        """How many processes died while it ran: begun and not finished by an owner that is gone.

        An outage of the store that this process survived is no crash.
        """
        died = timer.started != 0 and not self._node.has_held(shard_of(timer.id), timer.started)
        return timer.crashes + died

    async def run(self, activation: "Activation", timer: Timer) -> None:
        """One attempt of a due timer, to its commit on its way."""
        if not _is_current(activation, timer):
            self._node.skip_timer(timer)
            return
        # Nearly always the dispatcher has just written the note, and then nobody died of it.
        crashes = timer.crashes if timer.started == activation.epoch else self.crashes_of(timer)
        if crashes >= CRASHES_MAX:
            self._park_crashed(activation, timer, crashes)
        elif crashes > timer.crashes:
            await self._try_suspect(activation, timer, crashes)
        else:
            await self._attempt(activation, timer, crashes)

    async def _try_suspect(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        """Run it when no other suspect runs; until then its object is free, for the one that runs may call it."""
        if self._is_trying:
            self._suspects.append(timer)
            return
        self._is_trying = True
        try:
            await self._attempt(activation, timer, crashes)
            await activation.settled()
        finally:
            self._is_trying = False
            self._call_next_suspect()

    def _call_next_suspect(self) -> None:
        node = self._node
        while self._suspects:
            timer = self._suspects.popleft()
            if node.queue.running.get((timer.id, timer.name)) is timer:  # else it was replaced or will be read again
                node.dispatcher.hand_out(timer)
                return

    async def _attempt(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        node = self._node
        owner = self.owner_of(timer.name)
        assert owner is not None  # the dispatcher leaves unknown names on disk
        token = CURRENT.set(None)
        try:
            if timer.started != activation.epoch:  # else the dispatcher wrote the note
                note = start_note(timer, activation.shard, activation.epoch, crashes, node.clock.now())
                await activation.durable(activation.submit(note))
            slot = activation.take_slot(nested=False)
            try:
                if slot is not None:
                    await slot
                fired_at = node.clock.now()
                error = await self._fire(activation, owner, timer, fired_at)
            finally:
                node.slots.give_back(slot)
        finally:
            CURRENT.reset(token)
        if error is not None:
            self._failed(activation, owner, timer, error, fired_at)

    async def _fire(
        self, activation: "Activation", owner: TimerOwner, timer: Timer, fired_at: int
    ) -> BaseException | None:
        """Wake the object if need be and run the turn; what it raised, None when it went well."""
        node = self._node
        task = asyncio.current_task()
        assert task is not None
        chain = (activation.id,)
        call = Call(timer.name, (), {}, deadline_at=fired_at + owner.deadline_ms, request_key=None, chain=chain)
        call.task = task
        self._deadlines.add(call)
        turn: Turn | None = None
        try:
            if not activation.is_awake:
                await activation.wake(chain, call.deadline_at)
                if not _is_current(activation, timer):
                    node.skip_timer(timer)
                    return None
            turn = Turn(activation, chain, call.deadline_at, consumed=timer, fired_at=fired_at)
            CURRENT.set(turn)
            await owner.fire(activation, turn, timer)
            if call.cancels:
                raise asyncio.CancelledError  # its code swallowed the cancellation
            turn.entries = [self._entry(timer, fired_at, "run", None)]
            activation.finish(turn)
            if self._uncounted:
                self._uncounted.pop((*timer.id, timer.name), None)
            return None
        except asyncio.CancelledError:
            activation.undo(turn)
            call.absorb()
            if activation.is_failed:
                raise
            if call.is_expired:
                return _too_long(timer, owner)
            if task.cancelling():
                raise
            return TurnFailed(
                f"{timer.id}.{timer.name} was cancelled by its own code",
                remote_type="asyncio.CancelledError",
                remote_traceback=traceback.format_exc(),
                code="turn.cancelled",
            )
        except (Fenced, KeyboardInterrupt, SystemExit, GeneratorExit):
            activation.undo(turn)
            raise
        except BaseException as error:
            activation.undo(turn)
            return _too_long(timer, owner) if call.is_expired else error
        finally:
            call.absorb()
            self._deadlines.remove(call)

    def _failed(
        self, activation: "Activation", owner: TimerOwner, timer: Timer, error: BaseException, fired_at: int
    ) -> None:
        """Write the failure and what comes of it: a later attempt, or parking."""
        if activation.is_failed:
            return  # the store went away under it; the timer is still on disk and nothing is counted
        node = self._node
        now = node.clock.now()
        turn = Turn(activation, (activation.id,), now, consumed=timer)
        text = _storable("".join(traceback.format_exception_only(error)).strip()[:ERROR_CHARS_MAX])
        key = (*timer.id, timer.name)
        if isinstance(error, Unavailable):
            self._uncounted[key] += 1
            delay = platform_delay_ms(self._uncounted[key], node.dice.random())
            turn.set_timer(timer.moved(due_at=now + delay, attempt=timer.attempt))
            text = f"not counted: {text}"
        else:
            self._uncounted.pop(key, None)
            retry = owner.retry_delay_ms(timer, node.dice.random())
            if retry is not None:
                turn.set_timer(timer.moved(due_at=now + retry, attempt=timer.attempt + 1))
            else:
                trace = _storable("".join(traceback.format_exception(error))[-TRACEBACK_CHARS_MAX:])
                self._park(turn, timer, "failed", text, trace)
        turn.entries = [self._entry(timer, fired_at, "failed", text)]
        activation.finish(turn)

    def _park_crashed(self, activation: "Activation", timer: Timer, crashes: int) -> None:
        now = self._node.clock.now()
        text = f"the process died {crashes} times while this ran"
        turn = Turn(activation, (activation.id,), now, consumed=timer)
        self._park(turn, timer, "crashed", text, "")
        turn.entries = [self._entry(timer, now, "failed", text)]
        activation.finish(turn)

    def _park(self, turn: Turn, timer: Timer, reason: str, error: str, trace: str) -> None:
        log.warning("%s %s parked: %s", timer.id, timer.name, error, extra={"code": "timer.parked"})
        attempts = timer.attempt + 1 if reason == "failed" else timer.attempt
        turn.parks = [
            Parked(
                timer=timer,
                run_id=run_id(timer),
                parked_at=self._node.clock.now(),
                attempts=attempts,
                reason=reason,
                error=error,
                traceback=trace,
            )
        ]

    def _entry(self, timer: Timer, fired_at: int, verdict: Verdict, error: str | None) -> Entry:
        node = self._node
        return Entry(
            id=timer.id,
            name=timer.name,
            run_id=run_id(timer),
            nominal_at=timer.nominal_at,
            fired_at=fired_at,
            finished_at=node.clock.now(),
            attempt=timer.attempt,
            verdict=verdict,
            node=node.name,
            error=error,
        )


def _too_long(timer: Timer, owner: TimerOwner) -> DeadlineExceeded:
    return DeadlineExceeded(f"{timer.id}.{timer.name} ran longer than {owner.deadline_ms} ms; what it wrote was undone")


def _storable(text: str) -> str:
    """Text that every store can hold: a handler may raise with anything, and its failure must still be written."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _is_current(activation: "Activation", timer: Timer) -> bool:
    """No turn before it, finished or on its way to disk, replaced or cleared the timer."""
    if timer.name not in activation.timers:
        return True
    current = activation.timers[timer.name]
    return current is not None and (current.seq, current.attempt) == (timer.seq, timer.attempt)


def start_note(timer: Timer, shard: int, epoch: int, crashes: int, now: int) -> Commit:
    """The note on disk that the timer is about to run, so that a crash can be laid at its door."""
    return Commit(id=timer.id, shard=shard, epoch=epoch, now=now, starts=[Start(timer.name, timer.seq, crashes)])
