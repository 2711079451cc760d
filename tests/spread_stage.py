"""Two servers of a spread, somebody who writes to whichever has a slot, and movers that are killed between any two trips."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

from wakeful.policy.spread import Move
from wakeful.runtime.slot_move import MoveStep, SlotMover
from wakeful.runtime.spread_map import read_map, settle
from wakeful.store import open_url
from wakeful.store.protocol import Query, Receipt, Store
from wakeful.store.slots import HERE, SlotTables
from wakeful.testing.suites.harness import NOW, entry, parked, timer
from wakeful.values.commits import HISTORY, PAGES, SYSTEM, USER, Commit, Remembered
from wakeful.values.errors import SlotMoved
from wakeful.values.ids import ObjectId, shard_of

KEYS = [ObjectId("Order", f"k{n}") for n in range(1200)]
BY_SLOT = {shard_of(id): id for id in reversed(KEYS)}  # one object in each slot


class Killed(BaseException):
    """The process of the mover is gone, between two of its trips."""


class Mortal:
    """The tables of a server for a mover that dies at the given trip, before it or when it was made and not answered."""

    def __init__(self, tables: SlotTables, trips: "Trips") -> None:
        self._tables, self._trips = tables, trips
        self.url = tables.url

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._tables, name)
        if name in ("read", "tell"):
            return verb

        async def made(*args: Any, **options: Any) -> Any:
            self._trips.meet()
            answer = await verb(*args, **options)
            self._trips.meet()
            return answer

        return made


class Trips:
    def __init__(self, left: int) -> None:
        self.left = left

    def meet(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


class Servers:
    """The stores and tables of several servers, by name."""

    def __init__(self, urls: dict[str, str]) -> None:
        self.urls = urls
        self.stores: dict[str, Store] = {}
        self.tables: dict[str, SlotTables] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> "Servers":
        for name, url in self.urls.items():
            store: Any = open_url(url)
            await store.open(now=NOW)
            self.stores[name], self.tables[name] = store, await store.open_slots()
        self.map = await settle(self.tables, lambda: f"Order:{uuid4().hex}")
        for store in self.stores.values():
            await store.open(now=NOW)  # as a node does it, which knows by then that it is one of several
        return self

    async def __aexit__(self, *_: object) -> None:
        for store in self.stores.values():
            await store.close()
        for tables in self.tables.values():
            await tables.close()

    def mover(self, left: int = -1, heard: Callable[[MoveStep], Awaitable[None]] | None = None) -> SlotMover:
        trips = Trips(left)
        mortal = {name: Mortal(tables, trips) for name, tables in self.tables.items()}
        more = {} if heard is None else {"heard": heard}
        return SlotMover(mortal, f"m{next(self._numbers)}", sleep=asyncio.sleep, **more)  # type: ignore[arg-type]

    async def move_of(self, slot: int) -> Move:
        """The move of that slot to the other of two servers."""
        known = await read_map(self.tables[next(iter(self.tables))])
        assert known is not None
        source = known.slots[slot]
        [target] = [name for name in self.urls if name != source]
        return Move(slot, source, target, known.terms[slot] + 1)

    async def has(self, slot: int) -> list[str]:
        """The servers that say that the slot is theirs."""
        found = []
        for name, tables in self.tables.items():
            found += [name for row in await tables.slots() if row.slot == slot and row.state == HERE]
        return found

    async def kept(self, name: str, id: ObjectId) -> dict[str, list[tuple[Any, ...]]]:
        """All that a server keeps of the object, by table."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        pages = self.tables[name].read([id])
        async for table, rows in pages:
            found[table] = found.get(table, []) + rows
        return found

    async def fill(self, id: ObjectId) -> None:
        """A row of everything."""
        [name] = await self.has(shard_of(id))
        store, slot = self.stores[name], shard_of(id)
        epoch = (await store.claim("n", [slot], now=NOW))[slot]
        commit = Commit(
            id=id,
            shard=slot,
            epoch=epoch,
            now=NOW,
            puts={
                (USER, "n"): b"0",
                (USER, "a\0b"): b"x" * 9_000,
                (SYSTEM, "s"): b"s",
                (PAGES, "1"): b"p",
                (HISTORY, "h"): b"h",
            },
            sets=[timer(id), timer(id, "schedule:x", seq=2, payload=b"p"), timer(id, "forward:Mail/m/job:1", seq=3)],
            entries=[entry(id), entry(id, "schedule:x", error="no")],
            parks=[parked(id, "job:p")],
            remember=Remembered("key\0", b"f", b"answer", NOW + 9_000_000),
        )
        assert await store.commit("n", [commit]) == [None]


