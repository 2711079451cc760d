"""Layer 0. Does MessagePack of a stranger have a long map whose keys are no plain values?

Arrays and extension types as keys become tuples, UUIDs, numbers: a stranger can choose thousands that hash alike (see
below), and the decoder has put them into a dict before anybody could count them. Our own codec writes such dicts as
pairs in an extension type. So the bytes are looked at before they are decoded, one level after the other: a map of n pairs
has the bytes of an array of 2n values behind another head, which the decoder splits without looking into them.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from wakeful.values.errors import BadValue

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
