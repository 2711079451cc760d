"""Layer 1, pure. Which states are active together, and what follows from it?"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wakeful.statechart.nodes import Action, ChartState, Transition
from wakeful.values.errors import BadChart

if TYPE_CHECKING:
    from wakeful.statechart.plans import Microstep


class Configuration:
    """A legal set of active states; kept by its chart, so that what follows from it is worked out once."""

    __slots__ = ("active", "always", "chosen", "known", "leaves", "mask", "plans", "shown", "tags")

    def __init__(self, nodes: Sequence[ChartState], mask: int, leaves: tuple[ChartState, ...]) -> None:
        self.mask = mask
        self.shown = mask  # what the state value tells
        self.leaves = leaves  # in the order in which they became active
        self.active: dict[ChartState, ChartState] = {}  # of a compound state, its active child
        self.plans: dict[tuple[int, ...], Microstep] = {}
        self.chosen: dict[str, list[Transition]] = {}  # what an event enables, where no guard has a say
        self.known: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # the events it names, once somebody asked
        tags: dict[str, None] = {}
        for node in nodes:
            if not mask & node.bit:
                continue
            tags.update(dict.fromkeys(node.tags))
            inside = [child for child in node.children if mask & child.bit]
            wanted = 1 if node.type == "compound" else len(node.children)
            if len(inside) != wanted or (node.parent is not None and not mask & node.parent.bit):
                raise _impossible(node, inside)
            if node.type == "compound":
                self.active[node] = inside[0]
        self.tags = tuple(tags)
        ways = ([t for node in (leaf, *leaf.ancestors) for t in node.always] for leaf in leaves)
        self.always: tuple[tuple[Transition, ...], ...] = tuple(tuple(way) for way in ways if way)

    @classmethod
    def before(cls, root: ChartState) -> "Configuration":
        """The root alone: where a chart is before it has begun; its value already tells the initial states, as XState's."""
        made = cls((), root.bit, ())
        made.shown = _told_before(root)
        return made

    def value(self, root: ChartState) -> Any:
        """The state value: the key of the active state, or a mapping of keys where there is more to say."""
        if root.type == "compound":
            child = self.active[root]
            return child.key if child.is_leaf else {child.key: self.value(child)}
        return {child.key: self.value(child) for child in root.children}

    def exit_actions(self, nodes: Sequence[ChartState]) -> list[Action]:
        """The exit actions of everything active, innermost first: what a chart does when it is done."""
        return [action for node in reversed(nodes) if self.mask & node.bit for action in node.exit]


def mask_of(root: ChartState, value: Any) -> int:
    """The active states of a state value; where it is silent the initial ones, as XState fills them in."""
    mask = root.bit
    if root.is_leaf:
        if value not in ({}, None):
            raise _unfit(root, value)
        return mask
    if isinstance(value, str):
        given: Mapping[str, Any] = {value: None}
    elif isinstance(value, Mapping):
        given = value
    elif value is None:
        given = {}
    else:
        raise _unfit(root, value)
    for key in given:
        child = root.by_key.get(key)
        if child is None or child.type == "history":
            raise _unfit(root, key)
    if root.type == "compound":
        if len(given) > 1:
            raise _unfit(root, value)
        if not given:
            return mask | _initial(root)
        return mask | mask_of(root.by_key[next(iter(given))], next(iter(given.values())))
    for child in root.children:
        mask |= mask_of(child, given.get(child.key))
    return mask


def _initial(node: ChartState) -> int:
    child = node.initial
    assert child is not None
    while child.type == "history":
        child = child.default[0]
    mask = mask_of(child, None)
    for ancestor in child.ancestors:
        if ancestor is node:
            break
        mask |= ancestor.bit
    return mask


def _told_before(node: ChartState) -> int:
    """What the value tells of a state before it is entered: its initial states, and not where a history there leads."""
    mask = node.bit
    if node.type != "compound":
        for child in node.children:
            mask |= _told_before(child)
        return mask
    assert node.initial is not None
    for ancestor in node.initial.ancestors:
        if ancestor is node:
            break
        mask |= ancestor.bit
    return mask if node.initial.type == "history" else mask | _told_before(node.initial)


def _unfit(node: ChartState, value: Any) -> BadChart:
    has = ", ".join(node.by_key) or "none"
    return BadChart(
        f"{node.path or 'chart'}: the snapshot is in {value!r}, which is no state under '#{node.id}' (there are: {has})",
        code="chart.snapshot",
    )


def _impossible(node: ChartState, inside: list[ChartState]) -> BadChart:
    found = ", ".join(repr(child) for child in inside) or "none"
    return BadChart(
        f"{node.path or 'chart'}: of the states in '#{node.id}' these would be active: {found}; "
        "that is no configuration of this chart, so the targets of a transition contradict each other",
        code="chart.impossible",
    )
