"""Layer 4. The process was gone: when are the delays of a machine due now?

`deadline`: when they were due anyway. `restart`: their whole length after the object came to the process that runs it
now. `pause_while_down`: later by the time in which nobody was there.
"""

from typing import TYPE_CHECKING

from wakeful.machines.carrier import DELAY
from wakeful.machines.records import MachineRecord, save
from wakeful.runtime.tracer import carried
from wakeful.runtime.turn import Turn
from wakeful.values.timers import Timer
from wakeful.values.trace import marked

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.machines.node_machines import NodeMachines


async def resume(feature: "NodeMachines", turn: Turn, bound: "Bound", kept: MachineRecord) -> None:
    """Set its pending delays by the rule of its class; a reader sees them so and writes nothing."""
    if bound.resume == "deadline":
        return
    activation = turn.activation
    pending = kept.snapshot.get("pending") or []
    if bound.resume == "restart":
        if kept.epoch == activation.epoch:
            return
        # Not from now: nobody may have looked at it since it came, and its old timers are due before the new ones.
        since = activation.node.ownership.taken_at.get(activation.shard, 0)
        moved = [{**one, "due_at": max(one["due_at"], since + int(one.get("delay_ms") or 0))} for one in pending]
        kept.epoch = activation.epoch
    else:
        down_ms = await feature.downtime.ask()
        if down_ms <= kept.down_ms:
            return
        moved = [{**one, "due_at": one["due_at"] + down_ms - kept.down_ms} for one in pending]
        kept.down_ms = down_ms
    kept.snapshot = {**kept.snapshot, "pending": moved}
    if not turn.is_reader:
        set_delays(turn, kept)
        save(turn, kept)


def set_delays(turn: Turn, kept: MachineRecord) -> None:
    """A timer for each delay that its snapshot has pending."""
    activation = turn.activation
    for one in kept.snapshot.get("pending") or ():
        seq = activation.node.next_seq(activation.shard)
        payload = marked(None, carried(turn, DELAY))
        turn.set_timer(Timer(activation.id, f"{DELAY}:{one['id']}", one["due_at"], one["due_at"], seq, payload=payload))
