"""Layer 5. The pages Objects and Object: which are there, and what does one of them hold?"""

import asyncio
from typing import TYPE_CHECKING

from wakeful.dashboard.rendering import HEADERS
from wakeful.dashboard.visits import Visit
from wakeful.looking import jobs, ledger, machines, objects
from wakeful.machines.binding import Bound
from wakeful.picture.drawing import draw
from wakeful.values.errors import Conflict, UnknownObject
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 50
LEDGER_ROWS = 20
JOB_ROWS = 20


async def listing(visit: Visit) -> "Response":
    """Objects by class and key."""
    cls, contains = visit.asked("class"), visit.asked("contains")
    found = await objects.page(visit.view, cls, visit.caller.prefix, contains, limit=ROWS, cursor=visit.asked("cursor"))
    return await visit.render(
        "objects.html",
        "objects",
        rows=found.rows,
        cursor=found.cursor,
        classes=await visit.classes(),
        cls=cls,
        contains=contains or "",
    )


async def one(visit: Visit) -> "Response":
    """Everything that an object has; it sleeps on."""
    id = await visit.object()
    view, prefix = visit.view, visit.asked("prefix")
    found = await objects.show(view, id)
    return await visit.render(
        "object.html",
        "objects",
        one=found,
        storage=await objects.storage(view, id, prefix, limit=ROWS, cursor=visit.asked("storage")),
        ledger=await ledger.page(view, id, limit=LEDGER_ROWS, cursor=visit.asked("cursor")),
        jobs=(await jobs.page(view, id.cls, id.key, limit=JOB_ROWS)).rows,
        prefix=prefix or "",
        has_chart=found["machine"] is not None and _bound(visit, id) is not None,
        is_awake=id in visit.node.home(id).awake,
        is_cluster=view.store_of(id).shared,
        sockets=[],
        with_object=False,
    )


async def chart(visit: Visit) -> "Response":
    """The picture of a machine's chart, with where it is; by day or by night as the page is."""
    from starlette.responses import Response

    id = await visit.object()
    bound = _bound(visit, id)
    kept = await machines.kept_of(visit.view.store_of(id), id)
    if bound is None or kept is None:
        raise UnknownObject(f"there is no machine {id} that has been started")
    if kept["version"] != bound.version:
        raise Conflict(
            f"{id} was written by version {kept['version']} of its chart, and the program has version {bound.version}; "
            "its next event migrates it",
            code="chart.version",
        )
    theme = "dark" if visit.asked("theme") == "dark" else "light"
    svg = await asyncio.to_thread(draw, bound.chart.config, kept["snapshot"], now=visit.now, theme=theme)
    headers = HEADERS | {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return Response(svg, media_type="image/svg+xml", headers=headers)


def _bound(visit: Visit, id: ObjectId) -> Bound | None:
    """The chart of the class, if this program has it."""
    registry = visit.node.registry
    if not registry.knows(id.cls):
        return None
    cls = registry.named(id.cls).cls
    return None if getattr(cls, "chart", None) is None else Bound(id.cls, cls, lambda src: True)
