"""Layer 1, pure. What is a chart, once it has been read, and would it run in a circle?"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.statechart.configuration import Configuration
from wakeful.statechart.fields import Implementations, bad, mapping
from wakeful.statechart.moves import EnteredStates
from wakeful.statechart.nodes import ChartState, Transition, candidates
from wakeful.statechart.plans import Microstep, entering
from wakeful.statechart.state_tree import Tree
from wakeful.statechart.transitions import Wiring

# Microsteps until a chart must be stable: far more than a chart needs, far less than a person waits for.
MICROSTEPS_MAX = 1_000
# Configurations kept with what follows from them; of a chart with many regions there are more than can be kept.
KEPT_MAX = 4_096


class Chart:
    """A chart that was checked and made ready to step; make it once, use it often."""

    def __init__(self, config: Mapping[str, Any], names: Implementations, *, is_sketch: bool = False) -> None:
        given = mapping(config, "")
        tree = Tree(given)
        wiring = Wiring(tree, names, is_sketch=is_sketch)
        self.config = given
        self.id = tree.root.id
        self.root = tree.root
        self.nodes: tuple[ChartState, ...] = tuple(tree.nodes)
        self.ids: Mapping[str, ChartState] = tree.ids
        self.transitions: tuple[Transition, ...] = tuple(wiring.transitions)
        self.has_always = any(node.always for node in self.nodes)
        self.context = wiring.actions.value(given.get("context", {}), "context")
        if not isinstance(given.get("context", {}), Mapping):
            raise bad("context", f"{given['context']!r} is not a mapping", code="chart.type")
        self.microsteps_max = _microsteps_max(given.get("options"))
        self._configurations: dict[tuple[int, tuple[ChartState, ...]], Configuration] = {}
        refuse_circles(self.nodes)
        self.first = self._first()
        self.by_value: dict[str, Configuration] = {}  # by the text of the state value
        self._unguarded: dict[str, bool] = {}

    @classmethod
    def of(
        cls,
        config: "Mapping[str, Any] | Chart",
        *,
        implementations: Implementations | Mapping[str, Any] | None = None,
        is_sketch: bool = False,
    ) -> "Chart":
        """A chart from its config; a sketch need not have its names bound, and is for looking at, not for stepping."""
        if isinstance(config, Chart):
            return config
        return cls(config, Implementations.of(implementations), is_sketch=is_sketch)

    def configuration(self, mask: int, leaves: tuple[ChartState, ...] | None = None) -> Configuration:
        """The configuration of these states; `leaves` in the order in which they became active, which `always` heeds."""
        if leaves is None or not self.has_always:
            leaves = tuple([node for node in self.nodes if node.is_leaf and mask & node.bit])
        key = (mask, leaves)
        found = self._configurations.get(key)
        if found is None:
            found = Configuration(self.nodes, mask, leaves)
            if len(self._configurations) >= KEPT_MAX:
                self._forget()
            self._configurations[key] = found
        return found

    def _forget(self) -> None:
        """Let go of what was worked out; plans lead from one configuration to the next, so they go first."""
        for one in self._configurations.values():
            one.plans.clear()
        self._configurations.clear()
        self.by_value.clear()

    def is_unguarded(self, type: str) -> bool:
        """Whether the chart names this event, and nothing but the active states decides what it does."""
        found = self._unguarded.get(type)
        if found is None:
            if not any(type in node.exact for node in self.nodes):
                return False  # any text may be an event; only those of the chart are worth keeping
            ways = (way for node in self.nodes for way in candidates(node, type))
            found = self._unguarded[type] = all(way.guard is None for way in ways)
        return found

    def _first(self) -> Microstep:
        """The microstep with which a chart begins."""
        start = Transition(index=-1, source=self.root, event="xstate.init", path="")
        start.targets = tuple(_initials(self.root))
        start.reenter = True
        entry = EnteredStates({})
        entry.add(start, None)
        return Microstep(
            leaves=(),
            actions=(),
            enters=entering(self.nodes, 0, entry.mask, entry.defaults | self.root.bit),
            kept={},
            next=self.configuration(entry.mask),
        )


def _initials(node: ChartState) -> list[ChartState]:
    if node.type == "compound":
        assert node.initial is not None
        return [node, *_initials(node.initial)]
    return [node, *(below for child in node.children for below in _initials(child))]


def _microsteps_max(options: Any) -> int:
    given = mapping(options if options is not None else {}, "options")
    limit = given.get("maxIterations", MICROSTEPS_MAX)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1_000_000:
        raise bad("options.maxIterations", f"{limit!r} is not a number from 1 to 1000000", code="chart.type")
    return limit


# Would a chart run in a circle without anything happening?


def refuse_circles(nodes: Sequence[ChartState]) -> None:
    """Refuse transitions without event and guard that lead back to where they began; the others have a limit at run time."""
    for node in nodes:
        if node.always and node.always[0].guard is None:
            _follow(node.always[0])


def _follow(first: Transition) -> None:
    seen: list[ChartState] = []
    way: Transition | None = first
    while way is not None:
        leaf = _leaf(way)
        if leaf is None:
            return
        if leaf in seen:
            if leaf is seen[-1]:
                return  # nothing changes, and XState rests too
            round_ = " → ".join(f"#{node.id}" for node in [*seen[seen.index(leaf) :], leaf])
            raise bad(first.path, f"it never comes to rest: {round_}; give one of them a guard", code="chart.always")
        seen.append(leaf)
        way = next((node.always[0] for node in (leaf, *leaf.ancestors) if node.always), None)
        if way is not None and way.guard is not None:
            return


def _leaf(way: Transition) -> ChartState | None:
    """The one state a transition ends in, if it is plain."""
    if len(way.targets) != 1:
        return None
    node = way.targets[0]
    while node.type == "compound":
        assert node.initial is not None
        node = node.initial
    is_alone = all(ancestor.type == "compound" for ancestor in node.ancestors)
    return node if node.type == "atomic" and is_alone else None
