"""Layer 4. What happens when a job is due, and when it has failed?"""

import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wakeful.jobs.ids import PLACE, PREFIX, attempt_id, job_id
from wakeful.jobs.job import Again, Job, Stop
from wakeful.jobs.job_owner import end_failed, end_forgotten
from wakeful.jobs.job_request import check_own, leave_queue
from wakeful.jobs.node_jobs import NodeJobs
from wakeful.jobs.outcomes import WATCHED, end
from wakeful.jobs.payload import (
    HELD_AT,
    STOPPED,
    JobPayload,
    arguments_of,
    decode_kept,
    encode_kept,
    job_of_timer,
    readable_payload,
    without_ticket,
)
from wakeful.jobs.queries import is_duplicate
from wakeful.jobs.retries import ask
from wakeful.policy.retry import Retry
from wakeful.runtime.admission import QueuePlace, join_timer, new_ticket, with_ticket
from wakeful.runtime.timer_handler import Failed, Park, RowTimers, RunLater
from wakeful.runtime.turn import Turn
from wakeful.values.codec import encode
from wakeful.values.commits import Slot
from wakeful.values.errors import BadInput, BadTime, LimitExceeded, Undecodable
from wakeful.values.timers import Entry, Occurrence, Parked, Timer, check_answer, storable, words_of
from wakeful.values.times import LATEST_MS, duration_ms
from wakeful.values.trace import LINK, TRACE

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

log = logging.getLogger("wakeful.jobs")

DEFAULT = Retry()
CRASHED = "the process died too often while this ran"
ERROR_CHARS_MAX = 500  # of the last attempt, carried with the timer


