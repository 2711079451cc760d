"""Layer 1, pure. Would a chart run in a circle without anything happening?"""

from collections.abc import Sequence

from wakeful.statechart.fields import bad
from wakeful.statechart.nodes import ChartState, Transition


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
