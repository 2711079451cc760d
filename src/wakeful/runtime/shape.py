"""Layer 3. What is wrong with a class, before any object of it lives?

Each of these would otherwise be found by the first caller, far from the line that is to blame.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from wakeful.values.errors import BadHandler, BadInput

# What Wakeful calls, and with what besides self.
HOOKS = {
    "on_wake": (),
    "on_connect": ("socket", "request"),
    "on_message": ("socket", "message"),
    "on_close": ("socket", "code", "reason", "was_clean"),
}
OWN = "__wakeful_names__"  # of a base class of ours: what its objects have under these names
PLAIN = "__wakeful_plain__"  # and what they may give it that is not awaited
DECLARED = "__wakeful_schedules__"  # what `@every…` leaves on a method


def check_shape(cls: type, name: str) -> None:
    """`BadInput` or `BadHandler` for what could never work."""
    for hook, given in HOOKS.items():
        _check_hook(cls, name, hook, given)
    for attr, found in _methods(cls):
        if getattr(found, "__wakeful_reader__", False) and not inspect.iscoroutinefunction(found):
            raise BadInput(f"{name}.{attr} is a @reader and must be `async def`, and return", code="class.reader")
    _check_names(cls, name)
    _check_declared(cls, name)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for attr in dir(cls):
        found = inspect.getattr_static(cls, attr)
        if inspect.isfunction(found):
            yield attr, found


def _check_hook(cls: type, name: str, hook: str, given: tuple[str, ...]) -> None:
    found = inspect.getattr_static(cls, hook, None)
    if found is None:
        return
    if not inspect.iscoroutinefunction(found):
        raise BadInput(f"{name}.{hook} must be `async def`", code="class.hook")
    try:
        inspect.signature(found).bind(None, *given)
    except TypeError:
        raise BadInput(f"{name}.{hook} must take ({', '.join(('self', *given))})", code="class.hook") from None


def _check_names(cls: type, name: str) -> None:
    """A method may not hide what our base class has under its name; one that hands on to it hides nothing."""
    below: list[type] = []
    for base in cls.__mro__:
        for own in base.__dict__.get(OWN, ()):
            hiding = [one.__dict__[own] for one in below if inspect.isroutine(one.__dict__.get(own))]
            if not all(_hands_on(one, base) for one in hiding):
                raise BadInput(
                    f"{name}.{own} hides the {own!r} of {base.__name__}, which its objects need; call it something else",
                    code="class.name",
                )
        for plain in base.__dict__.get(PLAIN, ()):
            if inspect.iscoroutinefunction(inspect.getattr_static(cls, plain)):
                raise BadInput(f"{name}.{plain} must be `def`: its answer is not awaited", code="class.plain")
        below.append(base)


def _hands_on(method: Any, base: type) -> bool:
    """It calls what it hides, with super() or by the name of the class; whatever decorators are around it."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    names = () if code is None else (*code.co_freevars, *code.co_names)
    return inspect.iscoroutinefunction(method) and ("__class__" in names or base.__name__ in names)


def _check_declared(cls: type, name: str) -> None:
    for attr, found in _methods(cls):
        above = [base for base in cls.__mro__ if hasattr(base.__dict__.get(attr), DECLARED)]
        if above and not hasattr(found, DECLARED):
            raise BadHandler(
                f"{name}.{attr} replaces one that {above[0].__name__} declares with @every, and has no schedule itself; "
                f"put the decorator on it too, or write `{attr} = None` and call yours something else",
                code="handler.declared",
            )
