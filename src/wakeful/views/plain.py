"""Layer 5. How do stored values, lengths and sizes look to someone who doesn't have the program's types?"""

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Annotated, Any, TypedDict, overload

import msgspec

from wakeful.values.codec import decode_loosely, fields_of
from wakeful.values.errors import Undecodable
from wakeful.values.times import from_datetime, to_datetime

Instant = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]  # ISO 8601, UTC
OfObject = TypedDict("OfObject", {"class": str, "key": str})  # what rows begin with; Python keeps `class` for itself

# How do lengths of time, sizes and counts look to people?

_UNITS = (("ms", 1, 1_000), ("s", 1_000, 90_000), ("min", 60_000, 5_400_000), ("h", 3_600_000, 172_800_000))


def length(ms: float) -> str:
    """A length of time in the two digits that matter."""
    for unit, size, up_to in _UNITS:
        if ms < up_to:
            value = ms / size
            return f"{value:.1f} {unit}" if unit == "s" and value < 10 else f"{value:.0f} {unit}"
    return f"{ms / 86_400_000:.0f} days"


def size(count: int) -> str:
    """Bytes for people."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def many(count: int, noun: str, plural: str = "") -> str:
    """`1 timer`, `2,000 timers`."""
    return f"{count:,} {noun if count == 1 else plural or _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


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


@overload
def iso(ms: int) -> str: ...
@overload
def iso(ms: None) -> None: ...
@overload
def iso(ms: int | None) -> str | None: ...
def iso(ms: int | None) -> str | None:
    """An instant: ISO 8601, UTC."""
    return None if ms is None else to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@overload
def iso_of(when: datetime) -> str: ...
@overload
def iso_of(when: None) -> None: ...
@overload
def iso_of(when: datetime | None) -> str | None: ...
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
