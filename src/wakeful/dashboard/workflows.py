"""Layer 5. The part of an object's page that a workflow has: how it stands, its steps as a timeline, and what can be done to it."""

from datetime import datetime
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
    first = _ms(row["steps"][0]["asked_at"]) if row["steps"] else None
    last = max([_ms(row["ended_at"]) or visit.now, *(_ms(step["wake_at"]) or 0 for step in row["steps"])])
    steps = [{**step, **_place(step, first or 0, last, visit.now)} for step in row["steps"]]
    return {**row, "steps": steps, "acts": ACTS.get(row["state"], ()), "width": WIDTH}


def _place(step: workflows.PlainStep, first: int, last: int, now: int) -> dict[str, int]:
    """From where to where its bar goes."""
    begins = _ms(step["asked_at"]) or first
    ends = _ms(step["ended_at"]) or _ms(step["wake_at"]) or now
    length = max(1, last - first)
    left = WIDTH * (begins - first) // length
    wide = max(LEAST, WIDTH * (ends - begins) // length)
    return {"left": min(left, WIDTH - LEAST), "wide": min(wide, WIDTH)}


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
