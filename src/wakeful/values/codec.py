"""Layer 0. How do values become bytes, and exactly the same values again?

MessagePack behind one version byte. What MessagePack lacks travels as extension types, so that any
language can read it; nothing is ever executed on the way in. Dataclasses and structs carry the name
of their type, as members of an Enum do, and are rebuilt only from a type this process has already loaded. Fields that
such a type does not have go along with the object, unread (`Shelf`).
"""

import dataclasses
import sys
import weakref
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from wakeful.values.errors import BadValue, Undecodable
from wakeful.values.packed import PartFault, check_alike, check_packed_keys, fault_words, version_words
from wakeful.values.seals import MAGIC, why_not
from wakeful.values.weights import WEIGHT_MAX, check_packed_weight

# What did a stored dataclass or struct have that its class here does not know, and who carries it along?
#
# A newer program may have written fields that this one has never heard of. They stay beside the object that was decoded,
# as they were on disk and never rebuilt, and go out again with it. Beside, because a struct and a slotted dataclass take
# no attribute, and others would show it. An object that can be referred to weakly is followed for its whole life; of one
# that can't, the shelf of whoever decoded it (a turn, a state) is its life.

Rest = dict[str, Any]


class Shelf:
    """Holds what can't be referred to weakly for as long as its rest is to be known."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[Any] = []

    def hold(self, value: Any) -> None:
        self._held.append(value)

    def __del__(self) -> None:
        for value in self._held:
            RESTS.pop(id(value), None)


# By identity: a way to the object, and its rest. Empty in a program that has met nothing it does not know, which is
# all that encoding asks then.
RESTS: dict[int, tuple[Callable[[], Any], Rest]] = {}


def keep_rest(value: Any, rest: Rest) -> None:
    """Carry this along with that very object."""
    key = id(value)
    try:
        RESTS[key] = weakref.ref(value, lambda _: RESTS.pop(key, None)), rest
    except TypeError:
        shelf = _find_shelf()
        if shelf is not None:
            shelf.hold(value)
            RESTS[key] = (lambda: value), rest


def rest_of(value: Any) -> Rest | None:
    """What is carried along with that very object."""
    found = RESTS.get(id(value))
    return found[1] if found is not None and found[0]() is value else None


def shelve_with(find: Callable[[], Shelf | None]) -> None:
    """Who decodes, if anybody is there to hold something."""
    global _find_shelf
    _find_shelf = find


def _nobody() -> Shelf | None:
    return None


_find_shelf: Callable[[], Shelf | None] = _nobody


VERSION = b"\x01"

# Extension numbers are for ever: add, never renumber.
_BIGINT, _DATETIME, _DATE, _TIME, _TIMEDELTA, _UUID, _DECIMAL, _TUPLE, _SET, _FROZENSET, _TYPED, _MAP = range(1, 13)
_ENUM = 13
TOO_DEEP = "stored value is nested too deeply to be read; it was not written by this codec"


def encode(value: object) -> bytes:
    """The value as bytes; `BadValue` names the part that can't be."""
    try:
        return VERSION + _encoder.encode(value if type(value) in _FAST else _lower(value))
    except BadValue as error:
        raise BadValue(f"{_blame(value)} {error.message}", code=error.code) from None
    except (OverflowError, UnicodeEncodeError) as error:
        raise BadValue(f"value can't be encoded: {error}", code="value.encode") from None
    except RecursionError:
        raise BadValue("value is nested too deeply, or contains itself", code="value.depth") from None


def decode(data: bytes) -> Any:
    """The value that `encode` was given, equal and of the same types."""
    if data[:1] != VERSION:
        if data[:4] == MAGIC:
            raise why_not(data)
        raise Undecodable(
            f"stored value has format {data[:1]!r}, this version reads {VERSION!r}; upgrade Wakeful",
            code="value.version",
        )
    body = memoryview(data)[1:]
    try:
        try:
            return _decoder.decode(body)
        except Undecodable:
            return _lift(_shallow_decoder.decode(body))  # what is in the way may be in a field that nobody reads here
    except msgspec.DecodeError as error:
        raise Undecodable(f"stored value is damaged: {error}", code="value.damaged") from None
    except RecursionError:
        raise Undecodable(TOO_DEEP, code="value.deep") from None