class Writer:
    """Writes to an object wherever a server lets it, as nodes would that believe whatever they believe."""

    def __init__(self, servers: Servers, id: ObjectId) -> None:
        self.servers, self.id, self.slot = servers, id, shard_of(id)
        self.acked = 0
        self.jobs: list[str] = []
        self.most = 0  # servers that took a write at one moment
        self._held: dict[str, int] = {}
        self._numbers = itertools.count(1)

    async def write(self, _: object = None) -> None:
        """One more turn and one more job on every server that takes them, with old epochs and then with new ones."""
        took = 0
        for name, store in self.servers.stores.items():
            turns = await self._turn(store, self._held.get(name))
            for epoch in (await store.claim(f"w-{name}", [self.slot], now=NOW)).values():
                self._held[name] = epoch
            turns += await self._turn(store, self._held.get(name))
            job = f"job:{next(self._numbers)}"
            with suppress(SlotMoved):
                await store.insert(
                    [timer(self.id, job, seq=100)], now=NOW, receipt=Receipt(f"w:{self.id}:{job}", 1, NOW + 9_000_000)
                )
                self.jobs.append(job)
                turns += 1
            took += turns > 0
        self.most = max(self.most, took)

    async def _turn(self, store: Store, epoch: int | None) -> int:
        if epoch is None:
            return 0
        node = f"w-{next(name for name, one in self.servers.stores.items() if one is store)}"
        before = int((await store.read(self.id, USER, ["n"])).get("n", b"0"))
        commit = Commit(id=self.id, shard=self.slot, epoch=epoch, now=NOW, puts={(USER, "n"): str(before + 1).encode()})
        [outcome] = await store.commit(node, [commit])
        self.acked += outcome is None
        return int(outcome is None)

    async def check(self) -> None:
        """Nothing that was acknowledged is lost, and it is where the slot is and nowhere else."""
        [name] = await self.servers.has(self.slot)
        store = self.servers.stores[name]
        assert int((await store.read(self.id, USER, ["n"]))["n"]) == self.acked
        timers = await store.find_timers(Query(cls=self.id.cls, key=self.id.key, limit=1_000))
        assert sorted(one.name for one in timers if one.name.startswith("job:")) == sorted(self.jobs)
        for other in self.servers.urls.keys() - {name}:
            assert await self.servers.kept(other, self.id) == {}
        assert self.most <= 1

    async def seen(self, _: object = None) -> int:
        """On how many servers people see the object; with the same count of it on each."""
        count = 0
        for store in self.servers.stores.values():
            query = Query(cls=self.id.cls, key=self.id.key, limit=1_000)
            objects = await store.find_objects(query)
            for table, rows in (
                ("objects", objects),
                ("timers", await store.find_timers(query)),
                ("entries", await store.find_entries(query)),
                ("parked", await store.find_parked(query)),
            ):
                assert await store.count(table, cls=self.id.cls, key_prefix=self.id.key) == len(rows)  # type: ignore[arg-type]
                assert bool(rows) is bool(objects)
            assert bool(await store.find_answers(query, now=NOW)) is bool(objects)
            count += len(objects)
        return count
