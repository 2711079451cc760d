"""Layer 5. How does a program step a statechart by itself, without an object around it?

The pure step of machines: XState's machine config in, snapshots in plain JSON and a list of effects out.
"""

from wakeful.logic.chart.building import build, final, history, invoke, parallel, state, to
from wakeful.logic.chart.chart import Chart
from wakeful.logic.chart.effects import (
    PARENT,
    Act,
    Cancel,
    Delay,
    Effect,
    Emit,
    Invoke,
    Log,
    Send,
    Stop,
    done_event,
    error_event,
    snapshot_event,
)
from wakeful.logic.chart.names import Implementations
from wakeful.logic.chart.snapshot import check_snapshot, matches, meta, tags
from wakeful.logic.chart.step import Snapshot, can, fire, start, step

__all__ = [
    "PARENT",
    "Act",
    "Cancel",
    "Chart",
    "Delay",
    "Effect",
    "Emit",
    "Implementations",
    "Invoke",
    "Log",
    "Send",
    "Snapshot",
    "Stop",
    "build",
    "can",
    "check_snapshot",
    "done_event",
    "error_event",
    "final",
    "fire",
    "history",
    "invoke",
    "matches",
    "meta",
    "parallel",
    "snapshot_event",
    "start",
    "state",
    "step",
    "tags",
    "to",
]
