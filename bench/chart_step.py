"""What does one step of a statechart cost, flat and deeply parallel?

The snapshot is plain JSON that has been through JSON, as it comes from a store. The peers keep theirs in an object
in memory, which favours them: nothing is restored, and nothing can be.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from bench.measures import Measure
from bench.sizes import Sizes
from wakeful.chart import Chart, start, step

STATES = 10
LEVELS = 4
NEXT = {"type": "NEXT"}


def flat() -> dict[str, Any]:
    """Ten states in a ring."""
    return {
        "initial": "s0",
        "states": {f"s{place}": {"on": {"NEXT": f"s{(place + 1) % STATES}"}} for place in range(STATES)},
    }


def parallel(levels: int = LEVELS) -> dict[str, Any]:
    """Two regions in each of two regions and so on; at the bottom of each a state that the event changes."""
    if not levels:
        return {"initial": "a", "states": {"a": {"on": {"NEXT": "b"}}, "b": {"on": {"NEXT": "a"}}}}
    return {"type": "parallel", "states": {"l": parallel(levels - 1), "r": parallel(levels - 1)}}


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`chart.flat`, `chart.parallel`, `chart.compile`: microseconds of one step, and of reading the flat chart."""
    found = []
    for name, config in (("flat", flat()), ("parallel", parallel())):
        chart = Chart.of(config)
        snapshot = json.loads(json.dumps(start(chart)[0]))
        note = f"{len(chart.nodes)} states, {len(chart.first.next.leaves)} of them change"
        found.append(Measure(f"chart.{name}", _fastest(_stepping(chart, snapshot), sizes.next_run_count), "µs", note))
    config = flat()
    found.append(
        Measure(
            "chart.compile",
            _fastest(lambda: Chart.of(config), max(2, sizes.next_run_count // 10)),
            "µs",
            "the flat one",
        )
    )
    return found


def _stepping(chart: Chart, snapshot: dict[str, Any]) -> Callable[[], Any]:
    return lambda: step(chart, snapshot, NEXT, 0)


def peer(sizes: Sizes, **steps: Callable[[], Any]) -> list[Measure]:
    """The same of another library, fewer times: some need a tenth of a second for one step."""
    count = max(2, sizes.next_run_count // 50)
    return [Measure(f"chart.{name}", _fastest(call, count, rounds=3), "µs") for name, call in steps.items()]


def _fastest(call: Callable[[], Any], count: int, *, rounds: int = 15) -> float:
    call()
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, time.perf_counter() - began)
    return best / count * 1e6
