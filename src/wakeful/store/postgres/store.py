"""Layer 2. Every verb of the store, on PostgreSQL."""

import logging
from asyncio import gather
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec.structs import replace

from wakeful.policy.lease import USUAL, Lease
from wakeful.store.postgres import finds
from wakeful.store.postgres.group import printable
from wakeful.store.postgres.inserter import InsertLine, PendingInsert
from wakeful.store.postgres.migrations import (
    check_encoding,
    check_version,
    check_writable,
    identity_of,
    is_standby,
    migrate,
    version_of,
)
from wakeful.store.postgres.pool import Pool, not_open
from wakeful.store.postgres.rows import (
    NOTHING,
    answer_of,
    entry_of,
    info_of,
    is_here,
    joined_ids,
    loaded_of,
    node_of,
    parked_of,
    timer_of,
)
from wakeful.store.postgres.session import LOCK_CLASS, NOTIFY, NodeSession, QuestionTime, channel_of, payloads
from wakeful.store.postgres.statements import Statement, Statements
from wakeful.store.postgres.url import Target, parse_url
from wakeful.store.postgres.wire import Invalid, Row, ServerLost, ServerRefused, ServerWire
from wakeful.store.postgres.writer import PostgresWriter
from wakeful.store.protocol import (
    NO_GUARDS,
    REWALK_MS,
    WAKE_PAGES,
    WALKS_MAX,
    WHOLE_BYTES_MAX,
    WHOLE_ROWS_MAX,
    Guard,
    Hint,
    NodeRow,
    Obstacle,
    Outcome,
    Query,
    Range,
    Receipt,
    ShardRow,
    Swap,
    Table,
    TableLock,
)
from wakeful.store.slots import SlotTables
from wakeful.store.table_copy import Copying
from wakeful.values.commits import Commit, Info, Loaded, Remembered, page_slot
from wakeful.values.errors import BadValue, Fenced, StoreDown
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import ALARM, Entry, Parked, Timer, TimerKey

log = logging.getLogger("wakeful.store")

R = TypeVar("R")
READERS = 4
LOADERS = 2
# At least so many timers are asked of each shard: four times a page's fair share, and never fewer than this.
INNER_MIN = 16
_LAST_PAGE = page_slot(WAKE_PAGES)[1].encode()
_UNIQUE = Statement("SELECT gen_random_uuid()::text", ())


