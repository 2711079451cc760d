"""Layer 4. A machine as people see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeful.statechart.chart import Chart
from wakeful.statechart.snapshot import configuration_of
from wakeful.statechart.structure import ChartState, candidates, fits
from wakeful.values.errors import BadValue
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.machines.records import MachineRecord


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a machine was at the moment of asking; it does not change when the machine does."""

    value: Any  # a state's name, or a dict of them where states are nested or parallel; None before the start
    context: dict[str, Any]
    status: str  # "new", "active", "done", "error" or "stopped"
    tags: tuple[str, ...] = ()
    output: Any = None
    error: Any = None
    accepts: tuple[str, ...] = ()  # the events for which the active states have a transition, guards aside
    due: Mapping[str, datetime] = field(default_factory=dict)  # pending delays by their ids
    version: int = 1
    refuses: tuple[str, ...] = ()  # the events that they name in order that nothing happens

    def matches(self, state: str | Mapping[str, Any]) -> bool:
        """Whether that state is active: `"paid"`, `"form.address"`, or a dict as in `value`."""
        wanted: Any = state
        if isinstance(state, str):
            *above, last = state.split(".")
            wanted = last
            for name in reversed(above):
                wanted = {name: wanted}
        return _is_within(wanted, self.value)

    def can(self, event: str) -> bool:
        """Whether an event of that type does anything now, as far as that is known without asking the guards."""
        known = [one for one in (*self.accepts, *self.refuses) if one == event or fits(event, one)]
        # By its name, else by the longest wildcard, as the chart decides.
        return event in self.accepts or (event not in self.refuses and max(known, key=len, default="") in self.accepts)

    def has_tag(self, tag: str) -> bool:
        return tag in self.tags


def _is_within(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, str):
        return value == wanted or (isinstance(value, Mapping) and wanted in value)
    if not isinstance(value, Mapping):
        return False  # a name says less than a mapping, also than an empty one
    return all(name in value and _is_within(inner, value[name]) for name, inner in wanted.items())


# From what is kept of a machine to what people see of it.


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


# What is an event?

# The one event of XState's own that is for callers: to a state by its id, where the chart lets it.
ROUTE = "xstate.route"


def event_of(event: str | Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """An event as it was given, `"PAY", amount=12` or a mapping with a type; `BadValue` when it is none for a caller."""
    if "type" in data:
        raise BadValue(f"{event!r} has its type already; leave out type={data['type']!r}", code="chart.event")
    given = {"type": event, **data} if isinstance(event, str) else event
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str) or given["type"] in ("", "*"):
        raise BadValue(f"{event!r} is no event; give its type as text, or a mapping with a type", code="chart.event")
    if given["type"].startswith("xstate.") and given["type"] != ROUTE:
        raise BadValue(f"{given['type']!r}: events that begin with 'xstate.' are the chart's own", code="chart.event")
    return {**given, **data}
