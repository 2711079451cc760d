"""Layer 1, pure. Which states does a transition leave, and which does it enter?

The rules are those of XState 5, which are SCXML's with a few of its own; sets of states are bits (see `structure`).
"""

from collections.abc import Iterable, Mapping, Sequence

from wakeful.statechart.structure import ChartState, Transition, is_below

# What the histories of a chart keep: the id of a history state, and the states it leads back to.
Kept = Mapping[str, tuple[ChartState, ...]]


def targets_of(targets: Iterable[ChartState], kept: Kept) -> list[ChartState]:
    """The states that targets stand for: a history is what it kept, or its default."""
    states: dict[ChartState, None] = {}
    for target in targets:
        if target.type != "history":
            states[target] = None
        elif target.id in kept:
            states.update(dict.fromkeys(kept[target.id]))
        else:
            states.update(dict.fromkeys(targets_of(target.default, kept)))
    return list(states)


def domain_of(transition: Transition, kept: Kept) -> ChartState | None:
    """The state below which everything is left; None when the root itself is left and entered again."""
    source = transition.source
    targets = targets_of(transition.targets, kept)
    if not transition.reenter and all(target is source or target.bit & source.below for target in targets):
        return source
    first, *others = [*targets, source]
    for ancestor in first.ancestors:
        if all(other.bit & ancestor.below for other in others):
            return ancestor
    return None if transition.reenter else (source.ancestors[-1] if source.ancestors else source)


def exits_of(transition: Transition, active: int, kept: Kept) -> int:
    """The active states that a transition leaves."""
    if not transition.targets:
        return 0
    domain = domain_of(transition, kept) if transition.has_history else transition.domain
    if domain is None:
        return active
    found = active & domain.below
    return found | domain.bit if transition.reenter and transition.source is domain else found


def without_conflicts(enabled: Sequence[Transition], active: int, kept: Kept) -> list[Transition]:
    """Those that can be taken together: of two that leave the same state the inner one wins, else the earlier one."""
    taken: dict[Transition, int] = {}
    for transition in enabled:
        leaves = exits_of(transition, active, kept)
        outdone = []
        for other, others_leaves in taken.items():
            if leaves & others_leaves:
                if not is_below(transition.source, other.source):
                    break
                outdone.append(other)
        else:
            for other in outdone:
                del taken[other]
            taken[transition] = leaves
    return list(taken)


class EnteredStates:
    """The states that are entered, gathered transition by transition."""

    __slots__ = ("defaults", "has_history", "kept", "mask")

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.mask = 0
        self.defaults = 0  # those whose initial transition's actions run
        self.has_history = False  # it depended on what a history kept

    def add(self, transition: Transition, domain: ChartState | None) -> None:
        """What one transition enters, given the domain that it left."""
        source, reenter = transition.source, transition.reenter
        for target in transition.targets:
            if target.type != "history" and (target is not source or domain is not source or reenter):
                self.mask |= target.bit
                self.defaults |= target.bit
            self._descend(target)
        within = None if source.parent is None and reenter else domain
        for target in targets_of(transition.targets, self.kept):
            above = _between(target, domain)
            if domain is not None and domain.type == "parallel":
                above = [*above, domain]
            self._ascend(above, within)

    def _descend(self, node: ChartState) -> None:
        if node.type == "history":
            self._recall(node)
        elif node.type == "compound":
            initial = node.initial
            assert initial is not None
            if initial.type != "history":
                self.mask |= initial.bit
                self.defaults |= initial.bit
            self._descend(initial)
            self._ascend(_between(initial, node), None)
        elif node.type == "parallel":
            for child in node.children:
                if not self.mask & child.below:
                    self.mask |= child.bit
                    self.defaults |= child.bit
                    self._descend(child)

    def _recall(self, history: ChartState) -> None:
        self.has_history = True
        kept = self.kept.get(history.id)
        states = history.default if kept is None else kept
        for state in states:
            if state.type != "history":
                self.mask |= state.bit
            if kept is None and history.initial_default:
                assert history.parent is not None
                self.defaults |= history.parent.bit
            self._descend(state)
        for state in states:
            self._ascend(_between(state, history.parent), None)

    def _ascend(self, above: Iterable[ChartState], within: ChartState | None) -> None:
        for ancestor in above:
            if is_below(ancestor, within):
                self.mask |= ancestor.bit
            if ancestor.type == "parallel":
                for child in ancestor.children:
                    if not self.mask & child.below:
                        self.mask |= child.bit
                        self._descend(child)


def _between(node: ChartState, top: ChartState | None) -> list[ChartState]:
    """The ancestors of a state under another, nearest first."""
    if node is top:
        return []
    found = []
    for ancestor in node.ancestors:
        if ancestor is top:
            break
        found.append(ancestor)
    return found
