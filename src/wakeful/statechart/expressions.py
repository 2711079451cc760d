"""Layer 1, pure. What do the values in a chart become when they are needed?

A value is plain JSON and stands for itself. `{"$call": name, "params": …}` anywhere a value may stand asks the
function of that name, as a function in XState's config would be asked.
"""

from collections.abc import Mapping
from typing import Any

from wakeful.statechart.fields import Implementations, bad, mapping, plain, text, unbound
from wakeful.statechart.structure import ChartStep, Read
from wakeful.values.errors import BadTime
from wakeful.values.times import duration_ms


def is_call(value: Any) -> bool:
    """Whether a value is asked of a function."""
    return isinstance(value, Mapping) and "$call" in value and value.keys() <= {"$call", "params"}


def read(value: Any, path: str, names: Implementations, *, is_sketch: bool, is_data: bool = False) -> Read:
    """What a value is when it is needed; `is_data`: it comes from a function while the chart runs, not from the chart."""
    if is_call(value):
        name = text(value["$call"], f"{path}.$call")
        function = names.values.get(name)
        if function is None:
            if is_sketch:
                return _missing(f"{path}.$call", "value", name)
            raise unbound(f"{path}.$call", "value", name)
        params = read(value.get("params"), f"{path}.params", names, is_sketch=is_sketch, is_data=is_data)
        asked = function
        return lambda turn: asked(turn.context, turn.event, params(turn))
    plain(value, path)
    if not is_data:
        _refuse_inner(value, path)
    if isinstance(value, Mapping | list | tuple):
        return lambda turn: _own(value)
    return lambda turn: value


def _own(value: Any) -> Any:
    """A copy to keep: a function that changes what it is given must not change the chart, which all machines share."""
    if isinstance(value, Mapping):
        return {key: _own(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_own(one) for one in value]
    return tuple([_own(one) for one in value]) if isinstance(value, tuple) else value


def _refuse_inner(value: Any, path: str) -> None:
    """A call inside of a value would be taken as it stands: nobody means that."""
    if is_call(value):
        raise bad(f"{path}.$call", "a call stands for a whole value, not for a part of one", code="chart.call")
    inside = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    )
    for key, one in inside:
        _refuse_inner(one, f"{path}.{key}")


def read_event(value: Any, path: str, names: Implementations, *, is_sketch: bool, is_data: bool = False) -> Read:
    """An event when it is needed; it must be a mapping with a type."""
    if not is_call(value):
        given = mapping(value, path)
        event_type(given.get("type"), f"{path}.type")
        return read(value, path, names, is_sketch=is_sketch, is_data=is_data)
    asked = read(value, path, names, is_sketch=is_sketch, is_data=is_data)

    def event(turn: ChartStep) -> Any:
        made = mapping(asked(turn), path)
        event_type(made.get("type"), f"{path}.type")
        return made

    return event


def event_type(value: Any, path: str) -> str:
    """The type of an event that is sent or raised."""
    if text(value, path) == "*":
        raise bad(path, "'*' matches events and can't be the type of one", code="chart.event")
    return str(value)


def read_delay(value: Any, path: str, names: Implementations, *, is_sketch: bool, is_data: bool = False) -> Read:
    """Milliseconds: a number of them, a text like "24h", or a named delay."""
    if isinstance(value, str) and value in names.delays:
        named = names.delays[value]
        if callable(named):
            return lambda turn: length_ms(named(turn.context, turn.event, None), path)
        value = named
    if is_call(value):
        asked = read(value, path, names, is_sketch=is_sketch, is_data=is_data)
        return lambda turn: length_ms(asked(turn), path)
    if isinstance(value, str):
        try:
            delay_ms: float = duration_ms(value)
        except BadTime:
            if is_sketch:
                return _missing(path, "delay", value)
            error = bad(
                path, f"there is no delay named {value!r}, and it is no length like '24h' or '90s'", code="chart.delay"
            )
            vars(error)["missing"] = ("delay", value)
            raise error from None
        return lambda turn: delay_ms
    fixed_ms = length_ms(value, path)
    return lambda turn: fixed_ms


def length_ms(value: Any, path: str) -> float:
    """A length in milliseconds, or an error."""
    if isinstance(value, str):
        try:
            return duration_ms(value)
        except BadTime as error:
            raise bad(path, error.message, code="chart.delay") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise bad(path, f"{value!r} is no length in milliseconds", code="chart.delay")
    return value


def _missing(path: str, kind: str, name: str) -> Read:
    def missing(turn: ChartStep) -> Any:
        raise unbound(path, kind, name, is_sketch=True)

    return missing
