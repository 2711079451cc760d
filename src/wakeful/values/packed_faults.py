"""Layer 0. What is wrong with MessagePack of a stranger, and at which byte?

Bytes are counted from the first of all, the version. The decoder counts from the one behind it.
"""

import re

from wakeful.values.errors import Undecodable

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
