"""Layer 4. What only the owner of an object may decide about its jobs: keys, replacing, cancelling, redriving.

Each is a turn of the target, so two of them never meet, and none meets a run of the job itself.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wakeful.jobs.ids import UNTELL, ask_prefix, job_id, key_of, parse_id
from wakeful.jobs.job_request import JobRequest, errand, errands, leave_queue
from wakeful.jobs.outcomes import FORGOTTEN, end, note_unrun
from wakeful.jobs.payload import (
    BATCH,
    decode_kept,
    decode_record,
    is_same,
    job_of_record,
    job_of_timer,
    readable_payload,
    record_key,
)
from wakeful.jobs.queries import PAGE, PARKED_MAX, Standing, asked_timer, standing
from wakeful.runtime.erasure import is_there
from wakeful.runtime.turn import Turn
from wakeful.store.protocol import Query
from wakeful.values.errors import Conflict, KeyTaken, Undecodable
from wakeful.values.timers import Parked, Timer

if TYPE_CHECKING:
    from wakeful.jobs.node_jobs import NodeJobs


async def standing_in_turn(turn: Turn, name: str) -> Standing | None:
    """How a job of this object stands for this turn, what it did itself included."""
    if name in turn.timers:
        timer = turn.timers[name]
        if timer is not None:
            return Standing(job_of_timer(timer, is_running=False), readable_payload(timer), timer)
        mine = turn.consumed
        if mine is not None and mine.name == name:
            return Standing(job_of_timer(mine, is_running=True), readable_payload(mine), mine)
        ended = next((one for one in reversed(turn.records) if one.key == record_key(name)), None)
        if ended is None:
            return None
        record = decode_record(ended)
        return Standing(job_of_record(turn.activation.id, name, record), record.kept)
    await turn.activation.settle()  # turns before this one may have changed it and not be on disk yet
    found = await standing(turn.activation.node, turn.activation.id, name)
    return None if found is not None and found.is_asked else found


async def place(feature: "NodeJobs", turn: Turn, asked: JobRequest, *, is_newest: bool) -> Standing | None:
    """Set the job's timer, unless its key is in use: then the job that has it, or `KeyTaken` when that is another."""
    turn.check_writable()
    if asked.kept.key is not None:
        there = await standing_in_turn(turn, asked.timer.name)
        # One that only the ledger knows of has no key any more: its record has expired.
        existing = None if is_newest or there is None or there.kept is None else same(asked, there)
        if existing is not None:
            return existing
        await _clear_way(turn, asked.timer.name, there)
        if there is not None and there.kept is not None and there.timer is not turn.consumed:
            leave_queue(turn.activation.node, feature.order, turn, there.kept)
    turn.set_timer(asked.timer)
    turn.send(errands(turn.activation.node, feature.order, asked))
    return None


def same(asked: JobRequest, there: Standing) -> Standing:
    """The job that has the key already, if it is the one that is asked for."""
    if there.kept is not None and is_same(asked.kept, there.kept):
        return there
    raise KeyTaken(
        f"{asked.timer.id}: job key {asked.kept.key!r} belongs to another call, time or metadata "
        f"({there.job.name}, {there.job.state}, due {there.job.due_at.isoformat()}); use another key, or `schedule` it with replace=True",
        code="job.key",
    )


async def _clear_way(turn: Turn, name: str, there: Standing | None) -> None:
    """The newest version is coming: whatever is parked under its name goes."""
    if there is not None and there.parked is not None:
        id = turn.activation.id
        query = Query(cls=id.cls, key=id.key, name=name, limit=PARKED_MAX)
        parked = await turn.activation.node.reading(turn.activation.node.store.find_parked(query))
        turn.unparks = [*turn.unparks, *(one.number for one in parked)]


