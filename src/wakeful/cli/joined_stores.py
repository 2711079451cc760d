"""Layer 5. Several stores of one program, named together: `--store "URL URL"`. In which of them is an object, and who runs them?"""

import re
import sys
from collections.abc import Sequence
from typing import Any

from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.store.protocol import NodeRow, ShardRow, Store
from wakeful.store.sealed_store import beneath
from wakeful.values.ids import SHARDS, ObjectId, shard_of

_NEXT = re.compile(r"\s+(?=postgres(?:ql)?://)")


def parts_of(url: str) -> list[str]:
    """The URLs that are named together, each once."""
    return list(dict.fromkeys(_NEXT.split(url.strip())))


def check_one(url: str) -> None:
    """`CommandError` where several stores are named for what is about one."""
    if len(parts_of(url)) > 1:
        raise CommandError(
            f"this is about one store, and {len(parts_of(url))} are named; give one of them with --store URL, and do it for "
            "each",
            code="store.one",
            exit_code=USAGE,
        )


class JoinedStores:
    """As much of a store as it takes to find an object's store and the node that owns it."""

    shared = True
    identity = ""  # a process that runs one of them runs all
    local = False
    asked_url = ""  # a process that is asked for none of its stores finds by itself which an object is in

    def __init__(self, stores: Sequence[Store], spreads: Sequence[str], owners: Sequence[Sequence[ShardRow]]) -> None:
        self.stores = list(stores)
        self.url = " ".join(store.url for store in stores)
        # Of each class on several servers, which store has which slot: the one with the newest term that says so.
        self._at: dict[str, dict[int, tuple[int, Store]]] = {}
        for store, cls, rows in zip(stores, spreads, owners, strict=True):
            known = self._at.setdefault(cls, {})
            for row in rows if cls else ():
                before = known.get(row.shard)
                if not row.is_away and (before is None or row.term > before[0]):
                    known[row.shard] = (row.term, store)
        self._main = next((store for store, cls in zip(stores, spreads, strict=True) if not cls), stores[0])

    @classmethod
    async def of(cls, stores: Sequence[Store]) -> "JoinedStores":
        """These, open already."""
        spreads = [await spread_of(store) for store in stores]
        made = cls(stores, spreads, [await store.owners() for store in stores])
        for name, known in made._at.items():
            if name and len(known) < SHARDS:
                words = f"{SHARDS - len(known)} of the {SHARDS} slots of {name} are on servers that are not named, or on their way"
                print(f"warning: {words}; name all of them in --store", file=sys.stderr, flush=True)
        return made

    def at(self, id: ObjectId) -> Store:
        """The store that the object lives in; while it is on its way one that it may be in."""
        known = self._at.get(id.cls)
        if not known:
            return self._main
        return known[shard_of(id)][1] if shard_of(id) in known else next(iter(known.values()))[1]

    async def nodes(self) -> list[NodeRow]:
        """Every node of any of them, once: a process has one for each of its stores, by one name."""
        rows = [row for store in self.stores for row in await store.nodes()]
        return list({row.node: row for row in sorted(rows, key=lambda row: row.lease_until)}.values())

    async def owners(self) -> list[ShardRow]:
        """Who owns them in the main store, or else wherever each is: any process passes a call on."""
        found = [await store.owners() for store in self.stores]
        return [next((row for row in rows if row.owner is not None), rows[0]) for rows in zip(*found, strict=True)]

    async def time(self) -> int | None:
        return await self._main.time()


async def spread_of(store: Store) -> str:
    """The class of which it is one of several servers, or nothing."""
    made: Any = beneath(store)
    return str(await made.spread_of()) if hasattr(made, "spread_of") else ""
