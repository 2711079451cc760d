"""python-statemachine: the best-kept statechart library of Python; its state is an object in memory."""

from typing import Any

from bench import chart_step
from bench.measures import Measure
from bench.sizes import Sizes

DURABILITY = {"sqlite": "none: states in memory"}


def run(url: str, sizes: Sizes) -> list[Measure]:
    from statemachine import State, StateChart

    flat = _flat(State, StateChart)()
    parallel = _parallel(State, StateChart)()
    return chart_step.peer(sizes, flat=lambda: flat.send("NEXT"), parallel=lambda: parallel.send("NEXT"))


def _flat(state: Any, chart: Any) -> Any:
    states = [state(initial=place == 0) for place in range(chart_step.STATES)]
    ring = states[0].to(states[1])
    for place in range(1, chart_step.STATES):
        ring = ring | states[place].to(states[(place + 1) % chart_step.STATES])
    return type("Flat", (chart,), {**{f"s{place}": one for place, one in enumerate(states)}, "NEXT": ring})


def _parallel(state: Any, chart: Any) -> Any:
    def grow(levels: int, name: str) -> Any:
        if not levels:
            a, b = state(initial=True), state()
            parts = {f"{name}a": a, f"{name}b": b, "NEXT": a.to(b) | b.to(a)}
            return type(name, (state.Compound,), parts)
        return type(name, (state.Parallel,), {f"{name}{side}": grow(levels - 1, f"{name}{side}") for side in "lr"})

    return type("Deep", (chart,), {"top": grow(chart_step.LEVELS, "top")})
