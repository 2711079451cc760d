"""Layer 5. How does a stored value look to someone who doesn't have the program's types?"""

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

import msgspec

from wakeful.values.codec import decode_loosely, fields_of
from wakeful.values.errors import Undecodable
from wakeful.values.times import from_datetime, to_datetime

_INT_MAX = 1 << 63
INT_BITS = 14_000  # Python writes no whole numbers of more than 4,300 digits in decimal


def plain(value: Any) -> Any:
    """The value in the terms of JSON; docs/cli.md lists what becomes of which type."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < INT_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # The first words are for lists of a million numbers: a call for each of them would hold the loop.
        return [item if type(item) is int and -_INT_MAX < item < _INT_MAX else plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, Enum):
        return plain(value.value)
    fields = fields_of(value) if _has_fields(value) else None
    return str(value) if fields is None else {"$type": type(value).__qualname__, **plain(fields)}


def iso(ms: int | None) -> str | None:
    """An instant: ISO 8601, UTC."""
    return None if ms is None else to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_of(when: datetime | None) -> str | None:
    """The same of a datetime."""
    return None if when is None else iso(from_datetime(when))


def text(value: Any) -> str:
    """The value on one line, for people."""
    return json.dumps(plain(value), ensure_ascii=False)


def text_of(data: bytes) -> str:
    """A stored value on one line; bytes that can't be read say so instead of stopping the whole picture."""
    try:
        return text(decode_loosely(data))
    except Undecodable as error:
        return f"<{error}>"


def plain_of(data: bytes) -> Any:
    """A stored value for JSON; bytes that can't be read become an error in its place."""
    try:
        return plain(decode_loosely(data))
    except Undecodable as error:
        return {"$error": str(error)}


def _has_fields(value: Any) -> bool:
    return hasattr(value, "__dataclass_fields__") or isinstance(value, msgspec.Struct)
