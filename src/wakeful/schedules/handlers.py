"""Layer 4. Which method does a handler name, and what is it called with?"""

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wakeful.runtime.calls import Method
from wakeful.runtime.turn import Turn
from wakeful.values.errors import BadHandler
from wakeful.values.runs import Run

if TYPE_CHECKING:
    from wakeful.runtime.activation import Activation


def handler_name(activation: "Activation", handler: object, *, what: str = "handler") -> str:
    """The name under which a handler is stored: a method of the object's class, by name, bound or not."""
    cls = activation.known.cls
    if isinstance(handler, str):
        name = handler
    elif isinstance(handler, Method):
        if handler.target != activation.id:
            raise _foreign(activation, handler, what)
        name = handler.name
    elif inspect.ismethod(handler):
        if type(handler.__self__) is not cls:
            raise _foreign(activation, handler, what)
        name = handler.__name__
    elif inspect.isfunction(handler):
        name = handler.__name__
        if name == "<lambda>":
            raise BadHandler(
                f"{activation.id}: a lambda can't be a {what}, because it can't be found again after a restart; "
                "give a method of the class",
                code="handler.lambda",
            )
        if inspect.getattr_static(cls, name, None) is not handler:
            raise _foreign(activation, handler, what)
    else:
        raise BadHandler(
            f"{activation.id}: {handler!r} can't be a {what}; give a method of {cls.__name__} or its name",
            code="handler.type",
        )
    check_handler(cls, name, what=what)
    return name


@lru_cache(maxsize=4_096)
def check_handler(cls: type, name: str, *, what: str = "handler") -> None:
    """`BadHandler` unless the class has such an `async def` method."""
    found = inspect.getattr_static(cls, name, None)
    if found is None:
        methods = sorted(n for n, m in inspect.getmembers_static(cls, inspect.iscoroutinefunction) if n[0] != "_")
        raise BadHandler(
            f"{cls.__name__} has no method {name!r} to be a {what}; it has {', '.join(methods) or 'none'}",
            code="handler.unknown",
        )
    if not inspect.iscoroutinefunction(found):
        raise BadHandler(f"{cls.__name__}.{name} must be `async def` to be a {what}", code="handler.type")


def _foreign(activation: "Activation", handler: object, what: str) -> BadHandler:
    return BadHandler(
        f"{activation.id}: {getattr(handler, '__qualname__', handler)} is not a method of {activation.known.cls.__name__}, "
        f"so it can't be its {what}; write a method that calls it",
        code="handler.foreign",
    )


@lru_cache(maxsize=4_096)
def run_parameter(function: Any) -> str | None:
    """The parameter that takes the run: the one called `run`, or annotated as `Run`."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "run" or parameter.annotation in (Run, "Run"):
            return parameter.name
    return None


async def invoke(instance: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], turn: Turn) -> Any:
    """Call the handler of an occurrence."""
    check_handler(instance.__class__, name)  # it was there when the schedule was made, but the program may have changed
    method = getattr(instance, name)
    parameter = run_parameter(getattr(method, "__func__", method))
    if parameter is not None and parameter not in kwargs:
        kwargs = {**kwargs, parameter: turn.run}
    return await method(*args, **kwargs)
