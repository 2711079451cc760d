"""Layer 5. How does a program step a statechart by itself, without an object around it?

The pure step of machines: XState's machine config in, snapshots in plain JSON and a list of effects out.
"""

from wakeful.statechart.builder import build, final, history, invoke, parallel, state, to
from wakeful.statechart.chart import Chart
from wakeful.statechart.effects import (
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
from wakeful.statechart.fields import Implementations
from wakeful.statechart.snapshot import check_snapshot, matches, meta, tags
from wakeful.statechart.step import Snapshot, can, fire, start, step

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
