"""Layer 3. A program on several stores: in which of them does an object live?

By its class, else by the longest of the given beginnings of its key, else in the program's main store. The process
has a node for each store, and calls go from one to the other; what one commit makes atomic stays within one store.
"""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from wakeful.runtime.contacts import REACH
from wakeful.transport.protocol import PeerCall
from wakeful.values.errors import BadOption
from wakeful.values.ids import RESERVED, ObjectId, check_class, check_key


def check_places(places: Mapping[str, object]) -> None:
    """`BadOption` unless each name is that of a class, or a beginning of keys that ends with a slash."""
    for place in places:
        if not isinstance(place, str) or not place or place.startswith(RESERVED):
            raise BadOption(
                f"stores={place!r}: give a class's name, or a beginning of keys like 'eu/'", code="stores.place"
            )
        if place.endswith("/"):
            check_key("object", place)
        else:
            check_class(place)


class PeerHandler(Protocol):
    """Takes what other processes ask of a node."""

    @property
    def has_links(self) -> bool: ...

    async def handle(self, call: PeerCall) -> bytes: ...


class HasRoutes(Protocol):
    """A node, as far as calls of others come to it."""

    @property
    def routes(self) -> PeerHandler: ...


N = TypeVar("N", bound=HasRoutes)


class Homes(Generic[N]):
    """The nodes of this process by what lives in their stores."""

    def __init__(self, main: N, others: Mapping[str, N]) -> None:
        self.main = main
        self._by_class = {place: node for place, node in others.items() if not place.endswith("/")}
        prefixes = sorted((place for place in others if place.endswith("/")), key=len, reverse=True)
        self._by_prefix = [(place, others[place]) for place in prefixes]
        self.all = list(dict.fromkeys([main, *others.values()]))

    def of(self, id: ObjectId) -> N:
        """The node of the store that the object lives in."""
        found = self._by_class.get(id.cls)
        if found is not None or id.cls.startswith(RESERVED):
            return found or self.main
        return next((node for prefix, node in self._by_prefix if id.key.startswith(prefix)), self.main)

    async def handle(self, call: PeerCall) -> bytes:
        """A call from another process, for whichever store it is about."""
        node = self.of(ObjectId(call.cls, call.key))
        if call.method == REACH and not node.routes.has_links:  # that of a store of its own, which calls nobody
            node = next((one for one in self.all if one.routes.has_links), node)
        return await node.routes.handle(call)
