"""Layer 4. A job has ended: what is remembered of it, and who is told?"""

from typing import TYPE_CHECKING, Literal

from wakeful.jobs.ids import TOLD, attempt_id, job_id, parse_id, short
from wakeful.jobs.job_request import errand, leave_queue
from wakeful.jobs.payload import EndedJob, JobPayload, readable_payload, remembered_row, without_ticket
from wakeful.policy.order import Order
from wakeful.runtime.turn import Turn
from wakeful.store.protocol import Range
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.timers import Entry, Timer

if TYPE_CHECKING:
    from wakeful.jobs.node_jobs import NodeJobs

# How many rows there are that say who waits for a job of this object. Nearly always none, and then a job that ends
# costs one look into memory instead of one at the disk.
WATCHED: Slot = (SYSTEM, "jobs.watched")
Outcome = Literal["done", "failed", "cancelled"]
FORGOTTEN = "its object was forgotten"  # why it is cancelled; then those who wait for it are not told which it was


async def read(turn: Turn, slot: Slot) -> object:
    """A row of ours as this turn sees it; None when there is none."""
    data = turn.writes[slot] if slot in turn.writes else await turn.activation.rows.read(slot)
    return None if data is None else decode(data)


def write(turn: Turn, slot: Slot, value: object) -> None:
    """None removes the row."""
    turn.writes[slot] = None if value is None else encode(value)


async def end(
    feature: "NodeJobs",
    turn: Turn,
    timer: Timer,
    kept: JobPayload,
    outcome: Outcome,
    *,
    result: bytes | None = None,
    error: str | None = None,
    has_run: bool = True,
) -> None:
    """Write what the end of a job leaves, in the turn that ends it."""
    node = turn.activation.node
    now = node.clock.now()
    is_plain = kept.key is None and kept.metadata is None and not kept.tags and not timer.priority
    # The ledger alone can tell of a job that has nothing to remember; a failed one is where it is parked, and its
    # record only keeps its key.
    needs_record = (
        kept.key is not None if outcome == "failed" else not is_plain or result is not None or error is not None
    )
    leave_queue(node, feature.order, turn, kept)
    kept = without_ticket(kept)
    if needs_record:
        run_id = attempt_id(timer, kept.method) if has_run else None
        attempts = timer.attempt + has_run
        record = EndedJob(outcome, kept, timer.priority, attempts, run_id, result, error, now)
        turn.records = [*turn.records, remembered_row(timer.name, record, now + node.limits.job_keep_ms)]
    if outcome != "failed":
        await _tell_watchers(feature.order, turn, timer, FORGOTTEN if error == FORGOTTEN else outcome)
    if kept.batch is not None:
        completion, total = kept.batch
        target, name = parse_id(completion)
        turn.send([errand(node, feature.order, TOLD, target, [name, job_id(timer.id, timer.name), outcome, total])])
    feature.waits.on_end(turn.activation, timer.name)


def note_unrun(turn: Turn, timer: Timer, reason: str) -> None:
    """A ledger row for a job that never ran and never will."""
    node = turn.activation.node
    now = node.clock.now()
    entry = Entry(
        id=timer.id,
        name=timer.name,
        run_id=attempt_id(timer, readable_payload(timer).method),
        nominal_at=timer.nominal_at,
        fired_at=now,
        finished_at=now,
        attempt=timer.attempt,
        verdict="skipped",
        node=node.name,
        error=reason,
    )
    turn.entries = [*turn.entries, entry]


# who waits for it


async def watch(turn: Turn, name: str, watcher: str) -> None:
    """Note that another job waits for that one of this object."""
    slot = (SYSTEM, f"{_prefix(name)}{short(watcher)}")
    if await read(turn, slot) is None:
        write(turn, slot, watcher)
        write(turn, WATCHED, _whole(await read(turn, WATCHED)) + 1)


async def unwatch(turn: Turn, name: str, watcher: str) -> None:
    """The other job waits no longer."""
    slot = (SYSTEM, f"{_prefix(name)}{short(watcher)}")
    if await read(turn, slot) is not None:
        write(turn, slot, None)
        write(turn, WATCHED, max(0, _whole(await read(turn, WATCHED)) - 1) or None)


async def _tell_watchers(order: Order, turn: Turn, timer: Timer, outcome: str) -> None:
    count = _whole(await read(turn, WATCHED))
    if not count:
        return
    activation = turn.activation
    await activation.settle()
    prefix = _prefix(timer.name)
    rows = await activation.rows.scan(SYSTEM, Range(first=prefix, last=prefix[:-1] + chr(ord(prefix[-1]) + 1)))
    me = job_id(timer.id, timer.name)
    for key, data in rows:
        watcher = decode(data)
        target, name = parse_id(watcher)
        turn.send([errand(activation.node, order, TOLD, target, [name, me, outcome, 0])])
        write(turn, (SYSTEM, key), None)
    if rows:
        write(turn, WATCHED, max(0, count - len(rows)) or None)


def _prefix(name: str) -> str:
    return f"jobs.watch:{name}\x1f"


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
