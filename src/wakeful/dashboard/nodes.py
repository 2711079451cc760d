"""Layer 5. The page Nodes: who runs the deployment, who owns which shards, and who is handing over?"""

from itertools import groupby
from typing import TYPE_CHECKING, Any

from wakeful.dashboard.visits import Visit
from wakeful.runtime.status import status_of
from wakeful.values.ids import SHARDS
from wakeful.views import nodes

if TYPE_CHECKING:
    from starlette.responses import Response

HUES = "abcdef"


async def page(visit: Visit) -> "Response":
    """Every node of every store, with its load as it says itself."""
    deployment = await nodes.page(visit.view)
    parts = []
    for place, store in enumerate(visit.view.stores):
        rows: list[dict[str, Any]] = [{**row} for row in deployment.rows if row["store"] == store.url]
        for number, row in enumerate(rows):
            if not store.shared and row["node"] == visit.node.name:
                # Nobody could take over from it, so it renews no lease: that it answers is all there is to know.
                row |= {"state": "up", "lease_ms": None, "status": status_of(visit.node.all_homes[place])}
            row["hue"] = f"hue-{HUES[number % len(HUES)]}"
        parts.append(
            {
                "store": store.url,
                "is_shared": store.shared,
                "nodes": rows,
                "strip": strip(rows),
                "unowned": [] if place else deployment.unowned,
                "lost": {} if place else deployment.lost,
            }
        )
    return await visit.render("nodes.html", "nodes", parts=parts, own=visit.node.name)


def strip(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Shards that stand together and have one owner: where they begin, how many, and its colour."""
    owners = [""] * SHARDS
    for row in rows:
        for shard in row["shards"]:
            owners[shard] = row["hue"]
    found, start = [], 0
    for hue, run in groupby(owners):
        width = len(list(run))
        found += [(start, width, hue)] if hue else []
        start += width
    return found


async def drain(visit: Visit) -> "Response":
    await visit.acts.drain(visit.field("node"))
    return visit.go("/nodes", said="draining")


async def undrain(visit: Visit) -> "Response":
    await visit.acts.undrain(visit.field("node"))
    return visit.go("/nodes", said="undrained")
