"""Layer 4. How does a method say what it is for in a chart, and by which name the chart knows it?

Each mark stands alone (`@guard`), or is given the name that the chart has (`@guard("is it paid?")`): for names that
are none of Python's, and for those that every machine has already.
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from wakeful.values.errors import BadChart

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__wakeful_chart__"  # of a method: what it is
NAME = "__wakeful_chart_name__"  # and what the chart calls it, when that is not its own name


@overload
def guard(method: F) -> F: ...


@overload
def guard(method: str) -> Callable[[F], F]: ...


def guard(method: Any) -> Any:
    """`(self, context, event)` or `(…, params)` → whether a transition may be taken. Pure: it may run more than once.

    `@guard("is it paid?")` is for a name that can't be a method's.

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


@overload
def assign(method: F) -> F: ...


@overload
def assign(method: str) -> Callable[[F], F]: ...


def assign(method: Any) -> Any:
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


@overload
def action(method: F) -> F: ...


@overload
def action(method: str) -> Callable[[F], F]: ...


def action(method: Any) -> Any:
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


@overload
def actor(method: F) -> F: ...


@overload
def actor(method: str) -> Callable[[F], F]: ...


def actor(method: Any) -> Any:
    """`async (self, context, event)` or `(…, input)`: runs while the state that invokes it is active, and answers once.

    An `async def` method that the chart invokes is one without the mark; the mark is for its name.

    >>> from wakeful import App, Machine
    >>> from wakeful.machine import actor
    >>> app = App()
    >>> @app.object
    ... class Parcel(Machine):
    ...     chart = {
    ...         "initial": "packed",
    ...         "states": {"packed": {"invoke": {"src": "call the carrier", "onDone": "gone"}}, "gone": {}},
    ...     }
    ...     @actor("call the carrier")
    ...     async def call_carrier(self, context: dict, event: dict) -> str:
    ...         return "on its way"
    >>> async with app.world() as world:
    ...     await world.get(Parcel, "a").start()
    ...     await world.advance("1s")
    ...     print((await world.get(Parcel, "a").snapshot()).value)
    gone
    """
    return _mark(method, "actor")


@overload
def callback(method: F) -> F: ...


@overload
def callback(method: str) -> Callable[[F], F]: ...


def callback(method: Any) -> Any:
    """`async (self, input, send_back, receive)`: lives beside its state, and may say and hear many things meanwhile.

    `await send_back("TICK", n=1)` gives the machine an event; `async for event in receive` has what the chart sends to it
    (`sendTo`, `forwardTo`). It is stopped when its state is left. If its process dies it begins anew, from its first line.

    >>> import asyncio
    >>> from wakeful import App, Machine, assign
    >>> from wakeful.machine import callback
    >>> app = App()
    >>> @app.object
    ... class Watch(Machine):
    ...     chart = {
    ...         "initial": "runs",
    ...         "context": {"ticks": 0},
    ...         "states": {"runs": {"invoke": {"src": "clock"}, "on": {"TICK": {"actions": "count"}, "STOP": "stands"}}, "stands": {}},
    ...     }
    ...     @assign
    ...     def count(self, context: dict, event: dict) -> dict:
    ...         return {"ticks": context["ticks"] + 1}
    ...     @callback
    ...     async def clock(self, input, send_back, receive) -> None:
    ...         while True:
    ...             await asyncio.sleep(60)
    ...             await send_back("TICK")
    >>> async with app.world() as world:
    ...     await world.get(Watch, "a").start()
    ...     await world.advance("150s")
    ...     await world.get(Watch, "a").send("STOP")
    ...     await world.advance("1h")
    ...     print((await world.get(Watch, "a").snapshot()).context)
    {'ticks': 2}
    """
    return _mark(method, "callback")


def value(name: str) -> Callable[[F], F]:
    """What the chart calls a plain method: a delay's length, a value (`{"$call": …}`), or actions to enqueue.

    >>> from wakeful import App, Machine
    >>> from wakeful.machine import value
    >>> app = App()
    >>> @app.object
    ... class Lamp(Machine):
    ...     chart = {"initial": "on", "states": {"on": {"after": {"a while": "off"}}, "off": {}}}
    ...     @value("a while")
    ...     def length(self, context: dict, event: dict) -> str:
    ...         return "10m"
    >>> async with app.world() as world:
    ...     await world.get(Lamp, "a").start()
    ...     await world.advance("11m")
    ...     print((await world.get(Lamp, "a").snapshot()).value)
    off
    """
    made: Callable[[F], F] = _mark(name, None)
    return made


def _mark(given: Any, kind: str | None) -> Any:
    if isinstance(given, str):
        if not given:
            raise BadChart("the name in a chart that a method stands for is empty", code="chart.name")
        return lambda method: _put(method, kind, given)
    if not callable(given):
        raise BadChart(
            f"@{kind or 'value'} goes on a method, or gets its name in the chart, not {given!r}", code="chart.name"
        )
    return _put(given, kind, None)


def _put(method: F, kind: str | None, name: str | None) -> F:
    if kind is not None:
        setattr(method, MARK, kind)
    if name is not None:
        setattr(method, NAME, name)
    method.__wakeful_internal__ = True  # type: ignore[attr-defined]
    return method
