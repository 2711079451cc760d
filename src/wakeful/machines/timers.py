"""Layer 4. What happens when one of a machine's timers is due: a delay, an action, or an actor?"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wakeful.machines.actors import SAY
from wakeful.machines.node_machines import DELAY, DO, RUN, NodeMachines, feature_of
from wakeful.machines.records import (
    NEWER,
    ROW,
    MachineRecord,
    Sender,
    forget_sender,
    load,
    read_sender,
    save,
    sender_slot,
    sent_by,
)
from wakeful.machines.steps import EVENT, note, present, take
from wakeful.runtime.context import runtime_of
from wakeful.runtime.timer_handler import Failed, Park, RowTimers, RunLater
from wakeful.runtime.turn import Turn, running_turn
from wakeful.statechart.effects import done_event, error_event
from wakeful.statechart.step import fire, step
from wakeful.values.codec import decode, encode
from wakeful.values.commits import Slot
from wakeful.values.errors import BadHandler, Conflict
from wakeful.values.timers import Occurrence, Timer, run_id
from wakeful.values.trace import current_trace, trace_in, with_trace, without_trace

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.runtime.context import Context
    from wakeful.runtime.object_runtime import ObjectRuntime


# An actor has come to its end: how does the chart hear of it, once?


async def end_actor(feature: NodeMachines, turn: Turn, id: str, number: int, *, is_good: bool, value: Any) -> bool:
    """Apply what an actor answered, unless it is too late; its timer goes with it."""
    bound = feature.bound_of(turn.activation.id.cls)
    kept = await present(feature, turn, bound)
    if kept is None or kept.running.get(id) != number:
        return False
    kept.running = {one: number for one, number in kept.running.items() if one != id}
    kept.begun = {one: number for one, number in kept.begun.items() if one != id}
    turn.clear_timer(f"{RUN}:{id}")
    event = done_event(id, value) if is_good else error_event(id, value)
    sender = Sender("child", id)
    take(
        feature, turn, bound, kept, event, lambda snapshot, now: step(bound.chart, snapshot, event, now), sender=sender
    )
    return True


async def hear(ctx: "Context", id: str, number: int, event: dict[str, Any]) -> None:
    """A callback sends something back: the operation by which that reaches the machine, unless it was stopped."""
    turn, feature = running_turn(runtime_of(ctx), SAY), feature_of(runtime_of(ctx).node)
    bound = feature.bound_of(turn.activation.id.cls)
    kept = await present(feature, turn, bound)
    if kept is None or kept.actors.get(id) != number:
        return
    now = turn.activation.node.clock.now()
    sender = Sender("child", id)
    take(feature, turn, bound, kept, event, lambda snapshot, at: step(bound.chart, snapshot, event, at), sender=sender)
    note(turn, EVENT, now)


async def take_answer(
    ctx: "Context", id: str, number: int, run_id: str, began_at: int, is_good: bool, value: Any
) -> None:
    """An invoked method has come to its end: the operation by which its answer reaches the machine."""
    turn = running_turn(runtime_of(ctx), "machine.answer")
    if await end_actor(feature_of(runtime_of(ctx).node), turn, id, number, is_good=is_good, value=value):
        error = None if is_good else f"{value['name']}: {value['message']}"
        note(turn, f"{RUN}:{id}", began_at, run_id=run_id, error=error)


async def keep(ctx: "Context", id: str, call: list[Any], is_good: bool, value: Any) -> None:
    """The chart could not take the answer: keep it with the timer of the run, which applies it without running again."""
    activation = runtime_of(ctx)
    turn, node = running_turn(activation, "machine.keep"), activation.node
    kept = await load(turn)
    if kept is not None and kept.running.get(id) == call[2]:
        now, seq = node.clock.now(), node.next_seq(activation.shard)
        payload = with_trace(encode([*call, [is_good, value]]), current_trace(node.tracer))
        turn.set_timer(Timer(activation.id, f"{RUN}:{id}", now, now, seq, payload=payload))


ROLL_OUT_MS = 60_000  # until a timer is looked at again that only a newer program can run
_CRASHED = {"name": "Crashed", "message": "the process died or gave the object away while it ran"}


class Owner(RowTimers, ABC):
    """What the owners of a machine's timers have in common: tried as the class says, then parked."""

    prefix = ""

    def __init__(self, feature: NodeMachines, deadline_ms: int) -> None:
        self._feature = feature
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        return await self.run(turn, self._feature.bound_of(activation.id.cls), timer)

    @abstractmethod
    async def run(self, turn: Turn, bound: "Bound", timer: Timer) -> bool:
        """Do what the timer is for; False: there was nothing to do."""

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        timer = failure.timer
        turn.occurrence = self.occurrence(timer)
        again = self._again(failure)
        return Park(timer) if again is None else again

    def occurrence(self, timer: Timer) -> Occurrence:
        """What the ledger says of it."""
        return Occurrence(timer.name, run_id(timer), timer.nominal_at)

    def _again(self, failure: Failed) -> RunLater | None:
        timer, error = failure.timer, failure.error
        if error is None:
            return None
        if isinstance(error, Conflict) and error.code == NEWER:
            return RunLater(timer.later(due_at=failure.now + ROLL_OUT_MS, attempt=timer.attempt))
        if isinstance(error, Conflict) and error.code == "chart.unfit":
            return None  # no wait makes it fit
        delay = self._feature.bound_of(timer.id.cls).retry.delay_ms(timer.attempt + 1, error, failure.roll)
        return None if delay is None else RunLater(timer.later(due_at=failure.now + delay, attempt=timer.attempt + 1))

    def reads(self, timer: Timer) -> Slot | None:
        return ROW


