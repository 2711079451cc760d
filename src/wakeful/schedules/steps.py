"""Layer 4. How does a schedule's record move from one occurrence to the next?"""

from collections.abc import Iterable
from hashlib import blake2b

from msgspec.structs import replace

from wakeful.policy.plan import MISSED, Due, Left, plan, plan_overlap
from wakeful.runtime.turn import Turn
from wakeful.schedules.options import feature_of
from wakeful.schedules.records import (
    LANE,
    Book,
    Lane,
    Record,
    Untold,
    encode_struct,
    lane_name,
    number_of_lane,
    timer_name,
)
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Occurrence, Timer
from wakeful.values.trace import linked_trace, with_trace

# An occurrence that waits for another schedule looks again this often, in case nobody tells it.
LOOK_AGAIN_MS = 600_000
# Pauses that are over, kept with their notes for those who ask why it did not run then.
PAUSES_MAX = 20


def judge(record: Record, timer: Timer, now: int) -> list[Left]:
    """Decide what becomes of everything that fell due up to now; those that run are `record.pending` afterwards."""
    policy = record.policy
    left: list[Left] = []
    # Nothing is decided yet, or the decision was made before an outage, or lanes are at what was decided.
    if not record.pending or now - timer.due_at > policy.grace_ms or policy.parallel > 1:
        left += _plan(record, now)
    elif timer.attempt == 0 and record.waits_for is None and not record.is_partial and _has_stalled(record, timer, now):
        left += _judge_overlap(record, timer.due_at)  # while the run before it was at it
        left += _plan(record, now)  # since then nothing was
    while record.pending and timer.attempt == 0 and record.waits_for is not None:
        due = record.pending[0]
        if due.nominal_at >= now - policy.window_ms:
            break
        left.append(Left("too_late", due.nominal_at, due.nominal_at))  # it waited too long for another schedule
        record.pending = record.pending[1:]
        record.waits_for = None
    if record.pending and timer.attempt == 0 and record.pause_at(now) is not None:  # what has not begun does not begin
        left += [Left("paused", due.nominal_at, due.nominal_at) for due in record.pending]
        record.pending, record.waits_for = [], None
    _note_missed(record, left)
    count(record, left)
    return left


def _has_stalled(record: Record, timer: Timer, now: int) -> bool:
    """Something fell due after the next of those that wait could have begun, and before it did: no run was under way."""
    following = record.timeline.next_ms(max(record.judged_to, timer.due_at))
    return following is not None and following <= now


def judge_all(record: Record, to: int) -> list[Left]:
    """Decide about everything up to that instant, however much it is: what it is judged by is about to change."""
    left: list[Left] = []
    while record.judged_to < to:
        before = record.judged_to
        left += _plan(record, to)
        if record.judged_to == before:
            break
    _note_missed(record, left)
    count(record, left)
    return left


def _plan(record: Record, to: int) -> list[Left]:
    """Have the policy decide about everything up to that instant."""
    planned = plan(record.timeline, record.judged_to, to, record.policy, has_missed=record.has_missed)
    record.is_partial = not planned.is_whole
    record.has_missed = record.is_partial and planned.has_missed
    record.pending = [*record.pending, *planned.runs]
    if not planned.runs and planned.missed:  # whichever run comes next is told of them
        record.lost += planned.missed
        record.lost_first_at = record.lost_first_at or _only_missed(planned.left)[0].first_at
    record.judged_to = max(record.judged_to, planned.judged_to)
    if record.extra is not None and record.extra <= record.judged_to:
        record.extra = None
    over = [p for p in record.pauses if p.until is not None and p.until <= record.judged_to]
    if len(over) > PAUSES_MAX:
        record.pauses = record.pauses[len(over) - PAUSES_MAX :]
    return list(planned.left)


def _note_missed(record: Record, left: list[Left]) -> None:
    if record.options.on_missed is not None and _only_missed(left):
        record.untold = _and(record.untold, _only_missed(left))


def count(record: Record, left: Iterable[Left]) -> None:
    """Enter verdicts of occurrences that don't run into the counters."""
    for stretch in left:
        record.counters.add_left(stretch.verdict, stretch.count, stretch.last_at)


def _only_missed(left: Iterable[Left]) -> list[Left]:
    return [stretch for stretch in left if stretch.verdict in MISSED]


