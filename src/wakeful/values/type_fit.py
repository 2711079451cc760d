"""Layer 0. Does a value still fit what the annotations of its class say, and if not, where?

Asked of a state that comes from disk, where another version of the program may have meant something else by a name.
What an annotation can't say of plain data (a type variable, a protocol, a name that can't be resolved) fits anything.
An int fits `float`, a bool `int` and a datetime `date`, as they do for a type checker; the default of a field fits it.
"""

import collections.abc
import dataclasses
import inspect
import types
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

import msgspec

Fits = Callable[[Any], bool]
Exact = frozenset[type]


class Misfit(NamedTuple):
    """The first part that does not fit."""

    path: str
    stored: str
    wanted: str


_SIMPLE: dict[Any, tuple[type, ...]] = {
    **{one: (one,) for one in (str, int, bool, date, datetime, time, timedelta, UUID, Decimal, type(None))},
    float: (float, int),
    bytes: (bytes, bytearray),
    bytearray: (bytes, bytearray),
}
_ABSTRACT = {
    getattr(collections.abc, name)
    for name in ("Collection", "Iterable", "Sequence", "MutableSequence", "Set", "MutableSet")
}
_MAPS = {dict, collections.abc.Mapping, collections.abc.MutableMapping}
_MEMBERS = {list, set, frozenset, *_ABSTRACT}


def fits(value: Any) -> bool:
    """Each field of this dataclass or struct, and all that is in it, is what its annotation says."""
    kind: Any = type(value)
    for name, exact, check, _ in _plan(kind):
        item = getattr(value, name)
        if type(item) not in exact and not check(item):
            return False
    return True


def misfit(value: Any, path: str = "") -> Misfit | None:
    """The first field of this dataclass or struct that does not fit, by its path; None when all do."""
    kind: Any = type(value)
    for name, _, check, hint in _plan(kind):
        item = getattr(value, name)
        if not check(item):
            return _blame(hint, item, f"{path}.{name}" if path else name)
    return None


@lru_cache(1_024)
def _plan(kind: Any) -> list[tuple[str, Exact, Fits, Any]]:
    """Of each field whose annotation says something: its name, the types that surely fit, the check, the annotation."""
    plan = []
    for name, hint, default in _fields(kind):
        check = _check(hint)
        if check is not None:
            plan.append((name, _exact(hint), check if check(default) else _or_default(check, default), hint))
    return plan


def _fields(kind: Any) -> list[tuple[str, Any, Any]]:
    if dataclasses.is_dataclass(kind):
        found = [(one.name, one.default) for one in dataclasses.fields(kind)]
    else:
        found = [(one.name, one.default) for one in msgspec.structs.fields(kind)]
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # a name that is there for type checkers only, or whatever the program's own types raise
        hints = {}
        for base in reversed(kind.__mro__):
            for name, hint in inspect.get_annotations(base).items():
                hints[name] = _resolve(base, name, hint)
    return [(name, hints.get(name, Any), default) for name, default in found]


def _resolve(kind: Any, name: str, hint: Any) -> Any:
    alone = type(kind.__name__, (), {"__annotations__": {name: hint}, "__module__": kind.__module__})
    try:
        return get_type_hints(alone, include_extras=True)[name]
    except Exception:  # as above; of this one nothing is known
        return Any


def _or_default(check: Fits, default: Any) -> Fits:
    """`name: str = None` is said so often that it must be meant."""
    kind = type(default)
    return lambda value: check(value) or (type(value) is kind and value == default)


def _check(hint: Any) -> Fits | None:
    """Whether a value fits the annotation; None when anything does."""
    hint = _bare(hint)
    simple = _SIMPLE.get(hint) if isinstance(hint, type) else _SIMPLE[type(None)] if hint is None else None
    if simple is not None:
        return lambda value: isinstance(value, simple)
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is Union or origin is types.UnionType:
        return _any_of([_check(one) for one in args])
    if origin is Literal:
        return lambda value: value in args
    if origin in _MAPS:
        return _map(origin, _all(args[0]), _all(args[1])) if len(args) == 2 else _is_a(origin)
    if origin is tuple:
        return _tuple(args)
    if origin in _MEMBERS:
        return _members(origin, _all(args[0]) if args else None)
    if is_typeddict(origin):
        return _is_a(dict)
    if hasattr(origin, "__value__"):
        return _alias(origin)
    if isinstance(origin, type) and issubclass(origin, Enum):
        return _is_a(origin)
    if has_fields(origin):
        return _type_check(origin)
    return None


