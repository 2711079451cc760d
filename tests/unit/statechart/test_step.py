"""Starting and stepping: what a program sees that uses the step by itself."""

import json
from typing import Any

import pytest

from wakeful.chart import (
    PARENT,
    Act,
    Cancel,
    Chart,
    Delay,
    Emit,
    Implementations,
    Invoke,
    Log,
    Send,
    Stop,
    can,
    done_event,
    error_event,
    fire,
    matches,
    meta,
    snapshot_event,
    start,
    step,
    tags,
)
from wakeful.values.errors import BadChart, BadInput

ORDER = {
    "id": "order",
    "initial": "placed",
    "context": {"tries": 0},
    "states": {
        "placed": {"on": {"PAY": {"target": "paid", "guard": "enough"}}, "after": {"24h": "expired"}, "tags": "open"},
        "paid": {
            "invoke": {
                "src": "ship",
                "input": {"$call": "parcel"},
                "onDone": "shipped",
                "onError": {"target": "paid", "actions": "again", "reenter": True},
            },
            "meta": {"color": "green"},
        },
        "shipped": {"type": "final", "output": {"how": "by sea"}},
        "expired": {"type": "final"},
    },
    "output": {"$call": "receipt"},
}
NAMES = Implementations(
    guards={"enough": lambda context, event, params: event.get("amount", 0) >= 10},
    assigns={"again": lambda context, event, params: {"tries": context["tries"] + 1}},
    actors={"ship"},
    values={
        "parcel": lambda context, event, params: {"amount": event.get("amount"), "tries": context["tries"]},
        "receipt": lambda context, event, params: {"tries": context["tries"], "end": event["output"]},
    },
)
DAY_MS = 86_400_000
DELAY = "xstate.after.24h.order.placed"


def stepped(chart: Any, *events: Any, now: int = 0) -> tuple[dict[str, Any], list[Any]]:
    """The snapshot after these events, through JSON each time, and the effects of the last."""
    snapshot, effects = start(chart, now=now)
    for event in events:
        snapshot = json.loads(json.dumps(snapshot))
        snapshot, effects = step(chart, snapshot, event if isinstance(event, dict) else {"type": event}, now)
    return snapshot, list(effects)


def acts(effects: list[Any]) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, Act)]


def test_an_order_is_paid_and_shipped() -> None:
    chart = Chart.of(ORDER, implementations=NAMES)
    snapshot, effects = start(chart, now=1_000)
    assert effects == [Delay(DELAY, 1_000 + DAY_MS, {"type": DELAY})]
    assert tags(chart, snapshot) == ["open"]
    snapshot, effects = step(chart, snapshot, {"type": "PAY", "amount": 12}, 2_000)
    assert effects == [Cancel(DELAY), Invoke("0.order.paid", "ship", {"amount": 12, "tries": 0}, 1)]
    assert snapshot["pending"] == []
    assert meta(chart, snapshot) == {"order.paid": {"color": "green"}}
    snapshot, effects = step(chart, snapshot, error_event("0.order.paid", "no ship"), 3_000)
    assert effects == [Stop("0.order.paid", 1), Invoke("0.order.paid", "ship", {"amount": None, "tries": 1}, 2)]
    snapshot, effects = step(chart, snapshot, done_event("0.order.paid", "away"), 4_000)
    assert effects == [Stop("0.order.paid", 2)]
    assert (snapshot["value"], snapshot["status"]) == ("shipped", "done")
    assert snapshot["output"] == {"tries": 1, "end": {"how": "by sea"}}
    assert step(chart, snapshot, {"type": "PAY"}, 5_000) == (snapshot, [])


def test_an_order_expires() -> None:
    chart = Chart.of(ORDER, implementations=NAMES)
    snapshot, _ = start(chart)
    assert fire(chart, snapshot, "another", 5) == (snapshot, [])
    ended, effects = fire(chart, snapshot, DELAY, DAY_MS)
    assert (ended["value"], ended["status"], ended["pending"], effects) == ("expired", "done", [], [])
    assert step(chart, snapshot, {"type": DELAY}, DAY_MS)[0] == ended
    assert fire(chart, ended, DELAY, DAY_MS) == (ended, [])


