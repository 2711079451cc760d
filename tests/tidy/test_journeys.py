"""Four journeys through the code do not get longer: who reads along passes no more files than are written down here."""

import asyncio

import pytest

from bench.journeys import JOURNEYS, Trace, travel

FILES_MAX = {"schedules.add": 30, "cron": 33, "call to another node": 26, "statechart delay": 35}


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey_passes_no_more_files(name: str) -> None:
    trace = asyncio.run(travel(name))
    assert "runtime/activation.py" in trace.functions, "it went nowhere"
    assert len(trace.functions) <= FILES_MAX[name], sorted(trace.functions)


def test_a_trace_counts_files_and_hops() -> None:
    from wakeful.values.ids import ObjectId, shard_of

    with Trace() as trace:
        shard_of(ObjectId("Cell", "a"))
    assert set(trace.functions) == {"values/ids.py"}
    assert trace.hops == 0
