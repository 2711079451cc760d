"""transitions: the state machine library that is used most; its state is an attribute in memory."""

from typing import Any

from bench import chart_step
from bench.measures import Measure
from bench.sizes import Sizes

DURABILITY = {"sqlite": "none: states in memory"}


def run(url: str, sizes: Sizes) -> list[Measure]:
    from transitions import Machine
    from transitions.extensions import HierarchicalMachine

    names = [f"s{place}" for place in range(chart_step.STATES)]
    flat = Machine(states=names, initial="s0", auto_transitions=False)
    flat.add_ordered_transitions(trigger="NEXT")
    deep = HierarchicalMachine(states=[_grow(chart_step.LEVELS, "top")], initial="top", auto_transitions=False)
    return chart_step.peer(sizes, flat=lambda: flat.trigger("NEXT"), parallel=lambda: deep.trigger("NEXT"))


def _grow(levels: int, name: str) -> dict[str, Any]:
    if not levels:
        ways = [["NEXT", "a", "b"], ["NEXT", "b", "a"]]
        return {"name": name, "children": ["a", "b"], "initial": "a", "transitions": ways}
    return {"name": name, "parallel": [_grow(levels - 1, side) for side in "lr"]}
