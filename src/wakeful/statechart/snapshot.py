"""Layer 1, pure. How does the state of a chart become plain JSON, and how is it read again?

A snapshot has the keys of XState's persisted one (`value`, `context`, `status`, `output`, `error`, `historyValue`,
`children`), and what XState keeps elsewhere: `pending` (its scheduler's events, with the instant instead of
a start), `seq` (numbers given out so far), and `order` (the active leaves in the order in which they became active,
only where that differs from the document's and can matter).
"""

import itertools
from collections.abc import Mapping
from typing import Any

from wakeful.statechart.chart import KEPT_MAX, Chart
from wakeful.statechart.fields import bad
from wakeful.statechart.state_tree import is_in, state_mask
from wakeful.statechart.structure import ChartState, ChartStep, Configuration, mask_of

STATUSES = ("active", "done", "error", "stopped")


def restore(chart: Chart, snapshot: Mapping[str, Any], event: dict[str, Any], now: int) -> ChartStep:
    """The state of a chart as it was when the snapshot was made."""
    kept = snapshot.get("historyValue")
    return ChartStep(
        configuration=configuration_of(chart, snapshot),
        context=snapshot["context"],
        kept=_recall(chart, kept) if kept else {},
        children=snapshot.get("children") or {},
        pending=snapshot.get("pending") or [],
        seq=snapshot.get("seq") or 0,
        event=event,
        now=now,
    )


def dump(chart: Chart, turn: ChartStep) -> dict[str, Any]:
    """The snapshot of a chart."""
    configuration = turn.configuration
    snapshot = {
        "value": configuration.value(chart.root),
        "context": turn.context,
        "status": turn.status,
        "output": turn.output,
        "error": turn.error,
        "historyValue": {id: [{"id": node.id} for node in nodes] for id, nodes in turn.kept.items()},
        "children": turn.children,
        "pending": turn.pending,
        "seq": turn.seq,
    }
    if chart.has_always and len(configuration.leaves) > 1:
        leaves = configuration.leaves
        if any(one.index > two.index for one, two in itertools.pairwise(leaves)):
            snapshot["order"] = [leaf.id for leaf in leaves]
    return snapshot


def configuration_of(chart: Chart, snapshot: Mapping[str, Any]) -> Configuration:
    """The active states of a snapshot; an error when it is of another chart."""
    value = snapshot["value"]
    order = snapshot.get("order")
    if not order:
        # Its text finds again what was worked out for a value of many states.
        text = value if isinstance(value, str) else repr(value)
        configuration = chart.by_value.get(text)
        if configuration is None:
            configuration = chart.configuration(mask_of(chart.root, value))
            if len(chart.by_value) >= KEPT_MAX:
                chart.by_value.clear()  # texts that are the same value in another order
            chart.by_value[text] = configuration
        return configuration
    mask = mask_of(chart.root, value)
    leaves = tuple(_node(chart, id, "order") for id in order)
    wanted = 0
    for leaf in leaves:
        wanted |= leaf.bit
    if wanted != sum(node.bit for node in chart.nodes if node.is_leaf and mask & node.bit):
        raise bad("order", "the snapshot's order is not one of its active states", code="chart.snapshot")
    return chart.configuration(mask, leaves)


def matches(chart: Chart, snapshot: Mapping[str, Any], value: Any) -> bool:
    """Whether a snapshot is in a state: `"a.b"`, `"#id"`, or a state value, all of which must be active."""
    wanted = state_mask(value, "matches", chart.root, chart.ids)
    active = configuration_of(chart, snapshot).mask
    return is_in(value, chart.root, active) if isinstance(value, Mapping) else active & wanted == wanted


def tags(chart: Chart, snapshot: Mapping[str, Any]) -> list[str]:
    """The tags of the active states."""
    return list(configuration_of(chart, snapshot).tags)


def meta(chart: Chart, snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The meta data of the active states, by their ids."""
    mask = configuration_of(chart, snapshot).mask
    return {node.id: node.meta for node in chart.nodes if node.meta is not None and mask & node.bit}


def check_snapshot(chart: Chart, snapshot: Mapping[str, Any]) -> None:
    """Refuse what is not a snapshot of this chart, saying which state or key does not fit."""
    for key in ("value", "context", "status"):
        if key not in snapshot:
            raise bad(key, "the snapshot lacks it", code="chart.snapshot")
    if snapshot["status"] not in STATUSES:
        raise bad("status", f"{snapshot['status']!r} is none of {', '.join(STATUSES)}", code="chart.snapshot")
    if not isinstance(snapshot["context"], Mapping):
        raise bad("context", f"{snapshot['context']!r} is not a mapping", code="chart.snapshot")
    configuration_of(chart, snapshot)
    _recall(chart, snapshot.get("historyValue") or {})


def _recall(chart: Chart, kept: Mapping[str, Any]) -> dict[str, tuple[ChartState, ...]]:
    found = {}
    for id, nodes in kept.items():
        _node(chart, id, "historyValue")
        found[id] = tuple(_node(chart, one["id"], f"historyValue.{id}") for one in nodes)
    return found


def _node(chart: Chart, id: str, path: str) -> ChartState:
    node = chart.ids.get(id)
    if node is None:
        raise bad(path, f"the snapshot names '#{id}', and the chart has no such state", code="chart.snapshot")
    return node
