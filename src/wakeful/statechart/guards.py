"""Layer 1, pure. When may a transition be taken?"""

from collections.abc import Mapping
from typing import Any

from wakeful.statechart.expressions import read
from wakeful.statechart.fields import Implementations, bad, list_items, mapping, only, text, unbound
from wakeful.statechart.state_tree import is_in, state_mask
from wakeful.statechart.structure import ChartState, ChartStep, Test

# The ones of XState, that in JSON form are mappings: the key that holds what they are about.
_COMBINED = {"and": "guards", "or": "guards", "not": "guard", "stateIn": "stateValue"}
# A guard's name may stand for a guard, that for another; a circle of them would never end.
_ALIASES_MAX = 16


class Guards:
    """Reads guards; `root` and `ids` are what `stateIn` asks about, `is_data` as in `expressions.read`."""

    def __init__(
        self,
        names: Implementations,
        root: ChartState,
        ids: Mapping[str, ChartState],
        *,
        is_sketch: bool,
        is_data: bool = False,
    ) -> None:
        self._names = names
        self._root = root
        self._ids = ids
        self._is_sketch = is_sketch
        self._is_data = is_data

    def of_data(self) -> "Guards":
        """The same for guards that functions ask for while the chart runs."""
        return Guards(self._names, self._root, self._ids, is_sketch=self._is_sketch, is_data=True)

    def read(self, value: Any, path: str, depth: int = 0) -> Test:
        """A guard as the chart writes it: a name, a name with params, or a combination."""
        if depth > _ALIASES_MAX:
            raise bad(path, "guards stand for each other in a circle", code="chart.guard")
        if isinstance(value, str):
            return self._read_named(text(value, path), None, path, depth)
        given = mapping(value, path)
        kind = text(given.get("type"), f"{path}.type")
        builtin = kind.removeprefix("xstate.")
        params = given.get("params")
        if kind.startswith("xstate.") and isinstance(params, Mapping):
            given = {"type": kind, **mapping(params, f"{path}.params")}
        if builtin in _COMBINED and (kind != builtin or _COMBINED[builtin] in given or "guards" in given):
            return self._read_combined(builtin, given, path, depth)
        if kind.startswith("xstate."):
            known = ", ".join(f"xstate.{name}" for name in _COMBINED)
            raise bad(f"{path}.type", f"there is no guard {kind!r}; there are {known}", code="chart.guard")
        only(given, ("type", "params"), path)
        return self._read_named(kind, params, path, depth)

    def _read_combined(self, kind: str, given: Mapping[str, Any], path: str, depth: int) -> Test:
        if kind == "stateIn":
            only(given, ("type", "stateValue"), path)
            value: Any = given.get("stateValue")
            root = self._root
            mask = state_mask(value, f"{path}.stateValue", root, self._ids)
            if isinstance(value, Mapping):
                return lambda turn: is_in(value, root, turn.configuration.shown)
            if value.startswith("#"):
                return lambda turn: turn.configuration.mask & mask == mask
            return lambda turn: turn.configuration.shown & mask == mask
        only(given, ("type", "guards", "guard"), path)
        key = "guard" if "guard" in given else "guards"
        tests = [self.read(one, where, depth) for one, where in list_items(given.get(key), f"{path}.{key}")]
        if kind == "not":
            if len(tests) != 1:
                raise bad(f"{path}.{key}", "'not' turns exactly one guard around", code="chart.guard")
            first = tests[0]
            return lambda turn: not first(turn)
        if kind == "and":
            return lambda turn: all(test(turn) for test in tests)
        return lambda turn: any(test(turn) for test in tests)

    def _read_named(self, name: str, params: Any, path: str, depth: int) -> Test:
        bound = self._names.guards.get(name)
        if bound is None:
            if self._is_sketch:
                return _missing_guard(path, name)
            raise unbound(path, "guard", name)
        if isinstance(bound, str | Mapping):
            return self.read(bound, path, depth + 1)
        given = read(params, f"{path}.params", self._names, is_sketch=self._is_sketch, is_data=self._is_data)
        asked = bound
        if params is None:
            return lambda turn: bool(asked(turn.context, turn.event, None))
        return lambda turn: bool(asked(turn.context, turn.event, given(turn)))


def _missing_guard(path: str, name: str) -> Test:
    def unread(turn: ChartStep) -> bool:
        raise unbound(path, "guard", name, is_sketch=True)

    return unread