class JobRuns(RowTimers):
    """The owner of the timers named `job:…`."""

    def __init__(self, feature: NodeJobs, deadline_ms: int) -> None:
        self.prefix = PREFIX
        self.deadline_ms = deadline_ms
        self._feature = feature

    # what the node asks of a timer's owner

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        kept = decode_kept(timer)
        if kept.key is not None and await self._is_duplicate(activation, timer, kept):
            leave_queue(activation.node, self._feature.order, turn, kept)
            return False
        if kept.place is not None and kept.ticket is None:
            self._join_queue(turn, timer, kept, kept.place)
            return False
        turn.occurrence = Occurrence(timer.name, attempt_id(timer, kept.method), timer.nominal_at)
        turn.job = partial(job_of_timer, timer, kept, is_running=True)  # few ask, and making it is a tenth of a run
        answer = await self._call(activation, kept)
        check_answer(answer, "job", f"{activation.id}.{kept.method}")
        counters, now = self._feature.counts, activation.node.clock.now()
        counters.lateness.add(turn.fired_at - timer.due_at)
        counters.duration.add(now - turn.fired_at)
        if turn.timers.get(timer.name) is not None:
            leave_queue(activation.node, self._feature.order, turn, kept)
            counters.run += 1
            return True  # it put a newer version in its own place
        if isinstance(answer, Again):
            self._again(turn, timer, kept, now + duration_ms(answer.after))
            counters.rescheduled += 1
            return False
        if isinstance(answer, Stop):
            reason = storable(answer.reason) or "stopped"
            turn.entries = [*turn.entries, self._entry(turn, timer, now, f"{STOPPED} {answer.reason}")]
            await end(self._feature, turn, timer, kept, "cancelled", error=reason)
            counters.cancelled += 1
            return False
        result = None if answer is None else self._encode_answer(activation, timer, answer)
        await end(self._feature, turn, timer, kept, "done", result=result)
        counters.run += 1
        return True

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park:
        timer, error = failure.timer, failure.error
        try:
            kept = decode_kept(timer)
        except Undecodable:
            turn.occurrence = Occurrence(timer.name, attempt_id(timer, ""), timer.nominal_at)
            self._feature.counts.parked += 1
            return Park(timer)  # written by a version that this one can't read; redriven, another may
        turn.occurrence = Occurrence(timer.name, attempt_id(timer, kept.method), timer.nominal_at)
        text = CRASHED if error is None else words_of(error)[:ERROR_CHARS_MAX]
        also = ""
        if error is not None:
            due_at, also = await self._retry_at(activation, timer, kept, failure, text)
            if due_at is not None:
                self._feature.counts.retried += 1
                later = timer.later(due_at=due_at, attempt=timer.attempt + 1)
                leave_queue(activation.node, self._feature.order, turn, kept)
                return RunLater(replace(later, payload=encode_kept(replace(without_ticket(kept), error=text))))
        self._feature.counts.parked += 1
        await end(self._feature, turn, timer, kept, "failed", error=text)
        # Its batch has been told: redriven, it is not counted there a second time.
        return Park(replace(timer, payload=encode_kept(replace(without_ticket(kept), batch=None))), also)

    async def on_dropped(self, turn: Turn, parked: Parked) -> None:
        await end_failed(self._feature, turn, parked, "dropped")

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        await end_forgotten(self._feature, turn, timer)

    def reads(self, timer: Timer) -> Slot | None:
        return WATCHED

    def trace_of(self, timer: Timer) -> str | None:
        """The trace of whoever asked for it."""
        return readable_payload(timer).trace

    def joins_queue(self, timer: Timer) -> bool:
        """All that it does now is to join its queue, for which nobody need be woken."""
        kept = readable_payload(timer)
        return kept.place is not None and kept.place.ticket is None

    # running

    def _join_queue(self, turn: Turn, timer: Timer, kept: JobPayload, place: QueuePlace) -> None:
        """It is due: it lies down again until its queue says that it may run."""
        node = turn.activation.node
        place = with_ticket(place, new_ticket(node))
        held = timer.later(due_at=HELD_AT, attempt=timer.attempt)
        turn.set_timer(replace(held, payload=encode_kept(replace(kept, place=place))))
        seq = self._feature.order.next(node.clock.now())
        turn.send([join_timer(node, timer, place, seq, reply=PLACE)])

    async def _is_duplicate(self, activation: "ObjectRuntime", timer: Timer, kept: JobPayload) -> bool:
        if not await is_duplicate(activation.node, timer, kept):
            return False
        self._feature.counts.duplicates += 1
        log.info("%s %s came twice at once; it ran once", timer.id, timer.name, extra={"code": "job.duplicate"})
        return True

    def _call(self, activation: "ObjectRuntime", kept: JobPayload) -> Awaitable[Any]:
        instance = activation.instance
        check_own(instance.__class__, kept.method)  # it was there when the job was made, but programs change
        args, kwargs = arguments_of(kept)
        if activation.node.tracer is None and kept.trace is not None:
            TRACE.set(kept.trace.partition(LINK)[0] or None)  # else the span of this turn is what runs here
        return getattr(instance, kept.method)(*args, **kwargs)  # type: ignore[no-any-return]

    def _again(self, turn: Turn, timer: Timer, kept: JobPayload, due_at: int) -> None:
        """The same job once more: a new setting of its timer, with a fresh count."""
        now = turn.activation.node.clock.now()
        if due_at > LATEST_MS:
            raise BadTime(
                f"job {job_id(timer.id, timer.name)}: Again is past the latest time, 9999-01-01", code="time.late"
            )
        leave_queue(turn.activation.node, self._feature.order, turn, kept)
        is_same = kept.error is None and kept.place is None
        payload = timer.payload if is_same else encode_kept(replace(without_ticket(kept), error=None))
        turn.set_timer(
            replace(
                timer,
                due_at=due_at,
                nominal_at=due_at,
                seq=self._feature.order.next(now),
                attempt=0,
                crashes=0,
                started=0,
                payload=payload,
            )
        )
        turn.entries = [*turn.entries, self._entry(turn, timer, now, f"again in {due_at - now} ms")]

    def _encode_answer(self, activation: "ObjectRuntime", timer: Timer, answer: Any) -> bytes:
        what = f"result of job {job_id(timer.id, timer.name)}"
        try:
            data = encode(answer)
        except BadInput as error:
            raise type(error)(f"{what}: {error.message}", code=error.code) from None
        most = activation.node.limits.arguments_bytes
        if len(data) > most:
            raise LimitExceeded(
                f"{what}: {len(data)} bytes, {len(data) - most} more than the limit of {most}; keep large data in storage",
                code="limit.arguments",
            )
        return data

    def _entry(self, turn: Turn, timer: Timer, now: int, note: str) -> Entry:
        assert turn.occurrence is not None  # `fire` begins with saying which it is
        return Entry(
            id=timer.id,
            name=timer.name,
            run_id=turn.occurrence.run_id,
            nominal_at=timer.nominal_at,
            fired_at=turn.fired_at,
            finished_at=now,
            attempt=timer.attempt,
            verdict="run",
            node=turn.activation.node.name,
            error=storable(note),
        )

    # failing

    async def _retry_at(
        self, activation: "ObjectRuntime", timer: Timer, kept: JobPayload, failure: Failed, text: str
    ) -> tuple[int | None, str]:
        """When it is tried again, None: never; and what went wrong in asking."""
        error, failures = failure.error, timer.attempt + 1
        assert error is not None
        policy = DEFAULT if kept.retry is None else kept.retry
        if isinstance(policy, str) and ":" not in policy and activation.instance is None:
            policy = DEFAULT  # it could not even wake, so its own method can't be asked
        if isinstance(policy, str):
            try:
                return await ask(policy, activation, _failed_job(timer, text), error), ""
            except Exception as second:
                return None, f"and its retry policy failed: {words_of(second)}"
        delay = policy.delay_ms(failures, error, failure.roll)
        return (None if delay is None else min(failure.now + delay, LATEST_MS)), ""


def _failed_job(timer: Timer, text: str) -> Job:
    """The job as its policy sees it: with the error of the attempt that just failed."""
    kept = replace(decode_kept(timer), error=text)
    return job_of_timer(replace(timer, payload=encode_kept(kept)), is_running=True)
