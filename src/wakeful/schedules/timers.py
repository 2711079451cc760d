"""Layer 4. What happens when a schedule's timer is due: which occurrence runs, and what follows it?

Two kinds of timers. `schedule:NAME` walks along the occurrences one after the other. `run:NAME@LANE` runs
occurrences beside it: triggered, backfilled and redriven ones, and all of them when `parallel` is more than one.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from wakeful.policy.plan import Due, Left
from wakeful.runtime.timer_handler import Failed, Park, RunLater, Stale
from wakeful.runtime.turn import Turn
from wakeful.schedules.declarations import Declarations
from wakeful.schedules.handlers import Missed, Next, invoke
from wakeful.schedules.records import (
    LANE,
    PREFIX,
    Book,
    Lane,
    Record,
    decode_lane,
    encode_struct,
    lane_name,
    new_lane,
    schedule_of,
    slot_of,
)
from wakeful.schedules.steps import (
    aim,
    count,
    drop,
    due_of,
    end_if_done,
    end_lane,
    entries_of,
    forget,
    judge,
    occurrence_of,
    parallel_lanes,
    settle,
    settle_lanes,
    start_lane,
)
from wakeful.specs.interval import LENGTH_MIN_MS
from wakeful.values.codec import decode
from wakeful.values.commits import Slot
from wakeful.values.errors import Conflict, UnknownSchedule
from wakeful.values.timers import Entry, Occurrence, Parked, Timer, check_answer, run_id
from wakeful.values.times import to_datetime
from wakeful.values.trace import trace_in, with_trace

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime
    from wakeful.runtime.registry import ObjectClass


class Decided(NamedTuple):
    """What a turn had decided before its handler ran, to be written all the same when that fails."""

    turn: Turn
    record: bytes
    entries: list[Entry]
    is_told: bool = False  # `on_missed` went well, and was undone with the rest


class ScheduleTimer:
    """The handler of timers named `schedule:…`, each of which walks along the occurrences of its schedule."""

    prefix = PREFIX

    def __init__(self, declarations: Declarations, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self._declarations = declarations

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        name = schedule_of(timer.name)[0]
        book = Book(turn)
        record = await book.get(name)
        if record is None:
            return False
        if record.is_declared and self._declarations.is_orphan(activation, name):
            await self._declarations.retire_orphan(turn, book, name, record)
            return False
        if timer.seq != record.seq:
            raise Stale
        entries = _entries(turn, name, judge(record, timer, turn.fired_at))
        turn.entries = entries
        if record.options.policy.parallel > 1:
            await _fan_out(turn, book, name, record)
        walks = bool(record.pending) and record.options.policy.parallel == 1
        if not walks or not await _is_met(book, record):
            aim(turn, name, record, turn.fired_at)
            await _tell_missed(turn, book, name, record)
            changed = await book.get(name)
            if changed is not None:
                await _keep(turn, book, name, changed)
            return False
        due = due_of(record)
        turn.note = Decided(turn, encode_struct(record), entries)
        turn.occurrence = occurrence_of(activation.id, name, due)
        await _tell_missed(turn, book, name, record)
        turn.note = turn.note._replace(is_told=True)
        answer = await _call(activation, record, turn)
        changed = await book.get(name)
        await _ran(turn, book, changed, due)
        if changed is not None:  # else the handler cancelled it
            changed.pending = changed.pending[1:]
            changed.used += 1
            await _go_on(turn, book, name, changed, answer=answer)
        return True

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        name = schedule_of(failure.timer.name)[0]
        book = Book(turn)
        decided = failure.note if isinstance(failure.note, Decided) else None
        if decided is not None and not decided.turn.commits and await book.get(name) is not None:
            # Nothing of the failed turn is on disk, so its decisions are written here.
            book.put_encoded(name, decided.record)
            turn.entries = decided.entries
        record = await book.get(name)
        if record is None:
            return None
        if decided is None:
            turn.entries = _entries(turn, name, judge(record, failure.timer, failure.now))
            if not record.pending and record.untold is None:
                await _go_on(turn, book, name, record)
                return None
        turn.occurrence = _failed_one(record, name, failure.timer)
        if (later := _later(book, name, record, failure)) is not None:
            return later
        if record.untold is not None and (decided is None or not decided.is_told) and failure.error is not None:
            record.untold = None  # it was `on_missed` that failed: the run that waits need not suffer for it
            aim(turn, name, record, failure.now)
            book.put(name, record)
            return None
        if not record.pending:
            await _go_on(turn, book, name, record)
            return None
        due, record.pending = due_of(record), record.pending[1:]
        record.latest_at = max(record.latest_at, due.nominal_at)
        record.counters.failures += 1
        record.used += 1
        await _go_on(turn, book, name, record)
        return Park(_to_redrive(failure.timer, name, new_lane("redrive", failure.timer.seq), due, ""))

    async def on_dropped(self, turn: Turn, parked: Parked) -> None:
        """Nothing to do: what is parked is an occurrence, and has a lane of its own."""

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        """Nothing to do: nobody waits for an occurrence."""

    def reads(self, timer: Timer) -> Slot | None:
        return slot_of(schedule_of(timer.name)[0])

    def wants_wake(self, known: "ObjectClass") -> bool:
        return self._declarations.are_in(known)

    async def wake(self, activation: "ObjectRuntime", turn: Turn) -> None:
        await self._declarations.reconcile(activation, turn)


class LaneTimer:
    """The handler of timers named `run:…@…`, each of which runs occurrences beside those of the schedule's own."""

    prefix = LANE

    def __init__(self, declarations: Declarations, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self._declarations = declarations

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        name, lane = schedule_of(timer.name)
        book = Book(turn)
        record = await book.get(name)
        if record is None:
            raise UnknownSchedule(f"{activation.id} has no schedule {name!r} any more; it was cancelled")
        if record.is_declared and self._declarations.is_orphan(activation, name):
            await self._declarations.retire_orphan(turn, book, name, record)
            raise Conflict(f"schedule {name!r} is no longer declared", code="schedule.retired")
        payload = decode_lane(timer.payload)
        if payload.kind != "redrive" and lane not in record.lanes:
            raise Stale
        turn.occurrence = occurrence_of(activation.id, name, payload.due, _salt(payload, lane))
        answer = await _call(activation, record, turn)
        changed = await book.get(name)
        await _ran(turn, book, changed, payload.due)
        if changed is not None:
            if payload.kind == "redrive":  # its failure is undone: each occurrence counts once, as what it came to
                changed.counters.failures = max(0, changed.counters.failures - 1)
            await _end_in_lane(turn, book, name, lane, changed, payload, answer)
        return True

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        name, lane = schedule_of(failure.timer.name)
        book = Book(turn)
        record = await book.get(name)
        payload = decode_lane(failure.timer.payload)
        salt = _salt(payload, lane)
        turn.occurrence = occurrence_of(failure.timer.id, name, payload.due, salt)
        if record is None or record.state == "retired":
            return Park(failure.timer)  # redriven in vain: it stays where people see it
        if (later := _later(book, name, record, failure)) is not None:
            return later
        is_again = payload.kind == "redrive"
        record.counters.failures += not is_again
        await _end_in_lane(turn, book, name, lane, record, payload)
        parked = lane if is_again else f"{lane}.{payload.index}"
        return Park(_to_redrive(failure.timer, name, parked, payload.due, salt))

    async def on_dropped(self, turn: Turn, parked: Parked) -> None:
        """A schedule without a name that is done stays for its failed runs alone, and goes with the last of them."""
        name, _ = schedule_of(parked.timer.name)
        book = Book(turn)
        record = await book.get(name)
        if record is not None and record.state == "done" and not record.is_named:
            record.counters.failures = max(0, record.counters.failures - 1)
            await _keep(turn, book, name, record)

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        """Nothing to do: nobody waits for an occurrence."""

    def reads(self, timer: Timer) -> Slot | None:
        return slot_of(schedule_of(timer.name)[0])

    def wants_wake(self, known: "ObjectClass") -> bool:
        return False

    async def wake(self, activation: "ObjectRuntime", turn: Turn) -> None:
        return None


def _later(book: Book, name: str, record: Record, failure: Failed) -> RunLater | None:
    """Another attempt, if the schedule's options have one left for it."""
    if failure.error is None:
        return None
    delay = record.options.retry.delay_ms(failure.timer.attempt + 1, failure.error, failure.roll)
    if delay is None:
        return None
    record.counters.retries += 1
    book.put(name, record)
    return RunLater(failure.timer.later(due_at=failure.now + delay, attempt=failure.timer.attempt + 1))


# what follows a run


async def _end_in_lane(
    turn: Turn, book: Book, name: str, lane: str, record: Record, payload: Lane, answer: Any = None
) -> None:
    """An occurrence is over that ran in a lane, well or not."""
    is_own = payload.kind == "parallel"
    record.used += is_own
    await _next_in_lane(turn, book, name, lane, record, payload)
    await _go_on(turn, book, name, record, answer=answer, is_beside=not is_own)


async def _next_in_lane(turn: Turn, book: Book, name: str, lane: str, record: Record, payload: Lane) -> None:
    """The next occurrence of a backfill, or the end of the lane."""
    if payload.index + 1 < payload.total and lane in record.lanes:
        times = await book.times(name, lane)
        due = Due(times[payload.index + 1], is_backfill=True)
        following = Lane(payload.kind, due, payload.index + 1, payload.total)
        start_lane(turn, name, record, lane, following, turn.activation.node.clock.now())
        return
    end_lane(record, lane)
    if payload.total > 1:
        book.drop_times(name, lane)


async def _fan_out(turn: Turn, book: Book, name: str, record: Record) -> None:
    """Give pending occurrences to free lanes; those that find none wait, or are dropped by the overlap policy."""
    now = turn.activation.node.clock.now()
    policy, most = record.options.policy, record.options.max_runs
    if most is not None:  # those under way count
        drop(turn, name, record, max(0, most - record.used - len(parallel_lanes(record))), now)
    while record.pending and len(parallel_lanes(record)) < policy.parallel and await _is_met(book, record):
        due = due_of(record)
        record.pending = record.pending[1:]
        record.lost = record.lost_first_at = 0
        start_lane(turn, name, record, new_lane("parallel", due.nominal_at), Lane("parallel", due), now)
    if record.waits_for is None:
        spare = {"skip": 0, "queue_one": 1, "queue_all": len(record.pending)}[policy.overlap]
        on_time = [due for due in record.pending if not due.missed]  # missed ones wait for their turn
        dropped = on_time[spare:]
        left = [Left("overlap", due.nominal_at, due.nominal_at) for due in dropped]
        count(record, left)
        turn.entries = [*turn.entries, *_entries(turn, name, left)]
        record.pending = [due for due in record.pending if due not in dropped]


async def _ran(turn: Turn, book: Book, record: Record | None, due: Due) -> None:
    """It went well: count it, with the object's own sums when the handler cancelled the schedule."""
    lateness_ms = 0 if due.is_backfill else turn.fired_at - due.nominal_at
    now = turn.activation.node.clock.now()
    if record is None:
        meta = await book.meta()
        meta.gone.ran(turn.fired_at, now, lateness_ms)
        book.put_meta(meta)
        return
    record.counters.ran(turn.fired_at, now, lateness_ms)
    record.succeeded_at = max(record.succeeded_at, due.nominal_at)
    record.latest_at = max(record.latest_at, due.nominal_at)


async def _go_on(
    turn: Turn, book: Book, name: str, record: Record, *, answer: Any = None, is_beside: bool = False
) -> None:
    """An occurrence is over, well or not: aim at the next, and let those go that waited for this one."""
    now = turn.activation.node.clock.now()
    if is_beside:  # triggered, backfilled or redriven: the schedule's own timer is not concerned
        end_if_done(record)
    else:
        if record.options.policy.parallel > 1:
            left = settle_lanes(record, turn.fired_at or now, now)
            turn.entries = [*turn.entries, *_entries(turn, name, left)]
            await _fan_out(turn, book, name, record)
        else:
            turn.entries = [*turn.entries, *_entries(turn, name, settle(record, now))]
        _move_by(record, answer, now)
        aim(turn, name, record, now)
    await _keep(turn, book, name, record)
    for other in record.dependents:
        waiting = await book.get(other)
        if waiting is not None and waiting.waits_for == name:
            waiting.waits_for = None
            aim(turn, other, waiting, now)
            book.put(other, waiting)


async def _keep(turn: Turn, book: Book, name: str, record: Record) -> None:
    """Write the record, but of a schedule without a name that is done: it goes, unless a run of it may be redriven."""
    if record.state == "done" and not record.is_named and not record.counters.failures:
        await forget(book, turn, name, record)
    else:
        book.put(name, record)


async def _is_met(book: Book, record: Record) -> bool:
    """The schedules that it depends on have run for the same or an earlier occurrence; else it waits for one."""
    nominal_at = record.pending[0].nominal_at
    record.waits_for = None
    for name in record.options.depends_on:
        other = await book.get(name)
        if other is None:
            continue
        owed_at = other.timeline.previous_ms(nominal_at + 1)
        let_go = other.extra is not None and nominal_at < other.extra  # by a `Next`: up to it there is nothing
        if other.state != "active" or let_go:
            owed_at = min(owed_at or 0, other.latest_at)
        if owed_at is not None and other.succeeded_at < owed_at:
            record.waits_for = name
            return False
    return True


async def _tell_missed(turn: Turn, book: Book, name: str, record: Record) -> None:
    """Write what was decided, for the handler's own look and for a durable point in it, and call `on_missed`."""
    untold = record.untold
    if untold is None or record.options.on_missed is None:
        book.put(name, record)
        return
    book.put(name, replace(record, untold=None))  # `record` keeps it, for when the turn fails
    about = Missed(untold.count, to_datetime(untold.first_at), to_datetime(untold.last_at))
    turn.mark()
    await getattr(turn.activation.instance, record.options.on_missed)(about)


def _entries(turn: Turn, name: str, left: list[Left]) -> list[Entry]:
    node = turn.activation.node
    return entries_of(turn.activation.id, name, left, now=node.clock.now(), node=node.name)


async def _call(activation: "ObjectRuntime", record: Record, turn: Turn) -> Any:
    options = record.options
    args, kwargs = decode(options.args) if options.args is not None else ((), {})
    turn.mark()
    answer = await invoke(activation.instance, options.handler, tuple(args), kwargs, turn)
    check_answer(answer, "schedule", f"{activation.id}.{options.handler}")
    return answer


def _move_by(record: Record, answer: Any, now: int) -> None:
    """Take a handler's `Next` as the time of the next occurrence; the spec goes on after it.

    No sooner than the shortest interval from now: a time that is past would come again at once, and again.
    """
    if not isinstance(answer, Next):
        return
    at = max(answer.at_ms(now), now + LENGTH_MIN_MS, record.judged_to + 1)
    end_at = record.options.end_at
    record.extra = at if end_at is None or at < end_at else None
    record.judged_to = at - 1


def _failed_one(record: Record, name: str, timer: Timer) -> Occurrence:
    """Which occurrence failed; it may not have come so far as to say so itself."""
    if record.pending:
        return occurrence_of(timer.id, name, due_of(record))
    return Occurrence(f"missed:{name}", run_id(timer), timer.nominal_at)  # none: `on_missed` alone failed


def _salt(payload: Lane, lane: str) -> str:
    """What makes the run id of a lane's occurrence its own: a triggered or backfilled run is not the regular one."""
    if payload.kind == "redrive":
        return payload.salt  # the run that it was when it failed
    return "" if payload.kind == "parallel" else lane


def _to_redrive(timer: Timer, name: str, lane: str, due: Due, salt: str) -> Timer:
    """The failed occurrence as a timer of its own: redriving it leaves the schedule's next occurrence alone."""
    payload = with_trace(encode_struct(Lane("redrive", due, salt=salt)), trace_in(timer.payload))
    return replace(timer, name=lane_name(name, lane), nominal_at=due.nominal_at, payload=payload)
