"""Snapshots that the real XState persisted in the middle of a script go on here as they went on there.

Recorded with xstate 5.33.3 on charts of the generator in tests/xstate: at a random place of the script, its persisted
snapshot and its system's, and what it answered to the rest.
"""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.xstate.chart_compare import Runner
from tests.xstate.chart_names import NAMES
from wakeful.importers import xstate
from wakeful.importers.machine_import import complete, fit_delays

with lzma.open(Path(__file__).parent.parent.parent / "vectors" / "xstate_persisted.jsonl.xz", "rt") as file:
    CASES = [json.loads(line) for line in file]


def test_there_are_enough() -> None:
    assert len(CASES) >= 100
    assert sum(bool(case["timers"]) for case in CASES) > 50
    assert sum(bool(case["persisted"]["historyValue"]) for case in CASES) > 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["seed"]))
def test_it_goes_on_as_in_xstate(case: dict[str, Any]) -> None:
    runner = Runner(case["config"], NAMES)
    found = xstate.read({"snapshot": case["persisted"], "system": case["system"]})
    pending = fit_delays(runner.chart, found, case["now"])
    snapshot, _ = complete(runner.chart, {**found.snapshot, "pending": pending}, found, now=case["now"], restarts=True)
    assert sorted([one["id"], one["due_at"]] for one in snapshot["pending"]) == case["timers"]
    runner.snapshot, runner.now = json.loads(json.dumps(snapshot)), case["now"]
    for entry, told in zip(case["script"], case["said"], strict=True):
        ours = runner.entry(entry)
        assert {key: ours[key] for key in told} == told
