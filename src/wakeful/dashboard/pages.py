"""Layer 5. Which pages has the dashboard, with the search box on each, and what does each need of its visitor?"""

from itertools import groupby
from typing import TYPE_CHECKING, Any

from wakeful.dashboard.renderer import address, render
from wakeful.dashboard.visits import Visit
from wakeful.values.errors import MissingExtra
from wakeful.views import search

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from wakeful.deployment import Deployment
    from wakeful.security.gate import Gate


# The search box: anything by name, one step away.

EACH = 6  # of a kind in the box
PAGE = 50
KINDS = {"class": "Classes", "object": "Objects", "schedule": "Schedules", "job": "Jobs"}
KINDS |= {"parked": "Parked", "node": "Nodes"}


async def page(visit: Visit) -> "Response":
    """What there is of that name: as a page, or for the box as the list alone."""
    text = (visit.query("q") or "").strip()
    is_box = "hx-request" in visit.request.headers
    hits = await search.find(visit.view, text, EACH if is_box else PAGE, prefix=visit.caller.prefix) if text else []
    rows = [{"number": number, **row_of(visit, hit)} for number, hit in enumerate(hits)]
    found = [(KINDS[kind], list(some)) for kind, some in groupby(rows, lambda row: row["kind"])]
    if is_box:
        return render(visit.request, "found.html", now=visit.now, found=found, q=text)
    return await visit.render("search.html", "search", lives=False, found=found, q=text)


def row_of(visit: Visit, hit: dict[str, Any]) -> dict[str, Any]:
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


STATIC_HEADERS = [
    (b"cache-control", b"public, max-age=86400"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
]


def routes(deployment: "Deployment", gate: "Gate") -> list["BaseRoute"]:
    """The dashboard, for a Starlette application under any prefix."""
    try:
        import jinja2  # noqa: F401
        from starlette.routing import Mount, Route
    except ImportError:
        raise MissingExtra("the dashboard needs jinja2 and starlette: pip install 'wakeful[server]'") from None
    from wakeful.dashboard import live, login, nodes, objects, queues, webhooks
    from wakeful.dashboard.visits import Desk

    desk = Desk(deployment, gate)
    door = login.Door(desk)
    read, operate = _sights(), _acts()
    wide = {"/node/drain": nodes.drain, "/node/undrain": nodes.undrain, "/webhooks/test": webhooks.test}
    wide |= {"/queues/pause": queues.pause, "/queues/resume": queues.resume}
    erase = Route("/object/forget", desk.page(objects.forget, "admin"), methods=["POST"])
    admin = {"/audit": login.audit_page, "/tokens": login.tokens_page}
    routing: list[BaseRoute] = [Route(path, desk.page(handler)) for path, handler in read.items()]
    routing += [Route(path, desk.page(handler, "operate"), methods=["POST"]) for path, handler in operate.items()]
    routing += [
        Route(path, desk.page(handler, "operate", wide=True), methods=["POST"]) for path, handler in wide.items()
    ]
    routing += [Route(path, desk.page(handler, "admin", wide=True)) for path, handler in admin.items()]
    routing += [
        erase,
        Route("/nodes", desk.page(nodes.page, wide=True)),
        Route("/queues", desk.page(queues.page, wide=True)),
        Route("/webhooks", desk.page(webhooks.page, wide=True)),
        Route("/history", desk.page(live.history, wide=True)),
    ]
    routing += [
        Route("/login", desk.safe(door.show), methods=["GET"]),
        Route("/login", desk.safe(door.enter), methods=["POST"]),
        Route("/logout", desk.safe(door.leave), methods=["POST"]),
        Mount("/static", static()),
        Route("/{rest:path}", desk.safe(desk.missing)),
    ]
    return routing


def _sights() -> dict[str, Any]:
    """What whoever may look is shown."""
    from wakeful.dashboard import calls, databases, due, jobs, live, objects, parked, points, schedules

    return {
        "/": due.page,
        "/objects": objects.listing,
        "/object": objects.one,
        "/database": databases.one,
        "/points": points.one,
        "/chart.svg": objects.chart,
        "/schedules": schedules.listing,
        "/schedule": schedules.one,
        "/jobs": jobs.listing,
        "/job": jobs.one,
        "/parked": parked.listing,
        "/parked/one": parked.one,
        "/calls": calls.listing,
        "/search": page,
        "/live": live.live,
    }


def _acts() -> dict[str, Any]:
    """What operators do, to single objects."""
    from wakeful.dashboard import calls, jobs, objects, parked, points, schedules, workflows

    return {
        "/workflow/act": workflows.act,
        "/schedule/pause": schedules.pause,
        "/schedule/resume": schedules.resume,
        "/schedule/trigger": schedules.trigger,
        "/schedule/backfill": schedules.backfill,
        "/points/restore": points.restore,
        "/machine/reset": objects.reset,
        "/job/cancel": jobs.cancel,
        "/call/cancel": calls.cancel,
        "/parked/redrive": parked.redrive,
        "/parked/drop": parked.drop,
    }


def static() -> "ASGIApp":
    """The files of the pages, which a browser may keep: their addresses carry the version."""
    from starlette.staticfiles import StaticFiles

    from wakeful.dashboard.renderer import HERE

    files = StaticFiles(directory=HERE / "static")

    async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def send_cached(message: "Message") -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *STATIC_HEADERS]
            await send(message)

        await files(scope, receive, send_cached)

    return answer
