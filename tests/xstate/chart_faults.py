"""Where XState ends in states that can't be active together: do its own rules explain it?

The step differs from XState in three rules (docs/decisions/0017-own-chart-step.md): the domain of a transition is
worked out once, transitions that contradict each other are not taken together, and a history is never active
itself. Without these three the step has to end in an impossible configuration at the same place of the script.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import wakeful.statechart.chart as charts
from tests.xstate.chart_compare import Runner
from tests.xstate.chart_names import NAMES
from wakeful.statechart.moves import EnteredStates
from wakeful.values.errors import BadChart, LimitExceeded


def is_explained(case: dict[str, Any], place: int) -> bool:
    """Whether XState's rules lead the step to an impossible configuration by this place, or to an actor that is not there."""
    with _rules_of_xstate():
        try:
            runner = Runner(case["config"], NAMES)
            runner.start(case.get("input"))
            for entry in case["script"][:place]:
                runner.entry(entry)
        except BadChart as error:
            return error.code in ("chart.impossible", "chart.actor")
        except LimitExceeded:
            return False
    return False


@contextmanager
def _rules_of_xstate() -> Iterator[None]:
    compatible, add, recall = charts._choose_compatible, EnteredStates.add, EnteredStates._recall

    def again(self: EnteredStates, transition: Any, domain: Any) -> None:
        add(self, transition, charts.domain_of(transition, self.kept) if transition.has_history else domain)

    def enter(self: EnteredStates, history: Any) -> None:
        states = self.kept.get(history.id, history.default)
        if any(state.type == "history" for state in states):
            raise BadChart(f"{history.path}: a history would be active", code="chart.impossible")
        recall(self, history)

    try:
        charts._choose_compatible = lambda chart, now, taken, kept: list(taken)
        EnteredStates.add = again  # type: ignore[method-assign]
        EnteredStates._recall = enter  # type: ignore[method-assign]
        yield
    finally:
        charts._choose_compatible = compatible
        EnteredStates.add, EnteredStates._recall = add, recall  # type: ignore[method-assign]
