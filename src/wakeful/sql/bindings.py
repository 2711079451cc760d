"""Layer 4. How does a value of Python become one of SQLite?"""

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from wakeful.values.errors import BadSql, BadValue

INT_MAX = (1 << 63) - 1
_ISO: Callable[[Any], str] = lambda value: value.isoformat()  # noqa: E731
_TEXTS: dict[type, Callable[[Any], Any]] = {
    datetime: _ISO,
    date: _ISO,
    time: _ISO,
    timedelta: msgspec.to_builtins,  # ISO 8601 as well: P1DT7200S
    UUID: str,
    Decimal: str,
}
_AS_THEY_ARE = frozenset({type(None), bytes})

Arguments = tuple[Any, ...] | dict[str, Any]


def bind(positional: tuple[Any, ...], named: dict[str, Any]) -> Arguments:
    """The arguments of a statement as SQLite takes them; `BadValue` says which can't be."""
    if not named:
        return tuple([_lower(value, n + 1) for n, value in enumerate(positional)]) if positional else ()
    if positional:
        raise BadSql("give arguments in their order (for ?) or by name (for :name), not both", code="sql.arguments")
    return {name: _lower(value, name) for name, value in named.items()}


def _lower(value: Any, place: int | str) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is str:
        return _check_text(value, place)
    if kind is int or kind is bool:
        if not -INT_MAX - 1 <= value <= INT_MAX:
            raise BadValue(
                f"argument {place} has {value.bit_length()} bits, and SQLite's whole numbers have 64; give it as text",
                code="sql.int",
            )
        return int(value)
    if kind is float:
        if math.isnan(value):
            raise BadValue(f"argument {place} is NaN, which SQLite would store as NULL", code="sql.nan")
        return value
    return _lower_other(value, kind, place)


def _lower_other(value: Any, kind: type, place: int | str) -> Any:
    if isinstance(value, Enum):
        return _lower(value.value, place)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    for known, form in _TEXTS.items():
        if isinstance(value, known):
            return form(value)
    plains: tuple[Any, ...] = (str, int, float, bytes)
    for plain in plains:
        if isinstance(value, plain):  # of a class of its own
            return _lower(plain(value), place)
    hint = (
        "; json.dumps() makes a text of it that SQLite's JSON functions read" if isinstance(value, list | dict) else ""
    )
    raise BadValue(f"argument {place} is a {kind.__name__}, which a column can't hold{hint}", code="sql.value")


def _check_text(value: str, place: int | str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadValue(f"argument {place} is not valid Unicode text", code="sql.value") from None
    return value
