"""Layer 4. Which method does a handler name, and what is it called with?"""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from wakeful.runtime.calls import Method
from wakeful.runtime.turn import Turn
from wakeful.values.errors import BadHandler, BadOption
from wakeful.values.ids import ObjectId
from wakeful.values.timers import HandlerAnswer, Run
from wakeful.values.times import Duration, duration_ms, from_datetime

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

_WRAPPED = re.compile(r"(?:\w+\.)*(?:Optional|Union)\[(.*)\]")


def handler_name(activation: "ObjectRuntime", handler: object, *, what: str = "handler") -> str:
    """The name under which a handler is stored: a method of the object's class, by name, bound or not."""
    cls = activation.known.cls
    name = method_name(cls, activation.id, handler, what=what)
    check_handler(cls, name, what=what)
    return name


def method_name(cls: type, id: ObjectId, handler: object, *, what: str = "handler") -> str:
    """The name of the method of the object that is meant; a name is taken as it is, anything foreign is refused."""
    if isinstance(handler, str):
        return handler
    if isinstance(handler, Method):
        is_own, name = handler.target == id, handler.name
    elif inspect.ismethod(handler):
        is_own, name = type(handler.__self__) is cls, handler.__name__
    elif inspect.isfunction(handler):
        name = handler.__name__
        if name == "<lambda>":
            raise BadHandler(
                f"{id}: a lambda can't be a {what}, because it can't be found again after a restart; "
                "give a method of the class",
                code="handler.lambda",
            )
        is_own = inspect.getattr_static(cls, name, None) is handler
    else:
        raise BadHandler(
            f"{id}: {handler!r} can't be a {what}; give a method of {cls.__name__} or its name", code="handler.type"
        )
    if not is_own:
        shown = f"{handler.target}.{name}" if isinstance(handler, Method) else handler.__qualname__
        owner = id if isinstance(handler, Method) else cls.__name__  # of a stub also the object must be the same
        raise BadHandler(
            f"{id}: {shown} is not a method of {owner}, so it can't be its {what}; write a method that calls it",
            code="handler.foreign",
        )
    return name


@lru_cache(maxsize=4_096)
def check_handler(cls: type, name: str, *, what: str = "handler") -> None:
    """`BadHandler` unless the class has such an `async def` method."""
    method = inspect.getattr_static(cls, name, None)
    if method is None:
        methods = sorted(n for n, m in inspect.getmembers_static(cls, inspect.iscoroutinefunction) if n[0] != "_")
        raise BadHandler(
            f"{cls.__name__} has no method {name!r} to be a {what}; it has {', '.join(methods) or 'none'}",
            code="handler.unknown",
        )
    if not inspect.iscoroutinefunction(method):
        raise BadHandler(f"{cls.__name__}.{name} must be `async def` to be a {what}", code="handler.type")


def check_arguments(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, what: str = "handler", is_method: bool = True
) -> None:
    """`BadHandler` unless the function can be called with these arguments and its run."""
    function = getattr(function, "__func__", function)
    call = _call_of(function, is_method)
    given = {name: value for name, value in kwargs.items() if call is None or name != call.keyword}
    _bind(function, given, *args, what=what, left_out="" if call is None else call.name, is_method=is_method)


@lru_cache(maxsize=4_096)
def check_missed(cls: type, name: str) -> None:
    """`BadHandler` unless the class has such an `async def` method, which takes a `Missed` and needs nothing else."""
    check_handler(cls, name, what="on_missed")
    _bind(inspect.getattr_static(cls, name), {}, None, what="on_missed", left_out="", is_method=True)


def _bind(function: Any, kwargs: Mapping[str, Any], /, *args: Any, what: str, left_out: str, is_method: bool) -> None:
    parameters = list(inspect.signature(function).parameters.values())[is_method:]
    signature = inspect.Signature([one for one in parameters if one.name != left_out])
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        count = len(args) + len(kwargs)
        given = "no arguments" if not count else "one argument" if count == 1 else f"{count} arguments"
        raise BadHandler(
            f"{function.__qualname__} can't be a {what} that is given {given}{' and its run' if left_out else ''}: "
            f"{error}; it takes {', '.join(map(str, signature.parameters.values())) or 'none'}",
            code="handler.arguments",
        ) from None


