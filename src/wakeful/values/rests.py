"""Layer 0. What did a stored dataclass or struct have that its class here does not know, and who carries it along?

A newer program may have written fields that this one has never heard of. They stay beside the object that was decoded,
as they were on disk and never rebuilt, and go out again with it. Beside, because a struct and a slotted dataclass take
no attribute, and others would show it. An object that can be referred to weakly is followed for its whole life; of one
that can't, the shelf of whoever decoded it (a turn, a state) is its life.
"""

import weakref
from collections.abc import Callable
from typing import Any

Rest = dict[str, Any]


class Shelf:
    """Holds what can't be referred to weakly for as long as its rest is to be known."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[Any] = []

    def hold(self, value: Any) -> None:
        self._held.append(value)

    def __del__(self) -> None:
        for value in self._held:
            RESTS.pop(id(value), None)


# By identity: a way to the object, and its rest. Empty in a program that has met nothing it does not know, which is
# all that encoding asks then.
RESTS: dict[int, tuple[Callable[[], Any], Rest]] = {}


def keep_rest(value: Any, rest: Rest) -> None:
    """Carry this along with that very object."""
    key = id(value)
    try:
        RESTS[key] = weakref.ref(value, lambda _: RESTS.pop(key, None)), rest
    except TypeError:
        shelf = _find_shelf()
        if shelf is not None:
            shelf.hold(value)
            RESTS[key] = (lambda: value), rest


def rest_of(value: Any) -> Rest | None:
    """What is carried along with that very object."""
    found = RESTS.get(id(value))
    return found[1] if found is not None and found[0]() is value else None


def shelve_with(find: Callable[[], Shelf | None]) -> None:
    """Who decodes, if anybody is there to hold something."""
    global _find_shelf
    _find_shelf = find


def _nobody() -> Shelf | None:
    return None


_find_shelf: Callable[[], Shelf | None] = _nobody
