"""Layer 5. The other stores of a program in a world (`App(stores=…)`): a disk and a node for each, with the main one's fate."""

from wakeful.runtime.homes import Homes
from wakeful.runtime.node import Node
from wakeful.store import Disk, MemoryStore
from wakeful.store.protocol import Store
from wakeful.testing.faults import Faults, FaultyStore
from wakeful.testing.members import Ground
from wakeful.values.ids import ObjectId


class Beside:
    """Always in memory, whatever the app's own stores are: a world touches nothing outside."""

    def __init__(self, ground: Ground, places: list[str]) -> None:
        self._ground = ground
        self._disks = {place: Disk() for place in places}
        self._nodes: dict[str, tuple[Node, FaultyStore]] = {}
        self._homes: Homes[Node] | None = None
        self.faults = {place: Faults() for place in places}

    async def start(self, main: Node) -> None:
        """A node for each of the stores, and calls between them all."""
        ground = self._ground
        for place, disk in self._disks.items():
            store = FaultyStore(MemoryStore(disk), self.faults[place], ground.warp)
            self._nodes[place] = (ground.make_node(main.name, store, ground.warp), store)
        self._homes = main.homes = Homes(main, {place: node for place, (node, _) in self._nodes.items()})
        for node, _ in self._nodes.values():
            node.homes, node.events = self._homes, main.events
            ground.app.equip(node)
            await node.start()

    def kill(self) -> None:
        for node, store in self._nodes.values():
            store.cut()
            node.kill()
        self._nodes = {}

    async def stop(self) -> None:
        nodes, self._nodes = self._nodes, {}
        for node, _ in nodes.values():
            await node.stop()

    def stores(self) -> list[Store]:
        """As they are on disk, without the faults."""
        return [self._plain(disk) for disk in self._disks.values()]

    def store_of(self, id: ObjectId) -> Store | None:
        """The store that the object lives in; None when that is the main one."""
        if self._homes is None:
            return None
        home = self._homes.of(id)
        place = next((place for place, (node, _) in self._nodes.items() if node is home), None)
        return None if place is None else self._plain(self._disks[place])

    def _plain(self, disk: Disk) -> Store:
        store = MemoryStore(disk)
        store._open = True  # looking needs no opening: nobody else is told of it
        return self._ground.keyed(store)
