"""What the SCXML recommendation asserts, where it maps onto XState's config: vectors in tests/vectors/scxml.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from wakeful.chart import Act, Chart, Effect, Implementations, fire, start, step

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "scxml.json").read_text(encoding="utf-8"))
NAMES = Implementations(
    guards={
        "yes": lambda context, event, params: True,
        "no": lambda context, event, params: False,
        "two": lambda context, event, params: context["n"] >= 2,
    },
    assigns={
        "inc": lambda context, event, params: {"n": context["n"] + 1},
        "keep": lambda context, event, params: {"kept": event["output"]},
    },
)


def done(chart: Chart, snapshot: dict[str, Any], do: Any, now: int) -> tuple[dict[str, Any], list[Effect], int]:
    if "send" in do:
        return *step(chart, snapshot, do["send"], now), now
    end = now + do["tick"]
    effects: list[Effect] = []
    while due := [one for one in snapshot["pending"] if one["due_at"] <= end]:
        first = min(due, key=lambda one: one["due_at"])
        snapshot, more = fire(chart, snapshot, first["id"], first["due_at"])
        effects += more
    return snapshot, effects, end


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{one['section']} {one['says']}" for one in VECTORS])
def test_scxml(vector: dict[str, Any]) -> None:
    chart = Chart.of(vector["config"], implementations=NAMES)
    snapshot, effects = start(chart)
    now = 0
    for place, wanted in enumerate(vector["steps"]):
        if wanted["do"] != "start":
            effects = effects if place == 0 else []
            snapshot, more, now = done(chart, json.loads(json.dumps(snapshot)), wanted["do"], now)
            effects = effects + more
        assert snapshot["value"] == wanted["value"], place
        assert [effect.name for effect in effects if isinstance(effect, Act)] == wanted["acts"], place
        assert snapshot["status"] == wanted.get("status", "active")
        if "context" in wanted:
            assert snapshot["context"] == wanted["context"]
        if "children" in wanted:
            assert list(snapshot["children"]) == wanted["children"]


def test_the_vectors_cover_what_applies() -> None:
    sections = {one["section"] for one in VECTORS}
    assert len(VECTORS) >= 45
    assert {"3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10", "3.12.1", "3.13", "4.2", "5.5", "6.2", "6.4"} <= sections