def test_nothing_happens_on_an_event_that_is_not_for_it() -> None:
    chart = Chart.of(ORDER, implementations=NAMES)
    snapshot, _ = start(chart)
    before = json.dumps(snapshot)
    after, effects = step(chart, snapshot, {"type": "PAY", "amount": 3}, 0)
    assert after is snapshot
    assert effects == []
    step(chart, snapshot, {"type": "PAY", "amount": 30}, 0)
    assert json.dumps(snapshot) == before, "a step changes nothing of what it was given"


def test_can_and_matches() -> None:
    chart = Chart.of(ORDER, implementations=NAMES)
    snapshot, _ = start(chart)
    assert can(chart, snapshot, {"type": "PAY", "amount": 10})
    assert not can(chart, snapshot, {"type": "PAY", "amount": 9})
    assert not can(chart, snapshot, {"type": "OTHER"})
    assert matches(chart, snapshot, "placed")
    assert not matches(chart, snapshot, "#order.paid")
    with pytest.raises(BadChart, match="there is no state 'nowhere'"):
        matches(chart, snapshot, "nowhere")
    forbids = {"initial": "a", "on": {"E": {"actions": "x"}}, "states": {"a": {"on": {"E": {}}}}}
    assert not can(forbids, start(forbids)[0], {"type": "E"})


def test_matches_asks_for_all_that_a_value_names() -> None:
    inner = {"initial": "m", "states": {"m": {}, "n": {}}}
    chart = Chart.of({"type": "parallel", "states": {"a": inner, "b": inner}})
    snapshot, _ = start(chart)
    assert matches(chart, snapshot, "a.m")
    assert matches(chart, snapshot, {"a": "m", "b": "m"})
    assert not matches(chart, snapshot, {"a": {}})  # in XState too: the value of `a` is a name
    assert not matches(chart, snapshot, {"a": "m", "b": "n"})


@pytest.mark.parametrize("event", ["PAY", None, {}, {"type": ""}, {"type": 5}, {"amount": 1}, {"type": "*"}, ["type"]])
def test_what_is_no_event_is_refused(event: Any) -> None:
    snapshot, _ = start({"initial": "a", "states": {"a": {}}})
    with pytest.raises(BadInput) as caught:
        step({"initial": "a", "states": {"a": {}}}, snapshot, event)
    assert caught.value.code == "chart.event"


def test_every_action_of_xstate_is_an_effect_or_happens_inside() -> None:
    chart = {
        "initial": "a",
        "context": {"n": 1},
        "states": {
            "a": {
                "invoke": {"id": "kid", "src": "svc", "onSnapshot": {"actions": "seen"}},
                "on": {
                    "E": {
                        "actions": [
                            {"type": "plain", "params": {"p": 1}},
                            {"type": "xstate.assign", "assignment": {"n": 2}},
                            "after",
                            {"type": "xstate.sendTo", "to": "kid", "event": {"type": "HI"}},
                            {"type": "sendTo", "to": PARENT, "event": {"type": "UP"}},
                            {
                                "type": "xstate.sendParent",
                                "params": {"event": {"type": "UP2"}, "delay": "2s", "id": "up"},
                            },
                            {"type": "emit", "event": {"type": "told"}},
                            {"type": "xstate.log", "value": "hello", "label": "l"},
                            {"type": "xstate.log"},
                            {"type": "raise", "event": {"type": "R"}, "delay": 7},
                            {"type": "raise", "event": {"type": "NOW"}},
                            {"type": "cancel", "sendId": "up"},
                            {"type": "xstate.spawnChild", "src": "svc", "id": "two", "input": 5},
                            {"type": "xstate.stopChild", "id": "two"},
                            {"type": "xstate.sendTo", "to": "#_internal", "event": {"type": "SELF"}},
                        ]
                    },
                    "NOW": {"actions": "now"},
                    "SELF": {"actions": "self"},
                },
            }
        },
    }
    snapshot, effects = start(chart)
    assert effects == [Invoke("kid", "svc", None, 1, True)]
    event = {"type": "E"}
    snapshot, effects = step(chart, snapshot, event, 100)
    assert effects == [
        Act("plain", {"p": 1}, {"n": 1}, event),
        Act("after", None, {"n": 2}, event),
        Send("kid", {"type": "HI"}),
        Send(PARENT, {"type": "UP"}),
        Delay("up", 2_100, {"type": "UP2"}, PARENT),
        Emit({"type": "told"}),
        Log("hello", "l"),
        Log({"context": {"n": 2}, "event": event}),
        Delay("xstate.delayed.2", 107, {"type": "R"}),
        Cancel("up"),
        Invoke("two", "svc", 5, 3),
        Stop("two", 3),
        Act("now", None, {"n": 2}, {"type": "NOW"}),
        Act("self", None, {"n": 2}, {"type": "SELF"}),
    ]
    assert list(snapshot["children"]) == ["kid"]
    assert acts(step(chart, snapshot, snapshot_event("kid", {"status": "active"}))[1]) == ["seen"]


