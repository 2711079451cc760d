"""Layer 0. How much is in MessagePack of a stranger: so many lists that making them holds up everybody else?

A list of nothing is one byte, and every walk over it costs a microsecond: 2 MiB of them held the event loop for two
seconds. So they are counted before they are made, by the bytes that values begin with.
"""

from wakeful.values.errors import BadValue

# Lists, maps and values of other types than JSON's, in what comes from outside. As many objects of the program's types
# take 37 ms to be copied once, which an answer is on the loop.
PARTS_MAX = 5_000
VALUES_EACH = 40  # values for each of these: a number in a list costs a small part of a list
REMEDY = "send it in several requests, or as one text or bytes"

_WIDE = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}  # heads of lists and maps, and how long they are
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # bytes of the length
_EXTS = {0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8}
_PARTS = bytes([*range(0x80, 0xA0), *_WIDE, *sorted(_EXTS)])
_NUMBERS = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}


def _size(head: int) -> int:
    """Of a value that begins so, and has nothing in it; 0 when more must be looked at."""
    if head in _NUMBERS:
        return _NUMBERS[head]
    if 0xA0 <= head < 0xC0:
        return 1 + head - 0xA0
    return 0 if head in _PARTS or head in _LENGTHS else 1


_SIZES = bytes(map(_size, range(256)))


def check_packed_parts(data: bytes, parts_max: int = PARTS_MAX) -> None:
    """`BadValue` when there is more in it than may be; what is damaged is for the decoder to say."""
    values_max = VALUES_EACH * parts_max
    if len(data) <= values_max and len(data) - len(data.translate(None, _PARTS)) <= parts_max:
        return  # as nearly always: it has not so many bytes that could begin one
    parts = values = 0
    todo = [(0, len(data))]
    while todo:
        at, end = todo.pop()
        while at < end:
            values += 1
            size = _SIZES[head := data[at]]
            if size:
                at += size
                continue
            if head in _PARTS:
                parts += 1
            if parts > parts_max:
                raise too_many(parts_max)
            at, inner = _entered(data, at, head)
            if inner is not None:
                todo.append(inner)
    if values > values_max:
        raise too_many(parts_max, values_max)


def too_many(parts_max: int, values_max: int | None = None) -> BadValue:
    """What is said of a body that has more than may be."""
    what = f"{parts_max} lists, objects and typed values" if values_max is None else f"{values_max} values"
    return BadValue(f"it has more than {what}, which would hold up everybody else; {REMEDY}", code="body.parts")


def _entered(data: bytes, at: int, head: int) -> tuple[int, tuple[int, int] | None]:
    """Where to go on behind a head, and from where to where the bytes of an extension type are."""
    if head not in _LENGTHS:
        if head not in _EXTS:
            return at + _WIDE.get(head, 1), None
        begin, size = at + 2, 1 << (head - 0xD4)
    else:
        begin = at + 1 + _LENGTHS[head]
        size = int.from_bytes(data[at + 1 : begin], "big")
        if head not in _EXTS:
            return begin + size, None
        begin += 1
    return begin + size, (begin, min(begin + size, len(data)))
