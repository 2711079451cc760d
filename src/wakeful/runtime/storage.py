"""Layer 3. How does an object read and write its rows?

Writes go into the turn's buffer at the call itself, awaited or not; what is awaited is only the answer.
"""

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from wakeful.policy.limits import check_count, check_storage_key, check_value_size
from wakeful.policy.ranges import bounds, merge, within
from wakeful.runtime.object_runtime import ObjectRuntime
from wakeful.runtime.turn import CURRENT, DONE, RefusedWrite, Turn, running_turn
from wakeful.store.protocol import Range
from wakeful.values.codec import decode, encode
from wakeful.values.commits import USER, Slot
from wakeful.values.errors import BadInput, NoAlarmHandler
from wakeful.values.timers import ALARM, Timer
from wakeful.values.times import instant_ms, to_datetime
from wakeful.values.trace import with_trace

COUNT_PAGE = 1_000


class Storage:
    """The rows of one object, ordered by key, seen through the running turn.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Shelf(DurableObject):
    ...     async def fill(self) -> list[str]:
    ...         await self.storage.put_many({"book:b": 2, "book:a": 1, "cup": 3})
    ...         return list(await self.storage.list(prefix="book:"))
    >>> async with app.world() as world:
    ...     print(await world.get(Shelf, "oak").fill())
    ['book:a', 'book:b']
    """

    __slots__ = ("_activation",)

    def __init__(self, activation: ObjectRuntime) -> None:
        self._activation = activation

    async def get(self, key: str, default: Any = None) -> Any:
        """The value of the key, as its own copy; the default when there is none."""
        data = await self._read(self._turn(), (USER, check_storage_key(key)))
        return default if data is None else decode(data)

    async def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of those keys that exist, in key order, in one round trip."""
        turn = self._turn()
        wanted = sorted({check_storage_key(key) for key in keys})
        check_count("get_many", len(wanted), self._activation.node.limits.keys_per_call)
        found = await self._read_many(turn, wanted)
        return {key: decode(data) for key, data in found.items() if data is not None}

    def put(self, key: str, value: Any) -> Awaitable[None]:
        """Store a copy of the value with the turn."""
        turn = self._writing_turn()
        try:
            turn.writes[USER, check_storage_key(key)] = _encode(key, value)
        except BadInput as error:
            return RefusedWrite(turn, error)
        return DONE

    def put_many(self, entries: Mapping[str, Any]) -> Awaitable[None]:
        """Store all the entries, or none when one of them can't be."""
        turn = self._writing_turn()
        try:
            check_count("put_many", len(entries), self._activation.node.limits.keys_per_call)
            encoded = {(USER, check_storage_key(key)): _encode(key, value) for key, value in entries.items()}
        except BadInput as error:
            return RefusedWrite(turn, error)
        turn.writes.update(encoded)
        return DONE

    def delete(self, key: str) -> Awaitable[bool]:
        """Remove the key; True when it was there."""
        return _Deletion(self, [key], single=True).start()

    def delete_many(self, keys: Iterable[str]) -> Awaitable[int]:
        """Remove the keys; how many of them were there."""
        return _Deletion(self, list(keys), single=False).start()

    def delete_all(self, *, keep_alarm: bool = False) -> Awaitable[None]:
        """Remove every key, empty the database, and clear the alarm unless it is kept. `state`, schedules, jobs and machine timers stay."""
        turn = self._writing_turn()
        turn.wipe()
        if not keep_alarm:
            self._clear_alarm(turn)
        return DONE

    async def list(
        self,
        *,
        prefix: str = "",
        start: str | None = None,
        start_after: str | None = None,
        end: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """The entries in the range, in the order of their keys' UTF-8 bytes (or its reverse)."""
        first, last = bounds(prefix, start, start_after, end, limit)
        rows = await self._scan(self._turn(), first, last, reverse=bool(reverse), limit=limit)
        return {key: decode(data) for key, data in rows.items()}

    async def count(self, prefix: str = "") -> int:
        """How many keys begin with the prefix. Reads them page by page, so a large object is never in memory whole."""
        first, last = bounds(prefix, None, None, None, None)
        found = 0
        while True:
            page = await self._scan(self._turn(), first, last, reverse=False, limit=COUNT_PAGE)
            found += len(page)
            if len(page) < COUNT_PAGE:
                return found
            first = next(reversed(page)) + "\0"

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Storage"]:
        """A savepoint inside the turn: a raise drops the writes, SQL and alarm changes made inside, and only those."""
        turn = self._writing_turn()
        turn.save()
        try:
            yield self
        except BaseException:
            turn.restore()
            raise
        turn.release()

    # the alarm

    def set_alarm(self, when: int | float | datetime | timedelta) -> Awaitable[None]:
        """Fire `alarm` then, instead of whenever it was set for before; the past means now."""
        turn = self._writing_turn()
        try:
            self._put_alarm(turn, when)
        except BadInput as error:
            return RefusedWrite(turn, error)
        return DONE

    async def get_alarm(self) -> datetime | None:
        """The time that was set, None when none is pending (or its handler is running)."""
        turn = self._turn()
        timer = turn.timers[ALARM] if ALARM in turn.timers else self._activation.timers.get(ALARM)
        return None if timer is None else to_datetime(timer.nominal_at)

    def delete_alarm(self) -> Awaitable[None]:
        """No alarm any more; fine when there was none."""
        self._clear_alarm(self._writing_turn())
        return DONE

    def _put_alarm(self, turn: Turn, when: object) -> None:
        activation = self._activation
        if activation.known.takes_info is None:
            raise NoAlarmHandler(f"{activation.id.cls} has no `async def alarm(self, info)`; add it before set_alarm")
        at = instant_ms(when, activation.node.clock.now())
        seq = activation.node.next_seq(activation.shard)
        turn.set_timer(Timer(activation.id, ALARM, at, at, seq, payload=with_trace(None, turn.trace_for(ALARM))))

    def _clear_alarm(self, turn: Turn) -> None:
        if turn.timers.get(ALARM) is not None or self._activation.timers.get(ALARM) is not None:
            turn.clear_timer(ALARM)

    # below the public methods

    def _turn(self) -> Turn:
        turn = CURRENT.get()
        if turn is None or turn.activation is not self._activation or turn.is_over:
            return running_turn(self._activation, "storage")  # raises, with the reason
        return turn

    def _writing_turn(self) -> Turn:
        turn = CURRENT.get()
        if turn is None or turn.activation is not self._activation or turn.is_over or turn.is_reader:
            turn = running_turn(self._activation, "storage")
            turn.check_writable()
        return turn

    async def _read(self, turn: Turn, slot: Slot) -> bytes | None:
        if slot in turn.writes:
            return turn.writes[slot]
        if turn.wiped and slot[0] == USER:
            return None
        return await self._activation.rows.read(slot)

    async def _read_many(self, turn: Turn, keys: Sequence[str]) -> dict[str, bytes | None]:
        await self._activation.rows.fetch(
            [(USER, key) for key in keys if (USER, key) not in turn.writes and not turn.wiped]
        )
        return {key: await self._read(turn, (USER, key)) for key in keys}

    async def _scan(
        self, turn: Turn, first: str, last: str | None, *, reverse: bool, limit: int | None
    ) -> dict[str, bytes]:
        return await scan(self._activation, turn, USER, first, last, reverse=reverse, limit=limit)


async def scan(
    activation: ObjectRuntime,
    turn: Turn,
    space: int,
    first: str,
    last: str | None,
    *,
    reverse: bool = False,
    limit: int | None = None,
) -> dict[str, bytes]:
    """Rows of one key space as the turn sees them: the stored ones under the unsaved ones under its own."""

    def mine(over: Mapping[Slot, bytes | None]) -> dict[str, bytes | None]:
        return {key: value for (where, key), value in over.items() if where == space and within(key, first, last)}

    rows_of = activation.rows
    is_wiped = turn.wiped and space == USER
    if is_wiped or (last is not None and first >= last):
        return merge((), mine(turn.writes), reverse=reverse, limit=limit)
    over = mine(rows_of.unsaved_writes() | turn.writes)
    # Each write over the stored rows can hide at most one of them.
    wanted = None if limit is None else limit + len(over)
    with rows_of.following() as news:
        rows = await rows_of.scan(space, Range(first, last, reverse, wanted))
        if wanted is not None and mine(news.writes):  # they may hide more: only all rows will do
            rows = await rows_of.scan(space, Range(first, last, reverse, None))
    if news.is_wiped and space == USER:
        rows, over = (), mine(turn.writes)
    return merge(rows, over | mine(news.writes), reverse=reverse, limit=limit)


class _Deletion:
    """A delete that has happened in the turn; awaiting it tells how many of the keys were there before."""

    __slots__ = ("_before", "_keys", "_single", "_storage", "_turn")

    def __init__(self, storage: Storage, keys: list[str], *, single: bool) -> None:
        self._storage = storage
        self._keys = keys
        self._single = single

    def start(self) -> Awaitable[Any]:
        turn = self._turn = self._storage._writing_turn()
        try:
            check_count("delete_many", len(self._keys), self._storage._activation.node.limits.keys_per_call)
            slots: list[Slot] = [(USER, check_storage_key(key)) for key in dict.fromkeys(self._keys)]
        except BadInput as error:
            return RefusedWrite(turn, error)
        # What the turn itself knew of each before; the others are looked up only if someone asks.
        self._before = {
            slot: turn.writes.get(slot, _UNKNOWN) if not turn.wiped else turn.writes.get(slot) for slot in slots
        }
        for slot in slots:
            turn.writes[slot] = None
        return self

    def __await__(self) -> Any:
        return self._count().__await__()

    async def _count(self) -> int | bool:
        rows = self._storage._activation.rows
        unknown = [slot for slot, before in self._before.items() if before is _UNKNOWN]
        await rows.fetch(unknown)
        there = 0
        for slot, before in self._before.items():
            data = await rows.read(slot) if before is _UNKNOWN else before
            there += data is not None
        return bool(there) if self._single else there


def _encode(key: str, value: Any) -> bytes:
    try:
        data = encode(value)
    except BadInput as error:
        raise type(error)(f"storage key {key[:64]!r}: {error.message}", code=error.code) from None
    check_value_size(key, len(data))
    return data


_UNKNOWN: Any = object()
