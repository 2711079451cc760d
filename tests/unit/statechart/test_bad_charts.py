"""Bad charts are refused when they are read, with the path inside the chart."""

from typing import Any

import pytest

from wakeful.chart import Chart, Implementations, check_snapshot, start, step
from wakeful.values.errors import BadChart, BadInput, LimitExceeded

A: dict[str, Any] = {"a": {}}


def flat(**first: Any) -> dict[str, Any]:
    return {"initial": "a", "states": {"a": first, "b": {}}}


def p(**more: Any) -> dict[str, Any]:
    regions = {key: {"initial": "m", "states": {"m": {}, "n": {}}} for key in ("x", "y")}
    return {"initial": "a", "states": {"a": more, "p": {"type": "parallel", "states": regions}}}


BAD: list[tuple[Any, str, str]] = [
    (5, "chart: 5 is not a mapping", "chart.type"),
    ({"initial": "a", "states": {"a": 5}}, "states.a: 5 is not a mapping", "chart.type"),
    ({"states": A}, "initial: it is missing", "chart.initial"),
    ({"initial": "b", "states": A}, "initial: there is no state 'b'; there are: a", "chart.initial"),
    ({"initial": ["a", "a"], "states": A}, "initial: one state is first, not 2", "chart.initial"),
    ({"initial": {"target": "q"}, "states": A}, "initial.target: there is no state 'q'", "chart.initial"),
    ({"initial": "a"}, "initial: there are no states inside", "chart.initial"),
    ({"intial": "a", "states": A}, "intial: there is no such key here", "chart.key"),
    (flat(ons={}), "states.a.ons: there is no such key here", "chart.key"),
    (flat(on={"PAY": {"target": "paid"}}), "states.a.on.PAY.target: there is no state 'paid'", "chart.target"),
    (flat(on={"PAY": "paid"}), "states.a.on.PAY: there is no state 'paid'", "chart.target"),
    (flat(on={"PAY": [{}, {"target": "#x.y"}]}), "states.a.on.PAY[1].target: there is no state '#x.y'", "chart.target"),
    (flat(on={"PAY": ".deep"}), "states.a.on.PAY: there is no state '.deep'", "chart.target"),
    (flat(on={"PAY": {"target": ["b", 5]}}), "states.a.on.PAY.target[1]: 5 is not text", "chart.type"),
    ({**flat(), "on": {"E": "b"}}, "on.E: there is no state 'b' beside the root; did you mean '.b'?", "chart.target"),
    (flat(on={"": "b"}), "states.a.on: an event needs a type", "chart"),
    (flat(on={"E": None}), "states.a.on.E: it is null", "chart.type"),
    (flat(on=[]), "states.a.on: [] is not a mapping", "chart.type"),
    (flat(on={"E": {"target": "b", "cond": "x"}}), "states.a.on.E.cond: there is no such key", "chart.key"),
    (flat(on={"E": {"reenter": "yes"}}), "states.a.on.E.reenter: 'yes' is neither true nor false", "chart.type"),
    (flat(id="b2") | {"id": "b2"}, "states.a.id: the chart itself has the id 'b2' too", "chart.id"),
    ({"initial": "a", "states": {"a": {"id": "i"}, "b": {"id": "i"}}}, "states.b.id: states.a has the id 'i'", "chart.id"),
    (flat(type="weird"), "states.a.type: 'weird' is none of", "chart.type"),
    (flat(type="parallel"), "states.a: a state of type 'parallel' needs states inside", "chart.type"),
    (flat(type="final", states=A), "states.a.states: a state of type 'final' has no states inside", "chart.type"),
    (flat(type="history", history="long"), "states.a.history: 'long' is neither", "chart.type"),
    ({"type": "final"}, "type: the chart itself can't be a final state", "chart.type"),
    (flat(tags=[5]), "states.a.tags[0]: 5 is not text", "chart.type"),
    (flat(output=5), "states.a.output: only final states and the chart itself", "chart"),
    (flat(on={"E": {"guard": "unknown"}}), "states.a.on.E.guard: there is no guard named 'unknown'", "chart.unbound"),
    (flat(always={"guard": {"type": "and", "guards": ["u"]}}), "states.a.always.guard.guards[0]: there is no guard", "chart.unbound"),
    (flat(always={"guard": {"type": "xstate.nand"}}), "states.a.always.guard.type: there is no guard 'xstate.nand'", "chart.guard"),
    (flat(always={"guard": {"type": "not", "guards": []}}), "states.a.always.guard.guards: 'not' turns exactly one", "chart.guard"),
    (flat(always={"guard": {"type": "stateIn", "stateValue": "q"}}), "states.a.always.guard.stateValue: there is no state 'q'", "chart.target"),
    (flat(entry="unknown"), "states.a.entry: there is no action or assignment named 'unknown'", "chart.unbound"),
    (flat(entry=["x", {"type": "unknown"}]), "states.a.entry[1]: there is no action or assignment", "chart.unbound"),
    (flat(entry={"type": "xstate.jump"}), "states.a.entry.type: there is no action 'xstate.jump'", "chart.action"),
    (flat(entry={"type": "x", "parms": {}}), "states.a.entry.parms: there is no such key", "chart.key"),
    (flat(entry={"type": "raise", "event": "R"}), "states.a.entry.event: 'R' is not a mapping", "chart.type"),
    (flat(entry={"type": "raise", "event": {"type": "*"}}), "states.a.entry.event.type: '*' matches events", "chart.event"),
    (flat(entry={"type": "cancel", "sendId": 5}), "states.a.entry.sendId: 5 is not text", "chart.type"),
    (flat(entry={"type": "x", "params": {"f": print}}), "states.a.entry.params.f: <built-in function print> is not", "chart.type"),
    (flat(entry={"type": "emit", "event": {"$call": "no"}}), "states.a.entry.event.$call: there is no value named 'no'", "chart.unbound"),
    (flat(after={"soon": "b"}), "states.a.after.soon: there is no delay named 'soon'", "chart.delay"),
    (flat(after={"5": "q"}), "states.a.after.5: there is no state 'q'", "chart.target"),
    (flat(after={"5": "b", "5.0": "b"}), "states.a.after.5.0: there is another delay of 5 ms", "chart.id"),
    (flat(entry={"type": "raise", "event": {"type": "R"}, "delay": -1}), "states.a.entry.delay: -1 is no length", "chart.delay"),
    (flat(invoke={"src": "unknown"}), "states.a.invoke.src: there is no actor named 'unknown'", "chart.unbound"),
    (flat(invoke={"id": "x"}), "states.a.invoke.src: None is not text", "chart.type"),
    (flat(invoke=[{"src": "s", "id": "i"}, {"src": "s", "id": "i"}]), "states.a.invoke[1].id: another actor", "chart.id"),
    (flat(target="b"), "states.a.target: only a history has a target", "chart.key"),
    (flat(history="deep", type="atomic"), "states.a.history: a state of type 'atomic' keeps no history", "chart.type"),
    ({"initial": "h", "states": {"a": {}, "h": {"type": "history"}}}, "states.h.target: histories lead to each other", "chart.target"),
    ({"initial": "h", "states": {"h": {"type": "history"}}}, "states: there are only histories", "chart.type"),
    (flat(initial="c", states={"c": {}, "h": {"type": "history", "target": "#(machine).b"}}), "states.a.states.h.target: '#(machine).b' is not below", "chart.target"),
    (flat(on={"E": {"target": ["a", "b"]}}), "states.a.on.E.target: '#(machine).a' and '#(machine).b' can't be entered", "chart.target"),
    (p(on={"E": {"target": ["p", "p.x.n"]}}), "states.a.on.E.target: '#(machine).p' and", "chart.target"),
    (p(on={"E": {"target": ["p.x.m", "p.x.n"]}}), "states.a.on.E.target: '#(machine).p.x.m' and", "chart.target"),
    ({"initial": "a", "states": {"a": {"always": "b"}, "b": {"always": "a"}}}, "states.a.always: it never comes to rest: #(machine).b → #(machine).a → #(machine).b", "chart.always"),
    ({**flat(), "context": [1]}, "context: [1] is not a mapping", "chart.type"),
    ({**flat(), "context": {"f": object}}, "context.f: <class 'object'> is not plain JSON", "chart.type"),
    ({**flat(), "options": {"maxIterations": 0}}, "options.maxIterations: 0 is not a number", "chart.type"),
    ({**flat(), "context": {"a": [{"$call": "yes"}]}}, "context.a.0.$call: a call stands for a whole value", "chart.call"),
    (flat(entry={"type": "x", "params": {"n": {"$call": "yes"}}}), "states.a.entry.params.n.$call: a call stands for", "chart.call"),
    (flat(onn={}), "states.a.onn: there is no such key here; did you mean 'on'?", "chart.key"),
    (flat(on={"E": {"target": "b", "internal": True}}), "states.a.on.E.internal: there is no such key here; XState 5 has 'reenter'", "chart.key"),
    ({**flat(), "transitions": []}, "transitions: there is no such key here; this is what XState makes of a machine, without its functions; `wakeful chart --exporter`", "chart.key"),
    (flat(route={}), "states.a.route: a state that may be gone to by name needs an id", "chart.id"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "says", "code"), BAD, ids=[says[:60] for _, says, _ in BAD])
