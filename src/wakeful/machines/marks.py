"""Layer 4. How does a method say what it is for in a chart?"""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__wakeful_chart__"


def guard(method: F) -> F:
    """`(self, context, event)` or `(…, params)` → whether a transition may be taken. Pure: it may run more than once."""
    return _marked(method, "guard")


def assign(method: F) -> F:
    """`(self, context, event)` or `(…, params)` → a dict that is laid over the context. Pure."""
    return _marked(method, "assign")


def action(method: F) -> F:
    """`async (self, context, event)` or `(…, params)`: does something in the world, after the step is on disk.

    At least once, in the order of the chart; `self.ctx.run.id` is the same at every try.
    """
    return _marked(method, "action")


def _marked(method: F, kind: str) -> F:
    setattr(method, MARK, kind)
    method.__wakeful_internal__ = True  # type: ignore[attr-defined]
    return method
