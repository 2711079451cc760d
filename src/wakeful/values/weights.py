"""Layer 0. How much work is a value of a stranger: what does it weigh?

Bytes say little of that: 2 MiB are one text, or 700,000 empty lists, which held the event loop for 1.4 s. So what is in a body is
weighed before it is made (below, and in `http/body_shape.py`), and arguments again once they are of the types that
a method takes. One unit is about a microsecond of the processor for all that becomes of a value: decoded,
converted, copied to the object and back, written. `tests/fuzz/held.py` measures whether that is still so.
"""

import msgspec

from wakeful.values.errors import BadValue

VALUE = 1  # a number, a text, bytes
NAME = 3  # of a value in an object or map, beside the value
LIST = 5  # or an object, a map
TYPED = 22  # a time, a set, an object of the program's types: copied by Python, four times if it is answered
KIB_WITHIN = 1  # of 1,024 bytes in a typed value, which are copied with each that they are in
WEIGHT_MAX = 125_000
REMEDY = "send it in several requests, or as one text or bytes"


def too_heavy(most: int) -> BadValue:
    """What is said of a body that has more in it than may be."""
    table = f"a value counts {VALUE}, a name {NAME} more, a list or object {LIST}, a typed value {TYPED}"
    words = f"it has too much in it, which would hold up everybody else: {table}, and {most} in all is the most"
    return BadValue(f"{words}; {REMEDY}", code="body.parts")


# What does MessagePack of a stranger weigh, before anything is made of it?
#
# By the bytes that values begin with.

_skimmer = msgspec.msgpack.Decoder(msgspec.Raw)  # reads and makes nothing
_WIDE = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}  # heads of lists and maps, and how long they are
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # bytes of the length
_TYPED = bytes([0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8])
_MAPS = bytes([*range(0x80, 0x90), 0xDE, 0xDF])
_LISTS = bytes([*range(0x90, 0xA0), 0xDC, 0xDD])
_PARTS = _MAPS + _LISTS + _TYPED
_NUMBERS = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}


def _size(head: int) -> int:
    """Of a value that begins so, and has nothing in it; 0 when more must be looked at."""
    if head in _NUMBERS:
        return _NUMBERS[head]
    if 0xA0 <= head < 0xC0:
        return 1 + head - 0xA0
    return 0 if head in _PARTS or head in _LENGTHS else 1


_SIZES = bytes(map(_size, range(256)))


def check_packed_weight(data: bytes, most: int = WEIGHT_MAX) -> None:
    """`BadValue` when there is more in it than may be, unless it is no MessagePack at all (`DecodeError`)."""
    if _upper_bound(data) > most and packed_weight(data, most) > most:
        _skimmer.decode(data)
        raise too_heavy(most)


def packed_weight(data: bytes, most: int = WEIGHT_MAX) -> int:
    """What is in it weighs so much; looks no further once that is more than so many."""
    weight = 0
    todo = [(0, len(data), VALUE)]
    while todo:
        at, end, each = todo.pop()
        while at < end and weight <= most:
            weight += each
            size = _SIZES[head := data[at]]
            if size:
                at += size
            elif head in _TYPED:
                begin, at = _span(data, at, head)
                weight += TYPED + KIB_WITHIN * (at - begin >> 10)
                todo.append((begin, min(at, len(data)), 2 * VALUE))  # members of a set are put in their order too
            elif head in _LENGTHS:
                at = _span(data, at, head)[1]
            else:
                size = _WIDE.get(head, 1)
                weight += LIST + (NAME * _pairs(data, at, head) if head in _MAPS else 0)
                at += size
    return weight


def _upper_bound(data: bytes) -> int:
    """It weighs no more than this, which is quick to say: as if each byte began something, and what has no maps no names."""
    typed = len(data) - len(data.translate(None, _TYPED))
    lists = len(data) - len(data.translate(None, _MAPS + _LISTS))
    has_maps = len(data) > len(data.translate(None, _MAPS))
    within = KIB_WITHIN * (len(data) >> 10) + TYPED
    return (2 if typed else 1) * VALUE * len(data) + LIST * lists + typed * within + has_maps * NAME * len(data) // 2


def _pairs(data: bytes, at: int, head: int) -> int:
    """Of a map, and not more than there are bytes for."""
    size = _WIDE.get(head, 1)
    count = head & 15 if size == 1 else int.from_bytes(data[at + 1 : at + size], "big")
    return min(count, len(data) // 2)


def _span(data: bytes, at: int, head: int) -> tuple[int, int]:
    """From where to where the bytes are of a text, of bytes or of an extension type."""
    if head not in _LENGTHS:
        return at + 2, at + 2 + (1 << (head - 0xD4))
    begin = at + 1 + _LENGTHS[head]
    size = int.from_bytes(data[at + 1 : begin], "big")
    begin += head in _TYPED
    return begin, begin + size
