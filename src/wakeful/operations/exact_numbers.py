"""Layer 5, pure. How does a number of JSON become a `Decimal` as it was written, without having been a float?

Only where an annotation asks for a `Decimal`: everything else is read as before. What stands in the text is kept as a `Number`
until the annotation is known; then it is written as JSON once more, and msgspec reads that straight into the type.
"""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from wakeful.values.errors import BadValue

SHOWN = 40  # characters of a number that is too large


class Number:
    """A number of JSON that is no int, as it was written."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _write(value: Any) -> msgspec.Raw:
    if type(value) is Number:
        return msgspec.Raw(value.text.encode())
    raise NotImplementedError


_encoder = msgspec.json.Encoder(enc_hook=_write)
_DEEP = frozenset({dict, list})


def has_decimals(hint: Any) -> bool:
    """There is a `Decimal` in this annotation, as deep as it says."""
    seen: list[Any] = []
    todo = [hint]
    while todo:
        kind = todo.pop()
        if kind is Decimal:
            return True
        if any(kind is other for other in seen):
            continue
        seen.append(kind)
        origin = get_origin(kind) or kind
        todo += [arg for arg in get_args(kind) if not isinstance(arg, str | int)]
        todo += [getattr(kind, name) for name in ("__supertype__", "__value__") if hasattr(kind, name)]
        if isinstance(origin, type) and origin.__module__ != "builtins":
            with suppress(Exception):  # names that are there for checkers only
                todo += get_type_hints(origin, include_extras=True).values()
    return False


def holds_numbers(value: Any) -> bool:
    """It was read exactly, and has a number that is no int."""
    todo = [value]
    while todo:
        one = todo.pop()
        if type(one) is Number:
            return True
        if type(one) in _DEEP:
            todo += one.values() if type(one) is dict else one
    return False


def convert_exactly(value: Any, hint: Any, *, str_keys: bool = True) -> Any:
    """The same as `msgspec.convert`, of a value that may have been read exactly."""
    if not holds_numbers(value):
        return msgspec.convert(value, hint, str_keys=str_keys)
    return msgspec.json.decode(_encoder.encode(value), type=hint)


def to_floats(value: Any) -> Any:
    """As it would have been read otherwise."""
    return _map_numbers(value, _float_of)


def to_decimals(value: Any) -> Any:
    """With every number that is no int as a `Decimal`."""
    return _map_numbers(value, lambda number: Decimal(number.text))


def _float_of(number: Number) -> float:
    found = float(number.text)
    if found in (float("inf"), float("-inf")):
        raise BadValue(f"{number.text[:SHOWN]} is more than a float can be; send it as text", code="value.number")
    return found


def _map_numbers(value: Any, made: Callable[[Number], Any]) -> Any:
    if type(value) is Number:
        return made(value)
    if type(value) is list:
        return [_map_numbers(one, made) for one in value]
    if type(value) is dict:
        return {name: _map_numbers(one, made) for name, one in value.items()}
    return value
