"""Layer 4. One event, one turn: how does a machine take it?"""

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from wakeful.logic.chart.effects import Effect
from wakeful.logic.chart.step import start
from wakeful.machines.carrying import Carrier
from wakeful.machines.kept import Kept, fitted, load, save
from wakeful.runtime.turn import Turn
from wakeful.values.runs import Entry

if TYPE_CHECKING:
    from wakeful.machines.binding import Bound
    from wakeful.machines.feature import MachineFeature

EVENT = "machine.event"  # what the ledger calls an event that came as a call
Stepped = tuple[dict[str, Any], list[Effect]]


async def begin(
    feature: "MachineFeature", turn: Turn, bound: "Bound", input: Any, parent: list[Any] | None = None
) -> Kept:
    """Start a machine that has not been started."""
    activation = turn.activation
    now = activation.node.clock.now()
    bound.with_instance(activation.instance)
    snapshot, effects = start(bound.chart, input, now)
    kept = Kept(bound.version, snapshot, epoch=activation.epoch, down_ms=await feature.downtime.ask())
    kept.parent = None if parent is None else (parent[0], parent[1], parent[2], parent[3])
    await _take(feature, turn, bound, kept, (snapshot, effects), {"type": "xstate.init", "input": input}, None)
    return kept


async def present(feature: "MachineFeature", turn: Turn, bound: "Bound") -> Kept | None:
    """The machine as it is, under the chart of today; None before its start."""
    kept = await load(turn)
    return None if kept is None else fitted(bound, turn.activation.id, kept, turn.activation.instance)


async def take(
    feature: "MachineFeature",
    turn: Turn,
    bound: "Bound",
    kept: Kept,
    event: dict[str, Any],
    stepping: Callable[[dict[str, Any], int], Stepped],
) -> None:
    """Take one step of a machine that has been started."""
    before = kept.snapshot
    now = turn.activation.node.clock.now()
    bound.with_instance(turn.activation.instance)
    await _take(feature, turn, bound, kept, stepping(before, now), event, before)


async def _take(
    feature: "MachineFeature",
    turn: Turn,
    bound: "Bound",
    kept: Kept,
    stepped: Stepped,
    event: dict[str, Any],
    before: dict[str, Any] | None,
) -> None:
    kept.snapshot, effects = stepped
    kept.events += 1
    carrier = Carrier(feature, bound, turn, kept, event, before)
    carrier.carry(effects)
    status = kept.snapshot["status"]
    if status != "active" and (before is None or before["status"] == "active"):
        carrier.tell_parent(
            "done" if status == "done" else "error", kept.snapshot["output" if status == "done" else "error"]
        )
    elif kept.parent is not None and kept.snapshot is not before:
        carrier.tell_parent("snapshot", {key: kept.snapshot[key] for key in ("value", "context", "status")})
    save(turn, kept)
    feature.watchers.changed(turn, bound, kept)


def note(turn: Turn, kept: Kept, fired_at: int) -> None:
    """The ledger's row of an event that came as a call."""
    id, now = turn.activation.id, turn.activation.node.clock.now()
    text = f"{id.cls}\0{id.key}\0{EVENT}\0{kept.events}"
    entry = Entry(
        id,
        EVENT,
        blake2b(text.encode(), digest_size=12).hexdigest(),
        fired_at,
        fired_at,
        now,
        0,
        "run",
        turn.activation.node.name,
    )
    turn.entries = [*turn.entries, entry]
