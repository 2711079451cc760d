"""Layer 4. An actor has come to its end: how does the chart hear of it, once?"""

from typing import TYPE_CHECKING, Any

from wakeful.machines.carrier import RUN
from wakeful.machines.node_machines import NodeMachines, feature_of
from wakeful.machines.records import load
from wakeful.machines.steps import note, present, take
from wakeful.runtime.turn import Turn, running_turn
from wakeful.statechart.effects import done_event, error_event
from wakeful.statechart.step import step
from wakeful.values.codec import encode
from wakeful.values.timers import Timer
from wakeful.values.trace import marked

if TYPE_CHECKING:
    from wakeful.runtime.context import Context


async def apply(feature: NodeMachines, turn: Turn, id: str, number: int, *, is_good: bool, value: Any) -> bool:
    """Apply what an actor answered, unless it is too late; its timer goes with it."""
    bound = feature.bound(turn.activation.id.cls)
    kept = await present(feature, turn, bound)
    if kept is None or kept.running.get(id) != number:
        return False
    kept.running = {one: number for one, number in kept.running.items() if one != id}
    kept.begun = {one: number for one, number in kept.begun.items() if one != id}
    turn.clear_timer(f"{RUN}:{id}")
    event = done_event(id, value) if is_good else error_event(id, value)
    take(feature, turn, bound, kept, event, lambda snapshot, now: step(bound.chart, snapshot, event, now))
    return True


async def answered(ctx: "Context", id: str, number: int, run_id: str, began_at: int, is_good: bool, value: Any) -> None:
    """An invoked method has come to its end: the operation by which its answer reaches the machine."""
    turn = running_turn(ctx._activation, "machine.answer")
    if await apply(feature_of(ctx._activation.node), turn, id, number, is_good=is_good, value=value):
        error = None if is_good else f"{value['name']}: {value['message']}"
        note(turn, f"{RUN}:{id}", began_at, run_id=run_id, error=error)


async def keep(ctx: "Context", id: str, call: list[Any], is_good: bool, value: Any) -> None:
    """The chart could not take the answer: keep it with the timer of the run, which applies it without running again."""
    activation = ctx._activation
    turn, node = running_turn(activation, "machine.keep"), activation.node
    kept = await load(turn)
    if kept is not None and kept.running.get(id) == call[2]:
        now, seq = node.clock.now(), node.next_seq(activation.shard)
        payload = marked(encode([*call, [is_good, value]]), node.trace())
        turn.set_timer(Timer(activation.id, f"{RUN}:{id}", now, now, seq, payload=payload))
