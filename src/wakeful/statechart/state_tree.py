"""Layer 1, pure. What states has a chart, and how do they hang together?

First pass of reading a config: the tree. The second, `wiring`, gives it its transitions and actions, which may
name any state of it.
"""

from collections.abc import Mapping
from typing import Any

from wakeful.statechart.fields import DEPTH_MAX, bad, keys, mapping, only, plain, text
from wakeful.statechart.nodes import ChartState

ROOT_ID = "(machine)"
# States that one chart may have: sets of them are integers of so many bits.
STATES_MAX = 2_000

_TYPES = ("atomic", "compound", "parallel", "final", "history")
_STATE = (
    *("id", "type", "initial", "states", "entry", "exit", "on", "always", "after", "invoke", "onDone", "history"),
    *("target", "output", "tags", "meta", "description", "key", "order", "route"),
)
_ROOT = (*_STATE, "context", "version", "types", "schemas", "options", "delimiter", "strict", "preserveActionOrder")


class Tree:
    """The states of a chart in document order, and the piece of config each comes from."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.nodes: list[ChartState] = []
        self.configs: list[Mapping[str, Any]] = []
        self.ids: dict[str, ChartState] = {}
        self._root_id = text(config.get("id", ROOT_ID), "id")
        self.root = self._grow(config, key=self._root_id, path="", parent=None)
        if self.root.type in ("history", "final"):
            raise bad("type", f"the chart itself can't be a {self.root.type} state", code="chart.type")

    def _grow(self, config: Any, *, key: str, path: str, parent: ChartState | None) -> ChartState:
        given = mapping(config, path)
        only(given, _ROOT if parent is None else _STATE, path)
        if parent is not None and len(parent.ancestors) >= DEPTH_MAX:
            raise bad(path, f"states are nested deeper than {DEPTH_MAX}", code="chart.depth")
        if len(self.nodes) >= STATES_MAX:
            raise bad(path, f"there are more than {STATES_MAX} states", code="chart.size")
        above = [] if parent is None else [node.key for node in reversed((parent, *parent.ancestors))]
        id = given.get("id") or ".".join([self._root_id, *above[1:], *([key] if parent is not None else [])])
        node = ChartState(
            key=key,
            id=text(id, dotted(path, "id")),
            type=_type(given, path),
            path=path,
            index=len(self.nodes),
            parent=parent,
        )
        if node.id in self.ids:
            other = self.ids[node.id].path or "the chart itself"
            raise bad(dotted(path, "id"), f"{other} has the id {node.id!r} too", code="chart.id")
        self.ids[node.id] = node
        self.nodes.append(node)
        self.configs.append(given)
        self._branch(node, given, path)
        return node

    def _branch(self, node: ChartState, given: Mapping[str, Any], path: str) -> None:
        states = mapping(given.get("states", {}), dotted(path, "states"))
        if states and node.type in ("atomic", "final", "history"):
            raise bad(dotted(path, "states"), f"a state of type {node.type!r} has no states inside", code="chart.type")
        if not states and node.type in ("compound", "parallel"):
            raise bad(path, f"a state of type {node.type!r} needs states inside", code="chart.type")
        for key in keys(states):
            text(key, dotted(path, "states"))
            node.by_key[key] = self._grow(states[key], key=key, path=dotted(path, f"states.{key}"), parent=node)
        node.children = tuple(child for child in node.by_key.values() if child.type != "history")
        node.histories = tuple(child for child in node.by_key.values() if child.type == "history")
        for child in node.by_key.values():
            node.below |= child.bit | child.below
        if node.type == "history":
            node.history = _history(given.get("history", "shallow"), dotted(path, "history"))
        elif given.get("history") not in (None, False):
            raise bad(dotted(path, "history"), f"a state of type {node.type!r} keeps no history", code="chart.type")
        if states and not node.children:
            raise bad(
                dotted(path, "states"),
                "there are only histories; at least one other state is needed",
                code="chart.type",
            )
        node.tags = _tags(given.get("tags"), dotted(path, "tags"))
        node.meta = plain(given.get("meta"), dotted(path, "meta"))
        self._begin(node, given, path)

    def _begin(self, node: ChartState, given: Mapping[str, Any], path: str) -> None:
        initial, where = given.get("initial"), dotted(path, "initial")
        if initial is None:
            if node.type == "compound":
                near = next(iter(node.by_key))
                raise bad(
                    where,
                    f"it is missing: which state of {list(node.by_key)} is first? Like {near!r}",
                    code="chart.initial",
                )
            return
        if node.type not in ("compound", "parallel"):
            raise bad(where, "there are no states inside that could be first", code="chart.initial")
        if isinstance(initial, Mapping):
            only(initial, ("target", "actions", "meta", "description"), where)
            initial, where = initial.get("target"), f"{where}.target"
        if isinstance(initial, list | tuple):
            raise bad(where, f"one state is first, not {len(initial)}", code="chart.initial")
        child = node.by_key.get(text(initial, where))
        if child is None:
            raise bad(
                where, f"there is no state {initial!r}; there are: {', '.join(node.by_key)}", code="chart.initial"
            )
        node.initial = child


def dotted(path: str, more: str) -> str:
    """A path inside the chart, one step on."""
    return f"{path}.{more}" if path else more


def _type(given: Mapping[str, Any], path: str) -> str:
    type = given.get("type")
    if type is None:
        return "compound" if given.get("states") else "history" if given.get("history") else "atomic"
    if type not in _TYPES:
        raise bad(dotted(path, "type"), f"{type!r} is none of {', '.join(_TYPES)}", code="chart.type")
    return str(type)


def _history(value: Any, path: str) -> str:
    if value is True:
        return "shallow"
    if value not in ("shallow", "deep"):
        raise bad(path, f"{value!r} is neither 'shallow' nor 'deep'", code="chart.type")
    return str(value)


def _tags(value: Any, path: str) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value or []
    if not isinstance(given, list | tuple):
        raise bad(path, f"{value!r} is neither a tag nor a list of tags", code="chart.type")
    return tuple(text(tag, f"{path}[{place}]") for place, tag in enumerate(given))
