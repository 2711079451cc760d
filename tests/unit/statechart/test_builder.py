"""Charts written in Python are the same config that one writes by hand, and run the same."""

from typing import Any

import pytest

from wakeful.chart import Chart, build, final, history, invoke, parallel, start, state, step, to
from wakeful.values.errors import BadChart


def test_an_order_is_the_config_that_one_would_write_by_hand() -> None:
    built = build(
        {
            "placed": state(
                on={"PAY": to("paid", guard="enough", actions="thank")}, after={"24h": "expired", 50: "late"}
            ),
            "paid": state(invoke=invoke("ship", done="shipped", error=to("paid", actions=["again"], reenter=True))),
            "late": state(always=[to("paid", guard="enough"), "expired"], tags=["slow"]),
            "shipped": final(output={"ok": True}),
            "expired": final(),
        },
        id="order",
        initial="placed",
        context={"tries": 0},
    )
    assert built == {
        "id": "order",
        "initial": "placed",
        "context": {"tries": 0},
        "states": {
            "placed": {
                "on": {"PAY": {"target": "paid", "guard": "enough", "actions": ["thank"]}},
                "after": {"24h": "expired", "50": "late"},
            },
            "paid": {
                "invoke": {
                    "src": "ship",
                    "onDone": "shipped",
                    "onError": {"target": "paid", "actions": ["again"], "reenter": True},
                }
            },
            "late": {"always": [{"target": "paid", "guard": "enough"}, "expired"], "tags": ["slow"]},
            "shipped": {"type": "final", "output": {"ok": True}},
            "expired": {"type": "final"},
        },
    }
    Chart.of(built, is_sketch=True)


def test_regions_histories_and_nested_states_run() -> None:
    song = state(initial="a", states={"a": state(on={"NEXT": "b"}), "b": state(), "back": history(deep=True)})
    chart = build(
        {
            "on": parallel(
                {
                    "song": song,
                    "light": state(initial="dim", states={"dim": state(on={"NEXT": "full"}), "full": state()}),
                },
                on={"OFF": "off"},
            ),
            "off": state(on={"ON": "on.song.back"}),
        },
        initial="on",
    )
    snapshot, _ = start(chart)
    for event, value in [
        ("NEXT", {"on": {"song": "b", "light": "full"}}),
        ("OFF", "off"),
        ("ON", {"on": {"song": "b", "light": "dim"}}),
    ]:
        snapshot, _ = step(chart, snapshot, {"type": event})
        assert snapshot["value"] == value


def test_without_an_initial_state_all_are_active() -> None:
    snapshot, _ = start(build({"a": state(), "b": state()}))
    assert snapshot["value"] == {"a": {}, "b": {}}


def test_several_targets_and_a_transition_that_only_acts() -> None:
    both = to(["#x", "#y"])
    assert both == {"target": ["#x", "#y"]}
    assert to(actions={"type": "log", "params": {"value": 1}}) == {"actions": [{"type": "log", "params": {"value": 1}}]}


@pytest.mark.parametrize(
    ("states", "options"),
    [({"a": state(on={"GO": "nowhere"})}, {"initial": "a"}), ({"a": state()}, {"initial": "b"})],
)
def test_what_makes_no_sense_is_refused_when_the_chart_is_read(states: Any, options: Any) -> None:
    with pytest.raises(BadChart):
        Chart.of(build(states, **options))
