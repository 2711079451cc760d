"""Layer 1, pure. Is what a chart says of the right kind, what do its names stand for, and where is it if not?"""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from wakeful.values.errors import BadChart, BadOption

# Deeper than any chart a person can read; a config nested without end is refused before it exhausts the stack.
DEPTH_MAX = 64
# What editors and JSON schemas write into a file, and no chart means anything by.
NOTES = ("$schema", "$id", "$comment")


def bad(path: str, what: str, *, code: str = "chart") -> BadChart:
    """The error for a place in a chart; its message begins with the path."""
    return BadChart(f"{path or 'chart'}: {what}", code=code)


def unbound(path: str, kind: str, name: str, *, is_sketch: bool = False) -> BadChart:
    """The error for a name that nothing stands for; who knows the program may say more of it (`missing`)."""
    error = bad(
        path, f"there is no {kind} named {name!r}{'; this chart was only read' * is_sketch}", code="chart.unbound"
    )
    vars(error)["missing"] = (kind, name)
    return error


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    """A mapping with text keys, or an error."""
    if not isinstance(value, Mapping):
        raise bad(path, f"{_short(value)} is not a mapping", code="chart.type")
    for key in value:
        if not isinstance(key, str):
            raise bad(path, f"the key {_short(key)} is not text", code="chart.type")
    return value


def text(value: Any, path: str) -> str:
    """A text that is not empty, or an error."""
    if not isinstance(value, str) or not value:
        raise bad(path, f"{_short(value)} is not text" if value != "" else "it is empty", code="chart.type")
    return value


def flag(value: Any, path: str) -> bool:
    """True or False, or an error."""
    if not isinstance(value, bool):
        raise bad(path, f"{_short(value)} is neither true nor false", code="chart.type")
    return value


def list_items(value: Any, path: str) -> list[tuple[Any, str]]:
    """One thing or a list of them, each with its path; nothing for None."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [(one, f"{path}[{place}]") for place, one in enumerate(value)]
    return [(value, path)]


def only(value: Mapping[str, Any], allowed: Collection[str], path: str) -> None:
    """Refuse keys that mean nothing here: a typing error would be a chart that silently does less."""
    for key in value:
        if key not in allowed and key not in NOTES and not key.startswith(("_", "x-")):
            near = get_close_matches(key, allowed, n=1)
            hint = _ELSEWHERE.get(key) or (f"did you mean {near[0]!r}?" if near else "")
            said = hint or f"there are {', '.join(sorted(allowed))}"
            raise bad(f"{path}.{key}" if path else key, f"there is no such key here; {said}", code="chart.key")


# Keys of XState 4, and of what JSON.stringify makes of a machine.
_ELSEWHERE = {
    "cond": "XState 5 calls it 'guard'",
    "in": "XState 5 has the guard 'xstate.stateIn' for that",
    "internal": "XState 5 has 'reenter' for that: true is what 'internal: false' was",
    "activities": "XState 5 has 'invoke' for that",
    "data": "XState 5 calls it 'output', or 'input' where it is given to an actor",
    "autoForward": "XState 5 has no such thing; give the events with 'sendTo'",
    "predictableActionArguments": "in XState 5 that is always so: leave it out",
    "schema": "XState 5 calls it 'types': leave it out",
    "tsTypes": "leave it out",
    "transitions": "this is what XState makes of a machine, without its functions; "
    "`wakeful chart --exporter` prints a script that exports it with them",
}


def plain(value: Any, path: str, depth: int = 0) -> Any:
    """Plain JSON, or an error that says which part is not."""
    if depth > DEPTH_MAX:
        raise bad(path, f"it is nested deeper than {DEPTH_MAX}", code="chart.depth")
    if isinstance(value, Mapping):
        mapping(value, path)
        for key, one in value.items():
            plain(one, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            plain(one, f"{path}[{place}]", depth + 1)
    elif value is not None and not isinstance(value, str | int | float | bool):
        raise bad(path, f"{_short(value)} is not plain JSON; refer to functions by name", code="chart.type")
    return value


def keys(value: Mapping[str, Any]) -> list[str]:
    """The keys in the order in which JavaScript lists them: whole numbers first, by size; XState's order is that."""
    numbers = [key for key in value if key.isdecimal() and key.isascii() and (key == "0" or key[0] != "0")]
    if not numbers:
        return list(value)
    numbers = [key for key in numbers if int(key) < 2**32 - 1]
    first = set(numbers)
    return sorted(numbers, key=int) + [key for key in value if key not in first]


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 60 else said[:57] + "…"


# What do the names in a chart stand for?

Context = dict[str, Any]
Event = dict[str, Any]

# Each is called with (context, event, params); params is None when the chart gives none.
Guard = Callable[[Context, Event, Any], object]
Assign = Callable[[Context, Event, Any], Mapping[str, Any]]
Value = Callable[[Context, Event, Any], Any]
# Called with (context, event, params, check): says which actions to do; `check` evaluates a guard of the chart.
Enqueue = Callable[[Context, Event, Any, Callable[[Any], bool]], list[Any]]

_KINDS = ("guards", "assigns", "actions", "enqueues", "delays", "actors", "values")


class Implementations(Struct, frozen=True, kw_only=True):
    """What the names in a chart stand for: plain synchronous functions without effects.

    `actions` and `actors` are only checked for their names, because carrying them out is the caller's business; None
    means that any name will do. An action's name may also stand for actions in JSON form, a guard's for a guard.
    """

    guards: Mapping[str, Guard | dict[str, Any]] = {}
    assigns: Mapping[str, Assign] = {}
    actions: Mapping[str, Any] | Collection[str] | None = None
    enqueues: Mapping[str, Enqueue] = {}
    delays: Mapping[str, Value | int | float | str] = {}
    actors: Collection[str] | None = None
    values: Mapping[str, Value] = {}  # what `{"$call": name}` gives

    @classmethod
    def of(cls, given: "Implementations | Mapping[str, Any] | None") -> "Implementations":
        """The same, from a mapping with keys like `guards` and `assigns`."""
        if given is None:
            return cls()
        if isinstance(given, Implementations):
            return given
        unknown = [key for key in given if key not in _KINDS]
        if unknown:
            raise BadOption(f"implementations: there is no {unknown[0]!r}; there are {', '.join(_KINDS)}")
        return cls(**given)
