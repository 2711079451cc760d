"""Layer 2. How do timers from outside a turn get in, all of them or none?"""

from collections.abc import Sequence
from operator import attrgetter

from wakeful.store.postgres.group import TIMER_COLUMNS, timer_columns, timer_row
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.rows import timer_of
from wakeful.store.postgres.statements import Statement, Statements
from wakeful.store.postgres.wire import Invalid, Taken, Undone, Wire
from wakeful.store.sends import check_once
from wakeful.values.errors import BadValue, StoreDown
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer

# Up to so many go as one statement; more by COPY, which is half as fast again and needs more trips.
INSERT_ROWS = 5_000
# And so many bytes: a statement is held whole, and a server takes none of a gibibyte.
INSERT_BYTES = 64 << 20
# What a server can be expected to take at least: more gets more time.
ROWS_PER_S = 1_000
BYTES_PER_S = 8 << 20
# A name can be taken at the insert and free again at the look: the timer fired meanwhile. Not for ever, though.
TRIES_MAX = 8
PAUSE_S = 0.1
_PAUSE = Statement("SELECT pg_sleep($1::float8)", ("length",))
# Of so many objects, spread evenly, it is asked whether they are there: if none is, nearly always all are new.
SAMPLE = 64
OBJECT_COLUMNS = ("cls", "key", "created_at", "active_at", "rows", "bytes")


class Inserter:
    """The connections for timers that come from outside."""

    def __init__(self, pool: Pool, statements: Statements) -> None:
        self._pool = pool
        self._statements = statements

    async def insert(self, timers: Sequence[Timer], *, now: int) -> list[Timer]:
        """Nothing, when all are in; else those that have the names, and none is in."""
        try:
            async with self._pool.take() as wire:
                for tries in range(TRIES_MAX):
                    try:
                        await self._write(wire, timers, now)
                        return []
                    except Undone:
                        pause_s = PAUSE_S * (1 + tries)  # so that the other one can end
                        await wire.run(_PAUSE, [pause_s], timeout_s=wire.timeout_s + pause_s)
                    except Taken:
                        check_once(timers)
                        taken = await self._taken(wire, timers)
                        if taken:
                            return taken
        except (Invalid, UnicodeEncodeError) as error:
            raise BadValue(f"timers can't be stored: {error}", code="value.store") from None
        raise StoreDown(
            f"names of {len(timers)} timers were wanted by others, too, {TRIES_MAX} times in a row; try again"
        )

    async def _write(self, wire: Wire, timers: Sequence[Timer], now: int) -> None:
        size = sum(len(timer.payload or b"") for timer in timers)
        if len(timers) > INSERT_ROWS or size > INSERT_BYTES:
            await self._copy(wire, timers, size, now)
            return
        statement = self._statements.get("insert")
        columns = timer_columns((timer, shard_of(timer.id)) for timer in timers)
        await wire.run(statement, statement.args(columns | {"now": now}), writes=True)

    async def _copy(self, wire: Wire, timers: Sequence[Timer], size: int, now: int) -> None:
        """Many of them by COPY. In the order of their names: that is faster, and two who add the same can't deadlock."""
        schema = self._statements.schema
        timeout_s = wire.timeout_s + len(timers) / ROWS_PER_S + size / BYTES_PER_S
        ordered = sorted(timers, key=attrgetter("id", "name"))
        ids = list(dict.fromkeys(timer.id for timer in ordered))
        async with wire.transaction(timeout_s=timeout_s):
            # Timers before objects, as the single statements do it.
            rows = ((*timer_row(timer.id, timer), shard_of(timer.id)) for timer in ordered)
            await wire.copy_in(schema, "timers", TIMER_COLUMNS, rows, timeout_s)
            await self._make_objects(wire, ids, timeout_s, now)

    async def _make_objects(self, wire: Wire, ids: Sequence[ObjectId], timeout_s: float, now: int) -> None:
        """Those that are not there yet. When all seem new by COPY, which is twice as fast and fails if one is not."""
        known = self._statements.get("known_objects")
        if not await wire.run(known, known.args(_columns(ids[:: max(1, len(ids) // SAMPLE)]))):
            try:
                async with wire.attempt():
                    rows = ((id.cls, id.key, now, now, 0, 0) for id in ids)
                    await wire.copy_in(self._statements.schema, "objects", OBJECT_COLUMNS, rows, timeout_s)
                    return
            except Taken:
                pass
        objects = self._statements.get("make_objects")
        for n in range(0, len(ids), INSERT_ROWS):
            values = {**_columns(ids[n : n + INSERT_ROWS]), "now": now}
            await wire.run(objects, objects.args(values), timeout_s=timeout_s)

    async def _taken(self, wire: Wire, timers: Sequence[Timer]) -> list[Timer]:
        """Those that have the names of these, in the same order."""
        statement = self._statements.get("taken")
        found: list[Timer] = []
        for n in range(0, len(timers), INSERT_ROWS):
            some = timers[n : n + INSERT_ROWS]
            values = {**_columns([timer.id for timer in some]), "name": [timer.name for timer in some]}
            found += [timer_of(row) for row in await wire.run(statement, statement.args(values))]
        return found


def _columns(ids: Sequence[ObjectId]) -> dict[str, object]:
    return {"cls": [id.cls for id in ids], "key": [id.key for id in ids]}
