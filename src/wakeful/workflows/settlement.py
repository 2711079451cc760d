"""Layer 4. One turn: what a body and its steps came to goes to disk, all of it or nothing.

Here a result gets its number and becomes the step's row, a wait begins, finds its event or ends, and the body rests, ends,
or is stopped. Whoever does that from elsewhere (an event, a timer, an operator) uses the same parts.
"""

import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.runtime.turn import Turn
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadInput, CallFailed, LimitExceeded, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer, Verdict, run_id, words_of
from wakeful.values.trace import current_trace, linked_trace, with_trace
from wakeful.workflows import tickets
from wakeful.workflows.body import ORDINAL
from wakeful.workflows.driver import Driver, DriverNews
from wakeful.workflows.node_workflows import BODY, CALL, FORGET, TIMER, NodeWorkflows, feature_of
from wakeful.workflows.records import (
    ACTIVE,
    CANCELLED,
    DONE,
    FAILED,
    INPUT,
    OUTCOME,
    PARKED,
    QUEUED,
    ROW,
    RUNNING,
    SLEEPING,
    TRACE_CHARS_MAX,
    WAITING,
    StepRow,
    Wait,
    WorkflowRecord,
    copy_step,
    first_event,
    keep_event,
    load_step,
    load_steps,
    pack_error,
    pack_record,
    read_record,
    read_row,
    save_step,
    step_slot,
)

if TYPE_CHECKING:
    from wakeful.policy.queue_terms import Queue
    from wakeful.workflows.body import Op

COMMIT_BYTES = 4 * 1_048_576  # of results and what is sent, in one commit; the rest goes with the next
WAITS_MAX = 1_000  # at once: each of them is written whenever one begins or ends
LEDGER = "workflow"  # what its ledger calls a whole run
SLEEPS = frozenset({"sleep", "retry"})


