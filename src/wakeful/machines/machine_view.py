"""Layer 4. From what is kept of a machine to what people see of it."""

from typing import TYPE_CHECKING, Any

from wakeful.machines.snapshot import Snapshot
from wakeful.statechart.chart import Chart
from wakeful.statechart.snapshot import configuration_of
from wakeful.statechart.structure import ChartState, candidates
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.machines.records import MachineRecord


def snapshot_of(bound: "Bound", kept: "MachineRecord") -> Snapshot:
    """The machine as it stands."""
    snapshot = kept.snapshot
    configuration = configuration_of(bound.chart, snapshot)
    if configuration.known is None:
        configuration.known = events_of(bound.chart, configuration.mask)
    accepts, refuses = configuration.known if snapshot["status"] == "active" else ((), ())
    return Snapshot(
        value=snapshot["value"],
        context=snapshot["context"],
        status=snapshot["status"],
        tags=configuration.tags,
        output=snapshot.get("output"),
        error=snapshot.get("error"),
        accepts=accepts,
        due={one["id"]: to_datetime(one["due_at"]) for one in snapshot.get("pending") or ()},
        version=kept.version,
        refuses=refuses,
    )


def events_of(chart: Chart, active: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of the events that the active states name, those that may do something, and those that can't: they are forbidden."""
    nodes = (node for node in chart.nodes if active & node.bit)
    types = dict.fromkeys(type for node in nodes for type in node.exact if not type.startswith("xstate."))
    accepts = tuple(type for type in types if _ask(chart.root, active, _event_of(type))[0])
    return accepts, tuple(type for type in types if type not in accepts)


def _event_of(type: str) -> str:
    """An event of that type; a wildcard stands for those that nobody names."""
    return f"{type[:-1]}\0" if type == "*" or type.endswith(".*") else type


def _ask(node: ChartState, active: int, event: str) -> tuple[bool, bool]:
    """Whether the event may do something in a state, and whether the states above are not asked in any case."""
    inside = [_ask(child, active, event) for child in node.children if active & child.bit]
    may_act = any(one[0] for one in inside)
    if any(one[1] for one in inside):
        return may_act, True
    for way in candidates(node, event):
        may_act = may_act or bool(way.targets or way.actions)
        if way.guard is None:
            return may_act, True
    return may_act, False


NEW: dict[str, Any] = {"value": None, "context": {}, "status": "new"}


def unstarted_snapshot(bound: "Bound") -> Snapshot:
    """Before its first event."""
    return Snapshot(**NEW, version=bound.version)
