"""Layer 5. The page Calls: what is under way on all nodes, since when, waiting for what; and stopping one."""

from typing import TYPE_CHECKING

from wakeful.dashboard.visits import Visit
from wakeful.views import calls
from wakeful.views.calls import parse_call_id

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 100


async def listing(visit: Visit) -> "Response":
    """Those that have been at it for longest first."""
    cls = visit.query("class")
    under_way = await calls.page(visit.view, cls, limit=ROWS, prefix=visit.caller.prefix)
    return await visit.render(
        "calls.html",
        "calls",
        rows=under_way.rows,
        mute=under_way.mute,
        is_cut=len(under_way.rows) == ROWS,
        classes=await visit.classes(),
        cls=cls,
    )


async def cancel(visit: Visit) -> "Response":
    id = visit.field("id")
    target, _ = parse_call_id(id)
    await visit.desk.gate.check_named(visit.request, visit.caller, *target)
    await visit.acts.cancel_call(id)
    return visit.go("/calls", said="stopped")
