"""Layer 5. The pages Objects and Object: which are there, and what does one of them hold?"""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from wakeful.dashboard import workflows
from wakeful.dashboard.renderer import HEADERS
from wakeful.dashboard.visits import Visit
from wakeful.diagrams.diagram import draw
from wakeful.machines.bindings import Bound
from wakeful.operations.forgets import ObjectChoice
from wakeful.policy.ranges import past_prefix
from wakeful.sockets.gateways import name_of
from wakeful.sockets.records import PREFIX, SocketRecord
from wakeful.store.protocol import Range
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import BadOption, Conflict, UnknownObject
from wakeful.values.ids import ObjectId
from wakeful.views import databases, history, jobs, ledger, machines, migrations, objects
from wakeful.views.plain import plain_of

if TYPE_CHECKING:
    from starlette.responses import Response

ROWS = 50
LEDGER_ROWS = 20
JOB_ROWS = 20


async def listing(visit: Visit) -> "Response":
    """Objects by class and key."""
    cls, contains = visit.query("class"), visit.query("contains")
    found = await objects.page(visit.view, cls, visit.caller.prefix, contains, limit=ROWS, cursor=visit.query("cursor"))
    return await visit.render(
        "objects.html",
        "objects",
        rows=found.rows,
        cursor=found.cursor,
        classes=await visit.classes(),
        cls=cls,
        contains=contains or "",
        migrations=await _migrations(visit, cls),
    )


async def _migrations(visit: Visit, cls: str | None) -> dict[str, Any] | None:
    """How many objects of the class have had how many, if the program has any for it."""
    known = _migrations_known(visit, cls)
    if not known:
        return None
    prefix = visit.caller.prefix
    found = await visit.desk.sparing(
        f"migrations {cls} {prefix}", lambda: migrations.numbers(visit.view, str(cls), prefix)
    )
    return {"known": known, "words": found.words(known), "newer": found.newer(known)}


def _migrations_known(visit: Visit, cls: str | None) -> int:
    """How many this program has for the class."""
    registry = visit.node.registry
    return len(registry.by_name(cls).migrations) if cls is not None and registry.knows(cls) else 0


async def one(visit: Visit) -> "Response":
    """Everything that an object has; it sleeps on."""
    id = await visit.object()
    view, prefix = visit.view, visit.query("prefix")
    shown = await objects.show(view, id)
    return await visit.render(
        "object.html",
        "objects",
        one=shown,
        storage=await objects.storage(view, id, prefix, limit=ROWS, cursor=visit.query("storage")),
        ledger=await ledger.page(view, id, limit=LEDGER_ROWS, cursor=visit.query("cursor")),
        jobs=(await jobs.page(view, id.cls, id.key, limit=JOB_ROWS)).rows,
        prefix=prefix or "",
        flow=await workflows.part_of(visit, id),
        has_chart=shown["machine"] is not None and _chart_of(visit, id) is not None,
        migrations_known=_migrations_known(visit, id.cls),
        is_awake=id in visit.node.home(id).awake,
        is_cluster=view.store_of(id).shared,
        sockets=await _sockets(visit, id),
        database_bytes=await databases.size_of(view.store_of(id), id),
        has_history=await history.begins(view.store_of(id), id) is not None,
        with_object=False,
    )


async def forget(visit: Visit) -> "Response":
    """Have it forgotten, when its key was typed once more."""
    id = await visit.object()
    if visit.field("typed") != id.key:
        raise BadOption("what was typed is not its key; nothing was done", code="option.forget")
    await visit.acts.forget(ObjectChoice(id.cls, id.key))
    return visit.go("/objects", said="forgotten")


async def reset(visit: Visit) -> "Response":
    """Have a machine that is over begin anew."""
    id = await visit.object()
    await visit.view.info(id)
    await visit.acts.reset(id)
    return visit.go("/object", class_=id.cls, key=id.key, said="reset")


async def chart(visit: Visit) -> "Response":
    """The picture of a machine's chart, with where it is; by day or by night as the page is."""
    from starlette.responses import Response

    id = await visit.object()
    bound = _chart_of(visit, id)
    kept = await machines.kept_of(visit.view.store_of(id), id)
    if bound is None or kept is None:
        raise UnknownObject(f"there is no machine {id} that has been started")
    if kept["version"] != bound.version:
        raise Conflict(
            f"{id} was written by version {kept['version']} of its chart, and the program has version {bound.version}; "
            "its next event migrates it",
            code="chart.version",
        )
    theme = "dark" if visit.query("theme") == "dark" else "light"
    svg = await asyncio.to_thread(
        draw, bound.chart.config, kept["snapshot"], now=visit.now, theme=theme, delays=bound.lengths
    )
    headers = HEADERS | {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return Response(svg, media_type="image/svg+xml", headers=headers)


async def _sockets(visit: Visit, id: ObjectId) -> list[dict[str, Any]]:
    """The sockets that the object has, as they are kept; it need not be awake to have some."""
    rows = await visit.view.store_of(id).scan(id, SYSTEM, Range(PREFIX, past_prefix(PREFIX), limit=ROWS))
    sockets = []
    for name, data in rows:
        kept = msgspec.msgpack.decode(data, type=SocketRecord)
        attachment = None if kept.attachment is None else plain_of(kept.attachment)
        about = {"tags": kept.tags, "gateway": name_of(kept.gateway), "attachment": attachment}
        sockets.append({"id": name.removeprefix(PREFIX), "is_closing": kept.closing is not None, **about})
    return sockets


def _chart_of(visit: Visit, id: ObjectId) -> Bound | None:
    """The chart of the class, if this program has it."""
    registry = visit.node.registry
    if not registry.knows(id.cls):
        return None
    cls = registry.by_name(id.cls).cls
    return None if getattr(cls, "chart", None) is None else Bound(id.cls, cls, lambda src: True)
