"""Layer 5, pure. Is a body of JSON too much for the event loop, though it is short: by what is in it?

Weighed in the text, before anything is made of it (see `values/weights.py`): quickly with what stands in quotes, and again
without that only when there seems to be too much.
"""

import msgspec

from wakeful.values.errors import BadValue
from wakeful.values.weights import LIST, NAME, VALUE, WEIGHT_MAX, too_heavy

SHORT = 4_096  # bytes that are quick whatever they are

# Numbers that take long to be read, all within one call that nobody can interrupt: so they weigh twice what they take.
LONG = 16  # digits: it may be half way between two floats (9007199254740993.0), as one with an exponent may (1e23)
LONGER = 20  # digits before an exponent of two
LONGEST = 200  # digits, which take time in proportion to their square
DIGITS = {
    b"0" * LONG: 1,  # 0.8 µs
    b"e0": 1,
    b"0" * LONGER + b"e00": 9,  # 3.5 µs
    b"e000": 40,  # 15 µs, near the ends of what a float can be: 3e-324, 1e308
    b"0" * LONGEST: 40,  # 25 µs with what follows
}
_skimmer = msgspec.json.Decoder(msgspec.Raw)  # reads and makes nothing
_ZEROS = bytes.maketrans(b"123456789E", b"0" * 9 + b"e")


def check_body(body: bytes, most: int = WEIGHT_MAX) -> None:
    """`BadValue` when it weighs more than it may, unless it is no JSON at all (`DecodeError`)."""
    if len(body) <= SHORT or sum(_weights(body)) <= min(most, WEIGHT_MAX):
        return
    _skimmer.decode(body)
    if VALUE * _texts(body) > most:
        raise too_heavy(most)  # whatever else there is; to take so many of them out would take long
    weight, digits = _weights(_strip_quoted(body))
    if digits > WEIGHT_MAX or weight <= most < weight + digits:
        words = f"it has too many numbers of {LONG} digits and more, or with exponents, which take long to be read"
        raise BadValue(f"{words}; send them as text, or in our own encoding", code="body.digits")
    if weight > most:
        raise too_heavy(most)


def _texts(body: bytes) -> int:
    """At least so many texts, names among them, are in a body of JSON."""
    return (body.count(b'"') - body.count(b'\\"')) // 2


def json_weight(body: bytes) -> int:
    """What a body of JSON weighs."""
    return sum(_weights(_strip_quoted(body)))


def lists_in(body: bytes) -> int:
    """How many lists are in a body of JSON."""
    return _strip_quoted(body).count(b"[")


def _weights(text: bytes) -> tuple[int, int]:
    """As if all numbers were short, and what they weigh more."""
    lists = text.count(b"[") + text.count(b"{")
    zeros = text.translate(_ZEROS, b".+-")
    digits = sum(weight * zeros.count(digits) for digits, weight in DIGITS.items())
    return LIST * lists + NAME * text.count(b":") + VALUE * (text.count(b",") + lists), digits


def _strip_quoted(body: bytes) -> bytes:
    """The body without what stands in quotes."""
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b'"'.join(bare.split(b'"')[::2])
