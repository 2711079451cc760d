"""Layer 5. The page History of an object: which points are there, what did each change, and going back to one."""

from typing import TYPE_CHECKING

from wakeful.dashboard.visits import Visit
from wakeful.views import history

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 50


async def one(visit: Visit) -> "Response":
    """The points of an object, newest first; with a bookmark also what going back to it would change. It sleeps on."""
    id = await visit.object()
    await visit.view.info(id)
    to = visit.query("to")
    page = await history.page(visit.view, id, ROWS, visit.query("cursor"))
    return await visit.render(
        "points.html",
        "objects",
        lives=False,
        id=id,
        begins=await history.begins(visit.view.store_of(id), id),
        rows=[{**row, "words": history.words(row["changed"])} for row in page.rows],
        cursor=page.cursor,
        planned=None if to is None else await history.preview(visit.view, id, history.mark_of(to)),
        words=history.words,
    )


async def restore(visit: Visit) -> "Response":
    """Have the object be as it was; which point, and whether with its timers, the form says."""
    id = await visit.object()
    await visit.view.info(id)
    mark = history.mark_of(visit.field("to") or "")
    await visit.acts.restore(id, mark, timers=visit.field("timers") == "yes")
    return visit.go("/points", class_=id.cls, key=id.key, said="restored")
