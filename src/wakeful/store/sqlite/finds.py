"""Layer 2. What do people look for, and in what order do they see it?

There are two ways to a page: walk the table in the order of the answer until the page is full, or
collect by class and key and sort. The first is 0.1 µs a row and may pass by millions, the second 2 µs
a row and may collect as many, so rows of an id are counted before it is chosen, up to a bound.
A `+` before a column keeps SQLite from choosing that column's index on its own.
"""

from collections.abc import Sequence
from typing import Any

from wakeful.policy.ranges import past_prefix
from wakeful.store.protocol import Query, Table
from wakeful.store.sqlite.gather import entry_of, parked_of, timer_of
from wakeful.store.sqlite.reads import FileReader
from wakeful.store.sqlite.statements import ENTRY, PARKED, SQL, TIMER, Row
from wakeful.values.commits import Info, Remembered
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Parked, Timer

_TABLES = {"objects": "objects", "timers": "timers", "entries": "ledger", "parked": "parked"}
# Tables that can be searched by class and key, and by what: parked timers are few.
_BY_ID = {
    "objects": "objects",
    "timers": "timers INDEXED BY timers_name",
    "ledger": "ledger INDEXED BY ledger_timer",
}
# Collecting so many rows takes about 4 ms, which the loop's thread can spare.
NARROW_ROWS = 2_000

Condition = tuple[str, Sequence[Any]]  # with its parameters


class Finder:
    """Pages of objects, timers, ledger and parked timers."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader

    def objects(self, query: Query) -> list[Info]:
        columns = "class, key, created_at, active_at, rows, bytes"
        rows = self._page(columns, "objects", query, order="class, key", cursor="(class, key) > (?, ?)")
        return [Info(ObjectId(cls, key), *numbers) for cls, key, *numbers in rows]

    def timers(self, query: Query) -> list[Timer]:
        cursor = "(due_at, rank, seq) > (?, ?, ?)"
        rows = self._page(f"class, key, name, {TIMER}", "timers", query, order="due_at, rank, seq", cursor=cursor)
        return [timer_of(row) for row in rows]

    def entries(self, query: Query) -> list[tuple[int, Entry]]:
        rows = self._page(f"number, {ENTRY}", "ledger", query, order="number DESC", cursor="number < ?")
        return [(row[0], entry_of(row[1:])) for row in rows]

    def parked(self, query: Query) -> list[Parked]:
        rows = self._page(f"number, {PARKED}", "parked", query, order="number", cursor="number > ?")
        return [parked_of(row) for row in rows]

    def answers(self, query: Query, *, now: int) -> list[tuple[ObjectId, Remembered]]:
        """In the order of the primary key, which every condition on class and key narrows."""
        conditions = [*_of_id(query, by_id=query.cls is not None), ("+expires_at > ?", (now,))]
        conditions += _of_name(query, by_id=True, column="request")
        if query.key_contains:
            conditions.append(("instr(lower(key), lower(?)) > 0", (query.key_contains,)))
        if query.after is not None:
            conditions.append(("(class, key, request) > (?, ?, ?)", query.after))
        head = "SELECT class, key, request, fingerprint, answer, expires_at FROM requests"
        rows = self._ask(head, conditions, "ORDER BY class, key, request LIMIT ?", query.limit)
        return [(ObjectId(cls, key), Remembered(*rest)) for cls, key, *rest in rows]

    def count(self, what: Table, *, cls: str | None, key_prefix: str | None) -> int:
        conditions = _of_id(Query(cls=cls, key_prefix=key_prefix), by_id=bool(key_prefix))
        where = f" WHERE {' AND '.join(text for text, _ in conditions)}" if conditions else ""
        parameters = [value for _, values in conditions for value in values]
        count: int = self._reader.ask(f"SELECT count(*) FROM {_TABLES[what]}{where}", parameters)[0][0]
        return count

    def known_classes(self) -> list[str]:
        return [cls for (cls,) in self._reader.ask(SQL["known_classes"])]

    def _page(self, columns: str, table: str, query: Query, *, order: str, cursor: str) -> list[Row]:
        by_id = self._is_narrow(table, query)
        conditions = _of_id(query, by_id=by_id)
        if table != "objects":
            conditions += _of_name(query, by_id=by_id)
        if query.key_contains:
            conditions.append(("instr(lower(key), lower(?)) > 0", (query.key_contains,)))
        if query.after is not None:
            conditions.append((cursor, query.after))
        source = _BY_ID[table] if by_id else table
        return self._ask(f"SELECT {columns} FROM {source}", conditions, f"ORDER BY {order} LIMIT ?", query.limit)

    def _is_narrow(self, table: str, query: Query) -> bool:
        """Whether the page is best collected by class and key: they give its order, or few rows have them."""
        if table == "objects" and query.cls is not None:
            return True
        if table not in _BY_ID or (query.key is None and not query.key_prefix):
            return False
        if None not in (query.cls, query.key, query.name):
            return True
        conditions = _of_id(query, by_id=True)
        if query.key is not None and table != "objects":
            conditions += _of_name(query, by_id=True)
        most = max(NARROW_ROWS, 2 * query.limit)
        [found] = self._ask(f"SELECT count(*) FROM (SELECT 1 FROM {_BY_ID[table]}", conditions, "LIMIT ?)", most + 1)
        return bool(found[0] <= most)

    def _ask(self, head: str, conditions: Sequence[Condition], tail: str, limit: int) -> list[Row]:
        where = f" WHERE {' AND '.join(text for text, _ in conditions)}" if conditions else ""
        parameters = [value for _, values in conditions for value in values]
        return self._reader.ask(f"{head}{where} {tail}", (*parameters, limit))


def _of_id(query: Query, *, by_id: bool) -> list[Condition]:
    """The conditions on class and key; `by_id` has them answered by an index that begins with these."""
    plus = "" if by_id else "+"
    conditions: list[Condition] = []
    if query.cls is not None:
        conditions.append((f"{plus}class = ?", (query.cls,)))
    elif by_id:
        conditions.append(
            (f"class IN ({SQL['known_classes']})", ())
        )  # an index is only searched from its first column on
    if query.key is not None:
        conditions.append((f"{plus}key = ?", (query.key,)))
    return conditions + _begins(f"{plus}key", query.key_prefix)


def _of_name(query: Query, *, by_id: bool, column: str = "name") -> list[Condition]:
    plus = "" if by_id else "+"
    found: list[Condition] = [] if query.name is None else [(f"{plus}{column} = ?", (query.name,))]
    return found + _begins(f"{plus}{column}", query.name_prefix)


def _begins(column: str, prefix: str | None) -> list[Condition]:
    """What holds for all text with that prefix and no other, as a range that an index can answer."""
    if not prefix:
        return []
    found: list[Condition] = [(f"{column} >= ?", (prefix,))]
    if (last := past_prefix(prefix)) is not None:
        found.append((f"{column} < ?", (last,)))
    return found
