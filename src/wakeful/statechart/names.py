"""Layer 1, pure. What do the names in a chart stand for?"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from wakeful.values.errors import BadOption

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
