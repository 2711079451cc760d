"""Layer 5. What does somebody else's pickle say, without running any of it?

A pickle is a program that may call whatever it names. Here it can name only what is listed: containers, times and zones
are made, and the other program's own classes become `Thing`s, which hold what they were made of and do nothing.
Anything else ends the reading, and its name is the reason.
"""

import io
import pickle
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from wakeful.importing.found import bad
from wakeful.values.errors import BadValue

BYTES_MAX = 16 * 1024 * 1024


class Thing:
    """An object of a class that is not here: its name, what it was called with, and its state."""

    def __init__(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.state: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):  # a tuple: of `__dict__` and of slots
            if isinstance(part, dict):
                self.state.update(part)


class _Zone:
    """Stands for `ZoneInfo` and its own way of being pickled."""

    def __new__(cls, key: str, is_cached: bool = True) -> ZoneInfo:  # type: ignore[misc]
        return ZoneInfo(key)


def _pytz(name: str = "UTC", *offsets: Any) -> ZoneInfo:
    return ZoneInfo(name)


def _attribute(owner: Any, name: str) -> Any:
    """All that is ever asked for in this way is how a zone is unpickled."""
    if owner is _Zone and name == "_unpickle":
        return _Zone
    raise pickle.UnpicklingError(f"getattr(…, {str(name)[:40]!r})")


def _encoded(text: str, name: str = "latin1") -> bytes:
    """How old pickles write bytes."""
    if name != "latin1" or not isinstance(text, str):
        raise pickle.UnpicklingError(f"text in {str(name)[:40]}")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], Any] = {
    ("builtins", "getattr"): _attribute,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("collections", "OrderedDict"): dict,
    ("datetime", "date"): date,
    ("datetime", "datetime"): datetime,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("decimal", "Decimal"): Decimal,
    ("uuid", "UUID"): UUID,
    ("zoneinfo", "ZoneInfo"): _Zone,
    ("zoneinfo", "ZoneInfo._unpickle"): _Zone,
    ("pytz", "_UTC"): _pytz,
    ("pytz", "_p"): _pytz,
    ("_codecs", "encode"): _encoded,
}
_KNOWN |= {
    ("__builtin__", name): made for (module, name), made in _KNOWN.items() if module == "builtins"
}  # of old ones


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, allowed: Collection[str]) -> None:
        super().__init__(io.BytesIO(data))
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get((module, name))
        if known is not None:
            return known
        full = f"{module}.{name}"
        if any(full.startswith(prefix) for prefix in self._allowed):
            return _kind(full)
        raise pickle.UnpicklingError(full)

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("something outside of the file")


def _kind(name: str) -> Callable[..., Thing]:
    """A class of things of that name, for each of the ways in which pickles make objects."""

    def make(cls: type[Thing], *args: Any, **kwargs: Any) -> Thing:
        thing = object.__new__(cls)
        Thing.__init__(thing, name, *args, **kwargs)
        return thing

    return type(name.rpartition(".")[2], (Thing,), {"__new__": make, "__init__": lambda self, *a, **k: None})


def read(data: bytes, path: str, allowed: Collection[str]) -> Any:
    """The value; `BadValue` names what it holds that is neither plain data nor begins like one of those allowed."""
    if len(data) > BYTES_MAX:
        raise bad(path, f"it has {len(data):,} bytes; {BYTES_MAX:,} is the most")
    try:
        return _Reader(data, allowed).load()
    except pickle.UnpicklingError as error:
        what = str(error)[:200]
        is_name = "." in what and " " not in what
        raise bad(
            path, f"it holds {what}, which is no plain data" if is_name else f"it can't be read: {what}"
        ) from None
    except BadValue:
        raise
    except Exception as error:  # a damaged one can fail in any way
        raise bad(path, f"it can't be read: {type(error).__name__}: {str(error)[:200]}") from None
