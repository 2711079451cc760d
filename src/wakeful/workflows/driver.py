"""Layer 4. A body in memory: who runs its steps, and brings to disk what came of them?

It runs on the sideline of the node, for the timer of the body, which stays begun until the body rests or ends. All that
it has to write goes in one turn of the object at a time (see `settlement`); what that gave comes back here once it is on
disk, in the order of the numbers, and is handed to the body.
"""

import asyncio
import copy
import inspect
import logging
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from wakeful.policy.retry import Retry, platform_delay_ms
from wakeful.runtime import tracer
from wakeful.runtime.calls import within
from wakeful.runtime.turn import CURRENT
from wakeful.values.codec import decode, encode
from wakeful.values.errors import DeadlineExceeded, LimitExceeded, NoRetry, Unavailable
from wakeful.values.timers import words_of
from wakeful.values.times import Handle
from wakeful.workflows.body import Op, WorkflowBody
from wakeful.workflows.node_workflows import NodeWorkflows
from wakeful.workflows.records import (
    ACTIVE,
    PAUSED,
    TRACE_CHARS_MAX,
    StepRow,
    WorkflowRecord,
    pack_error,
)
from wakeful.workflows.step import ATTEMPT, RUN_ID, Step

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime
    from wakeful.workflows.bindings import BoundWorkflow
    from wakeful.workflows.rehearsal import Rehearsals

COMMIT, RELOAD, PARK = "workflow.commit", "workflow.reload", "workflow.park"
BREATH = 100  # results that are handed to a body before others go on
log = logging.getLogger("wakeful.workflow")


@dataclass(frozen=True, slots=True)
class StepEnd:
    """What came of one attempt, or of the last one."""

    state: str  # done, error, tried
    attempts: int
    ended_at: int
    value: bytes | None = None
    error: list[Any] | None = None
    due_at: int | None = None


@dataclass(slots=True)
class DriverNews:
    """What one commit brought to disk, and what follows from it."""

    record: WorkflowRecord
    ends: list[int] = field(default_factory=list)  # ordinals of functions that ended or are to be tried again
    asked: list[Op] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    ended: list[StepRow] = field(default_factory=list)  # in the order of their numbers
    tried: list[StepRow] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)  # functions whose next attempt is due
    is_resting: bool = False
    is_over: bool = False