def test_a_bad_chart_is_refused_with_its_path(config: Any, says: str, code: str) -> None:
    names = Implementations(actions={"x"}, actors={"s"}, guards={"yes": lambda context, event, params: True})
    with pytest.raises(BadChart) as caught:
        Chart.of(config, implementations=names)
    assert caught.value.message.startswith(says)
    assert caught.value.code == code
    assert isinstance(caught.value, BadInput)
    assert "\n" not in str(caught.value)


def test_a_chart_nested_without_end_is_refused() -> None:
    config: dict[str, Any] = {}
    for _ in range(100):
        config = {"initial": "a", "states": {"a": config}}
    with pytest.raises(BadChart, match="nested deeper than 64"):
        Chart.of(config)


def test_a_chart_with_too_many_states_is_refused() -> None:
    with pytest.raises(BadChart, match="more than 2000 states"):
        Chart.of({"initial": "s0", "states": {f"s{place}": {} for place in range(2_100)}})


def test_a_sketch_need_not_have_its_names_bound() -> None:
    config = flat(
        on={"E": {"target": "b", "guard": "unknown"}}, entry="any", after={"soon": "b"}, invoke={"src": "svc"}
    )
    names = Implementations(actions=set(), actors=set())
    chart = Chart.of(config, implementations=names, is_sketch=True)
    assert [node.id for node in chart.nodes] == ["(machine)", "(machine).a", "(machine).b"]
    with pytest.raises(BadChart, match="there is no delay named 'soon'; this chart was only read"):
        start(chart)