class Settlement:
    """Writes what a driver has, within a turn of its object."""

    def __init__(self, turn: Turn, record: WorkflowRecord, driver: Driver, before: bytes) -> None:
        """`before`: the record as it is on disk."""
        self._turn = turn
        self._record = record
        self._driver = driver
        self._node = turn.activation.node
        self._feature = feature_of(self._node)
        self._now = self._node.clock.now()
        self._before = before
        self._room = COMMIT_BYTES
        self._is_cut = False  # more is left for another commit
        self._done = DriverNews(record)

    async def make(self) -> DriverNews:
        """Everything that there is."""
        record, driver, done = self._record, self._driver, self._done
        self._take_ends()
        for ordinal in list(driver.withdrawn):
            await self._withdraw(ordinal)
        for op in list(driver.asked):
            if not self._has_room(_size_of(op)):
                break
            await self._begin_wait(op)
        ended, ready = await end_due(self._turn, record)
        done.ended += ended
        done.ready += ready
        body = driver.body
        assert body is not None
        record.patches += [name for name in body.new_patches if name not in record.patches]
        if len(record.waits) > WAITS_MAX and body.problem is None:
            words = f"waits for {len(record.waits)} things at once, {WAITS_MAX} at most; wait for some before you ask for more"
            body.problem = LimitExceeded(f"{driver.id} {words}", code="limit.workflow_waits")
        is_quiet = not (done.ended or done.ready or self._is_cut) and record.last <= body.last
        if body.problem is not None:
            self._park(body.problem)
        elif record.state == ACTIVE and is_quiet and body.is_done:
            await self._end(*body.outcome())
        elif record.state == ACTIVE and is_quiet and not driver.runners and not self._is_busy():
            await self._rest()
        if (packed := pack_record(record)) != self._before:
            self._turn.writes[ROW] = packed
        return done

    def _has_room(self, size: int) -> bool:
        """It goes with this commit; the first always does."""
        if self._room <= 0:
            self._is_cut = True
            return False
        self._room -= size
        return True

    def _is_busy(self) -> bool:
        """The body has asked for something that is not being seen to yet."""
        body = self._driver.body
        return body is None or any(not op.is_left for op in body.fresh) or bool(body.left)

    def _take_ends(self) -> None:
        """Functions that returned, or failed."""
        body = self._driver.body
        assert body is not None
        for ordinal, end in self._driver.ends.items():
            if not self._has_room(len(end.value or b"")):
                break
            op = body.ops[ordinal]
            row = copy_step(op.row)
            row.attempts, row.value, row.error, row.due_at = end.attempts, end.value, end.error, end.due_at
            row.state, row.ended_at = end.state, end.ended_at
            self._done.ends.append(ordinal)
            if end.state == "tried":
                self._record.waits.append(Wait(ordinal, "retry", row.label, end.due_at, None))
                self._done.tried.append(row)
                save_step(self._turn, row)
            else:
                self._finish(row)

    def _finish(self, row: StepRow) -> None:
        self._driver.top = row.number = max(self._driver.top, self._record.last) + 1
        save_step(self._turn, row)
        self._done.ended.append(row)

    async def _withdraw(self, ordinal: int) -> None:
        """The body does not wait for that any more: an event that it took is for another."""
        record, turn = self._record, self._turn
        self._done.withdrawn.append(ordinal)
        row = await load_step(turn, ordinal)
        if row is None or row.state == "left" or (row.number and row.place is None):
            return
        record.waits = [wait for wait in record.waits if wait.ordinal != ordinal]
        if row.number:
            give_back(turn, record, row)
        row.state, row.value = "left", None
        save_step(turn, row)

    async def _begin_wait(self, op: "Op") -> None:
        """Something that is no function: it waits, or is over at once."""
        row, record, turn = copy_step(op.row), self._record, self._turn
        self._done.asked.append(op)
        kind = row.kind
        if kind == "publish":
            row.state, row.value, row.ended_at = "done", op.payload, self._now
            self._finish(row)
            turn.then = [*turn.then, partial(self._feature.waiters.tell, turn.activation.id)]
            return
        if kind == "start":
            self._start_child(row, *op.payload)
            return
        if kind == "call":
            row.event = f"call:{record.run}:{row.ordinal}:{self._feature.token()}"
            target, method, data = op.payload
            row.detail = [target.cls, target.key, method]
            self._feature.mail(turn, target, [method, data, [*turn.activation.id, row.event]], CALL)
        else:
            length_ms, row.due_at, row.event = op.payload
            if length_ms is not None:
                row.due_at = self._now + length_ms
            if row.event is not None and await self._take_kept(row):
                self._finish(row)
                return
        record.waits.append(Wait(row.ordinal, kind, row.label, row.due_at, row.event))
        op.row = row
        save_step(turn, row)

    async def _take_kept(self, row: StepRow) -> bool:
        """An event that came before it was waited for."""
        if row.event is None or (is_sent(row.event) and not self._record.events):
            return False
        kept = await first_event(self._turn, row.event)
        if kept is None:
            return False
        row.place, value = kept
        assert row.place is not None
        self._turn.writes[OUTCOME[0], row.place] = None
        self._record.events -= is_sent(row.event)
        fill_from_event(row, value, self._now)
        return True

    def _start_child(self, row: StepRow, target: ObjectId, data: bytes, queue: "Queue | None") -> None:
        event = f"child:{self._record.run}:{row.ordinal}"
        option = [] if queue is None else [queue]
        self._feature.mail(self._turn, target, ["start", data, [*self._turn.activation.id, event], *option])
        row.detail, row.state, row.ended_at = [target.cls, target.key], "done", self._now
        self._finish(row)

    # how it stands then

    async def _rest(self) -> None:
        record = self._record
        if not record.waits:
            words = "its body waits for something that is no step, and that nobody will ever bring about"
            await self._end("failed", CallFailed(f"{self._turn.activation.id}: {words}", code="workflow.stuck"))
            return
        record.last = max(record.last, self._driver.top)
        rest(self._turn, record)
        self._done.is_resting = True

    def _park(self, problem: WakefulError) -> None:
        park(self._turn, self._record, problem)
        self._done.is_over = True

    async def _end(self, how: str, what: Any) -> None:
        record, turn = self._record, self._turn
        self._done.is_over = True
        limits = self._node.limits
        try:
            if how == "again":
                bound = self._feature.bound_of(turn.activation.id.cls)
                data = bound.encode_input(what.args, what.kwargs, limits.arguments_bytes)
                await self._begin_again(data, bound.version)
                return
            value = None if how != "done" else self._check_answer(encode(what))
        except BadInput as error:
            how, what, value = "failed", error, None
        if how == "failed":
            trace = "".join(traceback.format_exception(what))[-TRACE_CHARS_MAX:]
            record.error, record.failed_by = pack_error(what, trace), failing_steps(what)
        elif how == "cancelled" and what is not None:  # its finally blocks did not come to their end
            kind, said = pack_error(what)[:2]
            record.error = cancel_error(f"its body ended with {kind}: {said}")
        state = {"done": DONE, "failed": FAILED, "cancelled": CANCELLED}[how]
        end(turn, record, state, value)
        if how == "cancelled":
            body = self._driver.body
            for child in [] if body is None else body.children:
                self._feature.mail(turn, ObjectId(*child), ["cancel", list(turn.activation.id)])

    def _check_answer(self, data: bytes) -> bytes:
        most = self._node.limits.arguments_bytes
        if len(data) > most:
            raise LimitExceeded(
                f"what it returned has {len(data)} bytes, {len(data) - most} more than the limit of {most}; keep large data in "
                "storage, or in a file elsewhere, and return its name",
                code="limit.workflow_result",
            )
        return data

    async def _begin_again(self, data: bytes, version: int) -> None:
        """It goes on as new; how those ended that it has started is nobody's to ask any more."""
        turn, body = self._turn, self._driver.body
        for ordinal, op in ({} if body is None else body.ops).items():
            turn.writes[step_slot(ordinal)] = None
            if op.row.kind == "start":
                kept = await first_event(turn, f"child:{self._record.run}:{ordinal}")
                if kept is not None:
                    turn.writes[OUTCOME[0], kept[0]] = None
        begin_anew(turn, self._record, data, version)
        self._record.rounds += 1


