"""Layer 2. How do timers from outside a turn get in, all of them or none?"""

from collections.abc import Sequence

from wakeful.store.postgres.group import timer_columns
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.rows import timer_of
from wakeful.store.postgres.statements import Statements
from wakeful.store.postgres.wire import Invalid, Taken, Wire
from wakeful.store.sends import check_once
from wakeful.values.errors import BadValue, StoreDown
from wakeful.values.ids import shard_of
from wakeful.values.timers import Timer

# A bulk insert goes in pieces of this many rows, in one transaction; larger pieces gain nothing.
INSERT_ROWS = 5_000
# A name can be taken at the insert and free again at the look: the timer fired meanwhile. Not for ever, though.
TRIES_MAX = 8


class Inserter:
    """The connections for timers that come from outside."""

    def __init__(self, pool: Pool, statements: Statements) -> None:
        self._pool = pool
        self._statements = statements

    async def insert(self, timers: Sequence[Timer], *, now: int) -> list[Timer]:
        """Nothing, when all are in; else those that have the names, and none is in."""
        try:
            async with self._pool.take() as wire:
                for _ in range(TRIES_MAX):
                    try:
                        await self._write(wire, timers, now)
                        return []
                    except Taken:
                        check_once(timers)
                        taken = await self._taken(wire, timers)
                        if taken:
                            return taken
        except (Invalid, UnicodeEncodeError) as error:
            raise BadValue(f"timers can't be stored: {error}", code="value.store") from None
        raise StoreDown(f"names of {len(timers)} timers were taken and free again {TRIES_MAX} times; try again")

    async def _write(self, wire: Wire, timers: Sequence[Timer], now: int) -> None:
        statement = self._statements.get("insert")
        pieces = [
            statement.args(
                timer_columns((timer, shard_of(timer.id)) for timer in timers[n : n + INSERT_ROWS]) | {"now": now}
            )
            for n in range(0, len(timers), INSERT_ROWS)
        ]
        if len(pieces) == 1:
            await wire.run(statement, pieces[0], writes=True)
            return
        async with wire.transaction():
            for piece in pieces:
                await wire.run(statement, piece)

    async def _taken(self, wire: Wire, timers: Sequence[Timer]) -> list[Timer]:
        """Those that have the names of these, in the same order."""
        statement = self._statements.get("taken")
        found: list[Timer] = []
        for n in range(0, len(timers), INSERT_ROWS):
            some = timers[n : n + INSERT_ROWS]
            values = {
                "cls": [timer.id.cls for timer in some],
                "key": [timer.id.key for timer in some],
                "name": [timer.name for timer in some],
            }
            found += [timer_of(row) for row in await wire.run(statement, statement.args(values))]
        return found
