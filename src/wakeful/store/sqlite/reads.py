"""Layer 2. What does an object, or the timer queue, get to read?

Reads run in the loop's own thread on a connection that can't write and so never checkpoints: a point
read takes microseconds, a trip to a thread would take seventy.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from wakeful.store.protocol import WAKE_PAGES, WHOLE_BYTES_MAX, WHOLE_ROWS_MAX, NodeRow, Range, ShardRow
from wakeful.store.sqlite.gather import timer_of
from wakeful.store.sqlite.statements import LOAD_OBJECT, LOADED_TOGETHER, SQL, Row, load_objects, read_rows, timers_page
from wakeful.store.sqlite.writer import BUSY_S, down
from wakeful.values.commits import Info, Loaded, Remembered, page_slot
from wakeful.values.errors import StoreDown
from wakeful.values.ids import SHARDS, ObjectId
from wakeful.values.timers import ALARM, Timer, TimerKey

_NEVER = Loaded(None, None, {}, True)
_LAST_PAGE = page_slot(WAKE_PAGES)[1]


def _alarm(id: ObjectId, numbers: str, payload: bytes | None) -> Timer:
    """As `load_object` has it."""
    due_at, nominal_at, seq, attempt, crashes, started, rank = map(int, numbers.split())
    return Timer(id, ALARM, due_at, nominal_at, seq, attempt, crashes, started, -rank, payload)


class FileReader:
    """A connection that sees what is committed, and can change nothing."""

    def __init__(self, path: str) -> None:
        self._db: sqlite3.Connection | None = sqlite3.connect(
            f"file:{quote(path)}?mode=ro",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        self._db.execute("PRAGMA cache_size = -8192")

    @property
    def db(self) -> sqlite3.Connection:
        if self._db is None:
            raise StoreDown("the SQLite store is closed")
        return self._db

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """All rows at once: a half-read statement would hold its snapshot, and with it the log."""
        try:
            return self.db.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise down(error) from None

    def nodes(self) -> list[NodeRow]:
        rows = self.ask(SQL["all_nodes"])
        return [
            replace(NodeRow(*row), is_draining=bool(is_draining), lease_ms=length) for *row, is_draining, length in rows
        ]

    def owners(self) -> list[ShardRow]:
        return [ShardRow(*row) for row in self.ask(SQL["all_shards"])]

    def load(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        """No snapshot over the statements: an object that is being loaded has no writer, its node sees to that."""
        if len(ids) == 1:
            return [self._load(ids[0])]
        loaded: list[Loaded] = []
        most = LOADED_TOGETHER[-1]
        for at in range(0, len(ids), most):
            loaded += self._load_together(ids[at : at + most])
        return loaded

    def _load_together(self, ids: Sequence[ObjectId]) -> list[Loaded]:
        size = next(size for size in LOADED_TOGETHER if len(ids) <= size)
        nobody = (None, None) * (size - len(ids))  # finds nothing
        asked = self.ask(load_objects(size), (*chain.from_iterable(ids), *nobody))
        if not asked:
            return [_NEVER] * len(ids)  # all are new
        rows: list[list[Row]] = [[] for _ in ids]
        for row in asked:
            rows[row[0]].append(row[1:])
        return [self._read_loaded(id, own) for id, own in zip(ids, rows, strict=True)]

    def _load(self, id: ObjectId) -> Loaded:
        return self._read_loaded(id, self.ask(LOAD_OBJECT, id))

    def _read_loaded(self, id: ObjectId, loaded: list[Row]) -> Loaded:
        if not loaded:
            return _NEVER
        first = loaded[0]
        created_at, active_at, rows, size, alarm, payload = first[3:]
        whole = rows <= WHOLE_ROWS_MAX and size <= WHOLE_BYTES_MAX
        kept = loaded if whole else self.ask(SQL["load_large"], (*id, *id, _LAST_PAGE))
        return Loaded(
            Info(id, created_at, active_at, rows, size),
            None if alarm is None else _alarm(id, alarm, payload),
            {(row[0], row[1]): row[2] for row in kept if row[0] is not None},
            whole,
        )

    def read(self, id: ObjectId, space: int, keys: Sequence[str]) -> dict[str, bytes]:
        values: dict[str, bytes] = {}
        at = 0
        while at < len(keys):
            sql, size = read_rows(len(keys) - at)
            names = list(keys[at : at + size])
            names += names[-1:] * (size - len(names))
            values.update(self.ask(sql, (*id, space, *names)))
            at += size
        return values

    def scan(self, id: ObjectId, space: int, range: Range) -> list[tuple[str, bytes]]:
        limit = -1 if range.limit is None else range.limit
        until = () if range.last is None else (range.last,)
        name = f"scan{'_until' if until else ''}{'_reverse' if range.reverse else ''}"
        return [(key, value) for key, value in self.ask(SQL[name], (*id, space, range.first, *until, limit))]

    def recall(self, id: ObjectId, key: str, *, now: int) -> Remembered | None:
        found = self.ask(SQL["recall"], (*id, key, now))
        return Remembered(*found[0]) if found else None

    def timers(
        self, shards: Sequence[int], *, after: TimerKey | None, until: int, limit: int
    ) -> tuple[list[Timer], bool]:
        wanted = sorted(set(shards))
        sql = timers_page(None if len(wanted) == SHARDS else wanted, after=after is not None)
        found = self.ask(sql, (until, *(after or ()), limit + 1))
        return [timer_of(row) for row in found[:limit]], len(found) > limit
