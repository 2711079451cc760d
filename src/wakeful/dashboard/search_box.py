"""Layer 5. The search box: anything by name, one step away."""

from itertools import groupby
from typing import TYPE_CHECKING, Any

from wakeful.dashboard.renderer import address, render
from wakeful.dashboard.visits import Visit
from wakeful.views import search

if TYPE_CHECKING:
    from starlette.responses import Response

EACH = 6  # of a kind in the box
PAGE = 50
KINDS = {"class": "Classes", "object": "Objects", "schedule": "Schedules", "job": "Jobs"}
KINDS |= {"parked": "Parked", "node": "Nodes"}


async def page(visit: Visit) -> "Response":
    """What there is of that name: as a page, or for the box as the list alone."""
    text = (visit.asked("q") or "").strip()
    is_box = "hx-request" in visit.request.headers
    hits = await search.find(visit.view, text, EACH if is_box else PAGE, prefix=visit.caller.prefix) if text else []
    rows = [{"number": number, **shown(visit, hit)} for number, hit in enumerate(hits)]
    found = [(KINDS[kind], list(some)) for kind, some in groupby(rows, lambda row: row["kind"])]
    if is_box:
        return render(visit.request, "found.html", now=visit.now, found=found, q=text)
    return await visit.render("search.html", "search", lives=False, found=found, q=text)


def shown(visit: Visit, hit: dict[str, Any]) -> dict[str, Any]:
    """A hit with where it leads."""
    kind = hit["kind"]
    where = {"class_": hit.get("class"), "key": hit.get("key")}
    path, query = {
        "class": ("/objects", {"class_": hit.get("class")}),
        "object": ("/object", where),
        "schedule": ("/schedule", {**where, "name": hit.get("schedule")}),
        "job": ("/job", {"id": hit.get("job")}),
        "parked": ("/parked/one", {**where, "number": hit.get("number")}),
        "node": ("/nodes", {}),
    }[kind]
    is_own = kind == "node" and hit["node"] == visit.node.name and not visit.node.store.shared
    return {
        "kind": kind,
        "name": hit["title"],
        "note": "up" if is_own else hit.get("state") or "",  # it renews no lease, and it answers
        "href": address(visit.request, path, **query),
    }
