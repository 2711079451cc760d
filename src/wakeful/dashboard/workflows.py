"""Layer 5. The part of an object's page that a workflow has: how it stands, its steps as a timeline, and what can be done to it."""

from datetime import datetime
from itertools import pairwise
from math import log1p
from typing import TYPE_CHECKING, Any

from wakeful.dashboard.visits import Visit
from wakeful.values.errors import BadOption, UnknownObject
from wakeful.values.ids import ObjectId
from wakeful.values.times import from_datetime
from wakeful.views import workflows
from wakeful.workflows.node_workflows import feature_of

if TYPE_CHECKING:
    from starlette.responses import Response

STEPS_SHOWN = 100
WIDTH = 1_000  # of the timeline, in its own measure
LEAST = 6  # of a step that took no time
SHORT_MS = 50  # what takes less is drawn as next to nothing
# What can be done to one in each state.
ACTS = {
    "queued": ("pause", "cancel"),
    "running": ("pause", "cancel"),
    "sleeping": ("pause", "cancel"),
    "waiting": ("pause", "cancel"),
    "paused": ("resume", "cancel"),
    "parked": ("resume", "cancel", "restart"),
    "failed": ("retry", "cancel", "restart"),
    "done": ("restart",),
    "cancelled": ("restart",),
}


async def part_of(visit: Visit, id: ObjectId) -> dict[str, Any] | None:
    """What the page shows of it; None when the object is no workflow."""
    if id.cls not in feature_of(visit.node).classes:
        return None
    try:
        row = await workflows.show(visit.view, id, STEPS_SHOWN)
    except UnknownObject:
        return None
    places = scale([instant for step in row["steps"] for instant in stretch_of(step, visit.now)])
    steps = [{**step, **_place(step, places, visit.now)} for step in row["steps"]]
    return {**row, "steps": steps, "acts": ACTS.get(row["state"], ()), "width": WIDTH}


def stretch_of(step: workflows.PlainStep, now: int) -> tuple[int, int]:
    """From when to when it is drawn: what goes on, to where it ends by itself, or to now."""
    begins = _ms(step["asked_at"]) or now
    return begins, max(begins, _ms(step["ended_at"]) or _ms(step["wake_at"]) or now)


def scale(instants: list[int]) -> dict[int, int]:
    """Where each instant is drawn. A second beside a week would be nothing, so a stretch is as wide as its length has digits."""
    ordered = sorted(set(instants))
    widths = [log1p((later - earlier) / SHORT_MS) for earlier, later in pairwise(ordered)]
    unit, so_far, places = WIDTH / max(sum(widths), 1e-9), 0.0, dict.fromkeys(ordered[:1], 0)
    for instant, wide in zip(ordered[1:], widths, strict=True):
        so_far += wide
        places[instant] = round(so_far * unit)
    return places


def _place(step: workflows.PlainStep, places: dict[int, int], now: int) -> dict[str, int]:
    """From where to where its bar goes."""
    left, right = (places[instant] for instant in stretch_of(step, now))
    return {"left": min(left, WIDTH - LEAST), "wide": min(max(LEAST, right - left), WIDTH)}


def _ms(at: str | None) -> int | None:
    return None if at is None else from_datetime(datetime.fromisoformat(at))


async def act(visit: Visit) -> "Response":
    """Pause, resume, cancel, retry or restart it."""
    id = await visit.object()
    await workflows.record_of(visit.view.store_of(id), id)
    name = visit.field("act") or ""
    if name not in {one for acts in ACTS.values() for one in acts}:
        raise BadOption(
            f"act must be one of pause, resume, cancel, retry, restart, not {name!r:.40}", code="option.act"
        )
    await visit.acts.workflow(id, name, *((None,) if name == "retry" else ()))
    return visit.go("/object", class_=id.cls, key=id.key, said=f"flow-{name}")
