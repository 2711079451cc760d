"""`wakeful backfill` that was cut off and is run again: what it had begun goes on, and nothing runs twice."""

import pytest

from tests.unit import cli_stage

PROGRAM = """
from wakeful import App, DurableObject, Run, every

app = App()

@app.object
class Report(DurableObject):
    @every.hour
    async def make(self, run: Run):
        if run.nominal_at.hour >= 2:
            raise RuntimeError("not yet")

    async def start(self):
        pass
"""
wakeful = pytest.fixture(cli_stage.make_stage)
RANGE = ("Report", "a", "make", "--from", "2026-01-01T00:00", "--to", "2026-01-01T06:00", "--json")


def test_the_same_range_before_it_is_over_begins_nothing(wakeful: cli_stage.Stage) -> None:
    (wakeful.path / "app.py").write_text(PROGRAM)
    with wakeful.running():
        assert wakeful("call", "Report", "a", "start").code == 0
        first = wakeful("backfill", *RANGE)
        assert (first.code, first.json) == (0, {"runs": 6, "was_under_way": False}), first.err
        again = wakeful("backfill", *RANGE)
        assert again.code == 0, again.err
        assert again.json["was_under_way"] is True
        assert 4 <= again.json["runs"] <= 6
        words = wakeful("backfill", *RANGE[:-1])
        assert "had been begun already" in words.words
        lanes = [row for row in wakeful("due", "--json").json if "backfill" in str(row)]
        assert len(lanes) == 1
        other = wakeful("backfill", *RANGE[:-2], "2026-01-01T05:00", "--json")
        assert other.json == {"runs": 5, "was_under_way": False}