class Driver:
    """Runs one body, for as long as it is in memory."""

    def __init__(
        self,
        feature: NodeWorkflows,
        activation: "ObjectRuntime",
        bound: "BoundWorkflow",
        record: WorkflowRecord,
        rows: list[StepRow],
        given: tuple[list[Any], dict[str, Any]],
    ) -> None:
        self.id = activation.id
        self.run_number = record.run
        self.epoch = activation.epoch
        self.seq = 0  # of the timer for which it runs
        self.record = record
        self.body: WorkflowBody | None = None
        self.runners: dict[int, asyncio.Task[None]] = {}
        self.ends: dict[int, StepEnd] = {}  # of functions, not on disk yet
        self.asked: dict[Op, None] = {}  # waits and the like that are not on disk yet
        self.withdrawn: list[int] = []  # that the body has left, and are on disk
        self.is_running = False
        self.is_dropped = False
        self.linger_until = 0
        self.top = _top(record, rows)  # the newest number that was given out
        self._feature = feature
        self._node = feature.node
        self.activation = activation  # of the turn that began it last: what it begins with is on disk with that
        self._instance = activation.instance
        self._bound = bound
        self._rows = rows
        self._given = given
        self._inbox: deque[StepRow | int] = deque()  # results, and the number of a cancellation
        self._ready: set[int] = set()  # functions whose next attempt is due
        self._news = asyncio.Event()
        self._is_resting = False
        self._tries = 0
        self._rehearsed = (0, 0)

    def fits(self, record: WorkflowRecord, epoch: int) -> bool:
        """It is the body of that very run."""
        return not self.is_dropped and (self.run_number, self.epoch) == (record.run, epoch)

    async def run(self) -> None:
        """Until the body rests or ends."""
        self.is_running, self._is_resting = True, False
        self._feature.go_on(self)
        CURRENT.set(None)
        try:
            await self.activation.settle()
            while not (self.is_dropped or self._is_resting):
                try:
                    await self._pass()
                    self._tries = 0
                except (Unavailable, DeadlineExceeded):
                    await self._recover()
        except (Unavailable, DeadlineExceeded):
            self.drop()  # the timer is on disk, begun or not, and whoever has it goes on
        except Exception as error:
            log.exception("%s can't go on", self.id, extra={"code": "workflow.driver"})
            await self._give_up(error)
        finally:
            self.is_running = False
            if not self._is_resting:
                self.drop()
        if not self.is_dropped:
            self._feature.linger(self)

    def drop(self) -> None:
        """Nothing more is done here; what is on disk stays."""
        if self.is_dropped:
            return
        self.is_dropped = True
        if self._feature.drivers.get(self.id) is self:
            del self._feature.drivers[self.id]
        self._feature.go_on(self)
        for task in self.runners.values():
            task.cancel()
        self._news.set()
        if self.body is not None:
            self.body.end()

    # what turns tell, once they are on disk

    def hear(
        self, record: WorkflowRecord, rows: list[StepRow], *, ready: tuple[int, ...] = (), cancelled: int = 0
    ) -> None:
        """Something has ended, its next attempt is due, or the workflow stands otherwise."""
        self.record = record
        self.top = max([self.top, record.last, *(row.number for row in rows)])
        self._inbox.extend(rows)
        if cancelled:
            self._inbox.append(cancelled)
        self._ready.update(ready)
        self._news.set()

    def on_settled(self, done: "DriverNews") -> None:
        """What was taken from here for a commit is on disk."""
        body = self.body
        for ordinal in done.ends:
            self.ends.pop(ordinal, None)
        for op in done.asked:
            self.asked.pop(op, None)
        withdrawn = set(done.withdrawn)
        self.withdrawn = [ordinal for ordinal in self.withdrawn if ordinal not in withdrawn]
        if body is not None:
            for op in done.asked:
                op.is_new = False
            for row in done.tried:
                body.ops[row.ordinal].row, body.ops[row.ordinal].is_new = row, False
            body.new_patches = [name for name in body.new_patches if name not in done.record.patches]
        self.hear(done.record, done.ended, ready=tuple(done.ready))
        self._is_resting = self._is_resting or done.is_resting
        if done.is_over:
            self.drop()

    def adopt(self, record: WorkflowRecord, rows: list[StepRow]) -> None:
        """This is what is on disk: begin the body from there."""
        if self.body is not None:
            self.body.end()
        self.body, self.record, self._rows, self.top = None, record, rows, _top(record, rows)
        self.asked, self.withdrawn = {}, []
        self._inbox.clear()
        self._ready.clear()

    # one pass

    async def _pass(self) -> None:
        if self.body is None:
            await self._begin_body()
        await self._hand_over()
        body = self.body
        if self.is_dropped or body is None:
            return
        if self.record.state == PAUSED:
            if not self.runners and not self.ends:
                self.drop()
                return
        else:
            self._take_asked(body)
            if self._feature.rehearsals is not None:
                self._rehearse(body, self._feature.rehearsals)
        if self._has_work(body):
            await self._node.send_beside(self.id, COMMIT, ())
            return
        handle = self._wake_at(self.next_due())
        try:
            await self._news.wait()
        finally:
            if handle is not None:
                handle.cancel()
        self._news.clear()

    async def _begin_body(self) -> None:
        """From the top to where it was, by all that is on disk."""
        body = self.body = WorkflowBody(self.id, self.record, self._rows, self._main, self._node.limits.workflow_steps)
        self._rows = []
        body.begin()
        count = 0
        while body.problem is None and not self.is_dropped and self.body is body:
            number, cancelled = body.next_recorded(), self.record.cancelled
            if cancelled and not body.is_cancelled and (number is None or number > cancelled):
                body.cancel(cancelled)
            elif number is None:
                break
            else:
                body.go_on()
            count += 1
            if count % BREATH == 0:
                await self._node.clock.sleep(0)
        if self.body is not body:
            return
        body.check_whole()
        ended = {ordinal for ordinal, op in body.ops.items() if op.row.number}
        for ordinal in [one for one in self.runners if one in ended or one not in body.ops]:
            self.runners.pop(ordinal).cancel()
        self.ends = {ordinal: end for ordinal, end in self.ends.items() if ordinal in body.ops and ordinal not in ended}

    def _main(self, body: WorkflowBody) -> Coroutine[Any, Any, Any]:
        args, kwargs = self._given
        step = Step(body, self._node, self._bound)
        main: Coroutine[Any, Any, Any] = self._instance.run(step, *args, **kwargs)
        return main

    def _rehearse(self, body: WorkflowBody, rehearsals: "Rehearsals") -> None:
        """Have it run once more, on a copy of its object and of what it was started with."""
        if (place := (len(body.ops), body.last)) == self._rehearsed:
            return
        self._rehearsed = place
        instance = copy.copy(self._instance)
        args, kwargs = decode(encode(list(self._given)))

        def main(second: WorkflowBody) -> Any:
            return instance.run(Step(second, self._node, self._bound), *args, **kwargs)

        rehearsals.check(body, self.record, main, self._node.limits.workflow_steps)

    async def _hand_over(self) -> None:
        """Give the body what has come, one thing after the other."""
        body, count = self.body, 0
        while self._inbox and body is not None and body.problem is None and self.record.state == ACTIVE:
            item = self._inbox.popleft()
            number = item if isinstance(item, int) else item.number
            if number <= body.last:
                continue
            if isinstance(item, int):
                body.cancel(item)
            else:
                body.give(item)
            count += 1
            if count % BREATH == 0:
                await self._node.clock.sleep(0)
                body = self.body

    def _take_asked(self, body: WorkflowBody) -> None:
        """Begin the functions that it asks for, and note the rest for the next commit."""
        for op in body.left:
            self._leave(op)
        body.left.clear()
        if not (body.fresh or self._ready):
            return
        now = self._node.clock.now()
        waiting = {wait.ordinal for wait in self.record.waits}
        for op in body.take_fresh():
            if op.is_new:
                op.row.asked_at = now
            if op.row.number:
                continue
            if not op.is_function:
                if op.is_new:
                    self.asked[op] = None
            elif op.row.ordinal not in waiting:
                self._begin_step(op)
        for ordinal in sorted(self._ready):
            self._begin_step(body.ops[ordinal])
        self._ready.clear()

    def _leave(self, op: Op) -> None:
        ordinal = op.row.ordinal
        runner = self.runners.pop(ordinal, None)
        if runner is not None:
            runner.cancel()
        self.ends.pop(ordinal, None)
        self._ready.discard(ordinal)
        if op in self.asked:
            del self.asked[op]
        elif not op.is_new:
            self.withdrawn.append(ordinal)

    def _begin_step(self, op: Op) -> None:
        ordinal = op.row.ordinal
        if op.future.done() or ordinal in self.runners or ordinal in self.ends:
            return
        task = self.runners[ordinal] = asyncio.get_running_loop().create_task(self._run_step(op))
        self._node.keep(task)

    def _has_work(self, body: WorkflowBody) -> bool:
        """There is something to write."""
        if self.ends or self.asked or self.withdrawn:
            return True
        if self.record.state != ACTIVE or self._inbox:
            return False
        is_due = (due := self.next_due()) is not None and due <= self._node.clock.now()
        return bool(body.new_patches) or body.problem is not None or body.is_done or is_due or not self.runners

    def next_due(self) -> int | None:
        """When the first of its waits ends by itself."""
        return min((wait.due_at for wait in self.record.waits if wait.due_at is not None), default=None)

    def _wake_at(self, due_at: int | None) -> Handle | None:
        return None if due_at is None else self._node.clock.call_at(due_at, self._news.set)

    async def _recover(self) -> None:
        """What became of the last commit is unknown, or it can't be had now: go on from what is on disk."""
        self._tries += 1
        node = self._node
        await node.clock.sleep(platform_delay_ms(self._tries, node.dice.random()))
        while not self.is_dropped:
            try:
                await node.send_beside(self.id, RELOAD, ())
                return
            except (Unavailable, DeadlineExceeded):
                self._tries += 1
                await node.clock.sleep(platform_delay_ms(self._tries, node.dice.random()))

    async def _give_up(self, error: Exception) -> None:
        """It is parked, for a person to look at."""
        while not (self.is_dropped or self._node.is_dead):
            try:
                await self._node.send_beside(self.id, PARK, (self.run_number, words_of(error)))
                return
            except (Unavailable, DeadlineExceeded):
                self._tries += 1
                await self._node.clock.sleep(platform_delay_ms(self._tries, self._node.dice.random()))

    # functions

    async def _run_step(self, op: Op) -> None:
        """Attempt it, until it has an end, or its next attempt is far off."""
        row, node = op.row, self._node
        RUN_ID.set(run_id_of(self, row))
        tries = 0
        has_returned = False
        while True:
            try:
                value = await self._attempt(op)
                has_returned = True
                end = StepEnd("done", row.attempts + 1, node.clock.now(), self._kept(value))
                break
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                end = self._failure(op, error)
                break
            except Unavailable as error:
                if error.is_raised or error.is_foreign:
                    end = self._failure(op, error)
                    break
                tries += 1  # ours, and so not counted against it
                await node.clock.sleep(platform_delay_ms(tries, node.dice.random()))
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # whatever a function raises: nobody else would ever say how it ended
                end = self._failure(op, error, is_final=has_returned)
                break
        self.runners.pop(row.ordinal, None)
        self.ends[row.ordinal] = end
        self._news.set()

    def _kept(self, value: Any) -> bytes:
        """A result as its row has it."""
        data, most = encode(value), self._node.limits.arguments_bytes
        if len(data) > most:
            raise LimitExceeded(
                f"the result has {len(data)} bytes, {len(data) - most} more than the limit of {most}; keep large data "
                "in storage, or in a file elsewhere, and return its name",
                code="limit.workflow_result",
            )
        return data

    async def _attempt(self, op: Op) -> Any:
        assert op.function is not None
        ATTEMPT.set(op.row.attempts + 1)
        way = self._call(op.function, op)
        if self._node.tracer is not None:
            way = tracer.step(self._node, self.id, op.row.label, RUN_ID.get() or "", op.row.attempts, way)
        if op.timeout_ms is None:
            return await way
        clock, what = self._node.clock, op.row.label
        late = DeadlineExceeded(f"step {what!r} took longer than its timeout", code="workflow.timeout")
        with within(clock, clock.now() + op.timeout_ms, lambda: late):
            return await way

    async def _call(self, function: Callable[..., Any], op: Op) -> Any:
        answer = function(*op.args, **op.kwargs)
        return await answer if inspect.isawaitable(answer) else answer

    def _failure(self, op: Op, error: BaseException, *, is_final: bool = False) -> StepEnd:
        """It failed: for good, or until its next attempt. What did its work and returned what can't be kept is done once."""
        node, row = self._node, op.row
        attempts, now = row.attempts + 1, node.clock.now()
        trace = "".join(traceback.format_exception(error))[-TRACE_CHARS_MAX:]
        kept = pack_error(error, trace)
        delay = (
            None
            if is_final or isinstance(error, NoRetry)
            else (op.retry or Retry()).delay_ms(attempts, error, node.dice.random())
        )
        said = (self.id, row.kind, row.label, attempts, f"{kept[0]}: {kept[1]}")
        if delay is None:
            log.warning("%s: %s %r failed for good, attempt %d: %s", *said, extra={"code": "workflow.step"})
            return StepEnd("error", attempts, now, error=kept)
        log.info("%s: %s %r failed, attempt %d: %s", *said, extra={"code": "workflow.attempt"})
        return StepEnd("tried", attempts, now, error=kept, due_at=now + delay)


def _top(record: WorkflowRecord, rows: list[StepRow]) -> int:
    return max([record.last, record.cancelled, *(row.number for row in rows)])


def run_id_of(driver: Driver, row: StepRow) -> str:
    """Stable over attempts, crashes and moves; different for every other step and run."""
    text = f"{driver.id.cls}\0{driver.id.key}\0{driver.run_number}\0{row.kind}\0{row.ordinal}"
    return blake2b(text.encode(), digest_size=12).hexdigest()


def follow(driver: Driver | None, record: WorkflowRecord, rows: list[StepRow], **more: Any) -> Callable[[], None]:
    """For a turn: have the body hear of it once that is on disk, if it is in memory by then."""
    return partial(driver.hear, record, rows, **more) if driver is not None else _nothing


def _nothing() -> None:
    return None
