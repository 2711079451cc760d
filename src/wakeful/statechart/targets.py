"""Layer 1, pure. Which state does a target mean?

As in XState: `#id` and `#id.child` from anywhere, `.child` below the state itself, else a sibling or what is
below one; a backslash takes away the meaning of the dot after it.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from wakeful.statechart.fields import bad, text
from wakeful.statechart.nodes import ChartState


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
    for one, two in combinations(targets, 2):
        # A history stands for everything its parent kept.
        first, second = ((node.parent if node.type == "history" else node) for node in (one, two))
        assert first is not None
        assert second is not None
        common = next(node for node in (first, *first.ancestors) if node is second or second.bit & node.below)
        if common.type != "parallel" or common in (first, second):
            raise bad(path, f"'#{one.id}' and '#{two.id}' can't be entered together", code="chart.target")
