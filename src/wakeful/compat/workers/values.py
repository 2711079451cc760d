"""Layer 5. How do values look to code that expects JavaScript's behind them?

What is read comes as `Record`, `Array` and `Map`: dicts and lists that also answer `.to_py()` and, for records, to
attribute access. What is stored or sent is made plain again first.
"""

import math
from collections.abc import Mapping
from typing import Any

from wakeful.compat.workers.failures import DataCloneError, JsTypeError
from wakeful.values.codec import encode
from wakeful.values.errors import BadValue


class Record(dict[str, Any]):
    """A JavaScript object: a dict whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} in {sorted(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def to_py(self, **_: Any) -> dict[str, Any]:
        """Plain dicts and lists all the way down."""
        found: dict[str, Any] = plain(self)
        return found

    def object_items(self) -> list[tuple[str, Any]]:
        return list(self.items())

    def object_keys(self) -> list[str]:
        return list(self)

    def object_values(self) -> list[Any]:
        return list(self.values())


class Map(Record):
    """What `get` of several keys and `list` give: in order, with JavaScript's `size`, `has` and `entries` too."""

    @property
    def size(self) -> int:
        return len(self)

    def has(self, key: str) -> bool:
        return key in self

    def entries(self) -> list[tuple[str, Any]]:
        return list(self.items())


class Array(list[Any]):
    """A JavaScript array."""

    @property
    def length(self) -> int:
        return len(self)

    def to_py(self, **_: Any) -> list[Any]:
        found: list[Any] = plain(self)
        return found


def dressed(value: Any) -> Any:
    """A plain value as the object's code gets it."""
    kind = type(value)
    if kind is dict:
        return Record({key: dressed(item) for key, item in value.items()})
    if kind is list:
        return Array(dressed(item) for item in value)
    return value


def plain(value: Any) -> Any:
    """A value without what `dressed` put around it, at any depth; the same object where there was nothing."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if type(value) is tuple:
        return tuple(plain(item) for item in value)
    return value


def sendable(value: Any, what: str) -> Any:
    """A value that can be stored and sent, or `DataCloneError` that says which part can't."""
    made = plain(value)
    try:
        encode(made)
    except BadValue as error:
        raise DataCloneError(f"{what}: {error.message}") from None
    return made


def option_of(given: Any, named: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Options as JavaScript's code gives them, in one mapping, or as Python's, by keyword."""
    if given is None:
        return dict(named)
    if not isinstance(given, Mapping):
        raise JsTypeError(f"{what}: options must be a mapping or keywords, not {type(given).__name__}")
    return {**given, **named}


def key_of(key: Any, what: str) -> str:
    """A storage key; numbers and truth values become the text that JavaScript makes of them."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float) and math.isfinite(key):
        return str(int(key)) if key.is_integer() and abs(key) < 1e21 else repr(key)
    raise JsTypeError(f"{what}: a key is text, not {type(key).__name__}")
