"""Layer 2. How do a thousand values become one array argument in microseconds?

asyncpg looks at every element of an array twice and asks two abstract base classes about it: 500 to 900 ns
an element, which was most of the cost of a group commit. These write the same bytes at 5 to 130 ns.

The columns of a group have much in common: most are one value all along (a class, a verdict), and the keys of its
objects come once for each table. Groups of one are as common as large ones.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from sys import byteorder
from typing import Any

_HEAD = Struct(">iiIii")  # dimensions, has nulls, element type, length, lower bound
_SWAP = byteorder == "little"
_NULL = b"\xff\xff\xff\xff"
_LENGTHS = [n.to_bytes(4, "big") for n in range(4_096)]
_FEW = 6  # numbers that go one by one: to set up what is fast for many takes as long
_KEPT = 4  # columns of texts as they were packed last
_KEPT_BYTES_MAX = 256 << 10


def _head(oid: int, count: int, nulls: bool = False) -> bytes:
    return _HEAD.pack(1, nulls, oid, count, 1)


_ONE_BYTES, _ONE_TEXT = _head(17, 1), _head(25, 1)


def _fixed_encoder(oid: int, code: str, unit: str, width: int) -> Callable[[Sequence[int]], bytes]:
    """An encoder of whole numbers, by interleaving the constant length with the values' own units."""
    per = width // array(unit).itemsize
    lead = 4 // array(unit).itemsize
    prefix = array(unit)
    prefix.frombytes(width.to_bytes(4, "big"))
    row = prefix + array(unit, [0] * per)
    length = prefix.tobytes()
    one = _head(oid, 1) + length

    def encode(values: Sequence[int]) -> bytes:
        if len(values) == 1:
            return one + values[0].to_bytes(width, "big", signed=True)
        if _is_even(values):
            return _head(oid, len(values)) + (length + values[0].to_bytes(width, "big", signed=True)) * len(values)
        if len(values) <= _FEW:
            each = [length + value.to_bytes(width, "big", signed=True) for value in values]
            return _head(oid, len(values)) + b"".join(each)
        numbers = array(code, values)
        if _SWAP:
            numbers.byteswap()
        units = array(unit)
        units.frombytes(numbers.tobytes())
        out = row * len(values)
        for n in range(per):
            out[lead + n :: lead + per] = units[n::per]
        return _head(oid, len(values)) + out.tobytes()

    return encode


def _is_even(values: Sequence[object]) -> bool:
    """One value all along."""
    return len(values) > 0 and values[0] == values[-1] and values.count(values[0]) == len(values)


def _pack_bools(values: Sequence[bool]) -> bytes:
    if _is_even(values):
        return _head(16, len(values)) + (b"\0\0\0\1\1" if values[0] else b"\0\0\0\1\0") * len(values)
    return _head(16, len(values)) + b"".join([b"\0\0\0\1\1" if value else b"\0\0\0\1\0" for value in values])


def _blobs(oid: int, values: Sequence[bytes | None]) -> bytes:
    nulls = None in values
    if nulls:
        lengths = [_NULL if value is None else len(value).to_bytes(4, "big") for value in values]
        values = [value or b"" for value in values]
    else:
        lengths = [_LENGTHS[n] if n < 4_096 else n.to_bytes(4, "big") for n in map(len, values)]  # type: ignore[arg-type]
    return _head(oid, len(values), nulls) + b"".join(chain.from_iterable(zip(lengths, values, strict=True)))  # type: ignore[arg-type]


def _even_blobs(oid: int, value: bytes | None, count: int) -> bytes:
    if value is None:
        return _head(oid, count, nulls=True) + _NULL * count
    return _head(oid, count) + (len(value).to_bytes(4, "big") + value) * count


def _pack_bytes(values: Sequence[bytes | None]) -> bytes:
    if len(values) == 1 and (value := values[0]) is not None:
        return _ONE_BYTES + len(value).to_bytes(4, "big") + value
    return _even_blobs(17, values[0], len(values)) if _is_even(values) else _blobs(17, values)


class _Texts:
    """Packs texts, and remembers the last few columns: those of one group are the same keys again and again."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Sequence[str | None], bytes], ...] = ()

    def pack(self, values: Sequence[str | None]) -> bytes:
        if len(values) == 1 and (value := values[0]) is not None:
            raw = value.encode()
            return _ONE_TEXT + len(raw).to_bytes(4, "big") + raw
        if _is_even(values):
            return _even_blobs(25, None if values[0] is None else values[0].encode(), len(values))
        for before, packed in self._kept:
            if before == values:
                return packed
        packed = _blobs(25, [None if value is None else value.encode() for value in values])
        if len(packed) <= _KEPT_BYTES_MAX and type(values) is tuple:
            self._kept = ((values, packed), *self._kept[: _KEPT - 1])
        return packed


# Array type, its name, and how to write it.
PACKERS: list[tuple[int, str, Callable[[Any], bytes]]] = [
    (1000, "_bool", _pack_bools),
    (1001, "_bytea", _pack_bytes),
    (1005, "_int2", _fixed_encoder(21, "h", "H", 2)),
    (1007, "_int4", _fixed_encoder(23, "i", "I", 4)),
    (1009, "_text", _Texts().pack),
    (1016, "_int8", _fixed_encoder(20, "q", "I", 8)),
]
