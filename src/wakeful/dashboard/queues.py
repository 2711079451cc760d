"""Layer 5. The page Queues: what waits and runs in each, what it holds to; and pausing one."""

from typing import TYPE_CHECKING

from wakeful.dashboard.visits import Visit
from wakeful.views import queues

if TYPE_CHECKING:
    from starlette.responses import Response


async def page(visit: Visit) -> "Response":
    """All queues, by name."""
    rows = [row | {"limits": queues.limits_words(row)} for row in await queues.rows(visit.view)]
    return await visit.render("queues.html", "queues", lives=False, rows=rows)


async def pause(visit: Visit) -> "Response":
    await visit.acts.pause_queue(visit.field("name"), "")
    return visit.go("/queues", said="paused")


async def resume(visit: Visit) -> "Response":
    await visit.acts.resume_queue(visit.field("name"))
    return visit.go("/queues", said="resumed")
