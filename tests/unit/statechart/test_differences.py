"""Where the step and XState part ways on purpose: the minimal examples of decision 17."""

import json
from typing import Any

from wakeful.chart import Act, Chart, start, step


def ran(config: dict[str, Any], *events: str) -> tuple[Any, list[str]]:
    """The value after events, and the names of the actions that the last one ran."""
    chart = Chart.of(config)
    snapshot, effects = start(chart)
    for event in events:
        snapshot, effects = step(chart, json.loads(json.dumps(snapshot)), {"type": event})
    return snapshot["value"], [effect.name for effect in effects if isinstance(effect, Act)]


def test_a_parallel_state_left_by_way_of_its_own_history_is_entered_again() -> None:
    """XState leaves `p`, and then works out from the history it has just written that `p` was not left."""
    config = {
        "initial": "p",
        "states": {
            "p": {
                "type": "parallel",
                "entry": "in p",
                "exit": "out p",
                "states": {"x": {"on": {"BACK": "h"}}, "y": {}, "h": {"type": "history"}},
            }
        },
    }
    assert ran(config, "BACK") == ({"p": {"x": {}, "y": {}}}, ["out p", "in p"])


def test_a_way_back_to_itself_does_not_hold_what_another_region_leaves() -> None:
    """XState takes both: `y` leaves everything, `k1` is entered by itself, and `k` around it is not."""
    config = {
        "type": "parallel",
        "states": {
            "x": {
                "type": "parallel",
                "states": {
                    "k": {"initial": "k1", "states": {"k1": {"on": {"E": "h"}}, "h": {"type": "history"}}},
                    "l": {},
                },
            },
            "y": {"on": {"E": {"target": "x", "actions": "from y"}}},
        },
    }
    assert ran(config, "E") == ({"x": {"k": "k1", "l": {}}, "y": {}}, [])


def test_a_history_is_never_active_itself() -> None:
    """XState makes `h` active: the default of `hh` is the initial state, and that is a history."""
    config = {
        "initial": "h",
        "states": {
            "a": {"on": {"E": "b"}},
            "b": {"on": {"E": "hh"}},
            "h": {"type": "history", "target": "a"},
            "hh": {"type": "history"},
        },
    }
    assert ran(config, "E", "E") == ("a", [])