def test_a_delayed_send_to_another_is_an_effect_when_it_is_due() -> None:
    send = {"type": "xstate.sendTo", "to": "kid", "event": {"type": "HI"}, "delay": 5, "id": "s"}
    chart = {"initial": "a", "states": {"a": {"invoke": {"id": "kid", "src": "svc"}, "entry": send}}}
    snapshot, effects = start(chart)
    assert effects == [Delay("s", 5, {"type": "HI"}, "kid"), Invoke("kid", "svc", None, 1)]
    snapshot, effects = fire(chart, snapshot, "s", 5)
    assert effects == [Send("kid", {"type": "HI"})]
    assert snapshot["pending"] == []


def test_an_actor_that_is_not_there_can_not_be_sent_to() -> None:
    chart = {
        "initial": "a",
        "states": {"a": {"on": {"E": {"actions": {"type": "xstate.sendTo", "to": "kid", "event": {"type": "HI"}}}}}},
    }
    snapshot, _ = start(chart)
    with pytest.raises(BadChart, match=r"^states\.a\.on\.E\.actions\.to: there is no actor 'kid' now"):
        step(chart, snapshot, {"type": "E"})


def test_named_actions_may_stand_for_others() -> None:
    names = Implementations(
        actions={"both": ["one", {"type": "xstate.raise", "event": {"type": "R"}}], "one": None},
        guards={"is": {"type": "not", "guard": "isnt"}, "isnt": lambda context, event, params: False},
        enqueues={
            "choose": lambda context, event, params, check: ["one"] if check("is") else [],
        },
    )
    config = {"initial": "a", "states": {"a": {"on": {"E": {"actions": ["both", "choose"]}, "R": "b"}}, "b": {}}}
    chart = Chart.of(config, implementations=names)
    snapshot, effects = stepped(chart, "E")
    assert (snapshot["value"], acts(effects)) == ("b", ["one", "one"])


def test_data_in_the_actions_of_a_function_is_taken_as_it_stands() -> None:
    data = {"x": [{"$call": "nope"}]}
    checked = []

    def tell(context: Any, event: Any, params: Any, check: Any) -> list[Any]:
        checked.append(check({"type": "is", "params": data}))
        said = {"type": "said", "data": data, "of": context["made"]}
        return [
            {"type": "assign", "assignment": {"kept": {"in": data}}},
            {"type": "emit", "event": said},
            {"type": "enqueueActions", "actions": [{"guard": {"type": "is", "params": data}, "actions": DO}]},
            {"type": "xstate.raise", "event": {"type": "DONE", "data": data}, "delay": 10},
        ]

    names = Implementations(
        enqueues={"tell": tell},
        guards={"is": lambda context, event, params: params == data},
        values={"two": lambda context, event, params: 2},
    )
    assigned = {"type": "assign", "assignment": {"made": {"$call": "two"}}}
    config = {"initial": "a", "context": {}, "states": {"a": {"on": {"E": {"actions": [assigned, "tell"]}}}}}
    snapshot, effects = stepped(Chart.of(config, implementations=names), "E")
    assert snapshot["context"] == {"made": 2, "kept": {"in": data}, "whole": 2}
    assert Emit({"type": "said", "data": data, "of": 2}) in effects
    assert snapshot["pending"][0]["event"]["data"] == data
    assert checked == [True]


DO = [{"type": "assign", "assignment": {"whole": {"$call": "two"}}}]


