"""Layer 0. How much work is a value of a stranger: what does it weigh?

Bytes say little of that: 2 MiB are one text, or 700,000 empty lists, which held the event loop for 1.4 s. So what is in a body is
weighed before it is made (`packed_weight.py`, `http/body_shape.py`), and arguments again once they are of the types that
a method takes. One unit is about a microsecond of the processor for all that becomes of a value: decoded,
converted, copied to the object and back, written. `tests/fuzz/held.py` measures whether that is still so.
"""

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
