"""Layer 4. What is kept of a machine, and how does it stand beside the chart of today?

One row beside the object's own: the snapshot in plain JSON, the version of the chart that made it, and which of its
actors have not answered yet. Timers are rows of their own; the snapshot says which there are.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from wakeful.logic.chart.snapshot import check_snapshot
from wakeful.machines.binding import Bound
from wakeful.runtime.turn import Turn
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM, Slot
from wakeful.values.errors import BadChart, Conflict

ROW: Slot = (SYSTEM, "machine")


@dataclass(slots=True)
class Kept:
    """A machine on disk."""

    version: int
    snapshot: dict[str, Any]
    running: dict[str, int] = field(default_factory=dict)  # actors by id that have not answered, with their number
    events: int = 0  # how many it has handled
    parent: tuple[str, str, str, int] | None = None  # class and key, and which of its actors this is
    epoch: int = 0  # of the shard, when its delays were last looked at
    down_ms: int = 0  # how long nobody was there, as it was counted then


async def load(turn: Turn) -> Kept | None:
    """The machine as this turn sees it; None before its start."""
    data = turn.writes[ROW] if ROW in turn.writes else await turn.activation.rows.read(ROW)
    return None if data is None else Kept(**decode(data))


def save(turn: Turn, kept: Kept) -> None:
    turn.writes[ROW] = encode(asdict(kept))


def forget(turn: Turn) -> None:
    turn.writes[ROW] = None


def fitted(bound: Bound, id: Any, kept: Kept, instance: Any) -> Kept:
    """The machine under the chart of today: as it is, or brought over by its class; `Conflict` names what does not fit."""
    if kept.version > bound.version:
        raise Conflict(
            f"{id} was written by version {kept.version} of its chart, this process has version {bound.version}; "
            "finish the roll-out, or start the newer program",
            code="chart.newer",
        )
    if kept.version < bound.version:
        snapshot = instance.migrate(kept.snapshot, kept.version)
        if not isinstance(snapshot, dict):
            raise Conflict(f"{id}: migrate must return a snapshot, not {snapshot!r}", code="chart.migrate")
        kept.snapshot, kept.version = snapshot, bound.version
    try:
        check_snapshot(bound.chart, kept.snapshot)
    except BadChart as error:
        raise Conflict(
            f"{id} does not fit its chart any more: {error.message}; raise the class's version and give it "
            "migrate(snapshot, from_version)",
            code="chart.unfit",
        ) from None
    return kept
