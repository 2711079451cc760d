"""Snapshots: plain JSON, restored exactly, and those of XState too."""

import gc
import json
from typing import Any

from wakeful.chart import Chart, Stop, start, step
from wakeful.statechart.chart import KEPT_MAX
from wakeful.statechart.structure import Configuration

REGION = {"initial": "m", "states": {"m": {"on": {"E": "n"}}, "n": {"on": {"E": "m"}}}}


def test_a_snapshot_is_plain_json_with_the_keys_of_xstate() -> None:
    snapshot, _ = start({"initial": "a", "states": {"a": {"after": {"5": "a"}, "invoke": {"src": "svc"}}}})
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert list(snapshot) == [
        *("value", "context", "status", "output", "error", "historyValue", "children", "pending", "seq"),
    ]


def test_a_persisted_snapshot_of_xstate_is_taken_as_it_is() -> None:
    """What `actor.getPersistedSnapshot()` gave for this chart: undefined keys are missing."""
    config = {
        "id": "m",
        "initial": "b",
        "states": {
            "a": {"initial": "a1", "states": {"a1": {}, "a2": {}, "h": {"type": "history"}}},
            "b": {"on": {"BACK": "a.h"}, "invoke": {"id": "kid", "src": "svc"}},
        },
    }
    persisted = {
        "status": "active",
        "value": "b",
        "historyValue": {"m.a.h": [{"id": "m.a.a2"}]},
        "context": {"n": 1},
        "children": {"kid": {"snapshot": {"status": "active", "input": {}}, "src": "svc", "syncSnapshot": False}},
    }
    snapshot, effects = step(config, persisted, {"type": "BACK"})
    assert (snapshot["value"], snapshot["context"]) == ({"a": "a2"}, {"n": 1})
    assert effects == [Stop("kid", 0)]


def test_a_value_that_says_less_stands_for_the_initial_states() -> None:
    chart = Chart.of({"initial": "p", "states": {"p": {"type": "parallel", "states": {"x": REGION, "y": REGION}}}})
    for value in ("p", {"p": {}}, {"p": {"x": "m"}}):
        snapshot, _ = step(chart, {**start(chart)[0], "value": value}, {"type": "E"})
        assert snapshot["value"] == {"p": {"x": "n", "y": "n"}}


def test_the_order_in_which_states_became_active_is_kept_where_it_matters() -> None:
    """XState asks for `always` in that order, so two regions that wait for the same thing act in it."""
    region = {
        "initial": "idle",
        "states": {"idle": {"on": {"E": "ready"}}, "ready": {"always": {"target": "gone", "guard": "go"}}, "gone": {}},
    }
    config: dict[str, Any] = {"type": "parallel", "context": {"go": False}, "states": {}}
    for key in "xy":
        ready = {"always": {"target": "gone", "guard": "go", "actions": key}}
        states = {**region["states"], "idle": {"on": {f"E{key}": "ready"}}, "ready": ready}  # type: ignore[dict-item]
        config["states"][key] = {**region, "states": states}
    config["on"] = {"GO": {"actions": {"type": "xstate.assign", "assignment": {"go": True}}}}
    chart = Chart.of(config, implementations={"guards": {"go": lambda context, event, params: context["go"]}})
    for first, second in (("x", "y"), ("y", "x")):
        snapshot, _ = start(chart)
        for event in (f"E{first}", f"E{second}"):
            snapshot, _ = step(chart, json.loads(json.dumps(snapshot)), {"type": event})
        assert snapshot.get("order") == (None if first == "x" else ["(machine).y.ready", "(machine).x.ready"])
        _, effects = step(chart, json.loads(json.dumps(snapshot)), {"type": "GO"})
        assert [effect.name for effect in effects] == [first, second]  # type: ignore[union-attr]


def test_what_is_worked_out_once_is_bounded() -> None:
    """A chart of thirteen regions has 8,192 configurations; no more than `KEPT_MAX` are kept."""
    regions = 13
    states = {}
    for place in range(regions):
        on, off = {"on": {f"E{place}": "on"}}, {"on": {f"E{place}": "off"}}
        states[f"r{place}"] = {"initial": "off", "states": {"off": on, "on": off}}
    chart = Chart.of({"type": "parallel", "states": states})
    gc.collect()
    others = {id(one) for one in gc.get_objects() if type(one) is Configuration}  # of charts of other tests
    snapshot, _ = start(chart)
    for number in range(1, 2**regions):
        lowest = (number & -number).bit_length() - 1  # the Gray code: each configuration once
        snapshot, _ = step(chart, snapshot, {"type": f"E{lowest}"})
    assert list(snapshot["value"].values()) == ["off"] * (regions - 1) + ["on"]
    assert len(chart.by_value) <= KEPT_MAX
    gc.collect()
    alive = [one for one in gc.get_objects() if type(one) is Configuration and id(one) not in others]
    assert len(alive) <= KEPT_MAX + 100, "and nothing leads to the others any more"