def _and(untold: Untold | None, missed: list[Left]) -> Untold:
    """What `on_missed` is to be told, with these added; they are in order of time."""
    count = sum(stretch.count for stretch in missed)
    if untold is None:
        return Untold(count, missed[0].first_at, missed[-1].last_at)
    return Untold(untold.count + count, untold.first_at, missed[-1].last_at)


def due_of(record: Record) -> Due:
    """The first pending occurrence, with what was lost since the last run."""
    due = record.pending[0]
    if not record.lost:
        return due
    return Due(due.nominal_at, due.missed + record.lost, record.lost_first_at, due.is_backfill)


def settle(record: Record, finished_at: int) -> list[Left]:
    """A run is over: decide about those that fell due meanwhile, once nothing else is pending."""
    record.lost = record.lost_first_at = 0
    if record.pending or record.is_partial:
        return []
    left = _judge_overlap(record, finished_at)
    count(record, left)
    return left


def _judge_overlap(record: Record, to: int) -> list[Left]:
    """Decide about those that fell due up to then while a run was under way."""
    if to <= record.judged_to:
        return []
    queued = sum(not due.missed for due in record.pending)
    found = plan_overlap(record.timeline, record.judged_to, to, record.options.policy.overlap, queued=queued)
    record.pending = [*record.pending, *found.runs]
    record.judged_to = found.judged_to
    return list(found.left)


def settle_lanes(record: Record, fired_at: int, finished_at: int) -> list[Left]:
    """A run in a lane is over, which held the object: what fell due meanwhile is on time, and needs a lane or waits."""
    left = _plan(record, fired_at) if record.judged_to < fired_at else []
    if fired_at <= record.judged_to < finished_at:  # else there is too much for one go, and the timer goes on with it
        found = plan_overlap(record.timeline, record.judged_to, finished_at, "queue_all")
        record.pending = [*record.pending, *found.runs]
        record.judged_to = found.judged_to
        left += found.left
    _note_missed(record, left)
    count(record, left)
    return left


def aim(turn: Turn, name: str, record: Record, now: int) -> None:
    """Set the schedule's timer for what comes next, or clear it when nothing does."""
    activation = turn.activation
    # With lanes, pending occurrences wait for one of them to end and not for the timer.
    walks = record.options.policy.parallel == 1 or record.waits_for is not None or not parallel_lanes(record)
    at: int | None = None
    if record.state == "active" and not record.is_used_up:
        walking = record.pending and walks
        at = record.pending[0].nominal_at if walking else record.timeline.next_event(record.judged_to)
    record.next_at = at
    if at is None:
        if record.is_used_up:
            drop(turn, name, record, 0, now)
        turn.clear_timer(timer_name(name))
        end_if_done(record)
        return
    due_at = max(at, now) if record.waits_for is None else now + LOOK_AGAIN_MS
    record.seq = activation.node.next_seq(activation.shard)
    priority = record.options.priority
    payload = None if record.trace is None else with_trace(None, _trace_of_run(record))
    turn.set_timer(Timer(activation.id, timer_name(name), due_at, at, record.seq, priority=priority, payload=payload))


def _trace_of_run(record: Record) -> str | None:
    """The one run of an instant belongs to the trace of whoever asked for it; each of many has its own, linked to that."""
    return record.trace if record.version.asked.startswith(("at ", "after ")) else linked_trace(record.trace)


def drop(turn: Turn, name: str, record: Record, keep: int, now: int) -> None:
    """It may run only so many more times: what was to run after those does not."""
    left = [Left("skipped", due.nominal_at, due.nominal_at) for due in record.pending[keep:]]
    record.pending = record.pending[:keep]
    count(record, left)
    node = turn.activation.node.name
    turn.entries = [*turn.entries, *entries_of(turn.activation.id, name, left, now=now, node=node)]


def end_if_done(record: Record) -> None:
    """Nothing is to come, and nothing under way."""
    if record.state == "active" and record.next_at is None and not record.lanes and not record.pending:
        record.state = "done"


