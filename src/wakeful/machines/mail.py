"""Layer 4. What passes between a machine and the machines that it started?

Letters are timers of the one who gets them, under names that nobody else has: on disk with the step that sent them,
and gone with the step that took them. A letter may be late, so each says which start of the child it is about.
"""

from typing import TYPE_CHECKING, Any

from wakeful.machines.actors import plain
from wakeful.machines.family import tell_parent, was_forgotten
from wakeful.machines.node_machines import IMPORT, MAIL
from wakeful.machines.records import MachineRecord, Parent, Sender, forget, load, read_gone, save, set_gone
from wakeful.machines.steps import begin, end, present, take
from wakeful.machines.timers import Owner, end_actor
from wakeful.policy.retry import platform_delay_ms
from wakeful.runtime.timer_handler import Failed, Park, RunLater
from wakeful.runtime.turn import Turn
from wakeful.statechart.effects import snapshot_event
from wakeful.statechart.step import step
from wakeful.values.codec import decode
from wakeful.values.timers import Occurrence, Timer, run_id
from wakeful.values.trace import without_trace

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.runtime.object_runtime import ObjectRuntime

_DIED = {"name": "Crashed", "message": "the process died too often while it started"}


class Mail(Owner):
    """`machine-mail:…`: something from another machine, or for one that it started."""

    prefix = MAIL

    async def run(self, turn: Turn, bound: "Bound", timer: Timer) -> bool:
        turn.occurrence = self.occurrence(timer)
        kind, *rest = decode(without_trace(timer.payload))
        if kind == "start":
            parent, input, *found = rest
            if found:
                return await self._arrive(turn, bound, Parent(*parent), found[0])
            return await self._start(turn, bound, Parent(*parent), input)
        if kind == "stop":
            return await self._stop(turn, bound, rest[0])
        if kind == "down":
            return await self._take_word(turn, bound, timer, *rest)
        id, number, value = rest
        if kind == "up":
            kept = await present(self._feature, turn, bound)
            if kept is not None and number < kept.since:
                return False  # said to the one that was there before this one was started
            return self._take(turn, bound, kept, value, Sender("child", id))
        if kind == "snapshot":
            return await self._take_snapshot(turn, bound, id, number, value)
        if kind == "error" and was_forgotten(value) and not await self._lose(turn, bound, id, number):
            return False
        return await end_actor(self._feature, turn, id, number, is_good=kind == "done", value=value)

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        """A child that can't be started is an error for its parent; other letters are parked like any timer."""
        timer = failure.timer
        turn.occurrence = self.occurrence(timer)
        again = self._again(failure)
        if again is not None:
            return again
        kind, *rest = decode(without_trace(timer.payload))
        if kind != "start":
            return Park(timer)
        parent = Parent(*rest[0])
        error = _DIED if failure.error is None else plain(failure.error)
        self._feature.mail(turn, parent.id, ["error", parent.actor, parent.number, error])
        set_gone(turn, parent.number)
        return None

    async def on_forgotten(self, turn: Turn, timer: Timer) -> None:
        """One that was to be started never is: whoever waits for it hears of that."""
        kind, *rest = decode(without_trace(timer.payload))
        if kind == "start":
            await tell_parent(self._feature, turn, Parent(*rest[0]))

    def occurrence(self, timer: Timer) -> Occurrence:
        kind = decode(without_trace(timer.payload))[0]
        return Occurrence(f"{MAIL}:{kind}", run_id(timer), timer.nominal_at)

    async def _start(self, turn: Turn, bound: "Bound", parent: Parent, input: Any) -> bool:
        if not await self._make_room(turn, bound, parent):
            return False
        await begin(self._feature, turn, bound, input, parent, sender=_sender(parent))
        return True

    async def _arrive(self, turn: Turn, bound: "Bound", parent: Parent, found: dict[str, Any]) -> bool:
        """It lived elsewhere with its parent, and goes on from where it was."""
        if not await self._make_room(turn, bound, parent):
            return False
        activation = turn.activation
        arrive = activation.node.operations[IMPORT]
        await arrive(
            activation.instance.ctx, found["machine"], restarts=found["restarts"], replaces=True, parent=parent
        )
        return True

    async def _make_room(self, turn: Turn, bound: "Bound", parent: Parent) -> bool:
        """Whether this start is still to happen; then the one before it is ended."""
        taken_back = await read_gone(turn)
        if parent.number <= taken_back:
            set_gone(turn, 0)
            return False
        kept = await load(turn)
        if kept is not None and kept.parent is not None and kept.parent.number >= parent.number:
            return False
        if kept is not None:  # the one before: the letter that stops it is late, and will find another
            end(self._feature, turn, bound, kept)
            forget(turn)
        return True

    async def _stop(self, turn: Turn, bound: "Bound", number: int) -> bool:
        """Its parent left the state that it was for: nothing of it stays."""
        kept = await load(turn)
        there = 0 if kept is None or kept.parent is None else kept.parent.number
        if there < number and await read_gone(turn) < number:
            set_gone(turn, number)  # its start is yet to come, and must not happen
            return False
        if kept is None or there != number:
            return False
        end(self._feature, turn, bound, kept)
        forget(turn)
        return True

    async def _lose(self, turn: Turn, bound: "Bound", id: str, number: int) -> bool:
        """A child was forgotten: a letter that stops it would make it anew. Whether it is the one that there was."""
        kept = await present(self._feature, turn, bound)
        if kept is None or kept.actors.get(id) != number:
            return False
        kept.actors = {one: started for one, started in kept.actors.items() if one != id}
        save(turn, kept)
        return True

    async def _take_word(self, turn: Turn, bound: "Bound", timer: Timer, number: int, event: dict[str, Any]) -> bool:
        """Something that its parent says to it, when it is the one that was meant."""
        kept = await load(turn)
        there = 0 if kept is None or kept.parent is None else kept.parent.number
        if there < number and await read_gone(turn) < number:
            node = turn.activation.node  # its start is on the way
            delay = platform_delay_ms(timer.attempt, node.dice.random())
            turn.set_timer(timer.later(due_at=node.clock.now() + delay, attempt=timer.attempt + 1))
            return False
        if there != number:
            return False
        kept = await present(self._feature, turn, bound)
        return self._take(turn, bound, kept, event, _sender(None if kept is None else kept.parent))

    async def _take_snapshot(self, turn: Turn, bound: "Bound", id: str, number: int, value: Any) -> bool:
        kept = await present(self._feature, turn, bound)
        if kept is None or kept.actors.get(id) != number:
            return False
        return self._take(turn, bound, kept, snapshot_event(id, value), Sender("child", id))

    def _take(
        self, turn: Turn, bound: "Bound", kept: MachineRecord | None, event: dict[str, Any], sender: Sender
    ) -> bool:
        if kept is None:
            return False
        chart = bound.chart
        take(self._feature, turn, bound, kept, event, lambda there, at: step(chart, there, event, at), sender=sender)
        return True


def _sender(parent: Parent | None) -> Sender:
    return Sender("parent", object=None if parent is None else parent.id)