def _size_of(op: "Op") -> int:
    """About how many bytes it brings to a commit."""
    parts = op.payload if isinstance(op.payload, tuple) else (op.payload,)
    return sum(len(part) for part in parts if isinstance(part, bytes))


# The parts, for whoever is in a turn of a workflow


def is_sent(event: str) -> bool:
    """Somebody's `send`, of which so many are kept and no more; how what it started ended is nobody's flood."""
    return event.startswith("event:")


def give_back(turn: Turn, record: WorkflowRecord, row: StepRow) -> None:
    """The event that ended this wait is for the next one that waits for it."""
    if row.place is None or row.event is None:
        return
    value = row.value or b""
    if row.kind in ANSWERED:
        value = encode([True, row.value] if row.error is None else [False, row.error])
    keep_event(turn, row.place, row.event, value)
    record.events += is_sent(row.event)


ANSWERED = frozenset({"call", "result"})  # kinds whose event says whether it went well


async def next_number(turn: Turn, record: WorkflowRecord) -> int:
    """The next place in the order of ends, noted in the record, which is to be saved."""
    activation = turn.activation
    driver = feature_of(activation.node).drivers.get(activation.id)
    top = record.last
    if driver is not None and driver.fits(record, activation.epoch):
        top = max(top, driver.top)
    elif record.phase == RUNNING:  # results of steps, which the record does not follow
        top = max([top, *(row.number for row in await load_steps(turn))])
    record.last = top + 1
    return record.last


def fill_from_event(row: StepRow, value: bytes, now: int) -> None:
    """What came ends the wait: the data of an event, or the answer of a call or a child."""
    row.ended_at, row.value, row.state = now, value, "done"
    if row.kind in ANSWERED:
        is_good, answer = decode(value)
        row.state = "done" if is_good else "error"
        row.value, row.error = (answer, None) if is_good else (None, answer)


