"""Layer 4. What passes between a workflow, those that it starts, and the objects that it calls?

Letters are timers of the one who gets them, under names that nobody else has: on disk with the step that sent them, and
gone with the turn that took them. A call runs in the turn of its letter, whose commit carries the answer: so it happens
once, and so is it answered.
"""

from typing import TYPE_CHECKING

from wakeful.policy.retry import Retry
from wakeful.runtime.admission import decode_reply
from wakeful.runtime.timer_handler import Errands, Failed, Park, RowTimers, RunLater
from wakeful.runtime.turn import Turn
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadInput, CallFailed, LimitExceeded
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Occurrence, Timer, run_id
from wakeful.values.trace import without_trace
from wakeful.workflows import acts, tickets
from wakeful.workflows.node_workflows import CALL, MAIL, PLACE, NodeWorkflows
from wakeful.workflows.records import load, pack_error, save

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

RETRY = Retry()


class Letters(RowTimers):
    """What workflows send has in common: tried some times, then given up, and then said to whoever waits."""

    prefix = ""

    def __init__(self, feature: NodeWorkflows, deadline_ms: int) -> None:
        self._feature = feature
        self.deadline_ms = deadline_ms

    def again(self, failure: Failed) -> RunLater | None:
        timer, error = failure.timer, failure.error
        delay = None if error is None else RETRY.delay_ms(timer.attempt + 1, error, failure.roll)
        return None if delay is None else RunLater(timer.later(due_at=failure.now + delay, attempt=timer.attempt + 1))

    def refuse(self, turn: Turn, to: list[str], error: BaseException) -> None:
        """Whoever waits for an answer gets this one."""
        answer = encode([False, pack_error(error)])
        self._feature.mail(turn, ObjectId(to[0], to[1]), ["event", to[2], answer])


class WorkflowMail(Letters):
    """`workflow-mail:…`: a start, an event, or the end of what started it."""

    prefix = MAIL

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        kind, *rest = decode(without_trace(timer.payload))
        turn.occurrence = Occurrence(f"{MAIL}:{kind}", run_id(timer), timer.nominal_at)
        if kind == "start":
            data, listener, *queue = rest
            await acts.start_from_letter(self._feature, turn, data, listener, *queue)
        elif kind == "event":
            event, value = rest
            if event.partition(":")[0] in ("call", "child"):
                await acts.take_answer(self._feature, turn, event, value)
        elif kind == "listen":
            record = await load(turn)
            if record is None:
                self.refuse(turn, rest[0], _forgotten(turn))  # else who asks would wait for ever
                return False
            await acts.add_listener(self._feature, turn, record, rest[0])
            save(turn, record)
        elif kind == "cancel":
            await acts.cancel_child(self._feature, turn, rest[0])
        elif kind == "forget":
            record = await load(turn)
            if record is not None and record.parent == rest[0]:
                turn.forget()
        return False

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        again = self.again(failure)
        if again is not None:
            return again
        kind, *rest = decode(without_trace(failure.timer.payload))
        if kind != "start":
            return Park(failure.timer)
        self.refuse(turn, rest[1], failure.error or _death())
        return None

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        kind, *rest = decode(without_trace(timer.payload))
        if kind == "start":
            self.refuse(turn, rest[1], _forgotten(turn))


class Calls(Letters):
    """`workflow-call:…`: a method of this object that a workflow calls; its turn sends the answer."""

    prefix = CALL

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        method, data, to = decode(without_trace(timer.payload))
        turn.occurrence = Occurrence(f"{CALL}:{method}", run_id(timer), timer.nominal_at)
        activation.known.check_method(method)
        args, kwargs = decode(data)
        turn.mark()
        answer = encode(await getattr(activation.instance, method)(*args, **kwargs))
        most = activation.node.limits.arguments_bytes
        if len(answer) > most:
            raise LimitExceeded(
                f"the answer of {activation.id}.{method} has {len(answer)} bytes, {len(answer) - most} more than the limit of "
                f"{most}; keep large data in storage",
                code="limit.answer",
            )
        self._feature.mail(turn, ObjectId(to[0], to[1]), ["event", to[2], encode([True, answer])])
        return True

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        method, _, to = decode(without_trace(failure.timer.payload))
        turn.occurrence = Occurrence(f"{CALL}:{method}", run_id(failure.timer), failure.timer.nominal_at)
        again = None if isinstance(failure.error, BadInput) else self.again(failure)
        if again is None:
            self.refuse(turn, to, failure.error or _death())
        return again

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        self.refuse(turn, decode(without_trace(timer.payload))[2], _forgotten(turn))


class Places(Errands):
    """`workflow-place:…`: what its queue says to a workflow. Nobody is woken for it, and it is tried until it succeeds."""

    prefix = PLACE

    def __init__(self, feature: NodeWorkflows, deadline_ms: int) -> None:
        self._feature = feature
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        await acts.take_place(self._feature, turn, decode_reply(timer))
        return False

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        tickets.refuse(self._feature, turn, decode_reply(timer))


def _death() -> CallFailed:
    return CallFailed("the process died too often while it ran", code="workflow.crashed")


def _forgotten(turn: Turn) -> CallFailed:
    return CallFailed(f"{turn.activation.id} was forgotten", code="workflow.forgotten")
