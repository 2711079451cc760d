"""The measuring of links does what it says: two processes, every wire that needs nothing installed."""

import pytest

from bench import links


@pytest.mark.parametrize("wire", ["tcp", "unix", "streams"])
def test_round_trips_between_two_processes_are_counted(wire: str) -> None:
    measures = links._between_processes("asyncio", wire, 100)
    assert [measure.name for measure in measures] == [f"links.asyncio.{wire}.1", f"links.asyncio.{wire}.64"]
    assert all(measure.value > 0 and measure.unit == "/s" for measure in measures)
