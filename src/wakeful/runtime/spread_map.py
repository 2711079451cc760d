"""Layer 3. Where is the map of a class on several servers kept, and how is it changed by one at a time?

In the first server, as one row with a version: who changes it names the version that it saw, and of two one is told to
look again. What is true of a slot stands in its server's own row (see store/slots.py); the map says who goes where, so
that whoever comes after a mover that died knows what was begun.
"""

from collections.abc import Callable, Mapping

import msgspec

from wakeful.policy.spread import SpreadMap, first_map, with_servers
from wakeful.store.slots import ServerMark, SlotTables
from wakeful.values.errors import BadOption, Conflict, StoreDown
from wakeful.values.ids import SHARDS

TRIES_MAX = 20
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SpreadMap).decode


async def read_map(first: SlotTables) -> SpreadMap | None:
    """The map that this server keeps; None when it keeps none."""
    mark = await first.mark()
    return None if mark is None or mark.map is None else _decode(mark.map)


async def change_map(first: SlotTables, change: Callable[[SpreadMap], SpreadMap]) -> SpreadMap:
    """Put what `change` makes of the map in its place; made again of the newer one when somebody else was first."""
    for _ in range(TRIES_MAX):
        known = await read_map(first)
        if known is None:
            raise Conflict(f"{first.url} keeps no map of a spread; name the first server first", code="spread.first")
        changed = change(known)
        if changed is known or await first.put_map(_encode(changed), version=changed.version):
            return changed
    raise StoreDown(f"the map in {first.url} was changed by others {TRIES_MAX} times in a row; try again")


async def settle(servers: Mapping[str, SlotTables], new_id: Callable[[], str]) -> SpreadMap:
    """See to it that these are the servers of one spread, the first of them keeping its map; the map.

    Servers that were never in one are taken in: each bars what the map gives to others, before any node claims anything.
    """
    names = list(servers)
    first = servers[names[0]]
    known = await read_map(first)
    if known is None:
        known = await _make_first(servers, new_id)
    marks = await check_marks(known, servers)
    for name, tables in servers.items():
        if marks[name] is None and name not in known.slots and await tables.has_objects():
            raise _not_empty(name, tables)
    known = await change_map(first, lambda found: with_servers(found, names))
    for name, tables in servers.items():
        if marks[name] is None:
            await tables.enter(ServerMark(known.id, name), [n for n in range(SHARDS) if known.slots[n] == name])
    return known


async def check_marks(known: SpreadMap, servers: Mapping[str, SlotTables]) -> dict[str, ServerMark | None]:
    """What each says that it is, None when it was never in a spread; `BadOption` when it is not what it is taken for."""
    marks = {name: await tables.mark() for name, tables in servers.items()}
    for name, mark in marks.items():
        if mark is not None and (mark.spread, mark.server) != (known.id, name):
            raise BadOption(
                f"{servers[name].url} is server {mark.server!r} of a spread already, and here it is {name!r}; give each "
                "server the name that it had at first, and each spread a database or ?schema=NAME of its own",
                code="spread.other",
            )
    return marks


async def check_unmarked(servers: Mapping[str, SlotTables]) -> None:
    """`BadOption` when one of them is in a spread, and the first keeps no map of it."""
    for tables in servers.values():
        mark = await tables.mark()
        if mark is not None:
            raise BadOption(
                f"{tables.url} is server {mark.server!r} of a spread already, whose map another server keeps; "
                "name that one first",
                code="spread.first",
            )


async def _make_first(servers: Mapping[str, SlotTables], new_id: Callable[[], str]) -> SpreadMap:
    """The first map. Where one server has objects already, it has all slots until they are moved."""
    names = list(servers)
    await check_unmarked(servers)
    full = [name for name, tables in servers.items() if await tables.has_objects()]
    if full and full != names[:1]:
        name = next(one for one in full if one != names[0])
        raise _not_empty(name, servers[name])
    made = first_map(new_id(), names, full=full[0] if full else None)
    slots = [slot for slot in range(SHARDS) if made.slots[slot] == names[0]]
    mark = await servers[names[0]].enter(ServerMark(made.id, names[0], made.version, _encode(made)), slots)
    if mark.map is None:
        raise BadOption(f"{servers[names[0]].url} keeps no map of a spread", code="spread.first")
    return _decode(mark.map)


def _not_empty(name: str, tables: SlotTables) -> Conflict:
    return Conflict(
        f"server {name!r} ({tables.url}) holds objects already, and only the first may when a spread begins; name it "
        "first, or give it an empty database or ?schema=NAME",
        code="spread.full",
    )