class Delays(Owner):
    """`machine:ID`: a delayed event of the chart is due."""

    prefix = DELAY

    async def run(self, turn: Turn, bound: "Bound", timer: Timer) -> bool:
        kept = await present(self._feature, turn, bound)
        id = timer.name.partition(":")[2]
        pending = [] if kept is None else kept.snapshot.get("pending") or []
        due = next((one for one in pending if one["id"] == id), None)
        if kept is None or due is None:
            return False
        if turn.timers[timer.name] is not None and due["due_at"] > turn.fired_at:
            return False  # by the rule of its class it is due later, and has been set anew
        turn.clear_timer(timer.name)
        take(
            self._feature,
            turn,
            bound,
            kept,
            due["event"],
            lambda snapshot, now: fire(bound.chart, snapshot, id, now),
            sender=Sender("timer", id),
            is_for_it=due.get("target") is None,
        )
        return True


class Doings(Owner):
    """`machine-do:…`: the actions of one step, one turn each, in the order of the chart."""

    prefix = DO

    async def run(self, turn: Turn, bound: "Bound", timer: Timer) -> bool:
        turn.occurrence = self.occurrence(timer)
        (name, params, context, event, *_), *rest = decode(without_trace(timer.payload))
        if name not in bound.doings:
            raise BadHandler(f"{timer.id}: {bound.name} has no @action {name!r} any more", code="chart.unbound")
        with sent_by(await read_sender(turn, timer.name)):
            await bound.method(name, turn.activation.instance, context, event, params)
        if rest:
            node = turn.activation.node
            now, seq = node.clock.now(), node.next_seq(turn.activation.shard)
            turn.set_timer(
                Timer(timer.id, timer.name, now, now, seq, payload=with_trace(encode(rest), trace_in(timer.payload)))
            )
        else:
            await forget_sender(turn, timer.name)
        return True

    def occurrence(self, timer: Timer) -> Occurrence:
        name = decode(without_trace(timer.payload))[0][0]
        return Occurrence(f"{DO}:{name}", run_id(timer), timer.nominal_at)

    def reads(self, timer: Timer) -> Slot | None:
        return sender_slot(timer.name)


class Runs(Owner):
    """`machine-run:ID`: a method that the chart invoked. Its timer stays until the answer is applied."""

    prefix = RUN

    async def run(self, turn: Turn, bound: "Bound", timer: Timer) -> bool:
        kept = await present(self._feature, turn, bound)
        call, answer = _read(timer)
        id, number = timer.name.partition(":")[2], call[2]
        if kept is None or kept.running.get(id) != number:
            return False  # the state was left
        is_here = turn.activation.node.sideline.seq_of(timer.id, timer.name) == timer.seq
        begins_once = bound.on_crash == "error" and call[0] not in bound.callbacks
        if begins_once and answer is None and not is_here:
            answer = None if await self._is_first(turn, kept, id, number) else [False, _CRASHED]
        if answer is not None:
            return await end_actor(self._feature, turn, id, number, is_good=answer[0], value=answer[1])
        if call[0] not in bound.actors:
            raise BadHandler(f"{timer.id}: {bound.name} has no method {call[0]!r} any more", code="chart.unbound")
        del turn.timers[timer.name]
        self._feature.actors.begin(turn.activation, bound, timer, call)
        return False

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        """Three processes died while it ran: an error for the chart, which is not to wait for ever."""
        timer = failure.timer
        call, answer = _read(timer)
        if failure.error is not None or answer is not None:
            return await super().failed(activation, turn, failure)
        later = timer.later(due_at=failure.now, attempt=timer.attempt)
        payload = with_trace(encode([*call, [False, _CRASHED]]), trace_in(timer.payload))
        return RunLater(replace(later, payload=payload))

    async def _is_first(self, turn: Turn, kept: MachineRecord, id: str, number: int) -> bool:
        """It has not begun before; from now on it has, on disk."""
        if kept.begun.get(id) == number:
            return False
        kept.begun = {**kept.begun, id: number}
        save(turn, kept)
        await turn.activation.commit_now()
        return True


def _read(timer: Timer) -> tuple[list[Any], list[Any] | None]:
    """What is to be called, and the answer if there is one already that the chart has not taken."""
    found = decode(without_trace(timer.payload))
    return found[:5], found[5] if len(found) > 5 else None