def decode_fields(kind: Any, data: bytes) -> tuple[Any, Rest]:
    """The value of that type whose fields were encoded, and what it does not know of them."""
    rest = unknown_fields(kind, data)
    if not rest:
        return rebuild(kind, decode(data)), rest
    fields = _shallow_decoder.decode(memoryview(data)[1:])
    return rebuild(kind, {name: _lift(item) for name, item in fields.items() if name not in rest}), rest


def encode_fields(value: Any, rest: Rest) -> bytes:
    """The fields of a dataclass or struct as bytes, and with them what its class does not know."""
    return join_fields(fields_of(value), rest)


def join_fields(fields: dict[str, Any], rest: Rest) -> bytes:
    """Fields as bytes, and with them others that are as they were on disk."""
    if not rest:
        return encode(fields)
    return VERSION + _encoder.encode({**_shallow_decoder.decode(encode(fields)[1:]), **rest})


def unread_fields(data: bytes) -> Rest:
    """Encoded fields by name, each as it is on disk; `read_field` makes a value of one."""
    if data[:1] != VERSION:
        decode(data)  # raises with the right words
    try:
        return dict(_shallow_decoder.decode(memoryview(data)[1:]))
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise Undecodable(f"stored fields are damaged: {error}", code="value.damaged") from None


def read_field(raw: Any) -> Any:
    """The value of a field of `unread_fields`."""
    return _lift(raw)


def unknown_fields(kind: Any, data: bytes) -> Rest:
    """Those of the encoded fields that the type does not have, as they are on disk."""
    if data[:1] != VERSION:
        return {}  # `decode` has the words for it
    try:
        fields = _shallow_decoder.decode(memoryview(data)[1:])
    except msgspec.DecodeError:
        return {}
    return _unknown(kind, fields)


def names_in(data: bytes) -> frozenset[str]:
    """Which fields were encoded."""
    return frozenset(_shallow_decoder.decode(memoryview(data)[1:]))


def decode_loosely(data: bytes) -> Any:
    """The value for someone who does not have the program's types: a dataclass or struct as its fields, with `$type`, a member of an Enum as its value."""
    if data[:1] != VERSION:
        return decode(data)  # raises with the right words
    try:
        return _loose_decoder.decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise Undecodable(f"stored value is damaged: {error}", code="value.damaged") from None
    except RecursionError:
        raise Undecodable(TOO_DEEP, code="value.deep") from None


def decode_outside(data: bytes, weight_max: int = WEIGHT_MAX) -> Any:
    """As `decode_loosely`, for bytes of a stranger: `BadValue` for what would be slow to make, `Undecodable` says what is
    wrong with the rest, and at which byte.
    """
    if data[:1] != VERSION:
        raise Undecodable(version_words(data, VERSION), code="value.version")
    try:
        check_packed_weight(data[1:], weight_max)
        return _decoded_warily(data[1:])
    except BadValue:
        raise
    except Exception as error:  # what is made of parts that don't belong there fails in any way
        raise Undecodable(fault_words(data, error), code="value.damaged") from None


def copy_value(value: Any) -> Any:
    """What a value becomes on its way through the codec; immutable scalars skip the trip."""
    if type(value) in _PLAIN:
        return value
    return decode(encode(value))


