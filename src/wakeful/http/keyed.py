"""Layer 5. Does an annotation make sets or dicts of what a stranger sent, and would one of them be quadratic?

Looked at in the value as it came, before it becomes one: every long list in it as the members of each set that the
annotation has anywhere, and the names of every long object as the keys of each dict. See `values/packed.py`.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from wakeful.values.packed import ALIKE_MAX, check_alike

_SAFE = (str, bytes)  # their hashes are another in each process


def keys_in(hint: Any) -> tuple[Any, ...]:
    """What the sets and dicts of an annotation are made of, as deep as it says; without texts."""
    found: list[Any] = []
    seen: set[int] = set()
    todo = [hint]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        args, origin = get_args(one), get_origin(one) or one
        todo += args
        if isinstance(origin, type):
            if issubclass(origin, set | frozenset | dict) or origin.__module__ == "collections.abc":
                found += [key for key in args[:1] if key not in _SAFE] if args else [Any]
            elif not args and origin.__module__ != "builtins":
                with suppress(Exception):  # names that are there for checkers only
                    todo += get_type_hints(origin).values()
    return tuple(found)


def check_keys(value: Any, keys: tuple[Any, ...]) -> None:
    """`BadValue` when a long list or object in it would be slow as a set or a dict."""
    for members in _long(value):
        for key in keys:
            try:
                made = (
                    list(members)
                    if key is Any
                    else msgspec.convert(list(members), list.__class_getitem__(key), strict=False)
                )
                hash(tuple(made))
            except Exception:  # it is none of those, then; what it is instead is said when it is converted
                continue
            check_alike(made, "a set or dict of it")


def _long(value: Any) -> Iterator[Any]:
    """Every list, set and object in a value with more members than may be alike."""
    level = [value]
    while level:
        deeper: list[Any] = []
        for one in level:
            if len(one) > ALIKE_MAX:
                yield one
            inner = one.values() if type(one) is dict else one
            deeper += [item for item in inner if type(item) in _DEEP]
        level = deeper


_DEEP = frozenset({dict, list, tuple, set, frozenset})
