"""Layer 5, pure. Is a body of JSON too much for the event loop, though it is short: by what is in it?

2 MiB are 700,000 empty lists, which took 1.4 s to be made, copied and written again, or 500 numbers of 4,000 digits. So
they are counted in the text, before anything is made of it: quickly with what stands in quotes, and again without that
only when there seem to be too many.
"""

from wakeful.values.errors import BadValue
from wakeful.values.packed_parts import VALUES_EACH, too_many

SHORT = 4_096  # bytes that are quick whatever they are
DIGITS = 200  # of a number that takes long to be read: in proportion to their square
STRETCHES_MAX = 400  # of so many digits
EXPONENTS_MAX = 1_000  # numbers like 3e-324, near the ends of what a float can be, of which each takes 15 µs
_ZEROS = bytes.maketrans(b"123456789E", b"0" * 9 + b"e")
_STRETCH = b"0" * DIGITS


def check_body(body: bytes, parts_max: int) -> None:
    """`BadValue` when it has more lists and objects, values or long numbers than may be."""
    if len(body) <= SHORT or _excess(body, parts_max) is None:
        return
    error = _excess(_unquoted(body), parts_max)
    if error is not None:
        raise error


def _excess(text: bytes, parts_max: int) -> BadValue | None:
    if text.count(b"[") + text.count(b"{") > parts_max:
        return too_many(parts_max)
    if text.count(b",") + text.count(b":") > VALUES_EACH * parts_max:
        return too_many(parts_max, VALUES_EACH * parts_max)
    zeros = text.translate(_ZEROS)
    if zeros.count(b"e000") + zeros.count(b"e-000") + zeros.count(b"e+000") > EXPONENTS_MAX:
        words = f"it has more than {EXPONENTS_MAX} numbers with exponents of three digits, which take long to be read"
        return BadValue(f"{words}; send them as text, or in our own encoding", code="body.digits")
    if zeros.count(_STRETCH) > STRETCHES_MAX:
        words = f"it has too many numbers of more than {DIGITS} digits, which take long to be read; send them as text"
        return BadValue(words, code="body.digits")
    return None


def _unquoted(body: bytes) -> bytes:
    """The body without what stands in quotes."""
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b'"'.join(bare.split(b'"')[::2])