async def cancel(feature: "NodeJobs", turn: Turn, name: str, reason: str = "cancelled") -> bool:
    """True: it has not ended and never will run (again). False: it is over, or unknown, or is this very turn."""
    turn.check_writable()
    is_cancelled = await _cancel_asked(turn, name)
    there = await standing_in_turn(turn, name)
    if there is not None and there.parked is not None:
        await _clear_way(turn, name, there)
        await end_failed(feature, turn, there.parked, reason)
        return True
    if there is None or there.timer is None or (there.job.state == "running" and there.timer is turn.consumed):
        return is_cancelled
    await cancel_timer(feature, turn, there.timer, reason)
    return True


async def withdraw(feature: "NodeJobs", turn: Turn, name: str, token: str) -> None:
    """Clear that very version of a key, which came too late; one put in its place since stays."""
    node, id = turn.activation.node, turn.activation.id
    await turn.activation.settle()
    found = await node.reading(node.store.find_timers(Query(cls=id.cls, key=id.key, name=name, limit=1)))
    if found and (kept := readable_payload(found[0])).token == token:
        turn.clear_timer(name)
        leave_queue(node, feature.order, turn, kept)


async def cancel_timer(feature: "NodeJobs", turn: Turn, timer: Timer, reason: str) -> None:
    """Clear a job that is owed, and tell those who wait for it."""
    turn.clear_timer(timer.name)
    note_unrun(turn, timer, reason)
    feature.counts.cancelled += 1
    await end(feature, turn, timer, readable_payload(timer), "cancelled", error=reason, has_run=False)


async def end_forgotten(feature: "NodeJobs", turn: Turn, timer: Timer) -> None:
    """Its object is forgotten: who waits for it is told, and those that it waits for need not tell it any more."""
    node, id = turn.activation.node, job_id(timer.id, timer.name)
    for other in readable_payload(timer).waits:
        target, name = (timer.id, "") if other == BATCH else parse_id(other)
        if target != timer.id and await is_there(node, target):
            turn.send([errand(node, feature.order, UNTELL, target, [name, id])])
    await cancel_timer(feature, turn, timer, FORGOTTEN)


async def end_failed(feature: "NodeJobs", turn: Turn, parked: Parked, reason: str) -> None:
    """One that failed for good is not to be redriven: those who wait for it are told that it is cancelled."""
    try:
        kept = decode_kept(parked.timer)
    except Undecodable:
        return  # written by a version that this one can't read: it goes, and who waits for it can't be known
    note_unrun(turn, parked.timer, reason)
    feature.counts.cancelled += 1
    await end(feature, turn, parked.timer, kept, "cancelled", error=reason, has_run=False)


async def _cancel_asked(turn: Turn, name: str) -> bool:
    """Errands on their way that would schedule it here are cleared too."""
    if key_of(name) is None:
        return False
    id, prefix = turn.activation.id, ask_prefix(name)
    query = Query(cls=id.cls, key=id.key, name_prefix=prefix, limit=PAGE)
    await turn.activation.settle()
    found = await turn.activation.node.reading(turn.activation.node.store.find_timers(query))
    for one in found:
        turn.clear_timer(one.name)
        note_unrun(turn, asked_timer(one), "cancelled")
    return bool(found)


async def redrive(feature: "NodeJobs", turn: Turn, name: str) -> Standing:
    """A failed job is owed again, at once and with a fresh count; `Conflict` when it is not parked."""
    there = await standing_in_turn(turn, name)
    if there is None or there.parked is None:
        how = "unknown" if there is None else there.job.state
        raise Conflict(f"job {job_id(turn.activation.id, name)} is {how}, not failed, so it can't be redriven")
    node, old = turn.activation.node, there.parked.timer
    now = node.clock.now()
    fresh = replace(old, due_at=now, seq=feature.order.next(now), attempt=0, crashes=0, started=0)
    turn.set_timer(fresh)
    turn.unparks = [*turn.unparks, there.parked.number]
    return Standing(job_of_timer(fresh, is_running=False), there.kept, fresh)
