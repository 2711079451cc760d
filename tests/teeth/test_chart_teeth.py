"""Broken chart steps that the recorded answers of XState must catch: each breaks one rule."""

import json
import lzma
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.xstate.chart_compare import differs
from tests.xstate.chart_names import NAMES
from wakeful.statechart import chart as charts
from wakeful.statechart import moves, snapshot, step, structure
from wakeful.statechart.structure import ChartStep
from wakeful.values.errors import BadChart, LimitExceeded

VECTORS = Path(__file__).parents[1] / "vectors" / "xstate" / "cases.jsonl.xz"


@lru_cache
def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(VECTORS.read_bytes()).decode().splitlines()]


def caught() -> int | None:
    """How many cases it takes to notice, None if all of them do not."""
    for place, one in enumerate(recorded()):
        try:
            found = differs(one, one["said"], NAMES)
        except (BadChart, LimitExceeded, KeyError, StopIteration):
            return place
        if found is not None:
            return place
    return None


Patch = Callable[[pytest.MonkeyPatch], None]


def queue_backwards(patch: pytest.MonkeyPatch) -> None:
    class Backwards(list[Any]):
        def pop(self, place: Any = -1) -> Any:
            return super().pop(-1)

    init = ChartStep.__init__

    def made(self: ChartStep, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self.queue = Backwards()

    patch.setattr(ChartStep, "__init__", made)


def shallow_for_deep(patch: pytest.MonkeyPatch) -> None:
    def remember(all_nodes: Any, active: int, left: int) -> Any:
        return {
            history.id: tuple(child for child in node.children if active & child.bit)
            for node in all_nodes
            if left & node.bit
            for history in node.histories
        }

    patch.setattr(charts, "_remember", remember)


def entered_backwards(patch: pytest.MonkeyPatch) -> None:
    entering = charts.entries_of
    patch.setattr(charts, "entries_of", lambda all_nodes, *rest: entering(all_nodes, *rest)[::-1])


def no_initial_actions(patch: pytest.MonkeyPatch) -> None:
    entering = charts.entries_of
    patch.setattr(charts, "entries_of", lambda all_nodes, left, mask, defaults: entering(all_nodes, left, mask, 0))


def late_by_one(patch: pytest.MonkeyPatch) -> None:
    delay = ChartStep.delay
    patch.setattr(ChartStep, "delay", lambda self, name, ms, event, target: delay(self, name, ms + 1, event, target))


def outputs_lost(patch: pytest.MonkeyPatch) -> None:
    arrive = step._arrive

    def without(chart: Any, turn: ChartStep, final: Any, arrival: Any) -> None:
        arrive(chart, turn, final, arrival)
        turn.queue[:] = [{**event, "output": None} if "output" in event else event for event in turn.queue]

    patch.setattr(step, "_arrive", without)


def order_forgotten(patch: pytest.MonkeyPatch) -> None:
    dump = snapshot.dump
    patch.setattr(
        step, "dump", lambda chart, turn: {key: one for key, one in dump(chart, turn).items() if key != "order"}
    )


def histories_forgotten(patch: pytest.MonkeyPatch) -> None:
    dump = snapshot.dump
    patch.setattr(step, "dump", lambda chart, turn: {**dump(chart, turn), "historyValue": {}})


def always_once(patch: pytest.MonkeyPatch) -> None:
    eventless = step._choose_eventless
    patch.setattr(step, "_choose_eventless", lambda turn: eventless(turn)[:1])


def outer_first(patch: pytest.MonkeyPatch) -> None:
    inside = step._choose_inside
    patch.setattr(
        step, "_choose_inside", lambda chart, turn, node: step._choose_own(turn, node) or inside(chart, turn, node)
    )


def conflicts_kept(patch: pytest.MonkeyPatch) -> None:
    for module in (charts, step):
        patch.setattr(module, "without_conflicts", lambda enabled, active, kept: list(enabled))


def reenter_ignored(patch: pytest.MonkeyPatch) -> None:
    exits = moves.exits_of

    def milder(way: Any, active: int, kept: Any) -> int:
        return exits(way, active, kept) & ~(way.source.bit if way.source in way.targets else 0)

    patch.setattr(charts, "exits_of", milder)


def one_region_is_enough(patch: pytest.MonkeyPatch) -> None:
    is_final = charts._is_final

    def easily(node: Any, active: int) -> bool:
        if node.type == "parallel":
            return any(easily(child, active) for child in node.children)
        return is_final(node, active)

    patch.setattr(charts, "_is_final", easily)


def itself_not_covered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(structure, "fits", lambda event, wild: wild == "*" or event.startswith(wild[:-1]))


def sends_to_itself_at_once(patch: pytest.MonkeyPatch) -> None:
    init = ChartStep.__init__

    def made(self: ChartStep, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self.mailbox = self.queue

    patch.setattr(ChartStep, "__init__", made)


def quiet(name: str) -> Patch:
    def patched(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(ChartStep, name, lambda self, *args, **options: None)

    patched.__name__ = f"{name}_does_nothing"
    return patched


BROKEN: tuple[Patch, ...] = (
    *(queue_backwards, shallow_for_deep, entered_backwards, no_initial_actions, late_by_one, outputs_lost),
    *(order_forgotten, histories_forgotten, always_once, outer_first, conflicts_kept, reenter_ignored),
    *(one_region_is_enough, itself_not_covered, sends_to_itself_at_once),
    *(quiet("cancel"), quiet("stop"), quiet("delay"), quiet("invoke"), quiet("send")),
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_step_is_caught(broken: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    assert caught() is not None
