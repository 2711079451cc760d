"""Layer 4. How does a method say what it is for in a chart?"""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__wakeful_chart__"


def guard(method: F) -> F:
    """`(self, context, event)` or `(…, params)` → whether a transition may be taken. Pure: it may run more than once.

    >>> from wakeful import App, Machine, guard
    >>> app = App()
    >>> @app.object
    ... class Safe(Machine):
    ...     chart = {"initial": "shut", "states": {"shut": {"on": {"TRY": {"target": "open", "guard": "right"}}}, "open": {}}}
    ...     @guard
    ...     def right(self, context: dict, event: dict) -> bool:
    ...         return event["code"] == 1234
    >>> async with app.world() as world:
    ...     await world.get(Safe, "a").send({"type": "TRY", "code": 1})
    ...     print((await world.get(Safe, "a").snapshot()).value)
    shut
    """
    return _mark(method, "guard")


def assign(method: F) -> F:
    """`(self, context, event)` or `(…, params)` → a dict that is laid over the context. Pure.

    >>> from wakeful import App, Machine, assign
    >>> app = App()
    >>> @app.object
    ... class Tally(Machine):
    ...     chart = {"initial": "on", "context": {"n": 0}, "states": {"on": {"on": {"ADD": {"actions": "count"}}}}}
    ...     @assign
    ...     def count(self, context: dict, event: dict) -> dict:
    ...         return {"n": context["n"] + event["by"]}
    >>> async with app.world() as world:
    ...     await world.get(Tally, "a").send({"type": "ADD", "by": 3})
    ...     print((await world.get(Tally, "a").snapshot()).context)
    {'n': 3}
    """
    return _mark(method, "assign")


def action(method: F) -> F:
    """`async (self, context, event)` or `(…, params)`: does something in the world, after the step is on disk.

    At least once, in the order of the chart; `self.ctx.run.id` is the same at every try.

    >>> from wakeful import App, Machine, action
    >>> app = App()
    >>> @app.object
    ... class Door(Machine):
    ...     chart = {"initial": "shut", "states": {"shut": {"on": {"OPEN": {"target": "open", "actions": "ring"}}}, "open": {}}}
    ...     @action
    ...     async def ring(self, context: dict, event: dict) -> None:
    ...         print("ding")
    >>> async with app.world() as world:
    ...     await world.get(Door, "front").send("OPEN")
    ...     await world.advance("1s")
    ding
    """
    return _mark(method, "action")


def _mark(method: F, kind: str) -> F:
    setattr(method, MARK, kind)
    method.__wakeful_internal__ = True  # type: ignore[attr-defined]
    return method