def start_lane(turn: Turn, name: str, record: Record, lane: str, payload: Lane, now: int) -> Timer:
    """Have an occurrence run beside the schedule's own timer."""
    activation = turn.activation
    seq = activation.node.next_seq(activation.shard)
    timer = Timer(
        activation.id,
        lane_name(name, lane),
        now,
        payload.due.nominal_at,
        seq,
        priority=record.options.priority,
        payload=with_trace(encode_struct(payload), turn.trace_for(LANE)),
    )
    turn.set_timer(timer)
    if lane not in record.lanes:
        record.lanes = [*record.lanes, lane]
    return timer


def parallel_lanes(record: Record) -> dict[str, int]:
    """The lanes that run occurrences of its own, each with the nominal time of its one."""
    numbers = ((lane, number_of_lane(lane, "parallel")) for lane in record.lanes)
    return {lane: nominal_at for lane, nominal_at in numbers if nominal_at is not None}


def end_lane(record: Record, lane: str) -> None:
    record.lanes = [other for other in record.lanes if other != lane]


def give_up(turn: Turn, name: str, record: Record, now: int) -> list[Left]:
    """The schedule ends here: what fell due and did not run gets its verdict."""
    running = turn.consumed.name if turn.occurrence is not None and turn.consumed is not None else None
    # The first one runs in this very turn when its own handler ends the schedule.
    pending = record.pending[1:] if running == timer_name(name) else record.pending
    waiting = [due.nominal_at for due in pending]
    # Those that were given to lanes wait there to be tried, or tried again; one may be what runs in this turn.
    waiting += [at for lane, at in parallel_lanes(record).items() if lane_name(name, lane) != running]
    left = [Left("skipped", at, at) for at in sorted(waiting)]
    policy = replace(record.policy, catch_up="skip", grace_ms=-1)  # nothing is merely late any more
    since, is_whole = record.judged_to, record.state != "active"  # one that is done owes nothing
    while not is_whole:
        found = plan(record.timeline, since, now, policy)
        left += found.left
        since, is_whole = found.judged_to, found.is_whole
    count(record, left)
    record.pending, record.next_at, record.waits_for = [], None, None
    record.judged_to = max(record.judged_to, now)
    record.is_partial = record.has_missed = False
    return left


def retire(book: Book, turn: Turn, name: str, record: Record, now: int) -> None:
    """The class no longer declares it: nothing is owed from here on. It comes back if it is declared again."""
    if record.state == "retired":
        return  # one of its runs was redriven meanwhile
    left = give_up(turn, name, record, now)
    node = turn.activation.node.name
    turn.entries = [*turn.entries, *entries_of(turn.activation.id, name, left, now=now, node=node)]
    clear(turn, name, record)
    record.state, record.lanes = "retired", []
    record.versions = [*record.versions[:-1], replace(record.version, until=now)]
    book.put(name, record)


async def forget(book: Book, turn: Turn, name: str, record: Record) -> None:
    """The schedule is no more; its sums stay with the object's."""
    book.drop(name)
    meta = await book.meta()
    meta.count -= 1
    meta.gone.add(record.counters)
    book.put_meta(meta)
    await feature_of(turn.activation.node).release(turn, meta.count)


def clear(turn: Turn, name: str, record: Record) -> None:
    """Take away every timer of the schedule."""
    turn.clear_timer(timer_name(name))
    for lane in record.lanes:
        turn.clear_timer(lane_name(name, lane))
        Book(turn).drop_times(name, lane)


def occurrence_of(id: ObjectId, name: str, due: Due, lane: str = "") -> Occurrence:
    """The occurrence as ledger and handler are told of it; its id is the same whoever runs it, and however often."""
    text = f"{id.cls}\0{id.key}\0{timer_name(name)}\0{due.nominal_at}\0{lane}"
    digest = blake2b(text.encode(), digest_size=12).hexdigest()
    return Occurrence(timer_name(name), digest, due.nominal_at, due.missed, due.first_at, due.is_backfill)


def entries_of(id: ObjectId, name: str, left: Iterable[Left], *, now: int, node: str) -> list[Entry]:
    """Ledger rows of occurrences that don't run."""
    return [
        Entry(
            id=id,
            name=timer_name(name),
            run_id=occurrence_of(id, name, Due(stretch.last_at)).run_id,
            nominal_at=stretch.last_at,
            fired_at=now,
            finished_at=now,
            attempt=0,
            verdict=stretch.verdict,
            node=node,
            covers=stretch.count,
            first_at=stretch.first_at if stretch.count > 1 else 0,
        )
        for stretch in left
    ]
