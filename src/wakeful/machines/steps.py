"""Layer 4. One event, one turn: how does a machine take it?"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from wakeful.machines.bindings import Bound
from wakeful.machines.carrier import Carrier
from wakeful.machines.node_machines import DELAY, NodeMachines
from wakeful.machines.records import MachineRecord, Parent, Sender, fit, load, save, sent_by
from wakeful.runtime.turn import Turn
from wakeful.statechart.effects import Effect, Invoke
from wakeful.statechart.step import start
from wakeful.values.timers import Entry, Timer, Verdict
from wakeful.values.trace import with_trace

# What the ledger calls an event that came as a call, and a machine that was begun anew.
EVENT, RESET = "machine.event", "machine.reset"
Stepped = tuple[dict[str, Any], list[Effect]]


async def begin(
    feature: NodeMachines,
    turn: Turn,
    bound: Bound,
    input: Any,
    parent: Parent | None = None,
    *,
    sender: Sender | None = None,
) -> MachineRecord:
    """Start a machine that has not been started; `sender` as in `take`."""
    activation = turn.activation
    down_ms = await feature.downtime.ask() if bound.resume == "pause_while_down" else 0
    bound.with_instance(activation.instance)
    sender = sender or Sender.of_turn(turn)
    with sent_by(sender):
        stepped = start(bound.chart, input, activation.node.clock.now())
    kept = MachineRecord(bound.version, stepped[0], parent=parent, epoch=activation.epoch, down_ms=down_ms)
    if parent is not None:
        kept.since = activation.node.next_seq(activation.shard)  # before the numbers of all that it starts
    _carry(feature, turn, bound, kept, stepped, {"type": "xstate.init", "input": input}, None, sender=sender)
    return kept


async def present(feature: NodeMachines, turn: Turn, bound: Bound) -> MachineRecord | None:
    """The machine as it is, under the chart of today and with its delays as they are due today; None before its start."""
    kept = await load(turn)
    if kept is None:
        return None
    before = kept.snapshot
    if fit(bound, turn.activation.id, kept, turn.activation.instance) and not turn.is_reader:
        _bring_over(feature, turn, bound, kept, before)
    await resume(feature, turn, bound, kept)
    return kept


def take(
    feature: NodeMachines,
    turn: Turn,
    bound: Bound,
    kept: MachineRecord,
    event: dict[str, Any],
    stepping: Callable[[dict[str, Any], int], Stepped],
    *,
    sender: Sender | None = None,
    is_for_it: bool = True,
) -> None:
    """Take one step of a machine that has been started; not `is_for_it`: it only passes the event on to an actor.

    `sender` is who sent the event; without one it is whoever called.
    """
    before = kept.snapshot
    bound.with_instance(turn.activation.instance)
    sender = sender or Sender.of_turn(turn)
    with sent_by(sender):
        stepped = stepping(before, turn.activation.node.clock.now())
    _carry(feature, turn, bound, kept, stepped, event, before, sender=sender, is_for_it=is_for_it)


def note(turn: Turn, name: str, fired_at: int, *, run_id: str = "", error: str | None = None) -> None:
    """The ledger's row of something that no timer's turn writes one for."""
    activation = turn.activation
    id, node = activation.id, activation.node
    if not run_id:
        text = f"{id.cls}\0{id.key}\0{name}\0{node.next_seq(activation.shard)}"
        run_id = blake2b(text.encode(), digest_size=12).hexdigest()
    verdict: Verdict = "run" if error is None else "failed"
    entry = Entry(id, name, run_id, fired_at, fired_at, node.clock.now(), 0, verdict, node.name, error)
    turn.entries = [*turn.entries, entry]


def _carry(
    feature: NodeMachines,
    turn: Turn,
    bound: Bound,
    kept: MachineRecord,
    stepped: Stepped,
    event: dict[str, Any],
    before: dict[str, Any] | None,
    *,
    sender: Sender,
    is_for_it: bool = True,
) -> None:
    kept.snapshot, effects = stepped
    carrier = Carrier(feature, bound, turn, kept, event, before, sender=sender)
    carrier.carry(effects)
    status = kept.snapshot["status"]
    if status != "active" and (before is None or before["status"] == "active"):
        kind = "done" if status == "done" else "error"
        carrier.tell_parent(kind, kept.snapshot["output" if status == "done" else "error"])
    elif kept.parent is not None and kept.parent.is_synced and is_for_it and status == "active":
        # After every event, also one that changed nothing, as in XState.
        carrier.tell_parent("snapshot", {key: kept.snapshot[key] for key in ("value", "context", "status")})
    save(turn, kept)
    feature.watchers.note_step(turn, bound, kept, carrier.emitted)


def _bring_over(feature: NodeMachines, turn: Turn, bound: Bound, kept: MachineRecord, before: dict[str, Any]) -> None:
    """Its class migrated it: timers and actors are those of the snapshot that came out; new ones are started."""
    for delay in before.get("pending") or ():
        turn.clear_timer(f"{DELAY}:{delay['id']}")
    set_delays(turn, kept)
    carrier = Carrier(feature, bound, turn, kept, {"type": "xstate.init"}, before)
    children = kept.snapshot.get("children") or {}
    for id in kept.actors.keys() - children.keys():
        carrier.stop(id)
    fresh = [(id, child) for id, child in children.items() if id not in kept.actors]
    carrier.carry(
        [Invoke(id, delay["src"], delay.get("input"), 0, bool(delay.get("syncSnapshot"))) for id, delay in fresh]
    )
    save(turn, kept)


def end(feature: NodeMachines, turn: Turn, bound: Bound, kept: MachineRecord) -> None:
    """Nothing of it goes on, and who started it does not hear of that."""
    clear(feature, turn, bound, kept)
    kept.snapshot = {**kept.snapshot, "status": "stopped", "pending": [], "children": {}}
    feature.watchers.note_step(turn, bound, kept, [])


def clear(feature: NodeMachines, turn: Turn, bound: Bound, kept: MachineRecord) -> None:
    """Take back its delays, and stop what it started."""
    kept.parent = None
    for one in kept.snapshot.get("pending") or ():
        turn.clear_timer(f"{DELAY}:{one['id']}")
    carrier = Carrier(feature, bound, turn, kept, {"type": "xstate.stop"})
    for id in list(kept.actors):
        carrier.stop(id)


# The process was gone: when are the delays of a machine due now?
#
# `deadline`: when they were due anyway. `restart`: their whole length after the object came to the process that runs it
# now. `pause_while_down`: later by the time in which nobody was there.


async def resume(feature: NodeMachines, turn: Turn, bound: Bound, kept: MachineRecord) -> None:
    """Set its pending delays by the rule of its class; a reader sees them so and writes nothing."""
    if bound.resume == "deadline":
        return
    activation = turn.activation
    pending = kept.snapshot.get("pending") or []
    if bound.resume == "restart":
        if kept.epoch == activation.epoch:
            return
        # Not from now: nobody may have looked at it since it came, and its old timers are due before the new ones.
        since = activation.node.taken_at(activation.shard)
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
        payload = with_trace(None, turn.trace_for(DELAY))
        turn.set_timer(Timer(activation.id, f"{DELAY}:{one['id']}", one["due_at"], one["due_at"], seq, payload=payload))