def _exact(hint: Any) -> Exact:
    """Types of which every value fits: most need no more than a look at this, and each write of a state pays for it."""
    hint = _bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return frozenset().union(*(_exact(one) for one in get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return frozenset({hint})
    return frozenset(_SIMPLE.get(hint, ())) if isinstance(hint, type) else frozenset()


def _bare(hint: Any) -> Any:
    """Without what says nothing of the type."""
    while True:
        if get_origin(hint) in (Annotated, Final):
            hint = get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return hint


@lru_cache(1_024)
def made_up(kind: Any) -> frozenset[str]:
    """Fields of this dataclass or struct whose default is made by the program, and may be another each time."""
    fields: Any = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind)
    nobody = (dataclasses.MISSING, msgspec.NODEFAULT)
    return frozenset(one.name for one in fields if one.default_factory not in nobody and _varies(one.default_factory))


def _varies(factory: Any) -> bool:
    if has_fields(factory):
        return bool(made_up(factory))
    return not isinstance(factory, type) or factory.__module__ != "builtins"  # a list is empty every time


def has_fields(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct))


def _is_a(kind: Any) -> Fits:
    return lambda value: isinstance(value, kind)


def _type_check(kind: Any) -> Fits:
    # By name too: a program that was started as a script knows its own classes twice.
    name = kind.__qualname__
    return lambda value: (
        (isinstance(value, kind) or (type(value).__qualname__ == name and has_fields(type(value)))) and fits(value)
    )


def _any_of(checks: list[Fits | None]) -> Fits | None:
    known = [one for one in checks if one is not None]
    if len(known) < len(checks):
        return None
    return lambda value: any(one(value) for one in known)


def _alias(alias: Any) -> Fits:
    """`type Tree = dict[str, Tree]`: looked into when there is a value, which has an end."""
    return lambda value: (check := _check(alias.__value__)) is None or check(value)


def _all(hint: Any) -> Fits | None:
    """Whether each of several values fits the annotation."""
    check, exact = _check(hint), _exact(hint)
    if check is None:
        return None
    return lambda values: exact.issuperset(map(type, values)) or all(map(check, values))


def _members(kind: Any, are_fit: Fits | None) -> Fits:
    if are_fit is None:
        return _is_a(kind)
    return lambda value: isinstance(value, kind) and (not value or are_fit(value))


def _map(kind: Any, keys: Fits | None, values: Fits | None) -> Fits:
    return lambda value: (
        isinstance(value, kind)
        and (not value or ((keys is None or keys(value)) and (values is None or values(value.values()))))
    )


def _tuple(args: tuple[Any, ...]) -> Fits:
    if not args:
        return _is_a(tuple)
    if len(args) == 2 and args[1] is Ellipsis:
        return _members(tuple, _all(args[0]))
    checks = [_check(one) for one in args if one != ()]

    def is_fit(value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and len(value) == len(checks)
            and all(check is None or check(item) for check, item in zip(checks, value, strict=True))
        )

    return is_fit


def _blame(hint: Any, value: Any, path: str) -> Misfit:
    """The place in a value that does not fit, as deep as it can be said."""
    hint = _bare(hint)
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is Union or origin is types.UnionType:
        # Of several, the one that is meant: that which says something of what is inside such a value.
        deeper = [_blame(one, value, path) for one in args]
        meant = [one for one in deeper if one.path != path]
        return meant[0] if len(meant) == 1 else Misfit(path, _kind(value), _words(hint))
    if has_fields(type(value)) and has_fields(origin) and type(value).__qualname__ == origin.__qualname__:
        return misfit(value, path) or Misfit(path, _kind(value), _words(hint))
    parts: list[tuple[str, Any, Any]] = []
    if origin in _MAPS and isinstance(value, origin) and len(args) == 2:
        parts = [(f"key {key!r} of {path}", args[0], key) for key in value]
        parts += [(f"{path}[{key!r}]", args[1], item) for key, item in value.items()]
    elif origin is tuple and isinstance(value, tuple) and args and args[-1] is not Ellipsis:
        if len(args) == len(value):
            parts = [(f"{path}[{at}]", one, item) for at, (one, item) in enumerate(zip(args, value, strict=True))]
    elif (origin in _MEMBERS or origin is tuple) and isinstance(value, origin) and args:
        parts = [(f"{path}[{at}]", args[0], item) for at, item in enumerate(value)]
    for deeper_path, one, item in parts:
        check = _check(one)
        if check is not None and not check(item):
            return _blame(one, item, deeper_path)
    return Misfit(path, _kind(value), _words(hint))


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _words(hint: Any) -> str:
    """An annotation as somebody would write it."""
    if hint is None or hint is type(None):
        return "None"
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(_words(one) for one in get_args(hint))
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")
