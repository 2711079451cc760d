"""Layer 2. What did a group of writes do to the local file, so that it can be done again elsewhere?

The statements themselves, as SQLite took them: whatever verb of the store they are of, and whatever a later Wakeful would
make of the same turns, they do the same to the same rows. Every one of them says which rows, in an order of its own or
by key, and none asks for the time or for chance.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from wakeful.store.bucket.records import Statement
from wakeful.store.sqlite.statements import SQL
from wakeful.values.errors import StoreError

_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "SAVEPOINT", "ROLLBACK", "RELEASE")
_PIECE = "piece"  # the savepoint around what one caller writes


@lru_cache(maxsize=1_024)
def _is_write(sql: str) -> bool:
    return sql.lstrip()[:9].upper().startswith(_WRITES)


class Recorder:
    """A connection that remembers what was written through it, caller by caller.

    Several callers share one transaction: each has a savepoint, which stands for the transaction that it believes in.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.statements: list[Statement] = []
        self._kept = 0  # statements of the callers before this one
        self.steps = 0  # that SQLite took for all of them
        self._steps_before = 0
        db.set_progress_handler(self._count_step, _STEP)

    def _count_step(self) -> None:
        self.steps += 1

    @property
    def in_transaction(self) -> bool:
        return self.db.in_transaction

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        if sql == "ROLLBACK":
            self._undo()
            return self.db.execute("SELECT 1")
        if sql == SQL["begin"]:
            return self.db.execute("SELECT 1")
        cursor = self.db.execute(sql, parameters)
        if _is_write(sql):
            self.statements.append((sql, parameters))
        return cursor

    def begin(self) -> None:
        self.db.execute(SQL["begin"])
        self.statements, self._kept, self.steps = [], 0, 0

    @property
    def is_full(self) -> bool:
        """Who comes now goes into the next record."""
        return self.steps > STEPS_MAX // 10

    def open_piece(self) -> None:
        self.db.execute(f"SAVEPOINT {_PIECE}")
        self._steps_before = self.steps

    def check_piece(self) -> None:
        """Pass what those who read it will take: it costs them about what it cost here."""
        steps = self.steps - self._steps_before
        if steps > STEPS_MAX // 2 and len(self.statements) > self._kept:
            raise StoreError(
                f"what was to be written at once took {steps:,} million instructions of SQLite, and whoever reads a record of the "
                f"log takes {STEPS_MAX:,} million at most; write it in parts",
                code="store.record",
            )

    def keep_piece(self) -> None:
        self.db.execute(f"RELEASE {_PIECE}")
        self._kept = len(self.statements)

    def drop_piece(self) -> None:
        self._undo()
        self.db.execute(f"RELEASE {_PIECE}")

    def _undo(self) -> None:
        self.db.execute(f"ROLLBACK TO {_PIECE}")
        del self.statements[self._kept :]


# What a record may do: no file but this one, no change of the schema. Who can write to the bucket can change what
# objects hold, and shall not get further than that.
_ALLOWED = (
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ,
    sqlite3.SQLITE_SAVEPOINT,
)  # fmt: skip
_FUNCTIONS = ("coalesce", "count", "max", "min", "length", "glob", "like", "lower", "instr")

# And how much: an insert of a hundred thousand jobs takes a hundredth of it. In instructions of SQLite, so that it is the
# same on every machine: half a minute of a busy one. Writers stop at half of it, and share a record up to a tenth.
_STEP = 1_000_000
STEPS_MAX = 1_000


def _judge(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    is_fine = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS)
    is_ours = first is None or not first.startswith("sqlite_") or first == "sqlite_sequence"
    return sqlite3.SQLITE_OK if is_fine and (is_ours or action == sqlite3.SQLITE_FUNCTION) else sqlite3.SQLITE_DENY


def replay(db: sqlite3.Connection, statements: Iterable[Statement], key: str) -> None:
    """Do them again, inside a transaction; `StoreError` names the record that does more than a record may."""
    steps = count(1)
    db.set_authorizer(_judge)
    db.set_progress_handler(lambda: next(steps) > STEPS_MAX, _STEP)
    try:
        for sql, parameters in statements:
            db.execute(sql, parameters)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError, TypeError, IndexError) as error:
        raise StoreError(
            f"{key} can't be applied ({error}): it is not what Wakeful wrote there, or what came before it is not; restore "
            "the prefix from a backup",
            code="store.replay",
        ) from None
    finally:
        db.set_progress_handler(None, 0)
        db.set_authorizer(None)
