"""Layer 5. How does a machine that lived elsewhere become an object here, in one commit or not at all?"""

from typing import TYPE_CHECKING, Any

import msgspec

from wakeful.importers.archive_rules import check_own
from wakeful.importers.chart_fit import INIT, complete, fit_delays
from wakeful.importers.feature import IMPORT
from wakeful.importers.findings import FoundMachine
from wakeful.machines.carrier import Carrier
from wakeful.machines.node_machines import feature_of
from wakeful.machines.records import MachineRecord, fit, load, save
from wakeful.machines.steps import end, note, set_delays
from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import running_turn
from wakeful.statechart.snapshot import check_snapshot
from wakeful.values.errors import BadChart, BadOption, BadValue, Conflict

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.runtime.context import Context


async def arrive(
    ctx: "Context",
    data: dict[str, Any],
    *,
    is_dry: bool = False,
    replaces: bool = False,
    restarts: bool = True,
    from_version: int | None = None,
) -> dict[str, Any]:
    """The operation: make this object the machine that was found; what was taken of it and what was not."""
    activation = runtime_of(ctx)
    turn, node, id = running_turn(activation, IMPORT), activation.node, activation.id
    check_own(id, "import brings")
    machine = msgspec.convert(data, FoundMachine)
    feature = feature_of(node)
    bound = _bound_class(feature.classes, id.cls)
    before = await load(turn)
    if before is not None and not replaces:
        raise Conflict(
            f"{id} has been started already; --replace puts what is in the file in its place", code="import.exists"
        )
    now = node.clock.now()
    bound.with_instance(activation.instance)
    version = bound.version if from_version is None else from_version
    kept = MachineRecord(version, {**machine.snapshot, "children": {}, "pending": [], "seq": 0}, epoch=activation.epoch)
    if version == bound.version:
        _check(bound, str(id), kept.snapshot)
    fit(bound, id, kept, activation.instance)
    machine.snapshot = kept.snapshot
    pending = fit_delays(bound.chart, machine, now)
    kept.snapshot, starts = complete(
        bound.chart, {**kept.snapshot, "pending": pending}, machine, now=now, restarts=restarts
    )
    report = {
        "class": id.cls,
        "key": id.key,
        "value": kept.snapshot["value"],
        "status": kept.snapshot["status"],
        "is_imported": not is_dry,
        "was_replaced": before is not None,
        "taken": [_plain(one) for one in machine.remarks if one.is_taken],
        "left": [_plain(one) for one in machine.remarks if not one.is_taken],
    }
    if is_dry:
        return report
    if before is not None:
        end(feature, turn, bound, before)
    if bound.resume == "pause_while_down":
        kept.down_ms = await feature.downtime.ask()
    set_delays(turn, kept)
    carrier = Carrier(feature, bound, turn, kept, dict(INIT))
    carrier.carry(starts)
    save(turn, kept)
    feature.watchers.note_step(turn, bound, kept, carrier.emitted)
    note(turn, IMPORT, now)
    return report


async def chart_of(ctx: "Context") -> dict[str, Any]:
    """The operation: the chart of the object's class, without waking the object."""
    node, cls = runtime_of(ctx).node, runtime_of(ctx).id.cls
    bound = _bound_class(feature_of(node).classes, cls)
    return {"config": dict(bound.chart.config), "version": bound.version}


def _bound_class(classes: dict[str, "Bound"], cls: str) -> "Bound":
    found = classes.get(cls)
    if found is None:
        has = ", ".join(sorted(classes)) or "none"
        raise BadOption(f"{cls} is no Machine, so it has no chart; the program's machines: {has}", code="machine.class")
    return found


def _check(bound: "Bound", id: str, snapshot: dict[str, Any]) -> None:
    try:
        check_snapshot(bound.chart, snapshot)
    except BadChart as error:
        raise BadValue(f"{id}: {error.message}", code="import.unfit") from None


def _plain(remark: Any) -> dict[str, Any]:
    return {"what": remark.what, "name": remark.name, "note": remark.note}
