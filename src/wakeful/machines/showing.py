"""Layer 4. From what is kept of a machine to what people see of it."""

from typing import TYPE_CHECKING, Any

from wakeful.logic.chart.snapshot import configuration_of
from wakeful.machines.snapshot import Snapshot
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.machines.binding import Bound
    from wakeful.machines.kept import Kept


def shown(bound: "Bound", kept: "Kept") -> Snapshot:
    """The machine as it stands."""
    snapshot = kept.snapshot
    configuration = configuration_of(bound.chart, snapshot)
    is_active = snapshot["status"] == "active"
    return Snapshot(
        value=snapshot["value"],
        context=snapshot["context"],
        status=snapshot["status"],
        tags=configuration.tags,
        output=snapshot.get("output"),
        error=snapshot.get("error"),
        accepts=tuple(_accepted(bound, configuration.mask)) if is_active else (),
        due={one["id"]: to_datetime(one["due_at"]) for one in snapshot.get("pending") or ()},
        version=kept.version,
    )


def _accepted(bound: "Bound", mask: int) -> list[str]:
    found: dict[str, None] = {}
    for node in bound.chart.nodes:
        if mask & node.bit:
            found.update(dict.fromkeys(type for type in node.exact if not type.startswith("xstate.")))
            found.update(dict.fromkeys(type for type, _ in node.wild))
    return list(found)


NEW: dict[str, Any] = {"value": None, "context": {}, "status": "new"}


def unstarted(bound: "Bound") -> Snapshot:
    """Before its first event."""
    return Snapshot(**NEW, version=bound.version)