def failing_steps(error: BaseException) -> list[int]:
    """The steps whose failure came out of the body, if that is what ended it."""
    ordinals, todo, seen = set[int](), [error], set[int]()
    while todo:
        raised = todo.pop()
        if id(raised) in seen:
            continue
        seen.add(id(raised))
        ordinal = getattr(raised, ORDINAL, None)
        if ordinal is not None:
            ordinals.add(ordinal)
        elif isinstance(raised, BaseExceptionGroup):
            todo += raised.exceptions
        else:
            todo += [other for other in (raised.__cause__, raised.__context__) if other is not None]
    return sorted(ordinals)


async def end_due(turn: Turn, record: WorkflowRecord) -> tuple[list[StepRow], list[int]]:
    """Sleeps and waits that are over by the clock, and functions whose next attempt is due."""
    now = turn.activation.node.clock.now()
    due = sorted(
        [wait for wait in record.waits if wait.due_at is not None and wait.due_at <= now],
        key=lambda wait: (wait.due_at, wait.ordinal),
    )
    ended: list[StepRow] = []
    ready: list[int] = []
    for wait in due:
        if wait.kind == "retry":
            ready.append(wait.ordinal)
            continue
        row = await load_step(turn, wait.ordinal)
        assert row is not None
        row.state, row.ended_at = "done" if wait.kind == "sleep" else "late", now
        if ended:
            record.last += 1  # the first has looked at all that there are
        row.number = record.last if ended else await next_number(turn, record)
        save_step(turn, row)
        ended.append(row)
    if due:
        over = {wait.ordinal for wait in due}
        record.waits = [wait for wait in record.waits if wait.ordinal not in over]
    return ended, ready


def rest(turn: Turn, record: WorkflowRecord) -> None:
    """Its timer says when the first of its waits is over; without one only an event wakes it."""
    due = [wait.due_at for wait in record.waits if wait.due_at is not None]
    record.wake_at = min(due, default=None)
    phase = SLEEPING if all(wait.kind in SLEEPS for wait in record.waits) else WAITING
    record.touch(turn.activation.node.clock.now(), phase=phase)
    if record.wake_at is None:
        turn.clear_timer(TIMER)
    else:
        # Behind a sleep a trace of its own, linked to this one: one that goes on for weeks helps nobody.
        set_timer(turn, record.wake_at, linked_trace(current_trace(turn.activation.node.tracer)))


def wake(turn: Turn, record: WorkflowRecord) -> None:
    """Its body is to go on, now."""
    now = turn.activation.node.clock.now()
    record.touch(now, state=ACTIVE, phase=RUNNING)
    record.wake_at = None
    set_timer(turn, now, turn.trace_for(BODY))


def enter(turn: Turn, record: WorkflowRecord) -> None:
    """Its body is to go on: now, or once its queue lets it."""
    if tickets.wants_place(record):
        tickets.join(turn, record)
    elif record.state != QUEUED:
        wake(turn, record)


def set_timer(turn: Turn, due_at: int, trace: str | None) -> None:
    activation = turn.activation
    payload = with_trace(None, trace)
    seq = activation.node.next_seq(activation.shard)
    turn.set_timer(Timer(activation.id, TIMER, due_at, due_at, seq, payload=payload))


def begin_anew(turn: Turn, record: WorkflowRecord, data: bytes, version: int) -> None:
    """From the top, with this input and no steps; events that are kept stay, and who waits for its end."""
    node = turn.activation.node
    now = node.clock.now()
    record.run, record.seed = node.next_seq(turn.activation.shard), feature_of(node).token()
    record.version, record.started_at, record.ended_at, record.error = version, now, 0, None
    record.waits, record.patches, record.last, record.cancelled, record.failed_by = [], [], 0, 0, []
    turn.writes[INPUT], turn.writes[OUTCOME] = data, None
    enter(turn, record)


