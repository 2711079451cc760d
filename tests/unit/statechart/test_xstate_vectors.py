"""What the real XState answered to random charts, recorded: the step answers the same. `make xstate` records anew."""

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.xstate.chart_cases import case
from tests.xstate.chart_compare import Runner, differs
from tests.xstate.chart_names import NAMES

VECTORS = Path(__file__).parents[2] / "vectors" / "xstate" / "cases.jsonl.xz"
CHUNKS = 8


def recorded() -> list[dict[str, Any]]:
    text = lzma.decompress(VECTORS.read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_step_answers_as_xstate_did(chunk: int) -> None:
    wrong = []
    for one in recorded()[chunk::CHUNKS]:
        found = differs(one, one["said"], NAMES)
        if found is not None:
            wrong.append(f"seed {one['seed']} at {found[1]}: {found[0]}"[:500])
    assert not wrong, "\n".join(wrong[:5])


def test_the_record_has_all_parts_of_the_language() -> None:
    cases = recorded()
    assert len(cases) >= 1_000
    seen = Counter[str]()
    for one in cases:
        text = json.dumps(one["config"])
        for word in (
            *("parallel", "history", "deep", "final", "always", "after", "onDone", "onError", "onSnapshot", "reenter"),
            *("xstate.raise", "xstate.sendTo", "xstate.cancel", "xstate.emit", "xstate.log", "xstate.enqueueActions"),
            *(
                "xstate.assign",
                "xstate.and",
                "xstate.or",
                "xstate.not",
                "xstate.stateIn",
                "xstate.spawnChild",
                "invoke",
            ),
            *("tags", "meta", "output", "delay", "24h", "grown", '"*"', "a.*", '": {}', "#_internal", "$call", "pick"),
        ):
            seen[word] += word in text
        for answer in one["said"]:
            seen["status " + answer["status"]] += 1
            seen["fired"] += any("fired" in made for made in answer["made"])
            seen["threw"] += answer["threw"] is not None
    rare = {word: count for word, count in seen.items() if count < 10}
    assert not rare


def test_a_step_that_differs_is_noticed() -> None:
    """The comparison has teeth: each answer, changed a little, is found to differ."""
    one = next(
        one for one in recorded() if len(one["said"]) > 5 and one["said"][3]["made"] and one["said"][3]["timers"]
    )
    assert differs(one, one["said"], NAMES) is None
    for key, value in (
        ("value", "zz"),
        ("made", []),
        ("timers", []),
        ("tags", ["zz"]),
        ("status", "done"),
        ("can", ["zz"]),
    ):
        said = [*one["said"][:3], {**one["said"][3], key: value}]
        found = differs(one, said, NAMES)
        assert found is not None
        assert found[1] == 3


def test_the_generator_is_repeatable() -> None:
    assert case(7) == case(7) != case(8)
    runner = Runner(case(7)["config"], NAMES)
    assert runner.start(None)["status"] in ("active", "done")
