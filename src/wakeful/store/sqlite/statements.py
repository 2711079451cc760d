"""Layer 2. How is it said in SQL? The named statements of queries.sql, and those of many rows at once.

Rows go in as multi-row statements of a few fixed sizes, because `sqlite3` gives up the interpreter
lock at every step: with `executemany` another busy thread could make each row wait its 5 ms.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import chain, islice
from sqlite3 import Connection
from typing import Any

from wakeful.store.protocol import WHOLE_BYTES_MAX, WHOLE_ROWS_MAX

Row = tuple[Any, ...]

# Of each power of two, so that a group of any size is few statements (50 rows are three); they all stay in the connection's
# cache. 128 and more hardly save anything, and take long to be prepared.
SIZES = (256, 64, 32, 16, 8, 4, 2, 1)
# 17 columns × 256 rows stay below the 32,766 parameters that any SQLite since 3.32 takes.

TIMER = "due_at, nominal_at, seq, attempt, crashes, started, rank, payload"
ENTRY = (
    "class, key, name, run_id, nominal_at, fired_at, finished_at, attempt, verdict, node, error, missed, is_backfill,"
    " covers, first_at"
)
PARKED = f"class, key, name, {TIMER}, run_id, parked_at, attempts, reason, error, traceback"


def by_name(file: str) -> dict[str, str]:
    """The statements of a .sql file by their `-- name:` lines; other comments left out."""
    text = files(__package__).joinpath(file).read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)
    bare = [re.sub(r"^--.*\n", "", part, flags=re.M).strip() for part in parts]
    return dict(zip(bare[1::2], bare[2::2], strict=True))


SQL = by_name("queries.sql")


class ManyRows:
    """One statement over any number of rows: `head VALUES (…), (…) tail`."""

    def __init__(self, head: str, width: int, tail: str = "") -> None:
        one = "(" + ", ".join("?" * width) + ")"
        self._sql = {size: f"{head} VALUES {', '.join([one] * size)} {tail}" for size in SIZES}

    def run(self, db: Connection, rows: Collection[Row]) -> None:
        """Execute it for all rows, in their order."""
        left = len(rows)
        if not left:
            return
        rest = iter(rows)
        for size in SIZES:
            while left >= size:
                db.execute(self._sql[size], tuple(chain.from_iterable(islice(rest, size))))
                left -= size


def _inserts(verb: str, table: str, columns: str, tail: str = "") -> ManyRows:
    return ManyRows(f"{verb} INTO {table} ({columns})", columns.count(",") + 1, tail)


def _deletes(table: str, key: str, match: str, width: int) -> ManyRows:
    """Delete by a list of values: joined from the list's side, since `(…) IN (VALUES …)` has no affinity and scans the table."""
    own = ", ".join(f"t.{column.strip()}" for column in key.split(","))
    head = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {own} FROM ("
    return ManyRows(head, width, f") AS v CROSS JOIN {table} AS t ON {match})")


_OBJECT_OF_V = "t.class = v.column1 AND t.key = v.column2"

touch_objects = _inserts(
    "INSERT",
    "objects",
    "class, key, shard, created_at, active_at",
    "ON CONFLICT (class, key) DO UPDATE SET active_at = excluded.active_at",
)
make_objects = _inserts(
    "INSERT", "objects", "class, key, shard, created_at, active_at", "ON CONFLICT (class, key) DO NOTHING"
)
# Not REPLACE: that would leave the old row's bytes in `objects` (it fires no delete trigger).
put_rows = _inserts(
    "INSERT",
    "kv",
    "class, key, space, name, value",
    "ON CONFLICT (class, key, space, name) DO UPDATE SET value = excluded.value",
)
wipe_rows = _deletes("kv", "class, key, space, name", f"{_OBJECT_OF_V} AND t.space = 0", 2)
delete_rows = _deletes(
    "kv", "class, key, space, name", f"{_OBJECT_OF_V} AND t.space = v.column3 AND t.name = v.column4", 4
)
TIMER_ROW = f"class, key, name, shard, {TIMER}"
INSERTED_TIMERS = f"INSERT INTO timers ({TIMER_ROW})"  # how those begin that come from outside of an object's own turns
set_timers = _inserts("REPLACE", "timers", TIMER_ROW)
insert_timers = _inserts("INSERT", "timers", TIMER_ROW)
send_timers = _inserts("INSERT", "timers", TIMER_ROW, "ON CONFLICT (class, key, name) DO NOTHING")
clear_timers = _deletes(
    "timers", "class, key, name", f"{_OBJECT_OF_V} AND t.name = v.column3 AND v.column4 IN (0, t.seq)", 4
)
start_timers = ManyRows(
    "UPDATE timers SET started = v.column5, crashes = v.column6 FROM (",
    6,
    ") AS v WHERE timers.class = v.column1 AND timers.key = v.column2 AND timers.name = v.column3"
    " AND timers.seq = v.column4",
)
add_entries = _inserts("INSERT", "ledger", ENTRY)
add_parked = _inserts("INSERT", "parked", PARKED)
drop_parked = ManyRows("DELETE FROM parked WHERE number IN (", 1, ")")
remember = _inserts("REPLACE", "requests", "class, key, request, fingerprint, answer, expires_at")


def read_rows(count: int) -> tuple[str, int]:
    """The statement that reads up to `count` named rows, and how many names it takes (pad by repeating one)."""
    size = next((size for size in (1, 8, 64) if count <= size), 512)
    return (
        f"SELECT name, value FROM kv WHERE class = ? AND key = ? AND space = ? AND name IN ({', '.join('?' * size)})",
        size,
    )


# The bounds are numbers in the text: as parameters of a statement over many objects they would be a table of their own.
LOAD_OBJECT = (
    SQL["load_object"].replace("ROWS_MAX", str(WHOLE_ROWS_MAX)).replace("BYTES_MAX", str(WHOLE_BYTES_MAX))
)  # fmt: skip
# Of up to so many objects what they need to wake is read in one statement; two cost little more than one.
LOADED_TOGETHER = (4, 16, 64)


@lru_cache(maxsize=len(LOADED_TOGETHER))
def load_objects(count: int) -> str:
    """As `load_object`, of so many: each row with the place of its object, a class and a key for each place."""
    places = ", ".join(f"({place}, ?, ?)" for place in range(count))
    columns, _, rest = LOAD_OBJECT.partition("FROM objects AS o")
    joins, _, _ = rest.partition("WHERE o.class")
    columns = columns.replace("SELECT", "SELECT v.column1,", 1)
    return (
        f"{columns} FROM (VALUES {places}) AS v "
        f"CROSS JOIN objects AS o ON o.class = v.column2 AND o.key = v.column3{joins}"
    )


def find_barred(db: Connection, rows: Sequence[Row], now: int) -> list[int]:
    """At which of these places something is in the way of timers that are to be inserted.

    Of each: its place, class, key, name, the request key of an answer, a prefix and what comes after it.
    """
    places: list[int] = []
    left = list(rows)
    for size in SIZES:
        while len(left) >= size:
            some, left = left[:size], left[size:]
            places += [n for (n,) in db.execute(_barred_sql(size), (*chain.from_iterable(some), now)).fetchall()]
    return sorted(places)


@lru_cache(maxsize=len(SIZES))
def _barred_sql(count: int) -> str:
    one = "(?, ?, ?, ?, ?, ?, ?)"
    own = "class = v.column2 AND key = v.column3"
    return (
        f"SELECT v.column1 FROM (VALUES {', '.join([one] * count)}) AS v, (SELECT ? AS now) AS n WHERE "
        f"EXISTS (SELECT 1 FROM timers WHERE {own} AND name = v.column4) "
        f"OR v.column5 IS NOT NULL AND ("
        f"EXISTS (SELECT 1 FROM requests WHERE {own} AND request = v.column5 AND expires_at > n.now) "
        f"OR EXISTS (SELECT 1 FROM parked WHERE {own} AND name = v.column4) "
        f"OR EXISTS (SELECT 1 FROM timers WHERE {own} AND name >= v.column6 AND name < v.column7))"
    )


def timers_page(shards: Sequence[int] | None, *, after: bool) -> str:
    """A page of the firing order. A set of shards is written out: it is numbers of ours, and rarely changes."""
    conditions = ["due_at <= ?"]
    if after:
        conditions.append("(due_at, rank, seq) > (?, ?, ?)")
    if shards is not None:
        conditions.append(f"shard IN ({', '.join(map(str, map(int, shards)))})")
    return (
        f"SELECT class, key, name, {TIMER} FROM timers "
        f"WHERE {' AND '.join(conditions)} ORDER BY due_at, rank, seq LIMIT ?"
    )