def end(turn: Turn, record: WorkflowRecord, state: str, value: bytes | None) -> None:
    """It is over: who waits for it is told."""
    activation = turn.activation
    now, feature = activation.node.clock.now(), feature_of(activation.node)
    record.touch(now, state=state, phase=RUNNING)
    record.ended_at, record.wake_at, record.waits = now, None, []
    turn.writes[OUTCOME] = value
    turn.clear_timer(TIMER)
    tickets.leave(turn, record)
    if record.keep_ms is not None:
        due_at = now + record.keep_ms[state != DONE]
        turn.set_timer(Timer(activation.id, FORGET, due_at, due_at, activation.node.next_seq(activation.shard)))
    note(turn, record)
    tell_listeners(feature, turn, record, value)
    turn.then = [*turn.then, lambda: feature.waiters.tell(activation.id)]


def answer_of(record: WorkflowRecord, value: bytes | None) -> bytes:
    """What is said of its end to the workflows that wait for it."""
    if record.state == DONE:
        return encode([True, value])
    return encode([False, record.error or cancel_error("it was cancelled")])


def cancel_error(why: str) -> list[Any]:
    """A cancellation as an error is kept."""
    return ["WorkflowCancelled", why, [_CANCELLED], "workflow.cancelled", ""]


_CANCELLED = "wakeful.values.errors.WorkflowCancelled"


def words_of_end(record: WorkflowRecord) -> str:
    """Why it failed, or was never let go."""
    assert record.error is not None
    kind, said = record.error[:2]
    return f"{kind}: {said}" if record.state != CANCELLED else str(said)


def tell_listeners(feature: NodeWorkflows, turn: Turn, record: WorkflowRecord, value: bytes | None) -> None:
    answer = answer_of(record, value)
    for cls, key, event in record.listeners:
        feature.mail(turn, ObjectId(cls, key), ["event", event, answer])
    record.listeners = []


def note(turn: Turn, record: WorkflowRecord) -> None:
    """The ledger's row of a whole run."""
    activation = turn.activation
    now, name = activation.node.clock.now(), activation.node.name
    verdict: Verdict = "failed" if record.state == FAILED else "run" if record.error is None else "skipped"
    error = None if record.error is None else words_of_end(record)
    run = run_id(Timer(activation.id, LEDGER, 0, 0, record.run))
    at = record.started_at
    entry = Entry(activation.id, LEDGER, run, at, at, now, 0, verdict, name, error)
    turn.entries = [*turn.entries, entry]


def park(turn: Turn, record: WorkflowRecord, error: BaseException) -> None:
    """Its body can't go on as the code is: it waits for a person."""
    activation = turn.activation
    now = activation.node.clock.now()
    record.error = pack_error(error)
    record.touch(now, state=PARKED, phase=RUNNING)
    record.wake_at = None
    timer = Timer(activation.id, TIMER, now, now, activation.node.next_seq(activation.shard))
    text = words_of(error)
    turn.clear_timer(TIMER)
    tickets.leave(turn, record)
    turn.parks = [*turn.parks, Parked(timer, run_id(timer), now, 1, "failed", text, "")]
    run = run_id(timer)
    entry = Entry(activation.id, LEDGER, run, now, now, now, 0, "failed", activation.node.name, text)
    turn.entries = [*turn.entries, entry]


async def settle(turn: Turn) -> None:
    """Write what the driver of this turn's object has; a driver of another run, or of another time, is dropped."""
    activation = turn.activation
    driver = feature_of(activation.node).drivers.get(activation.id)
    if driver is None:
        return
    before = await read_row(turn, ROW)
    record = None if before is None else read_record(before)
    if (
        before is None
        or record is None
        or not driver.fits(record, activation.epoch)
        or record.state not in (ACTIVE, "paused")
    ):
        turn.then = [*turn.then, driver.drop]
        return
    done = await Settlement(turn, record, driver, before).make()
    turn.then = [*turn.then, lambda: driver.on_settled(done)]