def _lower(value: Any) -> Any:
    """The value in terms that MessagePack carries exactly; the same object where nothing had to change."""
    kind: Any = type(value)
    if kind is int:
        return value if _INT64_MIN <= value <= _UINT64_MAX else _ext(_BIGINT, _int_bytes(value))
    if kind in _FAST:
        return value
    if kind is list:
        return [
            item
            if (inner := type(item)) in _FAST or (inner is int and _INT64_MIN <= item <= _UINT64_MAX)
            else _lower(item)
            for item in value
        ]
    if kind is dict:
        if not value:
            return value
        if _TEXT.issuperset(map(type, value)):  # as nearly always: thrice as fast
            return {key: item if type(item) in _FAST else _lower(item) for key, item in value.items()}
        pairs = [
            (key if type(key) in _FAST else _lower(key), item if type(item) in _FAST else _lower(item))
            for key, item in value.items()
        ]
        if all(type(key) in _PLAIN for key, _ in pairs):
            return dict(pairs)
        return _ext(_MAP, pairs)
    lower = _LOWER.get(kind)
    if lower is not None:
        return lower(value)
    if issubclass(kind, Enum):
        return _ext(_ENUM, [f"{kind.__module__}:{kind.__qualname__}", _lower(value.value)])
    names = _field_names(kind)
    if names is None:
        if hasattr(kind, "model_dump"):
            raise BadValue(
                f"is a {kind.__module__}.{kind.__qualname__}, a model and not plain data; give its model_dump()",
                code="value.type",
            )
        raise BadValue(
            f"is a {kind.__module__}.{kind.__qualname__}, which is not plain data; store None, bool, int, float, str, "
            "bytes, datetime, date, time, timedelta, UUID, Decimal, list, tuple, set, dict, Enum, dataclass or msgspec.Struct",
            code="value.type",
        )
    fields = {name: _lower(getattr(value, name)) for name in names}
    if RESTS and (rest := rest_of(value)):
        fields.update(rest)
    return _ext(_TYPED, [f"{kind.__module__}:{kind.__qualname__}", fields])


@lru_cache(1_024)
def _field_names(kind: Any) -> tuple[str, ...] | None:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if issubclass(kind, msgspec.Struct):
        return tuple(kind.__struct_fields__)
    return None


@lru_cache(1_024)
def _made_with(kind: Any) -> dict[str, bool]:
    """The fields of a dataclass, and whether its constructor takes them."""
    return {field.name: field.init for field in dataclasses.fields(kind)}


def _blame(value: Any, path: str = "value") -> str:
    """The path to the first part that `_lower` refuses. Only walked when it did."""
    kind: Any = type(value)
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts = [(f"key {key!r} of {path}", key) for key in value] + [(f"{path}[{key!r}]", value[key]) for key in value]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    elif names := _field_names(kind):
        parts = [(f"{path}.{name}", getattr(value, name)) for name in names]
    for deeper, part in parts:
        try:
            _lower(part)
        except BadValue:
            return _blame(part, deeper)
    return path


