"""What a snapshot knows by itself: which states are active, and which events may do something."""

from typing import Any

import pytest

from tests.xstate.chart_cases import case
from tests.xstate.chart_names import NAMES
from tests.xstate.chart_wider import MORE_EVENTS
from wakeful.chart import Chart, can, matches, start
from wakeful.machines.snapshot import Snapshot, events_of
from wakeful.statechart.snapshot import configuration_of
from wakeful.values.errors import BadChart, LimitExceeded


def snapshot_of(chart: Chart) -> tuple[dict[str, Any], Snapshot]:
    kept, _ = start(chart)
    accepts, refuses = events_of(chart, configuration_of(chart, kept).mask)
    return kept, Snapshot(kept["value"], kept["context"], kept["status"], accepts=accepts, refuses=refuses)


GO = {"target": "#there"}


@pytest.mark.parametrize(
    ("inner", "outer", "yes", "no"),
    [
        ({"X": GO}, {}, ["X"], ["Y", "X.a"]),
        ({"a.*": GO}, {}, ["a", "a.b", "a.b.c"], ["ab", "b"]),
        ({"*": GO}, {}, ["X", "a.b"], []),
        ({"X": {}}, {"X": GO}, [], ["X"]),
        ({"X": {}}, {"*": GO}, ["Y"], ["X"]),
        ({"*": {}}, {"X": GO}, [], ["X", "Y"]),
        ({"a.*": {}}, {"*": GO}, ["b"], ["a", "a.b"]),
        ({"X": {"guard": "no"}}, {"X": GO}, ["X"], []),
        ({"X": [{"target": "#there", "guard": "no"}, {}]}, {}, ["X"], []),
        ({"a*": GO, "a.*.b": GO}, {}, ["a*"], ["ab", "a.c.b"]),
    ],
)
def test_events_that_may_do_something(inner: Any, outer: Any, yes: list[str], no: list[str]) -> None:
    states = {"in": {"on": inner}, "there": {"id": "there"}}
    _, snapshot = snapshot_of(Chart.of({"initial": "in", "on": outer, "states": states}, implementations=NAMES))
    assert ([one for one in yes if not snapshot.can(one)], [one for one in no if snapshot.can(one)]) == ([], [])


def test_it_says_what_the_step_says_where_no_guard_has_a_word() -> None:
    seen = 0
    for seed in range(240):
        config = _unguarded(case(seed)["config"])
        try:
            chart = Chart.of(config, implementations=NAMES)
            kept, snapshot = snapshot_of(chart)
        except (BadChart, LimitExceeded):
            continue  # without its guards it never comes to rest
        if kept["status"] != "active":
            continue
        for type in MORE_EVENTS[:-1]:
            seen += 1
            assert snapshot.can(type) == can(chart, kept, {"type": type}), f"seed {seed}: {type}"
        for path in ("k", "l", "o"):
            if path in chart.root.by_key:
                assert snapshot.matches(path) == matches(chart, kept, path)
                assert snapshot.matches({path: {}}) == matches(chart, kept, {path: {}}), f"seed {seed}: {path}"
    assert seen > 800


def _unguarded(config: Any) -> Any:
    if isinstance(config, dict):
        return {key: _unguarded(one) for key, one in config.items() if key not in ("guard", "route")}
    return [_unguarded(one) for one in config] if isinstance(config, list) else config
