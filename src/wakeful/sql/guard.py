"""Layer 4. What may the code of an object not do with its database?

SQLite asks before it compiles a statement and whatever that statement uses, and now and then while one runs.
"""

import sqlite3
from collections.abc import Callable

from wakeful.sql.statement import judge_name

TICK_STEPS = 20_000  # steps of SQLite between two looks at the clock: some 0.2 ms
OWN = "/* wakeful */ "  # no statement of an object reads like one of ours, so none is taken for one from a cache

_ASKING = frozenset(
    {
        "compile_options",
        "data_version",
        "foreign_key_check",
        "foreign_key_list",
        "freelist_count",
        "function_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "optimize",
        "page_count",
        "page_size",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)
# These stay as they were set for the rest of the turn, and no longer.
_SETTING = frozenset(
    {
        "case_sensitive_like",
        "defer_foreign_keys",
        "foreign_keys",
        "ignore_check_constraints",
        "legacy_alter_table",
        "recursive_triggers",
        "reverse_unordered_selects",
    }
)
PRAGMAS = _ASKING | _SETTING
_ON = frozenset({"1", "on", "true", "yes"})

_OURS = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT})
_OUTSIDE = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})
_TEMPORARY = frozenset(
    {
        sqlite3.SQLITE_CREATE_TEMP_INDEX,
        sqlite3.SQLITE_CREATE_TEMP_TABLE,
        sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
        sqlite3.SQLITE_CREATE_TEMP_VIEW,
    }
)
_NAMING = frozenset(
    {
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_CREATE_VTABLE,
    }
)
_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})


class StatementGuard:
    """Of one connection. It knows the connection's modes, and why it last said no."""

    __slots__ = (
        "_now",
        "has_settings",
        "is_armed",
        "is_loose",
        "is_ours",
        "is_reader",
        "is_vacuum",
        "is_writing",
        "pragmas",
        "refusal",
        "until",
    )

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.is_armed = False  # what writing needs has been said
        self.is_ours = False  # the statement is Wakeful's own
        self.is_reader = False  # it is a reader's
        self.is_writing = False  # its turn has changed something before it
        self.is_vacuum = False  # the statement is VACUUM: SQLite copies everything into a database of its own, and back
        self.has_settings = False  # something was set that must not outlive the turn
        self.is_loose = False  # foreign keys are not enforced, because the turn said so
        self.pragmas = PRAGMAS  # those that are allowed
        self.refusal: str | None = None
        self.until = 0  # when the statement that runs must be over

    def is_late(self) -> bool:
        """Asked while a statement runs: true ends it."""
        return self._now() >= self.until

    def authorize(self, action: int, one: str | None, two: str | None, _database: str | None, _by: str | None) -> int:
        """Asked when a statement is compiled."""
        refusal = None if self.is_ours or self.is_vacuum else self._judge(action, one, two)
        if refusal is None:
            return sqlite3.SQLITE_OK
        self.refusal = refusal
        return sqlite3.SQLITE_DENY

    def _judge(self, action: int, one: str | None, two: str | None) -> str | None:
        if action in _NAMING:
            return judge_name(one)
        if action == sqlite3.SQLITE_FUNCTION:
            return f"{two}() brings code from outside" if two in _FUNCTIONS else None
        if action == sqlite3.SQLITE_PRAGMA:
            return self._judge_pragma(one, two)
        if action in _OURS:
            return "a turn is the transaction"
        if action in _OUTSIDE:
            return "an object has one database, its own"
        if action in _TEMPORARY:
            return "what is temporary would be gone when the object sleeps; use a table, or a WITH"
        return None

    def _judge_pragma(self, name: str | None, value: str | None) -> str | None:
        name = (name or "").lower()
        if name not in self.pragmas:
            return f"PRAGMA {name} is not on the list (docs/sql.md)"
        if name in _SETTING and value is not None:
            if self.is_reader:
                return f"PRAGMA {name}: a @reader can't set anything"
            if name == "foreign_keys" and (refusal := self._judge_foreign_keys(value)) is not None:
                return refusal
            self.has_settings = True
        return None

    def _judge_foreign_keys(self, value: str) -> str | None:
        """They can be switched only before the transaction; what they are already, they may be told to be at any time."""
        is_loose = value.lower() not in _ON
        if self.is_writing and is_loose != self.is_loose:
            return "PRAGMA foreign_keys comes before whatever else its turn changes"
        self.is_loose = is_loose
        return None
