"""Layer 1, pure. What states has a chart, how do they hang together, and which of them does a target mean?

First pass of reading a config: the tree. The second, `transitions`, gives it its transitions and actions, which may
name any state of it.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from wakeful.statechart.fields import DEPTH_MAX, bad, keys, mapping, only, plain, text
from wakeful.statechart.structure import ChartState

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
            id=text(id, join_path(path, "id")),
            type=_type(given, path),
            path=path,
            index=len(self.nodes),
            parent=parent,
        )
        if node.id in self.ids:
            other = self.ids[node.id].path or "the chart itself"
            raise bad(join_path(path, "id"), f"{other} has the id {node.id!r} too", code="chart.id")
        self.ids[node.id] = node
        self.nodes.append(node)
        self.configs.append(given)
        self._branch(node, given, path)
        return node

    def _branch(self, node: ChartState, given: Mapping[str, Any], path: str) -> None:
        states = mapping(given.get("states", {}), join_path(path, "states"))
        if states and node.type in ("atomic", "final", "history"):
            raise bad(
                join_path(path, "states"), f"a state of type {node.type!r} has no states inside", code="chart.type"
            )
        if not states and node.type in ("compound", "parallel"):
            raise bad(path, f"a state of type {node.type!r} needs states inside", code="chart.type")
        for key in keys(states):
            text(key, join_path(path, "states"))
            node.by_key[key] = self._grow(states[key], key=key, path=join_path(path, f"states.{key}"), parent=node)
        node.children = tuple(child for child in node.by_key.values() if child.type != "history")
        node.histories = tuple(child for child in node.by_key.values() if child.type == "history")
        for child in node.by_key.values():
            node.below |= child.bit | child.below
        if node.type == "history":
            node.history = _history(given.get("history", "shallow"), join_path(path, "history"))
        elif given.get("history") not in (None, False):
            raise bad(join_path(path, "history"), f"a state of type {node.type!r} keeps no history", code="chart.type")
        if states and not node.children:
            raise bad(
                join_path(path, "states"),
                "there are only histories; at least one other state is needed",
                code="chart.type",
            )
        node.tags = _tags(given.get("tags"), join_path(path, "tags"))
        node.meta = plain(given.get("meta"), join_path(path, "meta"))
        self._begin(node, given, path)

    def _begin(self, node: ChartState, given: Mapping[str, Any], path: str) -> None:
        initial, where = given.get("initial"), join_path(path, "initial")
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


def join_path(path: str, more: str) -> str:
    """A path inside the chart, one step on."""
    return f"{path}.{more}" if path else more


def _type(given: Mapping[str, Any], path: str) -> str:
    type = given.get("type")
    if type is None:
        return "compound" if given.get("states") else "history" if given.get("history") else "atomic"
    if type not in _TYPES:
        raise bad(join_path(path, "type"), f"{type!r} is none of {', '.join(_TYPES)}", code="chart.type")
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


# Which state does a target mean?
#
# As in XState: `#id` and `#id.child` from anywhere, `.child` below the state itself, else a sibling or what is
# below one; a backslash takes away the meaning of the dot after it.


def split(target: str) -> list[str]:
    """The keys of a path of states."""
    parts, part, skip = [], "", False
    for place, sign in enumerate(target):
        if skip:
            skip = False
            part += sign
        elif sign == "\\" and place + 1 < len(target):
            skip = True
        elif sign == ".":
            parts.append(part)
            part = ""
        else:
            part += sign
    return [*parts, part]


def target_of(source: ChartState, target: Any, path: str, ids: Mapping[str, ChartState]) -> ChartState:
    """The state that a transition of `source` means by a target."""
    wanted = text(target, path)
    if wanted.startswith("#"):
        return by_id(wanted, path, ids)
    if wanted.startswith("."):
        return below(source, split(wanted[1:]), wanted, path)
    if source.parent is None:
        raise bad(path, f"there is no state {wanted!r} beside the root; did you mean '.{wanted}'?", code="chart.target")
    return below(source.parent, split(wanted), wanted, path)


def default_of(parent: ChartState, target: Any, path: str, ids: Mapping[str, ChartState]) -> ChartState:
    """The state that a history below `parent` leads to when it kept nothing."""
    wanted = text(target, path)
    found = by_id(wanted, path, ids) if wanted.startswith("#") else below(parent, split(wanted), wanted, path)
    if not found.bit & parent.below:
        raise bad(path, f"{wanted!r} is not below '#{parent.id}', whose past this history keeps", code="chart.target")
    return found


def by_id(wanted: str, path: str, ids: Mapping[str, ChartState]) -> ChartState:
    """The state of `#id` or `#id.child`."""
    first, *rest = split(wanted[1:])
    node = ids.get(first)
    if node is None:
        raise bad(path, f"there is no state {wanted!r}: no state has the id {first!r}", code="chart.target")
    return below(node, rest, wanted, path)


def below(node: ChartState, keys: list[str], wanted: str, path: str) -> ChartState:
    """The state at the end of a path of keys."""
    for key in keys:
        child = node.by_key.get(key)
        if child is None:
            has = ", ".join(node.by_key) or "none"
            raise bad(path, f"there is no state {wanted!r}; the states of '#{node.id}' are: {has}", code="chart.target")
        node = child
    return node


def state_mask(value: Any, path: str, root: ChartState, ids: Mapping[str, ChartState]) -> int:
    """The states that a state value names, all of which `stateIn` wants active."""
    if isinstance(value, str) and value.startswith("#"):
        return by_id(value, path, ids).bit
    if isinstance(value, str):
        return below(root, split(text(value, path)), value, path).bit
    if not isinstance(value, Mapping):
        raise bad(path, f"{value!r} is no state value", code="chart.type")
    mask = root.bit
    for key, inner in value.items():
        child = below(root, [key], key, f"{path}.{key}")
        mask |= child.bit | (state_mask(inner, f"{path}.{key}", child, ids) if inner != {} else 0)
    return mask


def is_in(value: Any, node: ChartState, active: int) -> bool:
    """Whether the active states under a state are as a state value says, by XState's rules.

    The value of a state whose active child is a leaf is that child's name, of any other a mapping: so `{}` stands for
    any mapping, and not for a name.
    """
    if isinstance(value, str):
        for key in split(value):
            node = node.by_key[key]
        return bool(active & node.bit)
    inside = {child.key: child for child in node.children if active & child.bit}
    if node.type == "compound" and all(child.is_leaf for child in inside.values()):
        return False
    return all(key in inside and is_in(wanted, inside[key], active) for key, wanted in value.items())


def refuse_contradiction(targets: tuple[ChartState, ...], path: str) -> None:
    """Refuse several targets that can't be active together: they must be in different regions of a parallel state."""
    for target, other in combinations(targets, 2):
        # A history stands for everything its parent kept.
        first, second = ((node.parent if node.type == "history" else node) for node in (target, other))
        assert first is not None
        assert second is not None
        common = next(node for node in (first, *first.ancestors) if node is second or second.bit & node.below)
        if common.type != "parallel" or common in (first, second):
            raise bad(path, f"'#{target.id}' and '#{other.id}' can't be entered together", code="chart.target")
