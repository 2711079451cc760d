"""Charts with junk in them: whatever it is and wherever it is, they are read or refused with a path, and nothing else."""

import copy
import random
import traceback
from typing import Any

import pytest

from tests.xstate.chart_cases import case
from tests.xstate.chart_names import NAMES
from wakeful.chart import Chart, start, step
from wakeful.values.errors import BadChart, LimitExceeded

JUNK: tuple[Any, ...] = (
    *(None, 0, -1, 1.5, True, False, "", "a", "*", ".", "..", "#", "#r", "#.a", "\\", "a.b", "xstate.raise"),
    *([], {}, [None], {"type": None}, {"type": "xstate.raise"}, {"$call": "told"}, {"$call": 5}, {"target": {}}, [[]]),
    *({"type": "and"}, {"type": "xstate.not"}, {"": {}}, {5: 5}, object(), float("nan"), float("inf"), {"states": {}}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inside for place in places(one, (*path, key)))]


def spoiled(config: Any, dice: random.Random) -> Any:
    """The config with one thing replaced, removed or added."""
    made = copy.deepcopy(config)
    path = dice.choice(places(made)[1:])
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    roll = dice.random()
    if roll < 0.6:
        inside[path[-1]] = dice.choice(JUNK)
    elif roll < 0.8:
        del inside[path[-1]]
    elif isinstance(inside, dict):
        inside[dice.choice(("on", "after", "entry", "invoke", "initial", "target", "guard", "zz"))] = dice.choice(JUNK)
    return made


def failure(config: Any) -> str | None:
    """What went wrong otherwise than it may, if anything did."""
    try:
        chart = Chart.of(config, implementations=NAMES)
        snapshot, _ = start(chart)
        step(chart, snapshot, {"type": "A"})
    except BadChart as error:
        return None if ": " in error.message else f"no path: {error}"
    except LimitExceeded:
        return None
    except Exception as error:
        # The names' own functions may get other params than they are made for; nothing else may fail.
        last = traceback.extract_tb(error.__traceback__)[-1]
        return None if last.filename.endswith("chart_names.py") else f"{error!r} at {last.filename}:{last.lineno}"
    return None


@pytest.mark.parametrize("seed", range(40))
def test_junk_is_read_or_refused(seed: int) -> None:
    dice = random.Random(seed)
    config = case(seed)["config"]
    assert [found for found in (failure(spoiled(config, dice)) for _ in range(25)) if found] == []


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: "an object" if type(junk) is object else repr(junk))
def test_junk_alone_is_refused(junk: Any) -> None:
    if isinstance(junk, dict) and junk in ({}, {"states": {}}, {"type": None}):
        assert start(junk)[0]["value"] == {}
        return
    with pytest.raises(BadChart):
        Chart.of(junk)
