"""Layer 4. A machine is forgotten: what becomes of the one that started it, and of those that it started?"""

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from wakeful.machines.bindings import Bound
from wakeful.machines.node_machines import RUN, NodeMachines
from wakeful.machines.records import ROW, Parent, load
from wakeful.runtime.erasure import is_there
from wakeful.runtime.turn import Turn, forget_timer
from wakeful.store.protocol import Query
from wakeful.values.codec import decode
from wakeful.values.ids import ObjectId

PAGE = 100
# The code is in no error of a program: who started the machine knows by it that there is nothing left to be stopped.
_FORGOTTEN = {"name": "Forgotten", "message": "the machine was forgotten", "code": "object.forgotten"}


async def erase(feature: NodeMachines, turn: Turn, bound: Bound) -> None:
    """The machine of this turn is forgotten: nothing of it goes on."""
    activation = turn.activation
    kept = await load(turn)
    if kept is not None:
        if kept.parent is not None:  # also one that has ended: its parent would stop it when it leaves that state
            await tell_parent(feature, turn, kept.parent)
        for actor in kept.actors:
            feature.actors.stop_after(turn, f"{RUN}:{actor}")
        kept.snapshot = {**kept.snapshot, "status": "stopped", "pending": [], "children": {}}
        feature.watchers.note_step(turn, bound, kept, [])
    async for child in _children(feature, turn, bound):
        turn.send([forget_timer(activation.node, child, activation.shard)])


async def tell_parent(feature: NodeMachines, turn: Turn, parent: Parent) -> None:
    """It waits for an answer that will never come; unless it is forgotten itself."""
    if await is_there(turn.activation.node, parent.id):
        feature.mail(turn, parent.id, ["error", parent.actor, parent.number, _FORGOTTEN])


def was_forgotten(error: object) -> bool:
    """What `tell_parent` says."""
    return isinstance(error, dict) and error.get("code") == _FORGOTTEN["code"]


async def _children(feature: NodeMachines, turn: Turn, bound: Bound) -> AsyncGenerator[ObjectId, None]:
    """The machines that it started, also those that have ended: objects under its key that say so, or that only it starts."""
    id, node = turn.activation.id, turn.activation.node
    for cls in filter(bound.is_child, list(feature.classes)):
        query = Query(cls=cls, key_prefix=f"{id.key}/", limit=PAGE)
        home = node.home(ObjectId(cls, f"{id.key}/"))
        while page := await home.reading(home.store.find_objects(query)):
            for info in page:
                data = (await home.reading(home.store.read(info.id, ROW[0], [ROW[1]]))).get(ROW[1])
                parent = decode(data).get("parent") if data is not None else None
                is_left = data is None and info.id.key[len(id.key) + 1 :] in bound.invoked
                if is_left or (parent is not None and Parent(*parent).id == id):
                    yield info.id
            query = replace(query, after=tuple(page[-1].id))
