"""Layer 0. What is wrong with MessagePack of a stranger: at which byte, and is there a long map whose keys are no plain values?

Arrays and extension types as keys become tuples, UUIDs, numbers: a stranger can choose thousands that hash alike (see
below), and the decoder has put them into a dict before anybody could count them. Our own codec writes such dicts as
pairs in an extension type. So the bytes are looked at before they are decoded, one level after the other: a map of n pairs
has the bytes of an array of 2n values behind another head, which the decoder splits without looking into them.
"""

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from wakeful.values.errors import BadValue, Undecodable

# Would a set or a dict of these be quadratic, since a stranger chose them to hash alike?
#
# The hashes of numbers, and of what is made of numbers (tuples, UUIDs, decimals, times), are known to everybody: 15,000
# integers that are multiples of 2**61 - 1 have the same one, and a set of them took ten seconds. So what comes from outside
# is counted before it is put into one. Texts and bytes hash differently in each process, and need no look.

ALIKE_MAX = 64  # with the same hash; by chance there are two or three, and 34 among the powers of two


def check_alike(items: Collection[Any], what: str) -> None:
    """`BadValue` when more of them than the limit are different and hash alike; takes a time in proportion to them."""
    if len(items) <= ALIKE_MAX:
        return
    hashes = list(map(hash, items))
    if len(hashes) - len(set(hashes)) < ALIKE_MAX:  # the hash of a hash is itself: this set is never slow
        return
    many = {one for one, count in Counter(hashes).items() if count > ALIKE_MAX}
    if not many:
        return
    different: dict[int, list[Any]] = {one: [] for one in many}
    for item, one in zip(items, hashes, strict=True):
        if one in many and item not in different[one]:
            different[one].append(item)
            if len(different[one]) > ALIKE_MAX:
                raise BadValue(
                    f"{what} has more than {ALIKE_MAX} different members with the same hash, as only an attack has; "
                    "send them as a list, or as text",
                    code="value.alike",
                )


SHORT = 4_096  # bytes: a thousand keys at most, which are quick whatever they are
LEVELS_MAX = 200  # deeper than any body may be; whoever limits depth says so
_LONG = (b"\xde", b"\xdf")  # how a map of more than fifteen pairs begins
_ARRAYS = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])
_MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
_DEEP = _ARRAYS | _MAPS
_NO_KEYS = _DEEP | {0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8}
_splitter: Any = msgspec.msgpack.Decoder(list[msgspec.Raw])


def check_packed_keys(data: bytes) -> None:
    """`BadValue` when a map of more pairs than may hash alike has a key that is a container or an extension type."""
    if len(data) < SHORT or not any(head in data for head in _LONG):
        return  # as nearly always: then no map is long
    level: list[Any] = [memoryview(data)] if data and data[0] in _DEEP else []
    for _ in range(LEVELS_MAX):
        deeper: list[Any] = []
        for one in level:
            try:
                parts = _parts(one)
            except (msgspec.DecodeError, IndexError):
                return  # it is damaged, which the decoder says better
            deeper += [part for part in parts if part[0] in _DEEP]
        if not deeper:
            return
        level = deeper


def _parts(one: memoryview) -> list[memoryview]:
    """What is directly in an array or a map; `BadValue` for a map with such keys."""
    head = one[0]
    if head in _ARRAYS:
        return [memoryview(part) for part in _splitter.decode(one)]
    size = 1 if head < 0x90 else 3 if head == 0xDE else 5
    count = head & 15 if head < 0x90 else int.from_bytes(one[1:size], "big")
    if 2 * count > len(one):
        raise IndexError
    parts = [
        memoryview(part) for part in _splitter.decode(b"\xdd" + (2 * count).to_bytes(4, "big") + bytes(one[size:]))
    ]
    if count > ALIKE_MAX and any(key[0] in _NO_KEYS for key in parts[::2]):
        raise BadValue(
            f"a map of {count} pairs has keys that are lists, maps or extension types, as no client of ours writes it; "
            "send pairs as a list",
            code="value.keys",
        )
    return parts


# What is wrong with MessagePack of a stranger, and at which byte?
#
# Bytes are counted from the first of all, the version. The decoder counts from the one behind it.

# By the numbers of extension types: what it is, and what its content must be.
KINDS = {
    1: ("int", "bytes, signed, the highest first"),
    2: ("datetime", "a list of text of ISO 8601, a zone or nil, and fold"),
    3: ("date", "text of ISO 8601"),
    4: ("time", "a list of text of ISO 8601 and fold"),
    5: ("timedelta", "a list of days, seconds and microseconds"),
    6: ("UUID", "16 bytes"),
    7: ("Decimal", "text of a number"),
    8: ("tuple", "a list"),
    9: ("set", "a list of values that can be members"),
    10: ("frozenset", "a list of values that can be members"),
    11: ("dataclass", 'a list of "module:Name" and a map of fields'),
    12: ("dict", "a list of pairs"),
    13: ("Enum", 'a list of "module:Name" and a value'),
}
SAID_MAX = 200  # characters of what somebody else's code says of it, which may quote it
_FIXED = {1: b"\xd4", 2: b"\xd5", 4: b"\xd6", 8: b"\xd7", 16: b"\xd8"}
_AT_BYTE = re.compile(r"\(byte (\d+)\)")


class PartFault(Exception):
    """An extension type that does not have in it what belongs there."""

    def __init__(self, number: int, content: bytes, error: Exception) -> None:
        super().__init__(number)
        self.number = number
        self.content = content
        self.error = error


def version_words(data: bytes, version: bytes) -> str:
    """Of what does not begin as it should."""
    if not data:
        return "it is empty"
    return f"it begins with 0x{data[0]:02x}, not with 0x{version[0]:02x}, the version of Wakeful's codec"


def fault_words(data: bytes, error: Exception) -> str:
    """Of what begins as it should and can't be read."""
    if isinstance(error, PartFault):
        return _part_words(data, error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    said = str(error)
    if "truncated" in said:
        return f"it ends too early, at byte {len(data)}"
    return _AT_BYTE.sub(lambda found: f"(byte {int(found[1]) + 1})", said)[:SAID_MAX]


def _part_words(data: bytes, fault: PartFault) -> str:
    at = _place(data, fault)
    where = "" if at is None else f" at byte {at}"
    if fault.number not in KINDS:
        return f"extension type {fault.number}{where} is not known; 1 to {len(KINDS)} are"
    what, content = KINDS[fault.number]
    words = f"extension type {fault.number} ({what}){where}"
    if isinstance(fault.error, Undecodable):  # as a zone that is not known here
        return f"{words}: {fault.error.message[:SAID_MAX]}"
    return f"{words}: its content must be {content}, in MessagePack"


def _place(data: bytes, fault: PartFault) -> int | None:
    """Where it begins; None when bytes like these are there more than once, so that nobody knows."""
    size, rest = len(fault.content), (fault.number & 0xFF).to_bytes() + fault.content
    heads = [_FIXED[size]] if size in _FIXED else []
    heads += [
        head + size.to_bytes(width)
        for head, width in ((b"\xc7", 1), (b"\xc8", 2), (b"\xc9", 4))
        if size < 1 << 8 * width
    ]
    found = [head for head in heads if head + rest in data]
    if len(found) != 1:
        return None
    at = data.find(found[0] + rest)
    return at if data.find(found[0] + rest, at + 1) < 0 else None
