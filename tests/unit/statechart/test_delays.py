"""Delays: what they are called, when they are due, and that they go with their state."""

from typing import Any

import pytest

from wakeful.chart import Cancel, Chart, Delay, Implementations, fire, start, step


def waiting(**after: Any) -> dict[str, Any]:
    return {"id": "m", "initial": "a", "states": {"a": {"after": after, "on": {"GO": "b"}}, "b": {}}}


@pytest.mark.parametrize(
    ("key", "id", "delay_ms"),
    [
        ("1000", "xstate.after.1000.m.a", 1_000),
        ("1000.0", "xstate.after.1000.m.a", 1_000),
        ("2.5", "xstate.after.2.5.m.a", 2),
        ("0", "xstate.after.0.m.a", 0),
        ("24h", "xstate.after.24h.m.a", 86_400_000),
        ("1h30m", "xstate.after.1h30m.m.a", 5_400_000),
        ("soon", "xstate.after.soon.m.a", 70),
        ("text", "xstate.after.text.m.a", 2_000),
        ("asked", "xstate.after.asked.m.a", 9),
        ("5s", "xstate.after.5s.m.a", 1),  # a name given by the caller comes before the text's own meaning
    ],
)
def test_numbers_texts_and_names(key: str, id: str, delay_ms: int) -> None:
    names = Implementations(
        delays={"soon": 70, "text": "2s", "asked": lambda context, event, params: context["n"], "5s": 1}
    )
    chart = Chart.of({**waiting(**{key: "b"}), "context": {"n": 9}}, implementations=names)
    snapshot, effects = start(chart, now=10_000)
    assert effects == [Delay(id, 10_000 + delay_ms, {"type": id})]
    assert [(one["id"], one["due_at"]) for one in snapshot["pending"]] == [(id, 10_000 + delay_ms)]
    assert fire(chart, snapshot, id, 10_000 + delay_ms)[0]["value"] == "b"


def test_several_delays_of_a_state_are_set_as_javascript_lists_them_and_cleared_with_it() -> None:
    snapshot, effects = start(waiting(**{"1m": "b", "50": "b", "7": "b"}))
    ids = [effect.id for effect in effects if isinstance(effect, Delay)]
    assert ids == ["xstate.after.7.m.a", "xstate.after.50.m.a", "xstate.after.1m.m.a"]
    snapshot, effects = step(waiting(**{"1m": "b", "50": "b", "7": "b"}), snapshot, {"type": "GO"})
    assert effects == [Cancel(id) for id in ids]
    assert snapshot["pending"] == []


def test_a_delay_that_fired_is_not_pending_even_if_its_guard_said_no() -> None:
    config = waiting(**{"5": {"target": "b", "guard": "no"}, "9": "b"})
    chart = Chart.of(config, implementations={"guards": {"no": lambda context, event, params: False}})
    snapshot, _ = start(chart)
    snapshot, effects = fire(chart, snapshot, "xstate.after.5.m.a", 5)
    assert (snapshot["value"], effects) == ("a", [])
    assert [one["id"] for one in snapshot["pending"]] == ["xstate.after.9.m.a"]


def test_a_state_that_is_entered_again_waits_anew() -> None:
    config = {
        "id": "m",
        "initial": "a",
        "states": {"a": {"after": {"10": "b"}, "on": {"AGAIN": {"target": "a", "reenter": True}}}, "b": {}},
    }
    snapshot, _ = start(config)
    snapshot, effects = step(config, snapshot, {"type": "AGAIN"}, 7)
    assert effects == [Cancel("xstate.after.10.m.a"), Delay("xstate.after.10.m.a", 17, {"type": "xstate.after.10.m.a"})]
    assert [one["due_at"] for one in snapshot["pending"]] == [17]


def test_of_two_with_the_same_id_the_second_takes_the_place_of_the_first() -> None:
    """Not so in XState, where both fire and the first can't be cancelled any more."""
    again = {"type": "xstate.raise", "event": {"type": "R"}, "delay": 10, "id": "r"}
    config = {"initial": "a", "states": {"a": {"on": {"E": {"actions": again}}}}}
    snapshot, _ = start(config)
    snapshot, _ = step(config, snapshot, {"type": "E"}, 0)
    snapshot, effects = step(config, snapshot, {"type": "E"}, 4)
    assert effects == [Delay("r", 14, {"type": "R"})]
    assert [one["due_at"] for one in snapshot["pending"]] == [14]


def test_ids_that_the_chart_does_not_give_are_never_given_twice() -> None:
    again = {"type": "xstate.raise", "event": {"type": "R"}, "delay": 10}
    config = {"initial": "a", "states": {"a": {"on": {"E": {"actions": [again, again]}}}}}
    snapshot, _ = start(config)
    snapshot, _ = step(config, snapshot, {"type": "E"})
    snapshot, _ = fire(config, snapshot, "xstate.delayed.2", 10)
    snapshot, _ = step(config, snapshot, {"type": "E"})
    assert [one["id"] for one in snapshot["pending"]] == ["xstate.delayed.1", "xstate.delayed.3", "xstate.delayed.4"]


def test_a_chart_that_is_done_waits_for_nothing() -> None:
    config = {
        "id": "m",
        "initial": "a",
        "after": {"99": {}},
        "states": {
            "a": {"entry": {"type": "raise", "event": {"type": "R"}, "delay": 5, "id": "r"}, "on": {"GO": "f"}},
            "f": {"type": "final"},
        },
    }
    snapshot, _ = start(config)
    snapshot, effects = step(config, snapshot, {"type": "GO"})
    assert (snapshot["status"], snapshot["pending"]) == ("done", [])
    assert effects == [Cancel("xstate.after.99.m"), Cancel("r")]
