"""Layer 2. How does a slot leave one PostgreSQL server for another?

Each step is one transaction that holds the slot's row of `shards` and looks at it first: a mover that was frozen, or
killed and replaced, finds there that it is late. The rows themselves are read in pages of bounded size.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

from wakeful.store.postgres.migrations import check_version, version_of
from wakeful.store.postgres.session import LOCK_CLASS, NOTIFY, channel_of, lock_key, payloads
from wakeful.store.postgres.statements import Statement, Statements
from wakeful.store.postgres.table_copy import PAGE_TIMEOUT_S, WHOLE_TIMEOUT_S, Bulk
from wakeful.store.postgres.url import Target
from wakeful.store.protocol import receipt_prefix
from wakeful.store.slots import HERE, LEAVING, MOVING, Row, RowPages, ServerMark, SlotRow, StaleMove
from wakeful.store.table_copy import TABLES as COLUMNS
from wakeful.store.table_copy import Pages
from wakeful.values.errors import StoreDown
from wakeful.values.ids import RESERVED, SHARDS, ObjectId

IDS_PAGE = 10_000
CLEAR_IDS = 500  # objects whose rows are removed in one transaction
# The order that a digest and a copy take the rows of an object in; numbers are given anew where they come to.
_ORDER = {
    "objects": "cls",
    "storage": "space, name",
    "timers": "name",
    "ledger": "number",
    "parked": "number",
    "requests": "request",
}
# A timer takes its shard along; whether it was begun says nothing elsewhere, and is no part of what is compared.
_TAKEN = {
    table: tuple(column for column in COLUMNS[table] if column != "number") + (("shard",) if table == "timers" else ())
    for table in _ORDER
}
_BYTES = {"value", "payload", "fingerprint", "answer", "name:storage", "request"}
_MARK = Statement("SELECT spread, server, version, map FROM wakeful.spread", ())
_OWN = Statement("SELECT cls, key FROM wakeful.objects", ())
_XMIN = "SELECT (txid_snapshot_xmin(txid_current_snapshot()) % 4294967296)::text"
# By the distance from now, since these numbers go round. One that is said to be younger than it is gets compared.
_SINCE = "age(t.xmin) <= age($1::text::xid)"


class PostgresSlots:
    """The slots of one schema, over a connection of their own."""

    def __init__(self, wire: Bulk, target: Target) -> None:
        self._wire = wire
        self._target = target
        self._statements = Statements(target.schema)
        self.url = target.shown
        self._has_xmin = True

    @classmethod
    async def open(cls, target: Target) -> "PostgresSlots":
        wire = await Bulk.connect(target)
        assert isinstance(wire, Bulk)
        try:
            # The server's own choice of plans: here it is many rows at once.
            await wire.script("SET plan_cache_mode = auto; SET enable_seqscan = on; SET synchronous_commit = on")
            check_version(await version_of(wire, Statements(target.schema)), target.shown)
        except BaseException:
            await wire.close()
            raise
        return cls(wire, target)

    # what it is

    async def mark(self) -> ServerMark | None:
        for spread, server, version, known in await self._run(_MARK.text):
            return ServerMark(spread, server, version, None if known is None else bytes(known))
        return None

    async def enter(self, mark: ServerMark, slots: Collection[int]) -> ServerMark:
        async with self._wire.transaction(timeout_s=PAGE_TIMEOUT_S):
            made = await self._run(
                "INSERT INTO wakeful.spread (one, version, spread, server, map) VALUES (1, $1, $2, $3, $4) "
                "ON CONFLICT DO NOTHING RETURNING 1",
                *(mark.version, mark.spread, mark.server, mark.map),
            )
            if made:
                others = [slot for slot in range(SHARDS) if slot not in slots]
                await self._run(
                    "UPDATE wakeful.shards SET state = 1, owner = NULL, epoch = epoch + 1 WHERE shard = ANY ($1)",
                    others,
                )
        known = await self.mark()
        assert known is not None
        return known

    async def put_map(self, data: bytes, *, version: int) -> bool:
        sql = "UPDATE wakeful.spread SET map = $1, version = $2 WHERE version = $2 - 1 RETURNING 1"
        return bool(await self._run(sql, data, version))

    async def slots(self) -> list[SlotRow]:
        rows = await self._run("SELECT shard, epoch, term, state FROM wakeful.shards ORDER BY shard")
        return [SlotRow(*row) for row in rows]

    async def keep(self, id: ObjectId, row: tuple[int, str], data: bytes, *, now: int) -> None:
        async with self._wire.transaction(timeout_s=PAGE_TIMEOUT_S):
            if await self._run(
                "INSERT INTO wakeful.storage (cls, key, space, name, value) VALUES ($1, $2, $3, $4, $5) "
                "ON CONFLICT DO NOTHING RETURNING 1",
                *(*id, row[0], row[1].encode(), data),
            ):
                await self._run(
                    "INSERT INTO wakeful.objects (cls, key, created_at, active_at, rows, bytes) "
                    "VALUES ($1, $2, $3, $3, 1, $4) ON CONFLICT DO NOTHING",
                    *(*id, now, len(data)),
                )

    async def has_objects(self) -> bool:
        sql = "SELECT 1 FROM wakeful.objects WHERE NOT starts_with(cls, $1) LIMIT 1"
        return bool(await self._run(sql, RESERVED))

    # rows

    async def ids(self, slots: Collection[int]) -> dict[int, list[ObjectId]]:
        """By the hash of the names, which the server can't compute: all names are read, in a few microseconds each."""
        names = _SlotNames(slots)
        async with self._reading():
            async for rows in self._cursor(_OWN.text, IDS_PAGE):
                names.add(rows)
            names.add(
                await self._run("SELECT DISTINCT cls, key FROM wakeful.timers WHERE shard = ANY ($1)", list(slots))
            )
            names.add(await self._run("SELECT DISTINCT cls, key FROM wakeful.parked"))
        return {slot: sorted(ids) for slot, ids in names.found.items()}

    async def moment(self) -> str | None:
        if self._has_xmin:
            try:
                return str((await self._run(_XMIN))[0][0])
            except StoreDown:
                self._has_xmin = False
        return None

    async def changes(self, slot: int, moment: str) -> list[ObjectId]:
        """The server looks at all of its rows, and sends only names of such."""
        names = _SlotNames([slot])
        async with self._reading():
            sql = f"SELECT t.cls, t.key FROM wakeful.objects AS t WHERE {_SINCE}"
            async for rows in self._cursor(sql, IDS_PAGE, moment):
                names.add(rows)
            sql = f"SELECT DISTINCT t.cls, t.key FROM wakeful.timers AS t WHERE {_SINCE} AND t.shard = $2"
            names.add(await self._run(sql, moment, slot))
            names.add(await self._run(f"SELECT DISTINCT t.cls, t.key FROM wakeful.parked AS t WHERE {_SINCE}", moment))
        return sorted(names.found[slot])

    async def digests(self, ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
        columns = {
            table: ", ".join(_comparable(table, column) for column in _TAKEN[table] if column != "started")
            for table in _ORDER
        }
        return await self._sums(ids, {table: f"md5(ROW({some})::text)" for table, some in columns.items()})

    async def stamps(self, ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
        """By the numbers of the transactions that wrote its rows, which no large value has to be read for."""
        if self._has_xmin:
            try:
                return await self._sums(ids, dict.fromkeys(_ORDER, "t.xmin::text"))
            except StoreDown:
                self._has_xmin = False  # a relative of PostgreSQL that has no such column
        return await self.digests(ids)

    async def _sums(self, ids: Sequence[ObjectId], of_row: Mapping[str, str]) -> dict[ObjectId, str]:
        """Of each object what its rows come to, in their order, table by table."""
        parts: dict[ObjectId, list[str]] = defaultdict(list)
        for table, order in _ORDER.items():
            by = ", ".join(f"t.{column}" for column in order.split(", "))
            for cls, key, digest in await self._run(
                f"SELECT t.cls, t.key, md5(string_agg({of_row[table]}, ',' ORDER BY {by})) "
                f"FROM wakeful.{table} AS t JOIN unnest($1::text[], $2::text[]) AS w (cls, key) "
                "ON t.cls = w.cls AND t.key = w.key GROUP BY t.cls, t.key",
                *_names(ids),
            ):
                parts[ObjectId(cls, key)].append(f"{table} {digest}")
        return {id: " ".join(some) for id, some in parts.items()}

    async def read(self, ids: Sequence[ObjectId]) -> RowPages:
        async with self._reading():
            for table, order in _ORDER.items():
                columns = ", ".join(f"t.{column}" for column in _TAKEN[table])
                by = ", ".join(f"t.{column}" for column in dict.fromkeys(["cls", "key", *order.split(", ")]))
                sql = (
                    f"SELECT {columns} FROM wakeful.{table} AS t JOIN unnest($1::text[], $2::text[]) AS w (cls, key) "
                    f"ON t.cls = w.cls AND t.key = w.key ORDER BY {by}"
                )
                pages = Pages(table)
                async for rows in self._cursor(sql, pages, *_names(ids)):
                    yield table, rows

    async def receipts(self, slot: int) -> list[Row]:
        first = receipt_prefix(slot)
        sql = "SELECT id, number, answer, expires_at FROM wakeful.receipts WHERE id >= $1 AND id < $2 ORDER BY id"
        return [tuple(row) for row in await self._run(sql, first, first + "~")]

    async def write(self, slot: int, mover: str, ids: Sequence[ObjectId], pages: RowPages | None) -> None:
        async with self._wire.transaction(timeout_s=WHOLE_TIMEOUT_S):
            await self._hold(slot, mover)
            await self._delete(ids)
            if pages is not None:
                async for table, rows in pages:
                    await self._wire.copy(self._statements.schema, table, _TAKEN[table], rows)

    async def write_receipts(self, slot: int, mover: str, rows: Sequence[Row]) -> None:
        async with self._wire.transaction(timeout_s=PAGE_TIMEOUT_S):
            await self._hold(slot, mover)
            for row in rows:
                await self._run(
                    "INSERT INTO wakeful.receipts AS r (id, number, answer, expires_at) VALUES ($1, $2, $3, $4) "
                    "ON CONFLICT (id) DO UPDATE SET number = greatest(r.number, EXCLUDED.number), "
                    "answer = EXCLUDED.answer, expires_at = greatest(r.expires_at, EXCLUDED.expires_at)",
                    *row,
                )

    # steps

    async def seize(self, slot: int, term: int, mover: str) -> bool:
        if await self._run(
            "UPDATE wakeful.shards SET owner = $3, state = 2 WHERE shard = $1 AND state IN (1, 2) AND term < $2 RETURNING 1",
            *(slot, term, mover),
        ):
            return True
        row = await self._slot(slot)
        if row.term == term:
            return False
        raise StaleMove(f"slot {slot} of {self.url} is at term {row.term}, and this move has {term}; plan again")

    async def ask(self, slot: int, term: int) -> bool:
        await self._run("UPDATE wakeful.shards SET state = 3 WHERE shard = $1 AND state = 0 AND term < $2", slot, term)
        # Leases are by the server's clock, which all nodes follow.
        return not await self._run(
            "SELECT 1 FROM wakeful.shards AS s JOIN wakeful.nodes AS n ON n.node = s.owner WHERE s.shard = $1 "
            "AND s.state = 3 AND n.lease_until > extract(epoch FROM clock_timestamp()) * 1000",
            slot,
        )

    async def fence(self, slot: int, term: int) -> int:
        """Waits for commits and inserts in flight, which hold the row in share mode."""
        rows = await self._run(
            "UPDATE wakeful.shards SET state = 4, owner = NULL, epoch = epoch + 1, term = $2 "
            "WHERE shard = $1 AND state IN (0, 3) AND term < $2 RETURNING epoch",
            *(slot, term),
        )
        if rows:
            return int(rows[0][0])
        row = await self._slot(slot)
        if row.term == term and row.state not in (HERE, LEAVING):
            return row.epoch
        raise StaleMove(f"slot {slot} of {self.url} is at term {row.term}, and this move has {term}; plan again")

    async def land(self, slot: int, term: int, mover: str, *, above: int) -> None:
        async with self._wire.transaction(timeout_s=PAGE_TIMEOUT_S):
            # What was running where it came from did not die of it, and was not committed.
            await self._run("UPDATE wakeful.timers SET started = 0 WHERE shard = $1 AND started <> 0", slot)
            if not await self._run(
                "UPDATE wakeful.shards SET state = 0, owner = NULL, term = $2, epoch = greatest(epoch, $4) + 1 "
                "WHERE shard = $1 AND owner = $3 AND state = 2 AND term < $2 RETURNING 1",
                *(slot, term, mover, above),
            ):
                raise StaleMove(f"slot {slot} of {self.url} was taken up by another mover")

    async def seize_rest(self, slot: int, term: int, mover: str) -> bool:
        return bool(
            await self._run(
                "UPDATE wakeful.shards SET owner = $3, state = 2 WHERE shard = $1 AND state IN (2, 4) AND term = $2 RETURNING 1",
                *(slot, term, mover),
            )
        )

    async def clear(self, slot: int, mover: str) -> None:
        ids = (await self.ids([slot]))[slot]
        for n in range(0, len(ids), CLEAR_IDS):
            async with self._wire.transaction(timeout_s=WHOLE_TIMEOUT_S):
                await self._hold(slot, mover)
                await self._delete(ids[n : n + CLEAR_IDS])
        first = receipt_prefix(slot)
        async with self._wire.transaction(timeout_s=PAGE_TIMEOUT_S):
            await self._hold(slot, mover)
            await self._run("DELETE FROM wakeful.receipts WHERE id >= $1 AND id < $2", first, first + "~")
            await self._run("UPDATE wakeful.shards SET state = 1, owner = NULL WHERE shard = $1", slot)

    # beside

    async def lock(self) -> bool:
        if self._wire.is_pooled:
            return True
        key = lock_key(self._target.schema, "mover")
        key = key - 2**32 if key >= 2**31 else key
        with suppress(StoreDown):
            [(got,)] = await self._run("SELECT pg_try_advisory_lock($1, $2)", LOCK_CLASS, key)
            return bool(got)
        return True  # this server has no such locks

    async def tell(self) -> None:
        with suppress(StoreDown):  # a hint: a look at the shards, a moment later, finds it without
            await self._wire.run(NOTIFY, [channel_of(self._target.schema), payloads([])])

    async def close(self) -> None:
        await self._wire.close()

    # parts

    async def _run(self, sql: str, *args: object) -> list[Any]:
        text = self._statements.qualify(sql)
        return await self._wire.run(Statement(text, ()), args, writes=True, timeout_s=WHOLE_TIMEOUT_S)

    async def _slot(self, slot: int) -> SlotRow:
        [row] = await self._run("SELECT shard, epoch, term, state FROM wakeful.shards WHERE shard = $1", slot)
        return SlotRow(*row)

    async def _hold(self, slot: int, mover: str) -> None:
        """Nobody else becomes the slot's mover, and it does not arrive, until the transaction is over."""
        sql = "SELECT 1 FROM wakeful.shards WHERE shard = $1 AND owner = $2 AND state = $3 FOR SHARE"
        if not await self._run(sql, slot, mover, MOVING):
            raise StaleMove(f"slot {slot} of {self.url} was taken up by another mover")

    async def _delete(self, ids: Sequence[ObjectId]) -> None:
        for table in _ORDER:
            await self._run(
                f"DELETE FROM wakeful.{table} AS t USING unnest($1::text[], $2::text[]) AS w (cls, key) "
                "WHERE t.cls = w.cls AND t.key = w.key",
                *_names(ids),
            )

    def _reading(self) -> Any:
        """One snapshot for all that is read in it."""
        return self._wire.snapshot()

    async def _cursor(self, sql: str, pages: "int | Pages", *args: object) -> AsyncIterator[list[Row]]:
        async for rows in self._wire.some(self._statements.qualify(sql), pages, args):
            yield rows


class _SlotNames:
    """Those of some slots, among what is read."""

    def __init__(self, slots: Collection[int]) -> None:
        self.found: dict[int, set[ObjectId]] = {slot: set() for slot in slots}

    def add(self, rows: Sequence[Row]) -> None:
        for cls, key in rows:
            found = self.found.get(crc32(f"{cls}\0{key}".encode()) % SHARDS)
            if found is not None and not cls.startswith(RESERVED):
                found.add(ObjectId(cls, key))


def _names(ids: Sequence[ObjectId]) -> tuple[list[str], list[str]]:
    return [id.cls for id in ids], [id.key for id in ids]


def _comparable(table: str, column: str) -> str:
    """The column as it goes into a digest: large values by one of their own."""
    is_bytes = column in _BYTES or f"{column}:{table}" in _BYTES
    return f"md5(t.{column})" if is_bytes else f"t.{column}"