@pytest.mark.parametrize(
    "config",
    [
        # By guards, by raised events, by sending to itself; and by assigning, which is a change each time.
        {"initial": "a", "states": {"a": {"always": {"target": "b", "guard": "yes"}}, "b": {"always": {"target": "a", "guard": "yes"}}}},
        flat(entry={"type": "raise", "event": {"type": "R"}}, on={"R": {"target": "a", "reenter": True}}),
        flat(entry={"type": "xstate.sendTo", "to": "#_internal", "event": {"type": "R"}}, on={"R": {"target": "a", "reenter": True}}),
        flat(always={"actions": {"type": "assign", "assignment": {"n": 1}}}),
    ],
)  # fmt: skip
def test_a_circle_is_an_error_and_not_a_hang(config: dict[str, Any]) -> None:
    chart = Chart.of(config, implementations={"guards": {"yes": lambda context, event, params: True}})
    with pytest.raises(LimitExceeded, match="did not come to rest within 1000 microsteps") as caught:
        start(chart)
    assert caught.value.code == "chart.microsteps"


def test_an_always_that_changes_nothing_rests() -> None:
    snapshot, effects = start({"initial": "a", "states": {"a": {"always": {"target": "a", "actions": "once"}}}})
    assert snapshot["value"] == "a"
    assert len(effects) == 1
    first = {"a": {"always": "o"}, "o": {"initial": "b", "always": {"target": ".b"}, "states": {"b": {}}}}
    assert start({"initial": "a", "states": first})[0]["value"] == {"o": "b"}  # also at the end of a way


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"value": "gone"}, "chart: the snapshot is in 'gone', which is no state under '#(machine)' (there are: a, b)"),
        ({"value": {"a": "x"}}, "states.a: the snapshot is in 'x', which is no state under '#(machine).a'"),
        ({"value": {"a": {}, "b": {}}}, "chart: the snapshot is in {'a': {}, 'b': {}}"),
        ({"value": 5}, "chart: the snapshot is in 5"),
        ({"historyValue": {"gone": []}}, "historyValue: the snapshot names '#gone'"),
        ({"historyValue": {"(machine).a": [{"id": "gone"}]}}, "historyValue.(machine).a: the snapshot names '#gone'"),
        ({"order": ["gone"]}, "order: the snapshot names '#gone'"),
        ({"order": ["(machine).b"]}, "order: the snapshot's order is not one of its active states"),
        ({"status": "odd"}, "status: 'odd' is none of active, done, error, stopped"),
        ({"context": 5}, "context: 5 is not a mapping"),
    ],
)
def test_a_snapshot_of_another_chart_is_refused(changed: dict[str, Any], says: str) -> None:
    chart = Chart.of({"initial": "a", "states": {"a": {"initial": "c", "states": {"c": {}}}, "b": {}}})
    snapshot = {**start(chart)[0], **changed}
    with pytest.raises(BadChart) as caught:
        check_snapshot(chart, snapshot)
    assert caught.value.message.startswith(says)
    assert caught.value.code == "chart.snapshot"
    if "value" in changed:
        with pytest.raises(BadChart, match="the snapshot is in"):
            step(chart, snapshot, {"type": "E"})


def test_a_snapshot_that_lacks_a_key_is_refused() -> None:
    with pytest.raises(BadChart, match=r"^value: the snapshot lacks it"):
        check_snapshot(Chart.of(flat()), {})
