"""Layer 4. The body of a workflow, run from the top: where is it, and what does it ask for?

What has ended before is handed to it in the order in which it ended, one after the other, each time until it rests. So
it comes to where it was, by the same way. What it asks for on that way must be what its record has; if it is not, the
code has changed under it, and it stops.
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from wakeful.policy.retry import Retry
from wakeful.runtime.turn import CURRENT
from wakeful.values.codec import decode
from wakeful.values.errors import (
    BadHandler,
    BadOption,
    Conflict,
    DeadlineExceeded,
    LimitExceeded,
    TurnOver,
    WakefulError,
)
from wakeful.values.ids import ObjectId, why_no_name
from wakeful.workflows.loop import BodyLoop, begin_task
from wakeful.workflows.records import StepRow, WorkflowRecord, label_of, unpack_error

CHANGED = "workflow.changed"
ORDINAL = "wakeful_ordinal"  # of an error: the step that failed with it
NAME_CHARS_MAX = 256
REFUSALS_MAX = 100  # `finally` blocks ask for a few steps; what asks for more swallows what ends it
FUNCTIONS = frozenset({"step", "undo"})  # kinds that are code of the program's own, run beside turns


@dataclass(slots=True, eq=False)
class Op:
    """A step that the body has asked for."""

    row: StepRow
    future: "asyncio.Future[Any]"
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    retry: Retry | None = None
    timeout_ms: int | None = None
    undo: Callable[..., Any] | None = None
    payload: Any = None  # what is to be sent, of those that send something
    is_new: bool = True  # nothing of it is on disk
    is_left: bool = False  # the body does not wait for it any more

    @property
    def is_function(self) -> bool:
        return self.row.kind in FUNCTIONS


@dataclass(frozen=True, slots=True)
class ContinueAsNew:
    """Returned by `run`: the workflow goes on as if it had been started with these arguments, with an empty record.

    Events that nobody has waited for stay, and so does who waits for its end.

    >>> from wakeful import App, ContinueAsNew, Step, Workflow
    >>> app = App()
    >>> @app.object
    ... class Countdown(Workflow):
    ...     async def run(self, step: Step, n: int) -> str | ContinueAsNew:
    ...         await step.sleep("a day", "1d")
    ...         return ContinueAsNew(n - 1) if n > 1 else "lift off"
    >>> async with app.world() as world:
    ...     await world.get(Countdown, "a").start(3)
    ...     await world.advance(days=3)
    ...     print(await world.get(Countdown, "a").result())
    lift off
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "kwargs", kwargs)


