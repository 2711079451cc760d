"""Layer 1, pure. What is a chart once it has been read, would it run in a circle, and what follows from the states it is in?"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.statechart.fields import Implementations, bad, mapping
from wakeful.statechart.moves import EnteredStates, Kept, domain_of, exits_of, without_conflicts
from wakeful.statechart.state_tree import Tree
from wakeful.statechart.structure import Arrival, ChartState, Configuration, Entering, Microstep, Transition, candidates
from wakeful.statechart.transitions import Wiring
from wakeful.values.errors import BadChart

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
        configuration = self._configurations.get(key)
        if configuration is None:
            configuration = Configuration(self.nodes, mask, leaves)
            if len(self._configurations) >= KEPT_MAX:
                self._forget()
            self._configurations[key] = configuration
        return configuration

    def _forget(self) -> None:
        """Let go of what was worked out; plans lead from one configuration to the next, so they go first."""
        for one in self._configurations.values():
            one.plans.clear()
        self._configurations.clear()
        self.by_value.clear()

    def is_unguarded(self, type: str) -> bool:
        """Whether the chart names this event, and nothing but the active states decides what it does."""
        is_free = self._unguarded.get(type)
        if is_free is None:
            if not any(type in node.exact for node in self.nodes):
                return False  # any text may be an event; only those of the chart are worth keeping
            ways = (way for node in self.nodes for way in candidates(node, type))
            is_free = self._unguarded[type] = all(way.guard is None for way in ways)
        return is_free

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
            enters=entries_of(self.nodes, 0, entry.mask, entry.defaults | self.root.bit),
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


# What happens in one microstep, in which order?


def plan(chart: Chart, now: Configuration, enabled: Sequence[Transition], kept: Kept) -> Microstep:
    """The microstep that these transitions make, kept for the next time unless it hangs on a history."""
    key = tuple([transition.index for transition in enabled])
    found = now.plans.get(key)
    return found if found is not None else _work_out(chart, now, key, enabled, kept)


def _work_out(
    chart: Chart, now: Configuration, key: tuple[int, ...], enabled: Sequence[Transition], kept: Kept
) -> Microstep:
    taken = without_conflicts(enabled, now.mask, kept) if len(enabled) > 1 else enabled
    try:
        made, is_lasting = _combine(chart, now, taken, kept)
    except BadChart:
        if len(taken) < 2:
            raise
        made, is_lasting = _combine(chart, now, _choose_compatible(chart, now, taken, kept), kept)
    if is_lasting and not any(one.has_history for one in enabled):
        now.plans[key] = made
    return made


def _choose_compatible(chart: Chart, now: Configuration, taken: Sequence[Transition], kept: Kept) -> list[Transition]:
    """Those that together lead to a configuration, the earlier ones first.

    One that goes back to its own source by way of a history leaves nothing, so it is in nobody's way until
    another leaves that source: XState then takes both and ends in states that can't be active together.
    """
    chosen: list[Transition] = []
    for transition in taken:
        try:
            _combine(chart, now, [*chosen, transition], kept)
        except BadChart:
            continue
        chosen.append(transition)
    return chosen


def _combine(chart: Chart, now: Configuration, taken: Sequence[Transition], kept: Kept) -> tuple[Microstep, bool]:
    """The microstep of transitions, and whether it is the same whatever the histories keep."""
    # With what was kept before leaving: a history that is rewritten by leaving would shift the domain
    # between leaving and entering, and a state would be left that is never entered (as happens in XState).
    domains = [domain_of(transition, kept) if transition.has_history else transition.domain for transition in taken]
    left = 0
    for transition in taken:
        left |= exits_of(transition, now.mask, kept)
    remembered = _remember(chart.nodes, now.mask, left)
    entry = EnteredStates({**kept, **remembered})
    for transition, domain in zip(taken, domains, strict=True):
        entry.add(transition, domain)
    remaining = now.mask & ~left
    mask = remaining | entry.mask
    # Without a change of states XState keeps the old order of the active ones.
    is_same = mask == now.mask and not remembered
    made = Microstep(
        leaves=tuple(action for node in reversed(chart.nodes) if left & node.bit for action in node.leave),
        actions=tuple(action for transition in taken for action in transition.actions),
        enters=entries_of(chart.nodes, remaining, entry.mask, entry.defaults),
        kept=remembered,
        next=now if is_same else chart.configuration(mask, _order(chart, now, remaining, mask)),
    )
    return made, not entry.has_history


def entries_of(nodes: Sequence[ChartState], remaining: int, mask: int, defaults: int) -> tuple[Entering, ...]:
    """The states of a mask in document order, each with its actions and what it completes."""
    enters = []
    done: set[ChartState] = set()
    for node in nodes:
        if not mask & node.bit:
            continue
        remaining |= node.bit
        actions = node.starts + node.initial_actions if defaults & node.bit else node.starts
        arrival = _arrival(node, remaining, done) if node.type == "final" else None
        enters.append(Entering(node, actions, arrival))
    return tuple(enters)


def _arrival(final: ChartState, active: int, done: set[ChartState]) -> Arrival:
    parent = final.parent
    assert parent is not None
    marker: ChartState | None = parent if parent.type == "parallel" else parent.parent
    completion = marker or final
    finished = [parent] if parent.type == "compound" else []
    while marker is not None and marker.type == "parallel" and marker not in done and _is_final(marker, active):
        done.add(marker)
        finished.append(marker)
        completion = marker
        marker = marker.parent
    return Arrival(tuple(finished), None if marker is not None else completion)


def _is_final(node: ChartState, active: int) -> bool:
    if node.type == "compound":
        return any(child.type == "final" and active & child.bit for child in node.children)
    if node.type == "parallel":
        return all(_is_final(child, active) for child in node.children)
    return node.type == "final"


def _remember(nodes: Sequence[ChartState], active: int, left: int) -> dict[str, tuple[ChartState, ...]]:
    remembered: dict[str, tuple[ChartState, ...]] = {}
    for node in nodes:
        if not left & node.bit:
            continue
        for history in node.histories:
            if history.history == "deep":
                below = active & node.below
                remembered[history.id] = tuple(one for one in nodes if one.is_leaf and below & one.bit)
            else:
                remembered[history.id] = tuple(child for child in node.children if active & child.bit)
    return remembered


def _order(chart: Chart, now: Configuration, remaining: int, mask: int) -> tuple[ChartState, ...]:
    staying = tuple(leaf for leaf in now.leaves if remaining & leaf.bit)
    fresh = mask & ~remaining
    return staying + tuple(node for node in chart.nodes if fresh & node.bit and node.is_leaf)
