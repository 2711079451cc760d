"""Layer 4. What do jobs have done at each other's objects?

An errand is a timer under a name of its own, sent with a commit or inserted with a job, and so neither lost nor done
twice: `job-tell` notes that one job waits for another, `job-untell` that it does no longer, `job-told` brings it the
news, `job-ask` schedules under a key, `job-place` comes from the queue that a job goes through.
"""

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wakeful.jobs.ids import ASK, PLACE, TELL, TOLD, UNTELL, job_id, parse_id
from wakeful.jobs.job_owner import cancel_timer, end_forgotten, place, standing_in_turn
from wakeful.jobs.job_request import JobRequest, errand
from wakeful.jobs.node_jobs import NodeJobs
from wakeful.jobs.outcomes import FORGOTTEN, read, unwatch, watch, write
from wakeful.jobs.payload import BATCH, HELD_AT, JobPayload, decode_kept, encode_kept, without_ticket
from wakeful.jobs.queries import asked_timer, standing
from wakeful.runtime.admission import DROP, GO, QueueReply, decode_reply, leave_timer
from wakeful.runtime.timer_handler import Errands
from wakeful.runtime.turn import Turn
from wakeful.values.codec import decode
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import KeyTaken
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

log = logging.getLogger("wakeful.jobs")

ERRANDS = (TELL, UNTELL, TOLD, ASK, PLACE)
OUTCOMES = ("done", "failed", "cancelled")


class ErrandRuns(Errands):
    """The owner of the timers of one kind of errand. They need no awake object, and are tried until they succeed."""

    def __init__(self, feature: NodeJobs, prefix: str, deadline_ms: int) -> None:
        self.prefix = prefix
        self.deadline_ms = deadline_ms
        self._feature = feature

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        if self.prefix == TELL:
            await self._tell(turn, *decode(timer.payload or b""))
        elif self.prefix == UNTELL:
            await unwatch(turn, *decode(timer.payload or b""))
        elif self.prefix == TOLD:
            await self._on_told(turn, *decode(timer.payload or b""))
        elif self.prefix == PLACE:
            await self._on_place(turn, decode_reply(timer))
        else:
            await self._ask(turn, timer)
        return False

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        """Who asks to be told hears that there is nothing, and what was to be scheduled never runs."""
        if self.prefix == TELL:
            name, watcher = decode(timer.payload or b"")
            target, waiting = parse_id(watcher)
            node = turn.activation.node
            turn.send(
                [errand(node, self._feature.order, TOLD, target, [waiting, job_id(timer.id, name), FORGOTTEN, 0])]
            )
        elif self.prefix == ASK:
            await end_forgotten(self._feature, turn, asked_timer(timer))
        elif self.prefix == PLACE:
            self._give_back(turn, decode_reply(timer))

    async def _tell(self, turn: Turn, name: str, watcher: str) -> None:
        """A job waits for one of this object: note it, or, when that is over, say so at once."""
        node, id = turn.activation.node, turn.activation.id
        await turn.activation.settle()
        there = await standing(node, id, name)
        state = "unknown" if there is None else there.job.state
        if state in ("scheduled", "waiting", "running", "failed"):
            await watch(turn, name, watcher)
            return
        target, waiting = parse_id(watcher)
        turn.send([errand(node, self._feature.order, TOLD, target, [waiting, job_id(id, name), state, 0])])

    async def _on_told(self, turn: Turn, name: str, other: str, outcome: str, total: int) -> None:
        """Another job has ended, for which one of this object waits."""
        if total:
            await self._count(turn, name, outcome, total)
            return
        timer = await self._waiting(turn, name)
        if timer is None:
            return
        kept = decode_kept(timer)
        if other not in kept.waits:
            return
        if outcome == FORGOTTEN:
            nameless = replace(timer, payload=encode_kept(replace(kept, waits=())))
            await cancel_timer(self._feature, turn, nameless, "it depended on a job of an object that was forgotten")
            return
        if outcome != "done":
            how = "was cancelled" if outcome == "cancelled" else "is not known any more"
            await cancel_timer(self._feature, turn, timer, f"it depended on {other}, which {how}")
            return
        self._release(turn, timer, replace(kept, waits=tuple(one for one in kept.waits if one != other)))

    async def _count(self, turn: Turn, name: str, outcome: str, total: int) -> None:
        """One more of a batch has ended; its completion job goes when all have."""
        slot = (SYSTEM, f"jobs.batch:{name}")
        record = await read(turn, slot)
        counts = list(record) if isinstance(record, list) else [0, 0, 0]
        counts[OUTCOMES.index(outcome)] += 1
        if sum(counts) < total:
            write(turn, slot, counts)
            return
        if record is not None:
            write(turn, slot, None)
        timer = await self._waiting(turn, name)
        if timer is not None:
            kept = decode_kept(timer)
            waits = tuple(one for one in kept.waits if one != BATCH)
            self._release(turn, timer, replace(kept, waits=waits, ended=(counts[0], counts[1], counts[2])))

    async def _waiting(self, turn: Turn, name: str) -> Timer | None:
        there = await standing_in_turn(turn, name)
        return there.timer if there is not None and there.timer is not None else None

    def _release(self, turn: Turn, timer: Timer, kept: JobPayload) -> None:
        now = turn.activation.node.clock.now()
        due_at = HELD_AT if kept.waits else max(now, kept.due_at)
        turn.set_timer(
            replace(
                timer,
                due_at=due_at,
                nominal_at=due_at if not kept.waits else timer.nominal_at,
                payload=encode_kept(kept),
            )
        )

    async def _on_place(self, turn: Turn, reply: QueueReply) -> None:
        """Its queue lets a job go, drops it, or asks whether it is still there."""
        timer = await self._waiting(turn, reply.name)
        kept = None if timer is None else decode_kept(timer)
        if timer is None or kept is None or kept.ticket != reply.ticket:
            self._give_back(turn, reply)
        elif reply.word == DROP:
            outside = replace(timer, payload=encode_kept(without_ticket(kept)))
            await cancel_timer(self._feature, turn, outside, reply.reason)
        elif reply.word == GO and timer.due_at == HELD_AT:
            self._release(turn, timer, kept)

    def _give_back(self, turn: Turn, reply: QueueReply) -> None:
        """There is no such job any more, or it has asked anew since."""
        node = turn.activation.node
        seq = self._feature.order.next(node.clock.now())
        turn.send([leave_timer(node, reply.queue, reply.ticket, seq)])

    async def _ask(self, turn: Turn, errand: Timer) -> None:
        """Schedule a job under a key, as a turn elsewhere wanted."""
        timer = asked_timer(errand)
        is_newest = bool(decode(errand.payload or b"")[-1])
        try:
            await place(self._feature, turn, JobRequest(timer, decode_kept(timer)), is_newest=is_newest)
        except KeyTaken as error:
            log.warning("%s; it was asked for at the same moment and is dropped", error, extra={"code": "job.key"})
