"""Layer 2. What do people look for, and in what order do they see it?

A `+` before a column keeps SQLite from choosing that column's index: without a key, walking in the
order of the answer until the page is full beats collecting a whole class and sorting it.
"""

from typing import Any, Literal

from wakeful.store.protocol import Query
from wakeful.store.sqlite.gather import entry_of, parked_of, timer_of
from wakeful.store.sqlite.reads import Reader
from wakeful.store.sqlite.statements import ENTRY, PARKED, SQL, TIMER, Row
from wakeful.values.commits import Info
from wakeful.values.ids import ObjectId
from wakeful.values.runs import Entry
from wakeful.values.timers import Parked, Timer

_TABLES = {"objects": "objects", "timers": "timers", "entries": "ledger", "parked": "parked"}


class Finder:
    """Pages of objects, timers, ledger and parked timers."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def objects(self, query: Query) -> list[Info]:
        rows = self._page(
            "SELECT class, key, created_at, active_at, rows, bytes FROM objects",
            query,
            by_id="class, key",
            by_order="class, key",
            cursor="(class, key) > (?, ?)",
        )
        return [Info(ObjectId(cls, key), *numbers) for cls, key, *numbers in rows]

    def timers(self, query: Query) -> list[Timer]:
        rows = self._page(
            f"SELECT class, key, name, {TIMER} FROM timers",
            query,
            by_order="due_at, rank, seq",
            cursor="(due_at, rank, seq) > (?, ?, ?)",
            named=True,
        )
        return [timer_of(row) for row in rows]

    def entries(self, query: Query) -> list[tuple[int, Entry]]:
        rows = self._page(
            f"SELECT number, {ENTRY} FROM ledger", query, by_order="number DESC", cursor="number < ?", named=True
        )
        return [(row[0], entry_of(row[1:])) for row in rows]

    def parked(self, query: Query) -> list[Parked]:
        rows = self._page(
            f"SELECT number, {PARKED} FROM parked", query, by_order="number", cursor="number > ?", named=True
        )
        return [parked_of(row) for row in rows]

    def count(self, what: Literal["objects", "timers", "entries", "parked"], *, cls: str | None) -> int:
        where, parameters = ("", ()) if cls is None else (" WHERE class = ?", (cls,))
        count: int = self._reader.ask(f"SELECT count(*) FROM {_TABLES[what]}{where}", parameters)[0][0]
        return count

    def known_classes(self) -> list[str]:
        return [cls for (cls,) in self._reader.ask(SQL["known_classes"])]

    def _page(
        self, select: str, query: Query, *, by_order: str, cursor: str, by_id: str = "", named: bool = False
    ) -> list[Row]:
        conditions: list[str] = []
        parameters: list[Any] = []
        exact = query.cls is not None and query.key is not None
        bare = "" if exact or by_id == by_order else "+"
        for condition, value in (
            (f"{bare}class = ?", query.cls),
            (f"{bare}key = ?", query.key),
            ("instr(key, ?) > 0", query.key_contains or None),
            (f"{bare}name = ?", query.name if named else None),
        ):
            if value is not None:
                conditions.append(condition)
                parameters.append(value)
        if query.after is not None:
            conditions.append(cursor)
            parameters.extend(query.after)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._reader.ask(f"{select}{where} ORDER BY {by_order} LIMIT ?", (*parameters, query.limit))
