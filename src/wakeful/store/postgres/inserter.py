"""Layer 2. How do timers from outside a turn get in, all of them or none, and once though they are sent again?"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from wakeful.policy.ranges import past_prefix
from wakeful.store.postgres.group import TIMER_COLUMNS, timer_columns, timer_row
from wakeful.store.postgres.pool import Pool
from wakeful.store.postgres.rows import obstacle_of
from wakeful.store.postgres.statements import Statement, Statements
from wakeful.store.postgres.wire import Invalid, Row, ServerWire, Taken, Undone
from wakeful.store.protocol import Guard, Obstacle, Receipt
from wakeful.store.sends import check_once, is_other, still_out
from wakeful.values.errors import BadValue, SlotMoved, StoreDown
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


class PendingInsert(NamedTuple):
    """One insert, as the store's verb has it."""

    timers: Sequence[Timer]
    now: int
    receipt: Receipt | None
    guards: Mapping[int, Guard]
    each: bool


class InsertLine:
    """The connections for timers that come from outside."""

    def __init__(self, pool: Pool, statements: Statements, *, has_slots: bool = False, where: str = "") -> None:
        self._pool = pool
        self._statements = statements
        self._has_slots = has_slots  # it is one of several servers, so what is inserted may live on another
        self._where = where

    async def insert(self, wanted: PendingInsert) -> list[Obstacle]:
        """Nothing, when all are in; else what is in the way, and none is in, unless each is for itself."""
        meets = False
        try:
            async with self._pool.take() as wire:
                for tries in range(TRIES_MAX):
                    try:
                        if self._has_slots:
                            return await self._write_here(wire, wanted, meets=meets)
                        return await self._write(wire, wanted, meets=meets)
                    except Undone:
                        pause_s = PAUSE_S * (1 + tries)  # so that the other one can end
                        await wire.run(_PAUSE, [pause_s], timeout_s=wire.timeout_s + pause_s)
                    except Taken:
                        check_once(wanted.timers)
                        if wanted.each:  # a name was taken since the statement looked: rare, and met by the next
                            meets = True
                            continue
                        obstacles = await self._obstacles(wire, wanted, range(len(wanted.timers)))
                        if obstacles:
                            return obstacles
        except (Invalid, UnicodeEncodeError) as error:
            raise BadValue(f"timers can't be stored: {error}", code="value.store") from None
        raise StoreDown(
            f"names of {len(wanted.timers)} timers were wanted by others, too, {TRIES_MAX} times in a row; try again"
        )

    async def _write_here(self, wire: ServerWire, wanted: PendingInsert, *, meets: bool) -> list[Obstacle]:
        """The same, with the rows of its slots held, so that none leaves meanwhile; `SlotMoved` when one is away.

        What was taken before a slot went is known by its receipt, and was taken.
        """
        slots = sorted({shard_of(timer.id) for timer in wanted.timers})
        size = sum(len(timer.payload or b"") for timer in wanted.timers)
        timeout_s = wire.timeout_s + len(wanted.timers) / ROWS_PER_S + size / BYTES_PER_S
        async with wire.transaction(timeout_s=timeout_s):
            held = self._statements.get("hold_slots")
            away = [row["shard"] for row in await wire.run(held, held.args({"shards": slots})) if row["is_away"]]
            if not away:
                return await self._write(wire, wanted, meets=meets)
            if wanted.receipt is not None:
                known = self._statements.get("taken_before")
                values = {"receipt": wanted.receipt.id, "number": wanted.receipt.number}
                if await wire.run(known, known.args(values)):
                    return await self._taken_before(wire, wanted)
            raise SlotMoved(
                f"slots {', '.join(map(str, away))} are not on {self._where}, or on their way to another server; try again",
                slots=away,
            )

    async def _write(self, wire: ServerWire, wanted: PendingInsert, *, meets: bool) -> list[Obstacle]:
        timers, receipt, guards = wanted.timers, wanted.receipt, wanted.guards
        size = sum(len(timer.payload or b"") for timer in timers)
        if not wanted.each and (len(timers) > INSERT_ROWS or size > INSERT_BYTES):
            await self._copy(wire, wanted, size)
            return []
        parts = ["each", "meets" if meets else "leaves"] if wanted.each else ["all"]
        values = timer_columns((timer, shard_of(timer.id)) for timer in timers) | {"now": wanted.now}
        if receipt is not None:
            parts.append("receipt")
            values |= {"receipt": receipt.id, "number": receipt.number, "expires_at": receipt.expires_at}
        if wanted.each or guards:
            check_once(timers)
            parts += ["guards"] if receipt is not None else ["guards", "bare"]
            values |= _asked_of(map(guards.get, range(len(timers))))
        statement = self._statements.get("insert", parts)
        rows = await wire.run(statement, statement.args(values), writes=True)
        if not rows:
            return []
        if rows[0]["first"]:
            return await self._obstacles_met(wire, wanted, rows)
        return await self._taken_before(wire, wanted)

    async def _obstacles_met(self, wire: ServerWire, wanted: PendingInsert, rows: Sequence[Row]) -> list[Obstacle]:
        """What the insert met, and what it should not have slipped in behind."""
        slipped = {row["place"] for row in rows if row["slipped"]}
        met = {row["place"] for row in rows} - slipped
        if met and not wanted.each:
            raise Taken("something guarded is in the way")
        found = await self._obstacles(wire, wanted, sorted(slipped | met))
        others = [obstacle for obstacle in found if obstacle.index in met]
        for obstacle in found:
            if obstacle.index not in slipped:
                continue
            if is_other(obstacle, wanted.timers):  # it has run since, or was parked: it was in all the same
                others.append(replace(obstacle, is_in=True))
            elif obstacle.parked or obstacle.answer:  # beside it stands what became of the other
                others.append(replace(obstacle, timer=None, is_in=True))
        # What was in the way and is no more: whoever asks for that one may try again.
        return still_out(sorted(others, key=attrgetter("index")), met)

    async def _taken_before(self, wire: ServerWire, wanted: PendingInsert) -> list[Obstacle]:
        """Of an insert whose receipt was there: all are in, or each that has nothing but itself in the way."""
        if not wanted.each:
            return []
        found = await self._obstacles(wire, wanted, sorted(wanted.guards))
        assert wanted.receipt is not None
        left = self._statements.get("left_out")
        values = {"receipt": wanted.receipt.id, "number": wanted.receipt.number}
        places = [int(place) for row in await wire.run(left, left.args(values)) for place in row[0].decode().split(",")]
        return still_out([one for one in found if is_other(one, wanted.timers)], places)

    async def _obstacles(self, wire: ServerWire, wanted: PendingInsert, places: Sequence[int]) -> list[Obstacle]:
        """What there is in the way of the timers at these places, in the same order."""
        statement = self._statements.get("obstacles")
        found: list[Obstacle] = []
        for at in range(0, len(places), INSERT_ROWS):
            some = places[at : at + INSERT_ROWS]
            values = _guard_columns(some, wanted.timers, wanted.guards) | {"now": wanted.now}
            found += [obstacle_of(some[row[0]], row) for row in await wire.run(statement, statement.args(values))]
        return found

    async def _copy(self, wire: ServerWire, wanted: PendingInsert, size: int) -> None:
        """Many of them by COPY. In the order of their names: that is faster, and two who add the same can't deadlock."""
        schema, timers, receipt = self._statements.schema, wanted.timers, wanted.receipt
        timeout_s = wire.timeout_s + len(timers) / ROWS_PER_S + size / BYTES_PER_S
        ordered = sorted(timers, key=attrgetter("id", "name"))
        ids = list(dict.fromkeys(timer.id for timer in ordered))
        async with nullcontext() if self._has_slots else wire.transaction(timeout_s=timeout_s):
            if receipt is not None:
                receive = self._statements.get("receive")
                values = {"receipt": receipt.id, "number": receipt.number, "expires_at": receipt.expires_at}
                if not await wire.run(receive, receive.args(values)):
                    return
            if await self._obstacles(wire, wanted, sorted(wanted.guards)):
                raise Taken("something guarded is in the way")
            # Timers before objects, as the single statements do it.
            rows = ((*timer_row(timer.id, timer), shard_of(timer.id)) for timer in ordered)
            await wire.copy_in(schema, "timers", TIMER_COLUMNS, rows, timeout_s)
            await self._make_objects(wire, ids, timeout_s, wanted.now)

    async def _make_objects(self, wire: ServerWire, ids: Sequence[ObjectId], timeout_s: float, now: int) -> None:
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


def _guard_columns(places: Sequence[int], timers: Sequence[Timer], guards: Mapping[int, Guard]) -> dict[str, object]:
    """The columns of what is asked about the timers at these places; None where there is no guard."""
    some = [timers[n] for n in places]
    names = {**_columns([timer.id for timer in some]), "name": [timer.name for timer in some]}
    return names | _asked_of(map(guards.get, places))


def _asked_of(guards: Iterable[Guard | None]) -> dict[str, object]:
    rows = [
        (None, None, None) if guard is None else (guard.answer.encode(), guard.prefix, past_prefix(guard.prefix))
        for guard in guards
    ]
    return dict(zip(("request", "first", "last"), zip(*rows, strict=True), strict=True))


def _columns(ids: Sequence[ObjectId]) -> dict[str, object]:
    return {"cls": [id.cls for id in ids], "key": [id.key for id in ids]}