class PostgresStore:
    """Rows in the tables of one schema of one database. Connects when it must, and again after it was cut off."""

    shared = True
    rhythm = USUAL
    keeps_time = True
    needs_looks = False
    run_marks = None
    local = False
    shows_locks = True  # until the server has refused to

    def __init__(self, target: Target) -> None:
        self.url = target.shown
        self.identity = ""
        self.listens = self.tells = target.listen  # as hoped for, until the store is opened
        self._target = target
        self._statements = Statements(target.schema)
        self._pools: list[Pool] = []
        self._readers: Pool | None = None
        self._renewer: Pool | None = None  # of one connection: a lease waits behind nothing else
        self._inserter: InsertLine | None = None
        self._writer: PostgresWriter | None = None
        self._session: NodeSession | None = None
        self._heard: Callable[[Sequence[Hint]], None] | None = None
        self._sees = target.session_lock  # False once the server has refused to show who holds locks
        self._is_readonly = False
        self._has_slots = False  # it is one of several servers of a class
        self._pruned_to = 0  # up to this number of the ledger, behind the first rows
        self._settled_to = 0  # ledger rows up to this number are old and stay
        self._walked_at = 0  # when those were last looked at

    @classmethod
    def of_url(cls, url: str) -> "PostgresStore":
        """The store that a postgresql:// URL names; `BadUrl` if it is not one. Connects to nothing yet."""
        return cls(parse_url(url))

    @property
    def place(self) -> str:
        return self.url

    async def open_copying(self, *, now: int, writes: bool) -> Copying:
        from wakeful.store.postgres.table_copy import PostgresCopying

        return await PostgresCopying.open(self._target)

    async def open_slots(self) -> SlotTables:
        from wakeful.store.postgres.slots import PostgresSlots

        return await PostgresSlots.open(self._target)

    async def spread_of(self) -> str:
        """The class of which it is one of several servers; empty when it is none."""
        rows = await self._run("is_server") if self._has_slots else []
        return str(rows[0]["spread"]).partition(":")[0] if rows else ""

    async def open(self, *, now: int, readonly: bool = False) -> None:
        await self._disconnect()  # a session that lives goes on: others would miss this node
        wire = await ServerWire.connect(self._target, readonly=readonly)
        try:
            await check_writable(wire, self._statements, self.url, readonly=readonly)
            version = await version_of(wire, self._statements)
            if version == 0 and not readonly:
                await migrate(wire, self._statements, now=now)
                version = await version_of(wire, self._statements)
            check_version(version, self.url)
            self.identity = await identity_of(wire, self._statements.schema) or self.identity
            [(unique,)] = await wire.run(_UNIQUE)
            self._has_slots = bool(await wire.run(self._statements.get("is_server")))
            if readonly and await is_standby(wire):
                self._sees = False  # the locks of nodes are seen only where they were taken
        finally:
            await wire.close()
        self._is_readonly = readonly
        await self._open_session()
        self.listens = self._session is not None and self._session.listens
        self.tells = self.listens or (self._session is not None and self._target.listen)
        self._readers = Pool(self._target, READERS, readonly=readonly)
        loaders = Pool(self._target, LOADERS, packed=True, readonly=readonly)
        self._inserter = InsertLine(loaders, self._statements, has_slots=self._has_slots, where=self.url)
        single = Pool(self._target, 1, packed=True, readonly=readonly)
        self._writer = PostgresWriter(single, self._statements, unique, self.url)
        self._renewer = Pool(self._target, 1, readonly=readonly)
        self._pools = [self._readers, loaders, single, self._renewer]
        if not readonly:
            # A server that has no room left shall say so now, and not to the first turn of a node that owns shards.
            try:
                await gather(*(pool.warm() for pool in self._pools))
            except BaseException:
                await self.close()
                raise

    async def _open_session(self) -> None:
        target = self._target
        is_wanted = not self._is_readonly and (target.listen or target.session_lock)
        if self._session is not None and not (is_wanted and self._session.is_alive):
            await self._end_session()
        if is_wanted and self._session is None:
            session = NodeSession(target, self._hear)
            await session.open()
            self._session = session

    async def close(self) -> None:
        await gather(self._end_session(), self._disconnect())

    async def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _disconnect(self) -> None:
        pools, self._pools = self._pools, []
        self._readers = self._renewer = self._inserter = self._writer = None
        await gather(*(pool.close() for pool in pools))

    async def migrate(self, *, now: int) -> list[str]:
        wire = await ServerWire.connect(self._target)
        try:
            check_encoding(wire, self.url)
            applied = await migrate(wire, self._statements, now=now)
            check_version(await version_of(wire, self._statements), self.url)  # it may be newer than this program
            return applied
        finally:
            await wire.close()

    # nodes and shards

    async def join(self, row: NodeRow) -> None:
        values = {name: getattr(row, name) for name in row.__struct_fields__}
        wait_ms = Lease(row.lease_ms).lock_wait_ms
        has_session = self._session is not None and await self._session.lock(row.node, wait_ms)
        values |= {"about": printable(row.about), "has_session": has_session}
        await self._run("join", values, ["lazy"], pool=self._renewer)

    async def leave(self, node: str) -> None:
        await self._run("leave", {"node": node})
        if self._session is not None:
            await self._session.unlock(node)

    async def nodes(self) -> list[NodeRow]:
        if not self._sees:
            return [node_of(row, None) for row in await self._run("nodes")]
        try:
            rows = await self._run("nodes", {"lock_class": LOCK_CLASS}, ["held"])
        except ServerRefused:
            self._sees = False  # this server shows nobody's locks
            return await self.nodes()
        session = self._session
        can_miss = self._is_readonly or (session is not None and session.is_settled)
        held = frozenset(rows[0]["held"] or ()) if rows else frozenset()
        return [node_of(row, is_here(row, held, self._target.schema, can_miss=can_miss)) for row in rows]

    async def drain(self, node: str, is_draining: bool) -> bool:
        return bool(await self._run("drain", {"node": node, "is_draining": is_draining}))

    async def claim(
        self, node: str, shards: Sequence[int], *, now: int, seen: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        values: dict[str, object] = {"node": node, "shards": shards, "now": now}
        if seen is not None:
            values["seen"] = [seen.get(shard, -1) for shard in shards]
        won = dict(await self._run("claim", values, ["seen"] * (seen is not None)))
        return {shard: won[shard] for shard in shards if shard in won}

    async def release(self, node: str, epochs: Mapping[int, int]) -> None:
        await self._run("release", {"node": node, "shards": list(epochs), "epochs": list(epochs.values())})

    async def owners(self) -> list[ShardRow]:
        return [ShardRow(*row) for row in await self._run("owners")]

    # writes

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        if self._writer is None:
            raise not_open(self._target)
        return await self._writer.commit(node, commits) if commits else []

    async def insert(
        self,
        timers: Sequence[Timer],
        *,
        now: int,
        receipt: Receipt | None = None,
        guards: Mapping[int, Guard] = NO_GUARDS,
        each: bool = False,
    ) -> list[Obstacle]:
        if self._inserter is None:
            raise not_open(self._target)
        patience = QuestionTime(self._target.timeout_ms / 1000)
        inserter, wanted = self._inserter, PendingInsert(timers, now, receipt, guards, each)
        while timers:
            try:
                return await inserter.insert(wanted)
            except ServerLost as error:  # nothing of it was written
                if self._inserter is not inserter or not await patience.waits():
                    raise StoreDown(error.message) from None
        return []

    async def forget(self, receipts: Sequence[str], *, at: int) -> None:
        await self._run("forget", {"ids": list(receipts), "at": at})

    async def erase(self, node: str, id: ObjectId, epoch: int, *, now: int, limit: int) -> bool:
        shard = shard_of(id)
        values = {"node": node, "shard": shard, "epoch": epoch, "cls": id.cls, "key": id.key}
        [(is_ours, is_marked, gone)] = await self._run("erase", {**values, "limit": limit}, ["rows"])
        is_done = not is_marked
        if is_marked and gone < limit:
            [(is_ours, is_done, _)] = await self._run("erase", {**values, "now": now}, ["end"])
        if not is_ours:
            raise Fenced(shard, epoch)
        return bool(is_done)

    # an object's rows

    async def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        if not ids:
            return []
        values = {
            **joined_ids(ids),
            "alarm": ALARM,
            "rows_max": WHOLE_ROWS_MAX,
            "bytes_max": WHOLE_BYTES_MAX,
            "last_page": _LAST_PAGE,
        }
        loaded = [NOTHING] * len(ids)
        for row in await self._run("load", values):
            n = row[0] - 1
            loaded[n] = loaded_of(ids[n], row)
        return loaded

    async def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        names = list({key.encode() for key in keys})
        rows = await self._run("read", {"cls": id.cls, "key": id.key, "space": space, "names": names})
        found = {name.decode(): value for name, value in rows}
        return {key: found[key] for key in keys if key in found}

    async def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        values = {
            "cls": id.cls,
            "key": id.key,
            "space": space,
            "first": range.first.encode(),
            "last": None if range.last is None else range.last.encode(),
            "limit": range.limit,
        }
        parts = [part for part in ("last", "limit") if values[part] is not None] + ["reverse"] * range.reverse
        return [(name.decode(), value) for name, value in await self._run("scan", values, parts)]

    async def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        values = {"cls": id.cls, "key": id.key, "request": key.encode(), "now": now}
        for row in await self._run("recall", values):
            return Remembered(key, *row)
        return None

    async def find_answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        async def ask(query: Query) -> list[tuple[ObjectId, Remembered]]:
            values, parts = finds.answers(query)
            return [answer_of(row) for row in await self._run("find_answers", {**values, "now": now}, parts)]

        return await self._visible_rows(query, ask, lambda row: (row[0], (*row[0], row[1].key)))

    # timers

    async def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        if not shards:
            return [], False
        mine = list(set(shards))
        inner = max(INNER_MIN, 4 * limit // len(mine))
        page, more = await self._page(mine, after, until, limit, inner)
        if more and len(page) < limit // 4:
            # One shard has most of what is early: look deeper, which costs little since the others have little.
            page, more = await self._page(mine, after, until, limit, 16 * inner)
        return page, more

    async def _page(
        self, shards: list[int], after: TimerKey | None, until: int, limit: int, inner: int
    ) -> tuple[list[Timer], bool]:
        values = {"shards": shards, "until": until, "inner": inner, "limit": limit, **finds.past(after)}
        rows = await self._run("timers", values)
        return [timer_of(row) for row in rows[:limit]], len(rows) > limit or any(row["more"] for row in rows[:1])

    # for people

    async def find_objects(self, query: Query) -> list[Info]:
        async def ask(query: Query) -> list[Info]:
            return [info_of(row) for row in await self._run("find_objects", *finds.objects(query))]

        return await self._visible_rows(query, ask, lambda info: (info.id, tuple(info.id)))

    async def find_timers(self, query: Query) -> list[Timer]:
        async def ask(query: Query) -> list[Timer]:
            return [timer_of(row) for row in await self._find("timers", query, finds.timers(query))]

        return await self._visible_rows(query, ask, lambda timer: (timer.id, timer.sort_key))

    async def find_entries(self, query: Query) -> list[tuple[int, Entry]]:
        async def ask(query: Query) -> list[tuple[int, Entry]]:
            return [entry_of(row) for row in await self._find("entries", query, finds.entries(query))]

        return await self._visible_rows(query, ask, lambda row: (row[1].id, row[:1]))

    async def find_parked(self, query: Query) -> list[Parked]:
        async def ask(query: Query) -> list[Parked]:
            return [parked_of(row) for row in await self._run("find_parked", *finds.parked(query))]

        return await self._visible_rows(query, ask, lambda parked: (parked.timer.id, (parked.number,)))

    async def _visible_rows(
        self,
        query: Query,
        ask: Callable[[Query], Awaitable[list[R]]],
        place: Callable[[R], tuple[ObjectId, tuple[object, ...]]],
    ) -> list[R]:
        """The page without what is on its way to another server, or from one: that is seen where its slot is."""
        hidden = await self._hidden_slots()
        if not hidden:
            return await ask(query)
        seen: list[R] = []
        while True:
            page = await ask(query)
            seen += [row for row in page if shard_of(place(row)[0]) not in hidden]
            if len(page) < query.limit or len(seen) >= query.limit:
                return seen[: query.limit]
            query = replace(query, after=place(page[-1])[1])

    async def _hidden_slots(self) -> frozenset[int]:
        return frozenset([row[0] for row in await self._run("hidden_slots")]) if self._has_slots else frozenset()

    async def _find(self, what: Literal["timers", "entries"], query: Query, asked: finds.Asked) -> list[Row]:
        """The page, by the shorter of the two ways."""
        if finds.names_objects(query):
            classes = [query.cls] if query.cls is not None else await self.known_classes()
            if finds.names_one_timer(query) or await self._is_narrow(what, query, classes):
                values, parts = asked
                return await self._run(f"find_{what}_by_id", {**values, "classes": classes}, parts)
        return await self._run(f"find_{what}", *asked)

    async def _is_narrow(self, what: str, query: Query, classes: Sequence[str]) -> bool:
        [(found,)] = await self._run(f"narrow_{what}", *finds.narrow(query, classes))
        return bool(found <= finds.most_rows(query))

    async def count(self, what: Table, *, cls: str | None = None, key_prefix: str | None = None) -> int:
        [(found,)] = await self._run(f"count_{what}", *finds.count(cls, key_prefix))
        hidden = await self._hidden_slots()
        if hidden:  # while slots are moved; by names, since a shard is known of those only
            rows = await self._run(f"count_{what}_by_id", *finds.count(cls, key_prefix))
            found -= sum(count for *id, count in rows if shard_of(ObjectId(*id)) in hidden)
        return int(found)

    async def known_classes(self) -> list[str]:
        return [cls for (cls,) in await self._run("known_classes")]

    # upkeep

    async def prune(
        self, *, now: int, entries_before: int, crowded: Sequence[tuple[ObjectId, str, int]], limit: int
    ) -> int:
        if entries_before > 0 and now - self._walked_at >= REWALK_MS:
            self._walked_at, self._settled_to = now, 0
        gone = 0
        for _ in range(WALKS_MAX):  # each a transaction of its own
            values = {
                "now": now,
                "entries_before": entries_before,
                "limit": limit,
                "behind": self._pruned_to,
                "settled": self._settled_to,
                "cls": [id.cls for id, _, _ in crowded],
                "key": [id.key for id, _, _ in crowded],
                "name": [name for _, name, _ in crowded],
                "keep": [keep for _, _, keep in crowded],
            }
            [(some, behind, settled_to, is_walking)] = await self._run("prune", values)
            if entries_before > 0:
                self._pruned_to, self._settled_to = behind, settled_to
            gone, crowded = gone + some, ()
            if gone >= limit or not is_walking:
                break
        return int(gone)

    async def swap(self, swaps: Sequence[Swap]) -> int:
        return sum([len(await self._run(*swap_values(one))) for one in swaps])

    async def locks(self) -> list[TableLock]:
        """By the session, which no lock on a table holds up; where there is none, like any read."""
        session, statement = self._session, self._statements.get("locks")
        values = {"schema": self._target.schema}
        try:
            if session is not None and session.is_alive:
                rows = await session.run(statement, statement.args(values))
            else:
                rows = await self._run("locks", values)
        except ServerRefused:
            self.shows_locks = False
            return []
        return [TableLock(*row) for row in rows]

    # between nodes

    async def time(self) -> int | None:
        [(now,)] = await self._run("time")
        return int(now)

    async def tell(self, hints: Sequence[Hint]) -> None:
        if self._readers is None:
            raise not_open(self._target)
        if self._session is not None and self.listens:
            await self._session.tell(hints)
        elif self.tells:
            # Behind a pooler nobody can be listened to, and those who are not behind it can be told all the same.
            try:
                async with self._readers.take() as wire:
                    await wire.run(NOTIFY, [channel_of(self._target.schema), payloads(hints)])
            except ServerRefused:
                self.tells = False
            except (StoreDown, Invalid) as error:  # a hint is never needed to be right
                log.info("%s: not told: %s", self.url, error, extra={"code": "store.session"})

    async def catch_up(self) -> None:
        """Wait until everything was heard that others had told before; for worlds, whose time may not jump meanwhile."""
        if self._session is not None:
            await self._session.catch_up()

    async def look(self) -> None:
        """Nothing: the server brings what is told."""

    def watch(self, heard: Callable[[Sequence[Hint]], None]) -> None:
        self._heard = heard

    def _hear(self, hints: Sequence[Hint]) -> None:
        if self._heard is not None:
            self._heard(hints)

    async def _run(
        self,
        name: str,
        values: Mapping[str, object] = {},
        parts: Iterable[str] = (),
        *,
        pool: Pool | None = None,
    ) -> list[Row]:
        """One statement on a connection for reads and small writes, which are safe to send again, and are."""
        pool = pool or self._readers
        if pool is None:
            raise not_open(self._target)
        patience = QuestionTime(pool.timeout_s)
        while True:
            try:
                async with pool.take() as wire:
                    known = parts if wire.can_be_lazy else [part for part in parts if part != "lazy"]
                    statement = self._statements.get(name, known)
                    return await wire.run(statement, statement.args(values))
            except Invalid as error:
                raise BadValue(f"PostgreSQL can't take that: {error}", code="value.store") from None
            except ServerLost as error:
                if pool.is_closed or not await patience.waits():
                    raise StoreDown(error.message) from None


_SWAP_WHERE = {
    "storage": ("cls", "key", "space", "name"),
    "timers": ("cls", "key", "name"),
    "requests": ("cls", "key", "request"),
    "ledger": ("number",),
    "parked": ("number",),
}
_SWAP_WHAT = {
    "storage": ("value",),
    "timers": ("payload",),
    "requests": ("fingerprint", "answer"),
    "ledger": ("error",),
    "parked": ("payload", "error", "traceback"),
}


def swap_values(swap: Swap) -> tuple[str, dict[str, object]]:
    """The statement's name, and its arguments. One row each: two at once could wait for each other's commits."""
    values: dict[str, object] = dict(zip(_SWAP_WHERE[swap.table], swap.where, strict=True))
    for part in ("name", "request"):
        if part in values and swap.table in ("storage", "requests"):
            values[part] = str(values[part]).encode()  # bytes there, because they may hold a NUL
    for name, old, new in zip(_SWAP_WHAT[swap.table], swap.old, swap.new, strict=True):
        values |= {f"old_{name}": old, f"new_{name}": new}
    if swap.table == "storage":
        values["shard"] = shard_of(ObjectId(str(values["cls"]), str(values["key"])))
    return f"swap_{swap.table}", values