class WorkflowBody:
    """One run of the body, from the top to where it waits or ends."""

    def __init__(
        self,
        id: ObjectId,
        record: WorkflowRecord,
        rows: list[StepRow],
        main: Callable[["WorkflowBody"], Any],
        steps_max: int,
    ) -> None:
        self.id = id
        self.record = record
        self.ops: dict[int, Op] = {}
        self.fresh: list[Op] = []  # asked for since somebody looked
        self.left: list[Op] = []  # those that it does not wait for any more
        self.new_patches: list[str] = []
        self.now_ms = record.started_at
        self.last = 0  # the number that was handed to it last
        self.problem: WakefulError | None = None
        self.undos: list[Op] = []
        self.children: list[tuple[str, str]] = []
        self.is_cancelled = False
        self.is_over = False  # nothing it asks for is done any more
        self._rows = {row.ordinal: row for row in rows}
        self._places = {_key(row.kind, row.name, row.count): row.ordinal for row in rows}
        self._newest = max(self._rows, default=-1)
        self._todo = sorted((row for row in rows if row.number), key=lambda row: row.number)
        self._given = 0  # how many of these have been handed to it
        self._counts: Counter[str] = Counter()
        self._steps_max = steps_max
        self._patches: dict[str, bool] = {}
        self._values = 0
        self._refusals = 0  # of what it asked for when it was to end
        self._loop = BodyLoop()
        self._context = contextvars.copy_context()
        self._context.run(CURRENT.set, None)
        self._main = main
        self._task: asyncio.Task[Any] | None = None
        self._undoing: asyncio.Task[Any] | None = None
        self._is_cut = False  # it was under way when it was cancelled

    # what drives it

    def begin(self) -> None:
        """From the top, until it waits."""
        self._task = begin_task(self._loop, self._main(self), self._context)
        self._settle()

    def next_recorded(self) -> int | None:
        """The number of what is to be handed to it next, of what its record had when it began; None: that was all."""
        return self._todo[self._given].number if self._given < len(self._todo) else None

    def go_on(self) -> None:
        """Hand it the next of these."""
        row = self._todo[self._given]
        if row.ordinal not in self.ops:
            self.stop(
                f"its record has {_words(row.kind, row.name, row.count)} as step {row.ordinal + 1}, which the body does not "
                "ask for any more, or not so early"
            )
            return
        self._given += 1
        self.give(row)

    def give(self, row: StepRow) -> None:
        """Hand it a result, and let it go on until it waits again."""
        op = self.ops[row.ordinal]
        op.row, op.is_new = row, False
        self.last, self.now_ms = row.number, row.ended_at
        if op.undo is not None and row.state == "done":
            self.undos.append(op)
        if row.kind == "start" and row.detail is not None:
            self.children.append((row.detail[0], row.detail[1]))
        if op.future.cancelled():
            self.left.append(op)  # what it took may be for another
        elif row.state == "left":
            self._stop_at_left(row)
        else:
            _resolve(op)
        self._settle()

    def cancel(self, number: int) -> None:
        """It was cancelled: `finally` blocks run, and then what undoes its steps, last first."""
        self.is_cancelled, self.last = True, number
        if self._task is not None and not self._task.done():
            self._is_cut = True
            self._task.cancel()
        self._settle()

    def check_whole(self) -> None:
        """It has been handed everything: `problem` says what its record has and it did not ask for."""
        if self.problem is not None:
            return
        for row in self._rows.values():
            if row.ordinal not in self.ops:
                what = f"{_words(row.kind, row.name, row.count)} as step {row.ordinal + 1}"
                self.stop(f"its record has {what}, which the body does not ask for any more")
                return
            if row.state == "left" and not self.ops[row.ordinal].future.done():
                self._stop_at_left(row)
                return

    def _stop_at_left(self, row: StepRow) -> None:
        what = _words(row.kind, row.name, row.count)
        self.stop(f"the body had stopped waiting for {what} (step {row.ordinal + 1}), and now waits for it")

    def take_fresh(self) -> list[Op]:
        """What it has asked for since the last look, and still waits for."""
        fresh, self.fresh = self.fresh, []
        return [op for op in fresh if not op.is_left]

    def end(self) -> None:
        """Put it aside: its `finally` blocks run, and nothing that they ask for is done."""
        self.is_over = True
        self._loop.end()

    @property
    def is_done(self) -> bool:
        """It has come to its end, and so has what undoes its steps if that is wanted."""
        if self.problem is not None or self._task is None or not self._task.done():
            return False
        return not self.is_cancelled or (self._undoing is not None and self._undoing.done())

    def outcome(self) -> tuple[str, Any]:
        """How it ended: done, failed, cancelled or again, with what it returned or raised."""
        assert self._task is not None
        if self.is_cancelled:
            assert self._undoing is not None
            error = _error_of(self._undoing)
            if error is not None:
                return "failed", error
            error = _error_of(self._task) if self._is_cut else None
            return "cancelled", None if isinstance(error, asyncio.CancelledError) else error
        error = _error_of(self._task)
        if error is not None:
            return "failed", error
        value = self._task.result()
        return ("again", value) if isinstance(value, ContinueAsNew) else ("done", value)

    def stop(self, why: str) -> None:
        """The code is not the one that made the record."""
        if self.problem is None:
            self.problem = Conflict(
                f"{self.id}: {why}; bring back the code that it was begun with, or ask step.patched('name') where the new "
                "code differs, and resume it; or restart it",
                code=CHANGED,
            )

    def _settle(self) -> None:
        if self.problem is not None:
            return
        try:
            self._loop.settle()
            task = self._task
            if self.is_cancelled and self._undoing is None and task is not None and task.done():
                self._undoing = begin_task(self._loop, self._undo(), self._context)
                self._loop.settle()
        except BadHandler as error:
            self.problem = error

    async def _undo(self) -> None:
        for op in reversed(self.undos):
            assert op.undo is not None
            value = None if op.row.value is None else decode(op.row.value)
            await self.ask("undo", op.row.name, function=op.undo, args=(value,), retry=op.retry)

    # what it asks

    async def ask(self, kind: str, name: str, **options: Any) -> Any:
        """Ask for a step, and wait for it."""
        op = self.put(kind, name, **options)
        try:
            return await op.future
        except asyncio.CancelledError:
            self.leave(op)
            raise

    def put(self, kind: str, name: str, **options: Any) -> Op:
        """Ask for a step."""
        if self.is_over or self.problem is not None:  # it is put aside
            self._refusals += 1
            if self._refusals <= REFUSALS_MAX:
                raise asyncio.CancelledError
            # It takes that for no answer, and asks in a circle: it may wait, and the program goes on.
            return Op(StepRow(-1, kind, name, 0, 0, "left"), self._loop.create_future())
        if asyncio._get_running_loop() is not self._loop:
            raise TurnOver(f"{self.id}: a step is asked for by the body itself, not within a step", code=_BODY)
        check_name(kind, name)
        ordinal, key = len(self.ops), _key(kind, name, 0)[0]
        if ordinal >= self._steps_max:
            raise LimitExceeded(
                f"{self.id} has asked for {ordinal} steps, the limit (workflow_steps); return ContinueAsNew(…) before that",
                code="limit.workflow_steps",
            )
        self._counts[key] += 1
        count = self._counts[key]
        row = self._known(ordinal, kind, name, count)
        if self.problem is not None:
            raise asyncio.CancelledError
        is_new = row is None
        row = row or StepRow(ordinal, kind, name, count, self.last, "waiting")
        op = self.ops[ordinal] = Op(row, self._loop.create_future(), is_new=is_new, **options)
        self.fresh.append(op)
        return op

    def leave(self, op: Op) -> None:
        """It waits for that no more."""
        if op.future.cancelled() and not op.is_left:
            op.is_left = True
            self.left.append(op)

    def patched(self, name: str) -> bool:
        """Whether the new code is to be run: always, but where a body is that was past it before there was the new code."""
        known = self._patches.get(name) if isinstance(name, str) else None
        if known is None:
            check_name("patch", name)
            is_in_front = self._given == len(self._todo) and self._newest < len(self.ops)
            known = self._patches[name] = name in self.record.patches or is_in_front
            if known and name not in self.record.patches:
                self.new_patches.append(name)
        return known

    def roll(self) -> bytes:
        """Bytes that are the same each time the body comes here."""
        self._values += 1
        return blake2b(f"{self.record.seed}:{self._values}".encode(), digest_size=16).digest()

    def _known(self, ordinal: int, kind: str, name: str, count: int) -> StepRow | None:
        """The row of that very step; `problem` when the record contradicts."""
        row, place = self._rows.get(ordinal), self._places.get(_key(kind, name, count))
        asked = _words(kind, name, count)
        if row is None:
            if place is not None:
                self.stop(f"the body asks for {asked} as step {ordinal + 1}, which was step {place + 1}")
            return None
        if (row.kind, row.name, row.count) != (kind, name, count):
            had = _words(row.kind, row.name, row.count)
            self.stop(f"the body asks for {asked} where its record has {had} (step {ordinal + 1})")
        elif row.after != self.last:
            when = "earlier" if row.after > self.last else "later"
            self.stop(f"the body asks for {asked} (step {ordinal + 1}) {when} than it did before")
        return row


