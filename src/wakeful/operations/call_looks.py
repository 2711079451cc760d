"""Layer 5. How are calls under way listed and stopped through any object: beside all turns, by the node that has them?

A turn that hangs would hold up an operation of its object for ever. So these two are answered where the call arrives: stopping
by the owner of the object, listing by any node, which asks the others.
"""

from typing import TYPE_CHECKING, Any

from wakeful.runtime.feature import Feature
from wakeful.runtime.underway import FEATURE, REQUEST, NodeCalls, calls_of

if TYPE_CHECKING:
    from wakeful.runtime.calls import Call
    from wakeful.runtime.node import Node
    from wakeful.runtime.registry import ObjectClass
    from wakeful.runtime.turn import Turn
    from wakeful.values.ids import ObjectId

LIST = "calls.list"  # (limit, class, key)
CANCEL = "calls.cancel"  # (name)


class CallFeature(Feature):
    """What is under way can be seen and stopped."""

    def equip(self, node: "Node") -> None:
        own = node.features[FEATURE] = NodeCalls(node)
        node.routes.requests[REQUEST] = own.rows

        async def rows(limit: int, cls: str | None, key: str | None) -> dict[str, Any]:
            from wakeful.views import calls
            from wakeful.views.view import View

            found = await calls.page(View.of_node(node), cls, key, limit)
            return {"rows": found.rows, "mute": found.mute}

        async def cancel(target: "ObjectId", name: str) -> str:
            return calls_of(node).cancel(target, name)

        def list_all(known: "ObjectClass", call: "Call") -> Any:
            return rows(*call.args)

        def stop(known: "ObjectClass", call: "Call") -> Any:
            return cancel(call.chain[-1], *call.args)

        node.rewrites |= {LIST: list_all, CANCEL: stop}

    async def erase(self, turn: "Turn") -> None:
        """Nothing: it keeps nothing."""
