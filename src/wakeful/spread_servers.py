"""Layer 5. How does a process come to have a class on several servers: are they what they should be, and what is where?"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import cast

from wakeful.deployment import Place
from wakeful.policy.spread import SpreadMap, check_named
from wakeful.runtime.node import Node
from wakeful.runtime.spread import ClassSpread
from wakeful.runtime.spread_map import check_marks, check_unmarked, read_map, settle
from wakeful.store.protocol import Store
from wakeful.store.sealed_store import beneath
from wakeful.store.slots import SlotTables, Spreadable
from wakeful.system import Keys, SystemClock, open_store
from wakeful.values.errors import BadOption, StoreError


def _note_slots(home: Node) -> None:
    spread = cast("ClassSpread[Node]", home.spread)
    spread.note(home, home.membership.owners)
    for other in spread.nodes:
        other.routes.wake()


def open_servers(
    places: Mapping[str, Place], others: Sequence[Store], keys: Keys | None
) -> dict[str, dict[str, Store]]:
    """The servers of the classes that have several, not opened yet; each is nobody else's."""
    known = {store.url for store in others}
    several: dict[str, dict[str, Store]] = {}
    for cls, servers in places.items():
        for name, url in servers.items() if isinstance(servers, Mapping) else ():
            store = open_store(url, keys)
            if not isinstance(beneath(store), Spreadable):
                raise BadOption(
                    f"{store.url} can't be one of several servers of {cls}: that takes PostgreSQL; give each a "
                    "postgresql://… of its own, or the class one store",
                    code="spread.store",
                )
            if store.url in known:
                raise BadOption(
                    f"{store.url} is another store of this program too; give server {name!r} of {cls} a database of its "
                    "own, or a schema: ?schema=NAME",
                    code="spread.shared",
                )
            known.add(store.url)
            several.setdefault(cls, {})[name] = store
    return several


async def join_servers(
    cls: str, servers: Mapping[str, Store], nodes: Mapping[str, Node], *, new_id: Callable[[], str], is_client: bool
) -> ClassSpread[Node]:
    """The servers of the class as this process has them: their nodes know from each look at its shards what is where."""
    spread = ClassSpread(cls, nodes, await enter_servers(cls, servers, new_id=new_id, is_client=is_client))
    for home in nodes.values():
        home.spread = spread
        home.routes.watchers.append(partial(_note_slots, home))
    return spread


async def enter_servers(
    cls: str, servers: Mapping[str, Store], *, new_id: Callable[[], str], is_client: bool
) -> SpreadMap:
    """Where the slots of a class are, by the map in its first server, which is made when there is none."""
    async with AsyncExitStack() as stack:
        tables: dict[str, SlotTables] = {}
        for name, store in servers.items():
            await store.open(now=SystemClock().now(), readonly=is_client)
            stack.push_async_callback(store.close)
            tables[name] = await cast("Spreadable", beneath(store)).open_slots()
            stack.push_async_callback(tables[name].close)
        if not is_client:
            return await settle(tables, lambda: f"{cls}:{new_id()}")
        first = next(iter(tables.values()))
        known = await read_map(first)
        if known is None:
            await check_unmarked(tables)
            raise StoreError(
                f"{first.url} keeps no map of a spread yet; start a node first (wakeful run …)", code="spread.first"
            )
        await check_marks(known, tables)
        check_named(known, list(tables))  # else what is for the others would wait, and be told to try again
        return known