def _ext(number: int, inner: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(number, _encoder.encode(inner))


def _int_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _lower_datetime(value: datetime) -> Any:
    zone = value.tzinfo
    if isinstance(zone, ZoneInfo) and zone.key:
        return _ext(_DATETIME, [value.replace(tzinfo=None, fold=0).isoformat(), zone.key, value.fold])
    if zone is None or isinstance(zone, timezone):
        return _ext(_DATETIME, [value.replace(fold=0).isoformat(), None, value.fold])
    offset = _constant(zone)
    if offset is not None:
        return _lower_datetime(value.replace(tzinfo=timezone(offset)))
    raise BadValue(f"has the time zone {zone!r}; use zoneinfo.ZoneInfo or datetime.timezone", code="value.zone")


def _constant(zone: tzinfo) -> timedelta | None:
    """The offset of a zone that has only one, as parsers make them (pydantic's, dateutil's): what it says of no time at all."""
    try:
        return zone.utcoffset(None)
    except Exception:  # somebody else's code
        return None


def _raise_datetime(inner: list[Any]) -> datetime:
    text, zone, fold = inner
    value = datetime.fromisoformat(text).replace(fold=fold)
    if zone is None:
        return value
    try:
        return value.replace(tzinfo=ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):
        raise Undecodable(f"time zone {zone!r} is not known here; install tzdata", code="value.zone") from None


def _lower_time(value: time) -> Any:
    if value.tzinfo is not None and not isinstance(value.tzinfo, timezone):
        raise BadValue("is a time of day with a named zone; store the zone beside it", code="value.zone")
    return _ext(_TIME, [value.replace(fold=0).isoformat(), value.fold])


def _lower_members(number: int) -> Callable[[Any], Any]:
    return lambda value: _ext(number, [_lower(item) for item in value])


def _lower_set(number: int) -> Callable[[Any], Any]:
    """In the order of their bytes: equal sets must become equal bytes in every process."""
    return lambda value: _ext(number, sorted((_lower(item) for item in value), key=_encoder.encode))


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass or struct, not copied."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _field_names(kind) or ()}


def rebuild(kind: Any, fields: dict[str, Any]) -> Any:
    """A dataclass or struct from its stored fields: unknown ones are left out, missing ones take their default."""
    return _build(kind, fields)[0]


def _build(kind: Any, fields: dict[str, Any]) -> tuple[Any, bool]:
    """The same, and whether its class knows all of them."""
    make: Any = kind
    try:
        if not dataclasses.is_dataclass(kind):
            taken = {k: v for k, v in fields.items() if k in kind.__struct_fields__}
            return kind(**taken), len(taken) == len(fields)
        known = _made_with(make)
        taken = {k: v for k, v in fields.items() if known.get(k)}
        value = make(**taken)
        if len(taken) == len(fields):
            return value, True
        for key, item in fields.items():
            if known.get(key) is False:
                object.__setattr__(value, key, item)
        return value, fields.keys() <= known.keys()
    except TypeError as error:
        raise Undecodable(
            f"a stored {kind.__name__} no longer fits its class: {error}; give new fields a default", code="value.type"
        ) from None


def _raise_typed(data: memoryview) -> Any:
    """A dataclass or struct; what its class does not know goes along with it."""
    name, fields = _decoder.decode(data)
    kind = _find_type(name)
    value, is_all = _build(kind, fields)
    if not is_all:
        keep_rest(value, _unknown(kind, _shallow_decoder.decode(data)[1]))
    return value


def _lift(raw: Any) -> Any:
    """What was decoded without its extension types, with them; only fields that their class knows are looked at."""
    kind = type(raw)
    if kind is list:
        return [_lift(item) for item in raw]
    if kind is dict:
        return {key: _lift(item) for key, item in raw.items()}
    if kind is not msgspec.msgpack.Ext:
        return raw
    if raw.code not in _RAISE:
        return _raise_ext(raw.code, memoryview(raw.data))  # raises with the right words
    inner = _shallow_decoder.decode(raw.data)
    if raw.code != _TYPED:
        return _RAISE[raw.code](_lift(inner))
    found, fields = _find_type(inner[0]), inner[1]
    rest = _unknown(found, fields)
    value = rebuild(found, {name: _lift(item) for name, item in fields.items() if name not in rest})
    if rest:
        keep_rest(value, rest)
    return value


def _unknown(kind: Any, fields: dict[str, Any]) -> Rest:
    known = _field_names(kind) or ()
    return {name: item for name, item in fields.items() if name not in known}


def _member(name: str, value: Any) -> Any:
    """The member of an Enum that has this value."""
    kind = _find_type(name)
    try:
        return kind(value)
    except (ValueError, TypeError) as error:
        raise Undecodable(f"a stored {name} is not one of its members any more: {error}", code="value.type") from None


def _find_type(name: str) -> Any:
    """A dataclass, struct or Enum of that name among what is already imported; never imports, never takes anything else."""
    module, _, path = name.partition(":")
    # A program started as a script calls its own module __main__, and the same file imported does not.
    for candidate in (module, "__main__", *_homes):
        found: Any = sys.modules.get(candidate)
        for part in path.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, msgspec.Struct | Enum)):
            return found
    raise Undecodable(f"stored value is a {name}, which is not loaded here; import its module first", code="value.type")


