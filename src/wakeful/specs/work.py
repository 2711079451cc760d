"""Layer 1, pure. How much may one look at a spec cost, however many searches are within each other?

A search within a search within a search is the product of them. So they all take from one number, that of the outermost
one: `spend` ends it with `Spent`, and it answers that there is none.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class Spent(Exception):
    """The work that one look may take is done, and nothing was found."""


class _Left(threading.local):
    """What is left of it in this thread; None while nothing is searched."""

    steps: int | None = None


_left = _Left()


def within_steps(steps: int, search: Callable[[int], _T | None], at: int) -> _T | None:
    """What the search finds, or None after so many steps; one within another takes from the outer one's."""
    if _left.steps is not None:
        return search(at)
    _left.steps = steps
    try:
        return search(at)
    except Spent:
        return None
    finally:
        _left.steps = None


def steps_taken(steps: int, act: Callable[[], object]) -> int:
    """Act for at most so many steps, of its own also within a search: for what is found once and kept, whoever asks first."""
    outer, _left.steps = _left.steps, steps
    try:
        act()
        return steps - _left.steps
    except Spent:
        return steps
    finally:
        _left.steps = outer


def spend(steps: int) -> None:
    """Take that much; `Spent` when nothing is left. Free outside of searches, which have bounds of their own then."""
    if _left.steps is not None:
        _left.steps -= steps
        if _left.steps < 0:
            raise Spent
