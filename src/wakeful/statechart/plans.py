"""Layer 1, pure. What happens in one microstep, in which order?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeful.statechart.configuration import Configuration
from wakeful.statechart.moves import EnteredStates, Kept, domain_of, exits_of, without_conflicts
from wakeful.statechart.nodes import Action, ChartState, Transition
from wakeful.values.errors import BadChart

if TYPE_CHECKING:
    from wakeful.statechart.chart import Chart


class Arrival:
    """The entering of a final state: who is done by it."""

    __slots__ = ("completion", "done")

    def __init__(self, done: tuple[ChartState, ...], completion: ChartState | None) -> None:
        self.done = done  # parents of which `xstate.done.state` is raised
        self.completion = completion  # set when the whole chart is done: whose event its output gets


class Entering:
    """One state that is entered, and what it does then."""

    __slots__ = ("actions", "arrival", "node")

    def __init__(self, node: ChartState, actions: tuple[Action, ...], arrival: Arrival | None) -> None:
        self.node = node
        self.actions = actions
        self.arrival = arrival


class Microstep:
    """One microstep: actions of leaving, of the transitions, of entering; and the states it ends in."""

    __slots__ = ("actions", "enters", "kept", "leaves", "next")

    def __init__(
        self,
        *,
        leaves: tuple[Action, ...],
        actions: tuple[Action, ...],
        enters: tuple[Entering, ...],
        kept: dict[str, tuple[ChartState, ...]],
        next: Configuration,
    ) -> None:
        self.leaves = leaves
        self.actions = actions
        self.enters = enters
        self.kept = kept  # what histories keep of the states that are left
        self.next = next


def plan(chart: "Chart", now: Configuration, enabled: Sequence[Transition], kept: Kept) -> Microstep:
    """The microstep that these transitions make, kept for the next time unless it hangs on a history."""
    key = tuple([transition.index for transition in enabled])
    found = now.plans.get(key)
    return found if found is not None else _work_out(chart, now, key, enabled, kept)


def _work_out(
    chart: "Chart", now: Configuration, key: tuple[int, ...], enabled: Sequence[Transition], kept: Kept
) -> Microstep:
    taken = without_conflicts(enabled, now.mask, kept) if len(enabled) > 1 else enabled
    try:
        made, is_lasting = _together(chart, now, taken, kept)
    except BadChart:
        if len(taken) < 2:
            raise
        made, is_lasting = _together(chart, now, _compatible(chart, now, taken, kept), kept)
    if is_lasting and not any(one.has_history for one in enabled):
        now.plans[key] = made
    return made


def _compatible(chart: "Chart", now: Configuration, taken: Sequence[Transition], kept: Kept) -> list[Transition]:
    """Those that together lead to a configuration, the earlier ones first.

    One that goes back to its own source by way of a history leaves nothing, so it is in nobody's way until
    another leaves that source: XState then takes both and ends in states that can't be active together.
    """
    found: list[Transition] = []
    for one in taken:
        try:
            _together(chart, now, [*found, one], kept)
        except BadChart:
            continue
        found.append(one)
    return found


def _together(chart: "Chart", now: Configuration, taken: Sequence[Transition], kept: Kept) -> tuple[Microstep, bool]:
    """The microstep of transitions, and whether it is the same whatever the histories keep."""
    # With what was kept before leaving: a history that is rewritten by leaving would shift the domain
    # between leaving and entering, and a state would be left that is never entered (as happens in XState).
    domains = [domain_of(one, kept) if one.has_history else one.domain for one in taken]
    left = 0
    for one in taken:
        left |= exits_of(one, now.mask, kept)
    remembered = _remember(chart.nodes, now.mask, left)
    entry = EnteredStates({**kept, **remembered})
    for one, domain in zip(taken, domains, strict=True):
        entry.add(one, domain)
    remaining = now.mask & ~left
    mask = remaining | entry.mask
    # Without a change of states XState keeps the old order of the active ones.
    is_same = mask == now.mask and not remembered
    made = Microstep(
        leaves=tuple(action for node in reversed(chart.nodes) if left & node.bit for action in node.leave),
        actions=tuple(action for one in taken for action in one.actions),
        enters=entering(chart.nodes, remaining, entry.mask, entry.defaults),
        kept=remembered,
        next=now if is_same else chart.configuration(mask, _order(chart, now, remaining, mask)),
    )
    return made, not entry.has_history


def entering(nodes: Sequence[ChartState], remaining: int, mask: int, defaults: int) -> tuple[Entering, ...]:
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
    found: dict[str, tuple[ChartState, ...]] = {}
    for node in nodes:
        if not left & node.bit:
            continue
        for history in node.histories:
            if history.history == "deep":
                below = active & node.below
                found[history.id] = tuple(one for one in nodes if one.is_leaf and below & one.bit)
            else:
                found[history.id] = tuple(child for child in node.children if active & child.bit)
    return found


def _order(chart: "Chart", now: Configuration, remaining: int, mask: int) -> tuple[ChartState, ...]:
    staying = tuple(leaf for leaf in now.leaves if remaining & leaf.bit)
    fresh = mask & ~remaining
    return staying + tuple(node for node in chart.nodes if fresh & node.bit and node.is_leaf)
