"""Layer 5. `ctx.storage.sql` and `ctx.storage.kv`: what does an object of Cloudflare's read and write without waiting?"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.failures import JsException, JsRangeError, JsTypeError, as_js_error
from wakeful.compat.workers.values import Array, Record, dress, key_of, option_of, plain
from wakeful.policy.limits import check_storage_key
from wakeful.policy.ranges import bounds, merge, within
from wakeful.runtime.storage import Storage
from wakeful.runtime.turn import RefusedWrite, Turn
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.errors import BadInput, BadSql, BadValue, ConstraintFailed, LimitExceeded

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime
    from wakeful.sql.result import SqlRows

Inside = Callable[[str], AbstractContextManager[Turn]]  # around what is named; with the turn that it writes into

SAFE_INT_MAX = 2**53 - 1  # what a number of JavaScript's holds exactly
PRAGMAS = frozenset(  # as there
    {
        "case_sensitive_like",
        "data_version",
        "defer_foreign_keys",
        "foreign_key_check",
        "foreign_key_list",
        "foreign_keys",
        "ignore_check_constraints",
        "index_info",
        "index_list",
        "index_xinfo",
        "legacy_alter_table",
        "optimize",
        "page_size",
        "quick_check",
        "recursive_triggers",
        "reverse_unordered_selects",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)


class Once:
    """Things that are handed out once each, in their order, to whoever asks: an iterator of Python's and of JavaScript's."""

    def __init__(self, left: Iterable[Any], make: Callable[[Any], Any]) -> None:
        self._left = iter(left)
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._make(next(self._left))

    def next(self) -> Record:
        """`done`, and the `value` when it is not."""
        for value in self:
            return Record(done=False, value=value)
        return Record(done=True, value=None)

    def toArray(self) -> Array:  # noqa: N802  the name there
        """All that are left."""
        return Array(self)


# `storage.sql`: the object's own database.


class SqlStorage:
    """`exec`, and how large the database is."""

    def __init__(self, activation: "ObjectRuntime", inside: Inside) -> None:
        self._inside = inside
        self._sql = activation.node.features["sql"].of(activation, PRAGMAS)

    def exec(self, query: Any, *bindings: Any) -> "SqlCursor":
        """Run the statements of the text now, in their order; the rows of the last, whose bindings these are."""
        try:
            with self._inside("sql"):
                return SqlCursor(self._sql(query, *[_lower(value) for value in bindings]))
        except BadValue as error:
            raise JsTypeError(error.message) from None
        except ConstraintFailed as error:
            raise JsException(f"{error.message}: SQLITE_CONSTRAINT") from None  # what is looked for in it there
        except (BadSql, LimitExceeded) as error:
            raise JsException(error.message) from None

    @property
    def databaseSize(self) -> int:  # noqa: N802  the name there
        """The bytes of its pages."""
        with self._inside("sql"):
            size: int = self._sql.size
            return size


class SqlCursor(Once):
    """The rows of one `exec`: all were read when it ran, and each is handed out once."""

    def __init__(self, rows: "SqlRows") -> None:
        self.columnNames = columns = Array(rows.columns)
        self.rowsRead = rows.read
        self.rowsWritten = rows.written
        super().__init__(rows.raw(), lambda row: Record(zip(columns, map(_number, row), strict=True)))

    def one(self) -> Record:
        """The only row; an error when there is none, or more than one."""
        rows = self.toArray()
        if len(rows) != 1:
            raise JsException(f"one() is for exactly one row, and there are {len(rows) or 'none'}")
        found: Record = rows[0]
        return found

    def raw(self) -> Once:
        """The rows that are left, as lists: for columns of one name, too."""
        return Once(self._left, lambda row: Array(map(_number, row)))


def _lower(value: Any) -> Any:
    """A value as it is bound there: numbers are floating point, and a truth value is a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) <= SAFE_INT_MAX:
        return float(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def _number(value: Any) -> Any:
    """A value of a row; a number without a fraction is an int, however it is kept."""
    is_whole = type(value) is float and value.is_integer() and abs(value) <= SAFE_INT_MAX
    return int(value) if is_whole else value


# `storage.kv`: the same rows as those of `get` and `put`. `Host` has them in memory before an event of a Worker that uses it.


class KvStorage:
    """`get`, `put`, `delete` and `list` whose answers are there at once."""

    def __init__(self, activation: "ObjectRuntime", storage: Storage, inside: Inside) -> None:
        self._activation = activation
        self._inside = inside
        self._storage = storage

    def get(self, key: Any, options: Any = None, **named: Any) -> Any:
        """The value of a key, None when there is none."""
        with self._inside("kv") as turn:
            data = self._read(turn, key_of(key, "get()"))
        return None if data is None else dress(decode(data))

    def put(self, key: Any, value: Any, options: Any = None, **named: Any) -> None:
        """Store a value under a key."""
        with self._inside("kv"):
            done = self._storage.put(key_of(key, "put()"), plain(value))
        if isinstance(done, RefusedWrite):
            raise take_refusal(done)

    def delete(self, key: Any, options: Any = None, **named: Any) -> bool:
        """Remove a key: whether it was there."""
        key = key_of(key, "delete()")
        with self._inside("kv") as turn:
            was_there = self._read(turn, key) is not None
            self._storage.delete(key)
        return was_there

    def list(self, options: Any = None, **named: Any) -> Once:
        """Pairs of key and value in the order of the keys, with the options of `storage.list()`."""
        wanted = list_options(option_of(options, named, "list()"))
        reverse, limit = wanted.pop("reverse"), wanted["limit"]
        try:
            first, last = bounds(**wanted)
        except BadInput as error:
            raise as_js_error(error) from None
        with self._inside("kv") as turn:
            stored = self._activation.rows.whole(USER) if not turn.wiped else {}
        if stored is None:
            raise self._too_many()
        found = stored | {key: data for (space, key), data in turn.writes.items() if space == USER}
        inside = {key: data for key, data in found.items() if within(key, first, last)}
        rows = merge((), inside, reverse=reverse, limit=limit)
        return Once(rows.items(), lambda row: Array((row[0], dress(decode(row[1])))))

    def _read(self, turn: Turn, key: str) -> bytes | None:
        try:
            slot = (USER, check_storage_key(key))
        except BadInput as error:
            raise as_js_error(error) from None
        if slot in turn.writes or turn.wiped:
            return turn.writes.get(slot)
        if self._activation.rows.lacks(slot):
            raise self._too_many()
        return self._activation.rows.look(slot)

    def _too_many(self) -> JsException:
        activation = self._activation
        most = activation.node.limits.cache_bytes_per_object
        return JsRangeError(
            f"{activation.id}: storage.kv needs all rows of the object in memory, and they come to more than {most} "
            "bytes; use the awaitable storage.get() and list(), or raise Limits(cache_bytes_per_object=…)"
        )


def take_refusal(done: RefusedWrite) -> JsException:
    """Why a write was refused, for whoever wrote, and for nobody else: the event goes on."""
    done.turn.refused = [other for other in done.turn.refused if other is not done]
    return as_js_error(done.error)


_BOUNDS = {"start": "start", "start_after": "startAfter", "end": "end"}
LIMIT_MAX = 2**31 - 1


def list_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a listing under the names that Wakeful has for them."""
    if options.get("start") is not None and options.get("startAfter") is not None:
        raise JsTypeError("list() takes start or startAfter, not both")
    found: dict[str, Any] = {name: _text_option(options, theirs) for name, theirs in _BOUNDS.items()}
    prefix = _text_option(options, "prefix") or ""
    return {**found, "prefix": prefix, "limit": _limit(options), "reverse": bool(options.get("reverse"))}


def _text_option(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    return None if value is None else key_of(value, f"list({name})")


def _limit(options: Mapping[str, Any]) -> int | None:
    if "limit" not in options:
        return None
    try:
        limit = int(float(options["limit"]))
    except (TypeError, ValueError, OverflowError):
        limit = 0
    if not 0 < limit <= LIMIT_MAX:
        raise JsTypeError(f"list(): limit must be a positive number, not {options['limit']!r}")
    return limit