class _Call(NamedTuple):
    """How a function takes its run."""

    name: str
    keyword: str | None  # None: by place only
    place: int | None  # among the positional parameters; None: by keyword only
    defaults: tuple[Any, ...]  # of those before it, for one that can only be reached through them


@lru_cache(maxsize=4_096)
def _call_of(function: Any, is_method: bool) -> _Call | None:
    """Decided once per function, since it is asked for every run."""
    parameters = list(inspect.signature(function).parameters.values())[is_method:]
    able = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    annotated = [one for one in able if _is_run(one.annotation, function)]
    parameter = next(iter(annotated or [one for one in able if one.name == "run"]), None)
    if parameter is None:
        return None
    keyword = None if parameter.kind is parameter.POSITIONAL_ONLY else parameter.name
    if parameter.kind is parameter.KEYWORD_ONLY:
        return _Call(parameter.name, keyword, None, ())
    place = able.index(parameter)
    return _Call(parameter.name, keyword, place, tuple(one.default for one in able[:place]))


def _is_run(annotation: Any, function: Any) -> bool:
    """`Run`, or that or None, also as text: of a quoted annotation, or of all where annotations are postponed."""
    if not isinstance(annotation, str):
        return annotation is Run or set(get_args(annotation)) == {Run, type(None)}
    text = annotation.strip().strip("'\"")
    wrapped = _WRAPPED.fullmatch(text)
    names = {name.strip() for name in re.split(r"[|,]", wrapped[1] if wrapped else text)} - {"None"}
    [name] = names if len(names) == 1 else [""]
    if name == "Run":  # not another class that is called so
        return getattr(function, "__globals__", {}).get(name, Run) is Run
    return name == "wakeful.Run"


async def invoke(instance: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], turn: Turn) -> Any:
    """Call the handler of an occurrence."""
    check_handler(instance.__class__, name)  # it was there when the schedule was made, but the program may have changed
    method = getattr(instance, name)
    args, kwargs = with_run(getattr(method, "__func__", method), args, kwargs, turn.run)
    return await method(*args, **kwargs)


def with_run(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Any, *, is_method: bool = True
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the run at its place among them; one that the user gave himself is left."""
    call = _call_of(function, is_method)
    if call is None:
        return args, kwargs
    if not args and call.keyword is not None:
        return args, kwargs if call.keyword in kwargs else {**kwargs, call.keyword: run}
    if call.keyword in kwargs:
        run = kwargs[call.keyword]
        kwargs = {name: value for name, value in kwargs.items() if name != call.keyword}
    if call.place is None or (len(args) < call.place and call.keyword is not None):
        return args, {**kwargs, call.name: run}
    before = args + call.defaults[len(args) :]
    if inspect.Parameter.empty in before[len(args) :]:
        return args, kwargs  # one that is required is missing, as the call will say
    return (*before[: call.place], run, *before[call.place :]), kwargs


# What can a handler answer, and what is `on_missed` told?


@dataclass(frozen=True, slots=True)
class Next(HandlerAnswer):
    """Returned by a handler: the next occurrence is then, whatever the spec says; after it the spec goes on.

    It comes a second after the run at the soonest, also when it is asked for sooner or in the past.

    >>> from wakeful import App, DurableObject, Next, Run, every
    >>> app = App()
    >>> @app.object
    ... class Feed(DurableObject):
    ...     @every.hour
    ...     async def poll(self, run: Run) -> Next | None:
    ...         print(run.nominal_at.time())
    ...         return Next(after="5m") if run.nominal_at.hour == 12 and run.nominal_at.minute == 0 else None
    ...     async def begin(self) -> None: ...
    >>> async with app.world(start="2026-03-28T11:30Z") as world:
    ...     await world.get(Feed, "news").begin()
    ...     await world.advance(hours=2)
    12:00:00
    12:05:00
    13:00:00
    """

    at: datetime | None = None
    after: Duration | None = None

    def __post_init__(self) -> None:
        if (self.at is None) == (self.after is None):
            raise BadOption("Next takes either at=… or after=…", code="schedule.next")
        if self.at is not None:
            from_datetime(self.at)
        else:
            duration_ms(self.after or 0, what="Next(after=…)")

    def at_ms(self, now: int) -> int:
        return from_datetime(self.at) if self.at is not None else now + duration_ms(self.after or 0)


@dataclass(frozen=True, slots=True)
class Missed:
    """Occurrences that fell due while nobody could run them, and that won't run."""

    count: int
    first_at: datetime
    last_at: datetime