_BODY = "workflow.body"


def check_name(kind: str, name: object) -> None:
    """`BadOption` for what can't be the name of a step."""
    why = (
        f"{name!r:.60} is no text"
        if not isinstance(name, str)
        else why_no_name(name, len(name), NAME_CHARS_MAX, "chars")
    )
    if why is not None:
        article = "an" if kind[0] in "aeiou" else "a"
        raise BadOption(f"the name of {article} {kind}: {why}", code="workflow.name")


def _key(kind: str, name: str, count: int) -> tuple[str, int]:
    return (f"undo:{name}" if kind == "undo" else f"step:{name}", count)


def _words(kind: str, name: str, count: int) -> str:
    return f"{kind} {label_of(name, count)!r}"


def _error_of(task: "asyncio.Task[Any]") -> BaseException | None:
    return asyncio.CancelledError("it cancelled itself") if task.cancelled() else task.exception()


def _resolve(op: Op) -> None:
    row = op.row
    if row.state == "done":
        op.future.set_result(None if row.value is None else decode(row.value))
        return
    what = _words(row.kind, row.name, row.count)
    if row.state == "late":
        error: WakefulError = DeadlineExceeded(f"{what} did not come in time", code="workflow.timeout")
    else:
        assert row.error is not None
        error = unpack_error(row.error, what)
    setattr(error, ORDINAL, row.ordinal)
    op.future.set_exception(error)
