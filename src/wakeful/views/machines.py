"""Layer 5. How does a machine stand, and how does its chart look with that in it?"""

import asyncio
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from wakeful.machines.node_machines import DELAY
from wakeful.machines.records import ROW, whole
from wakeful.store.protocol import Query, Store
from wakeful.values.codec import decode_loosely
from wakeful.values.errors import Conflict, UnknownObject
from wakeful.values.ids import ObjectId
from wakeful.views.plain import plain
from wakeful.views.view import View

TIMERS_MAX = 1_000  # of one machine: each pending delay has one


async def kept_of(store: Store, id: ObjectId) -> dict[str, Any] | None:
    """What is kept of a machine, with the deadlines that its timers have; None when there is no such machine."""
    rows = await store.read(id, ROW[0], [ROW[1]])
    if ROW[1] not in rows:
        return None
    found = decode_loosely(rows[ROW[1]])
    assert isinstance(found, dict)
    kept = whole(found)
    timers = {timer.name: timer for timer in await store.find_timers(Query(cls=id.cls, key=id.key, limit=TIMERS_MAX))}
    for one in kept["snapshot"].get("pending") or ():
        timer = timers.get(f"{DELAY}:{one['id']}")
        if timer is not None:
            one["due_at"] = timer.due_at
    return kept


def plain_machine(kept: dict[str, Any]) -> dict[str, Any]:
    """Where it is, in what context, and with whom it talks."""
    snapshot = plain(kept["snapshot"])
    said = {name: snapshot.get(name) for name in ("value", "status", "context", "output", "error")}
    return {**said, "actors": sorted(kept["actors"]), "chart_version": kept["version"]}


async def picture(view: View, id: ObjectId, chart: Mapping[str, Any], version: int, zone: tzinfo) -> str:
    """The chart as SVG with its active states and pending delays; drawing a big one takes tenths of a second."""
    from wakeful.diagrams.diagram import draw

    kept = await kept_of(view.store_of(id), id)
    if kept is None:
        raise UnknownObject(
            f"there is no machine {id} that has been started; wakeful ls {id.cls} shows which there are"
        )
    if kept["version"] != version:
        raise Conflict(
            f"{id} was written by version {kept['version']} of its chart, and the program has version {version}; "
            "its next event migrates it",
            code="chart.version",
        )
    # Beside the loop, where timers are waiting.
    return await asyncio.to_thread(draw, chart, kept["snapshot"], now=view.now(), zone=zone, heading=f"{id}")