def look_in(module: str) -> None:
    """Let stored dataclasses be found in this module too, under whatever name it had when they were written."""
    if module not in _homes:
        _homes.append(module)


def is_same_home(written: str, module: str) -> bool:
    """A module by the name it had when something was written, and one of now: the same file, perhaps started as a script?"""
    if written == module:
        return True
    if written == "__main__":
        return module in _homes
    script = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    return module == "__main__" and PurePath(script).stem == written.rpartition(".")[2]


_homes: list[str] = []
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_TEXT = frozenset({str})
_FAST = frozenset({type(None), bool, float, str, bytes})
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1

_LOWER: dict[type, Callable[[Any], Any]] = {
    datetime: _lower_datetime,
    date: lambda value: _ext(_DATE, value.isoformat()),
    time: _lower_time,
    timedelta: lambda value: _ext(_TIMEDELTA, [value.days, value.seconds, value.microseconds]),
    UUID: lambda value: _ext(_UUID, value.bytes),
    Decimal: lambda value: _ext(_DECIMAL, str(value)),
    bytearray: lambda value: bytes(value),
    tuple: _lower_members(_TUPLE),
    set: _lower_set(_SET),
    frozenset: _lower_set(_FROZENSET),
}

_RAISE: dict[int, Callable[[Any], Any]] = {
    _BIGINT: lambda inner: int.from_bytes(inner, "big", signed=True),
    _DATETIME: _raise_datetime,
    _DATE: date.fromisoformat,
    _TIME: lambda inner: time.fromisoformat(inner[0]).replace(fold=inner[1]),
    _TIMEDELTA: lambda inner: timedelta(*inner),
    _UUID: lambda inner: UUID(bytes=inner),
    _DECIMAL: Decimal,
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _TYPED: lambda inner: rebuild(_find_type(inner[0]), inner[1]),
    _MAP: dict,
    _ENUM: lambda inner: _member(*inner),
}


def _raise_ext(number: int, data: memoryview) -> Any:
    if number == _TYPED:
        return _raise_typed(data)
    raise_ = _RAISE.get(number)
    if raise_ is None:
        raise Undecodable(
            f"stored value has extension type {number}, which this version does not know; upgrade Wakeful"
        )
    return raise_(_decoder.decode(data))


def _raise_loosely(number: int, data: memoryview) -> Any:
    if number not in _RAISE:
        return _raise_ext(number, data)  # raises with the right words
    inner = _loose_decoder.decode(data)
    if number == _ENUM:
        return inner[1]
    return {"$type": inner[0].partition(":")[2], **inner[1]} if number == _TYPED else _RAISE[number](inner)


def _decoded_warily(data: bytes) -> Any:
    check_packed_keys(data)
    return _wary_decoder.decode(data)


def _raise_warily(number: int, data: memoryview) -> Any:
    """What was not made of JSON's kinds, by somebody else; `PartFault` is of the innermost that is wrong."""
    try:
        return _made_warily(number, data)
    except (BadValue, PartFault):
        raise
    except Exception as error:
        raise PartFault(number, bytes(data), error) from None


def _made_warily(number: int, data: memoryview) -> Any:
    """The same, counted before it becomes a set or a dict."""
    if number not in _RAISE:
        raise Undecodable(f"extension type {number} is not known")
    inner = _decoded_warily(bytes(data))
    if number in (_SET, _FROZENSET):
        check_alike(inner, "a set")
    elif number == _MAP:
        check_alike([pair[0] for pair in inner], "a dict")
    elif number == _ENUM:
        return inner[1]
    return {"$type": inner[0].partition(":")[2], **inner[1]} if number == _TYPED else _RAISE[number](inner)


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_raise_ext)
_shallow_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()  # leaves extension types as they are
_loose_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_raise_loosely)
_wary_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_raise_warily)