def test_the_context_may_be_made_from_the_input() -> None:
    names = Implementations(values={"made": lambda context, event, params: {"n": event["input"]["n"] + params}})
    config = {"initial": "a", "context": {"$call": "made", "params": 1}, "states": {"a": {}}}
    snapshot, _ = start(Chart.of(config, implementations=names), {"n": 4})
    assert snapshot["context"] == {"n": 5}


def test_a_function_that_makes_no_context_or_no_changes_is_named() -> None:
    names = Implementations(values={"made": lambda context, event, params: 5}, assigns={"set": lambda *given: None})  # type: ignore[arg-type, return-value]
    with pytest.raises(BadChart, match=r"^context: 5 is not a mapping"):
        start(Chart.of({"initial": "a", "context": {"$call": "made"}, "states": {"a": {}}}, implementations=names))
    with pytest.raises(BadChart, match=r"^states\.a\.entry: 'set' answered None, not a mapping of changes"):
        start(Chart.of({"initial": "a", "states": {"a": {"entry": "set"}}}, implementations=names))


def test_an_error_of_an_actor_that_nobody_takes_ends_the_chart() -> None:
    chart = {"initial": "a", "states": {"a": {"invoke": {"id": "kid", "src": "svc"}, "after": {"5": "b"}}, "b": {}}}
    snapshot, _ = start(chart)
    snapshot, effects = step(chart, snapshot, error_event("kid", {"why": "broke"}))
    assert (snapshot["status"], snapshot["error"]) == ("error", {"why": "broke"})
    assert (snapshot["children"], snapshot["pending"]) == ({}, [])
    assert effects == [Stop("kid", 1), Cancel("xstate.after.5.(machine).a")]


def test_a_chart_that_is_stopped_has_no_actors_and_delays() -> None:
    chart = {
        "initial": "a",
        "states": {"a": {"exit": "never", "invoke": {"id": "kid", "src": "svc"}, "after": {"5": "b"}}, "b": {}},
    }
    snapshot, effects = stepped(chart, "xstate.stop")
    assert snapshot["status"] == "stopped"
    assert effects == [Stop("kid", 1), Cancel("xstate.after.5.(machine).a")]


def test_errors_of_the_callers_functions_are_the_callers() -> None:
    def broken(context: Any, event: Any, params: Any) -> bool:
        raise KeyError("mine")

    config = {"initial": "a", "states": {"a": {"on": {"E": {"guard": "broken", "target": "a"}}}}}
    chart = Chart.of(config, implementations=Implementations(guards={"broken": broken}))
    with pytest.raises(KeyError, match="mine"):
        stepped(chart, "E")


def test_states_that_may_be_gone_to_by_name() -> None:
    chart = {
        "initial": "a",
        "states": {
            "a": {},
            "b": {"id": "bee", "route": {"actions": "went"}},
            "c": {"id": "sea", "route": {"guard": "no"}},
        },
    }
    made = Chart.of(chart, implementations={"guards": {"no": lambda context, event, params: False}})
    snapshot, effects = stepped(made, {"type": "xstate.route", "to": "#bee"})
    assert (snapshot["value"], acts(effects)) == ("b", ["went"])
    assert stepped(made, {"type": "xstate.route", "to": "#sea"})[0]["value"] == "a"


@pytest.mark.parametrize(("initial", "said"), [("a", "in a"), ("h", "elsewhere")])
def test_before_it_has_begun_a_chart_is_in_its_initial_states_and_not_where_a_history_leads(
    initial: str, said: str
) -> None:
    """As in XState, whose value of that moment has the history's own name in it."""
    guarded = {
        "guard": {"type": "xstate.stateIn", "stateValue": "a"},
        "actions": [{"type": "xstate.emit", "event": {"type": "in a"}}],
        "else": [{"type": "xstate.emit", "event": {"type": "elsewhere"}}],
    }
    chart = Chart.of(
        {
            "id": "c",
            "initial": initial,
            "states": {
                "a": {"entry": {"type": "xstate.enqueueActions", "actions": [guarded]}},
                "h": {"type": "history", "target": "a"},
            },
        }
    )
    snapshot, effects = start(chart)
    assert snapshot["value"] == "a"
    assert effects == [Emit({"type": said})]
