"""The cost of telemetry can be measured: the benchmark does what it says."""

import pytest

from bench import one, telemetry
from bench.sizes import TINY


def test_the_benchmark_runs_off_on_and_with_every_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "ROUNDS", 1)
    measures = {measure.name: measure for measure in one.run("telemetry", "memory:", TINY)}
    assert list(measures) == ["telemetry.off", "telemetry.on", "telemetry.all"]
    assert all(measure.value > 0 for measure in measures.values())
    # Each alarm is made, set and fired: at least a call, a turn and a commit of both, and a fire, a turn and a commit.
    spans = int(measures["telemetry.all"].note.split(", ")[1].split(" ")[0].replace(",", ""))
    assert spans >= 9 * TINY.fire_count
